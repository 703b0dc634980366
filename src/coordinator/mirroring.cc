// MIRRORING, EPOCH_FENCING, ULE_RECOVERY, PAUSING (coordinator.md 4 and 5): the fetcher runs, stops
// by itself for a reason, or is taken away.
#include <algorithm>
#include <atomic>
#include <utility>

#include "src/coordinator/partition_driver.h"
#include "src/statemachine/epoch_rules.h"

namespace kmirror::coordinator {
namespace {

using E = statemachine::PartitionEvent;
using S = MirrorPartitionState;

uint64_t NextAssignment() {
  // Unique within the process is enough: it only tells a late event from a current one.
  static std::atomic<uint64_t> next{1};
  return next.fetch_add(1, std::memory_order_relaxed);
}

}  // namespace

void PartitionDriver::Fetch() {
  SetStep("resolve source leader");
  if (!HaveLog([this] { Fetch(); })) return;
  std::string why;
  bool final = false;
  const bool known = SourceIsOurs(&why, &final);
  if (final) return Fail(std::move(why), false);
  sync::SourceWatch* source = Source();
  const auto leader = known ? source->LeaderOf(topic_, key_.partition.partition) : std::nullopt;
  if (!leader) {
    // R10, R21: no failure. The source is asked, and asked again, until it names a leader.
    if (known) why = "the source names no leader for the partition";
    return AwaitSource(std::move(why), [this] { Fetch(); });
  }
  ClearTrouble();
  const auto floor = statemachine::EpochFloor(leader->epoch);
  if (floor && statemachine::EpochIsNear(leader->epoch, leader_epoch_)) {
    SetStep("raise leader epoch");
    return RaiseEpochAbove(*floor, {}, [this] { Fetch(); });
  }
  AddFetcher(*leader);
}

void PartitionDriver::AddFetcher(const sync::SourceWatch::Leader& leader) {
  SetStep("");
  const sync::SourceTopicView* view = Source()->Topic(topic_);
  fetcher::FetchAssignment assignment;
  assignment.partition = key_.partition;
  assignment.topic = topic_;
  assignment.use_topic_id = view != nullptr && !view->id.IsZero();
  assignment.leader_id = leader.id;
  assignment.leader = leader.address;
  assignment.source_leader_epoch = leader.epoch;
  assignment.local_leader_epoch = leader_epoch_;
  assignment.may_truncate = follow_truncation_ || source_mirrors_;
  assignment.generation = assignment_ = NextAssignment();
  assignment.log = log_;
  context_->fetching->Add(key_.mirror, std::move(assignment));
}

void PartitionDriver::OnFetching() {
  if (!loaded_ || record_.state != S::kMirroring || assignment_ == 0) return;
  leader_losses_ = 0;
  ClearTrouble();
  // The counter is cleared where it is stored, once, and only if there is something to clear.
  if (record_.attempt == 0 && record_.reason.empty()) return;
  if (writing_) {
    if (!deferred_) deferred_ = [this] { OnFetching(); };
    return;
  }
  WriteWithin(E::kDataFlows, {}, nullptr);
}

void PartitionDriver::OnGap(int64_t from, int64_t to) {
  Log(host::LogLevel::kWarn,
      "event=gap lost=[" + std::to_string(from) + ", " + std::to_string(to) +
          ") reason=\"the source's retention passed our log end\" next=continue");
}

void PartitionDriver::OnEpochNear(int32_t source_epoch) {
  if (!loaded_ || record_.state != S::kMirroring) return;
  if (sync::SourceWatch* source = Source()) {
    source->LearnEpoch(topic_, key_.partition.partition, source_epoch);
  }
  const auto floor = statemachine::EpochFloor(source_epoch);
  if (!floor || background_bump_ >= *floor || leader_epoch_ > *floor) return;
  background_bump_ = *floor;  // at most one pending
  AskForBump(*floor);
}

void PartitionDriver::OnFetchStopped(const fetcher::FetchStopped& stopped) {
  if (!loaded_ || record_.state != S::kMirroring || assignment_ == 0) return;
  if (stopped.generation != 0 && stopped.generation != assignment_) return;
  assignment_ = 0;
  using Why = fetcher::FetchStop;
  switch (stopped.why) {
    case Why::kEpochAhead:
      if (sync::SourceWatch* source = Source()) {
        source->LearnEpoch(topic_, key_.partition.partition, stopped.epoch);
      }
      return Transition(E::kEpochBehind);
    case Why::kLeaderUnknown: {
      // R10: ask the source who leads now, then go on. Stays MIRRORING.
      NewOperation("resolve source leader");
      running_ = true;
      if (!stopped.message.empty()) Trouble(stopped.message);
      sync::SourceWatch* source = Source();
      if (source == nullptr) return RetryLater([this] { Fetch(); });
      // A source whose metadata stays behind its own batches (S71) is asked again more and more
      // slowly.
      soft_failures_ = leader_losses_++;
      on_source_ = [this] {
        if (leader_losses_ <= 1) return Fetch();
        RetryLater([this] { Fetch(); });
      };
      return source->RefreshSoon();
    }
    case Why::kDiverged:
      return Fail("the source lost offsets from " + std::to_string(stopped.offset) +
                      " on that are stored here; nothing was cut because "
                      "mirror.support.unclean.leader.election is false. " +
                      stopped.message,
                  false);
    case Why::kTruncated:
      Log(host::LogLevel::kWarn, "event=source-truncated to=" + std::to_string(stopped.offset) +
                                     " reason=\"" + stopped.message + "\"");
      return Transition(E::kSourceTruncated);
    case Why::kGapRefused:
      return Fail("the source's log starts at " + std::to_string(stopped.offset) +
                      ", above our log end, and source.gap is fail. " + stopped.message,
                  false);
    case Why::kTopicIdChanged:
      return Fail("the source has another topic of this name: " + stopped.message, false);
    case Why::kCorrupt:
      return Fail("the source keeps sending a corrupt batch at offset " +
                      std::to_string(stopped.offset) + ": " + stopped.message,
                  false);
    case Why::kNoCommonEpoch:
      return Fail("no common position: the source knows none of the log's leader epochs. " +
                      stopped.message,
                  false);
    case Why::kLocalError: return Fail(stopped.message, true);
  }
}

void PartitionDriver::OnSourceTopicDeleted() {
  if (!loaded_ || !statemachine::SourceLossFails(desired_.state, record_)) return;
  Fail("the source topic is deleted; the data here stays readable, stop the topic to write to it",
       false);
}

void PartitionDriver::OnSourceReplaced(const std::string& expected_id,
                                       const std::string& found_id) {
  if (!loaded_ || !statemachine::SourceLossFails(desired_.state, record_)) return;
  Fail("another cluster answers at the source's address: expected cluster id " + expected_id +
           ", found " + found_id,
       false);
}

void PartitionDriver::OnSourceConfigChanged() {
  if (!loaded_) return;
  if (record_.state == S::kMirroring && running_) {
    // Fetchers of the mirror were torn down with its old connections.
    NewOperation("");
    running_ = true;
    assignment_ = 0;
    Fetch();
  } else if (on_source_) {
    std::exchange(on_source_, nullptr)();
  }
}

void PartitionDriver::OnSourceUnreachable(const std::string& reason) {
  if (loaded_ && on_source_) Trouble("source unreachable: " + reason);
}

void PartitionDriver::RaiseEpoch() {
  // The fetcher has dropped the partition already; the source is asked for its present epoch first,
  // so that one bump is enough.
  SetStep("refresh the source");
  sync::SourceWatch* source = Source();
  if (source == nullptr) {
    Trouble("mirror " + key_.mirror + " has no usable configuration");
    return RetryLater([this] { RaiseEpoch(); });
  }
  on_source_ = [this] {
    const sync::SourceWatch* source = Source();
    const auto leader =
        source == nullptr ? std::nullopt : source->LeaderOf(topic_, key_.partition.partition);
    const auto floor = leader ? statemachine::EpochFloor(leader->epoch) : std::nullopt;
    // Nothing learned: MIRRORING detects it again, with the backoff of a refresh in between.
    if (!floor || !statemachine::EpochIsNear(leader->epoch, leader_epoch_)) {
      return Transition(E::kEpochRaised);
    }
    SetStep("raise leader epoch");
    RaiseEpochAbove(*floor, {}, [this] { Transition(E::kEpochRaised); });
  };
  source->RefreshSoon();
}

void PartitionDriver::AwaitReplicas() {
  SetStep("wait for every replica to follow the source's truncation");
  if (!HaveLog([this] { AwaitReplicas(); })) return;
  log_->AwaitTruncated(true, leader_epoch_, Continue([this](Status status) {
                         if (!status.ok()) {
                           Trouble("replicas: " + status.ToString());
                           return RetryLater([this] { AwaitReplicas(); });
                         }
                         Transition(E::kReplicasAligned);
                       }));
}

void PartitionDriver::RemoveFetcher() {
  SetStep("remove fetcher");
  assignment_ = 0;
  context_->fetching->Remove(key_.partition, [this, alive = alive_, operation = operation_] {
    if (*alive && operation == operation_) Transition(E::kFetcherGone);
  });
}

}  // namespace kmirror::coordinator
