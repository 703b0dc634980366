// What the log needs to know of a record batch: its header, decoded once, and nothing inside.
//
// Formats: record batch v2 (61 header bytes) and the entries of v0 and v1, as fetcher-and-log 3.1
// and 3.5 describe them. Everything here is pure and thread-safe, reads only the bytes given, and
// treats them as hostile: a length is compared with what is there before it is used.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kmirror/status.h"
#include "kmirror/types.h"

namespace kmirror::log {

inline constexpr size_t kBatchPrefixBytes = 12;  // base offset and length: enough to know the size
inline constexpr size_t kBatchMagicOffset = 16;
inline constexpr size_t kBatchCrcOffset = 17;    // v2 only; int32
inline constexpr size_t kBatchCrcStart = 21;     // first byte the v2 CRC covers
inline constexpr size_t kBatchHeaderBytes = 61;  // v2
inline constexpr size_t kLegacyCrcOffset = 12;   // v0, v1; int32
inline constexpr size_t kLegacyCrcStart = 16;    // first byte their CRC covers (the magic)
inline constexpr size_t kLegacyHeaderBytesV0 = 26;
inline constexpr size_t kLegacyHeaderBytesV1 = 34;

inline constexpr int16_t kCompressionMask = 0x07;
inline constexpr int16_t kLogAppendTimeFlag = 0x08;
inline constexpr int16_t kTransactionalFlag = 0x10;
inline constexpr int16_t kControlFlag = 0x20;
inline constexpr int16_t kDeleteHorizonFlag = 0x40;

enum class Compression : uint8_t { kNone = 0, kGzip = 1, kSnappy = 2, kLz4 = 3, kZstd = 4 };

// Types of control records (the second int16 of their key). Others exist and are tolerated.
inline constexpr int16_t kControlAbort = 0;
inline constexpr int16_t kControlCommit = 1;
inline constexpr int16_t kControlMirrorPidReset = 7;

// One batch. Offsets are inclusive, times in ms since 1970, sizes in bytes of the whole batch.
struct BatchInfo {
  int64_t base_offset =
      -1;  // v0/v1: of a compressed entry unknown without decompressing; then last_offset
  int64_t last_offset = -1;
  int64_t max_timestamp = -1;
  int64_t base_timestamp = -1;  // or the delete horizon, if that flag is set
  int64_t producer_id = -1;     // -1 none
  int32_t bytes = 0;
  int32_t leader_epoch = -1;       // of the cluster that wrote it; -1 none (v0, v1)
  int32_t base_sequence = -1;      // -1 none
  int32_t count = 0;               // records, as the header says; may be 0
  int32_t coordinator_epoch = -1;  // of an end-transaction marker, else -1
  int16_t producer_epoch = -1;
  int16_t attributes = 0;
  uint8_t magic = 2;
  int16_t control_type = -1;  // of a control batch whose record was parsed, else -1

  bool IsControl() const { return (attributes & kControlFlag) != 0; }
  bool IsTransactional() const { return (attributes & kTransactionalFlag) != 0; }
  bool IsLogAppendTime() const { return (attributes & kLogAppendTimeFlag) != 0; }
  bool HasProducer() const { return producer_id >= 0; }
  int CompressionId() const {
    return attributes & kCompressionMask;
  }  // 5 to 7 are possible and unknown
  // The last sequence number, which wraps past 2^31-1 to 0; -1 without one.
  int32_t LastSequence() const {
    if (base_sequence < 0) return -1;
    const int64_t last = int64_t{base_sequence} + (last_offset - base_offset);
    return static_cast<int32_t>(last & 0x7fffffff);
  }
};

enum class ParseResult {
  kOk,
  kIncomplete,  // more bytes are needed; nothing is known to be wrong
  kCorrupt,     // no further bytes can make a batch of this
};

// Decodes the header at the start of `bytes`, which may end anywhere after it: the batch itself
// need not be there. Needs 17 bytes to know the magic, then 61 (v2), 26 (v0) or 34 (v1).
// control_type and coordinator_epoch are left at -1; see ParseControlRecord. kCorrupt: impossible
// size or magic, negative offsets or counts. info is written only on kOk.
KMIRROR_API ParseResult ParseBatchHeader(ByteView bytes, BatchInfo* info) noexcept;

// The size in bytes of the whole batch of which `prefix` holds at least kBatchPrefixBytes; -1 if
// the length field is impossible (less than the smallest entry, or past 2^31-1).
KMIRROR_API int64_t BatchBytes(ByteView prefix) noexcept;

// Fills control_type, and coordinator_epoch of an end-transaction marker, from the first record of
// the control batch `batch` (whole, info as ParseBatchHeader gave it). The type comes from the key
// alone; the value of a reset is never looked at (R8). An emptied control batch (count 0) leaves
// both at -1 and is kOk. A compressed one is kCorrupt: no Kafka writes them. Not a control batch:
// kOk.
KMIRROR_API ParseResult ParseControlRecord(ByteView batch, BatchInfo* info) noexcept;

// Whether the checksum of the whole batch `batch` is right. info: as ParseBatchHeader gave it.
KMIRROR_API bool CheckBatchCrc(ByteView batch, const BatchInfo& info) noexcept;

// The checksum that the header of a batch claims. header: at least 21 bytes.
KMIRROR_API uint32_t StoredBatchCrc(ByteView header) noexcept;

// Walks whole batches. An incomplete one at the end is no error: remaining() is its size.
//   BatchWalker walker(bytes);
//   while (walker.Next(&info, &batch) == BatchWalker::kBatch) ...
class BatchWalker {
 public:
  enum Step { kBatch, kEnd, kCorrupt };

  explicit BatchWalker(ByteView bytes) : rest_(bytes) {}

  // Control records are parsed too; checksums are not checked. After kEnd or kCorrupt it stays
  // there.
  KMIRROR_API Step Next(BatchInfo* info, ByteView* batch) noexcept;
  size_t remaining() const { return rest_.size(); }

 private:
  ByteView rest_;
};

// Writers, for batches of our own. Neither field is covered by the checksum.
KMIRROR_API void SetBaseOffset(std::span<uint8_t> batch, int64_t base_offset) noexcept;
KMIRROR_API void SetLeaderEpoch(std::span<uint8_t> batch, int32_t leader_epoch) noexcept;
// Sets the log-append-time flag and maxTimestamp, then computes the checksum anew. v2 only.
KMIRROR_API void SetLogAppendTime(std::span<uint8_t> batch, int64_t timestamp_ms) noexcept;

}  // namespace kmirror::log
