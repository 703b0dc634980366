// Configs described and changed.
#include "messages/alter_configs.h"
#include "messages/describe_configs.h"
#include "messages/incremental_alter_configs.h"
#include "messages/list_config_resources.h"
#include "tests/differential/config_values.h"
#include "tests/differential/history.h"

namespace kmirror::test {
namespace {

using namespace protocol;  // NOLINT: the messages, all of them

constexpr int8_t kTopic = 2;
constexpr int8_t kBroker = 4;

struct Resource {
  int8_t type = kTopic;
  std::string name;
  bool plain = false;  // without prefix
  std::string On(const Side& side) const { return plain ? name : side.prefix() + name; }
};

Resource AnyTopicResource(History& history) {
  const TopicView* topic = history.AnyTopic();
  if (topic == nullptr || history.OneIn(10)) return {kTopic, history.UnknownTopic(), false};
  return {kTopic, topic->name, false};
}

Resource OddResource(History& history) {
  switch (history.Between(0, 7)) {
    case 0: return {kBroker, "9", true};
    case 1: return {kBroker, "one", true};
    case 2: return {0, "x", true};
    case 3: return {kTopic, "", true};
    case 4: return {kTopic, "bad/name", true};
    case 5: return {3, "x", true};
    case 6: return {kBroker, "-1", true};
    default: return {99, "x", true};
  }
}

void Describe(History& history) {
  struct Wanted {
    Resource resource;
    std::optional<std::vector<std::string>> keys;
  };
  std::vector<Wanted> wanted;
  const int64_t count = history.AnyOf({1, 1, 2});
  for (int64_t i = 0; i < count; ++i) {
    Wanted& each = wanted.emplace_back();
    each.resource = history.OneIn(6) ? OddResource(history) : AnyTopicResource(history);
    if (!history.OneIn(3)) continue;
    each.keys.emplace();
    const int64_t keys = history.Between(0, 3);
    for (int64_t k = 0; k < keys; ++k) each.keys->push_back(AnyTopicConfigName(history));
    if (history.OneIn(4)) each.keys->push_back("no.such.config");
  }
  const bool synonyms = history.OneIn(2);
  const bool documentation = history.OneIn(2);
  const int16_t version = history.Version(1, 4);
  history.Both<DescribeConfigsResponse>(version, [&](Side& side) {
    DescribeConfigsRequest request;
    request.include_synonyms = synonyms;
    request.include_documentation = version >= 3 && documentation;
    for (const Wanted& each : wanted) {
      auto& resource = request.resources.emplace_back();
      resource.resource_type = each.resource.type;
      resource.resource_name = each.resource.On(side);
      resource.configuration_keys = each.keys;
    }
    return request;
  });
}

void DescribeBroker(History& history) {
  static constexpr const char* kKeys[] = {"compression.type",
                                          "log.retention.ms",
                                          "log.segment.bytes",
                                          "message.max.bytes",
                                          "min.insync.replicas",
                                          "node.id",
                                          "num.partitions",
                                          "auto.create.topics.enable",
                                          "log.cleanup.policy",
                                          "default.replication.factor",
                                          "unclean.leader.election.enable",
                                          "delete.topic.enable",
                                          "log.retention.hours",
                                          "no.such.config",
                                          "fetch.max.bytes",
                                          "log.message.timestamp.type",
                                          "log.roll.ms",
                                          "producer.id.expiration.ms"};
  const bool cluster = history.OneIn(4);
  const bool synonyms = history.OneIn(2);
  std::vector<std::string> keys;
  const int64_t count = history.Between(1, 4);
  for (int64_t k = 0; k < count; ++k) {
    keys.emplace_back(kKeys[history.Between(0, std::ssize(kKeys) - 1)]);
  }
  history.Both<DescribeConfigsResponse>(history.Version(1, 4), [&](Side&) {
    DescribeConfigsRequest request;
    request.include_synonyms = synonyms;
    auto& resource = request.resources.emplace_back();
    resource.resource_type = kBroker;
    resource.resource_name = cluster ? "" : "1";
    resource.configuration_keys = keys;
    return request;
  });
}

// Changed configs are in effect everywhere before the next step.
void Settle(History& history, bool validate_only) {
  if (validate_only) return;
  history.Must(history.kafka.AwaitConfigs(History::kFence), "fence");
}

void Replace(History& history) {
  struct Wanted {
    Resource resource;
    std::vector<ConfigValue> configs;
  };
  std::vector<Wanted> wanted;
  const int64_t count = history.AnyOf({1, 1, 2});
  for (int64_t i = 0; i < count; ++i) {
    Wanted& each = wanted.emplace_back();
    each.resource = history.OneIn(8) ? OddResource(history) : AnyTopicResource(history);
    const int64_t configs = history.AnyOf({0, 1, 1, 2});
    for (int64_t k = 0; k < configs; ++k) {
      each.configs.push_back(AnyTopicConfig(history, history.OneIn(4)));
    }
  }
  // Kafka never answers a request that names a resource twice.
  if (wanted.size() == 2 && wanted[0].resource.name == wanted[1].resource.name) wanted.pop_back();
  const bool validate_only = history.OneIn(4);
  history.Both<AlterConfigsResponse>(history.Version(0, 2), [&](Side& side) {
    AlterConfigsRequest request;
    request.validate_only = validate_only;
    for (const Wanted& each : wanted) {
      auto& resource = request.resources.emplace_back();
      resource.resource_type = each.resource.type;
      resource.resource_name = each.resource.On(side);
      for (const ConfigValue& config : each.configs) {
        resource.configs.push_back({config.name, config.value});
      }
    }
    return request;
  });
  Settle(history, validate_only);
}

struct Change {
  ConfigValue config;
  int8_t operation = 0;
};

void Increment(History& history) {
  struct Wanted {
    Resource resource;
    std::vector<Change> changes;
  };
  std::vector<Wanted> wanted;
  const int64_t count = history.AnyOf({1, 1, 2});
  for (int64_t i = 0; i < count; ++i) {
    Wanted& each = wanted.emplace_back();
    each.resource = history.OneIn(8) ? OddResource(history) : AnyTopicResource(history);
    const int64_t changes = history.AnyOf({0, 1, 1, 1, 2});
    for (int64_t k = 0; k < changes; ++k) {
      Change& change = each.changes.emplace_back();
      change.operation = history.AnyOf<int8_t>({0, 0, 0, 0, 1, 1, 2, 3});
      change.config = AnyTopicConfig(history, history.OneIn(4));
      if (change.operation >= 2 && !history.OneIn(4)) {
        change.config = history.OneIn(2)
                            ? ConfigValue{"cleanup.policy",
                                          history.AnyOf<std::string>(
                                              {"compact", "delete", "compact,delete", "keep"})}
                            : ConfigValue{"leader.replication.throttled.replicas",
                                          history.AnyOf<std::string>({"0:1", "1:1", "0:1,1:1"})};
      }
      if (change.operation == 1 && history.OneIn(2)) change.config.value.reset();
    }
  }
  if (history.OneIn(10)) wanted.push_back(wanted.front());
  const bool validate_only = history.OneIn(4);
  history.Both<IncrementalAlterConfigsResponse>(history.Version(0, 1), [&](Side& side) {
    IncrementalAlterConfigsRequest request;
    request.validate_only = validate_only;
    for (const Wanted& each : wanted) {
      auto& resource = request.resources.emplace_back();
      resource.resource_type = each.resource.type;
      resource.resource_name = each.resource.On(side);
      for (const Change& change : each.changes) {
        resource.configs.push_back({change.config.name, change.operation, change.config.value});
      }
    }
    return request;
  });
  Settle(history, validate_only);
}

// Kafka fails the whole request, so it is about nothing else.
void IncrementStrangely(History& history) {
  const Resource resource = AnyTopicResource(history);
  const int8_t operation = history.AnyOf<int8_t>({4, -1, 100});
  history.Both<IncrementalAlterConfigsResponse>(history.Version(0, 1), [&](Side& side) {
    IncrementalAlterConfigsRequest request;
    auto& wanted = request.resources.emplace_back();
    wanted.resource_type = resource.type;
    wanted.resource_name = resource.On(side);
    wanted.configs.push_back({"flush.ms", operation, "1000"});
    return request;
  });
}

void ListResources(History& history) {
  const int16_t version = history.Version(0, 1);
  std::vector<int8_t> types;
  const int64_t count = history.Between(0, 2);
  for (int64_t i = 0; i < count; ++i) types.push_back(history.AnyOf<int8_t>({2, 4, 8, 16, 32, 7}));
  history.Both<ListConfigResourcesResponse>(version,
                                            [&](Side&) {
                                              ListConfigResourcesRequest request;
                                              if (version >= 1) request.resource_types = types;
                                              return request;
                                            },
                                            {.normal = {.all_topics = true}});
}

constexpr WeightedAction kActions[] = {
    {5, Describe},  {2, DescribeBroker},     {4, Replace},
    {5, Increment}, {1, IncrementStrangely}, {1, ListResources},
};

}  // namespace

std::span<const WeightedAction> ConfigActions() { return kActions; }

}  // namespace kmirror::test
