// A broker's driver, moved as src/coordinator/partition_driver.cc, prepare.cc, mirroring.cc and
// stop.cc move theirs. Each function names the one it stands for; what a driver waits for (another
// broker, the shard, the source, a disk) ends a step here, and the world says when it goes on.
#include <algorithm>

#include "src/statemachine/epoch_rules.h"
#include "tests/model/step.h"

namespace kmirror::model {
namespace {

using S = MirrorPartitionState;
using E = statemachine::PartitionEvent;
using A = statemachine::Action;

}  // namespace

// MirrorImpl::UpdateDrivers, then PartitionDriver::OnMetadata. The host closes the write barrier in
// the same change of its metadata.
void Step::SeeMetadata(int b) {
  Node& n = w.node[b];
  const bool wish_changed = n.behind != 0;
  const bool epoch_rose = w.leader_epoch > n.epoch;
  n.behind = 0;
  n.desired = w.desired;
  n.epoch = w.leader_epoch;
  if (w.leader != b || w.desired < 0) {
    DropDriver(b);
    return;
  }
  if (wish_changed) n.open = 0;
  if (!n.leads) {
    n.leads = 1;
    n.open = 0;
    n.fetcher = 0;
    return;  // ReadState
  }
  if (epoch_rose) {
    if (n.epoch_min >= 0 && n.epoch > n.epoch_min) EpochRaised(b);
    if (n.loaded && n.record.State() == S::kStopped && n.writing == Writing::kNo && !wish_changed) {
      n.at = At::kOpen;
    }
  }
  if (!wish_changed || !n.loaded) return;
  if (n.record.State() == S::kStopped) n.running = 0;
  Reconcile(b);
}

// PartitionDriver::ReadState, its answer.
void Step::ReadState(int b) {
  Node& n = w.node[b];
  n.loaded = 1;
  n.running = 0;
  n.record = w.stored;
  Reconcile(b);
}

void Step::ReadAgain(int b) {
  NewOperation(b, At::kIdle);
  w.node[b].loaded = 0;
  w.node[b].running = 0;
}

void Step::Reconcile(int b) {
  Node& n = w.node[b];
  if (!n.loaded || n.writing != Writing::kNo || n.mutating != 0) {
    n.again = 1;
    return;
  }
  n.again = 0;
  const statemachine::Next next = rules_.reconcile(Wanted(b), Record(b));
  if (next.event) return Transition(b, *next.event);
  if (!next.reassert) {
    NewOperation(b, At::kIdle);
    n.running = 0;
    return;
  }
  if (n.running) return;
  if (rules_.must_take_over(Record(b), n.epoch)) return TakeOver(b);
  Enter(b, rules_.entry(n.record.State()));
}

void Step::TakeOver(int b) {
  if (w.node[b].record.State() == S::kStopped) {
    Enter(b, A::kOpenWrites);
  } else {
    NewOperation(b, At::kTakeOver);
  }
  WriteWithin(b, E::kTakenOver);
}

void Step::Transition(int b, Event event, const Args& args) {
  Node& n = w.node[b];
  if (!n.loaded) return;
  if (n.writing != Writing::kNo || n.mutating != 0) {
    n.deferred = static_cast<uint8_t>(static_cast<int>(event) + 1);
    n.deferred_state = n.record.state;
    n.deferred_args = args;
    return;
  }
  if (!Decide(b, event, args)) return;
  NewOperation(b, At::kIdle);
  n.running = 0;
  Submit(b);
}

void Step::WriteWithin(int b, Event event, const Args& args) {
  if (Decide(b, event, args)) Submit(b);
}

bool Step::Decide(int b, Event event, const Args& args) {
  statemachine::EventArgs wide;
  wide.position = {args.position_epoch, args.position_offset};
  wide.reason = std::string(ReasonText(args.reason));
  wide.retryable = args.retryable != 0;
  wide.max_attempts = static_cast<int16_t>(std::max(scope_.max_attempts, 1));
  wide.forget_failures = args.forget != 0;
  const auto decision = rules_.decide(Record(b), event, wide);
  if (!decision.ok()) return false;
  w.node[b].write = Write::Of(event, *decision);
  return true;
}

void Step::Submit(int b) {
  Node& n = w.node[b];
  n.writing = Writing::kSent;
  n.write.leader_epoch = n.epoch;
  n.write.expected_state_epoch = n.record.state_epoch;
  if (rules_.acts_before_answer) {
    n.record = Packed::Of(rules_.apply(Record(b), n.write.Make()));
  }
}

// PartitionDriver::OnWritten
void Step::HearAnswer(int b) {
  Node& n = w.node[b];
  const Writing heard = n.writing;
  n.writing = Writing::kNo;
  if (heard == Writing::kRefused) {
    if (rules_.resends_without_reading) {
      n.write.expected_state_epoch = w.stored.state_epoch;
      n.writing = Writing::kSent;
      return;
    }
    return ReadAgain(b);
  }
  const E event = n.write.Event();
  const bool continues = event == E::kCutChosen || event == E::kPositionTaken ||
                         (event == E::kTakenOver && n.record.State() != S::kStopped);
  if (heard == Writing::kUnanswered) {
    if (rules_.reads_instead_of_resending && !continues && n.again) return ReadAgain(b);
    return Submit(b);
  }
  n.record = n.written;
  const Write write = n.write;
  if (n.again) {
    n.again = 0;
    if (rules_.reconcile(Wanted(b), Record(b)).event) {
      n.deferred = 0;
      return Reconcile(b);
    }
  }
  if (RunDeferred(b)) return;
  if (continues) return ContinueAfterWrite(b);
  const auto action = static_cast<A>(write.action);
  if (action == A::kContinue || action == A::kNone) return;
  const statemachine::Next next = rules_.reconcile(Wanted(b), Record(b));
  if (next.event) return Transition(b, *next.event);
  Enter(b, action);
}

// True: a new operation or a write has begun.
bool Step::RunDeferred(int b) {
  Node& n = w.node[b];
  if (n.writing != Writing::kNo || n.mutating != 0 || n.deferred == 0) return false;
  const uint8_t deferred = n.deferred;
  const Args args = n.deferred_args;
  n.deferred = 0;
  if (deferred == kDeferredFetching) {
    OnFetching(b);
  } else if (n.record.state == n.deferred_state) {
    Transition(b, static_cast<E>(deferred - 1), args);
  }
  return n.writing != Writing::kNo;
}

void Step::NewOperation(int b, At at) {
  Node& n = w.node[b];
  n.deferred = 0;
  n.epoch_min = -1;
  n.at = at;
  n.cut = -1;
  if (n.mutating != 0) n.mutating = 2;
}

void Step::Enter(int b, A action) {
  NewOperation(b, At::kIdle);
  Node& n = w.node[b];
  n.running = 1;
  switch (action) {
    case A::kPrepare:
      n.fetcher = 0;
      n.at = At::kPrepareSource;
      return;
    case A::kFetch: n.at = At::kFetchResolve; return;
    case A::kRaiseEpoch: n.at = At::kRaiseRefresh; return;
    case A::kAwaitReplicas: n.at = At::kAwaitReplicas; return;
    case A::kRemoveFetcher: n.at = At::kRemoveFetcher; return;
    case A::kStay:
      n.fetcher = 0;
      n.at = At::kPaused;
      return;
    case A::kStop: n.at = At::kStopRemove; return;
    case A::kOpenWrites: n.at = At::kOpen; return;
    case A::kScheduleRetry:
      n.fetcher = 0;
      n.at = At::kFailed;
      return;
    case A::kContinue:
    case A::kNone: return;
  }
}

// The end of a change of the log (PartitionDriver::Continue with `mutation`).
void Step::EndMutation(int b, bool failed) {
  Node& n = w.node[b];
  const bool mine = n.mutating == 1;
  n.mutating = 0;
  if (mine) {
    if (failed) {
      Fail(b, Reason::kDisk, true);
    } else {
      switch (n.at) {
        case At::kPrepareTruncating:
          n.discard = 0;
          n.at = At::kPrepareAlign;
          break;
        case At::kStopTruncating: n.at = At::kStopReplicated; break;
        case At::kStopAborting: n.at = At::kStopAbort; break;
        case At::kStopResetting: n.at = At::kStopSync; break;
        default: break;
      }
    }
  }
  if (n.writing != Writing::kNo || n.mutating != 0) return;
  if (n.again) Reconcile(b);
  RunDeferred(b);
}

void Step::Fail(int b, Reason reason, bool retryable) {
  Transition(b, E::kFailed, {.reason = reason, .retryable = static_cast<uint8_t>(retryable)});
}

bool Step::Recover(int b) {
  if (!w.node[b].loaded || w.node[b].record.State() != S::kFailed) return false;
  Transition(b, E::kRetryDue, {.forget = 1});
  return true;
}

void Step::RetryDue(int b) { Transition(b, E::kRetryDue); }

// OnSourceTopicDeleted, OnSourceReplaced
void Step::SourceLost(int b) {
  if (rules_.source_loss(Wanted(b), Record(b))) Fail(b, Reason::kSourceGone, false);
}

void Step::RaiseEpochAbove(int b, int min, At wait, At then) {
  Node& n = w.node[b];
  if (n.epoch > min) {
    n.at = then;
    return;
  }
  n.epoch_min = static_cast<int8_t>(min);
  n.at = wait;
}

// on_epoch_
void Step::EpochRaised(int b) {
  Node& n = w.node[b];
  n.epoch_min = -1;
  switch (n.at) {
    case At::kPrepareEpoch: n.at = At::kPrepareCut; return;
    case At::kFetchEpoch: n.at = At::kFetchResolve; return;
    case At::kRaiseEpoch: return Transition(b, E::kEpochRaised);
    case At::kStopEpochWait: n.at = At::kStopProducers; return;
    default: return;
  }
}

// WriteWithin's `then`
void Step::ContinueAfterWrite(int b) {
  Node& n = w.node[b];
  if (n.at == At::kTakeOver) return Enter(b, rules_.entry(n.record.State()));
  if (n.at == At::kPrepareCutWrite) n.at = At::kPrepareTruncate;
  if (n.at == At::kStopPositionWrite) n.at = At::kStopEpoch;
}

// MirrorFetching's side of an assignment, and OnFetchStopped.
bool Step::Fetch(int b) {
  Node& n = w.node[b];
  Log& mine = w.log[b];
  if (!n.fetcher || !w.source_up || w.source_gone) return false;
  const bool heard = n.loaded && n.record.State() == S::kMirroring;
  if (!mine.IsPrefixOf(w.source)) {
    n.fetcher = 0;
    if (scope_.follow_truncation) {
      const Log before = mine;
      mine.Cut(mine.Common(w.source));
      Truncated(b, before, false);
      if (heard) Transition(b, E::kSourceTruncated);
    } else if (heard) {
      Fail(b, Reason::kDiverged, false);
    }
    return true;
  }
  if (mine.size == w.source.size) {
    if (!heard || (n.record.attempt == 0 && n.record.reason == Reason::kNone)) return false;
    if (n.writing != Writing::kNo) return false;
    OnFetching(b);
    return true;
  }
  if (w.source.epoch[mine.size] > n.epoch) {
    n.fetcher = 0;
    if (heard) Transition(b, E::kEpochBehind);
    return true;
  }
  mine.Append(w.source.kind[mine.size], w.source.epoch[mine.size]);
  Mirrored(b);
  if (heard) OnFetching(b);
  return true;
}

void Step::OnFetching(int b) {
  Node& n = w.node[b];
  if (!n.loaded || n.record.State() != S::kMirroring || !n.fetcher) return;
  if (n.record.attempt == 0 && n.record.reason == Reason::kNone) return;
  if (n.writing != Writing::kNo) {
    if (n.deferred == 0) n.deferred = kDeferredFetching;
    return;
  }
  WriteWithin(b, E::kDataFlows);
}

// OnFetchStopped, kLeaderUnknown
void Step::LoseFetcherLeader(int b) {
  NewOperation(b, At::kFetchResolve);
  w.node[b].fetcher = 0;
  w.node[b].running = 1;
}

bool Step::GoOn(int b) {
  Node& n = w.node[b];
  Log& mine = w.log[b];
  const bool source = w.source_up && !w.source_gone;
  const bool near = statemachine::EpochIsNear(w.source_epoch, n.epoch);
  const auto above_source = statemachine::EpochFloor(w.source_epoch);
  switch (n.at) {
    case At::kIdle:
    case At::kTakeOver:
    case At::kPrepareEpoch:
    case At::kPrepareCutWrite:
    case At::kFetchEpoch:
    case At::kFetching:
    case At::kRaiseEpoch:
    case At::kPaused:
    case At::kStopPositionWrite:
    case At::kStopEpochWait:
    case At::kOpened:
    case At::kFailed: return false;

    // --- prepare.cc
    case At::kPrepareSource:
      n.open = 0;
      if (!source) return false;
      if (!near) {
        n.at = At::kPrepareCut;
      } else {
        RaiseEpochAbove(b, *above_source, At::kPrepareEpoch, At::kPrepareCut);
      }
      return true;
    case At::kPrepareCut: return source && PrepareCut(b);
    case At::kPrepareTruncate: {
      const Log before = mine;
      mine.Cut(n.cut);
      n.cut = -1;
      n.mutating = 1;
      n.at = At::kPrepareTruncating;
      Truncated(b, before, true);
      return true;
    }
    case At::kPrepareTruncating: EndMutation(b, false); return true;
    case At::kPrepareAlign:
      if (!Followed(b, scope_.follow_truncation)) return false;
      n.discard = 0;
      Transition(b, E::kPrepared);
      return true;

    // --- mirroring.cc
    case At::kFetchResolve:
      if (!source) return false;
      if (near) {
        RaiseEpochAbove(b, *above_source, At::kFetchEpoch, At::kFetchResolve);
      } else {
        n.at = At::kFetching;
        n.fetcher = 1;
      }
      return true;
    case At::kRaiseRefresh:
      if (!source) return false;
      if (!near || n.epoch > *above_source) {
        Transition(b, E::kEpochRaised);
      } else {
        RaiseEpochAbove(b, *above_source, At::kRaiseEpoch, At::kIdle);
      }
      return true;
    case At::kAwaitReplicas:
      if (!Followed(b, true)) return false;
      Transition(b, E::kReplicasAligned);
      return true;
    case At::kRemoveFetcher:
      n.fetcher = 0;
      Transition(b, E::kFetcherGone);
      return true;

    // --- stop.cc
    case At::kStopRemove:
      n.fetcher = 0;
      n.at = rules_.only_a_write(Record(b)) ? At::kStopFinish : At::kStopTruncate;
      return true;
    case At::kStopTruncate: {
      if (!scope_.stop_truncates || !rules_.takes_position(Record(b)) ||
          !mine.HasOpenTransaction()) {
        n.at = At::kStopReplicated;
        return true;
      }
      if (!Replicated(b)) return false;
      mine.Cut(mine.LastStableOffset());
      w.synced[b] = std::min(w.synced[b], mine.size);
      n.mutating = 1;
      n.at = At::kStopTruncating;
      return true;
    }
    case At::kStopTruncating: EndMutation(b, false); return true;  // then replicas follow
    case At::kStopReplicated:
      if (!rules_.skips_replication && !Replicated(b)) return false;
      n.at = rules_.takes_position(Record(b)) ? At::kStopPosition : At::kStopEpoch;
      return true;
    case At::kStopPosition: {
      if (!rules_.skips_sync) w.synced[b] = mine.size;
      const auto at = rules_.position_at_end(mine.Shape(), mine.LastEpoch(), n.epoch);
      n.at = At::kStopPositionWrite;
      WriteWithin(b, E::kPositionTaken,
                  {.position_epoch = static_cast<int8_t>(at.epoch),
                   .position_offset = static_cast<int8_t>(at.offset)});
      return true;
    }
    case At::kStopEpoch: return StopEpoch(b);
    case At::kStopProducers:
      w.producer_floor = 1;
      n.at = At::kStopAbort;
      return true;
    case At::kStopAbort:
      if (mine.HasOpenTransaction() && !rules_.skips_abort) {
        AppendMarker(b, Kind::kAbort);
        n.mutating = 1;
        n.at = At::kStopAborting;
      } else if (mine.EndsWithReset()) {
        n.at = At::kStopSync;
      } else {
        AppendMarker(b, Kind::kReset);
        n.mutating = 1;
        n.at = At::kStopResetting;
      }
      return true;
    case At::kStopAborting:
    case At::kStopResetting:
      if (!Replicated(b)) return false;
      EndMutation(b, false);
      return true;
    case At::kStopSync:
      if (!Replicated(b)) return false;
      w.synced[b] = mine.size;
      n.at = At::kStopFinish;
      return true;
    case At::kStopFinish:
      if (!rules_.only_a_write(Record(b)) &&
          ((mine.HasOpenTransaction() && !rules_.skips_abort) || !Replicated(b))) {
        n.at = At::kStopTruncate;
        return true;
      }
      Transition(b, E::kStopDone);
      return true;

    case At::kOpen:  // OpenWrites
      n.open = Wanted(b) == DesiredState::kStopped;
      n.at = At::kOpened;
      return true;
  }
  return false;
}

// PrepareCut, PrepareExchange, NoCommonPosition, PrepareTruncate up to its write. The source
// answers all questions at one moment; a leader of it that moves in between answers with an error,
// which begins this anew.
bool Step::PrepareCut(int b) {
  using Next = statemachine::StartCut::Next;
  Node& n = w.node[b];
  const Log& mine = w.log[b];
  auto start = rules_.choose_cut(mine.Shape(), {}, Record(b));
  std::optional<int64_t> cut;
  if (start.next == Next::kCut) cut = start.cut;
  if (start.next == Next::kCompareEpochs) {
    statemachine::EpochExchange exchange(start.shape);
    while (const auto question = exchange.Question()) {
      // The source's largest epoch that is not above the one asked for, and where it ends.
      int epoch = -1;
      int end = -1;
      for (int i = 0; i < w.source.size; ++i) {
        if (w.source.epoch[i] > *question) continue;
        epoch = w.source.epoch[i];
        end = i + 1;
      }
      exchange.Answer(epoch, end);
    }
    cut = rules_.cut_after_exchange(exchange, start.known, 0);
    w.exchange_truncations = w.source_truncations;
  }
  if (!cut) {
    if (!n.discard) {
      Fail(b, Reason::kNoCommonPosition, false);
      return true;
    }
    cut = 0;
  } else if (*cut >= mine.size) {
    n.at = At::kPrepareAlign;
    return true;
  }
  n.cut = static_cast<int8_t>(*cut);
  if (rules_.cuts_unannounced) {
    n.at = At::kPrepareTruncate;
    return true;
  }
  n.at = At::kPrepareCutWrite;
  WriteWithin(b, E::kCutChosen);
  return true;
}

void Step::AppendMarker(int b, Kind kind) {
  if (!w.log[b].Append(kind, w.node[b].epoch)) Break("the model's log is too short for this scope");
}

bool Step::StopEpoch(int b) {
  std::optional<int32_t> source_epoch;
  if (w.source_up && !w.source_gone) source_epoch = w.source_epoch;
  const int32_t min = rules_.stop_floor(Record(b), w.log[b].LastEpoch(), source_epoch);
  RaiseEpochAbove(b, min, At::kStopEpochWait, At::kStopProducers);
  return true;
}

}  // namespace kmirror::model
