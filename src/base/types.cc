#include "kmirror/types.h"

namespace kmirror {
namespace {
constexpr std::string_view kAlphabet =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
}

std::string Uuid::ToString() const {
  std::string out;
  out.reserve(22);
  uint32_t bits = 0;
  int have = 0;
  for (uint8_t byte : bytes) {
    bits = bits << 8 | byte;
    have += 8;
    while (have >= 6) {
      have -= 6;
      out.push_back(kAlphabet[bits >> have & 63]);
    }
  }
  out.push_back(kAlphabet[bits << (6 - have) & 63]);  // 128 = 21 * 6 + 2
  return out;
}

std::optional<Uuid> Uuid::Parse(std::string_view text) {
  if (text.size() != 22) return std::nullopt;
  Uuid id;
  uint32_t bits = 0;
  int have = 0;
  size_t at = 0;
  for (char c : text) {
    const size_t value = kAlphabet.find(c);
    if (value == std::string_view::npos) return std::nullopt;
    bits = bits << 6 | static_cast<uint32_t>(value);
    have += 6;
    if (have >= 8 && at < id.bytes.size()) {
      have -= 8;
      id.bytes[at++] = static_cast<uint8_t>(bits >> have);
    }
  }
  return id;
}

}  // namespace kmirror
