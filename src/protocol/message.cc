#include "src/protocol/message.h"

#include <string>

#include "src/protocol/field_error.h"

namespace kmirror::protocol {

namespace {

std::string Subject(std::string_view message, int16_t version) {
  return std::string(message).append(" v").append(std::to_string(version));
}

}  // namespace

Status UnsupportedVersion(std::string_view message, int16_t version, int16_t min, int16_t max) {
  return {ErrorCode::kUnsupportedVersion, Subject(message, version) + ": versions " +
                                              std::to_string(min) + " to " + std::to_string(max) +
                                              " are known"};
}

Status DecodeError(std::string_view message, int16_t version, const FieldError& error) {
  return {ErrorCode::kMalformed, Subject(message, version) + ": " + error.text()};
}

Status EncodeError(std::string_view message, int16_t version, const FieldError& error) {
  return {ErrorCode::kInvalidRequest, Subject(message, version) + ": " + error.text()};
}

Status TrailingBytes(std::string_view message, int16_t version, size_t bytes) {
  return {ErrorCode::kMalformed,
          Subject(message, version) + ": " + std::to_string(bytes) + " bytes after the message"};
}

}  // namespace kmirror::protocol
