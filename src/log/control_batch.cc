#include "kmirror/log/control_batch.h"

#include <span>

#include "kmirror/log/checksum.h"
#include "src/log/big_endian.h"

namespace kmirror::log {
namespace {

// The header of a control batch with one record; the checksum is set by Seal.
void PutHeader(std::span<uint8_t> batch, int64_t base_offset, int32_t leader_epoch,
               int16_t attributes, int64_t timestamp_ms, int64_t producer_id,
               int16_t producer_epoch) noexcept {
  uint8_t* at = batch.data();
  StoreBig<int64_t>(at, base_offset);
  StoreBig<int32_t>(at + 8, static_cast<int32_t>(batch.size() - kBatchPrefixBytes));
  StoreBig<int32_t>(at + 12, leader_epoch);
  at[kBatchMagicOffset] = 2;
  StoreBig<int16_t>(at + 21, attributes);
  StoreBig<int32_t>(at + 23, 0);  // last offset delta
  StoreBig<int64_t>(at + 27, timestamp_ms);
  StoreBig<int64_t>(at + 35, timestamp_ms);
  StoreBig<int64_t>(at + 43, producer_id);
  StoreBig<int16_t>(at + 51, producer_epoch);
  StoreBig<int32_t>(at + 53, -1);  // base sequence
  StoreBig<int32_t>(at + 57, 1);   // records
}

// One record: length, attributes, timestamp and offset deltas 0, key, value, no headers. All
// lengths are below 64, so a zigzag varint is one byte: twice the number.
void PutRecord(std::span<uint8_t> record, int16_t type, std::span<const uint8_t> value) noexcept {
  uint8_t* at = record.data();
  *at++ = static_cast<uint8_t>((record.size() - 1) * 2);
  *at++ = 0;
  *at++ = 0;
  *at++ = 0;
  *at++ = 4 * 2;
  StoreBig<int16_t>(at, 0);
  StoreBig<int16_t>(at + 2, type);
  at += 4;
  *at++ = static_cast<uint8_t>(value.size() * 2);
  for (const uint8_t byte : value) *at++ = byte;
  *at = 0;
}

void Seal(std::span<uint8_t> batch) noexcept {
  StoreBig<uint32_t>(batch.data() + kBatchCrcOffset, Crc32c(0, batch.subspan(kBatchCrcStart)));
}

}  // namespace

std::array<uint8_t, kEndTxnBatchBytes> EndTxnBatch(int16_t control_type, int64_t base_offset,
                                                   int32_t leader_epoch, int64_t timestamp_ms,
                                                   int64_t producer_id, int16_t producer_epoch,
                                                   int32_t coordinator_epoch) noexcept {
  std::array<uint8_t, kEndTxnBatchBytes> batch{};
  PutHeader(batch, base_offset, leader_epoch, kControlFlag | kTransactionalFlag, timestamp_ms,
            producer_id, producer_epoch);
  std::array<uint8_t, 6> value{};  // version 0, coordinator epoch
  StoreBig<int32_t>(value.data() + 2, coordinator_epoch);
  PutRecord(std::span(batch).subspan(kBatchHeaderBytes), control_type, value);
  Seal(batch);
  return batch;
}

std::array<uint8_t, kPidResetBatchBytes> PidResetBatch(int64_t base_offset, int32_t leader_epoch,
                                                       int64_t timestamp_ms) noexcept {
  std::array<uint8_t, kPidResetBatchBytes> batch{};
  PutHeader(batch, base_offset, leader_epoch, kControlFlag, timestamp_ms, -1, -1);
  const std::array<uint8_t, 3> value{};  // version 0, no tagged fields
  PutRecord(std::span(batch).subspan(kBatchHeaderBytes), kControlMirrorPidReset, value);
  Seal(batch);
  return batch;
}

}  // namespace kmirror::log
