// Which fetcher of a broker a partition belongs to, as Kafka computes it: operators attach quotas
// to client ids that contain the number, so it must not depend on the run.
#pragma once

#include <cstdint>
#include <string_view>

namespace kmirror::fetcher {

// String.hashCode of Java: 32-bit wrap over UTF-16 units. Topic names are ASCII; other bytes are
// taken as they are.
inline int32_t JavaStringHash(std::string_view text) {
  uint32_t hash = 0;
  for (const char c : text) hash = 31 * hash + static_cast<uint8_t>(c);
  return static_cast<int32_t>(hash);
}

// 0 .. count - 1. Kafka's abs: the most negative number becomes 0.
inline int32_t FetcherId(std::string_view topic, int32_t partition, int32_t count) {
  const uint32_t sum = 31u * static_cast<uint32_t>(JavaStringHash(topic)) +
                       static_cast<uint32_t>(partition);
  const int32_t value = static_cast<int32_t>(sum);
  if (value == INT32_MIN) return 0;
  return (value < 0 ? -value : value) % count;
}

}  // namespace kmirror::fetcher
