// The two checksums of Kafka's log: CRC-32C for record batches v2 and snapshots, CRC-32 (IEEE) for
// the older entries v0 and v1.
//
// Both work piece by piece: feed the result of one piece as the seed of the next, 0 for the first.
// Thread-safe; uses ISA-L where the processor has what it needs, tables otherwise.
#pragma once

#include <cstdint>

#include "kmirror/status.h"
#include "kmirror/types.h"

namespace kmirror::log {

KMIRROR_API uint32_t Crc32c(uint32_t seed, ByteView bytes) noexcept;
KMIRROR_API uint32_t Crc32Ieee(uint32_t seed, ByteView bytes) noexcept;

}  // namespace kmirror::log
