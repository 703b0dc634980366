// The log of one partition replica, in Kafka's on-disk format: a directory `<topic>-<partition>`.
//
// Who calls: any thread. One mutex orders appends, truncation and everything else that changes the
// log; readers never wait for it, they use positions published after each change.
// Errors: a Status with Kafka's code. An append that fails leaves nothing visible, and the torn
// tail of a failed write is cut before the call returns. NO_SPACE and IO_ERROR of a refused write
// (no space, read-only file system) leave the log usable: the next append may succeed. After a
// failed sync, or a tail that could not be cut, the log is offline: every change answers
// KAFKA_STORAGE_ERROR until Reopen() succeeds.
// Offsets: "end" means the next one to write (exclusive).
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "broker/storage/log_config.h"
#include "broker/storage/log_slice.h"
#include "kmirror/log/batch.h"
#include "kmirror/log/epoch_history.h"
#include "kmirror/log/producer_state.h"
#include "kmirror/status.h"
#include "kmirror/types.h"

namespace kmirror::broker {

class PartitionLog;

// What clients of this cluster may do with the log.
enum class LocalWrites {
  kAllowed,
  kReadOnly,  // a mirror owns the log: produce is refused with READ_ONLY_TOPIC (R22, R23)
  kStopping,  // a stop is under way: NOT_ENOUGH_REPLICAS, clients retry (R30)
};

// One consistent picture of the log. log_start <= last_stable <= high_watermark <= log_end.
struct LogPositions {
  int64_t log_start = 0;
  int64_t last_stable = 0;
  int64_t high_watermark = 0;
  int64_t log_end = 0;
  int32_t last_batch_epoch = -1;    // of the batch that ends the log; -1: none (empty, v0, v1)
  int32_t latest_epoch = -1;        // latest entry of the epoch history, -1 when empty
  bool ends_with_reset = false;     // the last batch of the log is a MIRROR_PID_RESET
  int32_t leader_epoch = -1;        // of the local leader, as BecomeLeader set it
  int64_t leader_epoch_start = -1;  // where this leader began; lowered by truncation
  LocalWrites local_writes = LocalWrites::kAllowed;
};

struct AppendedBatch {
  int64_t base_offset = -1;
  int64_t last_offset = -1;
  int64_t log_append_time = -1;  // ms; -1 unless message.timestamp.type=LogAppendTime
  int64_t log_start = -1;
  bool duplicate = false;  // an idempotent repeat: nothing was appended
};

struct AbortedTransaction {
  int64_t producer_id = -1;
  int64_t first_offset = -1;
  bool operator==(const AbortedTransaction&) const = default;
};

enum class ReadBound { kLogEnd, kHighWatermark, kLastStable };

struct ReadResult {
  LogSlice slice;             // bytes == 0: nothing to read (yet)
  int64_t start_offset = -1;  // base offset of the first batch in the slice, -1 if none
  LogPositions positions;     // as they were when the bound was taken
  std::vector<AbortedTransaction> aborted;  // for kLastStable: those that touch the slice
};

struct OffsetAndTimestamp {
  int64_t offset = -1;  // -1: no such record
  int64_t timestamp = -1;
  int32_t leader_epoch = -1;
};

struct DeletedRange {  // what a change of the log start removed
  int64_t log_start = 0;
  int64_t segments = 0;
};

// Called after a change became visible: log end, high watermark, stable offset or log start moved,
// in either direction, or the log went offline. On the thread that made the change, without the
// locks of the log, in no particular order across threads: read Positions(). Must not throw, block,
// or call SetListener.
class PartitionLogListener {
 public:
  virtual ~PartitionLogListener() = default;
  virtual void OnLogChanged(PartitionLog& log) noexcept = 0;
  virtual void OnLogOffline(PartitionLog& log, const Status& why) noexcept { (void)log, (void)why; }
};

class PartitionLog {
 public:
  struct Options {
    std::string directory;  // its path; the last component is `<topic>-<partition>`
    std::string topic;
    int32_t partition = 0;
    Uuid topic_id;  // written to partition.metadata when the directory has none
    LogConfig config;
    LogEnvironment environment;
    bool clean_shutdown = false;  // the data directory was closed in order: indexes are trusted
    int64_t recovery_point = 0;   // unclean: segments below it are trusted
    int64_t log_start = -1;       // from log-start-offset-checkpoint; -1: the first segment's base
    int64_t high_watermark = -1;  // from replication-offset-checkpoint; -1: none
    // One replica: the high watermark is the log end, always. Otherwise SetHighWatermark moves it.
    bool high_watermark_follows_end = true;
  };

  // What opening found; for the log line and for tests.
  struct LoadReport {
    int64_t scanned_segments = 0;
    int64_t scanned_bytes = 0;
    int64_t torn_bytes = 0;  // cut off the end
    int64_t removed_segments = 0;
    std::string reason;  // why the first scan was needed; empty: none was
  };

  // Opens or creates. The directory exists already; its own creation is LogManager's.
  // INCONSISTENT_TOPIC_ID: partition.metadata names another id than options.topic_id (if not zero).
  static Result<std::shared_ptr<PartitionLog>> Open(const Options& options);
  // Files are closed as they are, as after a crash, unless Close() was called.
  ~PartitionLog();

  const std::string& topic() const { return topic_; }
  int32_t partition() const { return partition_; }
  const Uuid& topic_id() const { return topic_id_; }
  const std::string& directory() const { return directory_; }
  const LoadReport& load_report() const { return report_; }

  // --- Appending
  // -----------------------------------------------------------------------------------

  // A produce of one of our clients. Sets base offset, leader epoch and, for LogAppendTime, flag,
  // time and checksum in `records`, then appends them. Several batches are taken only from
  // producers without id (as Kafka). `leader_epoch`: the one the caller leads with (-1: not
  // checked). Checked in this order: leader epoch (FENCED_LEADER_EPOCH), local writes (READ_ONLY,
  // NOT_ENOUGH_REPLICAS), format (CORRUPT_MESSAGE, INVALID_RECORD, UNSUPPORTED_FOR_MESSAGE_FORMAT
  // for v0/v1, MESSAGE_TOO_LARGE, INVALID_TIMESTAMP), producer (45, 47, 48; an exact repeat answers
  // OK with `duplicate`). Compressed batches are judged by header and checksum; they are not
  // unpacked.
  Result<AppendedBatch> AppendAsLeader(std::span<uint8_t> records, int32_t leader_epoch);

  // The same for a coordinator of this broker writing to an internal topic: the local-writes mode
  // is not asked.
  Result<AppendedBatch> AppendInternal(std::span<uint8_t> records, int32_t leader_epoch);

  // Whole batches of a mirror's source, appended unchanged: no byte is written differently.
  //   bytes     the batches back to back, in pieces; only read during the call
  //   batches   their headers in order, control records parsed, checksums right
  //   expected_end_offset   where the caller believes the log ends
  //   leader_epoch          the local epoch the caller leads with
  // NOT_LOG_END: the log ends elsewhere, or the first batch starts below the end (unless the log is
  //   empty: then it is restarted at that batch's base, 2.4).
  // FENCED_LEADER_EPOCH: another local epoch, or a batch epoch above it. INVALID_RECORD: offsets do
  // not increase, sizes do not add up, a batch larger than a segment. INVALID_TXN_STATE (4.2).
  // All or nothing as readers see it, except that a set larger than a segment is split at a roll.
  Status AppendMirrored(std::span<const ByteView> bytes, std::span<const log::BatchInfo> batches,
                        int64_t expected_end_offset, int32_t leader_epoch);

  // The stop's own batches. Allowed in every local-writes mode. Answers the offset it got.
  // AppendAbort: INVALID_PRODUCER_ID_MAPPING if the producer has no open transaction.
  Result<int64_t> AppendAbort(int64_t producer_id, int32_t leader_epoch);
  Result<int64_t> AppendPidReset(int32_t leader_epoch);

  // The write barrier: takes the append lock, so that after it returns no append of another mode
  // can be in flight. Decided before anything about producers (R22).
  void SetLocalWrites(LocalWrites mode);

  // --- Leadership and replicas
  // ---------------------------------------------------------------------

  // This broker leads with `leader_epoch` from now on. enter_in_history: false while a mirror owns
  // the log, since batches with smaller epochs will follow (2.5). A lower epoch than the present
  // one is FENCED_LEADER_EPOCH and changes nothing.
  Status BecomeLeader(int32_t leader_epoch, bool enter_in_history);
  // Only with high_watermark_follows_end false; never above the end, never lower than it is.
  void SetHighWatermark(int64_t high_watermark);

  // --- Reading
  // -------------------------------------------------------------------------------------

  LogPositions Positions() const;

  // From the batch that holds `offset`, at most max_bytes and below the bound, from one segment.
  // at_least_one: a first batch greater than max_bytes comes whole.
  // OFFSET_OUT_OF_RANGE: below the log start or above the log end. At or above the bound: empty.
  Result<ReadResult> Read(int64_t offset, int64_t max_bytes, ReadBound bound,
                          bool at_least_one) const;
  // Read, and the bytes with it.
  Result<std::vector<uint8_t>> ReadBytes(int64_t offset, int64_t max_bytes, ReadBound bound,
                                         bool at_least_one = true) const;
  // Transactions aborted by a marker at or after `from` that began before `to`: what a
  // read_committed reader of [from, to) must be told. In order of first offset.
  Result<std::vector<AbortedTransaction>> AbortedTransactions(int64_t from, int64_t to) const;

  // The first record with a timestamp at or after `timestamp`, below `bound`. Looks inside batches;
  // compressed ones are unpacked for it. Offset -1: none.
  Result<OffsetAndTimestamp> OffsetForTimestamp(int64_t timestamp, ReadBound bound) const;
  // The record with the greatest timestamp (the first of them). Offset -1: the log is empty.
  Result<OffsetAndTimestamp> MaxTimestamp() const;

  // --- Epochs and producers
  // ------------------------------------------------------------------------

  log::EpochEnd EndOffsetForEpoch(int32_t epoch) const;
  std::optional<int32_t> EpochForOffset(int64_t offset) const;
  std::optional<log::EpochStart> LatestEpoch() const;
  std::optional<log::EpochStart> PreviousEpoch(int32_t epoch) const;
  std::vector<log::EpochStart> EpochHistory() const;
  // By first offset, then producer id (R18).
  std::vector<log::OpenTransaction> OpenTransactions() const;
  std::vector<log::ProducerInfo> Producers() const;
  int64_t MaxProducerId() const;  // -1 none (R9)

  // --- Cutting
  // -------------------------------------------------------------------------------------

  // The log ends at or below `offset` afterwards, always at a batch border: a batch that holds
  // `offset` goes entirely (2.4), and the answer is the new end. At or above the end: nothing but
  // stray epochs goes. Below the log start: as ResetTo. leader_epoch as in AppendAsLeader.
  // What was cut is gone from the disk as well when it answers: no crash brings it back. A failed
  // sync takes the log offline.
  Result<int64_t> TruncateTo(int64_t offset, int32_t leader_epoch = -1);
  // Drops everything and restarts empty at `offset`; durable as TruncateTo.
  Status ResetTo(int64_t offset, int32_t leader_epoch = -1);
  // Records below `offset` are no longer served; whole segments go. Never above the high watermark:
  // OFFSET_OUT_OF_RANGE and nothing changed. Lower than the present start: no effect.
  Result<DeletedRange> RaiseLogStart(int64_t offset);
  // Removes old segments by retention.ms and retention.bytes. `now_ms`: wall clock.
  Result<DeletedRange> ApplyRetention(int64_t now_ms);
  // Removes the files of dropped segments whose delay is over.
  void RemoveDeletedFiles(int64_t now_ms);
  // Forgets idle producers (producer.id.expiration.ms).
  void ExpireProducers(int64_t now_ms);

  // --- Durability
  // ----------------------------------------------------------------------------------

  // Everything appended before the call is on disk when it answers; the answer is the recovery
  // point (lower when a full disk had no room for what is derived from the batches). Callers at the
  // same time share one sync. A failure takes the log offline.
  Result<int64_t> Sync();
  // The same for segments that are full, without the one that is written to (Kafka flushes at a
  // roll, in the background). Cheap when there is nothing to do.
  Status SyncClosedSegments();
  int64_t RecoveryPoint() const;
  // What the checkpoint files should say of the log start: nullopt while it is the first segment's
  // base.
  std::optional<int64_t> LogStartToCheckpoint() const;
  // flush.ms: syncs if something has waited that long.
  Status MaybeFlush(int64_t now_ms);
  // What a log that has changed needs now and then: MaybeFlush, SyncClosedSegments,
  // RemoveDeletedFiles. *again: more will be due without another change. LogManager calls it.
  Status Upkeep(int64_t now_ms, bool* again);

  void SetConfig(const LogConfig& config);
  LogConfig config() const;
  // Total size of the segments, bytes.
  int64_t SizeBytes() const;
  int64_t SegmentCount() const;

  // In order: indexes cut to size, snapshot at the end, everything synced. Later changes are
  // refused.
  Status Close();
  // Loads the directory again after it went offline, with a scan from the recovery point. Positions
  // may be lower afterwards.
  Status Reopen();
  // Why the log is offline; OK if it is not.
  Status offline() const;
  // The directory was renamed (deletion): changes are refused, files are closed, nothing is
  // written.
  void Abandon(const std::string& new_directory);

  // At most one; null to remove. Outlives the log or is removed first.
  void SetListener(PartitionLogListener* listener);

 private:
  class Impl;
  explicit PartitionLog(const Options& options);

  std::string topic_;
  int32_t partition_ = 0;
  Uuid topic_id_;
  std::string directory_;
  LoadReport report_;
  std::unique_ptr<Impl> impl_;
};

}  // namespace kmirror::broker
