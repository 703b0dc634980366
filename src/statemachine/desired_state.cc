#include "src/statemachine/desired_state.h"

namespace kmirror::statemachine {
namespace {
constexpr std::string_view kPausedSuffix = ".paused";
constexpr std::string_view kRemovedSuffix = ".removed";
constexpr size_t kMaxName = 249;  // as Kafka's topic names
}  // namespace

Desired ParseMirrorName(std::string_view value) {
  if (value.empty()) return {};
  if (value.ends_with(kPausedSuffix)) {
    value.remove_suffix(kPausedSuffix.size());
    return {std::string(value), DesiredState::kPaused};
  }
  if (value.ends_with(kRemovedSuffix)) {
    value.remove_suffix(kRemovedSuffix.size());
    return {std::string(value), DesiredState::kStopped};
  }
  return {std::string(value), DesiredState::kMirroring};
}

std::string FormatMirrorName(std::string_view mirror, DesiredState state) {
  std::string value(mirror);
  if (state == DesiredState::kPaused) value += kPausedSuffix;
  if (state == DesiredState::kStopped) value += kRemovedSuffix;
  return value;
}

Status CheckMirrorName(std::string_view mirror) {
  auto refuse = [&](const char* why) {
    return Status(ErrorCode::kInvalidRequest, "mirror name '" + std::string(mirror) + "' " + why);
  };
  if (mirror.empty()) return refuse("is empty");
  if (mirror.size() > kMaxName) return refuse("is longer than 249 characters");
  if (mirror == "." || mirror == "..") return refuse("is not allowed");
  for (char c : mirror) {
    const bool fine = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                      c == '.' || c == '_' || c == '-';
    if (!fine) return refuse("may hold only letters, digits, '.', '_' and '-'");
  }
  if (mirror.ends_with(kPausedSuffix)) return refuse("must not end in .paused");
  if (mirror.ends_with(kRemovedSuffix)) return refuse("must not end in .removed");
  return Status::Ok();
}

}  // namespace kmirror::statemachine
