// PREPARING (coordinator.md 3): from "wanted" to "the log here is a prefix of the source's".
//
// Nothing is cut before every question has been answered authoritatively; the cut itself is one
// truncation, announced in the stored state first. An unreachable source is waited for (R33).
#include <utility>

#include "src/coordinator/partition_driver.h"
#include "src/coordinator/steps.h"
#include "src/statemachine/epoch_rules.h"

namespace kmirror::coordinator {
namespace {

using E = statemachine::PartitionEvent;
using statemachine::MirrorPosition;

bool IsTransient(ErrorCode code) {
  switch (code) {
    case ErrorCode::kDisconnected:
    case ErrorCode::kCancelled:  // the source's client was replaced
    case ErrorCode::kTimedOut:
    case ErrorCode::kRequestTimedOut:
    case ErrorCode::kNotLoaded:
    case ErrorCode::kCoordinatorLoadInProgress:
    case ErrorCode::kCoordinatorNotAvailable:
    case ErrorCode::kNotCoordinator:
    case ErrorCode::kNotLeaderOrFollower:
    case ErrorCode::kLeaderNotAvailable:
    case ErrorCode::kFencedLeaderEpoch:
    case ErrorCode::kUnknownLeaderEpoch:
    case ErrorCode::kUnknownTopicOrPartition:
    case ErrorCode::kNetworkException:
    case ErrorCode::kBrokerNotAvailable:
    case ErrorCode::kReplicaNotAvailable:
    case ErrorCode::kOffsetNotAvailable:
    case ErrorCode::kMalformed: return true;
    default: return false;
  }
}

std::string Range(int64_t from, int64_t to) {
  return "[" + std::to_string(from) + ", " + std::to_string(to) + ")";
}

}  // namespace

bool PartitionDriver::SourceIsOurs(std::string* why_not, bool* final) const {
  const sync::SourceWatch* source = Source();
  *final = false;
  if (source == nullptr) {
    *why_not = "mirror " + key_.mirror + " has no usable configuration";
    return false;
  }
  const sync::SourceTopicView* view = source->Topic(topic_);
  if (view == nullptr) {
    *why_not = source->unreachable_since_ns() != 0 ? "source unreachable: " + source->trouble()
                                                   : "the source has not described the topic yet";
    return false;
  }
  if (!view->id.IsZero() && view->id != key_.partition.topic_id) {
    *why_not = "the source's topic " + topic_ + " has id " + view->id.ToString() + ", ours is " +
               key_.partition.topic_id.ToString() + ": it was deleted and made again";
    *final = true;
    return false;
  }
  return true;
}

void PartitionDriver::Prepare() {
  SetStep("remove fetcher");
  assignment_ = 0;
  context_->fetching->Remove(key_.partition, [this, alive = alive_, operation = operation_] {
    if (*alive && operation == operation_) PrepareSource();
  });
}

void PartitionDriver::PrepareSource() {
  if (!HaveLog([this] { PrepareSource(); })) return;
  // The host closed the barrier with the change that wants mirroring; from here on no one but the
  // mirror may append, whatever order things were seen in.
  const Status closed =
      log_->SetLocalWrites(host::LocalWrites::kReadOnly, leader_epoch_, metadata_version_);
  if (!closed.ok()) {
    Trouble("the log cannot be closed for clients: " + closed.ToString());
    return RetryLater([this] { PrepareSource(); });
  }
  SetStep("resolve source leader");
  std::string why;
  bool final = false;
  const bool known = SourceIsOurs(&why, &final);
  if (final) return Fail(std::move(why), false);
  sync::SourceWatch* source = Source();
  const auto leader = known ? source->LeaderOf(topic_, key_.partition.partition) : std::nullopt;
  if (!leader) {
    if (known) why = "the source names no leader for the partition";
    return AwaitSource(std::move(why), [this] { PrepareSource(); });
  }
  ClearTrouble();
  PrepareEpoch(*leader);
}

void PartitionDriver::PrepareEpoch(const sync::SourceWatch::Leader& leader) {
  // R27: above the source before the first fetch, so that EPOCH_FENCING stays the exception.
  SetStep("raise leader epoch");
  const auto floor = statemachine::EpochFloor(leader.epoch);
  if (!floor) {
    return Fail("the source's leader epoch " + std::to_string(leader.epoch) + " cannot be exceeded",
                false);
  }
  if (!statemachine::EpochIsNear(leader.epoch, leader_epoch_)) return PrepareLoopCheck();
  RaiseEpochAbove(*floor, kStepStartEpoch, [this] { PrepareLoopCheck(); });
}

void PartitionDriver::PrepareLoopCheck() {
  SetStep("look for mirror loops");
  sync::SourceWatch* source = Source();
  if (source == nullptr) return PrepareSource();
  source_mirrors_ = false;
  source->cluster().Features(Continue<Result<fetcher::SourceFeatures>>([this](auto features) {
    sync::SourceWatch* source = Source();
    if (source == nullptr || !features.ok()) {
      Trouble("source features: " +
              (source == nullptr ? "no configuration" : features.status().ToString()));
      return RetryLater([this] { PrepareLoopCheck(); });
    }
    // An ordinary Kafka knows nothing of mirrors: no loop, no position (R17).
    if (!features->mirrors) return PrepareCut({});
    source->cluster().ListMirrors(
        Continue<Result<std::vector<fetcher::SourceMirror>>>([this](auto mirrors) {
          if (!mirrors.ok()) {
            if (mirrors.status().code() == ErrorCode::kUnsupportedVersion) return PrepareCut({});
            Trouble("source mirrors: " + mirrors.status().ToString());
            return RetryLater([this] { PrepareLoopCheck(); });
          }
          for (const fetcher::SourceMirror& mirror : *mirrors) {
            for (const std::string& topic : mirror.topics) {
              if (topic != topic_) continue;
              if (mirror.source_cluster_id == context_->metadata->cluster_id()) {
                return Fail("mirror loop: the source mirrors this topic from here in its mirror " +
                                mirror.name + ", while mirror " + key_.mirror +
                                " wants it from there",
                            true);
              }
              source_mirrors_ = true;
            }
          }
          PreparePositions();
        }));
  }));
}

void PartitionDriver::PreparePositions() {
  SetStep("ask the source for the last mirror position");
  sync::SourceWatch* source = Source();
  if (source == nullptr) return PrepareSource();
  source->cluster().MirrorPositions(
      context_->metadata->cluster_id(), topic_, key_.partition,
      Continue<Result<fetcher::SourceMirrorPosition>>([this](auto answer) {
        if (!answer.ok() && answer.status().code() == ErrorCode::kUnsupportedVersion) {
          return PrepareCut({});
        }
        if (!answer.ok()) {
          Trouble("last mirror position: " + answer.status().ToString());
          return RetryLater([this] { PreparePositions(); });
        }
        if (answer->active) {
          return Fail("the source's mirror of this partition is " + answer->active_state +
                          ", not STOPPED yet",
                      true);
        }
        if (!answer->authoritative) {
          // R19: a shard that is loading there is not "never mirrored".
          Trouble("the source cannot tell its last mirror position yet");
          return RetryLater([this] { PreparePositions(); });
        }
        PrepareCut({answer->last_mirror_epoch, answer->last_mirror_offset});
      }));
}

statemachine::LogShape PartitionDriver::ShapeOf(const host::PartitionLog& log) {
  const host::LogView view = log.View();
  statemachine::LogShape shape;
  shape.log_start = view.log_start;
  shape.end = view.end;
  for (const host::EpochEntry& entry : log.Epochs()) {
    shape.epochs.push_back({entry.epoch, entry.start_offset});
  }
  return shape;
}

void PartitionDriver::PrepareCut(MirrorPosition from_source) {
  ClearTrouble();
  SetStep("find the common position");
  if (!HaveLog([this, from_source] { PrepareCut(from_source); })) return;
  using Next = statemachine::StartCut::Next;
  auto start = statemachine::ChooseStartCut(ShapeOf(*log_), from_source, record_);
  switch (start.next) {
    case Next::kCut: return PrepareTruncate(start.cut, false);
    case Next::kNoCommonPosition:
      return NoCommonPosition("the log was never mirrored from this source");
    case Next::kCompareEpochs:
      return PrepareExchange(std::make_shared<statemachine::EpochExchange>(std::move(start.shape)),
                             start.known);
  }
}

void PartitionDriver::PrepareExchange(std::shared_ptr<statemachine::EpochExchange> exchange,
                                      MirrorPosition known) {
  const auto question = exchange->Question();
  if (!question) {
    const auto cut = statemachine::CutAfterExchange(*exchange, known, log_->View().log_start);
    if (!cut) return NoCommonPosition("the source knows none of the log's leader epochs");
    return PrepareTruncate(*cut, false);
  }
  SetStep("compare leader epochs with the source");
  sync::SourceWatch* source = Source();
  const auto leader =
      source == nullptr ? std::nullopt : source->LeaderOf(topic_, key_.partition.partition);
  if (!leader) return PrepareSource();
  source->cluster().EndOffsetForEpoch(
      topic_, key_.partition.partition, leader->id, leader->epoch, *question,
      Continue<Result<host::EpochEnd>>([this, exchange, known](auto answer) {
        if (!answer.ok()) {
          const std::string why = "leader epochs of the source: " + answer.status().ToString();
          if (!IsTransient(answer.status().code())) return Fail(why, true);
          Trouble(why);
          // The leader may have moved: resolve it again, then repeat the whole of it. Nothing was
          // cut.
          if (sync::SourceWatch* source = Source()) source->RefreshSoon();
          return RetryLater([this] { PrepareSource(); });
        }
        ClearTrouble();
        exchange->Answer(answer->epoch, answer->end_offset);
        PrepareExchange(exchange, known);
      }));
}

void PartitionDriver::NoCommonPosition(std::string_view why) {
  const host::LogView view = log_->View();
  if (discard_allowed_) {
    Log(host::LogLevel::kWarn, "event=discard-local range=" + Range(view.log_start, view.end) +
                                   " reason=\"no common position, " + std::string(why) + "\"");
    return PrepareTruncate(0, true);
  }
  Fail("no common position: " + std::string(why) +
           ". A fresh copy would discard the local records " + Range(view.log_start, view.end) +
           "; start again with --discard-local to allow it",
       false);
}

void PartitionDriver::PrepareTruncate(int64_t cut, bool discard) {
  const host::LogView view = log_->View();
  if (!discard && cut >= view.end) return PrepareAlign();
  SetStep("announce the cut");
  Step(kStepStartCutting, false);
  WriteWithin(E::kCutChosen, {}, [this, cut, discard] {
    Step(kStepStartCutting, true);
    if (!HaveLog([this] { PrepareSource(); })) return;
    SetStep("cut the log");
    const host::LogView view = log_->View();
    Log(host::LogLevel::kWarn, "event=truncate from=" + std::to_string(view.end) +
                                   " to=" + std::to_string(cut) +
                                   " log_start=" + std::to_string(view.log_start));
    Step(kStepStartCut, false);
    auto done = Mutation([this](Status status) {
      if (!status.ok()) {
        if (status.code() == ErrorCode::kFencedLeaderEpoch) {
          Trouble(status.ToString());
          return RetryLater([this] { PrepareSource(); });
        }
        return Fail("the log cannot be cut: " + status.ToString(), true);
      }
      Step(kStepStartCut, true);
      discard_allowed_ = false;
      PrepareAlign();
    });
    if (discard) {
      log_->RestartAt(cut, leader_epoch_, std::move(done));
    } else {
      log_->Truncate(cut, leader_epoch_, std::move(done));
    }
  });
}

void PartitionDriver::PrepareAlign() {
  if (!HaveLog([this] { PrepareAlign(); })) return;
  SetStep("wait for replicas to follow the cut");
  log_->AwaitTruncated(follow_truncation_, leader_epoch_, Continue([this](Status status) {
                         if (!status.ok()) {
                           Trouble("replicas: " + status.ToString());
                           return RetryLater([this] { PrepareAlign(); });
                         }
                         ClearTrouble();
                         discard_allowed_ = false;
                         Transition(E::kPrepared);
                       }));
}

}  // namespace kmirror::coordinator
