// Where PREPARING cuts the destination's log: the last point both clusters are known to agree on
// (coordinator.md 3.3, 3.6; fetcher-and-log.md 1.6; R26). Pure arithmetic on epochs and offsets.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "src/statemachine/partition_record.h"

namespace kmirror::statemachine {

struct EpochStart {
  int32_t epoch = -1;
  int64_t start_offset = -1;
};

// The local log as far as alignment is concerned: epochs in order, [log_start, end).
struct LogShape {
  int64_t log_start = 0;
  int64_t end = 0;
  std::vector<EpochStart> epochs;
  bool IsEmpty() const { return end == log_start; }
};

// The later of the two: a later agreement always has the greater epoch, because every stop bumps
// (3.6).
MirrorPosition Later(const MirrorPosition& a, const MirrorPosition& b);

// The first cut by a known position: min(end of its epoch here, its offset), never above the end.
// REQUIRES: !position.IsNone().
int64_t CutForPosition(const LogShape& log, const MirrorPosition& position);

// `log` as it would be after a cut at `offset`.
LogShape CutShape(LogShape log, int64_t offset);

// The exchange with the source, one question at a time, on a shape that has not been cut yet. Ask
// for `Question()`; feed the answer; until done. At most one round per local epoch.
class EpochExchange {
 public:
  explicit EpochExchange(LogShape log);

  // The epoch to ask the source about; nullopt: the exchange is over.
  std::optional<int32_t> Question() const { return question_; }
  // {-1, -1} when the source does not know.
  void Answer(int32_t epoch, int64_t end_offset);

  // After the last question. nullopt: no local epoch is known to the source and the log is not
  // empty, so nothing can be said about a common prefix (R26).
  std::optional<int64_t> Cut() const;

 private:
  void Ask(int32_t below_or_equal);

  LogShape log_;
  std::optional<int32_t> question_;
  std::optional<int64_t> cut_;
};

// The first decision of PREPARING about the log: where to cut without asking further, or that the
// epochs have to be compared first, or that nothing can be said about a common prefix.
struct StartCut {
  enum class Next : uint8_t { kCut, kCompareEpochs, kNoCommonPosition };
  Next next = Next::kNoCommonPosition;
  int64_t cut = 0;       // kCut
  LogShape shape;        // kCompareEpochs: what is left to compare
  MirrorPosition known;  // the later of the source's and our own
};
StartCut ChooseStartCut(LogShape log, const MirrorPosition& from_source,
                        const PartitionRecord& record);

// The cut after the comparison; nullopt: no common position (R26). `log_start` is the log's now.
std::optional<int64_t> CutAfterExchange(const EpochExchange& exchange, const MirrorPosition& known,
                                        int64_t log_start);

}  // namespace kmirror::statemachine
