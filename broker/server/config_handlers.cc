// Configs of topics, brokers and mirrors: described, changed, listed.

#include <algorithm>
#include <charconv>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "broker/config/config_table.h"
#include "broker/server/handlers.h"
#include "messages/alter_configs.h"
#include "messages/describe_configs.h"
#include "messages/incremental_alter_configs.h"
#include "messages/list_config_resources.h"
#include "src/protocol/mirror_numbers.h"
#include "src/protocol/wire_error.h"

namespace kmirror::broker {
namespace {

using protocol::DescribeConfigsRequest;
using protocol::DescribeConfigsResponse;

// Kinds of config resources on the wire.
constexpr int8_t kTopic = 2;
constexpr int8_t kBroker = 4;
constexpr int8_t kMirror = protocol::kClusterMirrorConfigResource;

constexpr int32_t kClusterDefault = -1;

// "" is the cluster-wide default; otherwise this broker's id.
Result<int32_t> BrokerOf(const Services& services, const std::string& name) {
  if (name.empty()) return kClusterDefault;
  int32_t id = -1;
  const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), id);
  if (error != std::errc() || end != name.data() + name.size() || id != services.config->node_id) {
    return {ErrorCode::kInvalidRequest, "ask broker " + name + " itself; this is broker " +
                                            std::to_string(services.config->node_id)};
  }
  return id;
}

// Besides those above: loggers, client metrics, groups, which have none here.
bool IsKnownKind(int8_t kind) {
  constexpr int8_t kKinds[] = {kTopic, kBroker, 8, 16, 32, kMirror};
  return std::ranges::find(kKinds, kind) != std::end(kKinds);
}

Status UnknownKind(int8_t kind) {
  return {ErrorCode::kInvalidRequest,
          "config resources of type " + std::to_string(kind) +
              " are not served; topics (2), brokers (4) and mirrors (64) are"};
}

Result<std::vector<DescribedConfig>> DescribeResource(const Services& services,
                                                      const MetadataImage& image, int8_t kind,
                                                      const std::string& name) {
  const int32_t node = services.config->node_id;
  switch (kind) {
    case kTopic: {
      if (Status named = CheckTopicName(name); !named.ok()) return named;
      const TopicPtr topic = image.topics.Find(name);
      if (!topic) return {ErrorCode::kUnknownTopicOrPartition, "no such topic"};
      return DescribeTopicConfigs(topic->configs, *services.config, image.DynamicConfigs(node));
    }
    case kBroker: {
      const Result<int32_t> broker = BrokerOf(services, name);
      if (!broker.ok()) return broker.status();
      if (*broker != kClusterDefault) {
        return DescribeBrokerConfigs(*services.config, image.DynamicConfigs(node));
      }
      // Of the cluster-wide default only what was set is told, as in Kafka.
      const auto set = image.broker_configs.find(kClusterDefault);
      std::vector<DescribedConfig> all;
      if (set == image.broker_configs.end()) return all;
      all = DescribeBrokerConfigs(*services.config, set->second);
      std::erase_if(all,
                    [&](const DescribedConfig& each) { return !set->second.contains(each.name); });
      for (DescribedConfig& each : all) each.source = ConfigSource::kDynamicDefaultBroker;
      return all;
    }
    case kMirror: {
      if (name.empty()) return {ErrorCode::kInvalidRequest, "a mirror has a name"};
      const auto mirror = image.mirrors.find(name);
      if (mirror == image.mirrors.end()) {
        return {ErrorCode::kUnknownClusterMirror, "there is no mirror " + name};
      }
      return DescribeMirrorConfigs(mirror->second);
    }
    default: return UnknownKind(kind);
  }
}

void Fill(const DescribeConfigsRequest& message, DescribedConfig config,
          DescribeConfigsResponse::DescribeConfigsResourceResult* line) {
  line->name = std::move(config.name);
  line->value = std::move(config.value);
  line->read_only = config.read_only;
  line->config_source = static_cast<int8_t>(config.source);
  line->is_sensitive = config.sensitive;
  line->config_type = static_cast<int8_t>(config.type);
  if (message.include_documentation)
    line->documentation = std::move(config.doc);
  else
    line->documentation.reset();
  if (!message.include_synonyms) return;
  for (ConfigSynonym& synonym : config.synonyms) {
    line->synonyms.push_back(
        {std::move(synonym.name), std::move(synonym.value), static_cast<int8_t>(synonym.source)});
  }
}

// One resource to be changed: either single changes, or all of its configs anew.
struct Alteration {
  int8_t kind = 0;
  std::string name;
  bool replace = false;
  std::vector<ConfigChange> changes;  // sets alone when `replace`
};

// Replacing is setting what is given and deleting what is not.
void DeleteAllElse(const ConfigMap& present, std::vector<ConfigChange>* changes) {
  std::set<std::string> given;
  for (const ConfigChange& change : *changes) given.insert(change.name);
  for (const auto& [key, value] : present) {
    if (!given.contains(key)) changes->push_back({key, ConfigOp::kDelete, std::nullopt});
  }
}

Status Alter(Services& services, Alteration alteration, bool validate_only) {
  Controller& controller = *services.controller;
  const ImagePtr image = controller.image();
  switch (alteration.kind) {
    case kTopic: {
      if (alteration.name.empty()) {
        return {ErrorCode::kInvalidRequest, "topics have no cluster-wide default"};
      }
      if (alteration.replace) {
        std::set<std::string_view> seen;
        for (const ConfigChange& change : alteration.changes) {
          if (!seen.insert(change.name).second) {
            return {ErrorCode::kInvalidRequest, change.name + ": given twice"};
          }
          if (!change.value) return {ErrorCode::kInvalidRequest, change.name + ": null value"};
        }
        if (Status named = CheckTopicName(alteration.name); !named.ok()) return named;
      }
      if (!image->topics.Find(alteration.name)) {
        // What is wrong with the configs themselves is told first, as in Kafka.
        const Result<ConfigMap> configs =
            ApplyConfigChanges({}, alteration.changes, FindTopicConfig);
        if (!configs.ok()) return configs.status();
        if (Status s = CheckTopicConfigs(*configs, false); !s.ok()) return s;
        if (Status named = CheckTopicName(alteration.name); !named.ok()) return named;
        return {ErrorCode::kUnknownTopicOrPartition, "no such topic"};
      }
      if (!alteration.replace) {
        return controller.AlterTopicConfigs(alteration.name, alteration.changes, validate_only);
      }
      ConfigMap configs;
      for (ConfigChange& change : alteration.changes) {
        configs[change.name] = std::move(*change.value);
      }
      return controller.ReplaceTopicConfigs(alteration.name, std::move(configs), validate_only);
    }
    case kBroker: {
      const Result<int32_t> broker = BrokerOf(services, alteration.name);
      if (!broker.ok()) return broker.status();
      if (alteration.replace) {
        const auto present = image->broker_configs.find(*broker);
        if (present != image->broker_configs.end()) {
          DeleteAllElse(present->second, &alteration.changes);
        }
      }
      return controller.AlterBrokerConfigs(*broker, alteration.changes, validate_only);
    }
    case kMirror: {
      if (alteration.name.empty()) return {ErrorCode::kInvalidRequest, "a mirror has a name"};
      if (alteration.replace) {
        const auto present = image->mirrors.find(alteration.name);
        if (present != image->mirrors.end()) {
          for (ConfigChange& change : alteration.changes)
            change.name = MirrorConfigKey(change.name);
          DeleteAllElse(present->second, &alteration.changes);
        }
      }
      return controller.AlterMirrorConfigs(alteration.name, alteration.changes, validate_only);
    }
    default: return UnknownKind(alteration.kind);
  }
}

// `Message` is AlterConfigs or IncrementalAlterConfigs, whose answers are alike.
template <typename Response, typename Message, typename AlterationOf>
void AlterAll(Services& services, const RequestPtr& request, std::shared_ptr<Message> message,
              AlterationOf alteration_of) {
  services.worker->Post([&services, request, message, alteration_of] {
    Response response;
    std::map<std::pair<int8_t, std::string>, int> uses;
    for (const auto& resource : message->resources) {
      ++uses[{resource.resource_type, resource.resource_name}];
    }
    for (const auto& resource : message->resources) {
      auto& answer = response.responses.emplace_back();
      answer.resource_type = resource.resource_type;
      answer.resource_name = resource.resource_name;
      Status altered;
      if (uses[{resource.resource_type, resource.resource_name}] > 1) {
        altered = {ErrorCode::kInvalidRequest, "the resource is in the request more than once"};
      } else {
        Result<Alteration> alteration = alteration_of(resource);
        altered = alteration.ok() ? Alter(services, std::move(*alteration), message->validate_only)
                                  : alteration.status();
      }
      answer.error_code = protocol::WireErrorCode(altered.code());
      answer.error_message = protocol::WireErrorMessage(altered);
    }
    request->Answer(response);
  });
}

}  // namespace

void HandleDescribeConfigs(Services& services, RequestPtr request) {
  DescribeConfigsRequest message;
  if (!DecodeRequest(*request, &message)) return;
  DescribeConfigsResponse response;
  const ImagePtr image = services.controller->image();
  // One kind that nobody knows spoils the request (as in Kafka).
  const auto strange = std::ranges::find_if(
      message.resources, [](const auto& each) { return !IsKnownKind(each.resource_type); });
  for (const auto& resource : message.resources) {
    auto& answer = response.results.emplace_back();
    answer.resource_type = resource.resource_type;
    answer.resource_name = resource.resource_name;
    Result<std::vector<DescribedConfig>> configs =
        strange != message.resources.end()
            ? UnknownKind(strange->resource_type)
            : DescribeResource(services, *image, resource.resource_type, resource.resource_name);
    answer.error_code = protocol::WireErrorCode(configs.status().code());
    answer.error_message = protocol::WireErrorMessage(configs.status());
    if (!configs.ok()) continue;
    for (DescribedConfig& config : *configs) {
      if (resource.configuration_keys && !resource.configuration_keys->empty() &&
          std::ranges::find(*resource.configuration_keys, config.name) ==
              resource.configuration_keys->end()) {
        continue;
      }
      Fill(message, std::move(config), &answer.configs.emplace_back());
    }
  }
  request->Answer(response);
}

void HandleAlterConfigs(Services& services, RequestPtr request) {
  auto message = std::make_shared<protocol::AlterConfigsRequest>();
  if (!DecodeRequest(*request, message.get())) return;
  AlterAll<protocol::AlterConfigsResponse>(
      services, request, message, [](const auto& resource) -> Result<Alteration> {
        Alteration alteration{resource.resource_type, resource.resource_name, true, {}};
        for (const auto& config : resource.configs) {
          alteration.changes.push_back({config.name, ConfigOp::kSet, config.value});
        }
        return alteration;
      });
}

void HandleIncrementalAlterConfigs(Services& services, RequestPtr request) {
  auto message = std::make_shared<protocol::IncrementalAlterConfigsRequest>();
  if (!DecodeRequest(*request, message.get())) return;
  AlterAll<protocol::IncrementalAlterConfigsResponse>(
      services, request, message, [](const auto& resource) -> Result<Alteration> {
        Alteration alteration{resource.resource_type, resource.resource_name, false, {}};
        for (const auto& config : resource.configs) {
          if (config.config_operation < 0 || config.config_operation > 3) {
            return {ErrorCode::kInvalidRequest,
                    config.name + ": unknown operation " + std::to_string(config.config_operation)};
          }
          alteration.changes.push_back(
              {config.name, static_cast<ConfigOp>(config.config_operation), config.value});
        }
        return alteration;
      });
}

void HandleListConfigResources(Services& services, RequestPtr request) {
  protocol::ListConfigResourcesRequest message;
  if (!DecodeRequest(*request, &message)) return;
  protocol::ListConfigResourcesResponse response;
  const ImagePtr image = services.controller->image();
  // Version 0 lists client metrics subscriptions, of which there are none.
  if (request->version() >= 1) {
    const auto wanted = [&](int8_t kind) {
      return message.resource_types.empty() ||
             std::ranges::find(message.resource_types, kind) != message.resource_types.end();
    };
    if (wanted(kTopic)) {
      for (const TopicPtr& topic : image->topics.Sorted()) {
        response.config_resources.push_back({topic->name, kTopic});
      }
    }
    if (wanted(kBroker)) {
      for (const BrokerImage& broker : image->brokers) {
        response.config_resources.push_back({std::to_string(broker.id), kBroker});
      }
    }
    if (wanted(kMirror)) {
      for (const auto& [name, configs] : image->mirrors) {
        response.config_resources.push_back({name, kMirror});
      }
    }
    constexpr int8_t kOthers[] = {8, 16, 32};  // loggers, client metrics, groups: none here
    for (const int8_t kind : message.resource_types) {
      if (kind != kTopic && kind != kBroker && kind != kMirror &&
          std::ranges::find(kOthers, kind) == std::end(kOthers)) {
        response.error_code = protocol::WireErrorCode(ErrorCode::kUnsupportedVersion);
        response.config_resources.clear();
        break;
      }
    }
  }
  request->Answer(response);
}

}  // namespace kmirror::broker
