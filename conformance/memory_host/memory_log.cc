#include "conformance/memory_host/memory_log.h"

#include <algorithm>

#include "kmirror/log/control_batch.h"

namespace kmirror::conformance {
namespace {

log::BatchInfo InfoOf(ByteView batch) {
  log::BatchInfo info;
  if (log::ParseBatchHeader(batch, &info) == log::ParseResult::kOk) {
    (void)log::ParseControlRecord(batch, &info);
  }
  return info;
}

}  // namespace

MemoryLog::MemoryLog(host::Runtime* runtime, host::Lane* lane, bool inline_answers)
    : runtime_(runtime), lane_(lane), script_(lane, inline_answers) {}

void MemoryLog::StartMutator(const char* what) {
  if (pending_) violations_.push_back(std::string(what) + " while an append is pending");
}

Status MemoryLog::CheckLeader(int32_t leader_epoch) const {
  if (closed_) return {ErrorCode::kNotLeaderOrFollower, "the partition is gone"};
  if (!leader_) return {ErrorCode::kFencedLeaderEpoch, "this replica does not lead"};
  if (leader_epoch != leader_epoch_) {
    return {ErrorCode::kFencedLeaderEpoch, "leader epoch is " + std::to_string(leader_epoch_) +
                                               ", not " + std::to_string(leader_epoch)};
  }
  return {};
}

int32_t MemoryLog::InSyncCount() const {
  return 1 + static_cast<int32_t>(std::count_if(followers_.begin(), followers_.end(),
                                                [](const Follower& f) { return f.in_sync; }));
}

Status MemoryLog::CheckInSync() const {
  if (InSyncCount() >= min_in_sync_) return {};
  return {ErrorCode::kNotEnoughReplicas, std::to_string(InSyncCount()) + " in-sync replicas, " +
                                             std::to_string(min_in_sync_) + " needed"};
}

// ---- Mirrored appends

bool MemoryLog::CheckSet(const host::MirroredSet& set, std::string* why) const {
  int64_t bytes_claimed = 0;
  int64_t bytes_there = 0;
  for (const log::BatchInfo& batch : set.batches) bytes_claimed += batch.bytes;
  for (ByteView piece : set.bytes) bytes_there += static_cast<int64_t>(piece.size());
  if (bytes_claimed != bytes_there) {
    *why = "bytes and batches disagree";
    return false;
  }
  int64_t previous = -1;
  for (const log::BatchInfo& batch : set.batches) {
    const int64_t lowest = batch.magic >= 2 ? batch.base_offset : batch.last_offset;
    if (batch.last_offset <= previous || lowest <= previous || batch.last_offset < lowest) {
      *why = "offsets do not increase";
      return false;
    }
    if (batch.leader_epoch > leader_epoch_) {
      *why = "a batch epoch above the leader epoch";
      return false;
    }
    previous = batch.last_offset;
  }
  return true;
}

host::AppendResult MemoryLog::Carry(const host::MirroredSet& set) {
  using enum host::AppendCode;
  if (closed_ || !leader_ || set.local_leader_epoch != leader_epoch_) return {kFenced, -1};
  if (set.expected_end_offset != end_) return {kNotEnd, -1};
  std::string why;
  if (!CheckSet(set, &why)) return {kRefused, -1};
  if (set.batches.empty()) return {kOk, end_};

  const log::BatchInfo& first = set.batches.front();
  const int64_t first_offset = first.magic >= 2 ? first.base_offset : first.last_offset;
  bool restart = false;
  if (first_offset < end_) {
    // fetcher-and-log.md 2.4: an empty log inside the first batch starts anew at that batch.
    restart = end_ == log_start_ && first.last_offset >= end_;
    if (!restart) return {kRefused, -1};
  }
  if (!producers_.Check(set.batches).ok()) return {kRefused, -1};

  if (restart) {
    batches_.clear();
    history_.Clear();
    producers_.Clear();
    log_start_ = high_watermark_ = end_ = first_offset;
    synced_end_ = std::min(synced_end_, end_);
  }
  std::vector<uint8_t> all;
  for (ByteView piece : set.bytes) all.insert(all.end(), piece.begin(), piece.end());
  size_t position = 0;
  for (const log::BatchInfo& batch : set.batches) {
    Store(ByteView(all).subspan(position, static_cast<size_t>(batch.bytes)), batch);
    position += static_cast<size_t>(batch.bytes);
  }
  ReplicasMoved();
  return {kOk, end_};
}

void MemoryLog::Store(ByteView bytes, const log::BatchInfo& info) {
  if (info.magic < 2) {
    history_.Clear();
  } else {
    history_.Assign(info.leader_epoch, info.base_offset);
  }
  std::optional<log::CompletedTransaction> completed;
  (void)producers_.Apply(info, &completed);
  batches_.push_back({info, std::vector<uint8_t>(bytes.begin(), bytes.end())});
  end_ = info.last_offset + 1;
}

host::AppendResult MemoryLog::AppendMirrored(const host::MirroredSet& set,
                                             host::AppendDone* done) noexcept {
  StartMutator("AppendMirrored");
  if (!append_faults_.empty()) {
    const host::AppendCode code = append_faults_.front();
    append_faults_.erase(append_faults_.begin());
    return {code, -1};
  }
  if (hold_appends_) {
    pending_ = PendingAppend{set, done};
    return {host::AppendCode::kPending, -1};
  }
  return Carry(set);
}

void MemoryLog::CompleteAppend(std::optional<host::AppendCode> fault) {
  if (!pending_) return;
  const PendingAppend pending = *pending_;
  pending_.reset();
  const host::AppendResult result = fault ? host::AppendResult{*fault, -1} : Carry(pending.set);
  if (pending.done != nullptr) pending.done->Done(result);
}

// ---- Readers

host::LogView MemoryLog::View() const noexcept {
  host::LogView view;
  view.log_start = log_start_;
  view.last_stable_offset = std::max(log_start_, producers_.LastStableOffset(high_watermark_));
  view.high_watermark = high_watermark_;
  view.end = end_;
  view.last_batch_epoch = batches_.empty() || batches_.back().info.last_offset < log_start_
                              ? -1
                              : batches_.back().info.leader_epoch;
  const auto latest = history_.Latest();
  view.latest_epoch = latest ? latest->epoch : -1;
  view.leader_epoch = leader_epoch_;
  return view;
}

std::vector<host::OpenTransaction> MemoryLog::OpenTransactions() const {
  std::vector<host::OpenTransaction> open;
  for (const log::OpenTransaction& txn : producers_.OpenTransactions()) {
    open.push_back({.producer_id = txn.producer_id,
                    .first_offset = txn.first_offset,
                    .coordinator_epoch = txn.coordinator_epoch,
                    .producer_epoch = txn.producer_epoch});
  }
  return open;
}

std::vector<host::EpochEntry> MemoryLog::Epochs() const {
  std::vector<host::EpochEntry> entries;
  for (const log::EpochStart& entry : history_.entries()) {
    if (entry.start_offset >= end_) break;  // a leader's own, nothing written under it yet
    entries.push_back({entry.epoch, entry.start_offset});
  }
  return entries;
}

host::EpochEnd MemoryLog::EndOffsetForEpoch(int32_t epoch) const {
  const log::EpochEnd end = history_.EndOffsetFor(epoch, end_);
  return {end.epoch, end.end_offset};
}

int32_t MemoryLog::EpochBefore(int64_t offset) const {
  for (auto it = batches_.rbegin(); it != batches_.rend(); ++it) {
    if (it->info.base_offset < offset && it->info.last_offset >= offset - 1) {
      return it->info.leader_epoch;
    }
  }
  return history_.EpochForOffset(offset - 1).value_or(-1);
}

bool MemoryLog::EndsWithReset() const {
  return !batches_.empty() && batches_.back().info.control_type == log::kControlMirrorPidReset;
}

// ---- Control batches of our own

void MemoryLog::AppendOwn(std::span<const uint8_t> batch) {
  const ByteView bytes(batch.data(), batch.size());
  Store(bytes, InfoOf(bytes));
  ReplicasMoved();
}

void MemoryLog::AppendAbort(const host::OpenTransaction& txn, int32_t leader_epoch,
                            host::Completion done) {
  StartMutator(kAppendAbort);
  auto body = [this, txn, leader_epoch](host::Completion answer) {
    if (Status status = CheckLeader(leader_epoch); !status.ok()) return answer(std::move(status));
    if (Status status = CheckInSync(); !status.ok()) return answer(std::move(status));
    const std::vector<host::OpenTransaction> open = OpenTransactions();
    if (std::none_of(open.begin(), open.end(), [&](const host::OpenTransaction& o) {
          return o.producer_id == txn.producer_id;
        })) {
      violations_.push_back("ABORT for producer " + std::to_string(txn.producer_id) +
                            ", which has no open transaction");
    }
    const auto batch =
        log::EndTxnBatch(log::kControlAbort, end_, leader_epoch, runtime_->WallMs(),
                         txn.producer_id, txn.producer_epoch, std::max(0, txn.coordinator_epoch));
    AppendOwn(batch);
    const int64_t wanted = end_;
    Wait(
        leader_epoch, [this, wanted] { return high_watermark_ >= wanted; },
        [] { return std::string("the marker is appended and not replicated"); }, true,
        std::move(answer));
  };
  script_.Run(kAppendAbort, {}, std::move(body), std::move(done));
}

void MemoryLog::AppendReset(int32_t leader_epoch, host::Completion done) {
  StartMutator(kAppendReset);
  auto body = [this, leader_epoch](host::Completion answer) {
    if (Status status = CheckLeader(leader_epoch); !status.ok()) return answer(std::move(status));
    if (Status status = CheckInSync(); !status.ok()) return answer(std::move(status));
    if (!OpenTransactions().empty()) {
      violations_.push_back("MIRROR_PID_RESET over an open transaction");
      return answer({ErrorCode::kInvalidTxnState, "a transaction is open"});
    }
    AppendOwn(log::PidResetBatch(end_, leader_epoch, runtime_->WallMs()));
    const int64_t wanted = end_;
    Wait(
        leader_epoch, [this, wanted] { return high_watermark_ >= wanted; },
        [] { return std::string("the reset is appended and not replicated"); }, true,
        std::move(answer));
  };
  script_.Run(kAppendReset, {}, std::move(body), std::move(done));
}

// ---- Cutting

int64_t MemoryLog::CutPoint(int64_t offset) const {
  for (const Batch& batch : batches_) {
    if (batch.info.base_offset < offset && batch.info.last_offset >= offset) {
      return batch.info.base_offset;
    }
  }
  return offset;
}

void MemoryLog::CutTo(int64_t offset) {
  while (!batches_.empty() && batches_.back().info.last_offset >= offset) batches_.pop_back();
  history_.TruncateFromEnd(offset);
  end_ = offset;
  high_watermark_ = std::min(high_watermark_, end_);
  synced_end_ = std::min(synced_end_, end_);
  Rebuild();
}

void MemoryLog::Rebuild() {
  producers_.Clear();
  for (const Batch& batch : batches_) {
    std::optional<log::CompletedTransaction> completed;
    (void)producers_.Apply(batch.info, &completed);
  }
  producers_.OnLogStart(log_start_);
  producers_.OnHighWatermark(high_watermark_);
}

void MemoryLog::Truncate(int64_t offset, int32_t leader_epoch, host::Completion done) {
  StartMutator(kTruncate);
  auto body = [this, offset, leader_epoch](host::Completion answer) {
    if (Status status = CheckLeader(leader_epoch); !status.ok()) return answer(std::move(status));
    if (offset >= end_) {
      history_.TruncateFromEnd(end_);
    } else if (offset < log_start_) {
      batches_.clear();
      history_.Clear();
      log_start_ = end_ = high_watermark_ = offset;
      synced_end_ = std::min(synced_end_, end_);
      Rebuild();
    } else {
      CutTo(std::max(log_start_, CutPoint(offset)));
    }
    for (Follower& follower : followers_) follower.fetched = follower.automatic;
    ReplicasMoved();
    answer(Status::Ok());
  };
  script_.Run(kTruncate, std::to_string(offset), std::move(body), std::move(done));
}

void MemoryLog::RestartAt(int64_t offset, int32_t leader_epoch, host::Completion done) {
  StartMutator(kRestartAt);
  auto body = [this, offset, leader_epoch](host::Completion answer) {
    if (Status status = CheckLeader(leader_epoch); !status.ok()) return answer(std::move(status));
    batches_.clear();
    history_.Clear();
    producers_.Clear();
    log_start_ = high_watermark_ = end_ = offset;
    synced_end_ = std::min(synced_end_, offset);
    Rebuild();
    for (Follower& follower : followers_) follower.fetched = follower.automatic;
    ReplicasMoved();
    answer(Status::Ok());
  };
  script_.Run(kRestartAt, std::to_string(offset), std::move(body), std::move(done));
}

Status MemoryLog::RaiseLogStart(int64_t offset) noexcept {
  if (Status status = script_.Inline(kRaiseLogStart); !status.ok()) return status;
  if (closed_) return {ErrorCode::kNotLeaderOrFollower, "the partition is gone"};
  const int64_t target = std::min(offset, high_watermark_);
  if (target <= log_start_) return {};
  log_start_ = target;
  history_.TruncateFromStart(target);
  producers_.OnLogStart(target);
  WakeWaiters();
  return {};
}

void MemoryLog::LoseTail(int64_t offset) {
  const int64_t cut = CutPoint(std::max(offset, std::max(synced_end_, log_start_)));
  if (cut < end_) CutTo(std::max(cut, log_start_));
}

// ---- Replicas and waiting for them

void MemoryLog::ReplicasMoved() {
  int64_t lowest = end_;
  for (Follower& follower : followers_) {
    if (follower.automatic) follower.end = end_;
    if (follower.in_sync) lowest = std::min(lowest, follower.end);
  }
  if (CheckInSync().ok()) high_watermark_ = std::max(high_watermark_, std::min(lowest, end_));
  producers_.OnHighWatermark(high_watermark_);
  WakeWaiters();
}

void MemoryLog::SetFollowers(std::vector<Follower> followers) {
  followers_ = std::move(followers);
  ReplicasMoved();
}

void MemoryLog::SetFollowerEnd(size_t follower, int64_t end) {
  followers_.at(follower).automatic = false;
  followers_.at(follower).fetched = true;
  followers_.at(follower).end = end;
  ReplicasMoved();
}

void MemoryLog::SetInSync(size_t follower, bool in_sync) {
  followers_.at(follower).in_sync = in_sync;
  ReplicasMoved();
}

void MemoryLog::SetMinInSync(int32_t replicas) {
  min_in_sync_ = replicas;
  ReplicasMoved();
}

void MemoryLog::Wait(int32_t leader_epoch, std::function<bool()> reached,
                     std::function<std::string()> why_not, bool patient, host::Completion done) {
  if (reached()) return done(Status::Ok());
  const uint64_t id = next_waiter_++;
  host::Lane::TimerId timer = 0;
  if (patient) {
    timer = lane_->RunAfter(patience_, [this, id] {
      const auto it = std::find_if(waiters_.begin(), waiters_.end(),
                                   [id](const Waiter& waiter) { return waiter.id == id; });
      if (it == waiters_.end()) return;
      const Waiter waiter = std::move(*it);
      waiters_.erase(it);
      waiter.done({ErrorCode::kNotEnoughReplicas, waiter.why_not()});
    });
  }
  waiters_.push_back(
      {id, leader_epoch, std::move(reached), std::move(why_not), std::move(done), timer});
}

void MemoryLog::WakeWaiters() {
  std::vector<Waiter> all;
  all.swap(waiters_);
  std::vector<std::pair<host::Completion, Status>> answers;
  for (Waiter& waiter : all) {
    if (Status status = CheckLeader(waiter.leader_epoch); !status.ok()) {
      lane_->Cancel(waiter.timer);
      answers.emplace_back(std::move(waiter.done), std::move(status));
    } else if (waiter.reached()) {
      lane_->Cancel(waiter.timer);
      answers.emplace_back(std::move(waiter.done), Status::Ok());
    } else {
      waiters_.push_back(std::move(waiter));
    }
  }
  for (auto& [done, status] : answers) done(std::move(status));
}

void MemoryLog::AwaitReplicated(int32_t leader_epoch, host::Completion done) {
  auto body = [this, leader_epoch](host::Completion answer) {
    if (Status status = CheckLeader(leader_epoch); !status.ok()) return answer(std::move(status));
    Wait(
        leader_epoch, [this] { return high_watermark_ == end_; },
        [this] {
          return "high watermark " + std::to_string(high_watermark_) + ", end " +
                 std::to_string(end_);
        },
        true, std::move(answer));
  };
  script_.Run(kAwaitReplicated, {}, std::move(body), std::move(done));
}

void MemoryLog::AwaitTruncated(bool all_replicas, int32_t leader_epoch, host::Completion done) {
  auto body = [this, all_replicas, leader_epoch](host::Completion answer) {
    if (Status status = CheckLeader(leader_epoch); !status.ok()) return answer(std::move(status));
    auto reached = [this, all_replicas] {
      if (!CheckInSync().ok()) return false;
      return std::all_of(followers_.begin(), followers_.end(), [&](const Follower& follower) {
        if (!follower.in_sync) return !all_replicas;
        return follower.fetched && follower.end <= end_;
      });
    };
    Wait(leader_epoch, reached, [] { return std::string(); }, false, std::move(answer));
  };
  script_.Run(kAwaitTruncated, {}, std::move(body), std::move(done));
}

void MemoryLog::Sync(host::Completion done) {
  auto body = [this](host::Completion answer) {
    synced_end_ = end_;
    answer(Status::Ok());
  };
  script_.Run(kSync, {}, std::move(body), std::move(done));
}

// ---- The barrier, and the host's own side

Status MemoryLog::SetLocalWrites(host::LocalWrites mode, int32_t leader_epoch,
                                 int64_t metadata_version) noexcept {
  if (Status status = script_.Inline(kSetLocalWrites); !status.ok()) return status;
  if (Status status = CheckLeader(leader_epoch); !status.ok()) return status;
  if (metadata_version < barrier_version_) {
    return {ErrorCode::kFencedStateEpoch,
            "the barrier was set by metadata version " + std::to_string(barrier_version_)};
  }
  local_writes_ = mode;
  barrier_version_ = metadata_version;
  return {};
}

void MemoryLog::HostSetLocalWrites(host::LocalWrites mode, int64_t metadata_version) {
  local_writes_ = mode;
  barrier_version_ = std::max(barrier_version_, metadata_version);
}

void MemoryLog::HostRestarted(host::LocalWrites mode) {
  DropPending();
  local_writes_ = mode;
  barrier_version_ = -1;
}

void MemoryLog::Elect(int32_t leader_epoch, bool mirrored) {
  leader_ = true;
  leader_epoch_ = leader_epoch;
  if (!mirrored) history_.Assign(leader_epoch, end_);
  WakeWaiters();
}

void MemoryLog::Resign() {
  leader_ = false;
  WakeWaiters();
}

void MemoryLog::Close() {
  closed_ = true;
  WakeWaiters();
}

Result<int64_t> MemoryLog::Produce(std::vector<uint8_t> batch) {
  if (closed_ || !leader_) return {ErrorCode::kNotLeaderOrFollower, "not the leader"};
  switch (local_writes_) {
    case host::LocalWrites::kReadOnly: return {ErrorCode::kReadOnly, "the topic is a mirror"};
    case host::LocalWrites::kStopping:
      return {ErrorCode::kNotEnoughReplicas, "the mirror topic is not open yet"};
    case host::LocalWrites::kAllowed: break;
  }
  if (Status status = CheckInSync(); !status.ok()) return status;
  log::SetBaseOffset(batch, end_);
  const log::ProducerState::ClientCheck check = producers_.CheckClient(InfoOf(batch));
  if (!check.status.ok()) return check.status;
  if (check.duplicate) return check.base_offset;
  return AppendLocal(std::move(batch));
}

int64_t MemoryLog::AppendLocal(std::vector<uint8_t> batch) {
  const int64_t offset = end_;
  log::SetBaseOffset(batch, offset);
  log::SetLeaderEpoch(batch, leader_epoch_);
  AppendOwn(batch);
  return offset;
}

void MemoryLog::DropPending() {
  script_.Drop();
  pending_.reset();
  for (const Waiter& waiter : waiters_) lane_->Cancel(waiter.timer);
  waiters_.clear();
}

std::vector<MemoryLog::Batch> MemoryLog::batches() const {
  std::vector<Batch> visible;
  for (const Batch& batch : batches_) {
    if (batch.info.last_offset >= log_start_) visible.push_back(batch);
  }
  return visible;
}

std::vector<uint8_t> MemoryLog::Bytes() const {
  std::vector<uint8_t> bytes;
  for (const Batch& batch : batches()) {
    bytes.insert(bytes.end(), batch.bytes.begin(), batch.bytes.end());
  }
  return bytes;
}

}  // namespace kmirror::conformance
