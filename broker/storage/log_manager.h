// A broker's data directory: the partition logs in it and the files that belong to all of them.
//
// meta.properties, .lock, the clean-shutdown mark, and the checkpoints of recovery points, high
// watermarks and log starts, as Kafka writes them. Thread-safe. Starts no threads: the owner calls
// Tick() now and then (about once a second) from a thread that may block on the disk.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <shared_mutex>
#include <string>
#include <vector>

#include "broker/storage/checkpoint_file.h"
#include "broker/storage/fd_cache.h"
#include "broker/storage/log_config.h"
#include "broker/storage/partition_log.h"
#include "kmirror/status.h"
#include "kmirror/types.h"

namespace kmirror::broker {

class LogManager {
 public:
  struct Options {
    std::string directory;   // created if missing
    std::string cluster_id;  // empty: whatever meta.properties says
    int32_t node_id = 0;
    LogConfig defaults;
    FileIo* io = nullptr;             // null: the real one
    const LogClock* clock = nullptr;  // null: the system's
    // Segment files kept open; more are opened and closed again. At most half the process's limit.
    int32_t open_files_max = 2000;
    int64_t checkpoint_interval_ms = 60000;
    int64_t high_watermark_checkpoint_interval_ms = 5000;
    int64_t retention_check_interval_ms = 300000;
    // The config of a topic at opening; null: the defaults.
    std::function<LogConfig(const std::string& topic)> config_of;
    bool high_watermark_follows_end = true;
    // For names and ids that nothing else may have; null: the system's randomness.
    std::function<uint32_t()> random;
  };

  struct MetaProperties {
    int32_t version = 1;
    int32_t node_id = -1;
    std::string cluster_id;
    std::string directory_id;
  };

  struct Directory {  // a partition directory that could not be opened
    std::string name;
    Status why;
  };

  // Reads meta.properties of `directory`. RESOURCE_NOT_FOUND: there is none (not formatted).
  // INVALID_CONFIG: another version than 1, or a key is missing; names file and key.
  static Result<MetaProperties> ReadMetaProperties(const std::string& directory,
                                                   FileIo* io = nullptr);

  // Formats the directory if it has no meta.properties (needs a cluster id), locks it, opens every
  // partition directory. A partition that does not open is in unopened(), the others are served.
  // INCONSISTENT_CLUSTER_ID, INVALID_CONFIG: made by another cluster, node or version; nothing was
  // changed. LOG_DIR_NOT_FOUND: not usable; "in use by another process" when locked.
  static Result<std::unique_ptr<LogManager>> Open(const Options& options);
  // As a crash, unless Shutdown() was called.
  ~LogManager();

  const MetaProperties& meta() const { return meta_; }
  bool was_clean() const { return was_clean_; }
  const std::vector<Directory>& unopened() const { return unopened_; }

  // Null if there is no such partition.
  std::shared_ptr<PartitionLog> Find(const std::string& topic, int32_t partition) const;
  std::vector<std::shared_ptr<PartitionLog>> All() const;

  // Creates the directory (durably) and an empty log; the existing one if it has the same topic id.
  // INCONSISTENT_TOPIC_ID: one exists with another id. INVALID_TOPIC_EXCEPTION: the name cannot be
  // a directory.
  // kLater: the directory is durable once SyncNames has answered OK, which the caller then owes;
  // one call for all partitions of a topic. Not twice at the same time for one partition.
  enum class SyncName { kNow, kLater };
  Result<std::shared_ptr<PartitionLog>> Create(const std::string& topic, int32_t partition,
                                               const Uuid& topic_id, const LogConfig& config,
                                               SyncName sync = SyncName::kNow);
  Status SyncNames();
  // Renames the directory to `<topic>-<partition>.<32 hex>-delete`, durably; its files go later.
  // OK if there is none.
  Status Delete(const std::string& topic, int32_t partition);

  // What is due: retention, flush.ms, checkpoints, removal of files. Answers the first failure.
  Status Tick(int64_t now_ms);
  // Syncs every log that changed and writes all checkpoints.
  Status CheckpointAll();

  // In order: every log closed, checkpoints written, the mark last. Idempotent.
  Status Shutdown();

 private:
  explicit LogManager(const Options& options);
  Status Format();
  Status Lock();
  Status LoadAll();
  LogEnvironment Environment();
  PartitionLog::Options LogOptions(const TopicPartitionName& name) const;
  Status WriteRecoveryPoints();
  Status WriteHighWatermarks();
  Status WriteLogStarts();
  Status WriteCheckpoint(
      const char* file,
      const std::function<std::optional<int64_t>(const PartitionLog&)>& offset_of);
  std::vector<TopicPartitionName> TakeChanged();
  std::string PathOf(const std::string& name) const { return options_.directory + "/" + name; }

  Options options_;
  FileIo* io_;
  const LogClock* clock_;
  std::shared_ptr<FdCache> fds_;
  MetaProperties meta_;
  int lock_fd_ = -1;
  bool was_clean_ = false;
  bool loading_ = true;  // the checkpoint files still describe logs not opened yet
  bool shut_down_ = false;
  std::vector<Directory> unopened_;
  // Checkpoints of directories that could not be opened: kept for the next start.
  std::map<std::string, OffsetCheckpoint> kept_;

  mutable std::mutex mutex_;  // guards logs_ and doomed_; not held while a log is opened
  std::map<TopicPartitionName, std::shared_ptr<PartitionLog>> logs_;
  std::vector<std::pair<std::string, int64_t>> doomed_;  // renamed directories, when to remove them
  std::shared_mutex create_mutex_;  // one Delete at a time, and no Create beside it
  // One writer of the checkpoint files. Taken with a log's append lock held, so nothing under it
  // may ask a log for more than its published offsets.
  std::mutex checkpoint_mutex_;
  std::mutex changed_mutex_;                 // taken with a log's append lock held
  std::vector<TopicPartitionName> changed_;  // logs to look at in the next Tick
  bool high_watermarks_changed_ = true;      // perhaps, since they were written; Tick's alone
  int64_t last_checkpoint_ms_ = 0;
  int64_t last_high_watermark_ms_ = 0;
  int64_t last_retention_ms_ = 0;
  int64_t last_expiry_ms_ = 0;
};

}  // namespace kmirror::broker
