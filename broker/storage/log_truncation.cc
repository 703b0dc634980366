// Cutting the end of a log, and starting it anew.
//
// Order on disk, so that a kill at any point leaves a log that once was: segments go from the last
// one down, the remaining one is cut, and only then anything new is created.

#include <algorithm>
#include <cerrno>
#include <limits>

#include "broker/storage/files.h"
#include "broker/storage/partition_log_impl.h"

namespace kmirror::broker {

Result<int64_t> PartitionLog::TruncateTo(int64_t offset, int32_t leader_epoch) {
  int64_t end = 0;
  bool durable = false;
  {
    std::lock_guard lock(impl_->append_mutex_);
    Status usable = impl_->CheckUsableLocked(leader_epoch);
    if (!usable.ok()) return usable;
    const int64_t end_before = impl_->log_end_;
    Status prepared = impl_->PrepareResetLocked(offset);
    if (!prepared.ok()) return prepared;
    // Where nothing is left that readers may see, nothing of what lies below is kept either.
    const bool all = offset <= impl_->log_start_ && offset < end_before;
    Status cut =
        all ? impl_->ResetLocked(std::max<int64_t>(offset, 0)) : impl_->TruncateLocked(offset);
    if (cut.ok() && impl_->log_end_ == impl_->log_start_ && offset < end_before) {
      cut = impl_->ResetLocked(impl_->log_start_);
    }
    if (!cut.ok()) {
      Status offline = impl_->GoOfflineLocked(cut);
      impl_->PublishLocked();
      return offline;
    }
    impl_->PublishLocked();
    end = impl_->log_end_;
    if (offset >= end_before) durable = true;  // nothing was cut
  }
  impl_->Notify();
  if (durable) return end;
  Status synced = impl_->SyncCut();
  if (!synced.ok()) return synced;
  return end;
}

Status PartitionLog::ResetTo(int64_t offset, int32_t leader_epoch) {
  {
    std::lock_guard lock(impl_->append_mutex_);
    Status usable = impl_->CheckUsableLocked(leader_epoch);
    if (!usable.ok()) return usable;
    if (offset < 0) return {ErrorCode::kOffsetOutOfRange, "a log cannot start below 0"};
    Status reset = impl_->PrepareResetLocked(offset);
    if (!reset.ok()) return reset;
    reset = impl_->ResetLocked(offset);
    if (!reset.ok()) reset = impl_->GoOfflineLocked(reset);
    impl_->PublishLocked();
    if (!reset.ok()) return reset;
  }
  impl_->Notify();
  return impl_->SyncCut();
}

// A cut is an answer that others build on: states are stored that say what the log holds no more.
// Without this a loss of power would bring back what was cut.
Status PartitionLog::Impl::SyncCut() {
  const Result<int64_t> synced = RunSync(true, std::numeric_limits<int64_t>::max());
  return synced.ok() ? Status::Ok() : synced.status();
}

Status PartitionLog::Impl::WriteCheckpointsLocked() {
  return environment_.write_checkpoints ? environment_.write_checkpoints() : Status::Ok();
}

Status PartitionLog::Impl::DropSegmentLocked() {
  std::shared_ptr<Segment> segment = segments_.back();
  Status marked = segment->MarkDeleted();
  if (!marked.ok()) return marked;
  deleted_.emplace_back(segment, NowMs() + config_.file_delete_delay_ms);
  segments_.pop_back();
  segments_changed_ = true;
  directory_dirty_ = true;
  return Status::Ok();
}

// Before anything below it changes: a loss of power that keeps a cut and brings back a segment
// behind it would leave a hole, which looks like a compacted log.
Status PartitionLog::Impl::DropSegmentDurablyLocked() {
  Status dropped = DropSegmentLocked();
  return dropped.ok() ? SyncDirectory(io_, directory_) : dropped;
}

Status PartitionLog::Impl::TruncateLocked(int64_t offset) {
  if (offset >= log_end_) {
    return epochs_.TruncateFromEnd(log_end_) ? RewriteEpochsLocked() : Status::Ok();
  }
  ++*cuts_;
  Status status = snapshots_.RemoveAbove(offset);
  if (!status.ok()) return status;
  while (segments_.size() > 1 && segments_.back()->base_offset() >= offset) {
    status = DropSegmentDurablyLocked();
    if (!status.ok()) return status;
  }
  // The first batch that reaches `offset` goes with all behind it; the end is where the one before
  // it ends. The look-up starts below `offset` so that this one is seen too.
  int64_t position = 0;
  int64_t end = -1;
  {
    Segment& segment = ActiveLocked();
    Result<BatchScanner> scanner = segment.ScannerFor(offset - 1, segment.size());
    if (!scanner.ok()) return scanner.status();
    log::BatchInfo batch;
    position = scanner->position();
    while (scanner->Next(&batch) == BatchScanner::kBatch && batch.last_offset < offset) {
      position = scanner->position();
      end = batch.last_offset + 1;
    }
    if (!scanner->status().ok()) return scanner->status();
  }
  if (end < 0 && segments_.size() > 1) {  // nothing of this segment stays
    status = DropSegmentDurablyLocked();
    if (!status.ok()) return status;
    position = ActiveLocked().size();
    std::optional<log::BatchInfo> last;
    Result<int64_t> found = ActiveLocked().FindEnd(&last);
    if (!found.ok()) return found.status();
    end = *found;
  }
  if (end < 0) end = ActiveLocked().base_offset();
  if (end < log_start_) return ResetLocked(log_start_);
  status = ActiveLocked().Activate();
  if (status.ok()) status = ActiveLocked().Cut(position, end);
  if (!status.ok()) return status;
  segments_changed_ = true;
  log_end_ = end;
  high_watermark_ = std::min(high_watermark_, end);
  leader_epoch_start_ = std::min(leader_epoch_start_, end);
  status = epochs_.TruncateFromEnd(end) ? RewriteEpochsLocked() : Status::Ok();
  if (status.ok()) status = snapshots_.RemoveAbove(end);
  if (status.ok()) status = LoadProducersLocked(end, NowMs());
  if (status.ok()) status = FindEndLocked();
  if (!status.ok()) return status;
  log_end_ = end;
  (void)snapshots_.Write(producers_);  // spares the next start a replay, no more
  LowerRecoveryPointLocked(end);
  return Status::Ok();
}

// What is appended from here on is not on disk, whatever the checkpoint said before. When the file
// cannot be written now (no space) the next checkpoint corrects it.
void PartitionLog::Impl::LowerRecoveryPointLocked(int64_t offset) {
  if (recovery_point_ <= offset) return;
  recovery_point_ = offset;
  (void)WriteCheckpointsLocked();
}

// A log start that a checkpoint file holds must not come back above a log that restarts below it:
// the file is written without it before anything else happens.
Status PartitionLog::Impl::PrepareResetLocked(int64_t offset) {
  {
    std::lock_guard lock(published_mutex_);
    if (!log_start_to_checkpoint_ || *log_start_to_checkpoint_ <= offset) return Status::Ok();
    log_start_to_checkpoint_.reset();
  }
  return WriteCheckpointsLocked();
}

Status PartitionLog::Impl::ResetLocked(int64_t offset) {
  ++*cuts_;
  LowerRecoveryPointLocked(offset);
  Status status = snapshots_.RemoveAbove(-1);
  while (status.ok() && segments_.size() > 1) status = DropSegmentLocked();
  if (status.ok()) status = ActiveLocked().Activate();
  if (status.ok()) status = ActiveLocked().Cut(0, ActiveLocked().base_offset());
  if (!status.ok()) return status;
  if (ActiveLocked().base_offset() != offset) {
    auto next = std::make_shared<Segment>(directory_, offset, io_, fds_);
    status = next->Create(NowMs());
    if (!status.ok()) return status;
    status = DropSegmentLocked();
    if (!status.ok()) return status;
    segments_.push_back(next);
  }
  segments_changed_ = true;
  directory_dirty_ = true;
  log_start_ = log_end_ = high_watermark_ = offset;
  leader_epoch_start_ = std::min(leader_epoch_start_, offset);
  last_batch_epoch_ = -1;
  ends_with_reset_ = false;
  epochs_.Clear();
  producers_.Clear();
  producers_.OnLogStart(offset);
  producers_.set_map_end_offset(offset);
  return RewriteEpochsLocked();
}

// Appends leave the file behind, and a scan catches up with them. Entries of batches that are gone
// are another matter: after new appends a scan could not tell them from true ones. Without space
// for the file it goes, and a start reads the epochs from all batches.
Status PartitionLog::Impl::RewriteEpochsLocked() {
  const std::string path = directory_ + "/leader-epoch-checkpoint";
  epochs_dirty_ = true;
  if (ReplaceFile(io_, path, epochs_.Encode()).ok()) {
    epochs_dirty_ = false;
    return Status::Ok();
  }
  if (io_->Remove(path) != 0 && errno != ENOENT) return ErrnoStatus("remove", path, errno);
  return Status::Ok();
}

}  // namespace kmirror::broker
