#include "src/fetcher/mirror_fetcher_thread.h"

#include <algorithm>
#include <utility>

namespace kmirror::fetcher {
namespace {

using std::chrono::nanoseconds;

constexpr int kMaxNotEnd = 5;
constexpr int kMaxUnknownTopic = 5;
constexpr nanoseconds kTroubleInterval = std::chrono::seconds(5);

}  // namespace

MirrorFetcherThread::MirrorFetcherThread(host::Runtime* runtime, host::Lane* lane,
                                         Transport* transport, FetcherSettings settings,
                                         std::shared_ptr<FetcherStats> stats,
                                         std::shared_ptr<const MirrorSourceConfig> config,
                                         MirrorFetcherOwner* owner, FetcherRole role)
    : AbstractFetcherThread(runtime, lane, transport, std::move(settings), stats),
      config_(std::move(config)),
      owner_(owner),
      role_(role),
      shared_stats_(std::move(stats)) {}

MirrorFetcherThread::~MirrorFetcherThread() = default;

void MirrorFetcherThread::Add(FetchAssignment assignment, Start start) {
  const TopicIdPartition key = assignment.partition;
  NewPartition added;
  added.key = key;
  added.topic = assignment.topic;
  if (assignment.use_topic_id) added.source_topic_id = key.topic_id;
  added.current_leader_epoch = assignment.source_leader_epoch;
  added.truncating = start.exchange;
  added.generation = start.generation;
  added.initial_delay = start.delay;
  auto assigned = std::make_unique<Assigned>();
  assigned->thread = this;
  assigned->assignment = std::move(assignment);
  assigned->generation = start.generation;
  assigned->known_epoch = start.known_epoch;
  assigned->cell = std::move(start.cell);
  assigned->hot = std::move(start.hot);
  // What another fetcher hears is no news of this partition any more; what this one hears is, from
  // its first answer on.
  assigned->cell->Update(false, shared_stats_, [](FetchPosition&) {});
  assigned->fetching = start.resumed;
  assigned->last_data = runtime()->MonotonicNow();
  assigned_[key] = std::move(assigned);
  AddPartition(std::move(added));
}

void MirrorFetcherThread::Remove(const TopicIdPartition& key, std::function<void()> removed) {
  // What is answered from now on may leave it out because it was forgotten.
  if (const auto it = assigned_.find(key); it != assigned_.end()) {
    it->second->cell->Update(false, shared_stats_, [](FetchPosition&) {});
  }
  RemovePartition(key, [this, key, removed = std::move(removed)] {
    assigned_.erase(key);
    log_start_behind_.erase(key);
    if (removed) removed();
  });
}

void MirrorFetcherThread::UpdateLocalEpoch(const TopicIdPartition& key, int32_t epoch) {
  const auto it = assigned_.find(key);
  if (it == assigned_.end() || epoch <= it->second->assignment.local_leader_epoch) return;
  it->second->assignment.local_leader_epoch = epoch;
  it->second->near = false;
}

FetchIdentity MirrorFetcherThread::Identity() const {
  FetchIdentity identity;  // a consumer: the source's state must not depend on us (1.11)
  identity.isolation_level = config_->isolation_level;
  identity.max_wait_ms = config_->fetch_wait_max_ms;
  switch (role_) {
    case FetcherRole::kHot: break;
    case FetcherRole::kNewcomer:
      identity.max_wait_ms = std::min(identity.max_wait_ms, kNewcomerWaitMs);
      identity.passing = true;
      break;
    case FetcherRole::kCold:
      identity.max_wait_ms = std::max(identity.max_wait_ms, kColdWaitMs);
      break;
  }
  identity.min_bytes = config_->fetch_min_bytes;
  identity.max_bytes = config_->fetch_response_max_bytes;
  identity.partition_max_bytes = config_->fetch_max_bytes;
  return identity;
}

void MirrorFetcherThread::Stop(Assigned& assigned, FetchStop why, int64_t offset, int32_t epoch,
                               std::string message) {
  FetchStopped stopped;
  stopped.partition = assigned.assignment.partition;
  stopped.generation = assigned.assignment.generation;
  stopped.why = why;
  stopped.offset = offset;
  stopped.epoch = epoch;
  stopped.message = std::move(message);
  const TopicIdPartition key = stopped.partition;
  const uint64_t generation = assigned.generation;
  Log(host::LogLevel::kInfo,
      "stopped topic=" + assigned.assignment.topic + " partition=" + std::to_string(key.partition) +
          " offset=" + std::to_string(offset) + " epoch=" + std::to_string(epoch) + " reason=\"" +
          stopped.message + "\"");
  Drop(key, [this, key, generation, stopped = std::move(stopped)] {
    assigned_.erase(key);
    log_start_behind_.erase(key);
    owner_->OnStopped(stopped, generation);
  });
}

// ---- Appending.

bool MirrorFetcherThread::CheckSet(const TopicIdPartition& key, const FetchedSet& set,
                                   int32_t fetch_epoch) {
  Assigned& assigned = At(key);
  const int32_t epoch = set.max_epoch();
  const int32_t local = assigned.assignment.local_leader_epoch;
  // 1.12, in this order.
  if (epoch > local) {
    Stop(assigned, FetchStop::kEpochAhead, set.batches.front().base_offset, epoch,
         "batch epoch " + std::to_string(epoch) + " is above the local leader epoch " +
             std::to_string(local));
    return false;
  }
  if (epoch > local - 3 && !assigned.near) {
    assigned.near = true;
    owner_->OnEpochNear(key, assigned.generation, epoch);
  }
  if (epoch > std::max(fetch_epoch, assigned.known_epoch)) {
    Stop(assigned, FetchStop::kLeaderUnknown, set.batches.front().base_offset, epoch,
         "batch epoch " + std::to_string(epoch) + " is above the source epoch " +
             std::to_string(fetch_epoch));
    return false;
  }
  return true;
}

AbstractFetcherThread::Processed MirrorFetcherThread::ProcessSet(
    const TopicIdPartition& key, uint64_t, const FetchedSet& set, int64_t expected_end,
    int64_t high_watermark, int64_t log_start) {
  Assigned& assigned = At(key);
  host::MirroredSet mirrored;
  mirrored.bytes = set.bytes;
  mirrored.batches = set.batches;
  mirrored.expected_end_offset = expected_end;
  mirrored.local_leader_epoch = assigned.assignment.local_leader_epoch;
  mirrored.source_high_watermark = high_watermark;
  mirrored.source_log_start = log_start;
  assigned.in_log = true;
  const host::AppendResult result = assigned.assignment.log->AppendMirrored(mirrored, &assigned);
  if (result.code == host::AppendCode::kPending) return Processed::kPending;
  assigned.in_log = false;
  return Judge(assigned, result);
}

void MirrorFetcherThread::Assigned::Done(host::AppendResult result) noexcept {
  thread->lane()->Post([thread = thread, key = assignment.partition, generation = generation,
                        result] { thread->OnAppended(key, generation, result); });
}

void MirrorFetcherThread::OnAppended(const TopicIdPartition& key, uint64_t generation,
                                     host::AppendResult result) {
  const auto it = assigned_.find(key);
  if (it == assigned_.end() || it->second->generation != generation) return;
  it->second->in_log = false;
  SetProcessed(key, generation, Judge(*it->second, result));
}

AbstractFetcherThread::Processed MirrorFetcherThread::Judge(Assigned& assigned,
                                                            host::AppendResult result) {
  switch (result.code) {
    case host::AppendCode::kOk:
    case host::AppendCode::kPending:
      assigned.not_end = 0;
      assigned.got_data = true;
      return Processed::kDone;
    case host::AppendCode::kNotEnd:
      if (++assigned.not_end <= kMaxNotEnd) return Processed::kRetry;
      Stop(assigned, FetchStop::kLocalError, -1, -1,
           "the log's end is not where the source's batches begin");
      return Processed::kGone;
    case host::AppendCode::kFenced:
      // A bump that has not been told us yet, or leadership that has gone: whoever knows will say.
      Trouble(assigned, "the local leader epoch changed");
      return Processed::kRetry;
    case host::AppendCode::kRefused:
      Stop(assigned, FetchStop::kLocalError, -1, -1, "the log refused the source's batches");
      return Processed::kGone;
    case host::AppendCode::kIo:
      Stop(assigned, FetchStop::kLocalError, -1, -1, "writing to the log failed");
      return Processed::kGone;
    case host::AppendCode::kNoSpace:
      Stop(assigned, FetchStop::kLocalError, -1, -1, "no space left for the log");
      return Processed::kGone;
  }
  return Processed::kRetry;
}

// ---- Cutting.

void MirrorFetcherThread::OnMutated(const TopicIdPartition& key, uint64_t generation,
                                    Status status) {
  const auto it = assigned_.find(key);
  if (it != assigned_.end() && it->second->generation == generation) it->second->in_log = false;
  CutDone(key, generation, std::move(status));
}

bool MirrorFetcherThread::CutLog(const TopicIdPartition& key, uint64_t generation, int64_t offset) {
  Assigned& assigned = At(key);
  if (!assigned.assignment.may_truncate) {
    // R13: decided before anything is cut.
    Stop(assigned, FetchStop::kDiverged, offset, -1,
         "the source lost offsets from " + std::to_string(offset) + " on; the log ends at " +
             std::to_string(assigned.assignment.log->View().end));
    return false;
  }
  assigned.in_log = true;
  assigned.assignment.log->Truncate(
      offset, assigned.assignment.local_leader_epoch, [this, key, generation](Status status) {
        lane()->Post([this, key, generation, status = std::move(status)] {
          OnMutated(key, generation, status);
        });
      });
  return true;
}

bool MirrorFetcherThread::OnCutComplete(const TopicIdPartition& key, int64_t end) {
  Stop(At(key), FetchStop::kTruncated, end, -1,
       "the log was cut to " + std::to_string(end) + ", where the source's begins to differ");
  return false;
}

bool MirrorFetcherThread::RestartLog(const TopicIdPartition& key, uint64_t generation,
                                     int64_t offset) {
  Assigned& assigned = At(key);
  const int64_t from = assigned.assignment.log->View().end;
  // A log that never held anything misses nothing: the source merely does not begin at 0.
  const bool gap = from > 0;
  if (gap && config_->gap_fails) {
    Stop(assigned, FetchStop::kGapRefused, offset, -1,
         "the source begins at " + std::to_string(offset) + ", the log ends at " +
             std::to_string(from) + " (source.gap=fail)");
    return false;
  }
  assigned.in_log = true;
  assigned.assignment.log->RestartAt(
      offset, assigned.assignment.local_leader_epoch,
      [this, key, generation, from, offset, gap](Status status) {
        lane()->Post([this, key, generation, from, offset, gap, status = std::move(status)] {
          if (status.ok() && gap) {
            FetcherStats::Add(stats().gaps, 1);
            owner_->OnGap(key, generation, from, offset);
          }
          OnMutated(key, generation, status);
        });
      });
  return true;
}

AbstractFetcherThread::LocalLog MirrorFetcherThread::Local(const TopicIdPartition& key) const {
  const host::LogView view = At(key).assignment.log->View();
  return {view.log_start, view.end, view.latest_epoch, view.last_batch_epoch};
}

host::EpochEnd MirrorFetcherThread::LocalEpochEnd(const TopicIdPartition& key,
                                                  int32_t epoch) const {
  return At(key).assignment.log->EndOffsetForEpoch(epoch);
}

int32_t MirrorFetcherThread::LocalEpochBelow(const TopicIdPartition& key, int32_t epoch) const {
  int32_t below = -1;
  for (const host::EpochEntry& entry : At(key).assignment.log->Epochs()) {
    if (entry.epoch < epoch) below = std::max(below, entry.epoch);
  }
  return below;
}

// ---- Faults.

AbstractFetcherThread::FaultAction MirrorFetcherThread::OnFault(const TopicIdPartition& key,
                                                                const Fault& fault) {
  Assigned& assigned = At(key);
  switch (fault.kind) {
    case Fault::Kind::kSource:
      return OnSourceError(assigned, fault);
    case Fault::Kind::kCorrupt:
      if (fault.offset != assigned.corrupt_offset) assigned.corrupt = 0;
      assigned.corrupt_offset = fault.offset;
      if (++assigned.corrupt >= kMaxCorrupt) {
        Stop(assigned, FetchStop::kCorrupt, fault.offset, -1,
             "corrupt batch at offset " + std::to_string(fault.offset) + ": " + fault.text);
        return FaultAction::kGone;
      }
      Trouble(assigned, "corrupt batch at offset " + std::to_string(fault.offset) + ": " +
                            fault.text);
      return FaultAction::kDelay;
    case Fault::Kind::kMisplaced:
      if (fault.offset != assigned.corrupt_offset) assigned.corrupt = 0;
      assigned.corrupt_offset = fault.offset;
      if (++assigned.corrupt >= kMaxCorrupt) {
        Stop(assigned, FetchStop::kLocalError, fault.offset, -1,
             "the source's batches do not continue the log: " + fault.text);
        return FaultAction::kGone;
      }
      Trouble(assigned, "the source sent " + fault.text);
      return FaultAction::kDelay;
    case Fault::Kind::kOnlyPartial:
      Trouble(assigned, "the source sent no whole batch");
      return FaultAction::kDelay;
    case Fault::Kind::kPreferredReplica:
      Trouble(assigned, "the source wants another replica to be read, which is not done");
      TellTrouble("a preferred read replica was named");
      return FaultAction::kDelay;
    case Fault::Kind::kNoCommonEpoch:
      Stop(assigned, FetchStop::kNoCommonEpoch, assigned.assignment.log->View().end, -1,
           "the source knows none of the log's epochs");
      return FaultAction::kGone;
    case Fault::Kind::kCutFailed:
      if (fault.code == ErrorCode::kFencedLeaderEpoch) {
        Trouble(assigned, "the local leader epoch changed");
        return FaultAction::kDelay;
      }
      Stop(assigned, FetchStop::kLocalError, -1, -1, "truncation failed: " + fault.text);
      return FaultAction::kGone;
  }
  return FaultAction::kDelay;
}

AbstractFetcherThread::FaultAction MirrorFetcherThread::OnSourceError(Assigned& assigned,
                                                                      const Fault& fault) {
  const TopicIdPartition key = assigned.assignment.partition;
  const std::string text = "source answers " + ErrorName(fault.code);
  switch (fault.code) {
    case ErrorCode::kNotLeaderOrFollower:
    case ErrorCode::kFencedLeaderEpoch:
      return OnLeaderError(assigned, fault);
    case ErrorCode::kUnknownLeaderEpoch:  // the source is behind its own metadata
    case ErrorCode::kOffsetNotAvailable:
    case ErrorCode::kOffsetOutOfRange:
      Trouble(assigned, text);
      return FaultAction::kDelay;
    case ErrorCode::kUnknownTopicOrPartition:
    case ErrorCode::kUnknownTopicId:
    case ErrorCode::kInconsistentTopicId:
      // Deleted, re-created, or metadata that has not arrived everywhere: the source's metadata
      // tells.
      if (++assigned.errors >= kMaxUnknownTopic) {
        Stop(assigned, FetchStop::kLeaderUnknown, -1, -1, text);
        return FaultAction::kGone;
      }
      Trouble(assigned, text);
      TellTrouble(text + " for " + assigned.assignment.topic);
      return FaultAction::kDelay;
    default:
      // Authorization, storage, anything new: asked again, less and less often.
      Trouble(assigned, text);
      Log(host::LogLevel::kWarn, "partition_error topic=" + assigned.assignment.topic +
                                     " partition=" + std::to_string(key.partition) + " error=" +
                                     ErrorName(fault.code));
      DelayPartition(key, assigned.backoff.Next(runtime()->Random()));
      return FaultAction::kKeep;
  }
}

AbstractFetcherThread::FaultAction MirrorFetcherThread::OnLeaderError(Assigned& assigned,
                                                                      const Fault& fault) {
  const TopicIdPartition key = assigned.assignment.partition;
  const std::string text = "source answers " + ErrorName(fault.code);
  if (!fault.has_endpoints) {
    Stop(assigned, FetchStop::kLeaderUnknown, -1, fault.leader_epoch, text);
    return FaultAction::kGone;
  }
  if (fault.leader_id < 0 || !fault.leader_address) {
    Trouble(assigned, text + " and names no leader");  // an election
    return FaultAction::kDelay;
  }
  const PartitionFetchState* state = State(key);
  const int32_t epoch = std::max(state->current_leader_epoch, fault.leader_epoch);
  if (*fault.leader_address == settings().connection.endpoint) {
    if (epoch > state->current_leader_epoch) {
      RaiseSourceEpoch(key, epoch);
      return FaultAction::kKeep;
    }
    Trouble(assigned, text + " and names itself");
    return FaultAction::kDelay;
  }
  const uint64_t generation = assigned.generation;
  Drop(key, [this, key, generation, id = fault.leader_id, address = *fault.leader_address, epoch] {
    assigned_.erase(key);
    log_start_behind_.erase(key);
    owner_->OnMoved(key, generation, id, address, epoch);
  });
  return FaultAction::kGone;
}

void MirrorFetcherThread::Trouble(Assigned& assigned, const std::string& text) {
  assigned.cell->Update(false, shared_stats_, [&](FetchPosition& position) {
    position.trouble = text;
  });
}

void MirrorFetcherThread::TellTrouble(const std::string& reason) {
  const nanoseconds now = runtime()->MonotonicNow();
  if (trouble_told_.count() != 0 && now - trouble_told_ < kTroubleInterval) return;
  trouble_told_ = now;
  owner_->OnSourceTrouble(reason);
}

void MirrorFetcherThread::OnLink(const Status& status) {
  const int64_t now = runtime()->MonotonicNow().count();
  for (const auto& [key, assigned] : assigned_) {
    // A new connection is a new session: each partition has to be heard of again.
    if (!status.ok()) assigned->answered = false;
    const bool fresh = status.ok() && assigned->answered;
    assigned->cell->Update(fresh, shared_stats_, [&](FetchPosition& position) {
      if (status.ok()) {
        position.unreachable_since_ns = 0;
        position.trouble.clear();
      } else {
        if (position.unreachable_since_ns == 0) position.unreachable_since_ns = now;
        position.trouble = status.message();
      }
    });
  }
  if (!status.ok()) TellTrouble(status.message());
}

void MirrorFetcherThread::OnRefused(const Status& why) {
  for (const auto& [key, assigned] : assigned_) Trouble(*assigned, why.message());
  TellTrouble(why.message());
}

// ---- What an answer teaches.

void MirrorFetcherThread::OnUnsettled(const TopicIdPartition& key) {
  Assigned& assigned = At(key);
  assigned.answered = false;
  assigned.cell->Update(false, shared_stats_, [](FetchPosition&) {});
}

void MirrorFetcherThread::OnAnswer(const TopicIdPartition& key, int64_t high_watermark,
                                   int64_t log_start, nanoseconds at) {
  Assigned& assigned = At(key);
  assigned.errors = 0;
  assigned.corrupt = 0;
  assigned.corrupt_offset = -1;
  assigned.backoff.Reset();
  const int64_t offset = State(key)->fetch_offset;
  assigned.cell->Update(true, shared_stats_, [&](FetchPosition& position) {
    if (high_watermark >= 0) position.source_high_watermark = high_watermark;
    if (log_start >= 0) position.source_log_start = log_start;
    position.fetch_offset = offset;
    position.learned_ns = at.count();
    if (position.source_high_watermark >= 0 && offset >= position.source_high_watermark) {
      position.caught_up_ns = at.count();
    }
    position.unreachable_since_ns = 0;
    position.trouble.clear();
  });
  assigned.answered = true;
  if (log_start >= 0) assigned.source_log_start = log_start;
  if (!std::exchange(assigned.fetching, true)) owner_->OnFetching(key, assigned.generation);
  FollowLogStart(assigned);
  const bool data = std::exchange(assigned.got_data, false);
  if (data) assigned.last_data = runtime()->MonotonicNow();
  if (role_ == FetcherRole::kCold && data) {
    Leave(assigned, FetcherRole::kNewcomer);
  } else if (role_ == FetcherRole::kNewcomer) {
    // While it is behind it stays: the hot fetch may be waiting for other news.
    if (data && State(key)->lag.value_or(0) > 0) {
      assigned.caught_up = nanoseconds(0);
    } else if (HotFetchIsNear(assigned)) {
      Leave(assigned, FetcherRole::kHot);
    }
  }
}

bool MirrorFetcherThread::HotFetchIsNear(Assigned& assigned) const {
  // Many at once are a burden here: every fetch names them all.
  if (assigned.hot == nullptr || assigned_.size() > kMaxIdleBesideHot) return true;
  const nanoseconds now = runtime()->MonotonicNow();
  const int64_t requests = assigned.hot->requests.load(std::memory_order_relaxed);
  if (assigned.caught_up.count() == 0) {
    assigned.caught_up = now;
    assigned.hot_requests = requests;
  }
  const nanoseconds ends(assigned.hot->fetch_ends_ns.load(std::memory_order_relaxed));
  return ends - now <= std::chrono::milliseconds(kNewcomerWaitMs) ||
         requests != assigned.hot_requests || now - assigned.caught_up >= kNewcomerStay;
}

void MirrorFetcherThread::Leave(Assigned& assigned, FetcherRole role) {
  const TopicIdPartition key = assigned.assignment.partition;
  Drop(key, [this, key, role, generation = assigned.generation, told = assigned.fetching] {
    assigned_.erase(key);
    log_start_behind_.erase(key);
    owner_->OnRole(key, generation, role, told, EpochsInFetch());
  });
}

void MirrorFetcherThread::SendIdleOnesAway() {
  const nanoseconds now = runtime()->MonotonicNow();
  if (role_ != FetcherRole::kHot || assigned_.size() <= kMaxIdleBesideHot ||
      now - looked_for_idle_ < kColdAfter / 10) {
    return;
  }
  looked_for_idle_ = now;
  std::vector<std::pair<nanoseconds, TopicIdPartition>> idle;
  for (const auto& [key, assigned] : assigned_) {
    const PartitionFetchState* state = State(key);
    if (assigned->fetching && !assigned->in_log && !assigned->got_data && state != nullptr &&
        state->ReadyForFetch() && now - assigned->last_data >= kColdAfter) {
      idle.emplace_back(assigned->last_data, key);
    }
  }
  if (idle.size() <= kMaxIdleBesideHot) return;
  std::ranges::sort(idle);  // the longest idle first
  idle.resize(idle.size() - kMaxIdleBesideHot);
  for (const auto& [since, key] : idle) Leave(At(key), FetcherRole::kCold);
}

void MirrorFetcherThread::OnRound() {
  SendIdleOnesAway();
  const std::set<TopicIdPartition> behind = log_start_behind_;
  for (const TopicIdPartition& key : behind) {
    const auto it = assigned_.find(key);
    if (it == assigned_.end()) {
      log_start_behind_.erase(key);
    } else if (!it->second->in_log) {
      FollowLogStart(*it->second);
    }
  }
}

void MirrorFetcherThread::FollowLogStart(Assigned& assigned) {
  const TopicIdPartition key = assigned.assignment.partition;
  host::PartitionLog& log = *assigned.assignment.log;
  const host::LogView view = log.View();
  if (assigned.source_log_start <= view.log_start) {
    log_start_behind_.erase(key);
    return;
  }
  // 2.9 [R]: never above the high watermark, which slow followers hold back; tried again each
  // round.
  const int64_t target = std::min(assigned.source_log_start, view.high_watermark);
  if (target > view.log_start) {
    if (Status status = log.RaiseLogStart(target); !status.ok()) {
      Log(host::LogLevel::kWarn, "log_start_not_raised topic=" + assigned.assignment.topic +
                                     " partition=" + std::to_string(key.partition) +
                                     " reason=\"" + status.ToString() + "\"");
    }
  }
  if (log.View().log_start < assigned.source_log_start) {
    log_start_behind_.insert(key);
  } else {
    log_start_behind_.erase(key);
  }
}

}  // namespace kmirror::fetcher
