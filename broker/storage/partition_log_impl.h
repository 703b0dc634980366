// The state behind PartitionLog, shared by the files that implement it:
//   log_append.cc      appends, rolls, the write barrier
//   log_read.cc        reads, look-ups by offset and epoch, aborted transactions
//   log_timestamps.cc  look-ups by time
//   log_recovery.cc    opening, scanning
//   log_truncation.cc  cutting at the end, restarting
//   log_retention.cc   cutting at the start
//   log_sync.cc        sync, close
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "broker/storage/partition_log.h"
#include "broker/storage/segment.h"
#include "broker/storage/snapshot_files.h"

namespace kmirror::broker {

using SegmentList = std::vector<std::shared_ptr<Segment>>;  // by base offset

// What readers see; replaced as a whole.
struct PublishedLog {
  LogPositions positions;
  std::shared_ptr<const SegmentList> segments;
  int64_t end_position = 0;  // size of the last segment at log_end
  uint64_t cuts = 0;
};

class PartitionLog::Impl {
 public:
  Impl(PartitionLog* owner, const Options& options);

  // Names: ...Locked needs append_mutex_.

  // --- log_recovery.cc
  Status LoadLocked(bool clean, int64_t recovery_point, int64_t log_start, int64_t high_watermark);
  Status CleanUpDirectoryLocked();
  Status FinishSwapsLocked(const std::vector<std::string>& names);
  Status LoadTopicIdLocked();
  Status LoadEpochsLocked();
  // Scans segments_[index]; *cut: it ended with something that was cut off.
  Status ScanLocked(size_t index, bool clean, const std::string& reason, bool* cut);
  Status SyncFoundLocked();
  void DropAfterLocked(size_t index);
  // log_end_, last_batch_epoch_ and ends_with_reset_ from the last batches on disk.
  Status FindEndLocked();

  // --- log_append.cc
  enum class Origin { kClient, kInternal };
  Result<AppendedBatch> AppendLocal(std::span<uint8_t> records, int32_t leader_epoch,
                                    Origin origin);
  // Headers of `records` into batches_; format rules of a produce.
  Status ParseLocal(std::span<const uint8_t> records, const LogConfig& config);
  // max_timestamp: in as the header claims, out as the records have it.
  Status CheckRecords(ByteView batch, const log::BatchInfo& info, const LogConfig& config,
                      int64_t* max_timestamp) const;
  Result<int64_t> AppendControlLocked(std::span<const uint8_t> batch, int32_t leader_epoch);
  // Writes `batches`, whose bytes are `pieces`, at the end, rolling where needed, and publishes.
  // Offsets and producers have been checked.
  Status WriteBatchesLocked(std::span<const iovec> pieces, std::span<const log::BatchInfo> batches);
  Status WritePartLocked(std::span<const iovec> pieces, std::span<const log::BatchInfo> batches,
                         int64_t bytes);
  Status WriteAtEndLocked(Segment& segment, std::span<const iovec> pieces, int64_t bytes);
  bool MustRollLocked(const Segment& active, const log::BatchInfo& first, int64_t bytes) const;
  Status RollLocked(int64_t base_offset);
  Status MaybeFlushMessages(bool due);

  // --- log_truncation.cc
  // REQUIRES: offset >= log_start_.
  Status TruncateLocked(int64_t offset);
  Status ResetLocked(int64_t offset);
  Status DropSegmentLocked();  // the last one
  Status DropSegmentDurablyLocked();
  Status PrepareResetLocked(
      int64_t offset);  // to be called before ResetLocked, fails without effect
  void LowerRecoveryPointLocked(int64_t offset);
  Status RewriteEpochsLocked();
  Status SyncCut();  // not under the append lock

  // --- log_retention.cc
  Status DropFirstSegmentsLocked(size_t count);
  void SetLogStartLocked(int64_t offset);
  Status DropBelowLogStartLocked();

  // --- log_sync.cc
  // What a sync up to log_end_ has to write; taken under the append lock, done without it.
  struct SyncPlan {
    int64_t end = 0;
    uint64_t cuts = 0;
    SegmentList segments;  // the last one may be the active one
    std::shared_ptr<Segment> active;
    std::optional<std::string> epochs;
    std::vector<int64_t> snapshots;
    bool directory = false;
  };
  SyncPlan PlanSyncLocked(bool with_active);
  Result<int64_t> RunSync(bool with_active, int64_t wanted);
  // *broken: the disk may have lost what was written; the log must not go on.
  // *batches: all of them are on disk, whatever became of the files derived from them.
  Status Carry(const SyncPlan& plan, bool* broken, bool* batches);

  // Writes again what lies at and above `offset`, byte for byte, and syncs it.
  Status RewriteTailLocked(int64_t offset);

  // Producer state from the newest snapshot at or below `offset`, replayed up to it. now_ms < 0:
  // nobody is dropped for being idle.
  Status LoadProducersLocked(int64_t offset, int64_t now_ms);

  // --- common
  Status CheckUsableLocked(int32_t leader_epoch) const;
  // After an operation that left memory and disk apart.
  Status GoOfflineLocked(Status why);
  // See LogEnvironment::write_checkpoints.
  Status WriteCheckpointsLocked();
  void PublishLocked();
  void TellChangeLocked();
  void SetHighWatermarkLocked(int64_t offset);
  PublishedLog Published() const;
  void Notify();
  Segment& ActiveLocked() { return *segments_.back(); }
  int64_t NowMs() const { return clock_->NowMs(); }

  PartitionLog* const owner_;
  FileIo* const io_;
  const LogClock* const clock_;
  const std::shared_ptr<FdCache> fds_;
  LogEnvironment environment_;
  const bool follow_end_;

  // One writer at a time; everything below up to published_mutex_ is guarded by it.
  mutable std::mutex append_mutex_;
  LogConfig config_;
  std::string directory_;
  SegmentList segments_;
  bool segments_changed_ = true;  // the published list is stale
  log::ProducerState producers_;
  log::EpochHistory epochs_;
  bool epochs_dirty_ = false;     // not on disk as they are in memory
  bool directory_dirty_ = false;  // files created or renamed since the last sync
  SnapshotFiles snapshots_;
  std::vector<std::pair<std::shared_ptr<Segment>, int64_t>>
      deleted_;  // with the time to remove them
  int64_t log_start_ = 0;
  int64_t log_end_ = 0;
  int64_t high_watermark_ = 0;
  int32_t leader_epoch_ = -1;
  int64_t leader_epoch_start_ = -1;
  int32_t last_batch_epoch_ = -1;
  bool ends_with_reset_ = false;
  LocalWrites local_writes_ = LocalWrites::kAllowed;
  bool log_start_unsaved_ =
      false;  // a raise whose checkpoint failed: the next one, or the same, writes it
  // How often the end moved back; counted before a file changes. Slices hold it.
  const std::shared_ptr<std::atomic<uint64_t>> cuts_ = std::make_shared<std::atomic<uint64_t>>(0);
  int64_t unflushed_messages_ = 0;
  int64_t oldest_unflushed_ms_ = -1;
  bool closed_ = false;
  bool change_told_ = false;  // to environment_.changed, since the last Upkeep
  Status offline_;
  std::vector<log::BatchInfo> batches_;  // scratch: headers of a local append
  std::vector<AbortedEntry> aborted_scratch_;
  std::vector<iovec> pieces_;  // scratch: what one write is made of

  mutable std::mutex published_mutex_;  // never held while anything else is taken
  PublishedLog published_;
  std::optional<int64_t> log_start_to_checkpoint_;

  std::mutex sync_mutex_;  // one sync at a time; taken before append_mutex_
  std::atomic<int64_t> recovery_point_{0};

  std::mutex listener_mutex_;
  PartitionLogListener* listener_ = nullptr;
};

}  // namespace kmirror::broker
