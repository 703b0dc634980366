// A whole host of the library in one process and one thread: logs, metadata, state topic, peers and
// a runtime whose clock the test moves. For unit tests of the coordinator and the fetchers, for the
// conformance suite, and to read as the shortest complete host.
//
//   ManualRuntime runtime;
//   MemoryHost host(&runtime);
//   auto mirror = Mirror::Create(host.AsHost(), {});
//   host.Attach(mirror.get());             // snapshot, deltas, shards, and requests of peers
//   runtime.RunUntilIdle();
//
// Restart of the process: host.Detach() (nothing pending is answered any more), then destroy the
// Mirror, make a new one and attach it. What was on "disk" is there again; MemoryLog::LoseTail
// takes away what had not been synced.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "conformance/memory_host/call_script.h"
#include "conformance/memory_host/manual_runtime.h"
#include "conformance/memory_host/memory_controller.h"
#include "conformance/memory_host/memory_log.h"
#include "kmirror/host/host.h"
#include "kmirror/mirror.h"

namespace kmirror::conformance {

class MemoryStateTopic final : public host::StateTopic {
 public:
  struct Listener {
    std::function<void(int32_t)> gained;
    std::function<void(int32_t)> lost;
  };

  // Names of the calls; "Append:3" and "Replay:3" are those of shard 3 alone.
  static constexpr char kEnsure[] = "Ensure";
  static constexpr char kAppend[] = "Append";
  static constexpr char kReplay[] = "Replay";
  static constexpr char kTopicName[] = "__mirror_state";

  MemoryStateTopic(host::Lane* lane, bool inline_answers, MemoryController* controller,
                   int32_t partitions);

  int32_t partition_count() const override { return static_cast<int32_t>(shards_.size()); }
  void Ensure(host::Completion done) override;
  void Append(int32_t shard, std::vector<host::StateRecord> records,
              host::Completion done) override;
  void Replay(int32_t shard, EachRecord each, host::Completion done) override;

  // Shards led here are reported at once when the topic exists. By default this broker leads all.
  void Listen(Listener listener);
  void StopListening() { listener_ = {}; }
  void Gain(int32_t shard);
  void Lose(int32_t shard);
  bool Leads(int32_t shard) const { return led_.contains(shard); }
  bool exists() const { return exists_; }

  const std::vector<host::StateRecord>& records(int32_t shard) const {
    return shards_.at(static_cast<size_t>(shard));
  }
  // Number of append calls that took effect, over all shards.
  size_t appends() const { return appends_; }
  // Keeps the newest record of each key, as a compacted topic does.
  void Compact(int32_t shard);
  // Keeps the first `count` records: a broken disk.
  void LoseTail(int32_t shard, size_t count);
  CallScript& script() { return script_; }
  // Two appends in flight on one shard, and the like.
  const std::vector<std::string>& violations() const { return violations_; }
  void DropPending();

 private:
  MemoryController* controller_;
  CallScript script_;
  bool exists_ = false;
  std::vector<std::vector<host::StateRecord>> shards_;
  std::set<int32_t> led_;
  std::map<int32_t, int> in_flight_;
  size_t appends_ = 0;
  Listener listener_;
  std::vector<std::string> violations_;
};

class MemoryPeers final : public host::Peers {
 public:
  // Carries out one request; `respond` gets the response body.
  using Handler = std::function<void(const RequestContext&, ByteView body,
                                     std::function<void(std::vector<uint8_t>)> respond)>;

  // For script(); "Send:2" are the requests to broker 2 alone. A lost answer is kLoseAnswer.
  static constexpr char kSend[] = "Send";

  MemoryPeers(host::Lane* lane, bool inline_answers)
      : lane_(lane), inline_answers_(inline_answers), script_(lane, inline_answers) {}

  void Send(int32_t broker, int16_t api_key, int16_t version, std::vector<uint8_t> body,
            Answer answer) override;

  // Who answers for `broker`; without one the answer is kDisconnected.
  void SetHandler(int32_t broker, Handler handler);
  void ClearHandler(int32_t broker) { handlers_.erase(broker); }
  CallScript& script() { return script_; }

 private:
  host::Lane* lane_;
  bool inline_answers_;
  CallScript script_;
  std::map<int32_t, std::shared_ptr<Handler>> handlers_;
};

struct MemoryHostOptions {
  std::string cluster_id = "memory-cluster-AAAAAAA";
  int32_t broker = 0;
  int32_t state_partitions = 50;
  // Completions run before the call returns; otherwise as tasks of the host's lane.
  bool inline_answers = false;
};

class MemoryHost {
 public:
  // `runtime` outlives the host; several hosts may share one.
  explicit MemoryHost(ManualRuntime* runtime, MemoryHostOptions options = {});
  ~MemoryHost();

  host::Host AsHost();

  // Hands `mirror` the snapshot, every delta and shard from now on, and the requests peers send to
  // this broker. REQUIRES: nothing is attached.
  void Attach(Mirror* mirror);
  // Nothing reaches the Mirror any more, and no answer of a call it made.
  void Detach();
  // As the death of the process and a new start: Detach, every barrier closed again, and, with
  // `lose_unsynced`, every log cut to what was synced.
  void Restart(bool lose_unsynced = false);

  ManualRuntime& runtime() { return *runtime_; }
  MemoryLogs& logs() { return logs_; }
  MemoryController& controller() { return controller_; }
  MemoryStateTopic& state_topic() { return state_topic_; }
  MemoryPeers& peers() { return peers_; }

  // The log of a topic's partition; nullptr when there is no such partition.
  std::shared_ptr<MemoryLog> Log(std::string_view topic, int32_t partition = 0) const;
  // What the library did against its side of the contract, everywhere; tests expect it empty.
  std::vector<std::string> violations() const;

 private:
  ManualRuntime* runtime_;
  MemoryHostOptions options_;
  std::unique_ptr<host::Lane> lane_;
  MemoryLogs logs_;
  MemoryController controller_;
  MemoryStateTopic state_topic_;
  MemoryPeers peers_;
};

}  // namespace kmirror::conformance
