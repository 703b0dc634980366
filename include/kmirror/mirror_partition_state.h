// States of a mirror partition and what operators want of a topic: names and numbers of R1.
#pragma once

#include <cstdint>
#include <string_view>

#include "kmirror/status.h"

namespace kmirror {

// Stored in __mirror_state and sent between brokers: never renumber (coordinator.md 1.3).
enum class MirrorPartitionState : int8_t {
  kUnknown = -1,
  kPreparing = 0,
  kEpochFencing = 1,
  kUleRecovery = 2,
  kMirroring = 3,
  kPausing = 4,
  kPaused = 5,
  kStopping = 6,
  kStopped = 7,
  kFailed = 8,
};

// "UNKNOWN", "PREPARING", "EPOCH_FENCING", ...; "INVALID" for a number outside the enum.
KMIRROR_API std::string_view StateName(MirrorPartitionState state);

// What the topic config `mirror.name` asks for (R2).
enum class DesiredState : int8_t { kNone = -1, kMirroring = 3, kPaused = 5, kStopped = 7 };

}  // namespace kmirror
