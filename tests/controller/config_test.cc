#include <gtest/gtest.h>

#include "broker/config/broker_config.h"
#include "broker/config/config_table.h"
#include "tests/support/assert_ok.h"

namespace kmirror::broker {
namespace {

constexpr char kMinimal[] = "node.id=1\nlisteners=PLAINTEXT://127.0.0.1:9092\nlog.dirs=/data\n";
Result<BrokerConfig> With(const std::string& more) {
  return BrokerConfig::Parse(kMinimal + more, "server.properties");
}

TEST(Properties, ReadJavasSyntax) {
  const auto p = ParseProperties(
      "# comment\n! comment\n\n  a = 1\r\nb:2\nc   3\nd=x\\\n   y\\\n "
      "z\ne=\\u0041\\t\\n\\\\\\:\nf\\=g=h\ni\n"
      "url=http://x:1/a=b # kept\nlast\\\\=z\n",
      "f");
  ASSERT_OK(p.status());
  const std::map<std::string, std::string> expected = {
      {"a", "1"},        {"b", "2"},   {"c", "3"}, {"d", "xyz"},
      {"e", "A\t\n\\:"}, {"f=g", "h"}, {"i", ""},  {"url", "http://x:1/a=b # kept"},
      {"last\\", "z"}};
  ASSERT_EQ(p->size(), expected.size());
  for (const auto& [key, value] : expected) {
    ASSERT_TRUE(p->contains(key)) << key;
    EXPECT_EQ(p->at(key).value, value) << key;
  }
  EXPECT_EQ(p->at("a").line, 4);
  EXPECT_EQ(p->at("d").line, 7);
  EXPECT_EQ(p->at("e").line, 10);
}

TEST(Properties, RefuseWhatJavaRefuses) {
  EXPECT_EQ(ParseProperties("a=1\nb=\\u12\n", "f").status().message(), "f:2: broken \\u escape");
  EXPECT_EQ(ParseProperties("=1\n", "f").status().message(), "f:1: a value without a key");
}

TEST(BrokerConfig, DefaultsAreKafkas) {
  const auto config = With("");
  ASSERT_OK(config.status());
  EXPECT_EQ(config->node_id, 1);
  EXPECT_EQ(config->log_dir, "/data");
  EXPECT_EQ(config->metadata_dir, "/data/kmirror.metadata");
  ASSERT_EQ(config->listeners.size(), 1u);
  EXPECT_EQ(config->listeners[0].name, "PLAINTEXT");
  EXPECT_EQ(config->listeners[0].bind, (HostPort{"127.0.0.1", 9092}));
  EXPECT_EQ(config->listeners[0].advertised, (HostPort{"127.0.0.1", 9092}));
  EXPECT_TRUE(config->auto_create_topics_enable);
  EXPECT_EQ(config->num_partitions, 1);
  EXPECT_EQ(config->socket_request_max_bytes, 104857600);
  EXPECT_EQ(config->mirror_state_topic_num_partitions, 50);
  EXPECT_EQ(config->mirror.metadata_refresh_interval.count(), 30000);
  EXPECT_EQ(config->mirror.num_replica_fetchers, 1);
  const LogConfig log = LogConfigFor({}, *config);
  const LogConfig kafka;
  EXPECT_EQ(log.segment_bytes, kafka.segment_bytes);
  EXPECT_EQ(log.segment_ms, kafka.segment_ms);
  EXPECT_EQ(log.retention_ms, kafka.retention_ms);
  EXPECT_EQ(log.retention_bytes, kafka.retention_bytes);
  EXPECT_EQ(log.flush_messages, kafka.flush_messages);
  EXPECT_EQ(log.flush_ms, kafka.flush_ms);
  EXPECT_EQ(log.max_message_bytes, kafka.max_message_bytes);
  EXPECT_EQ(log.index_interval_bytes, kafka.index_interval_bytes);
  EXPECT_EQ(log.segment_index_bytes, kafka.segment_index_bytes);
  EXPECT_EQ(log.timestamp_after_max_ms, kafka.timestamp_after_max_ms);
  EXPECT_TRUE(log.retention_deletes);
  EXPECT_FALSE(log.compacted);
}

TEST(BrokerConfig, EveryDefaultOfTheTablesPassesItsOwnCheck) {
  for (const auto table : {BrokerConfigTable(), TopicConfigTable()}) {
    for (const ConfigDefinition& definition : table) {
      if (definition.fallback)
        EXPECT_OK(CheckConfigValue(definition, *definition.fallback)) << definition.name;
    }
  }
}

TEST(BrokerConfig, EveryBrokerSynonymIsABrokerKeyWithTheSameDefault) {
  for (const ConfigDefinition& definition : TopicConfigTable()) {
    if (definition.broker_synonym.empty()) continue;
    const ConfigDefinition* synonym = FindBrokerConfig(definition.broker_synonym);
    ASSERT_NE(synonym, nullptr) << definition.broker_synonym;
    EXPECT_EQ(synonym->type, definition.type) << definition.name;
    if (synonym->fallback) EXPECT_EQ(*synonym->fallback, *definition.fallback) << definition.name;
  }
}

TEST(BrokerConfig, ABadKeyOrValueIsNamedWithItsLine) {
  const std::pair<const char*, const char*> bad[] = {
      {"no.such.key=1", "no.such.key"},
      {"num.partitions=0", "num.partitions"},
      {"num.partitions=three", "num.partitions"},
      {"socket.request.max.bytes=99999999999", "socket.request.max.bytes"},
      {"auto.create.topics.enable=yes", "auto.create.topics.enable"},
      {"log.cleanup.policy=shred", "log.cleanup.policy"},
      {"kmirror.metrics.listener=nowhere", "kmirror.metrics.listener"},
      {"broker.id=2", "broker.id"},
      {"default.replication.factor=3", "default.replication.factor"},
      {"mirror.state.topic.replication.factor=3", "mirror.state.topic.replication.factor"},
      {"advertised.listeners=PLAINTEXT://0.0.0.0:1", "advertised.listeners"},
      {"advertised.listeners=OTHER://a:1", "advertised.listeners"},
      {"inter.broker.listener.name=OTHER", "inter.broker.listener.name"},
      {"listener.security.protocol.map=X:PIGEON", "listener.security.protocol.map"},
      {"mirror.failed.retry.max.attempts=40000", "mirror.failed.retry.max.attempts"},
  };
  for (const auto& [line, key] : bad) {
    const Status s = With(line).status();
    EXPECT_EQ(s.code(), ErrorCode::kInvalidConfig) << line;
    EXPECT_TRUE(s.message().starts_with("server.properties:4: " + std::string(key) + ": "))
        << s.message();
  }
}

TEST(BrokerConfig, MissingKeysAreNamed) {
  EXPECT_EQ(BrokerConfig::Parse("log.dirs=/d\nlisteners=PLAINTEXT://:1\n", "f").status().message(),
            "f: node.id: required");
  EXPECT_EQ(BrokerConfig::Parse("node.id=1\nlisteners=PLAINTEXT://:1\n", "f").status().message(),
            "f: log.dirs: required");
  EXPECT_EQ(BrokerConfig::Parse("node.id=1\nlog.dirs=/d\n", "f").status().code(),
            ErrorCode::kInvalidConfig);
  EXPECT_EQ(BrokerConfig::Parse("node.id=1\nlog.dirs=/a,/b\nlisteners=PLAINTEXT://:1\n", "f")
                .status()
                .message(),
            "f:2: log.dirs: names more than one folder; this version keeps one");
  EXPECT_EQ(BrokerConfig::Load("/nonexistent/x").status().code(), ErrorCode::kInvalidConfig);
}

TEST(BrokerConfig, ListenersHaveNamesProtocolsAndAdvertisedAddresses) {
  const auto config = BrokerConfig::Parse(
      "broker.id=7\nlog.dir=/d/\nlisteners=PLAINTEXT://:9092, "
      "external://0.0.0.0:0,V6://[::1]:9094\n"
      "listener.security.protocol.map=EXTERNAL:PLAINTEXT,V6:plaintext\n"
      "advertised.listeners=EXTERNAL://kafka.example:19092\ninter.broker.listener.name=PLAINTEXT\n"
      "kmirror.metrics.listener=127.0.0.1:0\n",
      "f");
  ASSERT_OK(config.status());
  EXPECT_EQ(config->node_id, 7);
  EXPECT_EQ(config->log_dir, "/d");
  ASSERT_EQ(config->listeners.size(), 3u);
  EXPECT_EQ(config->listeners[0].bind.host, "");
  EXPECT_FALSE(config->listeners[0].advertised.host.empty());
  EXPECT_EQ(config->listeners[1].name, "EXTERNAL");
  EXPECT_EQ(config->listeners[1].security_protocol, "PLAINTEXT");
  EXPECT_EQ(config->listeners[1].advertised, (HostPort{"kafka.example", 19092}));
  EXPECT_EQ(config->listeners[2].bind, (HostPort{"::1", 9094}));
  EXPECT_EQ(*config->metrics, (HostPort{"127.0.0.1", 0}));
}

TEST(BrokerConfig, AListenerThatCannotBeServedAsAskedIsRefused) {
  const Status s =
      BrokerConfig::Parse("node.id=1\nlog.dirs=/d\nlisteners=SASL_PLAINTEXT://:1\n", "f").status();
  EXPECT_EQ(s.code(), ErrorCode::kInvalidConfig);
  EXPECT_TRUE(s.message().starts_with("f:3: listeners: ")) << s.message();
}

TEST(BrokerConfig, TheFinerUnitOfATimeWins) {
  EXPECT_EQ(LogConfigFor({}, *With("log.retention.hours=2")).retention_ms, 7200000);
  EXPECT_EQ(LogConfigFor({}, *With("log.retention.hours=2\nlog.retention.minutes=3")).retention_ms,
            180000);
  EXPECT_EQ(LogConfigFor({}, *With("log.retention.minutes=3\nlog.retention.ms=5")).retention_ms, 5);
  EXPECT_EQ(LogConfigFor({}, *With("log.retention.hours=-1")).retention_ms, -1);
  EXPECT_EQ(LogConfigFor({}, *With("log.roll.hours=1")).segment_ms, 3600000);
}

TEST(TopicConfig, OverridesWinOverTheBrokersFile) {
  const auto broker =
      With("log.segment.bytes=1000\nlog.flush.interval.messages=1\nmessage.max.bytes=500\n");
  ASSERT_OK(broker.status());
  const LogConfig log =
      LogConfigFor({{"segment.bytes", "2000"}, {"cleanup.policy", "compact"}}, *broker);
  EXPECT_EQ(log.segment_bytes, 2000);
  EXPECT_EQ(log.flush_messages, 1);
  EXPECT_EQ(log.max_message_bytes, 500);
  EXPECT_TRUE(log.compacted);
  EXPECT_FALSE(log.retention_deletes);
}

TEST(TopicConfig, DescribesValueSourceAndSynonymsAsKafka) {
  const auto broker = With("log.segment.bytes=1000\n");
  const auto described = DescribeTopicConfigs({{"segment.bytes", "2000"}}, *broker, {});
  std::map<std::string, DescribedConfig> by_name;
  for (const DescribedConfig& config : described) by_name[config.name] = config;
  EXPECT_FALSE(by_name.contains("mirror.name"));
  const DescribedConfig& segment = by_name.at("segment.bytes");
  EXPECT_EQ(segment.value, "2000");
  EXPECT_EQ(segment.source, ConfigSource::kDynamicTopic);
  ASSERT_EQ(segment.synonyms.size(), 3u);
  EXPECT_EQ(segment.synonyms[1].name, "log.segment.bytes");
  EXPECT_EQ(segment.synonyms[1].value, "1000");
  EXPECT_EQ(segment.synonyms[1].source, ConfigSource::kStaticBroker);
  EXPECT_EQ(segment.synonyms[2].value, "1073741824");
  EXPECT_EQ(segment.synonyms[2].source, ConfigSource::kDefault);
  EXPECT_EQ(by_name.at("retention.ms").source, ConfigSource::kDefault);
  EXPECT_EQ(by_name.at("retention.ms").value, "604800000");

  const auto mirrored = DescribeTopicConfigs({{"mirror.name", "m.removed"}}, *broker, {});
  const auto name = std::find_if(mirrored.begin(), mirrored.end(),
                                 [](const auto& c) { return c.name == "mirror.name"; });
  ASSERT_NE(name, mirrored.end());
  EXPECT_EQ(name->value, "m.removed");
  EXPECT_TRUE(name->read_only);
}

TEST(TopicConfig, ChecksNamesValuesAndWhoSetsMirrorName) {
  EXPECT_OK(
      CheckTopicConfigs({{"retention.ms", "-1"}, {"cleanup.policy", "compact,delete"}}, false));
  for (const auto& [key, value] :
       std::map<std::string, std::string>{{"retention.ms", "-2"},
                                          {"nope", "1"},
                                          {"cleanup.policy", "delete,nope"},
                                          {"min.cleanable.dirty.ratio", "2"},
                                          {"mirror.replication.throttled.replicas", "0:x"},
                                          {"mirror.name", "m"},
                                          {"segment.bytes", "13"}}) {
    const Status s = CheckTopicConfigs({{key, value}}, false);
    EXPECT_EQ(s.code(), ErrorCode::kInvalidConfig) << key;
    EXPECT_TRUE(s.message().starts_with(key)) << s.message();
  }
  EXPECT_OK(CheckTopicConfigs({{"mirror.replication.throttled.replicas", "*"}}, false));
  EXPECT_OK(CheckTopicConfigs({{"mirror.replication.throttled.replicas", "0:1, 2:3"}}, false));
  EXPECT_OK(CheckTopicConfigs({{"mirror.name", "m.paused"}}, true));
  EXPECT_EQ(CheckTopicConfigs({{"mirror.name", "m.paused.removed"}}, true).code(),
            ErrorCode::kInvalidConfig);
}

TEST(ConfigChanges, FollowIncrementalAlterConfigs) {
  const ConfigMap before = {{"cleanup.policy", "delete"}, {"retention.ms", "1"}};
  const ConfigChange changes[] = {{"cleanup.policy", ConfigOp::kAppend, "compact"},
                                  {"retention.ms", ConfigOp::kDelete, std::nullopt},
                                  {"segment.ms", ConfigOp::kSet, "5"}};
  const auto after = ApplyConfigChanges(before, changes, FindTopicConfig);
  ASSERT_OK(after.status());
  EXPECT_EQ(*after, (ConfigMap{{"cleanup.policy", "delete,compact"}, {"segment.ms", "5"}}));
  const ConfigChange subtract[] = {{"cleanup.policy", ConfigOp::kSubtract, "delete"}};
  EXPECT_EQ(ApplyConfigChanges(*after, subtract, FindTopicConfig)->at("cleanup.policy"), "compact");
  // A list without an override starts from its default.
  const ConfigChange append[] = {{"cleanup.policy", ConfigOp::kAppend, "compact"}};
  EXPECT_EQ(ApplyConfigChanges({}, append, FindTopicConfig)->at("cleanup.policy"),
            "delete,compact");

  const auto code = [&](ConfigChange change) {
    return ApplyConfigChanges(before, std::span(&change, 1), FindTopicConfig).status().code();
  };
  EXPECT_EQ(code({"segment.ms", ConfigOp::kAppend, "5"}), ErrorCode::kInvalidConfig);
  EXPECT_EQ(code({"segment.ms", ConfigOp::kSet, std::nullopt}), ErrorCode::kInvalidRequest);
  EXPECT_EQ(code({"nope", ConfigOp::kSet, "5"}), ErrorCode::kInvalidConfig);
  EXPECT_EQ(code({"segment.ms", static_cast<ConfigOp>(9), "5"}), ErrorCode::kInvalidRequest);
  const ConfigChange twice[] = {{"segment.ms", ConfigOp::kSet, "5"},
                                {"segment.ms", ConfigOp::kDelete, {}}};
  EXPECT_EQ(ApplyConfigChanges(before, twice, FindTopicConfig).status().code(),
            ErrorCode::kInvalidRequest);
}

TEST(MirrorConfigs, AreDescribedWithoutPasswords) {
  const auto described =
      DescribeMirrorConfigs({{"bootstrap.servers", "a:1"}, {"sasl.jaas.config", "secret"}});
  bool seen = false;
  for (const DescribedConfig& config : described) {
    if (config.name == "bootstrap.servers") {
      EXPECT_EQ(config.value, "a:1");
      EXPECT_EQ(config.source, ConfigSource::kDynamicBroker);
    }
    if (config.name != "sasl.jaas.config") continue;
    seen = true;
    EXPECT_TRUE(config.sensitive);
    EXPECT_EQ(config.value, std::nullopt);
    for (const ConfigSynonym& synonym : config.synonyms) EXPECT_EQ(synonym.value, std::nullopt);
  }
  EXPECT_TRUE(seen);
}

}  // namespace
}  // namespace kmirror::broker
