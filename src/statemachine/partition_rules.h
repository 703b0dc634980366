// The life cycle of a mirror partition as one table (coordinator.md 2). Pure: no I/O, clock,
// thread.
//
// A driver turns what happens into an Event; Decide looks the rule up and says what to write; the
// write is appended and acknowledged by the shard; ApplyWrite (shard and replay alike) makes the
// new record; then the driver carries out the rule's Action, which ends in the next Event. docs/
// architecture.md shows the table as a diagram, a test compares the two.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string_view>

#include "kmirror/status.h"
#include "src/statemachine/partition_record.h"

namespace kmirror::statemachine {

enum class PartitionEvent : uint8_t {
  kStartWanted,      // desired MIRRORING, and nothing is mirrored yet
  kCutChosen,        // PREPARING knows where to cut; written before the log is touched
  kPrepared,         // log aligned with the source, replicas follow
  kEpochBehind,      // the source's batches carry an epoch above ours
  kEpochRaised,      // our leader epoch is above the source's
  kSourceTruncated,  // the source lost data we had, and the topic allows to follow
  kReplicasAligned,  // every assigned replica has followed the cut
  kDataFlows,        // the first fetched set passed; failures are forgotten
  kPauseWanted,
  kResumeWanted,
  kFetcherGone,    // PAUSING: nothing of the partition can be appended any more
  kStopWanted,     // desired STOPPED
  kPositionTaken,  // STOPPING captured what both clusters agreed on
  kStopDone,       // markers and reset are durable
  kFailed,         // an error of coordinator.md 2.5
  kRetryDue,       // the backoff of FAILED ran out, or an operator asked to recover
  kTakenOver,      // a new leader fences what the old one may still have under way
};
inline constexpr int kPartitionEventCount = 17;

// What the partition's leader does once the record that enters the state is acknowledged.
enum class Action : uint8_t {
  kNone,
  kPrepare,        // section 3: look-ups, cut, wait for replicas
  kContinue,       // go on with what is running in this state
  kFetch,          // resolve the source leader, start the fetcher
  kRaiseEpoch,     // refresh the source, bump, wait
  kAwaitReplicas,  // ULE_RECOVERY
  kRemoveFetcher,  // PAUSING
  kStay,           // PAUSED: nothing; read-only
  kStop,           // section 6
  kOpenWrites,     // STOPPED: let clients in
  kScheduleRetry,  // FAILED: fetcher removed, timer armed unless not retryable
};

struct Rule {
  MirrorPartitionState from;
  PartitionEvent on;
  MirrorPartitionState to;
  Action action;
};

// Every permitted (from, on) pair exactly once; anything else is refused.
std::span<const Rule> PartitionRules();
// What a leader does that finds the state stored: the action of the rules that lead into it.
Action EntryAction(MirrorPartitionState state);
// nullptr: not permitted.
const Rule* FindRule(MirrorPartitionState from, PartitionEvent on);

std::string_view EventName(PartitionEvent event);

// Is the write allowed by the table of coordinator.md 2.3, whatever the event was? The shard checks
// this for writers of any version. Same state to same state always is.
bool CanTransition(MirrorPartitionState from, MirrorPartitionState to);

// Where a FAILED partition goes when it is retried (2.5): its previous state, with the recovery
// states retried as MIRRORING and nothing retried as PREPARING.
MirrorPartitionState RetryTarget(const PartitionRecord& failed);
// Must a leader that has read the record write before it acts on it (kTakenOver)? An older leader's
// write may still be under way: landing later, it would make the record say what nobody does.
bool MustTakeOver(const PartitionRecord& record, int32_t leader_epoch);
// Does a FAILED partition try again by itself, `max_attempts` being the configured limit (0 never)?
bool RetriesByItself(const PartitionRecord& failed, int max_attempts);

// The event's rule for the record, as a write (without leader epoch and expected epoch, which the
// driver adds). kInvalidClusterMirrorState: the table does not permit it.
struct Decision {
  StateWrite write;
  Action action = Action::kNone;
};
struct EventArgs {
  MirrorPosition position;       // kPositionTaken
  std::string reason;            // kFailed
  bool retryable = true;         // kFailed
  int16_t max_attempts = 20;     // kFailed: the counter stops there
  bool forget_failures = false;  // kRetryDue: an operator's recover starts the counter anew (2.7)
};
Result<Decision> Decide(const PartitionRecord& record, PartitionEvent event, const EventArgs& args);

// Checks of coordinator.md 1.4, in order: leader epoch, state epoch, table. `current` as replayed.
// kFencedLeaderEpoch, kFencedStateEpoch, kInvalidClusterMirrorState, or OK.
Status CheckWrite(const PartitionRecord& current, const StateWrite& write);

// The record after an accepted write. The only code that makes a record, for live and replayed
// alike.
PartitionRecord ApplyWrite(const PartitionRecord& current, const StateWrite& write);

}  // namespace kmirror::statemachine
