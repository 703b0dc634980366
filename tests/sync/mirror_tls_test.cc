// The `ssl.*` configs of a mirror: which sets of them say something, and what.
#include "src/sync/mirror_tls.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace kmirror::sync {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

constexpr char kCertificate[] = "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n";
constexpr char kKey[] = "-----BEGIN PRIVATE KEY-----\nMIGHsecret\n-----END PRIVATE KEY-----\n";
constexpr char kEncryptedKey[] =
    "-----BEGIN ENCRYPTED PRIVATE KEY-----\nMIGHsecret\n-----END ENCRYPTED PRIVATE KEY-----\n";

ConfigMap Ssl(const ConfigMap& more) {
  ConfigMap configs = {{"bootstrap.servers", "a:9093"}, {"security.protocol", "SSL"}};
  for (const auto& [key, value] : more) configs[key] = value;
  return configs;
}

std::shared_ptr<const fetcher::TlsOptions> Tls(const ConfigMap& more) {
  const auto config = ParseMirrorConfig("m", Ssl(more));
  EXPECT_TRUE(config.ok()) << config.status().ToString();
  return config.ok() ? config->tls : nullptr;
}

std::string Refusal(const ConfigMap& more) {
  const Status s = ValidateMirrorConfig(Ssl(more));
  EXPECT_EQ(s.code(), ErrorCode::kInvalidConfig) << s.ToString();
  EXPECT_EQ(ParseMirrorConfig("m", Ssl(more)).status().code(), ErrorCode::kInvalidConfig);
  EXPECT_THAT(s.message(), Not(HasSubstr("secret")));
  return s.message();
}

TEST(MirrorTls, PlainTextHasNoneWhateverElseIsSet) {
  const auto config = ParseMirrorConfig("m", {{"bootstrap.servers", "a:1"},
                                              {"ssl.truststore.location", "/x.jks"},
                                              {"ssl.truststore.password", "secret"},
                                              {"ssl.enabled.protocols", "SSLv3"}});
  ASSERT_TRUE(config.ok()) << config.status().ToString();
  EXPECT_EQ(config->tls, nullptr);
}

TEST(MirrorTls, DefaultsAreKafkas) {
  const auto tls = Tls({});
  ASSERT_NE(tls, nullptr);
  EXPECT_TRUE(tls->verify_host && tls->tls12 && tls->tls13);
  EXPECT_EQ(tls->truststore_file + tls->truststore_certificates + tls->keystore_file, "");
  EXPECT_TRUE(tls->cipher_suites.empty());
}

TEST(MirrorTls, StoresAreFilesOrTexts) {
  auto tls = Tls({{"ssl.truststore.type", "PEM"},
                  {"ssl.truststore.location", "/ca.pem"},
                  {"mirror.ssl.keystore.type", "PEM"},
                  {"ssl.keystore.location", "/us.pem"},
                  {"ssl.key.password", "secret"}});
  EXPECT_EQ(tls->truststore_file, "/ca.pem");
  EXPECT_EQ(tls->keystore_file, "/us.pem");
  EXPECT_EQ(tls->key_password, "secret");
  tls = Tls({{"ssl.truststore.type", "PEM"},
             {"ssl.truststore.certificates", kCertificate},
             {"ssl.keystore.type", "PEM"},
             {"ssl.keystore.key", kEncryptedKey},
             {"ssl.key.password", "secret"},
             {"ssl.keystore.certificate.chain", kCertificate}});
  EXPECT_EQ(tls->truststore_certificates, kCertificate);
  EXPECT_EQ(tls->keystore_key, kEncryptedKey);
  EXPECT_EQ(tls->keystore_chain, kCertificate);
}

TEST(MirrorTls, AStoreThatIsNotPemIsRefusedWithTheWayOut) {
  EXPECT_EQ(Refusal({{"ssl.truststore.location", "/ca.jks"}}),
            "ssl.truststore.type: only PEM is read, and this is JKS, for ssl.truststore.location: "
            "convert the store to PEM files and set ssl.truststore.type=PEM");
  EXPECT_THAT(Refusal({{"ssl.keystore.location", "/us.p12"}, {"ssl.keystore.type", "PKCS12"}}),
              StartsWith("ssl.keystore.type: only PEM is read, and this is PKCS12"));
  EXPECT_THAT(Refusal({{"ssl.truststore.certificates", kCertificate}}),
              StartsWith("ssl.truststore.type: "));
  EXPECT_THAT(Refusal({{"ssl.keystore.key", kKey}, {"ssl.keystore.certificate.chain", kKey}}),
              StartsWith("ssl.keystore.type: "));
}

TEST(MirrorTls, WhatContradictsItselfIsRefused) {
  const ConfigMap trust = {{"ssl.truststore.type", "PEM"}, {"ssl.truststore.location", "/ca.pem"}};
  const ConfigMap key = {{"ssl.keystore.type", "PEM"},
                         {"ssl.keystore.key", kKey},
                         {"ssl.keystore.certificate.chain", kCertificate}};
  const auto with = [](ConfigMap configs, const std::string& name, const std::string& value) {
    configs[name] = value;
    return configs;
  };
  EXPECT_THAT(Refusal(with(trust, "ssl.truststore.certificates", kCertificate)),
              StartsWith("ssl.truststore.location: is set, and so is"));
  EXPECT_THAT(Refusal(with(trust, "ssl.truststore.password", "secret")),
              StartsWith("ssl.truststore.password: a PEM store has no password"));
  EXPECT_THAT(Refusal({{"ssl.keystore.password", "secret"}}),
              StartsWith("ssl.keystore.password: is set, but no store"));
  EXPECT_THAT(Refusal(with(key, "ssl.keystore.location", "/us.pem")),
              StartsWith("ssl.keystore.location: is set, and so is ssl.keystore.key"));
  EXPECT_THAT(Refusal(with(key, "ssl.keystore.key", "")),
              StartsWith("ssl.keystore.key: is missing"));
  EXPECT_THAT(Refusal(with(key, "ssl.keystore.certificate.chain", "")),
              StartsWith("ssl.keystore.certificate.chain: is missing"));
  EXPECT_THAT(Refusal(with(key, "ssl.keystore.key", "MIGHsecret")),
              StartsWith("ssl.keystore.key: holds no PEM private key"));
  EXPECT_THAT(Refusal(with(key, "ssl.keystore.key", kEncryptedKey)),
              StartsWith("ssl.key.password: is needed"));
  EXPECT_THAT(Refusal(with(key, "ssl.keystore.certificate.chain", "secret")),
              StartsWith("ssl.keystore.certificate.chain: holds no PEM certificate"));
  EXPECT_THAT(Refusal({{"ssl.truststore.type", "PEM"}, {"ssl.truststore.certificates", "secret"}}),
              StartsWith("ssl.truststore.certificates: holds no PEM certificate"));
  EXPECT_THAT(Refusal({{"ssl.engine.factory.class", "org.example.Engine"}}),
              StartsWith("ssl.engine.factory.class: "));
}

TEST(MirrorTls, VersionsNamesAndSuites) {
  EXPECT_FALSE(Tls({{"ssl.protocol", "TLSv1.2"}})->tls13);
  EXPECT_TRUE(Tls({{"ssl.protocol", "TLS"}})->tls13);
  EXPECT_TRUE(Tls({{"ssl.protocol", "TLSv1.2"}, {"ssl.enabled.protocols", "TLSv1.3"}})->tls13);
  EXPECT_FALSE(Tls({{"ssl.enabled.protocols", "TLSv1.3"}})->tls12);
  const auto both = Tls({{"ssl.enabled.protocols", "TLSv1.2, TLSv1.3"}});
  EXPECT_TRUE(both->tls12 && both->tls13);
  EXPECT_THAT(Refusal({{"ssl.enabled.protocols", "TLSv1.2,TLSv1.1"}}),
              StartsWith("ssl.enabled.protocols: \"TLSv1.1\""));
  EXPECT_THAT(Refusal({{"ssl.protocol", "SSLv3"}}), StartsWith("ssl.protocol: \"SSLv3\""));
  EXPECT_FALSE(Tls({{"ssl.endpoint.identification.algorithm", ""}})->verify_host);
  EXPECT_TRUE(Tls({{"ssl.endpoint.identification.algorithm", "HTTPS"}})->verify_host);
  EXPECT_THAT(Refusal({{"ssl.endpoint.identification.algorithm", "none"}}),
              StartsWith("ssl.endpoint.identification.algorithm: "));
  EXPECT_THAT(Tls({{"ssl.cipher.suites", "A, B"}})->cipher_suites, ElementsAre("A", "B"));
}

}  // namespace
}  // namespace kmirror::sync
