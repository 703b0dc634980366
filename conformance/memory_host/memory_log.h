// A partition's log in memory: the smallest host::PartitionLog that keeps every rule of the seam,
// with replicas a test moves by hand and faults it plans.
//
// Single-threaded. What the library does against the contract (two mutators at once, a reset over
// an open transaction, ...) is noted in violations(), which a test should find empty at its end.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "conformance/memory_host/call_script.h"
#include "kmirror/host/partition_log.h"
#include "kmirror/host/runtime.h"
#include "kmirror/log/epoch_history.h"
#include "kmirror/log/producer_state.h"

namespace kmirror::conformance {

class MemoryLog final : public host::PartitionLog {
 public:
  struct Batch {
    log::BatchInfo info;
    std::vector<uint8_t> bytes;
  };

  // A replica other than the leader. An automatic one follows the leader at once.
  struct Follower {
    bool in_sync = true;
    bool automatic = true;
    bool fetched = true;  // has fetched since the leader last truncated (coordinator.md 3.4)
    int64_t end = 0;
  };

  // Names of the calls, for script().
  static constexpr char kAppendAbort[] = "AppendAbort";
  static constexpr char kAppendReset[] = "AppendReset";
  static constexpr char kTruncate[] = "Truncate";
  static constexpr char kRestartAt[] = "RestartAt";
  static constexpr char kAwaitReplicated[] = "AwaitReplicated";
  static constexpr char kAwaitTruncated[] = "AwaitTruncated";
  static constexpr char kSync[] = "Sync";
  static constexpr char kRaiseLogStart[] = "RaiseLogStart";    // kRefuse only
  static constexpr char kSetLocalWrites[] = "SetLocalWrites";  // kRefuse only

  // `runtime` and `lane` outlive the log. `lane` runs its completions and its patience.
  MemoryLog(host::Runtime* runtime, host::Lane* lane, bool inline_answers);
  ~MemoryLog() override { DropPending(); }

  // ---- host::PartitionLog
  host::AppendResult AppendMirrored(const host::MirroredSet& set,
                                    host::AppendDone* done) noexcept override;
  host::LogView View() const noexcept override;
  std::vector<host::OpenTransaction> OpenTransactions() const override;
  std::vector<host::EpochEntry> Epochs() const override;
  host::EpochEnd EndOffsetForEpoch(int32_t epoch) const override;
  int32_t EpochBefore(int64_t offset) const override;
  int64_t MaxProducerId() const override { return producers_.max_producer_id(); }
  bool EndsWithReset() const override;
  void AppendAbort(const host::OpenTransaction& txn, int32_t leader_epoch,
                   host::Completion done) override;
  void AppendReset(int32_t leader_epoch, host::Completion done) override;
  void Truncate(int64_t offset, int32_t leader_epoch, host::Completion done) override;
  void RestartAt(int64_t offset, int32_t leader_epoch, host::Completion done) override;
  Status RaiseLogStart(int64_t offset) noexcept override;
  void AwaitReplicated(int32_t leader_epoch, host::Completion done) override;
  void AwaitTruncated(bool all_replicas, int32_t leader_epoch, host::Completion done) override;
  void Sync(host::Completion done) override;
  Status SetLocalWrites(host::LocalWrites mode, int32_t leader_epoch,
                        int64_t metadata_version) noexcept override;

  // ---- The host's own side
  // This replica leads from now on, at `leader_epoch`. `mirrored`: desired state MIRRORING or
  // PAUSED, so that no epoch entry is made at the end (coordinator.md 2.4). Waits of older epochs
  // are fenced.
  void Elect(int32_t leader_epoch, bool mirrored);
  void Resign();  // not leader any more: every mutator is fenced
  void Close();   // the partition is gone: kNotLeaderOrFollower from now on
  // The host applied a change of `mirror.name`: closes (or, without a mirror, opens) the barrier.
  void HostSetLocalWrites(host::LocalWrites mode, int64_t metadata_version);
  // The process started anew: the barrier stands where the configs say.
  void HostRestarted(host::LocalWrites mode);

  // A client's produce of one batch (any offset in it): the offset it got, or kReadOnly,
  // kNotEnoughReplicas (also below min ISR), or what idempotence says.
  Result<int64_t> Produce(std::vector<uint8_t> batch);
  // As Produce, but without barrier and producer checks: local data of an earlier life.
  int64_t AppendLocal(std::vector<uint8_t> batch);

  // ---- Replicas
  void SetFollowers(std::vector<Follower> followers);
  void SetFollowerEnd(size_t follower, int64_t end);  // it fetched up to there
  void SetInSync(size_t follower, bool in_sync);
  void SetMinInSync(int32_t replicas);
  const std::vector<Follower>& followers() const { return followers_; }
  void SetPatience(std::chrono::nanoseconds patience) { patience_ = patience; }

  // ---- Faults
  CallScript& script() { return script_; }
  // The next AppendMirrored answers this, without effect (kIo, kNoSpace, kRefused, ...). They
  // queue.
  void FailNextAppend(host::AppendCode code) { append_faults_.push_back(code); }
  // While on, AppendMirrored answers kPending and nothing happens before CompleteAppend.
  void HoldAppends(bool on) { hold_appends_ = on; }
  bool append_pending() const { return pending_.has_value(); }
  // Carries the pending append out and reports it; or, with a fault, reports that without effect.
  void CompleteAppend(std::optional<host::AppendCode> fault = std::nullopt);
  // A crash that the page cache did not survive: everything at and above `offset` is gone, but
  // never what was synced. Whole batches.
  void LoseTail(int64_t offset);
  // The process died: nothing pending is ever answered.
  void DropPending();

  // ---- What a test looks at
  // Batches that end at or above the log start, oldest first.
  std::vector<Batch> batches() const;
  // The same as one string of bytes.
  std::vector<uint8_t> Bytes() const;
  host::LocalWrites local_writes() const { return local_writes_; }
  int64_t synced_end() const { return synced_end_; }
  bool leader() const { return leader_; }
  const log::ProducerState& producers() const { return producers_; }
  const log::EpochHistory& history() const { return history_; }
  const std::vector<std::string>& violations() const { return violations_; }

 private:
  struct PendingAppend {
    host::MirroredSet set;
    host::AppendDone* done;
  };
  // A call that is answered when the replicas have come so far.
  struct Waiter {
    uint64_t id;
    int32_t leader_epoch;
    std::function<bool()> reached;
    std::function<std::string()> why_not;
    host::Completion done;
    host::Lane::TimerId timer;
  };

  Status CheckLeader(int32_t leader_epoch) const;
  Status CheckInSync() const;
  host::AppendResult Carry(const host::MirroredSet& set);
  bool CheckSet(const host::MirroredSet& set, std::string* why) const;
  void Store(ByteView bytes, const log::BatchInfo& info);
  void AppendOwn(std::span<const uint8_t> batch);
  void CutTo(int64_t offset);
  void Rebuild();
  void ReplicasMoved();
  int32_t InSyncCount() const;
  int64_t CutPoint(int64_t offset) const;
  void Wait(int32_t leader_epoch, std::function<bool()> reached,
            std::function<std::string()> why_not, bool patient, host::Completion done);
  void WakeWaiters();
  void StartMutator(const char* what);

  host::Runtime* runtime_;
  host::Lane* lane_;
  CallScript script_;
  std::chrono::nanoseconds patience_ = std::chrono::seconds(5);

  std::vector<Batch> batches_;  // those below the log start stay: a segment holds them still
  int64_t log_start_ = 0;
  int64_t high_watermark_ = 0;
  int64_t end_ = 0;
  int64_t synced_end_ = 0;
  log::EpochHistory history_;
  log::ProducerState producers_;

  bool closed_ = false;
  bool leader_ = true;
  int32_t leader_epoch_ = 0;
  host::LocalWrites local_writes_ = host::LocalWrites::kAllowed;
  int64_t barrier_version_ = -1;
  std::vector<Follower> followers_;
  int32_t min_in_sync_ = 1;

  std::vector<host::AppendCode> append_faults_;
  bool hold_appends_ = false;
  std::optional<PendingAppend> pending_;
  std::vector<Waiter> waiters_;
  uint64_t next_waiter_ = 1;
  std::vector<std::string> violations_;
};

}  // namespace kmirror::conformance
