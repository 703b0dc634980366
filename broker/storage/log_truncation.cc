// Cutting the end of a log, and starting it anew.
//
// Order on disk, so that a kill at any point leaves a log that once was: segments go from the last
// one down, the remaining one is cut, and only then anything new is created.

#include <algorithm>
#include <cerrno>

#include "broker/storage/files.h"
#include "broker/storage/partition_log_impl.h"

namespace kmirror::broker {

Result<int64_t> PartitionLog::TruncateTo(int64_t offset, int32_t leader_epoch) {
  int64_t end = 0;
  {
    std::lock_guard lock(impl_->append_mutex_);
    Status usable = impl_->CheckUsableLocked(leader_epoch);
    if (!usable.ok()) return usable;
    Status prepared = impl_->PrepareResetLocked(offset);
    if (!prepared.ok()) return prepared;
    Status cut = impl_->TruncateLocked(offset);
    if (!cut.ok()) {
      Status offline = impl_->GoOfflineLocked(cut);
      impl_->PublishLocked();
      return offline;
    }
    impl_->PublishLocked();
    end = impl_->log_end_;
  }
  impl_->Notify();
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
  return Status::Ok();
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

Status PartitionLog::Impl::TruncateLocked(int64_t offset) {
  if (offset >= log_end_) {
    if (epochs_.TruncateFromEnd(log_end_)) epochs_dirty_ = true;
    return Status::Ok();
  }
  if (offset <= log_start_) return ResetLocked(std::max<int64_t>(offset, 0));
  ++truncations_;
  Status status = snapshots_.RemoveAbove(offset);
  if (!status.ok()) return status;
  while (segments_.size() > 1 && segments_.back()->base_offset() >= offset) {
    status = DropSegmentLocked();
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
    status = DropSegmentLocked();
    if (!status.ok()) return status;
    position = ActiveLocked().size();
    std::optional<log::BatchInfo> last;
    Result<int64_t> found = ActiveLocked().FindEnd(&last);
    if (!found.ok()) return found.status();
    end = *found;
  }
  if (end < log_start_) return ResetLocked(log_start_);
  status = ActiveLocked().Activate();
  if (status.ok()) status = ActiveLocked().Cut(position, end);
  if (!status.ok()) return status;
  segments_changed_ = true;
  log_end_ = end;
  high_watermark_ = std::min(high_watermark_, end);
  leader_epoch_start_ = std::min(leader_epoch_start_, end);
  if (epochs_.TruncateFromEnd(end)) epochs_dirty_ = true;
  status = snapshots_.RemoveAbove(end);
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
  ++truncations_;
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
  if (!epochs_.empty()) epochs_dirty_ = true;
  epochs_.Clear();
  producers_.Clear();
  producers_.OnLogStart(offset);
  producers_.set_map_end_offset(offset);
  return Status::Ok();
}

}  // namespace kmirror::broker
