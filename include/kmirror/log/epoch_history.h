// Which leader epoch wrote which offsets: Kafka's leader epoch cache, and its checkpoint file.
//
// A list of (epoch, start offset), both strictly increasing. Externally synchronised. Writing the
// file is the host's business; design: before the recovery point passes a new start, never on the
// append path, since a crash rebuilds the list by a scan.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "kmirror/status.h"

namespace kmirror::log {

struct EpochStart {
  int32_t epoch = -1;
  int64_t start_offset = -1;
  bool operator==(const EpochStart&) const = default;
};

// End (exclusive) of an epoch; -1/-1 when undefined, as OffsetForLeaderEpoch answers it.
struct EpochEnd {
  int32_t epoch = -1;
  int64_t end_offset = -1;
  bool operator==(const EpochEnd&) const = default;
};

class EpochHistory {
 public:
  // A batch or a leader of `epoch` starts at `start_offset`. True if the list changed. Negative
  // arguments change nothing. Entries that contradict it are removed from the end first.
  bool Assign(int32_t epoch, int64_t start_offset) {
    if (!entries_.empty() && epoch == entries_.back().epoch &&
        start_offset >= entries_.back().start_offset) {
      return false;  // the path of nearly every batch
    }
    return AssignSlow(epoch, start_offset);
  }

  // Where `epoch` ends in this log. The latest epoch ends at log_end_offset; an epoch above all is
  // undefined; one below all answers with itself and the first start; else the greatest epoch at or
  // below it, with the start of the next.
  KMIRROR_API EpochEnd EndOffsetFor(int32_t epoch, int64_t log_end_offset) const;
  // Epoch of the record at `offset`; nullopt if no entry starts at or below it.
  KMIRROR_API std::optional<int32_t> EpochForOffset(int64_t offset) const;
  // The next lower epoch than `epoch`, for another round of the epoch exchange.
  KMIRROR_API std::optional<EpochStart> Previous(int32_t epoch) const;
  std::optional<EpochStart> Latest() const {
    if (entries_.empty()) return std::nullopt;
    return entries_.back();
  }

  // Drops entries that start at or after `offset`. True if something changed.
  KMIRROR_API bool TruncateFromEnd(int64_t offset);
  // Drops what ends at or below `offset`; the entry that spans it starts there now.
  KMIRROR_API bool TruncateFromStart(int64_t offset);
  // The leader of `epoch` had entered its start above `offset`, and the log was cut to `offset`: it
  // starts there now. Nothing happens if the epoch has no entry or starts lower.
  KMIRROR_API bool LowerStart(int32_t epoch, int64_t offset);
  KMIRROR_API void Clear();

  const std::vector<EpochStart>& entries() const { return entries_; }
  bool empty() const { return entries_.empty(); }

  // The text of `leader-epoch-checkpoint`: "0", the number of lines, then "epoch start" a line.
  KMIRROR_API std::string Encode() const;
  // CORRUPT_MESSAGE names the line. Entries out of order are refused.
  KMIRROR_API static Result<EpochHistory> Decode(std::string_view text);

 private:
  KMIRROR_API bool AssignSlow(int32_t epoch, int64_t start_offset);
  std::vector<EpochStart> entries_;
};

}  // namespace kmirror::log
