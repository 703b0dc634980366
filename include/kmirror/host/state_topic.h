// The internal topic `__mirror_state` (R24): where the library keeps the state of every partition.
//
// One partition of it is one shard. The host tells the library which shards this broker leads
// (Mirror::OnShardGained, OnShardLost). Appends to one shard are issued in order, one in flight.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "kmirror/host/partition_log.h"
#include "kmirror/types.h"

namespace kmirror::host {

struct StateRecord {
  std::vector<uint8_t> key;
  std::optional<std::vector<uint8_t>> value;  // nullopt is a tombstone
};

class StateTopic {
 public:
  using EachRecord = std::function<void(ByteView key, std::optional<ByteView> value)>;

  virtual ~StateTopic() = default;

  // `mirror.state.topic.num.partitions`; constant for the life of the cluster.
  virtual int32_t partition_count() const = 0;

  // Creates the topic if it is absent; OK when it exists. Shards are then gained as usual.
  virtual void Ensure(Completion done) = 0;

  // Appends the records as one atomic batch. OK: on disk of every in-sync replica (synced, not in
  // the page cache alone). kNotCoordinator: this broker does not lead the shard any more. After any
  // other error the records may or may not be there; the library replays the shard before it trusts
  // it.
  virtual void Append(int32_t shard, std::vector<StateRecord> records, Completion done) = 0;

  // Reads the shard from its start to its end as of now, in order. `each` runs on any one thread
  // and never after `done`. An error means: not loaded; the library tries again (R19).
  virtual void Replay(int32_t shard, EachRecord each, Completion done) = 0;
};

}  // namespace kmirror::host
