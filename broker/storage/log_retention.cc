// Cutting the start of a log: delete records, the mirror's log start, retention by time and size.

#include <algorithm>

#include "broker/storage/files.h"
#include "broker/storage/partition_log_impl.h"

namespace kmirror::broker {
namespace {

// A segment without timestamps is as old as its file.
int64_t AgeTimestamp(FileIo* io, Segment& segment) {
  const int64_t greatest = segment.max_timestamp();
  if (greatest >= 0) return greatest;
  const int64_t modified = io->ModifiedMs(segment.log_file().path());
  return modified < 0 ? INT64_MAX : modified;
}

}  // namespace

Status PartitionLog::Impl::DropFirstSegmentsLocked(size_t count) {
  for (size_t i = 0; i < count; ++i) {
    Status marked = segments_.front()->MarkDeleted();
    if (!marked.ok()) return marked;
    deleted_.emplace_back(segments_.front(), NowMs() + config_.file_delete_delay_ms);
    segments_.erase(segments_.begin());
    segments_changed_ = true;
    directory_dirty_ = true;
  }
  return count == 0 ? Status::Ok() : snapshots_.RemoveBelow(segments_.front()->base_offset());
}

void PartitionLog::Impl::SetLogStartLocked(int64_t offset) {
  log_start_ = offset;
  high_watermark_ = std::max(high_watermark_, offset);
  if (epochs_.TruncateFromStart(offset)) epochs_dirty_ = true;
  producers_.OnLogStart(offset);
}

Status PartitionLog::Impl::DropBelowLogStartLocked() {
  size_t below = 0;
  while (below + 1 < segments_.size() && segments_[below + 1]->base_offset() <= log_start_) ++below;
  return DropFirstSegmentsLocked(below);
}

Result<DeletedRange> PartitionLog::RaiseLogStart(int64_t offset) {
  DeletedRange answer;
  {
    std::lock_guard lock(impl_->append_mutex_);
    Impl& log = *impl_;
    Status usable = log.CheckUsableLocked(-1);
    if (!usable.ok()) return usable;
    answer.log_start = log.log_start_;
    if (offset <= log.log_start_ && !log.log_start_unsaved_) return answer;
    if (offset > log.high_watermark_) {
      return Status(ErrorCode::kOffsetOutOfRange, "offset " + std::to_string(offset) +
                                                      " is above the high watermark " +
                                                      std::to_string(log.high_watermark_));
    }
    const size_t before = log.segments_.size();
    if (offset > log.log_start_) log.SetLogStartLocked(offset);
    log.PublishLocked();
    log.log_start_unsaved_ = true;
    // Files go once the checkpoint says why: else a loss of power brings some back, and the log
    // begins where it had ended to begin.
    Status raised = log.WriteCheckpointsLocked();
    if (raised.ok()) {
      log.log_start_unsaved_ = false;
      raised = log.DropBelowLogStartLocked();
      log.PublishLocked();
    }
    if (!raised.ok()) return raised;
    answer = {log.log_start_, static_cast<int64_t>(before - log.segments_.size())};
  }
  impl_->Notify();
  return answer;
}

Result<DeletedRange> PartitionLog::ApplyRetention(int64_t now_ms) {
  DeletedRange answer;
  {
    std::lock_guard lock(impl_->append_mutex_);
    Impl& log = *impl_;
    Status usable = log.CheckUsableLocked(-1);
    if (!usable.ok()) return usable;
    const LogConfig& config = log.config_;
    int64_t size = 0;
    for (const auto& segment : log.segments_) size += segment->size();
    int64_t excess = size - config.retention_bytes;
    size_t count = 0;
    for (; count < log.segments_.size(); ++count) {
      Segment& segment = *log.segments_[count];
      const bool active = count + 1 == log.segments_.size();
      const int64_t end = active ? log.log_end_ : log.segments_[count + 1]->base_offset();
      if (segment.size() == 0 || end > log.high_watermark_) break;
      const bool below_start = !active && end <= log.log_start_;
      const bool old = config.retention_deletes && config.retention_ms >= 0 &&
                       now_ms - AgeTimestamp(log.io_, segment) > config.retention_ms;
      const bool too_much =
          config.retention_deletes && config.retention_bytes >= 0 && excess - segment.size() >= 0;
      if (!below_start && !old && !too_much) break;
      excess -= segment.size();
    }
    answer.log_start = log.log_start_;
    if (count == 0) return answer;
    Status status;
    if (count == log.segments_.size()) status = log.RollLocked(log.log_end_);
    if (status.ok()) {
      log.SetLogStartLocked(std::max(log.log_start_, log.segments_[count]->base_offset()));
      status = log.DropBelowLogStartLocked();
    }
    log.PublishLocked();
    if (!status.ok()) return status;
    answer = {log.log_start_, static_cast<int64_t>(count)};
  }
  impl_->Notify();
  return answer;
}

void PartitionLog::RemoveDeletedFiles(int64_t now_ms) {
  std::vector<std::shared_ptr<Segment>> due;
  {
    std::lock_guard lock(impl_->append_mutex_);
    std::erase_if(impl_->deleted_, [&](const auto& each) {
      if (each.second > now_ms) return false;
      due.push_back(each.first);
      return true;
    });
  }
  for (const auto& segment : due) segment->RemoveFiles();
}

void PartitionLog::ExpireProducers(int64_t now_ms) {
  std::lock_guard lock(impl_->append_mutex_);
  impl_->producers_.Expire(now_ms, impl_->config_.producer_id_expiration_ms);
}

}  // namespace kmirror::broker
