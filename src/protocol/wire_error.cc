#include "src/protocol/wire_error.h"

#include "src/protocol/mirror_numbers.h"

namespace kmirror::protocol {

namespace {

bool IsReadOnly(ErrorCode code) {
  return code == ErrorCode::kReadOnly || code == ErrorCode::kReadOnlyTopic;
}

ErrorCode Public(ErrorCode code) {
  switch (code) {
    case ErrorCode::kIo:
    case ErrorCode::kNoSpace: return ErrorCode::kKafkaStorageError;
    case ErrorCode::kDisconnected: return ErrorCode::kNetworkException;
    case ErrorCode::kNotLoaded: return ErrorCode::kCoordinatorLoadInProgress;
    case ErrorCode::kMalformed:
    case ErrorCode::kUsage: return ErrorCode::kInvalidRequest;
    case ErrorCode::kTimedOut: return ErrorCode::kRequestTimedOut;
    case ErrorCode::kCancelled:
    case ErrorCode::kNotEnd: return ErrorCode::kUnknownServerError;
    default: return code;
  }
}

std::string Prefixed(const char* prefix, const std::string& text) {
  if (text.starts_with(prefix)) return text;
  return std::string(prefix).append(" ").append(text);
}

}  // namespace

int16_t WireErrorCode(ErrorCode code) {
  if (IsReadOnly(code)) return kReadOnlyTopicWireCode;
  return static_cast<int16_t>(Public(code));
}

std::optional<std::string> WireErrorMessage(const Status& status) {
  if (status.ok()) return std::nullopt;
  if (IsReadOnly(status.code())) return Prefixed(kReadOnlyTopicMessagePrefix, status.message());
  return status.message();
}

Status RefusedMirrorTopicChange(const std::string& why) {
  return {static_cast<ErrorCode>(kMirrorTopicNotStoppedWireCode),
          Prefixed(kMirrorTopicNotStoppedMessagePrefix, why)};
}

}  // namespace kmirror::protocol
