#include "src/statemachine/partition_rules.h"

#include <algorithm>

namespace kmirror::statemachine {
namespace {

using S = MirrorPartitionState;
using E = PartitionEvent;
using A = Action;

constexpr Rule kRules[] = {
    {S::kUnknown, E::kStartWanted, S::kPreparing, A::kPrepare},
    {S::kUnknown, E::kStopWanted, S::kStopping, A::kStop},
    {S::kUnknown, E::kFailed, S::kFailed, A::kScheduleRetry},

    {S::kPreparing, E::kCutChosen, S::kPreparing, A::kContinue},
    {S::kPreparing, E::kPrepared, S::kMirroring, A::kFetch},
    {S::kPreparing, E::kStopWanted, S::kStopping, A::kStop},
    {S::kPreparing, E::kFailed, S::kFailed, A::kScheduleRetry},

    {S::kMirroring, E::kDataFlows, S::kMirroring, A::kContinue},
    {S::kMirroring, E::kEpochBehind, S::kEpochFencing, A::kRaiseEpoch},
    {S::kMirroring, E::kSourceTruncated, S::kUleRecovery, A::kAwaitReplicas},
    {S::kMirroring, E::kPauseWanted, S::kPausing, A::kRemoveFetcher},
    {S::kMirroring, E::kStopWanted, S::kStopping, A::kStop},
    {S::kMirroring, E::kFailed, S::kFailed, A::kScheduleRetry},

    {S::kEpochFencing, E::kEpochRaised, S::kMirroring, A::kFetch},
    {S::kEpochFencing, E::kStopWanted, S::kStopping, A::kStop},
    {S::kEpochFencing, E::kFailed, S::kFailed, A::kScheduleRetry},

    {S::kUleRecovery, E::kReplicasAligned, S::kMirroring, A::kFetch},
    {S::kUleRecovery, E::kStopWanted, S::kStopping, A::kStop},
    {S::kUleRecovery, E::kFailed, S::kFailed, A::kScheduleRetry},

    {S::kPausing, E::kFetcherGone, S::kPaused, A::kStay},
    {S::kPausing, E::kStopWanted, S::kStopping, A::kStop},
    {S::kPausing, E::kFailed, S::kFailed, A::kScheduleRetry},

    {S::kPaused, E::kResumeWanted, S::kMirroring, A::kFetch},
    {S::kPaused, E::kStopWanted, S::kStopping, A::kStop},
    {S::kPaused, E::kFailed, S::kFailed, A::kScheduleRetry},

    {S::kStopping, E::kPositionTaken, S::kStopping, A::kContinue},
    {S::kStopping, E::kStopDone, S::kStopped, A::kOpenWrites},
    {S::kStopping, E::kFailed, S::kFailed, A::kScheduleRetry},

    {S::kStopped, E::kStartWanted, S::kPreparing, A::kPrepare},
    {S::kStopped, E::kFailed, S::kFailed, A::kScheduleRetry},

    {S::kFailed, E::kStopWanted, S::kStopping, A::kStop},
    {S::kFailed, E::kFailed, S::kFailed, A::kScheduleRetry},
    // The target depends on the previous state: RetryTarget, one of PREPARING, MIRRORING, PAUSING,
    // STOPPING. The table names the first; Decide puts the real one.
    {S::kFailed, E::kRetryDue, S::kPreparing, A::kPrepare},

    // Nothing is decided anew: then the action of the state.
    {S::kPreparing, E::kTakenOver, S::kPreparing, A::kContinue},
    {S::kMirroring, E::kTakenOver, S::kMirroring, A::kContinue},
    {S::kEpochFencing, E::kTakenOver, S::kEpochFencing, A::kContinue},
    {S::kUleRecovery, E::kTakenOver, S::kUleRecovery, A::kContinue},
    {S::kPausing, E::kTakenOver, S::kPausing, A::kContinue},
    {S::kPaused, E::kTakenOver, S::kPaused, A::kContinue},
    {S::kStopping, E::kTakenOver, S::kStopping, A::kContinue},
    {S::kStopped, E::kTakenOver, S::kStopped, A::kContinue},
    {S::kFailed, E::kTakenOver, S::kFailed, A::kContinue},
};

constexpr bool HasDuplicatePairs() {
  for (size_t i = 0; i < std::size(kRules); ++i) {
    for (size_t j = i + 1; j < std::size(kRules); ++j) {
      if (kRules[i].from == kRules[j].from && kRules[i].on == kRules[j].on) return true;
    }
  }
  return false;
}
static_assert(!HasDuplicatePairs());

}  // namespace

std::span<const Rule> PartitionRules() { return kRules; }

A EntryAction(S state) {
  switch (state) {
    case S::kUnknown: return A::kNone;
    case S::kPreparing: return A::kPrepare;
    case S::kEpochFencing: return A::kRaiseEpoch;
    case S::kUleRecovery: return A::kAwaitReplicas;
    case S::kMirroring: return A::kFetch;
    case S::kPausing: return A::kRemoveFetcher;
    case S::kPaused: return A::kStay;
    case S::kStopping: return A::kStop;
    case S::kStopped: return A::kOpenWrites;
    case S::kFailed: return A::kScheduleRetry;
  }
  return A::kNone;
}

const Rule* FindRule(S from, E on) {
  for (const Rule& rule : kRules) {
    if (rule.from == from && rule.on == on) return &rule;
  }
  return nullptr;
}

std::string_view EventName(E event) {
  constexpr std::array<std::string_view, kPartitionEventCount> names = {
      "START_WANTED",     "CUT_CHOSEN",       "PREPARED",       "EPOCH_BEHIND", "EPOCH_RAISED",
      "SOURCE_TRUNCATED", "REPLICAS_ALIGNED", "DATA_FLOWS",     "PAUSE_WANTED", "RESUME_WANTED",
      "FETCHER_GONE",     "STOP_WANTED",      "POSITION_TAKEN", "STOP_DONE",    "FAILED",
      "RETRY_DUE",        "TAKEN_OVER"};
  return names[static_cast<size_t>(event)];
}

bool CanTransition(S from, S to) {
  if (to == S::kUnknown) return false;
  if (from == to || to == S::kFailed) return true;
  switch (to) {
    case S::kPreparing: return from == S::kUnknown || from == S::kStopped || from == S::kFailed;
    case S::kEpochFencing:
    case S::kUleRecovery: return from == S::kMirroring;
    case S::kMirroring:
      return from == S::kPreparing || from == S::kEpochFencing || from == S::kUleRecovery ||
             from == S::kPaused || from == S::kFailed;
    case S::kPausing: return from == S::kMirroring || from == S::kFailed;
    case S::kPaused: return from == S::kPausing;
    case S::kStopping: return from != S::kStopped;
    case S::kStopped: return from == S::kStopping;
    default: return false;
  }
}

S RetryTarget(const PartitionRecord& failed) {
  switch (failed.previous) {
    case S::kMirroring:
    case S::kEpochFencing:
    case S::kUleRecovery: return S::kMirroring;
    case S::kPausing:
    case S::kPaused: return S::kPausing;
    case S::kStopping: return S::kStopping;
    default: return S::kPreparing;
  }
}

bool MustTakeOver(const PartitionRecord& record, int32_t leader_epoch) {
  // UNKNOWN is never written (1.3). What could land on it is a start, which the next wish finds.
  return record.state != S::kUnknown && record.leader_epoch < leader_epoch;
}

bool RetriesByItself(const PartitionRecord& failed, int max_attempts) {
  // A failed stop is never given up: a half-finished failover helps nobody (6.4).
  if (failed.previous == S::kStopping) return true;
  if (failed.attempt == PartitionRecord::kNotRetryable) return false;
  return max_attempts != 0 && failed.attempt < max_attempts;
}

Result<Decision> Decide(const PartitionRecord& record, E event, const EventArgs& args) {
  const Rule* rule = FindRule(record.state, event);
  if (rule == nullptr) {
    return Status(ErrorCode::kInvalidClusterMirrorState, std::string(EventName(event)) +
                                                             " is not permitted in " +
                                                             std::string(StateName(record.state)));
  }
  Decision decision;
  decision.write.state = rule->to;
  decision.action = rule->action;
  switch (event) {
    case E::kCutChosen: decision.write.progress = Progress::kCutting; break;
    case E::kPrepared: decision.write.progress = Progress::kMirrored; break;
    case E::kPositionTaken: decision.write.position = args.position; break;
    case E::kDataFlows:
      decision.write.attempt = 0;
      decision.write.reason = std::string();
      break;
    case E::kStopDone: decision.write.progress = Progress::kUntouched; break;
    case E::kFailed: {
      decision.write.reason = args.reason;
      if (!args.retryable) {
        decision.write.attempt = PartitionRecord::kNotRetryable;
      } else {
        const int next = std::max<int>(record.attempt, 0) + 1;
        decision.write.attempt =
            static_cast<int16_t>(std::min(next, std::max<int>(args.max_attempts, 1)));
      }
      break;
    }
    case E::kRetryDue:
      decision.write.state = RetryTarget(record);
      if (args.forget_failures) decision.write.attempt = 0;
      decision.action = EntryAction(decision.write.state);
      break;
    default: break;
  }
  return decision;
}

Status CheckWrite(const PartitionRecord& current, const StateWrite& write) {
  if (write.leader_epoch != -1 && current.leader_epoch > write.leader_epoch) {
    return {ErrorCode::kFencedLeaderEpoch, "leader epoch " + std::to_string(write.leader_epoch) +
                                               " is older than " +
                                               std::to_string(current.leader_epoch)};
  }
  if (write.expected_state_epoch != -1 && current.state_epoch > write.expected_state_epoch) {
    return {ErrorCode::kFencedStateEpoch,
            "state epoch " + std::to_string(write.expected_state_epoch) + " is older than " +
                std::to_string(current.state_epoch)};
  }
  if (write.state != S::kUnknown && !CanTransition(current.state, write.state)) {
    return {ErrorCode::kInvalidClusterMirrorState,
            std::string(StateName(current.state)) + " to " + std::string(StateName(write.state)) +
                " is not permitted (state epoch " + std::to_string(current.state_epoch) +
                ", leader epoch " + std::to_string(current.leader_epoch) + ")"};
  }
  return Status::Ok();
}

PartitionRecord ApplyWrite(const PartitionRecord& current, const StateWrite& write) {
  PartitionRecord next = current;
  next.leader_epoch = std::max(current.leader_epoch, write.leader_epoch);
  next.state_epoch = current.state_epoch + 1;
  if (write.position) next.position = *write.position;
  if (write.progress) next.progress = *write.progress;
  if (write.state == S::kUnknown) return next;

  next.state = write.state;
  // What failed before stays visible and keeps the backoff growing until data flows, but not across
  // a new start, and not once an operator's pause or stop is complete (2.3).
  const bool fresh_start = write.state == S::kPreparing &&
                           (current.state == S::kUnknown || current.state == S::kStopped);
  if (fresh_start || write.state == S::kPaused || write.state == S::kStopped) {
    next.attempt = 0;
    next.reason.clear();
  }
  if (write.attempt) next.attempt = *write.attempt;
  if (write.reason) next.reason = *write.reason;
  if (write.state == S::kFailed) {
    if (current.state != S::kFailed) next.previous = current.state;
  }
  // The pair of an earlier stop is needed until the log is aligned again, and not one write longer:
  // "a pair is stored while STOPPING" means "captured by this stop" (6.3).
  if (current.state == S::kPreparing && write.state == S::kMirroring) next.position = {};
  return next;
}

}  // namespace kmirror::statemachine
