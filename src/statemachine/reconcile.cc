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

}  // namespace kmirror::statemachine
