// What must be on disk before the recovery point may move: the batches, then everything derived
// from them that a start would trust below that point.

#include <algorithm>
#include <cerrno>
#include <limits>

#include "broker/storage/files.h"
#include "broker/storage/partition_log_impl.h"

namespace kmirror::broker {

PartitionLog::Impl::SyncPlan PartitionLog::Impl::PlanSyncLocked(bool with_active) {
  SyncPlan plan;
  plan.end = with_active ? log_end_ : std::min(segments_.back()->base_offset(), log_end_);
  plan.cuts = *cuts_;
  const int64_t from = recovery_point_;
  for (size_t i = 0; i < segments_.size(); ++i) {
    const bool active = i + 1 == segments_.size();
    if (active ? !with_active : segments_[i + 1]->base_offset() <= from) continue;
    plan.segments.push_back(segments_[i]);
  }
  plan.active = segments_.back();
  if (epochs_dirty_) plan.epochs = epochs_.Encode();
  for (const int64_t offset : snapshots_.offsets()) {
    if (offset > from) plan.snapshots.push_back(offset);
  }
  plan.directory = directory_dirty_;
  epochs_dirty_ = directory_dirty_ = false;
  if (with_active) {
    unflushed_messages_ = 0;
    oldest_unflushed_ms_ = -1;
  }
  return plan;
}

Status PartitionLog::Impl::Carry(const SyncPlan& plan, bool* broken, bool* batches) {
  *broken = *batches = false;
  for (const auto& segment : plan.segments) {
    Status synced = segment->Sync(segment != plan.active);
    if (synced.ok()) continue;
    *broken = true;
    return synced;
  }
  if (plan.directory) {
    Status synced = SyncDirectory(io_, directory_);
    if (!synced.ok()) return synced;
  }
  *batches = true;
  if (plan.epochs) {
    Status written = ReplaceFile(io_, directory_ + "/leader-epoch-checkpoint", *plan.epochs);
    if (!written.ok()) return written;
  }
  for (const int64_t offset : plan.snapshots) {
    Status synced = SyncFile(io_, directory_ + "/" + OffsetFileName(offset, ".snapshot"));
    if (!synced.ok()) return synced;
  }
  return Status::Ok();
}

Result<int64_t> PartitionLog::Sync() { return impl_->RunSync(true, Positions().log_end); }

Status PartitionLog::SyncClosedSegments() {
  const int64_t closed = impl_->Published().segments->back()->base_offset();
  if (closed <= impl_->recovery_point_) return Status::Ok();
  const Result<int64_t> synced = impl_->RunSync(false, closed);
  return synced.ok() ? Status::Ok() : synced.status();
}

Result<int64_t> PartitionLog::Impl::RunSync(bool with_active, int64_t wanted) {
  std::lock_guard sync_lock(sync_mutex_);
  // Another caller's sync may have covered this one while it waited.
  if (recovery_point_ >= wanted) return recovery_point_.load();
  SyncPlan plan;
  {
    std::lock_guard lock(append_mutex_);
    Status usable = CheckUsableLocked(-1);
    if (!usable.ok()) return usable;
    plan = PlanSyncLocked(with_active);
  }
  bool broken = false;
  bool batches = false;
  Status carried = Carry(plan, &broken, &batches);
  bool offline = false;
  {
    std::lock_guard lock(append_mutex_);
    if (!carried.ok()) {
      epochs_dirty_ = epochs_dirty_ || plan.epochs.has_value();
      directory_dirty_ = directory_dirty_ || plan.directory;
      if (oldest_unflushed_ms_ < 0) oldest_unflushed_ms_ = NowMs();
      if (broken) {
        // The kernel forgets dirty pages it could not write: a second sync would lie.
        carried = GoOfflineLocked(carried);
        offline = true;
      }
    } else if (plan.cuts == *cuts_) {
      recovery_point_ = std::max(recovery_point_.load(), plan.end);
    }
  }
  if (offline) {
    std::lock_guard lock(listener_mutex_);
    if (listener_ != nullptr) listener_->OnLogOffline(*owner_, carried);
  }
  // On a full disk the batches are safe and what is derived from them is not: the recovery point
  // stays, so that a start after a crash makes it anew. Callers wanted the batches.
  if (!carried.ok() && !batches) return carried;
  return recovery_point_.load();
}

// After a failed sync the kernel may hold pages for clean that never reached the disk: what was
// read from them looks whole, a second sync would answer OK, and a loss of power would leave a
// hole. To write them again is the one way to get them there.
Status PartitionLog::Impl::RewriteTailLocked(int64_t offset) {
  constexpr int64_t kChunk = 1 << 20;
  std::vector<uint8_t> chunk;
  for (size_t i = 0; i < segments_.size(); ++i) {
    Segment& segment = *segments_[i];
    if (i + 1 < segments_.size() && segments_[i + 1]->base_offset() <= offset) continue;
    Result<BatchScanner> scanner = segment.ScannerFor(offset, segment.size());
    if (!scanner.ok()) return scanner.status();
    auto handle = segment.log_file().Handle();
    if (!handle.ok()) return handle.status();
    // A cut may be among what the failed sync did not carry: the end is set anew, too.
    if (io_->Truncate((*handle)->fd(), segment.size()) != 0) {
      return ErrnoStatus("cut again", segment.log_file().path(), errno);
    }
    segment.allocated = segment.size();
    for (int64_t at = scanner->position(); at < segment.size();) {
      chunk.resize(static_cast<size_t>(std::min(kChunk, segment.size() - at)));
      Status read = (*handle)->Read(at, chunk);
      if (!read.ok()) return read;
      const iovec piece{chunk.data(), chunk.size()};
      const ssize_t written = io_->Write((*handle)->fd(), &piece, 1, at);
      if (written < 0 && errno == EINTR) continue;
      if (written <= 0) return ErrnoStatus("write again", segment.log_file().path(), errno);
      at += written;
    }
  }
  SyncPlan plan = PlanSyncLocked(true);
  bool broken = false;
  bool batches = false;
  Status carried = Carry(plan, &broken, &batches);
  if (!carried.ok()) {
    epochs_dirty_ = directory_dirty_ = true;
    return carried;
  }
  recovery_point_ = plan.end;
  return Status::Ok();
}

int64_t PartitionLog::RecoveryPoint() const { return impl_->recovery_point_; }

std::optional<int64_t> PartitionLog::LogStartToCheckpoint() const {
  std::lock_guard lock(impl_->published_mutex_);
  return impl_->log_start_to_checkpoint_;
}

Status PartitionLog::Upkeep(int64_t now_ms, bool* again) {
  {
    // First: a change from here on is told anew.
    std::lock_guard lock(impl_->append_mutex_);
    impl_->change_told_ = false;
  }
  Status first = MaybeFlush(now_ms);
  Status closed = SyncClosedSegments();
  if (first.ok()) first = std::move(closed);
  RemoveDeletedFiles(now_ms);
  std::lock_guard lock(impl_->append_mutex_);
  const bool flush = impl_->oldest_unflushed_ms_ >= 0 &&
                     impl_->config_.flush_ms != std::numeric_limits<int64_t>::max();
  *again = !impl_->closed_ && (!first.ok() || flush || !impl_->deleted_.empty());
  return first;
}

Status PartitionLog::MaybeFlush(int64_t now_ms) {
  {
    std::lock_guard lock(impl_->append_mutex_);
    if (!impl_->offline_.ok() || impl_->closed_ || impl_->oldest_unflushed_ms_ < 0 ||
        now_ms - impl_->oldest_unflushed_ms_ < impl_->config_.flush_ms) {
      return Status::Ok();
    }
  }
  const Result<int64_t> synced = Sync();
  return synced.ok() ? Status::Ok() : synced.status();
}

Status PartitionLog::Close() {
  Impl& log = *impl_;
  std::lock_guard sync_lock(log.sync_mutex_);
  std::lock_guard lock(log.append_mutex_);
  if (log.closed_) return Status::Ok();
  if (!log.offline_.ok()) return log.offline_;
  Segment& active = log.ActiveLocked();
  active.CloseTimeIndex();
  Status status = active.SaveIndexes();
  if (!status.ok()) return status;
  status = log.snapshots_.Write(log.producers_);
  if (!status.ok()) return status;
  auto handle = active.log_file().Handle();
  if (!handle.ok()) return handle.status();
  // Gives back what was reserved beyond the end.
  if (active.allocated > active.size() && log.io_->Truncate((*handle)->fd(), active.size()) != 0) {
    return ErrnoStatus("cut", active.log_file().path(), errno);
  }
  if (log.io_->Size(log.directory_ + "/leader-epoch-checkpoint") < 0) log.epochs_dirty_ = true;
  Impl::SyncPlan plan = log.PlanSyncLocked(true);
  plan.active = nullptr;  // its indexes are final too
  bool broken = false;
  bool batches = false;
  status = log.Carry(plan, &broken, &batches);
  if (!status.ok()) {
    log.epochs_dirty_ = log.directory_dirty_ = true;
    return broken ? log.GoOfflineLocked(status) : status;
  }
  log.recovery_point_ = log.log_end_;
  log.closed_ = true;
  for (const auto& [segment, when] : log.deleted_) segment->RemoveFiles();
  log.deleted_.clear();
  return Status::Ok();
}

void PartitionLog::Abandon(const std::string& new_directory) {
  std::lock_guard sync_lock(impl_->sync_mutex_);
  std::lock_guard lock(impl_->append_mutex_);
  impl_->closed_ = true;
  impl_->directory_ = new_directory;
  impl_->environment_.write_checkpoints = nullptr;
  impl_->environment_.changed = nullptr;
  impl_->deleted_.clear();
  for (const auto& segment : impl_->segments_) segment->log_file().CloseHandle();
}

}  // namespace kmirror::broker
