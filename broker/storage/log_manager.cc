#include "broker/storage/log_manager.h"

#include <fcntl.h>
#include <sys/resource.h>

#include <algorithm>
#include <cerrno>
#include <random>

#include "broker/storage/files.h"

namespace kmirror::broker {
namespace {

constexpr const char* kCleanShutdown = ".kafka_cleanshutdown";
constexpr const char* kRecoveryPoints = "recovery-point-offset-checkpoint";
constexpr const char* kHighWatermarks = "replication-offset-checkpoint";
constexpr const char* kLogStarts = "log-start-offset-checkpoint";
constexpr std::string_view kDeleteSuffix = "-delete";

bool EndsWith(std::string_view text, std::string_view end) {
  return text.size() >= end.size() && text.substr(text.size() - end.size()) == end;
}

int64_t OffsetOr(const OffsetCheckpoint& offsets, const TopicPartitionName& name,
                 int64_t otherwise) {
  const auto found = offsets.find(name);
  return found == offsets.end() ? otherwise : found->second;
}

// Sockets and everything else need descriptors too: at most half of what the process may have.
size_t FilesKeptOpen(int32_t wanted) {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) {
    limit.rlim_cur = 65536;
  }
  return std::min<size_t>(static_cast<size_t>(std::max(wanted, 0)), limit.rlim_cur / 2);
}

}  // namespace

LogManager::LogManager(const Options& options)
    : options_(options),
      io_(options.io != nullptr ? options.io : FileIo::Posix()),
      clock_(options.clock != nullptr ? options.clock : LogClock::System()),
      fds_(std::make_shared<FdCache>(FilesKeptOpen(options.open_files_max))) {
  if (!options_.random) options_.random = [] { return std::random_device()(); };
}

LogManager::~LogManager() {
  // Others may hold logs for longer: they can read, and change nothing any more.
  for (const auto& log : All()) log->Abandon(log->directory());
  logs_.clear();
  if (lock_fd_ >= 0) io_->Close(lock_fd_);
}

Result<std::unique_ptr<LogManager>> LogManager::Open(const Options& options) {
  std::unique_ptr<LogManager> manager(new LogManager(options));
  if (Status made = MakeDirectories(manager->io_, options.directory); !made.ok()) {
    return Status(ErrorCode::kLogDirNotFound, made.message());
  }
  Status status = manager->Lock();
  if (status.ok()) status = manager->Format();
  if (status.ok()) status = manager->LoadAll();
  if (!status.ok()) return status;
  return manager;
}

Status LogManager::Lock() {
  const std::string path = PathOf(".lock");
  lock_fd_ = io_->Open(path, O_RDWR | O_CREAT, 0644);
  if (lock_fd_ < 0) return {ErrorCode::kLogDirNotFound, ErrnoStatus("open", path, errno).message()};
  if (io_->Lock(lock_fd_) != 0) {
    return {ErrorCode::kLogDirNotFound, options_.directory + " is in use by another process"};
  }
  return Status::Ok();
}

LogEnvironment LogManager::Environment() {
  return {.io = io_,
          .clock = clock_,
          .files = fds_,
          .write_checkpoints = [this]() -> Status {
            if (loading_) return Status::Ok();  // written once all are open
            Status starts = WriteLogStarts();
            return starts.ok() ? WriteRecoveryPoints() : starts;
          },
          .changed =
              [this](const std::string& topic, int32_t partition) {
                std::lock_guard lock(changed_mutex_);
                changed_.push_back({topic, partition});
              }};
}

PartitionLog::Options LogManager::LogOptions(const TopicPartitionName& name) const {
  PartitionLog::Options options;
  options.directory = PathOf(name.DirectoryName());
  options.topic = name.topic;
  options.partition = name.partition;
  options.config = options_.config_of ? options_.config_of(name.topic) : options_.defaults;
  options.high_watermark_follows_end = options_.high_watermark_follows_end;
  return options;
}

Status LogManager::LoadAll() {
  was_clean_ = io_->Size(PathOf(kCleanShutdown)) >= 0;
  Result<OffsetCheckpoint> recovery_points = ReadCheckpoint(io_, PathOf(kRecoveryPoints));
  Result<OffsetCheckpoint> high_watermarks = ReadCheckpoint(io_, PathOf(kHighWatermarks));
  Result<OffsetCheckpoint> log_starts = ReadCheckpoint(io_, PathOf(kLogStarts));
  // A damaged checkpoint costs a scan of everything, or old positions; never the data.
  if (!recovery_points.ok()) recovery_points = OffsetCheckpoint();
  if (!high_watermarks.ok()) high_watermarks = OffsetCheckpoint();
  if (!log_starts.ok()) log_starts = OffsetCheckpoint();
  Result<std::vector<std::string>> names = ListDirectory(io_, options_.directory);
  if (!names.ok()) return names.status();
  for (const std::string& name : *names) {
    const std::string path = PathOf(name);
    if (!io_->IsDirectory(path)) continue;
    if (EndsWith(name, kDeleteSuffix)) {
      doomed_.emplace_back(path, 0);
      continue;
    }
    const auto partition = ParseDirectoryName(name);
    if (!partition || partition->DirectoryName() != name) continue;
    PartitionLog::Options options = LogOptions(*partition);
    options.environment = Environment();
    // One without a recovery point was put here by hand: nobody closed it in order.
    options.clean_shutdown = was_clean_ && recovery_points->contains(*partition);
    options.recovery_point = OffsetOr(*recovery_points, *partition, 0);
    options.log_start = OffsetOr(*log_starts, *partition, -1);
    options.high_watermark = OffsetOr(*high_watermarks, *partition, -1);
    Result<std::shared_ptr<PartitionLog>> log = PartitionLog::Open(options);
    if (log.ok()) {
      logs_[*partition] = *log;
      continue;
    }
    unopened_.push_back({name, log.status()});
    for (const auto& [file, offsets] :
         {std::pair(kRecoveryPoints, &*recovery_points),
          std::pair(kHighWatermarks, &*high_watermarks), std::pair(kLogStarts, &*log_starts)}) {
      // Unclean from now on for it: what stands in its index files is not to be trusted.
      if (file == kRecoveryPoints && was_clean_) continue;
      if (offsets->contains(*partition)) kept_[file][*partition] = offsets->at(*partition);
    }
  }
  loading_ = false;
  last_checkpoint_ms_ = last_high_watermark_ms_ = clock_->NowMs();
  last_retention_ms_ = last_expiry_ms_ = last_checkpoint_ms_;
  // Recovery points first: once the mark is gone they decide what is scanned.
  Status status = WriteRecoveryPoints();
  if (status.ok()) status = WriteLogStarts();
  if (!status.ok()) return status;
  if (was_clean_) {
    if (io_->Remove(PathOf(kCleanShutdown)) != 0) {
      return ErrnoStatus("remove", PathOf(kCleanShutdown), errno);
    }
    return SyncDirectory(io_, options_.directory);
  }
  return Status::Ok();
}

std::shared_ptr<PartitionLog> LogManager::Find(const std::string& topic, int32_t partition) const {
  std::lock_guard lock(mutex_);
  const auto found = logs_.find({topic, partition});
  return found == logs_.end() ? nullptr : found->second;
}

std::vector<std::shared_ptr<PartitionLog>> LogManager::All() const {
  std::lock_guard lock(mutex_);
  std::vector<std::shared_ptr<PartitionLog>> all;
  all.reserve(logs_.size());
  for (const auto& [name, log] : logs_) all.push_back(log);
  return all;
}

Result<std::shared_ptr<PartitionLog>> LogManager::Create(const std::string& topic,
                                                         int32_t partition, const Uuid& topic_id,
                                                         const LogConfig& config, SyncName sync) {
  if (topic.empty() || topic == "." || topic == ".." || topic.size() > 249 || partition < 0 ||
      topic.find_first_not_of(
          "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-") !=
          std::string::npos) {
    return Status(ErrorCode::kInvalidTopic, "\"" + topic + "\" cannot be a directory");
  }
  std::shared_lock create_lock(create_mutex_);
  if (std::shared_ptr<PartitionLog> log = Find(topic, partition)) {
    if (log->topic_id() == topic_id || topic_id.IsZero()) return log;
    return Status(ErrorCode::kInconsistentTopicId, log->directory() + " has topic id " +
                                                       log->topic_id().ToString() + ", not " +
                                                       topic_id.ToString());
  }
  const TopicPartitionName name{topic, partition};
  PartitionLog::Options options = LogOptions(name);
  options.environment = Environment();
  options.topic_id = topic_id;
  options.config = config;
  if (io_->MakeDirectories(options.directory) < 0) {
    return ErrnoStatus("create", options.directory, errno);
  }
  if (sync == SyncName::kNow) {
    if (Status synced = SyncNames(); !synced.ok()) return synced;  // also one that a crash left
  }
  Result<std::shared_ptr<PartitionLog>> log = PartitionLog::Open(options);
  if (!log.ok()) return log;
  std::lock_guard lock(mutex_);
  logs_[name] = *log;
  std::erase_if(unopened_,
                [&](const Directory& each) { return each.name == name.DirectoryName(); });
  return log;
}

Status LogManager::SyncNames() { return SyncDirectory(io_, options_.directory); }

Status LogManager::Delete(const std::string& topic, int32_t partition) {
  std::lock_guard create_lock(create_mutex_);
  const TopicPartitionName name{topic, partition};
  const std::string from = PathOf(name.DirectoryName());
  std::shared_ptr<PartitionLog> log = Find(topic, partition);
  if (log == nullptr && io_->Size(from) < 0) return Status::Ok();
  std::string hex;
  for (int i = 0; i < 32; ++i) hex += "0123456789abcdef"[options_.random() & 15];
  const std::string to = from + "." + hex + std::string(kDeleteSuffix);
  if (log != nullptr) log->Abandon(to);
  if (io_->Rename(from, to) != 0) return ErrnoStatus("rename", from, errno);
  {
    std::lock_guard lock(mutex_);
    logs_.erase(name);
    doomed_.emplace_back(to, clock_->NowMs() + options_.defaults.file_delete_delay_ms);
  }
  // Else a topic of the same name would inherit them after a crash.
  Status status = SyncDirectory(io_, options_.directory);
  if (status.ok()) status = WriteLogStarts();
  return status.ok() ? WriteRecoveryPoints() : status;
}

Status LogManager::WriteCheckpoint(
    const char* file, const std::function<std::optional<int64_t>(const PartitionLog&)>& offset_of) {
  std::lock_guard checkpoint_lock(checkpoint_mutex_);
  // Straight into text: with many partitions this is what an idle broker spends its time on.
  std::string lines;
  size_t count = 0;
  for (const auto& log : All()) {
    const auto offset = offset_of(*log);
    if (!offset) continue;
    AppendCheckpointLine(log->topic(), log->partition(), *offset, &lines);
    ++count;
  }
  if (const auto kept = kept_.find(file); kept != kept_.end()) {
    for (const auto& [name, offset] : kept->second) {
      if (Find(name.topic, name.partition) != nullptr) continue;
      AppendCheckpointLine(name.topic, name.partition, offset, &lines);
      ++count;
    }
  }
  return ReplaceFile(io_, PathOf(file), EncodeCheckpoint(count, lines));
}

Status LogManager::WriteRecoveryPoints() {
  return WriteCheckpoint(kRecoveryPoints, [](const PartitionLog& log) {
    return std::optional<int64_t>(log.RecoveryPoint());
  });
}

Status LogManager::WriteHighWatermarks() {
  return WriteCheckpoint(kHighWatermarks, [](const PartitionLog& log) {
    return std::optional<int64_t>(log.Positions().high_watermark);
  });
}

Status LogManager::WriteLogStarts() {
  return WriteCheckpoint(kLogStarts,
                         [](const PartitionLog& log) { return log.LogStartToCheckpoint(); });
}

Status LogManager::CheckpointAll() {
  Status first;
  const auto note = [&](Status status) {
    if (first.ok() && !status.ok()) first = status;
  };
  for (const auto& log : All()) {
    if (log->Positions().log_end == log->RecoveryPoint()) continue;
    const Result<int64_t> synced = log->Sync();
    if (!synced.ok()) note(synced.status().WithContext(log->directory()));
  }
  note(WriteRecoveryPoints());
  note(WriteLogStarts());
  note(WriteHighWatermarks());
  return first;
}

Status LogManager::Tick(int64_t now_ms) {
  Status first;
  const auto note = [&](Status status) {
    if (first.ok() && !status.ok()) first = status;
  };
  const bool retention = now_ms - last_retention_ms_ >= options_.retention_check_interval_ms;
  if (retention) last_retention_ms_ = now_ms;
  // Seldom, as in Kafka (producer.id.expiration.check.interval.ms): age is that of the records, so
  // a producer of old records would otherwise be forgotten between two of its batches, and its
  // retries no longer be known for what they are.
  constexpr int64_t kExpiryCheckMs = 600000;
  const bool expiry = now_ms - last_expiry_ms_ >= kExpiryCheckMs;
  if (expiry) last_expiry_ms_ = now_ms;
  // Only those that changed: a broker of many idle partitions has next to nothing to do.
  const std::vector<TopicPartitionName> changed = TakeChanged();
  if (!changed.empty()) high_watermarks_changed_ = true;
  for (const TopicPartitionName& name : changed) {
    const std::shared_ptr<PartitionLog> log = Find(name.topic, name.partition);
    if (log == nullptr) continue;
    bool again = false;
    note(log->Upkeep(now_ms, &again));
    if (!again) continue;
    std::lock_guard lock(changed_mutex_);
    changed_.push_back(name);
  }
  if (retention || expiry) {
    for (const auto& log : All()) {
      if (retention) {
        const Result<DeletedRange> deleted = log->ApplyRetention(now_ms);
        if (!deleted.ok()) note(deleted.status().WithContext(log->directory()));
      }
      if (expiry) log->ExpireProducers(now_ms);
    }
  }
  std::vector<std::string> due;
  {
    std::lock_guard lock(mutex_);
    std::erase_if(doomed_, [&](const auto& each) {
      if (each.second > now_ms) return false;
      due.push_back(each.first);
      return true;
    });
  }
  for (const std::string& directory : due) note(RemoveTree(io_, directory));
  if (now_ms - last_checkpoint_ms_ >= options_.checkpoint_interval_ms) {
    last_checkpoint_ms_ = last_high_watermark_ms_ = now_ms;
    note(WriteRecoveryPoints());
    note(WriteLogStarts());
    note(WriteHighWatermarks());
  } else if (high_watermarks_changed_ &&
             now_ms - last_high_watermark_ms_ >= options_.high_watermark_checkpoint_interval_ms) {
    last_high_watermark_ms_ = now_ms;
    Status written = WriteHighWatermarks();
    high_watermarks_changed_ = !written.ok();
    note(std::move(written));
  }
  return first;
}

std::vector<TopicPartitionName> LogManager::TakeChanged() {
  std::vector<TopicPartitionName> changed;
  {
    std::lock_guard lock(changed_mutex_);
    changed.swap(changed_);
  }
  // A log is here twice when it changed after it had asked to be looked at again.
  std::sort(changed.begin(), changed.end());
  changed.erase(std::unique(changed.begin(), changed.end()), changed.end());
  return changed;
}

Status LogManager::Shutdown() {
  if (shut_down_) return Status::Ok();
  Status first;
  const auto note = [&](Status status) {
    if (first.ok() && !status.ok()) first = status;
  };
  for (const auto& log : All()) note(log->Close().WithContext(log->directory()));
  note(WriteRecoveryPoints());
  note(WriteLogStarts());
  note(WriteHighWatermarks());
  if (!first.ok()) return first;  // no mark: the next start looks at everything itself
  if (unopened_.empty()) {
    first = ReplaceFile(io_, PathOf(kCleanShutdown), "{\"version\":0,\"brokerEpoch\":-1}");
  }
  if (first.ok()) shut_down_ = true;
  return first;
}

}  // namespace kmirror::broker
