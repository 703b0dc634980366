#include "broker/mirror_host/host_partition_log.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <utility>

namespace kmirror::broker {
namespace {

host::AppendCode CodeOf(const Status& status) {
  switch (status.code()) {
    case ErrorCode::kNone: return host::AppendCode::kOk;
    case ErrorCode::kNotEnd: return host::AppendCode::kNotEnd;
    case ErrorCode::kFencedLeaderEpoch:
    case ErrorCode::kNotLeaderOrFollower: return host::AppendCode::kFenced;
    case ErrorCode::kNoSpace: return host::AppendCode::kNoSpace;
    case ErrorCode::kIo:
    case ErrorCode::kKafkaStorageError: return host::AppendCode::kIo;
    default: return host::AppendCode::kRefused;
  }
}

LocalWrites ModeOf(host::LocalWrites mode) {
  switch (mode) {
    case host::LocalWrites::kAllowed: return LocalWrites::kAllowed;
    case host::LocalWrites::kReadOnly: return LocalWrites::kReadOnly;
    case host::LocalWrites::kStopping: return LocalWrites::kStopping;
  }
  return LocalWrites::kReadOnly;
}

}  // namespace

host::AppendResult HostPartitionLog::AppendMirrored(const host::MirroredSet& set,
                                                    host::AppendDone*) noexcept {
  if (replica_->removed()) return {host::AppendCode::kFenced, -1};
  const Status status = replica_->log().AppendMirrored(
      set.bytes, set.batches, set.expected_end_offset, set.local_leader_epoch);
  if (!status.ok()) {
    const host::AppendCode code = CodeOf(status);
    if (code != host::AppendCode::kNotEnd && code != host::AppendCode::kFenced) {
      // The library learns the kind alone; the reason is for people.
      spdlog::error("event=mirrored_append_failed partition={}-{} end={} reason=\"{}\"",
                    replica_->topic(), replica_->id().partition, set.expected_end_offset,
                    status.ToString());
    }
    return {code, -1};
  }
  return {host::AppendCode::kOk, set.batches.back().last_offset + 1};
}

host::LogView HostPartitionLog::View() const noexcept {
  const LogPositions at = replica_->log().Positions();
  host::LogView view;
  view.log_start = at.log_start;
  view.last_stable_offset = at.last_stable;
  view.high_watermark = at.high_watermark;
  view.end = at.log_end;
  view.last_batch_epoch = at.last_batch_epoch;
  view.latest_epoch = at.latest_epoch;
  view.leader_epoch = replica_->leader_epoch();
  return view;
}

std::vector<host::OpenTransaction> HostPartitionLog::OpenTransactions() const {
  std::vector<host::OpenTransaction> open;
  for (const log::OpenTransaction& txn : replica_->log().OpenTransactions()) {
    open.push_back({txn.producer_id, txn.first_offset, txn.coordinator_epoch, txn.producer_epoch});
  }
  return open;
}

std::vector<host::EpochEntry> HostPartitionLog::Epochs() const {
  const int64_t end = replica_->log().Positions().log_end;
  std::vector<host::EpochEntry> epochs;
  for (const log::EpochStart& entry : replica_->log().EpochHistory()) {
    if (entry.start_offset < end) epochs.push_back({entry.epoch, entry.start_offset});
  }
  return epochs;
}

host::EpochEnd HostPartitionLog::EndOffsetForEpoch(int32_t epoch) const {
  const log::EpochEnd end = replica_->log().EndOffsetForEpoch(epoch);
  return {end.epoch, end.end_offset};
}

int32_t HostPartitionLog::EpochBefore(int64_t offset) const {
  return offset <= 0 ? -1 : replica_->log().EpochForOffset(offset - 1).value_or(-1);
}

int64_t HostPartitionLog::MaxProducerId() const { return replica_->log().MaxProducerId(); }

bool HostPartitionLog::EndsWithReset() const { return replica_->log().Positions().ends_with_reset; }

Status HostPartitionLog::Leads(int32_t leader_epoch) const {
  if (replica_->removed()) return {ErrorCode::kNotLeaderOrFollower, "the partition was deleted"};
  if (replica_->leader_epoch() == leader_epoch) return Status::Ok();
  return {ErrorCode::kFencedLeaderEpoch, "the leader epoch is " +
                                             std::to_string(replica_->leader_epoch()) + ", not " +
                                             std::to_string(leader_epoch)};
}

void HostPartitionLog::OnWorker(host::Completion done, std::function<Status()> call) {
  const bool taken = workers_->Run([replica = replica_, done, call = std::move(call)] {
    done(replica->removed() ? Status(ErrorCode::kNotLeaderOrFollower, "the partition was deleted")
                            : call());
  });
  if (!taken) done({ErrorCode::kCancelled, "the broker is shutting down"});
}

void HostPartitionLog::AppendAbort(const host::OpenTransaction& txn, int32_t leader_epoch,
                                   host::Completion done) {
  OnWorker(std::move(done), [this_replica = replica_, id = txn.producer_id, leader_epoch] {
    return this_replica->log().AppendAbort(id, leader_epoch).status();
  });
}

void HostPartitionLog::AppendReset(int32_t leader_epoch, host::Completion done) {
  OnWorker(std::move(done), [this_replica = replica_, leader_epoch] {
    return this_replica->log().AppendPidReset(leader_epoch).status();
  });
}

void HostPartitionLog::Truncate(int64_t offset, int32_t leader_epoch, host::Completion done) {
  OnWorker(std::move(done), [this_replica = replica_, offset, leader_epoch] {
    return this_replica->log().TruncateTo(offset, leader_epoch).status();
  });
}

void HostPartitionLog::RestartAt(int64_t offset, int32_t leader_epoch, host::Completion done) {
  OnWorker(std::move(done), [this_replica = replica_, offset, leader_epoch] {
    return this_replica->log().ResetTo(offset, leader_epoch);
  });
}

Status HostPartitionLog::RaiseLogStart(int64_t offset) noexcept {
  const LogPositions at = replica_->log().Positions();
  const int64_t target = std::min(offset, at.high_watermark);
  if (target <= at.log_start) return Status::Ok();
  return replica_->log().RaiseLogStart(target).status();
}

void HostPartitionLog::AwaitReplicated(int32_t leader_epoch, host::Completion done) {
  done(Leads(leader_epoch));  // the only replica holds everything
}

void HostPartitionLog::AwaitTruncated(bool, int32_t leader_epoch, host::Completion done) {
  done(Leads(leader_epoch));
}

void HostPartitionLog::Sync(host::Completion done) {
  OnWorker(std::move(done),
           [this_replica = replica_] { return this_replica->log().Sync().status(); });
}

Status HostPartitionLog::SetLocalWrites(host::LocalWrites mode, int32_t leader_epoch,
                                        int64_t metadata_version) noexcept {
  return replica_->SetLocalWrites(ModeOf(mode), leader_epoch, metadata_version);
}

std::shared_ptr<host::PartitionLog> HostLogs::Find(const TopicIdPartition& partition) {
  std::shared_ptr<Replica> replica = logs_->Find(partition);
  if (replica == nullptr || replica->removed()) return nullptr;
  if (!replica->log().offline().ok()) {
    {
      const std::lock_guard lock(mutex_);
      if (!reopening_.insert(partition).second) return nullptr;
    }
    const bool taken = workers_->Run([this, partition, replica] {
      // Whether it worked shows at the next Find.
      const Status ignored = replica->log().Reopen();
      (void)ignored;
      const std::lock_guard lock(mutex_);
      reopening_.erase(partition);
    });
    if (!taken) {
      const std::lock_guard lock(mutex_);
      reopening_.erase(partition);
    }
    return nullptr;
  }
  return std::make_shared<HostPartitionLog>(std::move(replica), workers_);
}

}  // namespace kmirror::broker
