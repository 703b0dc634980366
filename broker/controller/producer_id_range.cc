#include "broker/controller/producer_id_range.h"

namespace kmirror::broker {
namespace {

// 2^63 ids in ranges of 2^40, without the first and the last range.
constexpr uint64_t kRanges = (uint64_t{1} << 23) - 2;

// FNV-1a and a final mix: stable for ever, since the place of a range is never stored.
uint64_t StableHash(std::string_view text) {
  uint64_t hash = 0xCBF29CE484222325ull;
  for (const char c : text) hash = (hash ^ static_cast<uint8_t>(c)) * 0x100000001B3ull;
  hash = (hash ^ (hash >> 30)) * 0xBF58476D1CE4E5B9ull;
  hash = (hash ^ (hash >> 27)) * 0x94D049BB133111EBull;
  return hash ^ (hash >> 31);
}

}  // namespace

ProducerIdSpan ProducerIdRangeOf(std::string_view cluster_id, int32_t generation) {
  // Neighbours would do; a long stride keeps a burned range's followers away from other clusters
  // that hash close by. 4194301 is prime and no divisor of kRanges: every range comes once.
  constexpr uint64_t kStride = 4194301;
  const uint64_t index =
      (StableHash(cluster_id) % kRanges + static_cast<uint64_t>(generation) % kRanges * kStride) %
      kRanges;
  const int64_t begin = static_cast<int64_t>(index + 1) * kProducerIdRangeSize;
  return {begin, begin + kProducerIdRangeSize};
}

}  // namespace kmirror::broker
