// Where kmirrord answers differently and why that is right: the list that the table "Where kmirrord
// answers differently" of docs/protocol.md explains, entry by entry.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <string_view>

#include "tests/differential/comparison.h"

namespace kmirror::test {

struct Deviation {
  std::string_view id;    // as in the table
  std::string_view api;   // regular expression on the API's name
  std::string_view path;  // regular expression on the whole path of the difference
  bool (*fits)(const nlohmann::json& kafka, const nlohmann::json& ours);
  // Only where the history says that it asks for this very thing.
  bool marked = false;
};

std::span<const Deviation> Deviations();

// The entry that explains the difference, or nullptr. `mark`: the id that the step gave, or "".
const Deviation* Explain(std::string_view api, const Difference& difference, std::string_view mark);

}  // namespace kmirror::test
