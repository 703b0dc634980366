// Look-ups by time, for ListOffsets. The only place where batches of data are opened.

#include <algorithm>

#include "broker/storage/decompress.h"
#include "broker/storage/partition_log_impl.h"
#include "kmirror/log/record.h"

namespace kmirror::broker {
namespace {

// The first record of the batch the scanner stands behind that `wanted` accepts; offset -1: none.
template <typename Wanted>
Result<OffsetAndTimestamp> FirstRecord(const BatchScanner& scanner, const log::BatchInfo& batch,
                                       Wanted wanted) {
  OffsetAndTimestamp answer;
  if (batch.magic < 2) {  // a legacy entry stands for what it wraps
    if (wanted(batch.last_offset, batch.max_timestamp)) {
      answer = {batch.last_offset, batch.max_timestamp, batch.leader_epoch};
    }
    return answer;
  }
  std::vector<uint8_t> whole;
  Status read = scanner.ReadBatch(batch, &whole);
  if (!read.ok()) return read;
  std::vector<uint8_t> unpacked;
  ByteView records = ByteView(whole).subspan(log::kBatchHeaderBytes);
  if (batch.CompressionId() != 0) {
    Result<std::vector<uint8_t>> result = Decompress(batch.CompressionId(), records);
    if (!result.ok()) return result.status();
    unpacked = std::move(*result);
    records = unpacked;
  }
  log::RecordReader reader(batch, records);
  log::RecordView record;
  log::RecordReader::Step step;
  while ((step = reader.Next(&record)) == log::RecordReader::kRecord) {
    if (wanted(record.offset, record.timestamp)) {
      answer = {record.offset, record.timestamp, batch.leader_epoch};
      return answer;
    }
  }
  if (step == log::RecordReader::kCorrupt) {
    return Status(ErrorCode::kCorruptMessage,
                  "records of the batch at " + std::to_string(batch.base_offset));
  }
  return answer;
}

}  // namespace

Result<OffsetAndTimestamp> PartitionLog::OffsetForTimestamp(int64_t timestamp,
                                                            ReadBound bound) const {
  const PublishedLog log = impl_->Published();
  const int64_t limit = bound == ReadBound::kLogEnd          ? log.positions.log_end
                        : bound == ReadBound::kHighWatermark ? log.positions.high_watermark
                                                             : log.positions.last_stable;
  const int64_t log_start = log.positions.log_start;
  const auto wanted = [&](int64_t offset, int64_t at) {
    return at >= timestamp && offset >= log_start;
  };
  for (size_t i = 0; i < log.segments->size(); ++i) {
    const Segment& segment = *(*log.segments)[i];
    if (segment.max_timestamp() < timestamp) continue;
    const int64_t end = i + 1 == log.segments->size() ? log.end_position : segment.size();
    Result<BatchScanner> scanner = segment.ScannerForTimestamp(timestamp, end);
    if (!scanner.ok()) return scanner.status();
    log::BatchInfo batch;
    while (scanner->Next(&batch) == BatchScanner::kBatch) {
      if (batch.base_offset >= limit) return OffsetAndTimestamp();
      if (batch.max_timestamp < timestamp || batch.last_offset < log_start) continue;
      Result<OffsetAndTimestamp> found = FirstRecord(*scanner, batch, wanted);
      if (!found.ok()) return found.status();
      if (found->offset >= limit) return OffsetAndTimestamp();
      if (found->offset >= 0) return *found;
    }
    if (!scanner->status().ok()) return scanner->status();
  }
  return OffsetAndTimestamp();
}

Result<OffsetAndTimestamp> PartitionLog::MaxTimestamp() const {
  const PublishedLog log = impl_->Published();
  int64_t greatest = -1;
  size_t index = 0;
  for (size_t i = 0; i < log.segments->size(); ++i) {
    const int64_t here = (*log.segments)[i]->max_timestamp();
    if (here > greatest) {
      greatest = here;
      index = i;
    }
  }
  if (greatest < 0) return OffsetAndTimestamp();
  const Segment& segment = *(*log.segments)[index];
  const int64_t end = index + 1 == log.segments->size() ? log.end_position : segment.size();
  Result<BatchScanner> scanner = segment.ScannerFor(segment.max_timestamp_offset(), end);
  if (!scanner.ok()) return scanner.status();
  log::BatchInfo batch;
  while (scanner->Next(&batch) == BatchScanner::kBatch) {
    if (batch.max_timestamp < greatest) continue;
    return FirstRecord(*scanner, batch, [&](int64_t, int64_t at) { return at >= greatest; });
  }
  if (!scanner->status().ok()) return scanner->status();
  return OffsetAndTimestamp();
}

}  // namespace kmirror::broker
