// Reads and look-ups. They work on what was published and take no lock of the writers, except the
// questions about epochs.

#include <algorithm>

#include "broker/storage/partition_log_impl.h"

namespace kmirror::broker {
namespace {

// A reader that meets a truncation or a deletion fails on a file that is no longer there; it looks
// again as often as this.
constexpr int kAttempts = 3;

size_t SegmentIndex(const SegmentList& segments, int64_t offset) {
  const auto above = std::upper_bound(segments.begin(), segments.end(), offset,
                                      [](int64_t value, const std::shared_ptr<Segment>& each) {
                                        return value < each->base_offset();
                                      });
  return above == segments.begin() ? 0 : static_cast<size_t>(above - segments.begin() - 1);
}

int64_t EndPosition(const PublishedLog& log, size_t index) {
  return index + 1 == log.segments->size() ? log.end_position : (*log.segments)[index]->size();
}

int64_t BoundOffset(const LogPositions& positions, ReadBound bound) {
  switch (bound) {
    case ReadBound::kLogEnd: return positions.log_end;
    case ReadBound::kHighWatermark: return positions.high_watermark;
    case ReadBound::kLastStable: return positions.last_stable;
  }
  return positions.high_watermark;
}

// Position of the first batch that reaches `offset` or lies above it; `end` if there is none.
Result<int64_t> PositionOf(const Segment& segment, int64_t offset, int64_t end) {
  Result<BatchScanner> scanner = segment.ScannerFor(offset, end);
  if (!scanner.ok()) return scanner.status();
  log::BatchInfo batch;
  BatchScanner::Step step;
  while ((step = scanner->Next(&batch)) == BatchScanner::kBatch) {
    if (batch.last_offset >= offset) return scanner->batch_position();
  }
  if (step == BatchScanner::kEnd) return end;
  return step == BatchScanner::kFailed
             ? scanner->status()
             : Status(ErrorCode::kCorruptMessage,
                      "a damaged batch in segment " + std::to_string(segment.base_offset()));
}

std::vector<AbortedTransaction> AbortedIn(const PublishedLog& log, int64_t from, int64_t to) {
  std::vector<AbortedTransaction> found;
  // To the very end: the stable offset of an entry is no reason to stop (S109).
  for (size_t i = SegmentIndex(*log.segments, from); i < log.segments->size(); ++i) {
    for (const AbortedEntry& entry : (*log.segments)[i]->Aborted()) {
      if (entry.last_offset < from || entry.first_offset >= to) continue;
      if (entry.last_offset >= log.positions.log_end) continue;  // not published yet
      found.push_back({entry.producer_id, entry.first_offset});
    }
  }
  std::sort(found.begin(), found.end(),
            [](const AbortedTransaction& a, const AbortedTransaction& b) {
              return a.first_offset < b.first_offset;
            });
  return found;
}

Result<ReadResult> ReadFrom(const PublishedLog& log, int64_t offset, int64_t max_bytes,
                            ReadBound bound, bool at_least_one) {
  ReadResult result;
  result.positions = log.positions;
  if (offset < log.positions.log_start || offset > log.positions.log_end) {
    return Status(ErrorCode::kOffsetOutOfRange, "offset " + std::to_string(offset) +
                                                    " is not in [" +
                                                    std::to_string(log.positions.log_start) + ", " +
                                                    std::to_string(log.positions.log_end) + "]");
  }
  const int64_t bound_offset = BoundOffset(log.positions, bound);
  if (offset >= bound_offset) return result;
  const SegmentList& segments = *log.segments;
  for (size_t i = SegmentIndex(segments, offset); i < segments.size(); ++i) {
    const Segment& segment = *segments[i];
    if (segment.base_offset() >= bound_offset) return result;
    const int64_t end = EndPosition(log, i);
    Result<BatchScanner> scanner = segment.ScannerFor(offset, end);
    if (!scanner.ok()) return scanner.status();
    log::BatchInfo batch;
    BatchScanner::Step step;
    while ((step = scanner->Next(&batch)) == BatchScanner::kBatch && batch.last_offset < offset) {
    }
    if (step == BatchScanner::kEnd) continue;  // a hole up to the next segment
    if (step == BatchScanner::kFailed) return scanner->status();
    if (step == BatchScanner::kTorn) {
      return Status(ErrorCode::kCorruptMessage,
                    "no valid batch at position " + std::to_string(scanner->position()) +
                        " of segment " + std::to_string(segment.base_offset()));
    }
    int64_t upper = end;
    const bool bound_is_here =
        bound_offset < log.positions.log_end &&
        (i + 1 == segments.size() || segments[i + 1]->base_offset() > bound_offset);
    if (bound_is_here) {
      Result<int64_t> position = PositionOf(segment, bound_offset, end);
      if (!position.ok()) return position.status();
      upper = *position;
    }
    const int64_t start = scanner->batch_position();
    const int64_t wanted = at_least_one ? std::max<int64_t>(max_bytes, batch.bytes) : max_bytes;
    const int64_t bytes = std::min(upper - start, wanted);
    if (bytes <= 0) return result;
    auto handle = segments[i]->log_file().Handle();
    if (!handle.ok()) return handle.status();
    result.slice = {*handle, start, bytes, nullptr, log.cuts};
    result.start_offset = batch.base_offset;
    if (bound == ReadBound::kLastStable) {
      result.aborted = AbortedIn(log, offset, bound_offset);
      if (!result.aborted.empty()) {
        int64_t slice_end = batch.last_offset + 1;
        while (scanner->position() < start + bytes &&
               scanner->Next(&batch) == BatchScanner::kBatch) {
          slice_end = batch.last_offset + 1;
        }
        if (!scanner->status().ok()) return scanner->status();
        std::erase_if(result.aborted, [&](const AbortedTransaction& each) {
          return each.first_offset >= slice_end;
        });
      }
    }
    return result;
  }
  return result;
}

}  // namespace

Result<ReadResult> PartitionLog::Read(int64_t offset, int64_t max_bytes, ReadBound bound,
                                      bool at_least_one) const {
  for (int attempt = 1;; ++attempt) {
    Result<ReadResult> result =
        ReadFrom(impl_->Published(), offset, max_bytes, bound, at_least_one);
    bool intact = true;
    if (result.ok() && result->slice.bytes > 0) {
      result->slice.cuts = impl_->cuts_;
      intact = result->slice.Intact();
      if (!intact) result = Status(ErrorCode::kKafkaStorageError, "the log's end is being cut");
    }
    if (result.ok() || result.status().code() == ErrorCode::kOffsetOutOfRange ||
        attempt == kAttempts) {
      return result;
    }
    // A cut publishes what it left before it lets go of the lock.
    if (!intact) const std::lock_guard wait(impl_->append_mutex_);
  }
}

Result<std::vector<uint8_t>> PartitionLog::ReadBytes(int64_t offset, int64_t max_bytes,
                                                     ReadBound bound, bool at_least_one) const {
  for (int attempt = 1;; ++attempt) {
    Result<ReadResult> found = Read(offset, max_bytes, bound, at_least_one);
    if (!found.ok()) return found.status();
    std::vector<uint8_t> bytes(static_cast<size_t>(found->slice.bytes));
    Status read = bytes.empty() ? Status::Ok() : found->slice.ReadInto(bytes);
    if (found->slice.Intact()) {
      if (!read.ok()) return read;
      return bytes;
    }
    if (attempt == kAttempts) {
      return Status(ErrorCode::kKafkaStorageError, "the log's end was cut while it was read");
    }
  }
}

Result<std::vector<AbortedTransaction>> PartitionLog::AbortedTransactions(int64_t from,
                                                                          int64_t to) const {
  return AbortedIn(impl_->Published(), from, to);
}

log::EpochEnd PartitionLog::EndOffsetForEpoch(int32_t epoch) const {
  std::lock_guard lock(impl_->append_mutex_);
  return impl_->epochs_.EndOffsetFor(epoch, impl_->log_end_);
}

std::optional<int32_t> PartitionLog::EpochForOffset(int64_t offset) const {
  std::lock_guard lock(impl_->append_mutex_);
  return impl_->epochs_.EpochForOffset(offset);
}

std::optional<log::EpochStart> PartitionLog::LatestEpoch() const {
  std::lock_guard lock(impl_->append_mutex_);
  return impl_->epochs_.Latest();
}

std::optional<log::EpochStart> PartitionLog::PreviousEpoch(int32_t epoch) const {
  std::lock_guard lock(impl_->append_mutex_);
  return impl_->epochs_.Previous(epoch);
}

std::vector<log::EpochStart> PartitionLog::EpochHistory() const {
  std::lock_guard lock(impl_->append_mutex_);
  return impl_->epochs_.entries();
}

}  // namespace kmirror::broker
