// Wakes the fetches that wait for a log to grow.
#pragma once

#include <array>
#include <cstddef>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "broker/storage/partition_log.h"

namespace kmirror::broker {

// The listener of every log that somebody waits for. Thread-safe; outlives the logs.
class LogWatch final : public PartitionLogListener {
 public:
  class Waiter {
   public:
    virtual ~Waiter() = default;
    // The log it added itself for under `index` changed. Any thread, under a lock of the watch:
    // must not call it, nor block.
    virtual void Wake(size_t index) noexcept = 0;
  };

  // From now on changes wake the waiter, until Remove: look at the log once more after this.
  void Add(PartitionLog& log, Waiter* waiter, size_t index);
  // All of the waiter's entries for the log. No Wake is running or follows.
  void Remove(PartitionLog& log, Waiter* waiter);

  void OnLogChanged(PartitionLog& log) noexcept override;
  void OnLogOffline(PartitionLog& log, const Status& why) noexcept override;

 private:
  struct Entry {
    Waiter* waiter;
    size_t index;
  };
  struct Shard {
    std::mutex mutex;
    std::unordered_map<PartitionLog*, std::vector<Entry>> waiting;
  };
  static constexpr size_t kShards = 16;
  Shard& ShardOf(const PartitionLog& log) {
    return shards_[(reinterpret_cast<uintptr_t>(&log) >> 6) % kShards];
  }

  std::array<Shard, kShards> shards_;
};

}  // namespace kmirror::broker
