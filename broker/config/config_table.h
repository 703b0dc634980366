// Definitions of every config kmirrord knows: name, type, default, check, synonyms. One table a
// level.
//
// Pure and thread-safe. Used by CreateTopics, DescribeConfigs, (Incremental)AlterConfigs and the
// parser of the broker's own file. Mirror-level configs are the library's: kmirror/mirror_config.h.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "broker/config/broker_config.h"
#include "broker/storage/log_config.h"
#include "kmirror/mirror_config.h"
#include "kmirror/status.h"

namespace kmirror::broker {

using ConfigMap = std::map<std::string, std::string>;

// Wire values of DescribeConfigs (ConfigType); the library's table uses the same enum.
using kmirror::ConfigType;

struct ConfigDefinition {
  std::string_view name;
  ConfigType type = ConfigType::kString;
  std::optional<std::string_view> fallback;  // default as text; nullopt: null
  int64_t min = INT64_MIN, max = INT64_MAX;  // numbers, inclusive
  std::string_view choices;                  // comma-separated; "" any text. For lists: each item
  std::string_view broker_synonym;           // topic configs: the broker key that is their default
  bool read_only = false;                    // topic: `mirror.name`; broker: not dynamic
  std::string_view doc;
};

std::span<const ConfigDefinition> TopicConfigTable();
std::span<const ConfigDefinition> BrokerConfigTable();
const ConfigDefinition* FindTopicConfig(std::string_view name);  // nullptr: unknown
const ConfigDefinition* FindBrokerConfig(std::string_view name);
inline constexpr std::string_view kMirrorNameConfig = "mirror.name";

// The value as it is understood: without blanks, lower-case booleans.
std::string CanonicalConfigValue(ConfigType type, std::string_view value);
// kInvalidConfig, the text names the key and what is wrong with the value.
Status CheckConfigValue(const ConfigDefinition& definition, std::string_view value);
// Every key known and every value good. `mirror.name` is refused unless allow_mirror_name (R2), and
// its form is checked then.
Status CheckTopicConfigs(const ConfigMap& configs, bool allow_mirror_name);

// Wire values of IncrementalAlterConfigs.
enum class ConfigOp : int8_t { kSet = 0, kDelete = 1, kAppend = 2, kSubtract = 3 };
struct ConfigChange {
  std::string name;
  ConfigOp op = ConfigOp::kSet;
  std::optional<std::string> value;  // kSet, kAppend, kSubtract: required
};
// `configs` with the changes applied. kInvalidConfig: unknown key, append or subtract on a config
// that is no list; kInvalidRequest: null value, one key twice. `definition_of` finds the key's
// definition. Checks keys and operations, not the resulting values.
Result<ConfigMap> ApplyConfigChanges(const ConfigMap& configs,
                                     std::span<const ConfigChange> changes,
                                     const ConfigDefinition* (*definition_of)(std::string_view));

// One line of a DescribeConfigs answer. Sources are wire values (ConfigSource).
enum class ConfigSource : int8_t {
  kUnknown = 0,
  kDynamicTopic = 1,
  kDynamicBroker = 2,
  kDynamicDefaultBroker = 3,
  kStaticBroker = 4,
  kDefault = 5,
};
struct ConfigSynonym {
  std::string name;
  std::optional<std::string> value;  // never set for passwords
  ConfigSource source = ConfigSource::kDefault;
};
struct DescribedConfig {
  std::string name;
  std::optional<std::string> value;  // nullopt: null, and always for passwords
  ConfigSource source = ConfigSource::kDefault;
  ConfigType type = ConfigType::kString;
  bool read_only = false;
  bool sensitive = false;
  std::string doc;
  std::vector<ConfigSynonym> synonyms;
};
// Every topic config, in order of name; `mirror.name` read-only and only when set (R2).
std::vector<DescribedConfig> DescribeTopicConfigs(const ConfigMap& overrides,
                                                  const BrokerConfig& broker,
                                                  const ConfigMap& dynamic_broker);
std::vector<DescribedConfig> DescribeBrokerConfigs(const BrokerConfig& broker,
                                                   const ConfigMap& dynamic_broker);
// The configs of a mirror: STRING-like types with source DYNAMIC_BROKER_CONFIG (protocol.md 1.15),
// defaults with DEFAULT_CONFIG.
std::vector<DescribedConfig> DescribeMirrorConfigs(const ConfigMap& configs);

// The effective config of a topic's logs. Values that do not parse (they were checked when stored)
// fall back to the default.
LogConfig LogConfigFor(const ConfigMap& overrides, const BrokerConfig& broker);
// One effective topic config as text: override, else broker, else default.
std::optional<std::string> EffectiveTopicConfig(std::string_view name, const ConfigMap& overrides,
                                                const BrokerConfig& broker);

}  // namespace kmirror::broker
