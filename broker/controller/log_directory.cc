#include "broker/controller/log_directory.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <atomic>
#include <mutex>
#include <optional>
#include <system_error>
#include <thread>
#include <utility>

namespace kmirror::broker {
namespace {

std::optional<std::string> MirrorName(const TopicImage& topic) {
  const auto found = topic.configs.find(std::string(kMirrorNameConfig));
  if (found == topic.configs.end()) return std::nullopt;
  return found->second;
}

// While a mirror owns the log its batches bring their own epochs: the leader's enters the history
// with the first batch this broker writes itself (fetcher-and-log.md 2.5).
bool EntersHistory(const TopicImage& topic) { return MirrorLinkOf(topic).mirror.empty(); }

std::string PartitionName(const std::string& topic, int32_t partition) {
  return topic + "-" + std::to_string(partition);
}

}  // namespace

LocalWrites ClosedMode(const TopicImage& topic) {
  switch (MirrorLinkOf(topic).desired) {
    case DesiredState::kNone: return LocalWrites::kAllowed;
    case DesiredState::kStopped: return LocalWrites::kStopping;
    default: return LocalWrites::kReadOnly;
  }
}

Status Replica::SetLocalWrites(LocalWrites mode, int32_t leader_epoch, int64_t metadata_version) {
  std::lock_guard lock(mutex_);
  if (removed())
    return {ErrorCode::kNotLeaderOrFollower, PartitionName(topic_, id_.partition) + " was deleted"};
  if (leader_epoch != this->leader_epoch()) {
    return {ErrorCode::kFencedLeaderEpoch,
            PartitionName(topic_, id_.partition) + " is led with epoch " +
                std::to_string(this->leader_epoch()) + ", not " + std::to_string(leader_epoch)};
  }
  if (metadata_version < barrier_version_) {
    return {ErrorCode::kFencedStateEpoch,
            PartitionName(topic_, id_.partition) + ": metadata version " +
                std::to_string(barrier_version_) + " has set the barrier after " +
                std::to_string(metadata_version)};
  }
  barrier_version_ = metadata_version;
  log_->SetLocalWrites(mode);
  return {};
}

void Replica::ForceLocalWrites(LocalWrites mode, int64_t metadata_version) {
  std::lock_guard lock(mutex_);
  barrier_version_ = metadata_version;
  log_->SetLocalWrites(mode);
}

Status Replica::Lead(int32_t leader_epoch, bool enter_in_history) {
  std::lock_guard lock(mutex_);
  Status s = log_->BecomeLeader(leader_epoch, enter_in_history);
  if (s.ok()) leader_epoch_.store(leader_epoch, std::memory_order_release);
  return s;
}

LogDirectory::LogDirectory(LogManager* logs, const BrokerConfig& config, int creators)
    : logs_(logs), config_(config), creators_(creators) {}

std::shared_ptr<Replica> LogDirectory::Find(const TopicIdPartition& partition) const {
  std::shared_lock lock(mutex_);
  const auto found = by_id_.find(partition);
  return found == by_id_.end() ? nullptr : found->second;
}

std::shared_ptr<Replica> LogDirectory::Find(std::string_view topic, int32_t partition) const {
  std::shared_lock lock(mutex_);
  const auto found = by_name_.find(topic);
  if (found == by_name_.end() || partition < 0 ||
      static_cast<size_t>(partition) >= found->second.size()) {
    return nullptr;
  }
  return found->second[static_cast<size_t>(partition)];
}

std::vector<std::shared_ptr<Replica>> LogDirectory::All() const {
  std::shared_lock lock(mutex_);
  std::vector<std::shared_ptr<Replica>> replicas;
  replicas.reserve(by_id_.size());
  for (const auto& [id, replica] : by_id_) replicas.push_back(replica);
  return replicas;
}

std::vector<std::pair<TopicIdPartition, Status>> LogDirectory::offline() const {
  std::shared_lock lock(mutex_);
  return offline_;
}

Status LogDirectory::Load(const ImagePtr& image) {
  if (Status s = RemoveStrays(*image); !s.ok()) return s;
  for (const TopicPtr& topic : image->topics.Sorted()) {
    const LogConfig config = LogConfigFor(topic->configs, config_);
    for (int32_t p = 0; p < topic->partition_count(); ++p) {
      const std::string name = PartitionName(topic->name, p);
      Status why;
      for (const LogManager::Directory& directory : logs_->unopened()) {
        if (directory.name == name) why = directory.why;
      }
      if (why.ok()) {
        // Missing ones are made anew: metadata never names a partition before its directory is
        // durable, so somebody has taken it away.
        Result<std::shared_ptr<PartitionLog>> log =
            logs_->Create(topic->name, p, topic->id, config);
        why = log.status();
        if (log.ok()) {
          (*log)->SetConfig(config);
          why = Register(*topic, p, std::move(*log), image->version);
        }
      }
      if (!why.ok()) {
        spdlog::error("event=partition_offline partition={} reason=\"{}\"", name, why.ToString());
        std::unique_lock lock(mutex_);
        offline_.emplace_back(TopicIdPartition{topic->id, p}, std::move(why));
      }
    }
  }
  return {};
}

// Directories of topics that the metadata does not have: a deletion that a crash cut short, or a
// creation that never became durable.
Status LogDirectory::RemoveStrays(const MetadataImage& image) {
  std::vector<std::shared_ptr<PartitionLog>> strays;
  for (const std::shared_ptr<PartitionLog>& log : logs_->All()) {
    const TopicPtr topic = image.topics.Find(log->topic());
    const bool known = topic != nullptr && log->partition() < topic->partition_count() &&
                       (log->topic_id().IsZero() || log->topic_id() == topic->id);
    if (!known) strays.push_back(log);
  }
  // Metadata in which nothing ever happened, beside logs with records: it is not theirs (R19).
  if (image.version <= 1) {
    for (const std::shared_ptr<PartitionLog>& log : strays) {
      if (log->Positions().log_end == 0) continue;
      return {ErrorCode::kInconsistentClusterId,
              "the data folder has records of " + PartitionName(log->topic(), log->partition()) +
                  " and the metadata folder is new; is kmirror.metadata.dir right?"};
    }
  }
  for (const std::shared_ptr<PartitionLog>& log : strays) {
    spdlog::warn("event=stray_removed partition={} topic_id={} records_end={}",
                 PartitionName(log->topic(), log->partition()), log->topic_id().ToString(),
                 log->Positions().log_end);
    if (Status s = logs_->Delete(log->topic(), log->partition()); !s.ok()) return s;
  }
  return {};
}

Status LogDirectory::Register(const TopicImage& topic, int32_t partition,
                              std::shared_ptr<PartitionLog> log, int64_t version) {
  auto replica =
      std::make_shared<Replica>(TopicIdPartition{topic.id, partition}, topic.name, std::move(log));
  // The barrier first: nobody may find the replica open.
  replica->ForceLocalWrites(ClosedMode(topic), version);
  const int32_t epoch = topic.partitions[static_cast<size_t>(partition)].leader_epoch;
  if (Status s = replica->Lead(epoch, EntersHistory(topic)); !s.ok()) return s;
  std::unique_lock lock(mutex_);
  by_id_[replica->id()] = replica;
  std::vector<std::shared_ptr<Replica>>& partitions = by_name_[topic.name];
  if (partitions.size() < topic.partitions.size()) partitions.resize(topic.partitions.size());
  partitions[static_cast<size_t>(partition)] = std::move(replica);
  return {};
}

Status LogDirectory::Prepare(const ImageDelta& delta, const MetadataImage& next) {
  (void)next;
  bool created = false;
  for (const ImageDelta::Topic& change : delta.topics) {
    if (change.after == nullptr) continue;
    const int32_t first = change.before == nullptr ? 0 : change.before->partition_count();
    if (first == change.after->partition_count()) continue;
    if (Status s = CreateLogs(*change.after, first); !s.ok()) return s;
    created = true;
  }
  return created ? logs_->SyncNames() : Status();
}

Status LogDirectory::CreateLogs(const TopicImage& topic, int32_t first) {
  const LogConfig config = LogConfigFor(topic.configs, config_);
  const auto create = [&](int32_t p) -> Status {
    const auto once = [&] {
      return logs_->Create(topic.name, p, topic.id, config, LogManager::SyncName::kLater).status();
    };
    Status status = once();
    if (status.code() == ErrorCode::kInconsistentTopicId) {
      // Left over from a topic of that name that is gone from the metadata.
      if (Status s = logs_->Delete(topic.name, p); !s.ok()) return s;
      status = once();
    }
    return status.WithContext(PartitionName(topic.name, p));
  };
  std::atomic<int32_t> next{first};
  std::mutex mutex;
  Status failed;  // guarded by mutex
  const auto work = [&] {
    for (int32_t p; (p = next.fetch_add(1)) < topic.partition_count();) {
      Status status = create(p);
      if (status.ok()) continue;
      next = topic.partition_count();
      const std::lock_guard lock(mutex);
      if (failed.ok()) failed = std::move(status);
    }
  };
  std::vector<std::thread> helpers;
  for (int i = 1; i < std::min(creators_, topic.partition_count() - first); ++i) {
    try {
      helpers.emplace_back(work);
    } catch (const std::system_error&) {
      break;  // no more threads to be had: fewer do the same
    }
  }
  work();
  for (std::thread& helper : helpers) helper.join();
  return failed;
}

void LogDirectory::Undo(const ImageDelta& delta) noexcept {
  for (const ImageDelta::Topic& change : delta.topics) {
    if (change.after == nullptr) continue;
    const int32_t first = change.before == nullptr ? 0 : change.before->partition_count();
    for (int32_t p = first; p < change.after->partition_count(); ++p) {
      if (logs_->Find(change.after->name, p) == nullptr) continue;
      // What stays is a stray without records; the next start removes it.
      if (Status s = logs_->Delete(change.after->name, p); !s.ok()) {
        spdlog::warn("event=undo_failed partition={} reason=\"{}\"",
                     PartitionName(change.after->name, p), s.ToString());
      }
    }
  }
}

void LogDirectory::ApplyChanged(const TopicImage& before, const TopicImage& after,
                                int64_t version) {
  const bool barrier = MirrorName(before) != MirrorName(after);
  const bool config = before.configs != after.configs;
  const LogConfig log_config = LogConfigFor(after.configs, config_);
  for (int32_t p = 0; p < before.partition_count(); ++p) {
    const std::shared_ptr<Replica> replica = Find(TopicIdPartition{after.id, p});
    if (replica == nullptr) continue;  // offline
    if (barrier) replica->ForceLocalWrites(ClosedMode(after), version);
    const int32_t epoch = after.partitions[static_cast<size_t>(p)].leader_epoch;
    if (epoch != before.partitions[static_cast<size_t>(p)].leader_epoch) {
      if (Status s = replica->Lead(epoch, EntersHistory(after)); !s.ok()) {
        spdlog::error("event=leader_epoch_refused partition={} epoch={} reason=\"{}\"",
                      PartitionName(after.name, p), epoch, s.ToString());
      }
    }
    if (config) replica->log().SetConfig(log_config);
  }
}

void LogDirectory::Apply(const ImageDelta& delta, const MetadataImage& next) noexcept {
  for (const ImageDelta::Topic& change : delta.topics) {
    if (change.after == nullptr) {
      Unregister(*change.before);
      continue;
    }
    if (change.before != nullptr) ApplyChanged(*change.before, *change.after, next.version);
    const int32_t first = change.before == nullptr ? 0 : change.before->partition_count();
    for (int32_t p = first; p < change.after->partition_count(); ++p) {
      std::shared_ptr<PartitionLog> log = logs_->Find(change.after->name, p);
      const Status s = log == nullptr
                           ? Status(ErrorCode::kKafkaStorageError, "its directory is gone")
                           : Register(*change.after, p, std::move(log), next.version);
      if (s.ok()) continue;
      spdlog::error("event=partition_offline partition={} reason=\"{}\"",
                    PartitionName(change.after->name, p), s.ToString());
      std::unique_lock lock(mutex_);
      offline_.emplace_back(TopicIdPartition{change.after->id, p}, s);
    }
  }
}

void LogDirectory::Unregister(const TopicImage& topic) {
  for (int32_t p = 0; p < topic.partition_count(); ++p) {
    const std::shared_ptr<Replica> replica = Find(TopicIdPartition{topic.id, p});
    if (replica != nullptr) replica->removed_.store(true, std::memory_order_release);
  }
  std::unique_lock lock(mutex_);
  by_name_.erase(topic.name);
  for (int32_t p = 0; p < topic.partition_count(); ++p) by_id_.erase(TopicIdPartition{topic.id, p});
  std::erase_if(offline_, [&](const auto& entry) { return entry.first.topic_id == topic.id; });
}

void LogDirectory::Published(const ImageDelta& delta, const ImagePtr& image) noexcept {
  (void)image;
  for (const ImageDelta::Topic& change : delta.topics) {
    if (change.after != nullptr) continue;
    for (int32_t p = 0; p < change.before->partition_count(); ++p) {
      // What stays is a stray; the next start removes it.
      if (Status s = logs_->Delete(change.before->name, p); !s.ok()) {
        spdlog::error("event=delete_failed partition={} reason=\"{}\"",
                      PartitionName(change.before->name, p), s.ToString());
      }
    }
  }
}

}  // namespace kmirror::broker
