// The control batches kmirror writes itself, byte for byte as KIP-1279 and Kafka have them.
//
// Pure and thread-safe. The checksum covers neither offset nor leader epoch, so a log may set those
// again when it appends (SetBaseOffset, SetLeaderEpoch).
#pragma once

#include <array>
#include <cstdint>

#include "kmirror/log/batch.h"
#include "kmirror/status.h"

namespace kmirror::log {

inline constexpr size_t kEndTxnBatchBytes = 78;
inline constexpr size_t kPidResetBatchBytes = 75;

// An end-of-transaction marker. control_type: kControlAbort or kControlCommit. producer_epoch and
// coordinator_epoch go in as the producer's entry holds them (R18: coordinator epoch 0 if none was
// ever seen; that replacement is the caller's). timestamp_ms: wall clock.
KMIRROR_API std::array<uint8_t, kEndTxnBatchBytes> EndTxnBatch(
    int16_t control_type, int64_t base_offset, int32_t leader_epoch, int64_t timestamp_ms,
    int64_t producer_id, int16_t producer_epoch, int32_t coordinator_epoch) noexcept;

// The record that makes every reader of the log forget its producers (KIP-1279; value `00 00 00`,
// R8).
KMIRROR_API std::array<uint8_t, kPidResetBatchBytes> PidResetBatch(int64_t base_offset,
                                                                   int32_t leader_epoch,
                                                                   int64_t timestamp_ms) noexcept;

}  // namespace kmirror::log
