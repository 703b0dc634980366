// Reads and writes partition states wherever their shard lives: in this broker's shards directly,
// else by ReadMirrorStates and WriteMirrorStates through Peers, with the same rules
// (coordinator.md 1.4). Also answers those two requests for other brokers.
//
// Lane-confined to the coordinator's lane; answers run on it, never inside the call.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "kmirror/host/host.h"
#include "kmirror/options.h"
#include "messages/read_mirror_states.h"
#include "messages/write_mirror_states.h"
#include "src/coordinator/metadata_view.h"
#include "src/coordinator/state_shard.h"

namespace kmirror::coordinator {

class StateStore {
 public:
  using Record = statemachine::PartitionRecord;
  using Answer = std::function<void(Result<Record>)>;

  // `on_shard_loaded` tells that reads of its keys can succeed now.
  StateStore(const host::Host& host, host::Lane* lane, const Options* options,
             const MetadataView* metadata, std::function<void(int32_t)> on_shard_loaded);
  ~StateStore();

  void GainShard(int32_t shard);
  void LoseShard(int32_t shard);
  // Every shard goes; nothing is asked of the host any more.
  void Close() { shards_.clear(); }

  // The record, UNKNOWN when the shard's leader says that there is none. Anything but an
  // authoritative answer is an error (R19): kCoordinatorLoadInProgress, kNotCoordinator,
  // kCoordinatorNotAvailable, kDisconnected, kTimedOut. Ask again later.
  void Read(const StateKey& key, const std::string& topic, Answer answer);
  // As Read, and kFencedLeaderEpoch, kFencedStateEpoch, kInvalidClusterMirrorState. Creates the
  // state topic when it does not exist yet.
  void Write(const StateKey& key, const std::string& topic, const statemachine::StateWrite& write,
             Answer answer);
  // In this broker's own shards: every record of a mirror, or of a topic, whose tombstone is due.
  void TombstoneWhere(std::function<bool(const StateKey&)> match);

  // nullptr: not led here.
  const StateShard* Shard(int32_t index) const;
  const StateShard* ShardOf(const StateKey& key) const { return Shard(key.Shard(shard_count_)); }
  const std::map<int32_t, std::unique_ptr<StateShard>>& shards() const { return shards_; }

  // The inter-broker requests. `done` once.
  void Serve(const protocol::ReadMirrorStatesRequest& request,
             std::function<void(protocol::ReadMirrorStatesResponse)> done);
  void Serve(const protocol::WriteMirrorStatesRequest& request,
             std::function<void(protocol::WriteMirrorStatesResponse)> done);

 private:
  void ReadRemote(int32_t leader, const StateKey& key, const std::string& topic, Answer answer);
  void WriteRemote(int32_t leader, const StateKey& key, const std::string& topic,
                   const statemachine::StateWrite& write, Answer answer);
  void Later(Answer answer, Status status);

  const host::Host host_;
  host::Lane* const lane_;
  const Options* const options_;
  const MetadataView* const metadata_;
  const std::function<void(int32_t)> on_shard_loaded_;
  const int32_t shard_count_;
  std::map<int32_t, std::unique_ptr<StateShard>> shards_;
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
};

}  // namespace kmirror::coordinator
