// A source cluster that exists in memory only: topics with real logs, leaders, epochs, mirrors of
// its own; a client of it (fetcher::SourceCluster); and fetchers that copy its bytes.
//
// What the source answers is read from the model at the moment of the answer. Its CallScript holds,
// refuses or loses answers by call ("DescribeTopics", "EndOffsetForEpoch", ...).
#pragma once

#include <chrono>
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
#include "conformance/memory_host/memory_log.h"
#include "src/fetcher/mirror_fetching.h"
#include "src/fetcher/source_cluster.h"

namespace kmirror::coordinator {

struct SourceModel {
  struct Partition {
    int32_t leader_id = 1;
    int32_t leader_epoch = 0;
    std::shared_ptr<conformance::MemoryLog> log;
    fetcher::SourceMirrorPosition position{
        .authoritative = true, .active = false, .active_state = {}};
  };
  struct Topic {
    Uuid id;
    ErrorCode error = ErrorCode::kNone;
    std::vector<Partition> partitions;
  };

  static constexpr char kDescribe[] = "DescribeTopics";
  static constexpr char kList[] = "ListTopics";
  static constexpr char kFeatures[] = "Features";
  static constexpr char kListMirrors[] = "ListMirrors";
  static constexpr char kPositions[] = "MirrorPositions";
  static constexpr char kEpochEnd[] = "EndOffsetForEpoch";

  explicit SourceModel(conformance::ManualRuntime* owner)
      : runtime(owner), lane(owner->NewLane("source")), script(lane.get(), false) {}

  // A topic whose id is `seed` repeated.
  Topic& AddTopic(const std::string& name, int partitions = 1, uint8_t seed = 0x51);
  Partition& At(const std::string& topic, int partition = 0) {
    return topics.at(topic).partitions.at(static_cast<size_t>(partition));
  }
  // The partition's next leader, at `epoch`.
  void Elect(const std::string& topic, int32_t epoch, int partition = 0);
  // One batch of `records` at the log's end under the present leader epoch.
  void Append(const std::string& topic, int records = 1, int partition = 0);
  void AppendTransactional(const std::string& topic, int64_t producer_id, int16_t producer_epoch,
                           int32_t sequence, int partition = 0);
  void AppendMarker(const std::string& topic, int16_t type, int64_t producer_id,
                    int16_t producer_epoch, int32_t coordinator_epoch, int partition = 0);
  conformance::MemoryLog& Log(const std::string& topic, int partition = 0) {
    return *At(topic, partition).log;
  }

  conformance::ManualRuntime* runtime;
  std::unique_ptr<host::Lane> lane;
  conformance::CallScript script;
  std::string cluster_id = "source-cluster-AAAAAAA";
  std::map<int32_t, HostPort> brokers{{1, {"source", 9092}}};
  std::map<std::string, Topic> topics;
  std::set<std::string> listed_only;  // names the listing shows although describe does not
  bool reachable = true;
  std::set<std::string> hung;  // mirrors whose source takes every request and answers none
  bool mirrors_feature = true;
  std::vector<fetcher::SourceMirror> mirrors;
  int open_clients = 0;
};

class FakeSourceFactory final : public fetcher::SourceClusterFactory {
 public:
  explicit FakeSourceFactory(SourceModel* model) : model_(model) {}
  std::unique_ptr<fetcher::SourceCluster> Open(
      std::shared_ptr<const fetcher::MirrorSourceConfig> config, host::Lane* lane) override;

 private:
  SourceModel* model_;
};

// Copies from the model's logs into the assigned ones, a batch a step, as a fetcher does: epoch
// check first, nothing above the local leader epoch, every end of an assignment told as an event.
class FakeFetching final : public fetcher::MirrorFetching {
 public:
  FakeFetching(SourceModel* model, host::Lane* lane, fetcher::FetchEvents* events)
      : model_(model), lane_(lane), events_(events) {}
  ~FakeFetching() override;

  void SetMirror(std::shared_ptr<const fetcher::MirrorSourceConfig> config) override;
  void RemoveMirror(const std::string& mirror) override;
  void Add(const std::string& mirror, fetcher::FetchAssignment assignment) override;
  void Remove(const TopicIdPartition& partition, std::function<void()> done) override;
  void UpdateLocalEpoch(const TopicIdPartition& partition, int32_t local_leader_epoch) override;
  std::optional<fetcher::FetchPosition> Position(const TopicIdPartition& partition) const override;

  // Delivers an event of the partition's present assignment, which ends.
  void Stop(const TopicIdPartition& partition, fetcher::FetchStop why, int64_t offset = -1,
            int32_t epoch = -1, std::string message = {});
  // Delivers any event, true or stale, at once as a task of the lane.
  void Deliver(fetcher::FetchStopped stopped);
  bool Assigned(const TopicIdPartition& partition) const { return assigned_.contains(partition); }
  const fetcher::FetchAssignment* Assignment(const TopicIdPartition& partition) const {
    const auto it = assigned_.find(partition);
    return it == assigned_.end() ? nullptr : &it->second.assignment;
  }
  // While frozen nothing has any effect: the process is dying.
  void Freeze() { frozen_ = true; }
  void HoldRemoves(bool hold);
  // At most this many batches more are copied in all; -1 no limit.
  void Limit(int64_t batches) { limit_ = batches; }

  std::chrono::milliseconds poll{20};  // between two looks at a source that had nothing new
  int adds = 0;
  int removes = 0;
  int restarts = 0;                  // SetMirror calls
  std::vector<int64_t> add_offsets;  // the log's end at each add

 private:
  struct Slot {
    fetcher::FetchAssignment assignment;
    std::string mirror;
    bool told = false;
    bool near_told = false;
  };
  void Poll(const TopicIdPartition& partition, uint64_t generation);
  bool Step(const TopicIdPartition& partition, Slot& slot);
  void End(const TopicIdPartition& partition, fetcher::FetchStop why, int64_t offset, int32_t epoch,
           std::string message);

  SourceModel* model_;
  host::Lane* lane_;
  fetcher::FetchEvents* events_;
  std::map<TopicIdPartition, Slot> assigned_;
  bool frozen_ = false;
  bool hold_removes_ = false;
  std::vector<std::function<void()>> held_removes_;
  int64_t limit_ = -1;
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
};

}  // namespace kmirror::coordinator
