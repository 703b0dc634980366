#include "tests/model/machine.h"

#include <algorithm>

#include "src/statemachine/epoch_rules.h"

namespace kmirror::model {
namespace {

using S = MirrorPartitionState;
constexpr int8_t kNobody = static_cast<int8_t>(DesiredState::kNone);
constexpr int8_t kMirroring = static_cast<int8_t>(DesiredState::kMirroring);
constexpr int8_t kPaused = static_cast<int8_t>(DesiredState::kPaused);
constexpr int8_t kStopped = static_cast<int8_t>(DesiredState::kStopped);

bool Take(World& w, Budget budget) {
  if (w.left[budget] == 0) return false;
  --w.left[budget];
  return true;
}

void Want(World& w, int8_t desired) {
  w.desired = desired;
  for (Node& n : w.node) n.behind = n.up;
}

}  // namespace

std::string Label::Text() const {
  return broker < 0 ? std::string(what) : "broker " + std::to_string(broker) + " " + what;
}

// --- Step: the world's part

bool Step::IsLeader(int b) const {
  return w.leader == b && w.node[b].up && w.node[b].leads && w.node[b].epoch == w.leader_epoch;
}

// It has fetched under this leader epoch, so it leads no more and has no fetcher.
bool Step::Follows(int f) const {
  return w.node[f].up && !w.node[f].leads && w.node[f].epoch == w.leader_epoch;
}

bool Step::Replicated(int b) const {
  if (w.leader != b) return false;  // no follower asks it
  for (int f = 0; f < scope_.brokers; ++f) {
    if (f != b && (w.in_sync >> f & 1) && (!Follows(f) || w.log[f] != w.log[b])) return false;
  }
  return true;
}

bool Step::Followed(int b, bool all) const {
  if (w.leader != b) return false;
  for (int f = 0; f < scope_.brokers; ++f) {
    if (f == b) continue;
    if (!(w.in_sync >> f & 1)) {
      if (all) return false;
      continue;
    }
    if (!Follows(f) || !w.log[f].IsPrefixOf(w.log[b])) return false;
  }
  return true;
}

// StateShard::Flush and OnAppended. Memory and log of the shard change together, so the newest
// record is all there is of it.
void Step::WriteArrives(int b, Arrival how) {
  Node& n = w.node[b];
  if (how == Arrival::kLate) {
    w.late = 1;
    w.late_from = static_cast<uint8_t>(b);
    w.late_write = n.write;
    n.writing = Writing::kUnanswered;
    return;
  }
  const statemachine::StateWrite write = n.write.Make();
  const auto current = w.stored.Record();
  if (!rules_.check(current, write).ok()) {
    n.writing = Writing::kRefused;
    return;
  }
  const Packed before = w.stored;
  w.stored = Packed::Of(rules_.apply(current, write));
  n.written = w.stored;
  n.writing = how == Arrival::kAnswered ? Writing::kAnswered : Writing::kUnanswered;
  w.overtaken = w.overtaken || w.leader != b;
  Stored(before);
}

void Step::LateWriteLands() {
  const statemachine::StateWrite write = w.late_write.Make();
  const auto current = w.stored.Record();
  const bool orphan = w.late == 2 || w.leader != w.late_from;
  w.late = 0;
  if (!rules_.check(current, write).ok()) return;
  const Packed before = w.stored;
  w.stored = Packed::Of(rules_.apply(current, write));
  w.overtaken = w.overtaken || orphan;
  Stored(before);
}

// A follower's fetch: it cuts what the leader does not have and takes the rest.
void Step::Replicate(int follower) {
  const int common = w.log[follower].Common(w.log[w.leader]);
  w.synced[follower] = static_cast<uint8_t>(std::min<int>(w.synced[follower], common));
  w.log[follower] = w.log[w.leader];
  w.in_sync = static_cast<uint8_t>(w.in_sync | 1 << follower);
}

void Step::DropDriver(int b) {
  Node& n = w.node[b];
  // A write that was sent is on its way, whoever hears the answer.
  if (n.writing == Writing::kSent && w.late == 0 && Take(w, kLateWrites)) {
    w.late = 1;
    w.late_write = n.write;
  }
  if (w.late != 0) w.late = 2;
  Node kept;
  kept.up = n.up;
  kept.behind = n.behind;
  kept.epoch = n.epoch;
  kept.desired = n.desired;
  n = kept;
}

void Step::Kill(int b) {
  DropDriver(b);
  w.node[b] = Node{};
  if (scope_.brokers == 1) w.shard_loaded = 0;
  if (scope_.power_loss) w.log[b].Cut(w.synced[b]);
  // The last in-sync replica stays the only one that may lead.
  if (w.in_sync != 1 << b) w.in_sync = static_cast<uint8_t>(w.in_sync & ~(1 << b));
}

// Equal worlds look equal: numbers that are only compared are shifted down, what is not in use is
// cleared.
void Step::Normalize() {
  // Epochs of the record are compared, never shown: stale is stale, by however much.
  if (w.late && w.late_write.expected_state_epoch < w.stored.state_epoch) w.late = 0;
  constexpr uint8_t kCurrent = 3;
  const uint8_t current = w.stored.state_epoch;
  auto shift = [current](uint8_t& epoch) {
    if (current <= kCurrent) return;
    epoch = epoch == current ? kCurrent
                             : static_cast<uint8_t>(epoch > current ? kCurrent + 1 : kCurrent - 1);
  };
  if (!w.late) {
    w.late_write = {};
    w.late_from = 0;
  }
  if (w.late) shift(w.late_write.expected_state_epoch);
  for (int b = 0; b < kMaxBrokers; ++b) {
    Node& n = w.node[b];
    if (!n.loaded) n.record = {};
    if (n.writing == Writing::kNo) n.write = {};
    if (n.writing != Writing::kAnswered) n.written = {};
    if (n.deferred == 0) {
      n.deferred_state = -1;
      n.deferred_args = {};
    }
    if (n.loaded) shift(n.record.state_epoch);
    if (n.writing != Writing::kNo) shift(n.write.expected_state_epoch);
    if (n.writing == Writing::kAnswered) shift(n.written.state_epoch);
    w.synced[b] = std::min(w.synced[b], w.log[b].size);
    if (!scope_.power_loss) w.synced[b] = 0;
  }
  shift(w.stored.state_epoch);
  const Node& leader = w.node[w.leader];
  if (!leader.loaded || leader.record == w.stored) w.overtaken = 0;
}

// --- Machine

World Machine::Start() const {
  World w;
  w.source = scope_.source;
  if (w.source.size > 0) w.source_epoch = static_cast<int8_t>(w.source.LastEpoch());
  w.left = scope_.budget;
  for (int b = 0; b < scope_.brokers; ++b) {
    w.log[b] = scope_.local;
    w.synced[b] = scope_.local.size;
    w.node[b].up = 1;
    w.node[b].epoch = w.leader_epoch = scope_.local.size == 0 ? 0 : 1;
    w.in_sync = static_cast<uint8_t>(w.in_sync | 1 << b);
  }
  return w;
}

void Machine::Successors(const World& world, const Emit& emit) const {
  auto finish = [&](Step& step, const Label& label, bool helps) {
    step.Normalize();
    step.CheckAlways();
    emit(step, label, helps);
  };
  Brokers(world, finish);
  Operators(world, finish);
  Surroundings(world, finish);
}

// What brokers do by themselves.
void Machine::Brokers(const World& world, const Emit& emit) const {
  for (int8_t b = 0; b < scope_.brokers; ++b) {
    const Node& n = world.node[b];
    const auto on_broker = [&](const char* what, bool helps, auto&& act) {
      Step step(scope_, rules_, world);
      if (act(step)) emit(step, {what, b}, helps);
    };
    if (!n.up) {
      on_broker("boots", true, [&](Step& s) {
        s.w.node[b].up = 1;
        // A controller that lost sight of the leader elects it anew.
        if (scope_.brokers > 1 && world.leader == b) ++s.w.leader_epoch;
        s.SeeMetadata(b);
        return true;
      });
      continue;
    }
    if (n.behind || n.epoch != world.leader_epoch || n.desired != world.desired ||
        (n.leads && world.leader != b)) {
      on_broker("sees the metadata", true, [&](Step& s) {
        s.SeeMetadata(b);
        return true;
      });
    }
    if (world.leader != b && world.node[world.leader].up && n.epoch == world.leader_epoch &&
        world.node[world.leader].epoch == world.leader_epoch &&
        (world.log[b] != world.log[world.leader] || !(world.in_sync >> b & 1))) {
      on_broker("follows the leader's log", true, [&](Step& s) {
        s.Replicate(b);
        return true;
      });
    }
    if (!n.leads) continue;
    if (!n.loaded && world.shard_loaded && world.stored.leader_epoch <= n.epoch &&
        n.writing == Writing::kNo) {
      on_broker("reads the state", true, [&](Step& s) {
        s.ReadState(b);
        return true;
      });
    }
    if (n.writing == Writing::kSent) {
      if (world.shard_loaded) {
        on_broker("'s write is stored and answered", true, [&](Step& s) {
          s.WriteArrives(b, Step::Arrival::kAnswered);
          return true;
        });
        on_broker("'s write is stored, its answer lost", false, [&](Step& s) {
          if (!Take(s.w, kLateWrites)) return false;
          s.WriteArrives(b, Step::Arrival::kLandedUnanswered);
          return true;
        });
      } else {
        on_broker("'s write meets a shard that is loading", true, [&](Step& s) {
          s.w.node[b].writing = Writing::kUnanswered;
          return true;
        });
      }
      on_broker("'s write is late", false, [&](Step& s) {
        if (s.w.late || !Take(s.w, kLateWrites)) return false;
        s.WriteArrives(b, Step::Arrival::kLate);
        return true;
      });
    } else if (n.writing != Writing::kNo) {
      on_broker(n.writing == Writing::kAnswered  ? "hears its write's answer"
                : n.writing == Writing::kRefused ? "hears that its write is refused"
                                                 : "waits to write again",
                true, [&](Step& s) {
                  s.HearAnswer(b);
                  return true;
                });
    }
    if (n.fetcher) {
      on_broker("fetches", true, [&](Step& s) { return s.Fetch(b); });
      on_broker("cannot append", false, [&](Step& s) {
        if (!n.loaded || n.record.State() != S::kMirroring || !Take(s.w, kFaults)) return false;
        s.w.node[b].fetcher = 0;
        s.Fail(b, Reason::kDisk, true);
        return true;
      });
      on_broker("loses the source's leader", false, [&](Step& s) {
        if (!n.loaded || n.record.State() != S::kMirroring || !Take(s.w, kFaults)) return false;
        s.LoseFetcherLeader(b);
        return true;
      });
      if (statemachine::EpochIsNear(world.source_epoch, world.leader_epoch) && n.loaded &&
          world.source_up && n.record.State() == S::kMirroring) {
        on_broker("asks for a higher epoch in the background", true, [&](Step& s) {
          s.w.leader_epoch = static_cast<int8_t>(*statemachine::EpochFloor(world.source_epoch) + 1);
          return true;
        });
      }
    }
    if (n.epoch_min >= 0 && world.leader_epoch <= n.epoch_min) {
      on_broker("has the leader epoch raised", true, [&](Step& s) {
        s.w.leader_epoch = static_cast<int8_t>(n.epoch_min + 1);
        return true;
      });
    }
    if (!n.loaded) continue;
    if (n.mutating != 0) {
      if (n.mutating == 2) {
        on_broker("hears of an older change of its log", true, [&](Step& s) {
          s.EndMutation(b, false);
          return true;
        });
      }
      on_broker("'s change of its log fails", false, [&](Step& s) {
        if (!Take(s.w, kFaults)) return false;
        s.EndMutation(b, true);
        return true;
      });
    }
    if (n.writing == Writing::kNo && n.mutating != 2 && (n.running || n.at == At::kOpen)) {
      on_broker(AtText(n.at).data(), true, [&](Step& s) { return s.GoOn(b); });
    }
    if (n.at == At::kFailed && n.writing == Writing::kNo && n.running &&
        rules_.retries(n.record.Record(), scope_.max_attempts)) {
      on_broker("'s retry is due", true, [&](Step& s) {
        s.RetryDue(b);
        return true;
      });
    }
    if (world.source_gone) {
      on_broker("hears that the source topic is gone", true, [&](Step& s) {
        s.SourceLost(b);
        return s.w != world;
      });
    }
  }
}

// What people ask for. A change is checked against the newest metadata (SetMirrorNames with a
// version), a start also against the drivers of the broker that was asked (JudgeRestart).
void Machine::Operators(const World& world, const Emit& emit) const {
  const auto ask = [&](const char* what, Budget budget, int8_t desired) {
    Step step(scope_, rules_, world);
    if (!Take(step.w, budget)) return;
    Want(step.w, desired);
    emit(step, {what, -1}, false);
  };
  if (world.desired == kMirroring) ask("operator pauses", kPauses, kPaused);
  if (world.desired == kPaused) ask("operator resumes", kPauses, kMirroring);
  if (world.desired == kMirroring || world.desired == kPaused) {
    ask("operator stops", kStops, kStopped);
  }
  if (world.desired == kStopped && world.stored.State() == S::kStopped) {
    Step step(scope_, rules_, world);
    if (Take(step.w, kDeletes)) {
      Want(step.w, kNobody);
      step.w.tombstone_due = 1;
      emit(step, {"operator deletes the mirror", -1}, false);
    }
  }
  for (int8_t b = 0; b < scope_.brokers; ++b) {
    const Node& n = world.node[b];
    if (!n.up) continue;
    const bool stopped =
        !n.leads ||
        (n.loaded && (n.record.State() == S::kStopped || n.record.State() == S::kUnknown));
    if ((world.desired == kNobody || world.desired == kStopped) && stopped) {
      // What an asked broker knows matters only if it leads; two that do not are as one.
      Step step(scope_, rules_, world);
      // Made again after a deletion: every broker hears of both, and the shard's tombstone stands
      // before any new write, unless the shard was not loaded: then the old record stays.
      const bool again = world.desired == kNobody && world.tombstone_due;
      if (world.desired == kNobody && world.node[world.leader].behind) continue;
      if (Take(step.w, kStarts)) {
        if (again && world.shard_loaded) step.w.stored = {};
        step.w.tombstone_due = 0;
        Want(step.w, kMirroring);
        emit(step, {"is asked to start", b}, false);
      }
    }
    if (n.leads && n.loaded) {
      Step step(scope_, rules_, world);
      if (Take(step.w, kRecovers) && step.Recover(b)) emit(step, {"is asked to recover", b}, false);
      Step discard(scope_, rules_, world);
      if (n.record.reason == Reason::kNoCommonPosition && n.record.State() == S::kFailed &&
          Take(discard.w, kRecovers)) {
        discard.w.node[b].discard = 1;
        discard.Recover(b);
        emit(discard, {"is asked to start with --discard-local", b}, false);
      }
    }
    if (n.open && world.leader == b && n.leads) {
      Step step(scope_, rules_, world);
      if (Take(step.w, kProduces) && step.w.log[b].Append(Kind::kLocal, n.epoch)) {
        emit(step, {"takes a client's batch", b}, false);
      }
    }
  }
}

void Machine::Surroundings(const World& world, const Emit& emit) const {
  const auto happens = [&](const char* what, bool helps, auto&& act) {
    Step step(scope_, rules_, world);
    if (act(step)) emit(step, {what, -1}, helps);
  };
  // Brokers die, leaders and shards move.
  for (int8_t b = 0; b < scope_.brokers; ++b) {
    if (!world.node[b].up) continue;
    Step step(scope_, rules_, world);
    if (!Take(step.w, kKills)) break;
    step.Kill(b);
    emit(step, {scope_.power_loss ? "loses power" : "is killed", b}, false);
  }
  const int other = 1 - world.leader;
  // A broker hears of every change (Mirror::OnDelta), so one that leads again has let go before.
  if (scope_.brokers == 2 && world.node[other].up && !world.node[other].leads &&
      (world.in_sync >> other & 1)) {
    const bool orphaned = !world.node[world.leader].up;
    happens("the other broker is elected", orphaned, [&](Step& s) {
      if (!orphaned && !Take(s.w, kElections)) return false;
      s.w.leader = static_cast<uint8_t>(other);
      ++s.w.leader_epoch;
      return true;
    });
  }
  if (world.shard_loaded) {
    happens("the shard moves", false, [&](Step& s) {
      s.w.shard_loaded = 0;
      return Take(s.w, kShardMoves);
    });
    if (world.tombstone_due && !world.node[world.leader].behind) {
      happens("the shard forgets the deleted mirror", true, [&](Step& s) {
        s.w.tombstone_due = 0;
        s.w.stored = {};
        return true;
      });
    }
  } else {
    happens("the shard is loaded", true, [&](Step& s) {
      s.w.shard_loaded = 1;
      // What a dead process had under way is in its log by now, or never will be.
      if (scope_.brokers == 1 && s.w.late == 2) s.w.late = 0;
      return true;
    });
  }
  if (world.late && (world.shard_loaded != 0) == (scope_.brokers > 1 || world.late == 1)) {
    happens("the late write lands", false, [&](Step& s) {
      s.LateWriteLands();
      return true;
    });
  }
  if (world.late) {
    happens("the late write is lost", true, [&](Step& s) {
      s.w.late = 0;
      return true;
    });
  }
  // The source.
  const bool open = world.source.HasOpenTransaction();
  for (const Kind kind : {Kind::kData, Kind::kOpens, Kind::kCommit}) {
    if (kind == Kind::kOpens && open) continue;
    if (kind == Kind::kCommit && !open) continue;
    happens(kind == Kind::kData    ? "the source takes a batch"
            : kind == Kind::kOpens ? "the source takes a batch of a transaction"
                                   : "the source commits",
            false, [&](Step& s) {
              return Take(s.w, kSourceWrites) && s.w.source.Append(kind, s.w.source_epoch);
            });
  }
  happens("the source elects a leader", false, [&](Step& s) {
    // As far as ours is, at once: the interesting case, and the numbers stay small.
    s.w.source_epoch = static_cast<int8_t>(std::max(s.w.source_epoch + 1, s.w.leader_epoch + 1));
    return Take(s.w, kSourceElections);
  });
  if (world.source.size > 0) {
    happens("the source loses its last batch", false, [&](Step& s) {
      s.w.source.Cut(s.w.source.size - 1);
      ++s.w.source_epoch;
      ++s.w.source_truncations;
      return Take(s.w, kSourceTruncations);
    });
  }
  if (world.source_up) {
    happens("the source is out of reach", false, [&](Step& s) {
      s.w.source_up = 0;
      return Take(s.w, kSourceOutages);
    });
  } else {
    happens("the source is back", true, [&](Step& s) {
      s.w.source_up = 1;
      return true;
    });
  }
  if (!world.source_gone) {
    happens("the source topic is deleted", false, [&](Step& s) {
      s.w.source_gone = 1;
      return Take(s.w, kSourceLosses);
    });
  }
}

}  // namespace kmirror::model
