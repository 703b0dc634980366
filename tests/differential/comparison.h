// Two answers field by field.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace kmirror::test {

struct Difference {
  std::string path;  // "topics[t0].partitions[0].errorCode"; "" is the answer itself
  nlohmann::json kafka;
  nlohmann::json ours;  // kMissing where one side has nothing of the kind
};

inline const nlohmann::json kMissing = "(missing)";

// Appends the differences of two normal forms and returns the number of values compared.
int64_t Compare(const nlohmann::json& kafka, const nlohmann::json& ours,
                std::vector<Difference>* differences);

}  // namespace kmirror::test
