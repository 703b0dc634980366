// Which topics a list of names and patterns means.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "kmirror/status.h"

namespace kmirror::tools {

// Each of `wanted` is the name of one of `present`, or else a pattern (RE2) that must match at
// least one of them from its first to its last character. kUsage: a pattern that is none, naming
// it; kUnknownTopicOrPartition: matches nothing, naming it. Sorted, each once.
Result<std::vector<std::string>> SelectTopics(const std::vector<std::string>& wanted,
                                              const std::set<std::string>& present);

// "a,b , c" in parts, empty ones dropped. A comma inside {..} belongs to a pattern, as in "a{1,3}".
std::vector<std::string> SplitList(const std::string& text);

}  // namespace kmirror::tools
