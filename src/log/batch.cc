#include "kmirror/log/batch.h"

#include <limits>

#include "kmirror/log/checksum.h"
#include "kmirror/log/record.h"
#include "src/log/big_endian.h"

namespace kmirror::log {
namespace {

constexpr int32_t kSmallestEntry = 14;  // of the size field, v0
constexpr size_t kMagicEnd = kBatchMagicOffset + 1;

ParseResult ParseV2(ByteView bytes, int64_t size, BatchInfo* info) noexcept {
  if (size < static_cast<int64_t>(kBatchHeaderBytes)) return ParseResult::kCorrupt;
  if (bytes.size() < kBatchHeaderBytes) return ParseResult::kIncomplete;
  const uint8_t* at = bytes.data();
  BatchInfo out;
  out.magic = 2;
  out.bytes = static_cast<int32_t>(size);
  out.base_offset = LoadBig<int64_t>(at);
  out.leader_epoch = LoadBig<int32_t>(at + 12);
  out.attributes = LoadBig<int16_t>(at + 21);
  const int32_t last_delta = LoadBig<int32_t>(at + 23);
  out.base_timestamp = LoadBig<int64_t>(at + 27);
  out.max_timestamp = LoadBig<int64_t>(at + 35);
  out.producer_id = LoadBig<int64_t>(at + 43);
  out.producer_epoch = LoadBig<int16_t>(at + 51);
  out.base_sequence = LoadBig<int32_t>(at + 53);
  out.count = LoadBig<int32_t>(at + 57);
  // Room for the offset after the last one, so that a log end never overflows.
  if (out.base_offset < 0 || last_delta < 0 || out.count < 0 || out.leader_epoch < -1 ||
      out.base_offset > std::numeric_limits<int64_t>::max() - 1 - last_delta) {
    return ParseResult::kCorrupt;
  }
  out.last_offset = out.base_offset + last_delta;
  *info = out;
  return ParseResult::kOk;
}

ParseResult ParseLegacy(ByteView bytes, int64_t size, uint8_t magic, BatchInfo* info) noexcept {
  const size_t header = magic == 0 ? kLegacyHeaderBytesV0 : kLegacyHeaderBytesV1;
  if (size < static_cast<int64_t>(header)) return ParseResult::kCorrupt;
  if (bytes.size() < header) return ParseResult::kIncomplete;
  const uint8_t* at = bytes.data();
  BatchInfo out;
  out.magic = magic;
  out.bytes = static_cast<int32_t>(size);
  out.last_offset = LoadBig<int64_t>(at);
  if (out.last_offset < 0 || out.last_offset == std::numeric_limits<int64_t>::max()) {
    return ParseResult::kCorrupt;
  }
  out.base_offset = out.last_offset;
  // Bits above the timestamp type mean nothing here and must not read as control or transactional.
  out.attributes = static_cast<int16_t>(
      at[17] & (magic == 0 ? kCompressionMask : kCompressionMask | kLogAppendTimeFlag));
  out.count = 1;
  if (magic == 1) out.max_timestamp = out.base_timestamp = LoadBig<int64_t>(at + 18);
  *info = out;
  return ParseResult::kOk;
}

}  // namespace

int64_t BatchBytes(ByteView prefix) noexcept {
  const int32_t length = LoadBig<int32_t>(prefix.data() + 8);
  const int64_t bytes = int64_t{length} + static_cast<int64_t>(kBatchPrefixBytes);
  if (length < kSmallestEntry || bytes > std::numeric_limits<int32_t>::max()) return -1;
  return bytes;
}

ParseResult ParseBatchHeader(ByteView bytes, BatchInfo* info) noexcept {
  if (bytes.size() < kBatchPrefixBytes) return ParseResult::kIncomplete;
  const int64_t size = BatchBytes(bytes);
  if (size < 0) return ParseResult::kCorrupt;
  if (bytes.size() < kMagicEnd) return ParseResult::kIncomplete;
  const uint8_t magic = bytes[kBatchMagicOffset];
  if (magic == 2) return ParseV2(bytes, size, info);
  if (magic < 2) return ParseLegacy(bytes, size, magic, info);
  return ParseResult::kCorrupt;
}

ParseResult ParseControlRecord(ByteView batch, BatchInfo* info) noexcept {
  if (!info->IsControl() || info->count == 0) return ParseResult::kOk;
  if (info->CompressionId() != 0 || batch.size() < static_cast<size_t>(info->bytes)) {
    return ParseResult::kCorrupt;
  }
  RecordReader reader(*info, batch.subspan(kBatchHeaderBytes, info->bytes - kBatchHeaderBytes));
  RecordView record;
  if (reader.Next(&record) != RecordReader::kRecord || !record.key || record.key->size() < 4) {
    return ParseResult::kCorrupt;
  }
  if (LoadBig<int16_t>(record.key->data()) < 0) return ParseResult::kCorrupt;
  const int16_t type = LoadBig<int16_t>(record.key->data() + 2);
  int32_t coordinator_epoch = -1;
  if (type == kControlAbort || type == kControlCommit) {
    if (!record.value || record.value->size() < 6 || LoadBig<int16_t>(record.value->data()) < 0) {
      return ParseResult::kCorrupt;
    }
    coordinator_epoch = LoadBig<int32_t>(record.value->data() + 2);
  }
  info->control_type = type;
  info->coordinator_epoch = coordinator_epoch;
  return ParseResult::kOk;
}

uint32_t StoredBatchCrc(ByteView header) noexcept {
  const bool v2 = header[kBatchMagicOffset] == 2;
  return LoadBig<uint32_t>(header.data() + (v2 ? kBatchCrcOffset : kLegacyCrcOffset));
}

bool CheckBatchCrc(ByteView batch, const BatchInfo& info) noexcept {
  if (batch.size() < static_cast<size_t>(info.bytes)) return false;
  batch = batch.first(info.bytes);
  if (info.magic == 2) return Crc32c(0, batch.subspan(kBatchCrcStart)) == StoredBatchCrc(batch);
  return Crc32Ieee(0, batch.subspan(kLegacyCrcStart)) == StoredBatchCrc(batch);
}

BatchWalker::Step BatchWalker::Next(BatchInfo* info, ByteView* batch) noexcept {
  switch (ParseBatchHeader(rest_, info)) {
    case ParseResult::kIncomplete: return kEnd;
    case ParseResult::kCorrupt: return kCorrupt;
    case ParseResult::kOk: break;
  }
  const auto size = static_cast<size_t>(info->bytes);
  if (size > rest_.size()) return kEnd;
  if (ParseControlRecord(rest_.first(size), info) != ParseResult::kOk) return kCorrupt;
  *batch = rest_.first(size);
  rest_ = rest_.subspan(size);
  return kBatch;
}

void SetBaseOffset(std::span<uint8_t> batch, int64_t base_offset) noexcept {
  StoreBig<int64_t>(batch.data(), base_offset);
}

void SetLeaderEpoch(std::span<uint8_t> batch, int32_t leader_epoch) noexcept {
  StoreBig<int32_t>(batch.data() + 12, leader_epoch);
}

void SetLogAppendTime(std::span<uint8_t> batch, int64_t timestamp_ms) noexcept {
  const auto attributes = LoadBig<int16_t>(batch.data() + 21);
  StoreBig<int16_t>(batch.data() + 21, static_cast<int16_t>(attributes | kLogAppendTimeFlag));
  StoreBig<int64_t>(batch.data() + 35, timestamp_ms);
  StoreBig<uint32_t>(batch.data() + kBatchCrcOffset, Crc32c(0, batch.subspan(kBatchCrcStart)));
}

}  // namespace kmirror::log
