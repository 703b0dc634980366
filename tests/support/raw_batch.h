// Record batches as bytes, read by a parser that shares no code with the product: what a broker
// stored is judged by this and not by the code that stored it. Format v2 only, which is all that
// Kafka 4 has.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "kmirror/status.h"
#include "kmirror/types.h"

namespace kmirror::test {

struct RawBatch {
  int64_t base_offset = 0;
  int64_t last_offset = 0;  // inclusive
  int32_t leader_epoch = 0;
  uint32_t crc = 0;
  int16_t attributes = 0;
  int64_t base_timestamp = 0;
  int64_t max_timestamp = 0;
  int64_t producer_id = 0;
  int16_t producer_epoch = 0;
  int32_t base_sequence = 0;
  int32_t record_count = 0;
  std::optional<int16_t> control_type;  // of control batches: 0 ABORT, 1 COMMIT, ...
  std::vector<uint8_t> bytes;           // the whole batch

  bool transactional() const { return (attributes & 0x10) != 0; }
  bool control() const { return (attributes & 0x20) != 0; }
  int codec() const { return attributes & 7; }

  bool operator==(const RawBatch&) const = default;
};

// What may follow the last whole batch: nothing, or (a Fetch answer cut at its limit) part of one.
enum class Tail { kNone, kPartOfABatch };

// Every batch in order, lengths and CRC-32C checked, offsets rising. The error names the position.
Result<std::vector<RawBatch>> SplitBatches(ByteView bytes, Tail tail = Tail::kNone);

// Every batch of the .log files in a partition's folder, in the order of their names. Each file
// begins with the offset of its name or a later one.
Result<std::vector<RawBatch>> ReadLogFiles(const std::filesystem::path& partition_dir);

// The first difference between the two, as one line; "" when there is none. Bytes decide.
std::string FirstDifference(const std::vector<RawBatch>& expected,
                            const std::vector<RawBatch>& actual);

// The bytes of a file.
Result<std::vector<uint8_t>> ReadFile(const std::filesystem::path& path);

}  // namespace kmirror::test
