// The configs of a mirror (resource CLUSTER_MIRROR, protocol.md 4.3): what there is, and is it
// right?
//
// A host needs them to answer DescribeConfigs and to judge IncrementalAlterConfigs of that
// resource. Pure functions, any thread. Names carry no `mirror.` prefix; the prefixed spelling is
// accepted on input (R25).
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "kmirror/status.h"

namespace kmirror {

// Kafka's ConfigType, wire values.
enum class ConfigType : int8_t {
  kUnknown = 0,
  kBoolean = 1,
  kString = 2,
  kInt = 3,
  kShort = 4,
  kLong = 5,
  kDouble = 6,
  kList = 7,
  kClass = 8,
  kPassword = 9,
};

struct MirrorConfigDefinition {
  std::string_view name;
  ConfigType type = ConfigType::kString;
  std::optional<std::string_view> fallback;  // default as text; nullopt: null
  int64_t min = INT64_MIN, max = INT64_MAX;  // numbers, inclusive
  std::string_view choices;                  // comma-separated; "" any text
  bool fixed = false;                        // may be set once and not changed (source.cluster.id)
  std::string_view doc;
};

// In order of name.
KMIRROR_API std::span<const MirrorConfigDefinition> MirrorConfigTable();
// By either spelling; nullptr when unknown.
KMIRROR_API const MirrorConfigDefinition* FindMirrorConfig(std::string_view name);
// The stored spelling of a known key (without the prefix); anything else comes back as it is.
KMIRROR_API std::string MirrorConfigKey(std::string_view name);

// A complete set of configs of one mirror. kInvalidConfig: the text names the key; a value of a
// password never appears in it. kInvalidRegularExpression: a filter is not a regular expression.
KMIRROR_API Status CheckMirrorConfigs(const std::map<std::string, std::string>& configs);

// protocol.md 4.4 and R2; kInvalidRequest with the reason.
KMIRROR_API Status CheckMirrorName(std::string_view name);

}  // namespace kmirror
