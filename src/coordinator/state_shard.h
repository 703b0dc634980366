// One partition of `__mirror_state` that this broker leads: the durable state of the keys it keeps.
//
// Decide, append, apply: a write is checked against what has been applied, appended, and only when
// the append is acknowledged applied and answered (coordinator.md 1.4). After a failed append
// nobody knows what the log holds, so the shard counts as not loaded and is replayed (R19, R29).
//
// Lane-confined to the coordinator's lane.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "kmirror/host/runtime.h"
#include "kmirror/host/state_topic.h"
#include "kmirror/options.h"
#include "src/coordinator/state_codec.h"
#include "src/statemachine/partition_rules.h"

namespace kmirror::coordinator {

class StateShard {
 public:
  using Record = statemachine::PartitionRecord;
  using WriteDone = std::function<void(Result<Record>)>;

  // `on_loaded` runs after each successful load. All pointers outlive the shard.
  StateShard(int32_t index, host::StateTopic* topic, host::Runtime* runtime, host::Lane* lane,
             const Options* options, std::function<void(int32_t)> on_loaded);
  ~StateShard();
  StateShard(const StateShard&) = delete;

  // Starts replaying, again and again until it succeeds.
  void Load();
  bool loaded() const { return loaded_; }

  // kCoordinatorLoadInProgress while not loaded, and while a write of the key is under way: what it
  // reads now may not be true any more when the reader, a new leader, acts on it. A key without a
  // record reads as UNKNOWN.
  Result<Record> Read(const StateKey& key) const;
  // Answers once, on the lane: the new record, or why not (1.4).
  void Write(const StateKey& key, const statemachine::StateWrite& write, WriteDone done);
  // Forgets the key. OK also when there was nothing.
  void Tombstone(const StateKey& key, host::Completion done);

  const std::map<StateKey, Record>& records() const { return records_; }

 private:
  struct Pending {
    StateKey key;
    statemachine::StateWrite write;
    bool tombstone = false;
    WriteDone done;
  };

  struct InFlight {
    std::vector<Pending> batch;
    std::vector<Record> results;
  };

  void Enqueue(Pending pending);
  void FlushSoon();
  void Flush();
  void OnAppended(const Status& status);
  void FailAll(const Status& status);

  const int32_t index_;
  host::StateTopic* const topic_;
  host::Runtime* const runtime_;
  host::Lane* const lane_;
  const Options* const options_;
  const std::function<void(int32_t)> on_loaded_;

  std::map<StateKey, Record> records_;
  bool loaded_ = false;
  bool loading_ = false;
  int load_failures_ = 0;
  bool appending_ = false;
  std::unique_ptr<InFlight> in_flight_;
  host::Lane::TimerId linger_timer_ = 0;
  host::Lane::TimerId reload_timer_ = 0;
  std::deque<Pending> queue_;
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
};

}  // namespace kmirror::coordinator
