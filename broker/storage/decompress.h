// Unpacks the records of a batch, for the few look-ups that must see inside one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "kmirror/log/batch.h"
#include "kmirror/status.h"
#include "kmirror/types.h"

namespace kmirror::broker {

// No batch of a sane client unpacks to more; a hostile one must not take the memory.
inline constexpr size_t kDecompressedBytesMax = 256u << 20;

// `records`: the bytes of a v2 batch after its header. CORRUPT_MESSAGE: they do not unpack, or to
// more than kDecompressedBytesMax. UNSUPPORTED_COMPRESSION_TYPE: codec ids 5 to 7.
Result<std::vector<uint8_t>> Decompress(int compression_id, ByteView records);

}  // namespace kmirror::broker
