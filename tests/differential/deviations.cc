#include "tests/differential/deviations.h"

#include <map>
#include <regex>

namespace kmirror::test {
namespace {

using nlohmann::json;

bool OnlyOneHasIt(const json& kafka, const json& ours) {
  return kafka == kMissing || ours == kMissing;
}

constexpr Deviation kDeviations[] = {
    {"D1", "ApiVersions.*", "apiKeys\\[\\d+\\](\\.maxVersion|\\.minVersion)?", nullptr},
    {"D2", "ApiVersions", "(supportedFeatures|finalizedFeatures)(\\[.*\\].*)?", nullptr},
    {"D3", "CreateTopics|DescribeConfigs",
     "(topics|results)\\[.*\\]\\.configs\\[(errors\\.deadletterqueue|local|max\\.decompressed|"
     "mirror|"
     "remote)\\..*\\]",
     OnlyOneHasIt},
    {"D6", "DescribeConfigs", "results\\[4/.*\\]\\.configs\\[.*\\]\\.(readOnly|synonyms.*)",
     nullptr},
    {"D4", "DescribeConfigs", "results\\[4/\"\"\\]\\.configs\\[min\\.insync\\.replicas\\]",
     OnlyOneHasIt},
    {"D7", "Fetch", ".*\\.errorCode",
     [](const json& kafka, const json& ours) { return kafka == 3 && ours == 100; }},
    {"D8", "IncrementalAlterConfigs", ".*\\.errorCode",
     [](const json& kafka, const json& ours) { return kafka == -1 && ours == 42; }},
    {"D9", "Produce", ".*", nullptr, true},
    {"D6", "IncrementalAlterConfigs", "responses\\[4/1\\]\\.errorCode",
     [](const json& kafka, const json& ours) { return kafka == 0 && (ours == 42 || ours == 40); }},
    {"D13", "FindCoordinator|InitProducerId", ".*", nullptr, true},
    {"D14", "IncrementalAlterConfigs", ".*", nullptr, true},
    {"D15", "Fetch", ".*\\.records\\[.*", nullptr, true},
    {"D16", "WriteTxnMarkers", ".*\\.errorCode",
     [](const json& kafka, const json& ours) { return kafka == 0 && ours == 49; }, true},
    {"D11", "Produce", ".*", nullptr, true},
    {"D12", "Produce", ".*\\.errorCode",
     [](const json& kafka, const json& ours) { return kafka == -1 && ours == 76; }},
    {"D10", "Produce", ".*\\.recordErrors\\[\\d+\\]",
     [](const json&, const json& ours) { return ours == kMissing; }},
    {"D5", ".*", "(.*\\.)?errorMessage",
     [](const json& kafka, const json&) { return kafka.is_null(); }},
    {"D4", "CreateTopics|DescribeConfigs",
     ".*\\.configs\\[min\\.insync\\.replicas\\]\\.(configSource|synonyms.*)", nullptr},
};

const std::regex& Compiled(std::string_view pattern) {
  static thread_local std::map<std::string, std::regex, std::less<>> cache;
  const auto found = cache.find(pattern);
  if (found != cache.end()) return found->second;
  return cache.emplace(pattern, std::regex(std::string(pattern))).first->second;
}

bool Matches(std::string_view pattern, std::string_view text) {
  return std::regex_match(text.begin(), text.end(), Compiled(pattern));
}

}  // namespace

std::span<const Deviation> Deviations() { return kDeviations; }

const Deviation* Explain(std::string_view api, const Difference& difference,
                         std::string_view mark) {
  for (const Deviation& each : kDeviations) {
    if (each.marked && each.id != mark) continue;
    if (Matches(each.api, api) && Matches(each.path, difference.path) &&
        (each.fits == nullptr || each.fits(difference.kafka, difference.ours))) {
      return &each;
    }
  }
  return nullptr;
}

}  // namespace kmirror::test
