#include "tests/differential/comparison.h"

#include <algorithm>
#include <map>

#include "tests/differential/normal_form.h"

namespace kmirror::test {
namespace {

using nlohmann::json;

class Walk {
 public:
  explicit Walk(std::vector<Difference>* differences) : differences_(*differences) {}

  void Values(const std::string& path, const json& kafka, const json& ours) {
    if (kafka.is_object() && ours.is_object()) return Objects(path, kafka, ours);
    if (kafka.is_array() && ours.is_array()) return Arrays(path, kafka, ours);
    ++values;
    if (kafka != ours) differences_.push_back({path, kafka, ours});
  }

  int64_t values = 0;

 private:
  void Objects(const std::string& path, const json& kafka, const json& ours) {
    const std::string dot = path.empty() ? "" : path + ".";
    for (const auto& [key, value] : kafka.items()) {
      Values(dot + key, value, ours.contains(key) ? ours[key] : kMissing);
    }
    for (const auto& [key, value] : ours.items()) {
      if (!kafka.contains(key)) Values(dot + key, kMissing, value);
    }
  }

  // Elements meet by name where they have one, so that one that is missing shows as that.
  void Arrays(const std::string& path, const json& kafka, const json& ours) {
    const std::map<std::string, const json*> theirs = ByName(kafka);
    const std::map<std::string, const json*> mine = ByName(ours);
    for (const auto& [name, value] : theirs) {
      const auto other = mine.find(name);
      Values(path + "[" + name + "]", *value, other == mine.end() ? kMissing : *other->second);
    }
    for (const auto& [name, value] : mine) {
      if (!theirs.contains(name)) Values(path + "[" + name + "]", kMissing, *value);
    }
    // Also in the same order, where the normal form has not sorted them.
    std::vector<std::string> their_order, my_order;
    for (const json& each : kafka) their_order.push_back(ElementName(each));
    for (const json& each : ours) my_order.push_back(ElementName(each));
    if (theirs.size() == mine.size() && their_order != my_order &&
        std::is_permutation(their_order.begin(), their_order.end(), my_order.begin(),
                            my_order.end())) {
      differences_.push_back({path + "[order]", their_order, my_order});
    }
  }

  static std::map<std::string, const json*> ByName(const json& array) {
    std::map<std::string, const json*> found;
    std::map<std::string, int> uses;
    for (size_t i = 0; i < array.size(); ++i) {
      std::string name = ElementName(array[i]);
      if (name.empty()) name = std::to_string(i);
      if (const int use = ++uses[name]; use > 1) name += " #" + std::to_string(use);
      found.emplace(std::move(name), &array[i]);
    }
    return found;
  }

  std::vector<Difference>& differences_;
};

}  // namespace

int64_t Compare(const json& kafka, const json& ours, std::vector<Difference>* differences) {
  Walk walk(differences);
  walk.Values("", kafka, ours);
  return walk.values;
}

}  // namespace kmirror::test
