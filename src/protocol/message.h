// What every generated message header needs: version checks and error texts.
#pragma once

#include <cstdint>
#include <limits>
#include <string_view>

#include "kmirror/status.h"

namespace kmirror::protocol {

class FieldError;
class Reader;
class Writer;

// kFlexibleFrom of messages without flexible versions.
inline constexpr int16_t kNeverFlexible = std::numeric_limits<int16_t>::max();

// UNSUPPORTED_VERSION, naming the message and the range we know.
Status UnsupportedVersion(std::string_view message, int16_t version, int16_t min, int16_t max);
// kMalformed: "FetchRequest v12: topics[0].partitions: ...".
Status DecodeError(std::string_view message, int16_t version, const FieldError& error);
// INVALID_REQUEST: the caller filled the message with what this version cannot say.
Status EncodeError(std::string_view message, int16_t version, const FieldError& error);
Status TrailingBytes(std::string_view message, int16_t version, size_t bytes);

template <typename Message>
Status CheckVersion(int16_t version) {
  if (version >= Message::kMinVersion && version <= Message::kMaxVersion) return {};
  return UnsupportedVersion(Message::kName, version, Message::kMinVersion, Message::kMaxVersion);
}

}  // namespace kmirror::protocol
