// Waits until the partitions of some topics have come where an order sent them.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <ostream>
#include <string>
#include <vector>

#include "kmirror/status.h"
#include "tools/kmirror/mirror_admin.h"

namespace kmirror::tools {

struct Goal {
  Verb verb = Verb::kStart;  // kStart, kResume: caught up; kPause: PAUSED; kStop: STOPPED;
                             // kRecover: not FAILED
  std::string mirror;
  // Partitions each topic must show at least; 1 when not known.
  std::map<std::string, int32_t> topics;
};

// How far a description is from the goal.
struct Reached {
  int done = 0;
  int total = 0;  // as far as known
  std::map<std::string, int> states;
  int64_t greatest_lag = -1;
  int unknown_lags = 0;
  std::vector<PartitionRow> hopeless;  // FAILED for good, and the order does not change that
  std::vector<PartitionRow> missing;   // not there yet, and described
  bool complete() const { return total > 0 && done == total; }
};
Reached Compare(const Goal& goal, const std::vector<PartitionRow>& rows);
// "3 of 4 partitions caught up; MIRRORING 3, PREPARING 1; greatest lag 120".
std::string ProgressText(const Goal& goal, const Reached& reached);

enum class WaitEnd { kReached, kRanOut, kHopeless };
// Polls until the goal is reached, a partition has failed for good, or `patience` is over. A broker
// that does not answer in between is asked again. Progress goes to `err`.
WaitEnd WaitFor(MirrorAdmin& admin, const Goal& goal, std::chrono::milliseconds patience,
                std::chrono::milliseconds interval, bool live, std::ostream& err);

}  // namespace kmirror::tools
