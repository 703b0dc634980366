// The metadata of one in-memory cluster, the logs of the partitions this broker leads, and the
// Controller that changes both. A change is applied whole: image, logs with their write barriers,
// then the delta, then the completion.
//
// Single-threaded.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "conformance/memory_host/call_script.h"
#include "conformance/memory_host/memory_log.h"
#include "kmirror/host/controller.h"
#include "kmirror/host/host.h"
#include "kmirror/host/metadata.h"
#include "kmirror/mirror_partition_state.h"

namespace kmirror::conformance {

// What a value of the topic config `mirror.name` says (R2): "m", "m.paused", "m.removed".
struct MirrorNameValue {
  std::string mirror;
  DesiredState desired = DesiredState::kNone;
};
MirrorNameValue ParseMirrorName(std::string_view value);
// The barrier a partition of a topic with these configs starts behind.
host::LocalWrites ClosedFor(const std::map<std::string, std::string>& configs);

class MemoryLogs final : public host::Logs {
 public:
  MemoryLogs(host::Runtime* runtime, host::Lane* lane, bool inline_answers)
      : runtime_(runtime), lane_(lane), inline_answers_(inline_answers) {}

  std::shared_ptr<host::PartitionLog> Find(const TopicIdPartition& partition) override;

  // The log itself, led here or not; nullptr when there is none.
  std::shared_ptr<MemoryLog> Get(const TopicIdPartition& partition) const;
  // While hidden, Find answers nullptr: the log is "not open yet".
  void Hide(const TopicIdPartition& partition, bool hidden);
  // Called on every log when it is made: replicas, min ISR, faults.
  void OnCreate(std::function<void(const TopicIdPartition&, MemoryLog&)> hook) {
    on_create_ = std::move(hook);
  }
  // violations() of every log there ever was, each with its partition in front.
  std::vector<std::string> violations() const;
  void DropPending();

 private:
  friend class MemoryController;
  void Apply(const host::TopicInfo& topic, int32_t this_broker, bool name_changed, int64_t version);
  void Remove(const Uuid& topic_id);

  struct Held {
    std::shared_ptr<MemoryLog> log;
    int32_t epoch = -1;
    bool hidden = false;
    bool removed = false;
  };
  host::Runtime* runtime_;
  host::Lane* lane_;
  bool inline_answers_;
  std::map<TopicIdPartition, Held> logs_;
  std::function<void(const TopicIdPartition&, MemoryLog&)> on_create_;
};

class MemoryController final : public host::Controller {
 public:
  // Where metadata goes. Unset functions are skipped.
  struct Listener {
    std::function<void(host::MetadataSnapshot)> snapshot;
    std::function<void(host::MetadataDelta)> delta;
  };

  // Names of the calls, for script().
  static constexpr char kCreateTopic[] = "CreateTopic";
  static constexpr char kCreatePartitions[] = "CreatePartitions";
  static constexpr char kSetMirrorNames[] = "SetMirrorNames";
  static constexpr char kSetMirrorConfigs[] = "SetMirrorConfigs";
  static constexpr char kDeleteMirror[] = "DeleteMirror";
  static constexpr char kBumpLeaderEpochs[] = "BumpLeaderEpochs";
  static constexpr char kRaiseProducerIdFloor[] = "RaiseProducerIdFloor";

  MemoryController(host::Runtime* runtime, host::Lane* lane, bool inline_answers, MemoryLogs* logs,
                   std::string cluster_id, int32_t this_broker);

  // ---- host::Controller
  void CreateTopic(host::NewTopic topic, host::Completion done) override;
  void CreatePartitions(Uuid topic_id, int32_t count, host::Completion done) override;
  void SetMirrorNames(std::vector<host::MirrorNameChange> changes, int64_t expected_version,
                      host::Completion done) override;
  void SetMirrorConfigs(std::string mirror,
                        std::map<std::string, std::optional<std::string>> changes, bool create,
                        host::Completion done) override;
  void DeleteMirror(std::string mirror, int64_t expected_version, host::Completion done) override;
  void BumpLeaderEpochs(std::vector<host::EpochBump> bumps, host::Completion done) override;
  void RaiseProducerIdFloor(int64_t max_seen, host::Completion done) override;

  // ---- Changes that do not come from the library (users, elections), applied at once.
  Status CreateTopicNow(host::NewTopic topic);
  Status DeleteTopicNow(const Uuid& topic_id);
  Status AlterTopicConfigNow(const Uuid& topic_id, const std::string& name,
                             std::optional<std::string> value);
  // `leader` -1: none. The leader epoch grows by one.
  Status ElectNow(const TopicIdPartition& partition, int32_t leader);
  void SetBrokersNow(std::vector<host::BrokerInfo> brokers);
  void SetMirrorVersionNow(int16_t version);

  // ---- Listening. The snapshot is sent at once, deltas follow; one listener at a time.
  void Listen(Listener listener);
  void StopListening();
  // While paused, deltas queue up (completions do not: a host would break its contract with that,
  // so they wait too). Resume sends what has queued.
  void PauseDeltas(bool paused);

  // ---- What a test looks at
  CallScript& script() { return script_; }
  host::MetadataSnapshot Snapshot() const;
  int64_t version() const { return version_; }
  const host::TopicInfo* FindTopic(std::string_view name) const;
  const host::TopicInfo* FindTopic(const Uuid& id) const;
  const host::MirrorInfo* FindMirror(std::string_view name) const;
  // The next producer id the cluster would allocate, and the end (exclusive) of its own range (R9).
  int64_t producer_id_floor() const { return producer_id_floor_; }
  int64_t producer_id_range_end() const { return producer_id_range_end_; }
  void SetProducerIdRange(int64_t begin, int64_t end);

 private:
  struct Draft {
    std::map<Uuid, host::TopicInfo> topics;
    std::vector<Uuid> removed_topics;
    std::vector<host::MirrorInfo> mirrors;
    std::vector<std::string> removed_mirrors;
    std::vector<host::BrokerInfo> brokers;
    int16_t mirror_version = -1;
  };
  void Run(std::string_view op, std::string detail, std::function<Status()> change,
           host::Completion done);
  void Commit(Draft draft);
  void Send(host::MetadataDelta delta);
  Status CheckNames(const std::vector<Uuid>& topics, int64_t expected_version) const;

  host::Runtime* runtime_;
  host::Lane* lane_;
  bool inline_answers_;
  MemoryLogs* logs_;
  CallScript script_;

  int64_t version_ = 1;
  std::string cluster_id_;
  int32_t this_broker_;
  int16_t mirror_version_ = 1;
  std::vector<host::BrokerInfo> brokers_;
  std::map<Uuid, host::TopicInfo> topics_;
  std::map<std::string, host::MirrorInfo> mirrors_;
  std::map<Uuid, int64_t> name_changed_at_;  // version of the last change of `mirror.name`
  int64_t producer_id_floor_ = 1000;
  int64_t producer_id_range_begin_ = 1000;
  int64_t producer_id_range_end_ = 1'000'000'000;

  std::shared_ptr<Listener> listener_;  // shared: deltas on their way hold it weakly
  bool deltas_paused_ = false;
  std::vector<std::function<void()>> queued_;
};

}  // namespace kmirror::conformance
