// The destination partition's log, as the host keeps it, with the write barrier in front of it.
//
// Called by: kmirror. Mutators: one in flight a partition, from the partition's lane at that time
//            (the fetcher's lane while MIRRORING, the coordinator's lane otherwise; the library
//            never has both). Readers (View, OpenTransactions, Epochs, EndOffsetForEpoch): any
//            thread.
// Lifetime:  handed out as shared_ptr by Host::Log; may outlive the partition, and then answers
//            kNotLeaderOrFollower.
// Must not throw. A completion runs exactly once, on any thread, possibly before the call returns;
// the library moves it to its own lane.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "kmirror/log/batch.h"
#include "kmirror/status.h"
#include "kmirror/types.h"

namespace kmirror::host {

// Completion of a control-path call (rare, may allocate; never used per batch).
using Completion = std::function<void(Status)>;

// Whole batches of one partition as fetched from the source: CRC checked, headers decoded once.
struct MirroredSet {
  std::span<const ByteView> bytes;          // pieces in order; together exactly the batches below.
                                            // Valid until the call answers, or until done.
  std::span<const log::BatchInfo> batches;  // same order; same lifetime
  int64_t expected_end_offset = 0;          // the log's end the caller saw; else kNotEnd
  int32_t local_leader_epoch = 0;           // the leader epoch the caller works under; else fenced
  int64_t source_high_watermark = -1;       // exclusive, as in the fetch answer; for lag only
  int64_t source_log_start = -1;            // -1 unknown
};

enum class AppendCode : uint8_t {
  kOk,       // appended, visible to View(); the bytes may be reused
  kPending,  // AppendDone::Done will be called once; bytes and batches stay pinned until then
  kNotEnd,   // expected_end_offset is not the log's end; nothing written
  kFenced,   // not leader at that epoch any more; nothing written
  kRefused,  // the set breaks a rule of the log (order, size of one batch); nothing written
  kIo,       // the disk failed; nothing visible, the log's end did not move
  kNoSpace,  // as kIo, for want of space: retrying later can help
};

struct AppendResult {
  AppendCode code = AppendCode::kOk;
  int64_t end_offset = -1;  // the log's end after a kOk
};

// Caller-owned; outlives the pending append. Runs on any thread.
class AppendDone {
 public:
  virtual ~AppendDone() = default;
  virtual void Done(AppendResult result) noexcept = 0;
};

// One consistent picture. log_start <= stable <= high_watermark <= end.
struct LogView {
  int64_t log_start = 0;
  int64_t last_stable_offset = 0;
  int64_t high_watermark = 0;     // exclusive
  int64_t end = 0;                // exclusive: the next offset
  int32_t last_batch_epoch = -1;  // epoch of the batch that ends the log, -1 when there is none
  int32_t latest_epoch = -1;      // latest entry of the epoch history, -1 when empty
  int32_t leader_epoch = 0;       // this replica's leader epoch in the host's metadata
};

struct EpochEntry {
  int32_t epoch = -1;
  int64_t start_offset = -1;
};

// Answer of an epoch look-up (fetcher-and-log.md 5.1): {-1,-1} when undefined.
struct EpochEnd {
  int32_t epoch = -1;
  int64_t end_offset = -1;
};

struct OpenTransaction {
  int64_t producer_id = -1;
  int64_t first_offset = -1;
  int32_t coordinator_epoch = -1;  // -1 when no marker of this producer was ever seen
  int16_t producer_epoch = -1;
};

// May clients append (coordinator.md 7.2, R22, R23, R30)? Decided under the append lock, before
// anything about producers.
enum class LocalWrites : uint8_t {
  kAllowed,   // no mirror, or STOPPED
  kReadOnly,  // desired MIRRORING or PAUSED: the read-only error, final
  kStopping,  // desired STOPPED and not open yet, or state not loaded: NOT_ENOUGH_REPLICAS,
              // retriable
};

class PartitionLog {
 public:
  virtual ~PartitionLog() = default;

  // The hot path. Appends the set unchanged, all or nothing, and makes it visible. Leader epochs of
  // the batches enter the epoch history, producers the producer state, batch by batch. `done` is
  // used only when the answer is kPending. No allocation per batch.
  virtual AppendResult AppendMirrored(const MirroredSet& set, AppendDone* done) noexcept = 0;

  virtual LogView View() const noexcept = 0;

  // In order of first offset, then producer id (R18).
  virtual std::vector<OpenTransaction> OpenTransactions() const = 0;
  // Oldest first, without the entry a leader may have made for itself at the log's end.
  virtual std::vector<EpochEntry> Epochs() const = 0;
  virtual EpochEnd EndOffsetForEpoch(int32_t epoch) const = 0;
  // Epoch of the batch that holds offset - 1, or the last epoch that starts below `offset`; -1:
  // none.
  virtual int32_t EpochBefore(int64_t offset) const = 0;
  // Greatest producer id in the log's producer state, -1 when none (R9).
  virtual int64_t MaxProducerId() const = 0;
  // True when the last batch of the log is a MIRROR_PID_RESET (coordinator.md 6.4, re-run of step
  // 7).
  virtual bool EndsWithReset() const = 0;

  // Appends one ABORT marker for `txn`, with the epochs as given (coordinator_epoch -1 is written
  // as 0) and `leader_epoch` as batch epoch, acks all: completed when every in-sync replica has it.
  // kNotEnoughReplicas: below min ISR; nothing appended, or appended and not yet replicated (the
  // caller asks OpenTransactions again). kFencedLeaderEpoch: not leader at that epoch.
  virtual void AppendAbort(const OpenTransaction& txn, int32_t leader_epoch, Completion done) = 0;
  // Appends one MIRROR_PID_RESET batch; otherwise as AppendAbort. REQUIRES: no transaction is open.
  virtual void AppendReset(int32_t leader_epoch, Completion done) = 0;

  // Removes everything at and above `offset`, on whole batches (rounded down inside a batch).
  // Lowers the high watermark if needed, and the start of the leader's own epoch. `offset` >= end:
  // only epoch entries at or above the end go. Durable before OK: a crash does not bring back what
  // was cut, since the library stores next that it is gone.
  virtual void Truncate(int64_t offset, int32_t leader_epoch, Completion done) = 0;
  // Drops the whole log and restarts it empty at `offset`. Durable before OK.
  virtual void RestartAt(int64_t offset, int32_t leader_epoch, Completion done) = 0;
  // Raises the log start to min(offset, high watermark); lower or equal offsets do nothing. Cheap
  // when nothing changes. Inline; kIo when the file system refuses.
  virtual Status RaiseLogStart(int64_t offset) noexcept = 0;

  // Completed when high watermark == end and every in-sync replica has fetched under this leader
  // epoch (an older leader has let go), or with kNotEnoughReplicas and the reason in the text when
  // the host's patience ends before (5 s is usual; the caller asks again), or kFencedLeaderEpoch.
  virtual void AwaitReplicated(int32_t leader_epoch, Completion done) = 0;
  // Completed when the in-sync replicas have no offset at or above this leader's end
  // (coordinator.md 3.4). `all_replicas`: every assigned replica must be in sync as well.
  virtual void AwaitTruncated(bool all_replicas, int32_t leader_epoch, Completion done) = 0;
  // Completed when everything below the current end is on disk (before STOPPED is reported).
  virtual void Sync(Completion done) = 0;

  // Sets the barrier under the append lock. `metadata_version` is the version of the metadata
  // change that made the caller decide; a barrier that a newer change has set stays as it is and
  // the answer is kFencedStateEpoch. kFencedLeaderEpoch: not leader at that epoch. The host itself
  // closes the barrier (kReadOnly, kStopping) when it applies a change of `mirror.name`, before it
  // acknowledges that change; a partition of a topic with `mirror.name` starts closed. Inline, no
  // I/O.
  virtual Status SetLocalWrites(LocalWrites mode, int32_t leader_epoch,
                                int64_t metadata_version) noexcept = 0;
};

}  // namespace kmirror::host
