// host::StateTopic over a real internal topic of this broker.
//
// An append is one batch and one fdatasync; several shards sync at the same time, callers on one
// shard share a sync. A replay reads the log from its start.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "broker/controller/controller.h"
#include "broker/controller/log_directory.h"
#include "broker/mirror_host/worker_pool.h"
#include "kmirror/host/state_topic.h"

namespace kmirror::broker {

inline constexpr char kMirrorStateTopic[] = "__mirror_state";

class HostStateTopic final : public host::StateTopic {
 public:
  struct Options {
    int32_t partitions = 50;  // `mirror.state.topic.num.partitions`
    std::function<int64_t()> wall_ms;
  };
  // All outlive this. `changes` has one thread and is the controller's; `writer` has one thread, of
  // this alone, and is stopped before `syncs`, whose threads wait for the disk.
  HostStateTopic(broker::Controller* controller, LogDirectory* logs, WorkerPool* changes,
                 WorkerPool* writer, WorkerPool* syncs, Options options);

  int32_t partition_count() const override { return partitions_; }
  void Ensure(host::Completion done) override;
  void Append(int32_t shard, std::vector<host::StateRecord> records,
              host::Completion done) override;
  void Replay(int32_t shard, EachRecord each, host::Completion done) override;

 private:
  struct Waiting {
    int32_t shard = 0;
    std::vector<host::StateRecord> records;
    host::Completion done;
  };
  using Written = std::map<int32_t, std::shared_ptr<Replica>>;

  // Group commit: what waits is written in order, then synced, one sync a shard and all shards at
  // the same time, before any of it is answered.
  void WriteWaiting();
  Status Write(int32_t shard, const std::vector<host::StateRecord>& records, Written* written);
  std::map<int32_t, Status> SyncAll(const Written& written);
  Status ReplayNow(int32_t shard, const EachRecord& each);
  Result<std::shared_ptr<Replica>> Shard(int32_t shard) const;

  broker::Controller* const controller_;
  LogDirectory* const logs_;
  WorkerPool* const changes_;
  WorkerPool* const writer_;
  WorkerPool* const syncs_;
  const Options options_;
  std::mutex mutex_;  // guards waiting_
  std::vector<Waiting> waiting_;
  int32_t partitions_;  // of the topic if it exists, else what it would be created with
};

}  // namespace kmirror::broker
