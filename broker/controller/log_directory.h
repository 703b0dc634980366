// Keeps the partition logs of this broker in step with the metadata, and their write barriers shut.
//
// The listener that creates logs before a topic is visible, deletes them after it is gone, tells
// logs their leader epoch and configs, and closes the barrier of a mirror's topic before the change
// of `mirror.name` is acknowledged (R2, R30). Request handlers find the logs here.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <shared_mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include "broker/config/broker_config.h"
#include "broker/controller/controller.h"
#include "broker/controller/metadata_image.h"
#include "broker/storage/log_manager.h"
#include "broker/storage/partition_log.h"
#include "kmirror/status.h"
#include "kmirror/types.h"

namespace kmirror::broker {

// The barrier mode that a `mirror.name` value asks for while nothing is known of partition states.
LocalWrites ClosedMode(const TopicImage& topic);

// One partition of which this broker is a replica (today: the only one). Thread-safe.
class Replica {
 public:
  Replica(TopicIdPartition id, std::string topic, std::shared_ptr<PartitionLog> log)
      : id_(id), topic_(std::move(topic)), log_(std::move(log)) {}

  const TopicIdPartition& id() const { return id_; }
  const std::string& topic() const { return topic_; }
  PartitionLog& log() const { return *log_; }
  const std::shared_ptr<PartitionLog>& log_ptr() const { return log_; }
  int32_t leader_epoch() const { return leader_epoch_.load(std::memory_order_acquire); }
  // The topic was deleted: kNotLeaderOrFollower from now on.
  bool removed() const { return removed_.load(std::memory_order_acquire); }

  // Opens or closes the barrier on behalf of a decision made at `metadata_version`.
  // kFencedStateEpoch: a newer metadata change has set the barrier. kFencedLeaderEpoch: another
  // epoch leads. kNotLeaderOrFollower: removed.
  Status SetLocalWrites(LocalWrites mode, int32_t leader_epoch, int64_t metadata_version);

 private:
  friend class LogDirectory;
  // A metadata change itself: always wins.
  void ForceLocalWrites(LocalWrites mode, int64_t metadata_version);
  Status Lead(int32_t leader_epoch, bool enter_in_history);

  const TopicIdPartition id_;
  const std::string topic_;
  const std::shared_ptr<PartitionLog> log_;
  std::mutex mutex_;  // orders barrier and epoch changes
  int64_t barrier_version_ = 0;
  std::atomic<int32_t> leader_epoch_{-1};
  std::atomic<bool> removed_{false};
};

class LogDirectory final : public MetadataListener {
 public:
  // `logs` outlives this. `config` is copied. `creators`: partitions of a topic that are created at
  // the same time, each on a thread: most of it is waiting for the disk, which carries out waiting
  // syncs together. 1: on the caller's thread.
  LogDirectory(LogManager* logs, const BrokerConfig& config, int creators = 1);

  // nullptr: no such partition here.
  std::shared_ptr<Replica> Find(const TopicIdPartition& partition) const;
  std::shared_ptr<Replica> Find(std::string_view topic, int32_t partition) const;
  std::vector<std::shared_ptr<Replica>> All() const;
  LogManager& manager() { return *logs_; }

  // Partitions that the metadata names and whose log could not be opened; they answer
  // kKafkaStorageError to clients and are absent from Find.
  std::vector<std::pair<TopicIdPartition, Status>> offline() const;

  Status Load(const ImagePtr& image) override;
  Status Prepare(const ImageDelta& delta, const MetadataImage& next) override;
  void Undo(const ImageDelta& delta) noexcept override;
  void Apply(const ImageDelta& delta, const MetadataImage& next) noexcept override;
  void Published(const ImageDelta& delta, const ImagePtr& image) noexcept override;

 private:
  Status RemoveStrays(const MetadataImage& image);
  Status CreateLogs(const TopicImage& topic, int32_t first);
  Status Register(const TopicImage& topic, int32_t partition, std::shared_ptr<PartitionLog> log,
                  int64_t version);
  void ApplyChanged(const TopicImage& before, const TopicImage& after, int64_t version);
  void Unregister(const TopicImage& topic);

  struct NameHash {
    using is_transparent = void;
    size_t operator()(std::string_view name) const { return std::hash<std::string_view>()(name); }
  };

  LogManager* const logs_;
  const BrokerConfig config_;
  const int creators_;
  mutable std::shared_mutex mutex_;  // guards the maps
  std::unordered_map<TopicIdPartition, std::shared_ptr<Replica>> by_id_;
  // Entries may be null: offline.
  std::unordered_map<std::string, std::vector<std::shared_ptr<Replica>>, NameHash, std::equal_to<>>
      by_name_;
  std::vector<std::pair<TopicIdPartition, Status>> offline_;
};

}  // namespace kmirror::broker
