// MirrorFetching on real fetchers: which partition is fetched by which fetcher, and the barrier
// around its removal.
//
// One fetcher per (fetcher number, source broker, mirror), on a lane of its own (1.1). The number
// of a partition is Kafka's hash of its topic and index. Beside it there may be one for partitions
// that have just begun and one for many idle ones (FetcherRole). A fetcher without partitions is
// closed.
// Adding, replacing and removing of one partition are strictly in sequence, however fast the calls
// come: the fetcher before must have let go before the next one begins, so no two ever append to
// one log.
//
// Lane rule: everything on the coordinator's lane, but Position and Collect, which are thread-safe.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <tuple>
#include <unordered_map>
#include <vector>

#include "kmirror/host/runtime.h"
#include "kmirror/mirror.h"
#include "src/fetcher/fetcher_role.h"
#include "src/fetcher/fetcher_stats.h"
#include "src/fetcher/mirror_fetcher_thread.h"
#include "src/fetcher/mirror_fetching.h"
#include "src/fetcher/position_cell.h"
#include "src/fetcher/transport.h"

namespace kmirror::fetcher {

class MirrorFetcherManager : public MirrorFetching {
 public:
  struct Options {
    int32_t broker_id = -1;
    int32_t num_fetchers = 1;      // `mirror.num.replica.fetchers`
  };

  // All outlive the manager. `lane` is the coordinator's; `events` are told there.
  MirrorFetcherManager(host::Runtime* runtime, host::Lane* lane, FetchEvents* events,
                       Transport* transport, Options options);
  // REQUIRES: Shutdown has completed, or nothing was ever added.
  ~MirrorFetcherManager() override;

  void SetMirror(std::shared_ptr<const MirrorSourceConfig> config) override;
  void RemoveMirror(const std::string& mirror) override;
  void Add(const std::string& mirror, FetchAssignment assignment) override;
  void Remove(const TopicIdPartition& partition, std::function<void()> done) override;
  void UpdateLocalEpoch(const TopicIdPartition& partition, int32_t local_leader_epoch) override;
  void UpdateSourceLeader(const TopicIdPartition& partition, int32_t leader_id,
                          const HostPort& leader, int32_t leader_epoch) override;
  std::optional<FetchPosition> Position(const TopicIdPartition& partition) const override;

  // Removes everything and closes every fetcher; no event is told any more. `done` runs on the
  // lane, after all pending appends have completed.
  void Shutdown(std::function<void()> done);

  // Thread-safe. The counters of fetcher-and-log 8, by mirror.
  void Collect(MetricSink* sink) const;

  size_t fetcher_count() const { return slots_.size(); }

 private:
  // (mirror, version of its config, fetcher number, source broker, host, port, role)
  using SlotKey =
      std::tuple<std::string, uint64_t, int32_t, int32_t, std::string, int32_t, FetcherRole>;
  class Owner;
  struct Slot {
    SlotKey key;
    std::unique_ptr<host::Lane> lane;
    std::unique_ptr<Owner> owner;
    std::unique_ptr<MirrorFetcherThread> thread;
    std::shared_ptr<FetcherStats> stats;
    size_t partitions = 0;         // assigned, or being removed
  };
  struct Mirror {
    std::shared_ptr<const MirrorSourceConfig> config;
    uint64_t version = 0;
  };
  struct Record {
    std::string mirror;
    std::optional<FetchAssignment> desired;
    uint64_t desired_generation = 0;
    Slot* slot = nullptr;          // where it is
    uint64_t generation = 0;       // as it is there
    bool removing = false;         // from there
    std::vector<std::function<void()>> waiters;
    int32_t known_epoch = -1;      // S71
    int moves = 0;                 // since the last successful fetch
    FetcherRole role = FetcherRole::kNewcomer;
    bool resumed = false;          // OnFetching was told; starts where another role left off,
    bool exchange = true;          // with or without an epoch exchange
    std::shared_ptr<PositionCell> cell;
  };
  // A fetcher that runs, for the metrics.
  struct Live {
    std::string name;
    std::shared_ptr<FetcherStats> stats;
  };
  // Reached by fetchers that may outlive us for a moment.
  struct Door {
    MirrorFetcherManager* manager = nullptr;  // the coordinator's lane only
  };

  // The next Reconcile starts the partition again, with an epoch exchange.
  void StartAnew(Record& record);
  void Reconcile(const TopicIdPartition& key);
  void Start(const TopicIdPartition& key, Record& record);
  Slot* SlotFor(Record& record);
  void LeaveSlot(Record& record);
  void CloseSlot(Slot* slot);
  void OnSlotClosed(Slot* slot);
  static void CollectFetchers(const std::string& mirror, const std::vector<Live>& fetchers,
                              MetricSink* sink);
  void OnRemoved(const TopicIdPartition& key, uint64_t generation);
  // The record if it is where `generation` says and not being removed.
  Record* Current(const TopicIdPartition& key, uint64_t generation);
  void OnStopped(const FetchStopped& stopped, uint64_t generation);
  void OnMoved(const TopicIdPartition& key, uint64_t generation, int32_t leader_id,
               const HostPort& leader, int32_t leader_epoch);
  void OnRole(const TopicIdPartition& key, uint64_t generation, FetcherRole role, bool told,
              bool epochs_in_fetch);
  void Forget(const TopicIdPartition& key);
  void FinishShutdown();

  host::Runtime* const runtime_;
  host::Lane* const lane_;
  FetchEvents* const events_;
  Transport* const transport_;
  const Options options_;
  std::shared_ptr<Door> door_;

  std::map<std::string, Mirror> mirrors_;
  std::unordered_map<TopicIdPartition, Record> records_;
  std::map<SlotKey, std::unique_ptr<Slot>> slots_;
  std::vector<std::unique_ptr<Slot>> closing_;
  uint64_t last_generation_ = 0;
  uint64_t last_version_ = 0;
  std::function<void()> shutdown_;

  mutable std::mutex mutex_;
  std::unordered_map<TopicIdPartition, std::shared_ptr<PositionCell>>
      positions_;  // guarded by mutex_
  std::map<std::string, std::vector<Live>> live_;               // by mirror; too
  std::map<std::string, std::map<std::string, int64_t>> past_;  // closed ones; too
};

}  // namespace kmirror::fetcher
