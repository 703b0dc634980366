// Where a log must be cut so that it agrees with its source: the pure rules of fetcher-and-log 1.6
// and 1.8. Offsets are exclusive ends.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>

#include "kmirror/host/partition_log.h"

namespace kmirror::fetcher {

struct TruncationPoint {
  int64_t offset = 0;
  bool complete = true;  // false: ask again with the epoch that is then the latest
  bool operator==(const TruncationPoint&) const = default;
};

// `source`: the source's answer for an epoch of ours (or the diverging epoch of a fetch answer).
// `local`: our own answer for source.epoch, undefined when we know no epoch at or below it.
// `fetch_offset`: where the partition would fetch. `log_end`: our end. An undefined source offset
// says "cut at fetch_offset", as in Kafka; mirrors ask with a lower epoch instead (R26) and never
// come here with it.
inline TruncationPoint FindTruncationPoint(host::EpochEnd source, host::EpochEnd local,
                                           int64_t fetch_offset, int64_t log_end) {
  if (source.end_offset == -1) return {fetch_offset, true};
  if (source.epoch == -1 || local.epoch == -1 || local.end_offset == -1) {
    return {std::min(source.end_offset, log_end), true};
  }
  if (local.epoch == source.epoch) {
    return {std::min({local.end_offset, source.end_offset, log_end}), true};
  }
  return {std::min(local.end_offset, log_end), false};
}

enum class OutOfRange : uint8_t {
  kSourceShorter,  // the source ends below our end: cut to `offset`
  kGap,            // the source begins above our end: restart empty at `offset`
  kWithin,         // our end is inside the source's log: align epochs again
};

struct OutOfRangeDecision {
  OutOfRange what = OutOfRange::kWithin;
  int64_t offset = 0;
};

// `latest`, `earliest`: the source's ListOffsets answers as a consumer sees them. `earliest` may be
// absent while only `latest` is known; the decision is then absent too if it needs both.
inline std::optional<OutOfRangeDecision> DecideOutOfRange(int64_t log_end, int64_t latest,
                                                          std::optional<int64_t> earliest) {
  if (latest < log_end) return OutOfRangeDecision{OutOfRange::kSourceShorter, latest};
  if (!earliest) return std::nullopt;
  if (*earliest > log_end) return OutOfRangeDecision{OutOfRange::kGap, *earliest};
  return OutOfRangeDecision{OutOfRange::kWithin, log_end};
}

}  // namespace kmirror::fetcher
