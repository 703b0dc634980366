// STOPPING (coordinator.md 6.1, R3): from a mirror to a writable topic, one durable step after the
// other. Every step can be repeated, every answer is checked; a crash anywhere re-enters at the
// top.
#include <utility>

#include "src/coordinator/partition_driver.h"
#include "src/coordinator/steps.h"
#include "src/statemachine/stop_rules.h"

namespace kmirror::coordinator {
namespace {

using E = statemachine::PartitionEvent;
}  // namespace

// Too few replicas, a lost leadership: waited for, shown, never counted as a failure of the stop.
// What the disk refuses is one; it is retried without limit.
void PartitionDriver::StopStepFailed(std::string_view what, const Status& status, Next again) {
  const std::string why = std::string(what) + ": " + status.ToString();
  switch (status.code()) {
    case ErrorCode::kNotEnoughReplicas:
    case ErrorCode::kNotEnoughReplicasAfterAppend:
    case ErrorCode::kFencedLeaderEpoch:
    case ErrorCode::kNotLeaderOrFollower:
    case ErrorCode::kTimedOut:
    case ErrorCode::kRequestTimedOut:
    case ErrorCode::kNotController:
    case ErrorCode::kNotLoaded: Trouble(why); return RetryLater(std::move(again));
    default: return Fail(why, true);
  }
}

void PartitionDriver::Stop() {
  SetStep("remove fetcher");
  assignment_ = 0;
  context_->fetching->Remove(key_.partition, [this, alive = alive_, operation = operation_] {
    if (!*alive || operation != operation_) return;
    if (statemachine::StopIsOnlyAWrite(record_)) return StopFinish();
    StopTruncate();
  });
}

void PartitionDriver::StopTruncate() {
  if (!HaveLog([this] { StopTruncate(); })) return;
  // R4: `stop.uncommitted` = truncate cuts to the last stable offset, once, before the position is
  // taken.
  const auto* configs = context_->metadata->Mirror(key_.mirror);
  const auto policy =
      configs == nullptr ? decltype(configs->end()){} : configs->find("stop.uncommitted");
  const bool truncate =
      configs != nullptr && policy != configs->end() && policy->second == "truncate";
  const host::LogView view = log_->View();
  if (!truncate || !statemachine::StopTakesPosition(record_) ||
      view.last_stable_offset >= view.end) {
    return StopReplicated();
  }
  SetStep("cut to the last stable offset");
  // The stable offset is bounded by the high watermark: only with everything replicated does it
  // tell what is undecided from what is merely late (fetcher-and-log.md 6.2).
  log_->AwaitReplicated(
      leader_epoch_, Continue([this](Status status) {
        if (!status.ok()) return StopStepFailed("replication", status, [this] { StopTruncate(); });
        const int64_t stable = log_->View().last_stable_offset;
        if (stable >= log_->View().end) return StopReplicated();
        Log(host::LogLevel::kWarn, "event=truncate from=" + std::to_string(log_->View().end) +
                                       " to=" + std::to_string(stable) +
                                       " reason=\"stop.uncommitted=truncate\"");
        log_->Truncate(stable, leader_epoch_, Mutation([this](Status status) {
                         if (!status.ok())
                           return StopStepFailed("truncation", status, [this] { StopTruncate(); });
                         log_->AwaitTruncated(false, leader_epoch_, Continue([this](Status status) {
                                                if (!status.ok())
                                                  return StopStepFailed("replicas", status,
                                                                        [this] { StopTruncate(); });
                                                StopReplicated();
                                              }));
                       }));
      }));
}

void PartitionDriver::StopReplicated() {
  if (!HaveLog([this] { StopReplicated(); })) return;
  SetStep("wait until every in-sync replica holds the log");
  log_->AwaitReplicated(leader_epoch_, Continue([this](Status status) {
                          if (!status.ok()) {
                            return StopStepFailed("replication", status,
                                                  [this] { StopReplicated(); });
                          }
                          ClearTrouble();
                          StopPosition();
                        }));
}

void PartitionDriver::StopPosition() {
  if (!statemachine::StopTakesPosition(record_)) return StopEpoch();
  SetStep("store the last mirror position");
  // A position is kept through every crash, so the data below it must be: otherwise markers of this
  // cluster would stand below it after a loss of power.
  log_->Sync(Continue([this](Status status) {
    if (!status.ok()) return StopStepFailed("sync", status, [this] { StopReplicated(); });
    StorePosition();
  }));
}

void PartitionDriver::StorePosition() {
  const host::LogView view = log_->View();
  const auto position =
      statemachine::PositionAtEnd(ShapeOf(*log_), view.last_batch_epoch, leader_epoch_);
  Step(kStepStopPosition, false);
  WriteWithin(E::kPositionTaken, {.position = position, .reason = {}}, [this] {
    Step(kStepStopPosition, true);
    StopEpoch();
  });
}

void PartitionDriver::StopEpoch() {
  SetStep("raise leader epoch");
  std::optional<int32_t> source_epoch;
  if (sync::SourceWatch* source = Source()) {
    const auto leader = source->LeaderOf(topic_, key_.partition.partition);
    if (leader) source_epoch = leader->epoch;
  }
  const int32_t min =
      statemachine::StopEpochFloor(record_, log_->View().last_batch_epoch, source_epoch);
  if (leader_epoch_ > min) return StopProducers();
  RaiseEpochAbove(min, kStepStopEpoch, [this] { StopProducers(); });
}

void PartitionDriver::StopProducers() {
  if (!HaveLog([this] { StopProducers(); })) return;
  SetStep("raise the producer id floor");
  Step(kStepStopProducers, false);
  context_->host.controller->RaiseProducerIdFloor(
      log_->MaxProducerId(), Continue([this](Status status) {
        if (!status.ok()) {
          return StopStepFailed("producer id floor", status, [this] { StopProducers(); });
        }
        Step(kStepStopProducers, true);
        ClearTrouble();
        StopAbort();
      }));
}

void PartitionDriver::StopAbort() {
  if (!HaveLog([this] { StopAbort(); })) return;
  // The list is read anew after every marker, whatever the append answered: what is aborted is gone
  // from it, and what got lost is in it again.
  const std::vector<host::OpenTransaction> open = log_->OpenTransactions();
  if (open.empty()) return StopReset();
  SetStep("abort open transactions");
  const host::OpenTransaction& oldest = open.front();
  Log(host::LogLevel::kInfo,
      "event=abort-transaction producer_id=" + std::to_string(oldest.producer_id) +
          " producer_epoch=" + std::to_string(oldest.producer_epoch) + " first_offset=" +
          std::to_string(oldest.first_offset) + " open=" + std::to_string(open.size()));
  Step(kStepStopAbort, false);
  log_->AppendAbort(oldest, leader_epoch_, Mutation([this](Status status) {
                      if (!status.ok()) {
                        return StopStepFailed("ABORT marker", status, [this] { StopAbort(); });
                      }
                      Step(kStepStopAbort, true);
                      ClearTrouble();
                      StopAbort();
                    }));
}

void PartitionDriver::StopReset() {
  if (log_->EndsWithReset()) return StopSync();
  SetStep("append the producer id reset");
  Step(kStepStopReset, false);
  log_->AppendReset(leader_epoch_, Mutation([this](Status status) {
                      if (!status.ok()) {
                        return StopStepFailed("reset record", status, [this] { StopAbort(); });
                      }
                      Step(kStepStopReset, true);
                      ClearTrouble();
                      StopSync();
                    }));
}

void PartitionDriver::StopSync() {
  if (!HaveLog([this] { StopSync(); })) return;
  SetStep("write the log's tail to disk");
  Step(kStepStopSync, false);
  // The markers, too, must be where every in-sync replica has them before STOPPED is reported.
  log_->AwaitReplicated(leader_epoch_, Continue([this](Status status) {
                          if (!status.ok()) {
                            return StopStepFailed("replication", status, [this] { StopSync(); });
                          }
                          log_->Sync(Continue([this](Status status) {
                            if (!status.ok()) {
                              return StopStepFailed("sync", status, [this] { StopSync(); });
                            }
                            Step(kStepStopSync, true);
                            StopFinish();
                          }));
                        }));
}

void PartitionDriver::StopFinish() {
  if (!statemachine::StopIsOnlyAWrite(record_)) {
    const host::LogView view = log_->View();
    if (!log_->OpenTransactions().empty() || view.high_watermark != view.end) {
      Trouble("the log changed under the stop");
      return RetryLater([this] { StopTruncate(); });
    }
  }
  SetStep("store STOPPED");
  Transition(E::kStopDone);
}

}  // namespace kmirror::coordinator
