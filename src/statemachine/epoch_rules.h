// How far the destination's leader epoch stays above the source's (coordinator.md 3.5, R27). Pure.
#pragma once

#include <cstdint>
#include <optional>

namespace kmirror::statemachine {

// A raise is due when the source's epoch comes this near, and goes this far.
inline constexpr int32_t kEpochThreshold = 3;
inline constexpr int32_t kEpochIncrement = 10;

inline bool EpochIsNear(int32_t source_epoch, int32_t local_epoch) {
  return source_epoch > local_epoch - kEpochThreshold;
}

// What the local leader epoch must exceed; nullopt when no 32-bit epoch could.
inline std::optional<int32_t> EpochFloor(int32_t source_epoch) {
  if (source_epoch > INT32_MAX - kEpochIncrement - 1) return std::nullopt;
  return source_epoch + kEpochIncrement;
}

}  // namespace kmirror::statemachine
