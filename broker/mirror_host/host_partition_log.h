// host::PartitionLog over one replica of kmirrord, and how the library finds it.
//
// This broker is the only replica: the high watermark is the log's end, and waiting for replicas is
// over at once. Appends run on the caller's lane (one pwritev into the page cache); what may wait
// for the disk runs on the workers.
#pragma once

#include <memory>
#include <mutex>
#include <set>
#include <vector>

#include "broker/controller/log_directory.h"
#include "broker/mirror_host/worker_pool.h"
#include "kmirror/host/host.h"

namespace kmirror::broker {

class HostPartitionLog final : public host::PartitionLog {
 public:
  // `workers` outlives this.
  HostPartitionLog(std::shared_ptr<Replica> replica, WorkerPool* workers)
      : replica_(std::move(replica)), workers_(workers) {}

  host::AppendResult AppendMirrored(const host::MirroredSet& set,
                                    host::AppendDone* done) noexcept override;
  host::LogView View() const noexcept override;
  std::vector<host::OpenTransaction> OpenTransactions() const override;
  std::vector<host::EpochEntry> Epochs() const override;
  host::EpochEnd EndOffsetForEpoch(int32_t epoch) const override;
  int32_t EpochBefore(int64_t offset) const override;
  int64_t MaxProducerId() const override;
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

 private:
  // OK while this broker leads the partition at that epoch.
  Status Leads(int32_t leader_epoch) const;
  void OnWorker(host::Completion done, std::function<Status()> call);

  const std::shared_ptr<Replica> replica_;
  WorkerPool* const workers_;
};

class HostLogs final : public host::Logs {
 public:
  // Both outlive this.
  HostLogs(LogDirectory* logs, WorkerPool* workers) : logs_(logs), workers_(workers) {}

  // A log that went offline is loaded again on a worker; until then it is not there.
  std::shared_ptr<host::PartitionLog> Find(const TopicIdPartition& partition) override;

 private:
  LogDirectory* const logs_;
  WorkerPool* const workers_;
  std::mutex mutex_;
  std::set<TopicIdPartition> reopening_;
};

}  // namespace kmirror::broker
