// Fixed-width integers and varints as Kafka writes them. Internal to the log's rules and its tests.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

#include "kmirror/types.h"

namespace kmirror::log {

template <typename T>
inline T LoadBig(const uint8_t* from) noexcept {
  T value;
  std::memcpy(&value, from, sizeof value);
  if constexpr (sizeof(T) == 8) {
    return static_cast<T>(__builtin_bswap64(static_cast<uint64_t>(value)));
  } else if constexpr (sizeof(T) == 4) {
    return static_cast<T>(__builtin_bswap32(static_cast<uint32_t>(value)));
  } else if constexpr (sizeof(T) == 2) {
    return static_cast<T>(__builtin_bswap16(static_cast<uint16_t>(value)));
  } else {
    return value;
  }
}

template <typename T>
inline void StoreBig(uint8_t* to, T value) noexcept {
  value = LoadBig<T>(reinterpret_cast<const uint8_t*>(&value));
  std::memcpy(to, &value, sizeof value);
}

template <typename T>
inline void AppendBig(std::vector<uint8_t>* to, T value) {
  uint8_t bytes[sizeof(T)];
  StoreBig<T>(bytes, value);
  to->insert(to->end(), bytes, bytes + sizeof(T));
}

inline void AppendVarlong(std::vector<uint8_t>* to, int64_t value) {
  uint64_t zigzag = (static_cast<uint64_t>(value) << 1) ^ static_cast<uint64_t>(value >> 63);
  while (zigzag >= 0x80) {
    to->push_back(static_cast<uint8_t>(zigzag | 0x80));
    zigzag >>= 7;
  }
  to->push_back(static_cast<uint8_t>(zigzag));
}

// Takes a zigzag varint of at most `max_bytes` (5 or 10) off the front of `bytes`.
inline bool TakeVarlong(ByteView* bytes, int max_bytes, int64_t* value) noexcept {
  uint64_t zigzag = 0;
  for (int i = 0; i < max_bytes && static_cast<size_t>(i) < bytes->size(); ++i) {
    const uint8_t byte = (*bytes)[i];
    zigzag |= static_cast<uint64_t>(byte & 0x7f) << (7 * i);
    if ((byte & 0x80) == 0) {
      *bytes = bytes->subspan(i + 1);
      *value = static_cast<int64_t>(zigzag >> 1) ^ -static_cast<int64_t>(zigzag & 1);
      return true;
    }
  }
  return false;
}

inline bool TakeVarint(ByteView* bytes, int32_t* value) noexcept {
  int64_t wide = 0;
  if (!TakeVarlong(bytes, 5, &wide) || wide < INT32_MIN || wide > INT32_MAX) return false;
  *value = static_cast<int32_t>(wide);
  return true;
}

}  // namespace kmirror::log
