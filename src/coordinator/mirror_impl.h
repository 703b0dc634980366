// The coordinator of one broker: wires metadata, shards, drivers, source watches, fetchers and
// requests together on one lane.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "kmirror/mirror.h"
#include "src/coordinator/metadata_view.h"
#include "src/coordinator/partition_driver.h"
#include "src/coordinator/state_store.h"
#include "src/fetcher/mirror_fetching.h"
#include "src/fetcher/source_cluster.h"
#include "src/sync/mirror_config.h"
#include "src/sync/source_watch.h"

namespace kmirror::coordinator {

// What does the I/O; tests put fakes here.
struct Parts {
  std::shared_ptr<const void> keep_alive;  // what the others use; goes last
  std::unique_ptr<fetcher::MirrorFetching> fetching;
  std::unique_ptr<fetcher::SourceClusterFactory> sources;
  std::function<void(MetricSink*)> collect;  // the fetchers' own metrics; any thread
  // Closes what `fetching` runs on; `done` on any thread. The fetchers hold no partition any more.
  std::function<void(std::function<void()> done)> shutdown;
};
using MakeParts = std::function<Parts(host::Lane* lane, fetcher::FetchEvents* events)>;

class MirrorImpl final : public Mirror,
                         public fetcher::FetchEvents,
                         public sync::SourceWatchObserver {
 public:
  MirrorImpl(const host::Host& host, const Options& options, const MakeParts& make_parts);
  ~MirrorImpl() override;

  // Mirror
  void OnSnapshot(host::MetadataSnapshot snapshot) override;
  void OnDelta(host::MetadataDelta delta) override;
  void OnShardGained(int32_t shard) override;
  void OnShardLost(int32_t shard) override;
  void HandleRequest(const RequestContext& context, ByteView body,
                     std::function<void(std::vector<uint8_t>)> respond) override;
  Status CheckTopicChange(const Uuid& topic_id) const override;
  MirrorPartitionState StateOf(const TopicIdPartition& partition) const override;
  void Collect(MetricSink* sink) const override;
  void Shutdown(std::chrono::milliseconds deadline, std::function<void()> done) override;

  // For the admin requests, on the lane.
  const MetadataView& metadata() const { return metadata_; }
  const host::Host& host() const { return host_; }
  const Options& options() const { return options_; }
  host::Lane* lane() const { return lane_.get(); }
  StateStore& states() { return *states_; }
  PartitionDriver* Driver(const TopicIdPartition& partition);
  std::vector<PartitionDriver*> DriversOf(const Uuid& topic_id);
  sync::SourceWatch* Source(const std::string& mirror);
  // A client for a few questions. Closed by CloseSource, at the latest with the mirror.
  fetcher::SourceCluster* OpenSource(std::shared_ptr<const fetcher::MirrorSourceConfig> config);
  // Also from within one of its answers.
  void CloseSource(fetcher::SourceCluster* source);
  bool down() const { return down_; }
  std::optional<fetcher::FetchPosition> Position(const TopicIdPartition& partition) const {
    return parts_.fetching->Position(partition);
  }
  // A start links topics to a mirror that a deletion at the same time would take away from under
  // them, and the controller does not look: so the two exclude each other, from the call of the
  // controller to its answer.
  bool BeginLinking(const std::string& mirror);  // false: it is being deleted
  void EndLinking(const std::string& mirror);
  bool BeginDeleting(const std::string& mirror);  // false: topics are being linked to it
  void EndDeleting(const std::string& mirror) { deleting_.erase(mirror); }
  // R31, for the topic's next start; every start says anew whether it is allowed.
  void AllowDiscard(const Uuid& topic_id, bool allowed);
  void Step(std::string_view name, bool after) const {
    if (options_.step_hook) options_.step_hook(name, after);
  }

 private:
  // fetcher::FetchEvents
  void OnFetching(const TopicIdPartition& partition) override;
  void OnStopped(const fetcher::FetchStopped& stopped) override;
  void OnEpochNear(const TopicIdPartition& partition, int32_t source_epoch) override;
  void OnGap(const TopicIdPartition& partition, int64_t from, int64_t to) override;
  void OnSourceTrouble(const std::string& mirror, const std::string& reason) override;
  // sync::SourceWatchObserver
  void OnSourceRefreshed(const std::string& mirror) override;
  void OnSourceReachability(const std::string& mirror, bool reachable) override;
  void OnSourceTopicDeleted(const std::string& mirror, const std::string& topic) override;
  void OnSourceReplaced(const std::string& mirror, const std::string& expected_id,
                        const std::string& found_id) override;

  void OnLane(std::function<void()> task);
  void ApplyChanges(const MetadataView::Changes& changes);
  void CloseWatch(const std::string& mirror);
  void UpdateDrivers(const Uuid& topic_id);
  void UpdateMirror(const std::string& mirror);
  // Whether the source is asked about the topic, after a change of the topic or of its states.
  void FollowTopic(const Uuid& topic_id);
  void GrowPartitions(const std::string& mirror);
  // Tombstones for what is left of mirrors and topics that are gone (coordinator.md 8).
  void SweepStates();
  void CloseSources();
  void PublishTopic(const Uuid& topic_id);
  void Publish(const PartitionDriver& driver);
  std::vector<PartitionDriver*> DriversOfMirror(const std::string& mirror);

  const host::Host host_;
  const Options options_;
  std::unique_ptr<host::Lane> lane_;
  MetadataView metadata_;
  std::unique_ptr<StateStore> states_;
  Parts parts_;
  DriverContext context_;
  std::map<std::string, std::unique_ptr<sync::SourceWatch>> sources_;
  std::map<std::string, std::map<std::string, std::string>> source_configs_;
  // What the watches of `sources_` were told to follow.
  struct Followed {
    std::string mirror;
    std::string topic;
    bool operator==(const Followed&) const = default;
  };
  std::unordered_map<Uuid, Followed> followed_;
  std::map<TopicIdPartition, std::unique_ptr<PartitionDriver>> drivers_;
  std::vector<std::unique_ptr<fetcher::SourceCluster>> asking_;
  std::set<Uuid> growing_;
  std::set<Uuid> discard_allowed_;
  std::map<std::string, int> linking_;  // mirror, starts at the controller
  std::set<std::string> deleting_;
  bool down_ = false;
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);

  // Published for other threads.
  struct PublishedTopic {
    statemachine::Desired desired;
    std::string name;
    size_t partitions = 0;
  };
  struct PublishedPartition {
    std::string mirror;
    std::string topic;
    DriverReport report;
  };
  mutable std::mutex published_mutex_;
  std::unordered_map<Uuid, PublishedTopic> published_topics_;
  std::map<TopicIdPartition, PublishedPartition> published_;
  std::map<std::string, std::string> unreachable_;  // mirror, reason
  std::map<std::string, uint64_t> gaps_;            // mirror, offsets lost (R12)
  std::map<std::string, uint64_t> refreshes_;       // mirror, successful ones
};

}  // namespace kmirror::coordinator
