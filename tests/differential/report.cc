#include "tests/differential/report.h"

#include <algorithm>
#include <regex>

namespace kmirror::test {
namespace {

constexpr size_t kTrailShown = 40;
constexpr size_t kTextMax = 1500;

std::string Short(std::string text) {
  if (text.size() > kTextMax) text = text.substr(0, kTextMax) + " ...";
  return text;
}

}  // namespace

void Report::Count(const Step& step, int64_t fields) {
  const std::lock_guard lock(mutex_);
  ++requests_;
  fields_ += fields;
  versions_[step.api].insert(step.version);
}

void Report::Explained(const std::string& deviation) {
  const std::lock_guard lock(mutex_);
  ++hits_[deviation];
}

void Report::Unexplained(uint64_t seed, int number, const Step& step, const Difference& difference,
                         const std::vector<std::string>& trail) {
  static const std::regex kNames("\\[[^\\]]*\\]");
  const std::string kafka = Short(difference.kafka.dump());
  const std::string ours = Short(difference.ours.dump());
  const bool whole = difference.path.find("].configs[") != std::string::npos;
  const std::string key =
      step.api + "|" +
      (whole ? difference.path : std::regex_replace(difference.path, kNames, "[]")) + "|" + kafka +
      "|" + ours;
  const std::lock_guard lock(mutex_);
  Failure& failure = failures_[key];
  if (++failure.times > 1) return;
  failure.text = "seed " + std::to_string(seed) + " step " + std::to_string(number) + ": " +
                 step.api + " v" + std::to_string(step.version) + " " + difference.path +
                 "\n  kafka:    " + kafka + "\n  kmirrord: " + ours +
                 "\n  request:  " + Short(step.request) + "\n";
  if (!tell_trail_) return;
  const size_t first = trail.size() > kTrailShown ? trail.size() - kTrailShown : 0;
  for (size_t i = first; i < trail.size(); ++i) failure.text += "    before: " + trail[i] + "\n";
}

void Report::GivenUp(uint64_t seed, const std::string& why) {
  const std::lock_guard lock(mutex_);
  Failure& failure = failures_["given up|" + why];
  if (++failure.times == 1) failure.text = "seed " + std::to_string(seed) + ": " + why + "\n";
}

void Report::HistoryDone() {
  const std::lock_guard lock(mutex_);
  ++histories_;
}

std::string Report::Summary() const {
  const std::lock_guard lock(mutex_);
  std::string text = std::to_string(histories_) + " histories, " + std::to_string(requests_) +
                     " requests to each broker, " + std::to_string(fields_) +
                     " fields compared\nversions:";
  for (const auto& [api, versions] : versions_) {
    text += " " + api + " " + std::to_string(*versions.begin()) + "-" +
            std::to_string(*versions.rbegin());
  }
  text += "\nanswered differently, as documented:";
  for (const auto& [id, hits] : hits_) text += " " + id + " x" + std::to_string(hits);
  return text + "\n";
}

std::string Report::Failures() const {
  const std::lock_guard lock(mutex_);
  std::string text;
  for (const auto& [key, failure] : failures_) {
    text += "(" + std::to_string(failure.times) + " x) " + failure.text;
  }
  return text;
}

std::map<std::string, int64_t> Report::hits() const {
  const std::lock_guard lock(mutex_);
  return hits_;
}

}  // namespace kmirror::test
