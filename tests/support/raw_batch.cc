#include "tests/support/raw_batch.h"

#include <string>

namespace kmirror::test {
namespace {

template <typename T>
T Big(const uint8_t* at) {
  uint64_t value = 0;
  for (size_t i = 0; i < sizeof(T); ++i) value = value << 8 | at[i];
  return static_cast<T>(value);
}

}  // namespace

int RawBatch::ControlType() const {
  // 61 header bytes; then length (one byte: control records are short), attributes, two deltas, key
  // length.
  if (!IsControl() || bytes.size() < 61 + 9) return -1;
  return Big<int16_t>(bytes.data() + 61 + 7);
}

Result<std::vector<RawBatch>> SplitBatches(const std::vector<uint8_t>& bytes, bool* torn) {
  std::vector<RawBatch> batches;
  size_t at = 0;
  while (bytes.size() - at >= 61) {
    const uint8_t* p = bytes.data() + at;
    const auto size = static_cast<size_t>(Big<int32_t>(p + 8)) + 12;
    if (p[16] != 2) return Status(ErrorCode::kCorruptMessage, "magic " + std::to_string(p[16]));
    if (size < 61) return Status(ErrorCode::kCorruptMessage, "size " + std::to_string(size));
    if (size > bytes.size() - at) break;
    RawBatch batch;
    batch.base_offset = Big<int64_t>(p);
    batch.leader_epoch = Big<int32_t>(p + 12);
    batch.attributes = Big<int16_t>(p + 21);
    batch.last_offset = batch.base_offset + Big<int32_t>(p + 23);
    batch.producer_id = Big<int64_t>(p + 43);
    batch.producer_epoch = Big<int16_t>(p + 51);
    batch.base_sequence = Big<int32_t>(p + 53);
    batch.count = Big<int32_t>(p + 57);
    batch.bytes.assign(p, p + size);
    batches.push_back(std::move(batch));
    at += size;
  }
  if (torn != nullptr) *torn = at != bytes.size();
  return batches;
}

}  // namespace kmirror::test
