// What one mirror's source says of its topics, kept fresh: leaders and epochs, ids, partition
// counts, and whether it can be reached at all.
//
// One refresh is a Metadata exchange over the mirror's topics (coordinator.md 4.2). Refreshes run
// every `mirror.metadata.refresh.interval.ms`, sooner when someone asks, and with growing, jittered
// delays while the source does not answer (R10). What was learned stays until something newer is
// learned: a failed refresh changes nothing (invariant 8), an election in progress keeps the last
// leader, an epoch never goes back. A topic counts as deleted only after two refreshes in a row,
// each confirmed by a full listing, did not see it (4.4).
//
// Lane-confined to the coordinator's lane.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "kmirror/host/runtime.h"
#include "src/fetcher/source_cluster.h"

namespace kmirror::sync {

struct SourceTopicView {
  Uuid id;
  std::map<int32_t, fetcher::SourcePartition> partitions;
};

class SourceWatch;

class SourceWatchObserver {
 public:
  virtual ~SourceWatchObserver() = default;
  // A refresh succeeded. Called after the problems it found.
  virtual void OnSourceRefreshed(const std::string& mirror) = 0;
  // The source does not answer, or answers again after it did not.
  virtual void OnSourceReachability(const std::string& mirror, bool reachable) = 0;
  // Two refreshes and two full listings did not show the topic. Told again while that lasts.
  virtual void OnSourceTopicDeleted(const std::string& mirror, const std::string& topic) = 0;
  // Another cluster answers at this address (4.2 step 1).
  virtual void OnSourceReplaced(const std::string& mirror, const std::string& expected_id,
                                const std::string& found_id) = 0;
};

class SourceWatch {
 public:
  // `factory` is used at once. Pointers outlive the watch.
  SourceWatch(std::shared_ptr<const fetcher::MirrorSourceConfig> config,
              fetcher::SourceClusterFactory* factory, host::Runtime* runtime, host::Lane* lane,
              std::chrono::milliseconds interval, SourceWatchObserver* observer);
  ~SourceWatch();
  SourceWatch(const SourceWatch&) = delete;

  const fetcher::MirrorSourceConfig& config() const { return *config_; }
  fetcher::SourceCluster& cluster() { return *cluster_; }

  // The topics to ask about. A new one is asked for at once.
  void Follow(const std::string& topic);
  void Unfollow(const std::string& topic);
  // Refresh now, or as soon as the backoff after failures allows. Coalesced.
  void RefreshSoon();

  // nullptr: nothing known yet.
  const SourceTopicView* Topic(const std::string& name) const;
  // Leader and its address, when the last answers named one.
  struct Leader {
    int32_t id = -1;
    int32_t epoch = -1;
    HostPort address;
  };
  std::optional<Leader> LeaderOf(const std::string& topic, int32_t partition) const;
  // A fetch answer told of a newer leader epoch than metadata has.
  void LearnEpoch(const std::string& topic, int32_t partition, int32_t epoch);

  bool refreshed_once() const { return last_success_ns_ != 0; }
  // Monotonic; 0 while the source answers.
  int64_t unreachable_since_ns() const { return unreachable_since_ns_; }
  const std::string& trouble() const { return trouble_; }
  bool replaced() const { return replaced_; }

 private:
  void Refresh();
  void OnMetadata(Result<fetcher::SourceMetadata> answer);
  void ConfirmDeletions(std::set<std::string> missing);
  void ScheduleNext(std::chrono::nanoseconds delay);
  void Failed(const Status& status);

  const std::shared_ptr<const fetcher::MirrorSourceConfig> config_;
  host::Runtime* const runtime_;
  host::Lane* const lane_;
  const std::chrono::milliseconds interval_;
  SourceWatchObserver* const observer_;
  std::unique_ptr<fetcher::SourceCluster> cluster_;

  std::set<std::string> topics_;
  std::map<std::string, SourceTopicView> views_;
  struct Missing {
    int observations = 0;
    int64_t last_ns = 0;
  };
  std::map<std::string, Missing> missing_;  // topics that the refreshes in a row do not show
  std::map<int32_t, HostPort> brokers_;
  bool refreshing_ = false;
  bool again_ = false;
  bool replaced_ = false;
  int failures_ = 0;
  int64_t last_success_ns_ = 0;
  int64_t last_start_ns_ = 0;
  int64_t unreachable_since_ns_ = 0;
  int64_t next_due_ns_ = 0;
  std::string trouble_;
  host::Lane::TimerId timer_ = 0;
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
};

}  // namespace kmirror::sync
