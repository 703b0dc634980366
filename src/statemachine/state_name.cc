#include "kmirror/mirror_partition_state.h"

namespace kmirror {

std::string_view StateName(MirrorPartitionState state) {
  switch (state) {
    case MirrorPartitionState::kUnknown: return "UNKNOWN";
    case MirrorPartitionState::kPreparing: return "PREPARING";
    case MirrorPartitionState::kEpochFencing: return "EPOCH_FENCING";
    case MirrorPartitionState::kUleRecovery: return "ULE_RECOVERY";
    case MirrorPartitionState::kMirroring: return "MIRRORING";
    case MirrorPartitionState::kPausing: return "PAUSING";
    case MirrorPartitionState::kPaused: return "PAUSED";
    case MirrorPartitionState::kStopping: return "STOPPING";
    case MirrorPartitionState::kStopped: return "STOPPED";
    case MirrorPartitionState::kFailed: return "FAILED";
  }
  return "INVALID";
}

}  // namespace kmirror
