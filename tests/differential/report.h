// What all histories of a run found. Thread-safe.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "tests/differential/comparison.h"

namespace kmirror::test {

struct Step {
  std::string api;
  int16_t version = 0;
  std::string request;  // as JSON
};

class Report {
 public:
  // Failures say what was asked before: long, for one seed alone.
  void TellTrail() { tell_trail_ = true; }
  void Count(const Step& step, int64_t fields);
  void Explained(const std::string& deviation);
  // A difference nobody has explained.
  void Unexplained(uint64_t seed, int number, const Step& step, const Difference& difference,
                   const std::vector<std::string>& trail);
  void GivenUp(uint64_t seed, const std::string& why);
  void HistoryDone();

  // Seeds, requests, fields; hits of each deviation; versions asked of each API.
  std::string Summary() const;
  // Every unexplained difference, those alike only once; empty when there is none.
  std::string Failures() const;
  std::map<std::string, int64_t> hits() const;

 private:
  struct Failure {
    int64_t times = 0;
    std::string text;
  };
  bool tell_trail_ = false;
  mutable std::mutex mutex_;
  int64_t histories_ = 0;
  int64_t requests_ = 0;
  int64_t fields_ = 0;
  std::map<std::string, std::set<int16_t>> versions_;
  std::map<std::string, int64_t> hits_;
  std::map<std::string, Failure> failures_;  // by API, path without names, and values
};

}  // namespace kmirror::test
