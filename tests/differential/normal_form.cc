#include "tests/differential/normal_form.h"

#include <algorithm>
#include <string>
#include <vector>

#include "tests/differential/side.h"

namespace kmirror::test {
namespace {

using nlohmann::json;

// Fields that name an element of an array among its neighbours.
constexpr const char* kNaming[] = {"name",         "topicName",    "topic",      "topicId",
                                   "resourceType", "resourceName", "key",        "apiKey",
                                   "nodeId",       "brokerId",     "producerId", "logDir"};
constexpr const char* kNumbering[] = {"partitionIndex", "index", "partition", "partitionId"};

class Normaliser {
 public:
  Normaliser(Side& side, const NormalOptions& options) : side_(side), options_(options) {}

  json Of(const std::string& key, const json& value) {
    if (value.is_object()) return OfObject(value);
    if (value.is_array()) return OfArray(key, value);
    if (value.is_string()) return OfString(key, value.get<std::string>());
    if (value.is_number_integer()) return OfNumber(key, value);
    return value;
  }

 private:
  json OfObject(const json& object) {
    json out = json::object();
    for (const auto& [key, value] : object.items()) {
      out[key] = Of(key, value);
      // No text is no text.
      if (key.ends_with("Message") && out[key] == "") out[key] = nullptr;
    }
    return out;
  }

  json OfArray(const std::string& key, const json& array) {
    json out = json::array();
    bool named = !array.empty();
    for (const json& element : array) {
      if (options_.all_topics && Foreign(element)) continue;
      out.push_back(Of(key, element));
      named &= element.is_object() && !ElementName(out.back()).empty();
    }
    // Kafka's order is often that of a hash map. That of batches and of synonyms means something.
    if (named && key != "synonyms" && key != "records") {
      out = Sorted(out);
      if (key == "responses") out = Merged(out);
    }
    return out;
  }

  // By name; equal names stay in their order.
  static json Sorted(const json& array) {
    std::vector<std::pair<std::string, size_t>> order;
    for (const json& element : array) order.emplace_back(ElementName(element), order.size());
    std::sort(order.begin(), order.end());
    json out = json::array();
    for (const auto& [name, index] : order) out.push_back(array[index]);
    return out;
  }

  // The partitions of one topic stand together; Kafka tells the refused ones apart from the others.
  static json Merged(const json& topics) {
    json out = json::array();
    for (const json& topic : topics) {
      const bool again = !out.empty() && topic.contains("partitions") &&
                         ElementName(out.back()) == ElementName(topic);
      if (!again) {
        out.push_back(topic);
        continue;
      }
      json& partitions = out.back()["partitions"];
      partitions.insert(partitions.end(), topic["partitions"].begin(), topic["partitions"].end());
      partitions = Sorted(partitions);
    }
    return out;
  }

  // A topic of somebody else in an answer about all.
  bool Foreign(const json& element) const {
    if (!element.is_object()) return false;
    if (element.contains("resourceType") && element["resourceType"] == 4) return false;
    for (const char* key : {"name", "topic", "resourceName"}) {
      if (!element.contains(key) || !element[key].is_string()) continue;
      return !element[key].get<std::string>().starts_with(side_.prefix());
    }
    return false;
  }

  json OfString(const std::string& key, std::string text) {
    if (key == "errorMessage" || key == "batchIndexErrorMessage" || key == "documentation") {
      return text.empty() ? "" : "text";
    }
    if (key == "topicId") return side_.TopicLabel(text);
    if (key == "clusterId") return text.empty() ? "" : "the cluster";
    if (key == "logDir") return "the folder";
    for (size_t at = 0; (at = text.find(side_.prefix(), at)) != std::string::npos;) {
      text.erase(at, side_.prefix().size());
    }
    return text;
  }

  json OfNumber(const std::string& key, const json& value) {
    const auto number = value.get<int64_t>();
    if (key == "producerId" && number >= 0) return side_.ProducerLabel(number);
    if (key == "sessionId" && number != 0) {
      return side_.SessionLabel(static_cast<int32_t>(number));
    }
    if (key == "port" && number == side_.port()) return "its port";
    if (key == "logAppendTimeMs" && number > kLongAgo) return "its time";
    if (key == "finalizedFeaturesEpoch" && number >= 0) return "some";
    if ((key == "totalBytes" || key == "usableBytes") && number > 0) return "some";
    // Topics with log append time have the broker's: those are the only
    // records with times of today.
    if ((key == "lastTimestamp" || key == "timestamp") && number > kLongAgo) return "its time";
    return value;
  }

  static constexpr int64_t kLongAgo = 1750000000000;
  Side& side_;
  const NormalOptions& options_;
};

}  // namespace

std::string ElementName(const json& element) {
  if (!element.is_object()) return "";
  std::string name;
  for (const char* key : kNaming) {
    if (!element.contains(key) || element[key].is_null()) continue;
    if (!name.empty() && std::string_view(key) == "topicId") continue;
    const json& value = element[key];
    if (!name.empty()) name += "/";
    name += value.is_string() && value != "" ? value.get<std::string>() : value.dump();
  }
  if (!name.empty()) return name;
  for (const char* key : kNumbering) {
    if (element.contains(key)) return element[key].dump();
  }
  return "";
}

json NormalForm(const json& body, Side& side, const NormalOptions& options) {
  return Normaliser(side, options).Of("", body);
}

}  // namespace kmirror::test
