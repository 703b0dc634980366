// Connections over TLS and real sockets: what a broker, or whoever sits between, may do.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <openssl/ssl.h>

#include <fstream>
#include <functional>
#include <memory>

#include "tests/net/connection_fixture.h"
#include "tests/net/relay.h"
#include "tests/net/tls_peer.h"
#include "tests/support/temp_dir.h"

namespace kmirror::net {
namespace {

using fetcher::TlsOptions;
using testing::Authority;
using testing::BrokerStub;
using testing::Bytes;
using testing::ConnectionOptions;
using testing::Echo;
using testing::GatherAll;
using ::testing::HasSubstr;
using testing::Identity;
using testing::MakeTlsServer;
using testing::Relay;
using testing::TlsServer;
using namespace std::chrono_literals;

class TlsConnectionTest : public testing::KafkaConnectionTest {
 protected:
  TlsConnectionTest() { options_.truststore_certificates = authority_.certificate(); }

  ConnectionOptions Tls(int32_t port, const std::string& host = "localhost") {
    ConnectionOptions options = To(port, host);
    options.tls = std::make_shared<const TlsOptions>(options_);
    return options;
  }
  TlsServer Server() { return MakeTlsServer(authority_.Issue()); }
  // Opens to something that must not be opened to.
  std::string Refusal(ConnectionOptions options) {
    const Status status = Open(std::move(options));
    EXPECT_EQ(status.code(), ErrorCode::kDisconnected) << status.ToString();
    OnLane([this] { connection.reset(); });
    return status.message();
  }
  static Bytes Pattern(size_t size) {
    Bytes body(size);
    for (size_t i = 0; i < size; ++i) body[i] = static_cast<uint8_t>(i * 31 >> 7);
    return body;
  }
  static BrokerStub::Script Streaming(size_t size) {
    return [size](BrokerStub::Peer& peer) {
      if (!BrokerStub::Greet(peer)) return;
      BrokerStub::Request request;
      while (peer.Read(&request)) peer.Answer(request.correlation, Pattern(size), true);
    };
  }

  const Authority authority_{"the authority"};
  TlsOptions options_;
};

TEST_F(TlsConnectionTest, AsksAndStreamsAnswersOfEverySizeToTheirLastByte) {
  constexpr size_t kSizes[] = {0,         1,       100,       16383,     16384,
                               16385,     65536,   262144,    511 << 10, (512 << 10) + 1,
                               (1 << 20), 3 << 20, 10'000'001};
  for (const int version : {TLS1_2_VERSION, TLS1_3_VERSION}) {
    TlsServer server = MakeTlsServer(authority_.Issue(), {.version = version});
    BrokerStub broker(
        [&](BrokerStub::Peer& peer) {
          if (!BrokerStub::Greet(peer)) return;
          BrokerStub::Request request;
          for (const size_t size : kSizes) {
            if (!peer.Read(&request)) return;
            peer.Answer(request.correlation, Pattern(size), true);
          }
          peer.AwaitClose();
        },
        server.get());
    ASSERT_TRUE(Open(Tls(broker.port())).ok());
    for (const size_t size : kSizes) {
      GatherAll sink;
      sink.room_bytes = 700'001;
      OnLane([&] { connection->Stream(Fetch({1}), &sink); });
      const Status done = sink.done.get_future().get();
      ASSERT_TRUE(done.ok()) << size << " " << done.ToString();
      EXPECT_EQ(sink.announced, size);
      ASSERT_TRUE(sink.body == Pattern(size)) << size;
    }
    OnLane([this] { connection.reset(); });
    closed = {};
  }
}

TEST_F(TlsConnectionTest, ALargeRequestGoesOutWhole) {
  TlsServer server = Server();
  BrokerStub broker(Echo, server.get());
  ConnectionOptions options = Tls(broker.port());
  options.counters = std::make_shared<fetcher::ConnectionCounters>();
  ASSERT_TRUE(Open(options).ok());
  const auto answer = Ask(Fetch(Pattern(5 << 20)));
  ASSERT_TRUE(answer.ok()) << answer.status().ToString();
  EXPECT_TRUE(*answer == Pattern(5 << 20));
  OnLane([this] { connection.reset(); });
  // At most 512 KiB at a time.
  EXPECT_GT(options.counters->receives, 10);
  EXPECT_GT(options.counters->sends, 2);
}

TEST_F(TlsConnectionTest, AReaderWithoutRoomStopsAndResumesOnWhatWasReceivedAlready) {
  TlsServer server = Server();
  BrokerStub broker(Streaming(300'000), server.get());
  ASSERT_TRUE(Open(Tls(broker.port())).ok());
  // Rooms so small that the last ones are given when the socket has nothing more.
  for (const int rooms : {1, 5, 29}) {
    GatherAll sink;
    sink.rooms = rooms;
    sink.room_bytes = 10'000;
    std::promise<void> full;
    sink.on_full = [&] { full.set_value(); };
    OnLane([&] { connection->Stream(Fetch({1}), &sink); });
    full.get_future().wait();
    OnLane([&] { connection->Resume(); });
    ASSERT_TRUE(sink.done.get_future().get().ok());
    ASSERT_TRUE(sink.body == Pattern(300'000)) << rooms;
  }
  OnLane([this] { connection.reset(); });
}

TEST_F(TlsConnectionTest, ManyRoomsInOneWakeUpDoNotStrandTheRest) {
  TlsServer server = Server();
  BrokerStub broker(Streaming(250'000), server.get());
  ASSERT_TRUE(Open(Tls(broker.port())).ok());
  GatherAll sink;
  sink.room_bytes = 100;  // more rooms than one wake-up serves
  OnLane([&] { connection->Stream(Fetch({1}), &sink); });
  ASSERT_TRUE(sink.done.get_future().get().ok());
  EXPECT_TRUE(sink.body == Pattern(250'000));
  OnLane([this] { connection.reset(); });
}

TEST_F(TlsConnectionTest, OneByteAtATimeIsSlowAndRight) {
  TlsServer server = Server();
  BrokerStub broker(Streaming(20'000), server.get());
  Relay relay(broker.port(), {.piece = 1});
  ASSERT_TRUE(Open(Tls(relay.port())).ok());
  GatherAll sink;
  OnLane([&] { connection->Stream(Fetch({1}), &sink); });
  ASSERT_TRUE(sink.done.get_future().get().ok());
  EXPECT_TRUE(sink.body == Pattern(20'000));
  OnLane([this] { connection.reset(); });
}

TEST_F(TlsConnectionTest, ACutAnywhereFailsTheConnectionOrTheAnswer) {
  TlsServer server = Server();
  BrokerStub broker(Streaming(400), server.get());
  int opened_then_cut = 0, refused = 0;
  bool whole = false;
  for (size_t cut = 0; !whole; cut += cut < 16 ? 1 : 17) {
    ASSERT_LT(cut, 20'000u);
    closed = {};
    Relay relay(broker.port(), {.cut_after = cut});
    const Status opened = Open(Tls(relay.port()));
    if (!opened.ok()) {
      ++refused;
      EXPECT_EQ(opened.code(), ErrorCode::kDisconnected) << cut << opened.ToString();
    } else {
      GatherAll sink;
      OnLane([&] { connection->Stream(Fetch({1}), &sink); });
      const Status done = sink.done.get_future().get();
      whole = done.ok();
      if (whole) {
        EXPECT_TRUE(sink.body == Pattern(400));
      } else {
        ++opened_then_cut;
        EXPECT_EQ(done.code(), ErrorCode::kDisconnected) << cut << done.ToString();
      }
    }
    OnLane([this] { connection.reset(); });
  }
  EXPECT_GT(refused, 50);
  EXPECT_GT(opened_then_cut, 10);
}

TEST_F(TlsConnectionTest, TheEndOfAnAnswerIsNotItsLengthButItsBytes) {
  // A goodbye within an answer, and none at all: the same error.
  for (const bool goodbye : {true, false}) {
    closed = {};
    TlsServer server = Server();
    BrokerStub broker(
        [goodbye](BrokerStub::Peer& peer) {
          if (!BrokerStub::Greet(peer)) return;
          BrokerStub::Request request;
          if (!peer.Read(&request)) return;
          peer.Send({0, 0, 16, 0, 0, 0, 0, static_cast<uint8_t>(request.correlation), 0, 1, 2, 3});
          if (goodbye) {
            peer.CloseNotify();
          } else {
            peer.Close();
          }
        },
        server.get());
    ASSERT_TRUE(Open(Tls(broker.port())).ok());
    GatherAll sink;
    OnLane([&] { connection->Stream(Fetch({1}), &sink); });
    const Status done = sink.done.get_future().get();
    EXPECT_EQ(done.code(), ErrorCode::kDisconnected);
    EXPECT_THAT(done.message(), HasSubstr("closed by the broker within an answer"));
    OnLane([this] { connection.reset(); });
  }
}

TEST_F(TlsConnectionTest, BytesThatTlsDidNotSealEndTheConnection) {
  TlsServer server = Server();
  BrokerStub broker(
      [](BrokerStub::Peer& peer) {
        if (!BrokerStub::Greet(peer)) return;
        BrokerStub::Request request;
        if (!peer.Read(&request)) return;
        peer.SendRaw({0, 0, 0, 8, 0, 0, 0, static_cast<uint8_t>(request.correlation), 0, 1, 2, 3});
        peer.AwaitClose();
      },
      server.get());
  ASSERT_TRUE(Open(Tls(broker.port())).ok());
  const auto answer = Ask(Fetch({1}));
  EXPECT_EQ(answer.status().code(), ErrorCode::kDisconnected);
  EXPECT_THAT(answer.status().message(), HasSubstr("TLS: "));
}

TEST_F(TlsConnectionTest, AWrongNameAuthorityOrClientIsRefusedWithTheReason) {
  TlsServer nameless = MakeTlsServer(authority_.Issue({.names = "DNS:elsewhere.example"}));
  BrokerStub misnamed(Echo, nameless.get());
  const std::string message = Refusal(Tls(misnamed.port()));
  EXPECT_THAT(message, HasSubstr("localhost:" + std::to_string(misnamed.port())));
  EXPECT_THAT(message, HasSubstr("not for localhost but for elsewhere.example"));
  options_.verify_host = false;
  EXPECT_TRUE(Open(Tls(misnamed.port())).ok());
  OnLane([this] { connection.reset(); });
  options_.verify_host = true;

  const Authority stranger("stranger");
  TlsServer strange = MakeTlsServer(stranger.Issue());
  BrokerStub unknown(Echo, strange.get());
  EXPECT_THAT(Refusal(Tls(unknown.port())), HasSubstr("no authority that the truststore knows"));

  TlsServer asking =
      MakeTlsServer(authority_.Issue(), {.client_authority = authority_.certificate()});
  BrokerStub strict(Echo, asking.get());
  EXPECT_THAT(Refusal(Tls(strict.port())),
              HasSubstr("the broker asks for a certificate and we have none"));
  const Identity wrong = stranger.Issue(), right = authority_.Issue();
  options_.keystore_key = wrong.key;
  options_.keystore_chain = wrong.certificate;
  EXPECT_THAT(Refusal(Tls(strict.port())), HasSubstr("the broker refuses our certificate"));
  options_.keystore_key = right.key;
  options_.keystore_chain = right.certificate;
  EXPECT_TRUE(Open(Tls(strict.port())).ok());
  OnLane([this] { connection.reset(); });
}

TEST_F(TlsConnectionTest, NothingReachesABrokerThatSpeaksNoTls) {
  // As a Kafka does: our first bytes are a size beyond its limit, and it closes.
  std::promise<Bytes> collected;
  BrokerStub plain([&](BrokerStub::Peer& peer) {
    Bytes bytes;
    peer.Collect(&bytes, 5);
    collected.set_value(bytes);
    peer.Close();
  });
  EXPECT_THAT(Refusal(Tls(plain.port())), HasSubstr("does it speak TLS at that port?"));
  const Bytes heard = collected.get_future().get();
  ASSERT_EQ(heard.size(), 5u);
  EXPECT_EQ(heard[0], 22) << "a handshake";

  BrokerStub web([](BrokerStub::Peer& peer) {
    const std::string text = "HTTP/1.1 400 Bad Request\r\n\r\n";
    peer.Send(Bytes(text.begin(), text.end()));
    peer.AwaitClose();
  });
  EXPECT_THAT(Refusal(Tls(web.port())), HasSubstr("speaks no TLS"));
}

TEST_F(TlsConnectionTest, PlainTextToATlsPortIsCalledSo) {
  BrokerStub broker([](BrokerStub::Peer& peer) {
    BrokerStub::Request request;
    if (!peer.Read(&request)) return;
    peer.Send({21, 3, 3, 0, 2, 2, 70});  // an alert, in plain text as the first ones are
    peer.Close();
  });
  EXPECT_THAT(Refusal(To(broker.port())), HasSubstr("it wants TLS at that port"));
}

TEST_F(TlsConnectionTest, ABrokerThatSaysNothingRunsOutOfTime) {
  BrokerStub silent([](BrokerStub::Peer& peer) { peer.AwaitClose(); });
  ConnectionOptions options = Tls(silent.port());
  options.ready_timeout = 50ms;
  Status status = Open(options);
  EXPECT_EQ(status.code(), ErrorCode::kTimedOut);
  EXPECT_THAT(status.message(), HasSubstr("no TLS handshake within 50 ms"));
  OnLane([this] { connection.reset(); });
}

TEST_F(TlsConnectionTest, AStoreThatIsRenewedInItsFileCountsFromTheNextConnection) {
  test::TempDir dir;
  const Authority old("old"), renewed("renewed");
  const std::string file = dir / "ca.pem";
  const auto write = [&](const Authority& authority) {
    std::ofstream(file, std::ios::trunc) << authority.certificate();
  };
  options_ = {};
  options_.truststore_file = file;
  EXPECT_THAT(Open(Tls(1)).message(), HasSubstr("ssl.truststore.location"));
  OnLane([this] { connection.reset(); });
  write(old);
  TlsServer server = MakeTlsServer(renewed.Issue());
  BrokerStub broker(Echo, server.get());
  EXPECT_THAT(Refusal(Tls(broker.port())), HasSubstr("no authority"));
  write(renewed);
  EXPECT_TRUE(Open(Tls(broker.port())).ok());
  OnLane([this] { connection.reset(); });
}

TEST_F(TlsConnectionTest, ABrokerThatOnlyChangesItsKeysIsNoProgress) {
  TlsServer server = MakeTlsServer(authority_.Issue(), {.version = TLS1_3_VERSION});
  BrokerStub broker(
      [](BrokerStub::Peer& peer) {
        if (!BrokerStub::Greet(peer)) return;
        BrokerStub::Request request;
        if (!peer.Read(&request)) return;
        while (SSL_key_update(peer.tls(), SSL_KEY_UPDATE_REQUESTED) == 1 &&
               SSL_do_handshake(peer.tls()) == 1) {
        }
      },
      server.get());
  ASSERT_TRUE(Open(Tls(broker.port())).ok());
  EXPECT_EQ(Ask(Fetch({1}, 200ms)).status().code(), ErrorCode::kTimedOut);
  OnLane([this] { connection.reset(); });
}

TEST_F(TlsConnectionTest, TheOwnerMayDestroyTheConnectionAtAnyTime) {
  TlsServer server = Server();
  BrokerStub broker(Streaming(100'000), server.get());
  for (int i = 0; i < 50; ++i) {
    std::promise<void> done;
    OnLane([&] {
      connection = transport.NewConnection(lane.get(), Tls(broker.port()));
      connection->Open([](Status) {});
      // After as many turns of the lane as i says.
      auto step = std::make_shared<std::function<void(int)>>();
      *step = [this, &done, step](int left) {
        if (left > 0) return lane->Post([step, left] { (*step)(left - 1); });
        connection.reset();
        done.set_value();
        lane->Post([step] { *step = nullptr; });
      };
      (*step)(i * 7);
    });
    done.get_future().wait();
  }
}

}  // namespace
}  // namespace kmirror::net
