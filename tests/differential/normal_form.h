// An answer without what two good brokers may say differently: ids and addresses of their own,
// times of their clocks, wording, the order of topics.
#pragma once

#include <nlohmann/json.hpp>

namespace kmirror::test {

class Side;

struct NormalOptions {
  bool all_topics = false;  // the request was about all: leave out topics that are not ours
};

nlohmann::json NormalForm(const nlohmann::json& body, Side& side, const NormalOptions& options);

// What an element of an array is called in a path: by its name or number, "" when it has none.
std::string ElementName(const nlohmann::json& element);

}  // namespace kmirror::test
