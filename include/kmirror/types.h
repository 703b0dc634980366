// The few value types that every area of kmirror shares. Plain data, no behaviour beyond text
// forms.
#pragma once

#include <array>
#include <compare>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "kmirror/status.h"

namespace kmirror {

using ByteView = std::span<const uint8_t>;

// A 128-bit id in wire order (most significant byte first). All zero means "none", as in Kafka.
struct Uuid {
  std::array<uint8_t, 16> bytes{};

  bool IsZero() const { return *this == Uuid{}; }
  // Kafka's form: URL-safe base64 without padding, 22 characters.
  KMIRROR_API std::string ToString() const;
  // The inverse; nullopt unless `text` is exactly 22 characters of that alphabet.
  KMIRROR_API static std::optional<Uuid> Parse(std::string_view text);

  auto operator<=>(const Uuid&) const = default;
};

// A partition by its topic's id; what state and logs are keyed by (names can be re-used, ids
// cannot).
struct TopicIdPartition {
  Uuid topic_id;
  int32_t partition = 0;
  auto operator<=>(const TopicIdPartition&) const = default;
};

struct HostPort {
  std::string host;
  int32_t port = 0;
  std::string ToString() const { return host + ":" + std::to_string(port); }
  auto operator<=>(const HostPort&) const = default;
};

}  // namespace kmirror

template <>
struct std::hash<kmirror::Uuid> {
  size_t operator()(const kmirror::Uuid& id) const noexcept {
    uint64_t words[2];
    static_assert(sizeof words == 16);
    __builtin_memcpy(words, id.bytes.data(), 16);
    return words[0] * 0x9E3779B97F4A7C15ull ^ words[1];
  }
};
template <>
struct std::hash<kmirror::TopicIdPartition> {
  size_t operator()(const kmirror::TopicIdPartition& tp) const noexcept {
    return std::hash<kmirror::Uuid>()(tp.topic_id) * 31 + static_cast<size_t>(tp.partition);
  }
};
