// Batches as bytes, by a parser of the tests' own: a few lines that know only the frame of a batch
// (base offset, length) and the header fields a test names, so that a mistake of the product's
// parser cannot hide here.
#pragma once

#include <cstdint>
#include <vector>

#include "kmirror/status.h"

namespace kmirror::test {

struct RawBatch {
  int64_t base_offset = 0;
  int64_t last_offset = 0;
  int32_t leader_epoch = -1;
  int16_t attributes = 0;
  int64_t producer_id = -1;
  int16_t producer_epoch = -1;
  int32_t base_sequence = -1;
  int32_t count = 0;
  std::vector<uint8_t> bytes;

  bool IsControl() const { return (attributes & 0x20) != 0; }
  bool IsTransactional() const { return (attributes & 0x10) != 0; }
  int Codec() const { return attributes & 7; }
  // Type of the control record (the second int16 of its key): 0 ABORT, 1 COMMIT, 7 reset.
  int ControlType() const;
};

// Splits bytes into batches; an incomplete last batch is dropped (`torn` tells).
Result<std::vector<RawBatch>> SplitBatches(const std::vector<uint8_t>& bytes, bool* torn = nullptr);

}  // namespace kmirror::test
