#include "src/sync/mirror_config.h"

#include <gtest/gtest.h>

namespace kmirror::sync {
namespace {

ConfigMap Minimal() { return {{"bootstrap.servers", "a:9092, [::1]:9093"}}; }
ConfigMap With(const std::string& key, const std::string& value) {
  ConfigMap configs = Minimal();
  configs[key] = value;
  return configs;
}

TEST(MirrorConfig, DefaultsAreThoseMeasuredAgainstARealKafka) {
  const auto config = ParseMirrorConfig("a-to-b", Minimal());
  ASSERT_TRUE(config.ok()) << config.status().ToString();
  EXPECT_EQ(config->mirror, "a-to-b");
  ASSERT_EQ(config->bootstrap.size(), 2u);
  EXPECT_EQ(config->bootstrap[0], (HostPort{"a", 9092}));
  EXPECT_EQ(config->bootstrap[1], (HostPort{"::1", 9093}));
  EXPECT_EQ(config->fetch_response_max_bytes, 10485760);
  EXPECT_EQ(config->fetch_max_bytes, 10485760);
  EXPECT_EQ(config->fetch_buffer_bytes, 8388608);
  EXPECT_EQ(config->fetch_wait_max_ms, 500);
  EXPECT_EQ(config->fetch_min_bytes, 1);
  EXPECT_EQ(config->socket_receive_buffer_bytes, -1);
  EXPECT_EQ(config->isolation_level, 0);
  EXPECT_FALSE(config->gap_fails);
  EXPECT_EQ(config->source_cluster_id, "");
}

TEST(MirrorConfig, EveryDefaultOfTheTablePassesItsOwnCheck) {
  for (const MirrorConfigDefinition& definition : MirrorConfigTable()) {
    if (!definition.fallback) continue;
    const Status s =
        CheckMirrorConfigs(With(std::string(definition.name), std::string(*definition.fallback)));
    EXPECT_TRUE(s.ok()) << s.ToString();
  }
}

TEST(MirrorConfig, ThePrefixedSpellingIsTakenAndThePlainOneWins) {
  EXPECT_EQ(NormalizeKeys({{"mirror.fetch.min.bytes", "5"}, {"mirror.acl.include", "*"}}),
            (ConfigMap{{"fetch.min.bytes", "5"}, {"acls.include", "*"}}));
  EXPECT_EQ(NormalizeKeys({{"mirror.fetch.min.bytes", "5"}, {"fetch.min.bytes", "6"}}),
            (ConfigMap{{"fetch.min.bytes", "6"}}));
  EXPECT_EQ(NormalizeKeys({{"topics.include", "x"}, {"mirror.topics.include", "y"}}),
            (ConfigMap{{"topics.include", "x"}}));
  EXPECT_EQ(NormalizeKeys({{"mirror.no.such", "5"}}), (ConfigMap{{"mirror.no.such", "5"}}));
  EXPECT_EQ(ParseMirrorConfig("m", With("mirror.fetch.min.bytes", "77"))->fetch_min_bytes, 77);
}

TEST(MirrorConfig, OursReachTheFetcherAndTheStop) {
  EXPECT_EQ(ParseMirrorConfig("m", With("isolation.level", "read_committed"))->isolation_level, 1);
  EXPECT_TRUE(ParseMirrorConfig("m", With("source.gap", "fail"))->gap_fails);
  EXPECT_FALSE(ParseMirrorSettings(Minimal())->stop_truncates);
  EXPECT_TRUE(ParseMirrorSettings(With("stop.uncommitted", "truncate"))->stop_truncates);
}

TEST(MirrorConfig, ABadKeyOrValueIsRefusedByItsName) {
  const std::pair<const char*, const char*> bad[] = {
      {"fetch.min.bytes", "-1"},         {"fetch.min.bytes", "many"},
      {"fetch.max.bytes", "3000000000"}, {"source.gap", "skip"},
      {"stop.uncommitted", "commit"},    {"isolation.level", "serializable"},
      {"security.protocol", "PIGEON"},   {"bootstrap.servers", ""},
      {"bootstrap.servers", "host"},     {"bootstrap.servers", "h:0"},
      {"bootstrap.servers", "h:65536"},  {"bootstrap.servers", ":9092"},
      {"bootstrap.servers", "::1:9092"}, {"no.such.key", "1"},
      {"fetch.buffer.bytes", "10"},      {"acls.include", "a;b;c;d;e;f"},
  };
  for (const auto& [key, value] : bad) {
    const Status s = ValidateMirrorConfig(With(key, value));
    EXPECT_EQ(s.code(), ErrorCode::kInvalidConfig) << key << "=" << value;
    EXPECT_TRUE(s.message().starts_with(key)) << s.message();
  }
  EXPECT_EQ(ValidateMirrorConfig({}).message(), "bootstrap.servers: required");
}

TEST(MirrorConfig, AnUnsupportedSecurityProtocolIsRefusedRatherThanSentInTheClear) {
  for (const char* protocol : {"SASL_SSL", "SASL_PLAINTEXT", "ssl", ""}) {
    const Status s = ValidateMirrorConfig(With("security.protocol", protocol));
    EXPECT_EQ(s.code(), ErrorCode::kInvalidConfig) << protocol;
    EXPECT_TRUE(s.message().starts_with("security.protocol: ")) << s.message();
  }
}

TEST(MirrorConfig, AFilterThatIsNoRegularExpressionHasItsOwnCode) {
  const Status s = ValidateMirrorConfig(With("topics.include", "ok,(unclosed"));
  EXPECT_EQ(s.code(), ErrorCode::kInvalidRegularExpression);
  EXPECT_TRUE(s.message().starts_with("topics.include")) << s.message();
  EXPECT_EQ(ValidateMirrorConfig(With("topics.include", "a)|(b")).code(),
            ErrorCode::kInvalidRegularExpression);
}

TEST(MirrorConfig, FiltersMatchWholeNamesAndExcludeWins) {
  const auto settings = ParseMirrorSettings(With("topics.include", "orders, pay.*,__x"));
  ASSERT_TRUE(settings.ok());
  EXPECT_TRUE(settings->WantsTopic("orders"));
  EXPECT_FALSE(settings->WantsTopic("orders2"));
  EXPECT_TRUE(settings->WantsTopic("payments"));
  EXPECT_FALSE(settings->WantsTopic("__x"));
  EXPECT_TRUE(settings->WantsGroup("any"));
  EXPECT_FALSE(ParseMirrorSettings(Minimal())->WantsTopic("orders"));
}

TEST(MirrorConfig, PasswordsAreNeverShown) {
  EXPECT_EQ(ShownValue("sasl.jaas.config", "secret"), "[hidden]");
  EXPECT_EQ(ShownValue("mirror.ssl.key.password", "secret"), "[hidden]");
  EXPECT_EQ(ShownValue("not.known", "secret"), "[hidden]");
  EXPECT_EQ(ShownValue("fetch.min.bytes", "1"), "1");
}

TEST(MirrorName, FollowsTheRulesOfTopicNamesAndLeavesTheSuffixesFree) {
  for (const char* good : {"a", "A-b_c.9", "__foo", "removed", "x.removed.y"}) {
    EXPECT_TRUE(CheckMirrorName(good).ok()) << good;
  }
  EXPECT_TRUE(CheckMirrorName(std::string(249, 'm')).ok());
  for (const std::string& bad :
       {std::string(), std::string("."), std::string(".."), std::string("a b"),
        std::string("x.paused"), std::string("x.removed"), std::string(250, 'm'),
        std::string("a:b"), std::string("\xC3\xA4")}) {
    EXPECT_EQ(CheckMirrorName(bad).code(), ErrorCode::kInvalidRequest) << bad;
  }
}

}  // namespace
}  // namespace kmirror::sync
