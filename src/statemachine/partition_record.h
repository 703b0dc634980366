// What is stored of one mirror partition (R24), and a request to change it. Plain data.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "kmirror/mirror_partition_state.h"

namespace kmirror::statemachine {

// What has happened to the log since it was last writable (coordinator.md 2.3). Stored: never
// renumber.
enum class Progress : int8_t {
  kUntouched = 0,  // nothing was cut or mirrored: set by the STOPPED write; the default
  kCutting = 1,    // PREPARING may have begun to truncate
  kMirrored = 2,   // mirrored data may be in the log: set by PREPARING -> MIRRORING
};

// The end of what this cluster and its source agreed on: {LME, LMO}. {-1, -1} is none. An epoch of
// -1 with an offset is an agreement on an empty log that ends there; an epoch without an offset is
// what a peer of the KIP's prototype sends (coordinator.md 3.3).
struct MirrorPosition {
  int32_t epoch = -1;
  int64_t offset = -1;
  bool IsNone() const { return epoch < 0 && offset < 0; }
  bool operator==(const MirrorPosition&) const = default;
};

struct PartitionRecord {
  MirrorPartitionState state = MirrorPartitionState::kUnknown;
  MirrorPartitionState previous = MirrorPartitionState::kUnknown;  // before FAILED
  int32_t leader_epoch = -1;                                       // highest that wrote
  int32_t state_epoch = 0;                                         // +1 with each accepted write
  MirrorPosition position;  // captured by the last stop, until PREPARING completes (6.3)
  Progress progress = Progress::kUntouched;
  int16_t attempt = 0;  // failures so far; kNotRetryable
  std::string reason;   // why FAILED, or the last failure until data flows again

  static constexpr int16_t kNotRetryable = -1;
  bool operator==(const PartitionRecord&) const = default;
};

// One write to the shard (coordinator.md 1.4). Fields left at their default are not checked, kept.
struct StateWrite {
  MirrorPartitionState state = MirrorPartitionState::kUnknown;  // kUnknown: position only
  int32_t leader_epoch = -1;                                    // of the writer; -1 skips the check
  int32_t expected_state_epoch = -1;                            // -1 skips the check
  std::optional<MirrorPosition> position;                       // a position to store
  std::optional<Progress> progress;
  std::optional<int16_t> attempt;     // nullopt: the rules of ApplyWrite
  std::optional<std::string> reason;  // nullopt: kept, or cleared where the rules say so
};

}  // namespace kmirror::statemachine
