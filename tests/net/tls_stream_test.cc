// The TLS of a connection without sockets: every cut, every damaged byte, every piece size.
#include "src/net/tls_stream.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <openssl/ssl.h>

#include <algorithm>
#include <fstream>
#include <functional>
#include <utility>

#include "tests/net/tls_peer.h"
#include "tests/support/temp_dir.h"

namespace kmirror::net {
namespace {

using fetcher::TlsOptions;
using test::TempDir;
using ::testing::AllOf;
using testing::Authority;
using testing::Encrypted;
using ::testing::HasSubstr;
using testing::Identity;
using testing::MakeTlsServer;
using ::testing::Not;
using ::testing::StartsWith;
using testing::TlsServer;
using testing::TlsServerOptions;

using Bytes = std::vector<uint8_t>;
using Outcome = TlsStream::Outcome;

TlsOptions Trusting(const Authority& authority) {
  TlsOptions options;
  options.truststore_certificates = authority.certificate();
  return options;
}

std::unique_ptr<TlsStream> Client(const TlsOptions& options, const std::string& host) {
  auto context = TlsContext::Load(options);
  EXPECT_TRUE(context.ok()) << context.status().ToString();
  auto stream = TlsStream::Create(*context, host);
  EXPECT_TRUE(stream.ok());
  return std::move(*stream);
}

std::unique_ptr<TlsStream> Connect(const std::shared_ptr<const TlsContext>& context) {
  auto stream = TlsStream::Create(context, "localhost");
  EXPECT_TRUE(stream.ok());
  return std::move(*stream);
}

// The server's side in memory.
class Server {
 public:
  explicit Server(ssl_ctx_st* context) : ssl_(SSL_new(context)) {
    SSL_set_bio(ssl_, BIO_new(BIO_s_mem()), BIO_new(BIO_s_mem()));
    SSL_set_accept_state(ssl_);
  }
  ~Server() { SSL_free(ssl_); }

  void Hear(const Bytes& bytes) {
    if (!bytes.empty()) BIO_write(SSL_get_rbio(ssl_), bytes.data(), static_cast<int>(bytes.size()));
  }
  void Step() { SSL_do_handshake(ssl_); }
  Bytes Read() {
    Bytes all;
    uint8_t piece[4096];
    for (int got; (got = SSL_read(ssl_, piece, sizeof piece)) > 0;) {
      all.insert(all.end(), piece, piece + got);
    }
    return all;
  }
  void Say(const Bytes& bytes) { SSL_write(ssl_, bytes.data(), static_cast<int>(bytes.size())); }
  void ChangeKeys() {
    SSL_key_update(ssl_, SSL_KEY_UPDATE_REQUESTED);
    SSL_do_handshake(ssl_);
  }
  void CloseNotify() { SSL_shutdown(ssl_); }
  Bytes Output() {
    char* text = nullptr;
    const long size = BIO_get_mem_data(SSL_get_wbio(ssl_), &text);
    Bytes out(text, text + size);
    (void)BIO_reset(SSL_get_wbio(ssl_));
    return out;
  }
  ssl_st* ssl() { return ssl_; }

 private:
  ssl_st* ssl_;
};

void Feed(TlsStream& stream, const Bytes& bytes, const std::function<void()>& after_each) {
  for (size_t at = 0; at < bytes.size();) {
    const std::span<uint8_t> room = stream.InputRoom(bytes.size());
    const size_t step = std::min(room.size(), bytes.size() - at);
    std::copy_n(bytes.begin() + static_cast<std::ptrdiff_t>(at), step, room.begin());
    stream.Received(step);
    at += step;
    after_each();
    if (stream.HasInput()) return;  // it failed
  }
}

// Both sides until neither has more to say; what the client came to.
Outcome Agree(TlsStream& client, Server& server) {
  Outcome outcome = client.Handshake();
  for (int i = 0; i < 10; ++i) {
    Bytes said;
    client.TakeOutput(&said);
    server.Hear(said);
    server.Step();
    const Bytes answer = server.Output();
    if (answer.empty() || outcome == Outcome::kFailed) break;
    Feed(client, answer, [&] {
      uint8_t none[1];
      size_t got = 0;
      outcome = outcome == Outcome::kOk ? client.Read(none, &got) : client.Handshake();
      if (outcome == Outcome::kOk) client.Read(none, &got);  // takes what else was there
    });
    if (outcome != Outcome::kFailed && outcome != Outcome::kNeedsInput) outcome = Outcome::kOk;
  }
  return outcome;
}

Bytes ReadAll(TlsStream& client, size_t room = 100'000) {
  Bytes all;
  for (;;) {
    Bytes piece(room);
    size_t got = 0;
    if (client.Read(piece, &got) != Outcome::kOk) return all;
    all.insert(all.end(), piece.begin(), piece.begin() + static_cast<std::ptrdiff_t>(got));
  }
}

Bytes Pattern(size_t size) {
  Bytes bytes(size);
  for (size_t i = 0; i < size; ++i) bytes[i] = static_cast<uint8_t>(i * 31 >> 7);
  return bytes;
}

class TlsStreamTest : public ::testing::Test {
 protected:
  std::string Refusal(const TlsOptions& options, const std::string& host, TlsServer server) {
    auto client = Client(options, host);
    Server broker(server.get());
    EXPECT_EQ(Agree(*client, broker), Outcome::kFailed);
    EXPECT_EQ(client->error().code(), ErrorCode::kDisconnected);
    return client->error().message();
  }

  Authority authority_{"the authority"};
  TempDir dir_;
};

TEST_F(TlsStreamTest, CarriesBytesBothWaysInAnyPieces) {
  for (const int version : {TLS1_2_VERSION, TLS1_3_VERSION}) {
    TlsServer server = MakeTlsServer(authority_.Issue(), {.version = version});
    auto client = Client(Trusting(authority_), "localhost");
    Server broker(server.get());
    ASSERT_NE(Agree(*client, broker), Outcome::kFailed) << client->error().ToString();
    EXPECT_STREQ(SSL_get_servername(broker.ssl(), TLSEXT_NAMETYPE_host_name), "localhost");
    ASSERT_TRUE(client->Write(Pattern(70'000)).ok());
    Bytes said;
    client->TakeOutput(&said);
    EXPECT_FALSE(client->HasOutput());
    broker.Hear(said);
    EXPECT_EQ(broker.Read(), Pattern(70'000));
    for (const size_t room : {size_t{1}, size_t{16384}, size_t{1} << 20}) {
      broker.Say(Pattern(room == 1 ? 1000 : 700'000));
      Bytes heard;
      Feed(*client, broker.Output(), [&] {
        const Bytes more = ReadAll(*client, room);
        heard.insert(heard.end(), more.begin(), more.end());
      });
      EXPECT_EQ(heard, Pattern(room == 1 ? 1000 : 700'000));
    }
  }
}

TEST_F(TlsStreamTest, AnAddressIsCheckedAndNotSentAsAName) {
  TlsServer server = MakeTlsServer(authority_.Issue());
  auto client = Client(Trusting(authority_), "127.0.0.1");
  Server broker(server.get());
  ASSERT_NE(Agree(*client, broker), Outcome::kFailed) << client->error().ToString();
  EXPECT_EQ(SSL_get_servername(broker.ssl(), TLSEXT_NAMETYPE_host_name), nullptr);
}

TEST_F(TlsStreamTest, RefusesABrokerThatIsNotWhoItShouldBe) {
  const Authority other("somebody else");
  EXPECT_THAT(Refusal(Trusting(other), "localhost", MakeTlsServer(authority_.Issue())),
              AllOf(HasSubstr("no authority that the truststore knows"),
                    HasSubstr("issued by CN=the authority")));
  EXPECT_THAT(Refusal(Trusting(authority_), "elsewhere.example", MakeTlsServer(authority_.Issue())),
              AllOf(HasSubstr("not for elsewhere.example but for localhost, 127.0.0.1")));
  EXPECT_THAT(Refusal(Trusting(authority_), "127.0.0.2", MakeTlsServer(authority_.Issue())),
              HasSubstr("not for 127.0.0.2"));
  EXPECT_THAT(
      Refusal(Trusting(authority_), "localhost", MakeTlsServer(authority_.Issue({.names = ""}))),
      HasSubstr("not for localhost but for CN=broker"));
  EXPECT_THAT(Refusal(Trusting(authority_), "localhost",
                      MakeTlsServer(authority_.Issue({.to_seconds = -60}))),
              HasSubstr("has expired on"));
  EXPECT_THAT(Refusal(Trusting(authority_), "localhost",
                      MakeTlsServer(authority_.Issue({.from_seconds = 600}))),
              HasSubstr("not valid yet"));
}

TEST_F(TlsStreamTest, ANameOfTheCertificateIsShownWithoutWhatWouldForgeALogLine) {
  const std::string message =
      Refusal(Trusting(authority_), "localhost",
              MakeTlsServer(authority_.Issue({.names = "DNS:a\" b\x01=c"})));
  EXPECT_THAT(message, HasSubstr("a? b?=c"));
}

TEST_F(TlsStreamTest, WithoutTheCheckOfTheHostTheAuthorityStillCounts) {
  TlsOptions options = Trusting(authority_);
  options.verify_host = false;
  auto client = Client(options, "elsewhere.example");
  TlsServer server = MakeTlsServer(authority_.Issue());
  Server broker(server.get());
  EXPECT_NE(Agree(*client, broker), Outcome::kFailed) << client->error().ToString();
  const Authority other("somebody else");
  options.truststore_certificates = other.certificate();
  EXPECT_THAT(Refusal(options, "localhost", MakeTlsServer(authority_.Issue())),
              HasSubstr("no authority"));
}

TEST_F(TlsStreamTest, ACertificateInTheTruststoreIsTrustedWithoutWhatSignedIt) {
  const Identity identity = authority_.Issue();
  TlsOptions options;
  options.truststore_certificates = identity.certificate;
  auto client = Client(options, "localhost");
  TlsServer server = MakeTlsServer(identity);
  Server broker(server.get());
  EXPECT_NE(Agree(*client, broker), Outcome::kFailed) << client->error().ToString();
}

TEST_F(TlsStreamTest, ShowsItsCertificateToABrokerThatAsks) {
  const TlsServerOptions asking{.client_authority = authority_.certificate()};
  const Identity ours = authority_.Issue();
  for (const int version : {TLS1_2_VERSION, TLS1_3_VERSION}) {
    TlsServerOptions options = asking;
    options.version = version;
    TlsOptions with = Trusting(authority_);
    with.keystore_key = Encrypted(ours.key, "open sesame");
    with.keystore_chain = ours.certificate;
    with.key_password = "open sesame";
    auto client = Client(with, "localhost");
    TlsServer server = MakeTlsServer(authority_.Issue(), options);
    Server broker(server.get());
    ASSERT_NE(Agree(*client, broker), Outcome::kFailed) << client->error().ToString();
    broker.Say({1, 2, 3});
    Feed(*client, broker.Output(), [&] { EXPECT_EQ(ReadAll(*client), (Bytes{1, 2, 3})); });

    EXPECT_THAT(
        Refusal(Trusting(authority_), "localhost", MakeTlsServer(authority_.Issue(), options)),
        HasSubstr("ssl.keystore"));
    const Authority stranger("stranger");
    const Identity theirs = stranger.Issue();
    TlsOptions wrong = Trusting(authority_);
    wrong.keystore_key = theirs.key;
    wrong.keystore_chain = theirs.certificate;
    EXPECT_THAT(Refusal(wrong, "localhost", MakeTlsServer(authority_.Issue(), options)),
                HasSubstr("the broker refuses our certificate"));
  }
}

TEST_F(TlsStreamTest, VersionsAndSuitesAreThoseThatWereAskedFor) {
  TlsOptions options = Trusting(authority_);
  options.tls13 = false;
  EXPECT_THAT(
      Refusal(options, "localhost", MakeTlsServer(authority_.Issue(), {.version = TLS1_3_VERSION})),
      HasSubstr("ssl.enabled.protocols"));
  options = Trusting(authority_);
  options.tls12 = false;
  EXPECT_THAT(
      Refusal(options, "localhost", MakeTlsServer(authority_.Issue(), {.version = TLS1_2_VERSION})),
      HasSubstr("ssl.enabled.protocols"));

  options = Trusting(authority_);
  options.cipher_suites = {"TLS_AES_128_GCM_SHA256", "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256"};
  for (const auto& [version, suite] :
       {std::pair(TLS1_3_VERSION, "TLS_AES_128_GCM_SHA256"),
        std::pair(TLS1_2_VERSION, "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256")}) {
    auto client = Client(options, "localhost");
    TlsServer server = MakeTlsServer(authority_.Issue(), {.version = version});
    Server broker(server.get());
    ASSERT_NE(Agree(*client, broker), Outcome::kFailed) << client->error().ToString();
    EXPECT_STREQ(client->CipherSuite(), suite);
  }
  EXPECT_THAT(
      Refusal(options, "localhost",
              MakeTlsServer(authority_.Issue(), {.version = TLS1_2_VERSION,
                                                 .suites12 = "ECDHE-ECDSA-AES256-GCM-SHA384"})),
      HasSubstr("ssl.cipher.suites"));
  // A suite of one version alone leaves the other out.
  options.cipher_suites = {"ECDHE-ECDSA-AES128-GCM-SHA256"};
  auto client = Client(options, "localhost");
  TlsServer server = MakeTlsServer(authority_.Issue());
  Server broker(server.get());
  ASSERT_NE(Agree(*client, broker), Outcome::kFailed) << client->error().ToString();
  EXPECT_STREQ(client->CipherSuite(), "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256");
}

// A handshake and then an answer of 100 bytes, the broker's bytes changed by `edit(bytes, before)`,
// `before` being how many there were already. Answers how many reached the client.
size_t Exchange(TlsStream& client, Server& broker, const std::function<void(Bytes*, size_t)>& edit,
                Bytes* heard) {
  size_t fed = 0;
  bool agreed = false, told = false;
  (void)client.Handshake();
  while (client.error().ok()) {
    Bytes said;
    client.TakeOutput(&said);
    broker.Hear(said);
    broker.Step();
    if (agreed && !told) broker.Say(Pattern(100));
    told = agreed;
    Bytes answer = broker.Output();
    edit(&answer, fed);
    if (answer.empty()) break;
    fed += answer.size();
    Feed(client, answer, [&] {
      if (!agreed) agreed = client.Handshake() == Outcome::kOk;
      if (!agreed) return;
      const Bytes more = ReadAll(client);
      heard->insert(heard->end(), more.begin(), more.end());
    });
  }
  return fed;
}

TEST_F(TlsStreamTest, ACutAtAnyByteOfAHandshakeOrAnswerIsAnIncompleteOne) {
  const Identity identity = authority_.Issue();
  for (const int version : {TLS1_2_VERSION, TLS1_3_VERSION}) {
    TlsServer server = MakeTlsServer(identity, {.version = version});
    auto context = TlsContext::Load(Trusting(authority_));
    ASSERT_TRUE(context.ok());
    for (size_t length = 0;; ++length) {
      ASSERT_LT(length, 10'000u);
      auto client = Connect(*context);
      Server broker(server.get());
      Bytes heard;
      const size_t fed = Exchange(
          *client, broker,
          [length](Bytes* bytes, size_t before) {
            bytes->resize(std::min(bytes->size(), length - before));
          },
          &heard);
      EXPECT_TRUE(client->error().ok()) << length << " " << client->error().ToString();
      if (fed < length) {
        EXPECT_EQ(heard, Pattern(100));
        EXPECT_GT(length, 500u);
        break;
      }
      EXPECT_TRUE(heard.empty() || heard == Pattern(100)) << length;
    }
  }
}

TEST_F(TlsStreamTest, ADamagedByteNeverBecomesAnAnswer) {
  TlsServer server = MakeTlsServer(authority_.Issue());
  auto context = TlsContext::Load(Trusting(authority_));
  ASSERT_TRUE(context.ok());
  size_t refused = 0;
  for (size_t at = 0;; ++at) {
    ASSERT_LT(at, 10'000u);
    auto client = Connect(*context);
    Server broker(server.get());
    Bytes heard;
    bool damaged = false;
    Exchange(
        *client, broker,
        [&](Bytes* bytes, size_t before) {
          if (at < before || at >= before + bytes->size()) return;
          (*bytes)[at - before] ^= 0x41;
          damaged = true;
        },
        &heard);
    EXPECT_TRUE(heard.empty() || heard == Pattern(100)) << at;
    refused += client->error().ok() ? 0 : 1;
    if (!damaged) break;  // beyond the last byte
  }
  EXPECT_GT(refused, 500u);
}

TEST_F(TlsStreamTest, WhatIsNoTlsIsCalledSo) {
  for (const std::string& text :
       {std::string("HTTP/1.1 400 Bad Request\r\n\r\n"), std::string("SSH-2.0-OpenSSH_9.2\r\n"),
        std::string("\0\0\0\x0a\0\0\0\x01\0\x23", 10)}) {
    auto client = Client(Trusting(authority_), "localhost");
    EXPECT_EQ(client->Handshake(), Outcome::kNeedsInput);
    Bytes bytes(text.begin(), text.end());
    bytes.resize(100);
    Outcome outcome = Outcome::kOk;
    Feed(*client, bytes, [&] { outcome = client->Handshake(); });
    EXPECT_EQ(outcome, Outcome::kFailed);
    EXPECT_THAT(client->error().message(), HasSubstr("speaks no TLS"));
  }
}

TEST_F(TlsStreamTest, NewKeysAreAnsweredAndAGoodbyeIsTold) {
  TlsServer server = MakeTlsServer(authority_.Issue(), {.version = TLS1_3_VERSION});
  auto client = Client(Trusting(authority_), "localhost");
  Server broker(server.get());
  ASSERT_NE(Agree(*client, broker), Outcome::kFailed);
  broker.ChangeKeys();
  broker.Say({1, 2, 3});
  Feed(*client, broker.Output(), [&] { EXPECT_EQ(ReadAll(*client), (Bytes{1, 2, 3})); });
  ASSERT_TRUE(client->Write(Pattern(10)).ok());  // under new keys of our own
  Bytes said;
  client->TakeOutput(&said);
  broker.Hear(said);
  EXPECT_EQ(broker.Read(), Pattern(10));

  broker.Say({4});
  broker.CloseNotify();
  Feed(*client, broker.Output(), [&] {
    EXPECT_EQ(ReadAll(*client), Bytes{4});
    uint8_t none[1];
    size_t got = 0;
    EXPECT_EQ(client->Read(none, &got), Outcome::kClosed);
  });
  client->Close();
  EXPECT_TRUE(client->HasOutput()) << "our own goodbye";
}

// ---- Options.

TEST_F(TlsStreamTest, OptionsThatAreWrongAreNamedWithoutTheirContent) {
  const Identity ours = authority_.Issue();
  const auto refusal = [&](const std::function<void(TlsOptions*)>& change) {
    TlsOptions options = Trusting(authority_);
    change(&options);
    auto context = TlsContext::Load(options);
    EXPECT_EQ(context.status().code(), ErrorCode::kInvalidConfig);
    EXPECT_THAT(context.status().message(), Not(HasSubstr("sesame")));
    EXPECT_THAT(context.status().message(), Not(HasSubstr("MIG")));
    return context.status().message();
  };
  EXPECT_THAT(refusal([](auto* o) { o->truststore_certificates = "rubbish"; }),
              StartsWith("ssl.truststore.certificates: holds no PEM certificate"));
  EXPECT_THAT(refusal([](auto* o) {
                o->truststore_certificates =
                    "-----BEGIN CERTIFICATE-----\nMIGrubbish\n-----END CERTIFICATE-----\n";
              }),
              StartsWith("ssl.truststore.certificates: certificate 1 does not decode"));
  EXPECT_THAT(refusal([](auto* o) { o->truststore_file = "/nowhere/ca.pem"; }),
              StartsWith("ssl.truststore.location: /nowhere/ca.pem: No such file"));
  EXPECT_THAT(refusal([&](auto* o) { o->truststore_file = dir_.path().string(); }),
              HasSubstr("is not a file"));
  const auto with_key = [&](TlsOptions* o) {
    o->keystore_key = ours.key;
    o->keystore_chain = ours.certificate;
  };
  EXPECT_THAT(refusal([&](auto* o) {
                with_key(o);
                o->keystore_key = ours.certificate;
              }),
              StartsWith("ssl.keystore.key: holds no PEM private key"));
  EXPECT_THAT(refusal([&](auto* o) {
                with_key(o);
                o->keystore_key = ours.key + ours.key;
              }),
              StartsWith("ssl.keystore.key: holds more than one private key"));
  EXPECT_THAT(refusal([&](auto* o) {
                with_key(o);
                o->keystore_key = authority_.Issue().key;
              }),
              StartsWith("ssl.keystore.key: the private key is not that of"));
  EXPECT_THAT(refusal([&](auto* o) {
                with_key(o);
                o->keystore_key = Encrypted(ours.key, "open sesame");
              }),
              StartsWith("ssl.keystore.key: the private key is encrypted"));
  EXPECT_THAT(refusal([&](auto* o) {
                with_key(o);
                o->keystore_key = Encrypted(ours.key, "open sesame");
                o->key_password = "close sesame";
              }),
              StartsWith("ssl.key.password: does not open"));
  EXPECT_THAT(refusal([](auto* o) { o->cipher_suites = {"TLS_NULL_WITH_NULL_NULL"}; }),
              StartsWith("ssl.cipher.suites: \"TLS_NULL_WITH_NULL_NULL\""));
  EXPECT_THAT(refusal([](auto* o) {
                o->cipher_suites = {"TLS_AES_128_GCM_SHA256"};
                o->tls13 = false;
              }),
              StartsWith("ssl.cipher.suites: has no suite of an enabled"));
}

TEST_F(TlsStreamTest, StoresAreTakenFromFilesInAnyOrderAndFromOneLine) {
  const Identity ours = authority_.Issue();
  const auto write = [&](const std::string& name, const std::string& text) {
    std::ofstream(dir_ / name) << text;
    return (dir_ / name).string();
  };
  TlsOptions options;
  options.truststore_file = write("ca.pem", "# comment\n" + authority_.certificate());
  options.keystore_file = write("client.pem", ours.certificate + authority_.certificate() +
                                                  Encrypted(ours.key, "open sesame"));
  options.key_password = "open sesame";
  TlsServer server =
      MakeTlsServer(authority_.Issue(), {.client_authority = authority_.certificate()});
  {
    auto client = Client(options, "localhost");
    Server broker(server.get());
    EXPECT_NE(Agree(*client, broker), Outcome::kFailed) << client->error().ToString();
  }
  // As a properties file with one line a value, or with "\n" written out, gives them.
  for (const std::string separator : {" ", "\\n"}) {
    const auto joined = [&](std::string text) {
      for (size_t at; (at = text.find('\n')) != std::string::npos;) {
        text.replace(at, 1, separator);
      }
      return text;
    };
    options = {};
    options.truststore_certificates = joined(authority_.certificate());
    options.keystore_chain = joined(ours.certificate);
    options.keystore_key = joined(ours.key);
    auto client = Client(options, "localhost");
    Server broker(server.get());
    EXPECT_NE(Agree(*client, broker), Outcome::kFailed) << client->error().ToString();
  }
}

}  // namespace
}  // namespace kmirror::net
