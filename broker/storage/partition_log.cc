#include "broker/storage/partition_log.h"

#include <chrono>

#include "broker/storage/partition_log_impl.h"

namespace kmirror::broker {

int64_t LogClock::NowMs() const {
  return std::chrono::duration_cast<std::chrono::milliseconds>(
             std::chrono::system_clock::now().time_since_epoch())
      .count();
}

LogClock* LogClock::System() {
  static LogClock system;  // stateless
  return &system;
}

PartitionLog::PartitionLog(const Options& options)
    : topic_(options.topic),
      partition_(options.partition),
      topic_id_(options.topic_id),
      impl_(std::make_unique<Impl>(this, options)) {}

PartitionLog::~PartitionLog() = default;

PartitionLog::Impl::Impl(PartitionLog* owner, const Options& options)
    : owner_(owner),
      io_(options.environment.io != nullptr ? options.environment.io : FileIo::Posix()),
      clock_(options.environment.clock != nullptr ? options.environment.clock : LogClock::System()),
      fds_(options.environment.files),
      environment_(options.environment),
      follow_end_(options.high_watermark_follows_end),
      config_(options.config),
      directory_(options.directory),
      snapshots_(options.directory, io_) {}

Status PartitionLog::Impl::CheckUsableLocked(int32_t leader_epoch) const {
  if (closed_) return {ErrorCode::kNotLeaderOrFollower, owner_->topic_ + ": the log is closed"};
  if (!offline_.ok()) {
    return {ErrorCode::kKafkaStorageError, "the log is offline: " + offline_.message()};
  }
  if (leader_epoch >= 0 && leader_epoch != leader_epoch_) {
    return {ErrorCode::kFencedLeaderEpoch, "leader epoch " + std::to_string(leader_epoch_) +
                                               ", the caller has " + std::to_string(leader_epoch)};
  }
  return Status::Ok();
}

Status PartitionLog::Impl::GoOfflineLocked(Status why) {
  if (offline_.ok()) offline_ = why;
  return {ErrorCode::kKafkaStorageError, why.message()};
}

void PartitionLog::Impl::PublishLocked() {
  if (follow_end_) high_watermark_ = log_end_;
  producers_.OnHighWatermark(high_watermark_);
  LogPositions positions;
  positions.log_start = log_start_;
  positions.high_watermark = high_watermark_;
  positions.last_stable = producers_.LastStableOffset(high_watermark_);
  positions.log_end = log_end_;
  positions.last_batch_epoch = last_batch_epoch_;
  positions.latest_epoch = epochs_.empty() ? -1 : epochs_.entries().back().epoch;
  positions.ends_with_reset = ends_with_reset_;
  positions.leader_epoch = leader_epoch_;
  positions.leader_epoch_start = leader_epoch_start_;
  positions.local_writes = local_writes_;
  std::shared_ptr<const SegmentList> list;
  if (segments_changed_) list = std::make_shared<const SegmentList>(segments_);
  const int64_t end_position = segments_.empty() ? 0 : segments_.back()->size();
  const int64_t first_base = segments_.empty() ? log_start_ : segments_.front()->base_offset();
  {
    std::lock_guard lock(published_mutex_);
    published_.positions = positions;
    if (list != nullptr) published_.segments.swap(list);
    published_.end_position = end_position;
    published_.cuts = *cuts_;
    log_start_to_checkpoint_ =
        log_start_ > first_base ? std::optional<int64_t>(log_start_) : std::nullopt;
  }
  segments_changed_ = false;
  TellChangeLocked();
}

void PartitionLog::Impl::TellChangeLocked() {
  if (change_told_) return;
  change_told_ = true;
  if (environment_.changed) environment_.changed(owner_->topic(), owner_->partition());
}

PublishedLog PartitionLog::Impl::Published() const {
  std::lock_guard lock(published_mutex_);
  return published_;
}

void PartitionLog::Impl::SetHighWatermarkLocked(int64_t offset) {
  high_watermark_ = std::min(offset, log_end_);
}

void PartitionLog::Impl::Notify() {
  std::lock_guard lock(listener_mutex_);
  if (listener_ != nullptr) listener_->OnLogChanged(*owner_);
}

LogPositions PartitionLog::Positions() const {
  std::lock_guard lock(impl_->published_mutex_);
  return impl_->published_.positions;
}

void PartitionLog::SetListener(PartitionLogListener* listener) {
  std::lock_guard lock(impl_->listener_mutex_);
  impl_->listener_ = listener;
}

void PartitionLog::SetLocalWrites(LocalWrites mode) {
  std::lock_guard lock(impl_->append_mutex_);
  impl_->local_writes_ = mode;
  impl_->PublishLocked();
}

Status PartitionLog::BecomeLeader(int32_t leader_epoch, bool enter_in_history) {
  {
    std::lock_guard lock(impl_->append_mutex_);
    Impl& log = *impl_;
    if (leader_epoch < log.leader_epoch_) {
      return {ErrorCode::kFencedLeaderEpoch, "leader epoch " + std::to_string(log.leader_epoch_) +
                                                 " is newer than " + std::to_string(leader_epoch)};
    }
    if (leader_epoch > log.leader_epoch_) log.leader_epoch_start_ = log.log_end_;
    log.leader_epoch_ = leader_epoch;
    if (enter_in_history && log.epochs_.Assign(leader_epoch, log.log_end_))
      log.epochs_dirty_ = true;
    log.PublishLocked();
  }
  impl_->Notify();
  return Status::Ok();
}

void PartitionLog::SetHighWatermark(int64_t high_watermark) {
  {
    std::lock_guard lock(impl_->append_mutex_);
    Impl& log = *impl_;
    const int64_t target = std::min(high_watermark, log.log_end_);
    if (log.follow_end_ || target <= log.high_watermark_) return;
    log.high_watermark_ = target;
    log.PublishLocked();
  }
  impl_->Notify();
}

std::vector<log::OpenTransaction> PartitionLog::OpenTransactions() const {
  std::lock_guard lock(impl_->append_mutex_);
  return impl_->producers_.OpenTransactions();
}

std::vector<log::ProducerInfo> PartitionLog::Producers() const {
  std::lock_guard lock(impl_->append_mutex_);
  return impl_->producers_.Producers();
}

int64_t PartitionLog::MaxProducerId() const {
  std::lock_guard lock(impl_->append_mutex_);
  return impl_->producers_.max_producer_id();
}

void PartitionLog::SetConfig(const LogConfig& config) {
  std::lock_guard lock(impl_->append_mutex_);
  impl_->config_ = config;
  impl_->TellChangeLocked();  // flush.ms may ask for more than before
}

LogConfig PartitionLog::config() const {
  std::lock_guard lock(impl_->append_mutex_);
  return impl_->config_;
}

Status PartitionLog::offline() const {
  std::lock_guard lock(impl_->append_mutex_);
  return impl_->offline_;
}

int64_t PartitionLog::SizeBytes() const {
  int64_t bytes = 0;
  for (const auto& segment : *impl_->Published().segments) bytes += segment->size();
  return bytes;
}

int64_t PartitionLog::SegmentCount() const {
  return static_cast<int64_t>(impl_->Published().segments->size());
}

}  // namespace kmirror::broker
