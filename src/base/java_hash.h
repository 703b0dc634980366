// Java's String.hashCode and Kafka's use of it for placement. Pure.
#pragma once

#include <cstdint>
#include <string_view>

namespace kmirror {

// h = 31*h + unit over UTF-16 units, wrapping at 32 bits. Bytes that are not UTF-8 count one unit
// each; names in Kafka are ASCII.
inline int32_t JavaHash(std::string_view text) {
  uint32_t hash = 0;
  auto unit = [&hash](uint32_t u) { hash = 31 * hash + u; };
  for (size_t i = 0; i < text.size();) {
    const auto byte = static_cast<uint8_t>(text[i]);
    const int length = byte < 0x80 ? 1 : byte >= 0xF0 ? 4 : byte >= 0xE0 ? 3 : byte >= 0xC2 ? 2 : 1;
    uint32_t point = length == 1 ? byte : byte & (0x7F >> length);
    if (i + length > text.size()) {
      unit(byte);
      ++i;
      continue;
    }
    for (int k = 1; k < length; ++k)
      point = point << 6 | (static_cast<uint8_t>(text[i + k]) & 0x3F);
    if (point >= 0x10000) {
      unit(0xD800 + ((point - 0x10000) >> 10));
      unit(0xDC00 + ((point - 0x10000) & 0x3FF));
    } else {
      unit(point);
    }
    i += length;
  }
  return static_cast<int32_t>(hash);
}

// Kafka's Utils.abs of a hash: the absolute value, and 0 for the smallest number.
inline int32_t AbsHash(int32_t hash) {
  if (hash == INT32_MIN) return 0;
  return hash < 0 ? -hash : hash;
}

}  // namespace kmirror
