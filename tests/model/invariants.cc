// What must hold in every reachable world (coordinator.md 13, fetcher-and-log.md 9, R26, R29).
#include <algorithm>

#include "tests/model/step.h"

namespace kmirror::model {
namespace {

using S = MirrorPartitionState;
constexpr int8_t kMirrored = static_cast<int8_t>(statemachine::Progress::kMirrored);
constexpr int8_t kCutting = static_cast<int8_t>(statemachine::Progress::kCutting);

}  // namespace

// A write has landed.
void Step::Stored(const Packed& before) {
  const Packed& now = w.stored;
  const S from = before.State();
  const S to = now.State();
  if (now.leader_epoch < before.leader_epoch)
    Break("13.7: the leader epoch of the record went back");
  if (now.state_epoch <= before.state_epoch) Break("13.7: the state epoch did not rise");
  if (to == S::kFailed && now.reason == Reason::kNone) Break("FAILED without a reason");
  if (from == S::kFailed && to == S::kFailed && before.attempt == -1 &&
      now.reason != before.reason) {
    Break("the reason of a final failure was replaced");
  }
  if (to == S::kFailed && now.previous == static_cast<int8_t>(S::kFailed)) {
    Break("FAILED forgot where it came from");
  }
  if (before.HasPosition() && now.HasPosition() &&
      (before.position_epoch != now.position_epoch ||
       before.position_offset != now.position_offset)) {
    Break("9.14: a stored position was replaced");
  }
  if (to == S::kMirroring && from == S::kPreparing) {
    // 13.2, and never before PREPARING is done.
    for (int b = 0; b < scope_.brokers; ++b) {
      if (!(w.in_sync >> b & 1)) continue;
      if (!w.log[b].OnlyMirrored()) Break("13.2: MIRRORING with records that are not the source's");
      if (w.exchange_truncations == w.source_truncations && !w.log[b].IsPrefixOf(w.source)) {
        Break("13.2: MIRRORING, and an in-sync log is no prefix of the source's");
      }
    }
  }
  if (to == S::kStopped && before.progress == kMirrored && !now.HasPosition()) {
    Break("6.1: STOPPED, and the position of what was mirrored is not stored");
  }
  if (to == S::kFailed && now.reason == Reason::kNoCommonPosition && from != S::kFailed &&
      w.log[w.leader].Common(w.source) > 0 && scope_.budget[kDeletes] == 0) {
    Break("3.6: a common position was forgotten");  // a deletion forgets it (L8)
  }
  if (to == S::kMirroring && now.progress != kMirrored) Break("MIRRORING without progress 2");
  if (!before.HasPosition() && now.HasPosition()) {
    if (before.progress != kMirrored) Break("6.3: a position of a log that was not mirrored");
    for (int b = 0; b < scope_.brokers; ++b) {
      if ((w.in_sync >> b & 1) && w.log[b].size < now.position_offset) {
        Break("13.4: the stored position lies above the high watermark");
      }
    }
  }
}

// A batch of the source was appended to b's log.
void Step::Mirrored(int b) {
  const Log& log = w.log[b];
  if (w.leader == b) w.producer_floor = 0;
  if (log.epoch[log.size - 1] > w.node[b].epoch) Break("13.3: a batch above the leader epoch");
  if (!IsLeader(b)) return;  // deposed: nothing of it is ever replicated
  const S state = w.stored.State();
  if (state == S::kUnknown || state == S::kPreparing || state == S::kPaused ||
      state == S::kStopped || (state == S::kStopping && w.stored.HasPosition())) {
    Break("9.15: a mirrored batch was appended in " + std::string(StateName(state)));
  }
}

void Step::Truncated(int b, const Log& before, bool preparing) {
  const Log& now = w.log[b];
  w.synced[b] = std::min(w.synced[b], now.size);
  if (now.size == before.size || !IsLeader(b)) return;
  if (!preparing) {
    if (!scope_.follow_truncation) Break("R13: cut while MIRRORING, and the topic forbids it");
    return;
  }
  if (w.stored.State() != S::kPreparing || w.stored.progress != kCutting) {
    Break("the log was cut before the cut was announced in the record");
  }
  if (w.node[b].discard) return;  // an operator allowed it
  for (int i = now.size; i < before.size && !w.stored.HasPosition(); ++i) {
    const Kind kind = before.kind[i];
    if (kind == Kind::kLocal) Break("R26: local records were discarded without leave");
  }
  if (w.exchange_truncations == w.source_truncations && now.size < before.Common(w.source)) {
    Break("R29: more was cut than differs from the source");
  }
}

void Step::CheckAlways() {
  const Packed& stored = w.stored;
  const S state = stored.State();
  for (int b = 0; b < scope_.brokers; ++b) {
    const Node& n = w.node[b];
    // Durable before visible: what a driver believes is or was the record.
    if (n.loaded &&
        (n.record.state_epoch > stored.state_epoch ||
         (n.record.state_epoch == stored.state_epoch && n.record != stored)) &&
        !w.tombstone_due && w.desired >= 0) {
      Break("R29: broker " + std::to_string(b) + " shows a state that is not durable");
    }
    // 13.10, and none outside MIRRORING once its operation has begun.
    if (n.fetcher && n.loaded && n.running && n.writing == Writing::kNo &&
        n.record.State() != S::kMirroring && n.at != At::kRemoveFetcher &&
        n.at != At::kStopRemove) {
      Break("a fetcher outside MIRRORING");
    }
    if (n.open && n.leads && IsLeader(b)) {
      if (n.desired != static_cast<int8_t>(DesiredState::kStopped)) {
        Break("13.1: open for writes while mirroring is wanted");
      }
      if (state != S::kStopped && w.desired >= 0 && !w.overtaken) {
        Break("13.1: open for writes, and the record is " + std::string(StateName(state)));
      }
    }
  }
  int fetchers = 0;
  for (int b = 0; b < scope_.brokers; ++b) fetchers += IsLeader(b) && w.node[b].fetcher;
  if (fetchers > 1) Break("13.10: two fetchers");

  const Log& log = w.log[w.leader];
  for (int i = 0; i < log.size; ++i) {
    if (log.epoch[i] > w.leader_epoch) Break("13.3: a batch above the leader epoch");
    if (i > 0 && log.epoch[i] < log.epoch[i - 1]) Break("9.8: batch epochs go back");
  }
  if (state == S::kMirroring && stored.HasPosition()) Break("6.3: MIRRORING keeps an old position");
  if (state != S::kStopped || w.desired < 0) return;

  if (stored.progress != 0) Break("STOPPED with progress");
  if (!stored.HasPosition()) return;  // never mirrored
  if (w.leader_epoch <= stored.position_epoch) Break("13.3: no epoch above what was mirrored");
  if (log.size < stored.position_offset) Break("13.4: the log ends below the stored position");
  bool reset = false;
  for (int i = 0; i < log.size; ++i) {
    const bool ours =
        log.kind[i] == Kind::kLocal || log.kind[i] == Kind::kAbort || log.kind[i] == Kind::kReset;
    if (i < stored.position_offset) {
      if (ours) Break("9.13: a local batch below the position");
      if (log.epoch[i] > stored.position_epoch)
        Break("9.13: an epoch above the position's below it");
      continue;
    }
    if (!ours) Break("9.13: a mirrored batch above the position");
    if (log.epoch[i] <= stored.position_epoch) Break("9.13: an old epoch above the position");
    if (log.kind[i] == Kind::kLocal && !reset) Break("9.11: a local batch before the reset");
    reset = reset || log.kind[i] == Kind::kReset;
  }
  if (!reset) Break("9.11: STOPPED without a reset record");
  if (log.HasOpenTransaction()) Break("13.5: STOPPED with an open transaction");
  if (!w.producer_floor) Break("R9: STOPPED before the producer ids were raised");
}

bool Arrived(const World& w, const Scope& scope) {
  const Node& n = w.node[w.leader];
  const auto wanted = static_cast<DesiredState>(w.desired);
  if (!n.up || n.behind || n.epoch != w.leader_epoch || n.desired != w.desired) return false;
  if (wanted == DesiredState::kNone) return !n.leads && !w.tombstone_due;
  if (!n.leads || !n.loaded || n.writing != Writing::kNo) return false;
  // Over UNKNOWN nobody takes over: the next wish finds what has landed there.
  if (n.record.State() == S::kUnknown && w.overtaken) return !n.open && !n.fetcher;
  if (n.record != w.stored) return false;
  const S state = w.stored.State();
  // Given up for good: no stop ever is.
  const bool final = state == S::kFailed &&
                     !statemachine::RetriesByItself(w.stored.Record(), scope.max_attempts) &&
                     !n.open && !n.fetcher;
  switch (wanted) {
    case DesiredState::kMirroring:
      return final || (state == S::kMirroring && n.fetcher && w.log[w.leader] == w.source &&
                       (w.stored.attempt == 0 && w.stored.reason == Reason::kNone));
    case DesiredState::kPaused:
      return final || (!n.open && !n.fetcher &&
                       (state == S::kPaused || state == S::kUnknown || state == S::kStopped));
    case DesiredState::kStopped: return state == S::kStopped && n.open && !n.fetcher;
    case DesiredState::kNone: return false;
  }
  return false;
}

}  // namespace kmirror::model
