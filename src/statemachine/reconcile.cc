#include "src/statemachine/reconcile.h"

namespace kmirror::statemachine {
namespace {
Next Reassert() { return {std::nullopt, true}; }
Next On(PartitionEvent event) { return {event, false}; }
}  // namespace

Next Reconcile(DesiredState desired, const PartitionRecord& record) {
  using S = MirrorPartitionState;
  const S state = record.state;
  switch (desired) {
    case DesiredState::kNone: return {};
    case DesiredState::kStopped:
      // A failed stop is retried by its timer, unlike other failures it is never given up.
      if (state == S::kStopped || state == S::kStopping) return Reassert();
      if (state == S::kFailed && record.previous == S::kStopping) return Reassert();
      return On(PartitionEvent::kStopWanted);
    case DesiredState::kPaused:
      if (state == S::kFailed) return Reassert();
      if (state == S::kMirroring) return On(PartitionEvent::kPauseWanted);
      if (state == S::kUnknown || state == S::kStopped) return {};
      return Reassert();
    case DesiredState::kMirroring:
      if (state == S::kFailed) {
        // Stop, then start: the failed stop has lost its purpose, but its log may hold markers and
        // must be brought to STOPPED before it is aligned again.
        return Reassert();
      }
      if (state == S::kPaused) return On(PartitionEvent::kResumeWanted);
      if (state == S::kUnknown || state == S::kStopped) return On(PartitionEvent::kStartWanted);
      return Reassert();
  }
  return {};
}

bool SourceLossFails(DesiredState desired, const PartitionRecord& record) {
  using S = MirrorPartitionState;
  if (desired == DesiredState::kStopped || record.state == S::kStopping) return false;
  if (record.state != S::kFailed) return true;
  // A stop that failed half-way is finished first. The reason first given for a final failure
  // stays.
  return record.previous != S::kStopping && record.attempt != PartitionRecord::kNotRetryable;
}

}  // namespace kmirror::statemachine
