// Config keys and values of topics, good and bad, for creations and changes.
#pragma once

#include <optional>
#include <string>

namespace kmirror::test {

class History;

struct ConfigValue {
  std::string name;
  std::optional<std::string> value;
};

// `bad`: a value or a key that is refused. Values that would let a broker delete or change records
// by itself are not among them: when that happens is nobody's promise.
ConfigValue AnyTopicConfig(History& history, bool bad);
// A key that a topic may have.
std::string AnyTopicConfigName(History& history);

}  // namespace kmirror::test
