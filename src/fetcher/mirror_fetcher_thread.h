// Fetches the partitions of one mirror from one source broker and appends them, unchanged, to the
// host's logs: the mirror's side of fetcher-and-log 1.8 to 1.12 and 2.1, 2.9.
//
// Lane rule: everything on the fetcher's own lane.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "kmirror/host/partition_log.h"
#include "src/fetcher/abstract_fetcher_thread.h"
#include "src/fetcher/fetcher_role.h"
#include "src/fetcher/mirror_fetching.h"
#include "src/fetcher/position_cell.h"

namespace kmirror::fetcher {

// Told by a fetcher, on its lane. `generation` is the one the partition was added with.
class MirrorFetcherOwner {
 public:
  virtual ~MirrorFetcherOwner() = default;
  virtual void OnFetching(const TopicIdPartition& key, uint64_t generation) = 0;
  // The partition has left the fetcher, and nothing more of it will be appended.
  virtual void OnStopped(FetchStopped stopped, uint64_t generation) = 0;
  virtual void OnEpochNear(const TopicIdPartition& key, uint64_t generation, int32_t epoch) = 0;
  virtual void OnGap(const TopicIdPartition& key, uint64_t generation, int64_t from,
                     int64_t to) = 0;
  // As OnStopped: the source named another leader, to go on with at once.
  virtual void OnMoved(const TopicIdPartition& key, uint64_t generation, int32_t leader_id,
                       const HostPort& leader, int32_t leader_epoch) = 0;
  // As OnMoved: to go on in another fetcher of the same broker, `role` is its role.
  // `told`: OnFetching was told. `epochs_in_fetch`: no epoch exchange is needed there.
  virtual void OnRole(const TopicIdPartition& key, uint64_t generation, FetcherRole role, bool told,
                      bool epochs_in_fetch) = 0;
  virtual void OnSourceTrouble(const std::string& reason) = 0;
};

class MirrorFetcherThread : public AbstractFetcherThread {
 public:
  static constexpr int kMaxCorrupt = 20;  // identical corrupt answers before the mirror gives up
  // Kafka looks at every partition of a session in every round, so idle ones are a burden on the
  // busy ones beside them (design.md, hot and cold): a hot fetcher keeps this many of them, and
  // sends those without data for kColdAfter to the cold one, which waits long at the source; each
  // comes back with its first data.
  static constexpr size_t kMaxIdleBesideHot = 100;
  static constexpr std::chrono::seconds kColdAfter{30};
  static constexpr int32_t kColdWaitMs = 4000;
  // A newcomer asks with no patience at all; a fetch of partitions that have all been heard of has
  // this much.
  static constexpr int32_t kNewcomerWaitMs = 20;
  // One that has caught up leaves when the hot fetch is about to end, so that nothing has to wait
  // for that; if it takes longer than this, all the same.
  static constexpr std::chrono::milliseconds kNewcomerStay{1000};

  struct Start {
    uint64_t generation = 0;
    // A source epoch that batches were seen with although the source still names a lower one (S71);
    // such batches are taken now. -1 none.
    int32_t known_epoch = -1;
    std::shared_ptr<PositionCell> cell;
    std::chrono::nanoseconds delay{0};
    bool resumed = false;         // from another role: OnFetching was told already
    bool exchange = true;         // epochs first
    std::shared_ptr<const FetcherStats> hot;  // of a newcomer: of the fetcher it will go to
  };

  MirrorFetcherThread(host::Runtime* runtime, host::Lane* lane, Transport* transport,
                      FetcherSettings settings, std::shared_ptr<FetcherStats> stats,
                      std::shared_ptr<const MirrorSourceConfig> config, MirrorFetcherOwner* owner,
                      FetcherRole role);
  ~MirrorFetcherThread() override;

  void Add(FetchAssignment assignment, Start start);
  void Remove(const TopicIdPartition& key, std::function<void()> removed);
  void UpdateLocalEpoch(const TopicIdPartition& key, int32_t epoch);

 private:
  // One assignment. The log reports pending appends to it, on any thread.
  struct Assigned final : host::AppendDone {
    void Done(host::AppendResult result) noexcept override;

    MirrorFetcherThread* thread = nullptr;
    FetchAssignment assignment;
    uint64_t generation = 0;
    int32_t known_epoch = -1;
    std::shared_ptr<PositionCell> cell;
    Backoff backoff{std::chrono::seconds(1), std::chrono::minutes(1)};
    bool fetching = false;         // OnFetching was told
    bool answered = false;  // this fetcher had an answer for it: its rounds are news of it
    bool near = false;             // OnEpochNear was told for this local epoch
    bool in_log = false;           // a mutator is pending there
    int not_end = 0;               // appends refused in a row because the log ends elsewhere
    int errors = 0;                // answers in a row that named no such topic
    int64_t corrupt_offset = -1;
    int corrupt = 0;               // in a row, at corrupt_offset
    int64_t source_log_start = -1;
    bool got_data = false;         // since the last answer was dealt with
    std::shared_ptr<const FetcherStats> hot;
    std::chrono::nanoseconds caught_up{0};  // since then; 0: is behind
    int64_t hot_requests = 0;               // at that time
    std::chrono::nanoseconds last_data{0};  // or when it was added
  };

  // Hooks.
  FetchIdentity Identity() const override;
  bool CheckSet(const TopicIdPartition& key, const FetchedSet& set, int32_t fetch_epoch) override;
  Processed ProcessSet(const TopicIdPartition& key, uint64_t generation, const FetchedSet& set,
                       int64_t expected_end, int64_t high_watermark, int64_t log_start) override;
  bool CutLog(const TopicIdPartition& key, uint64_t generation, int64_t offset) override;
  bool OnCutComplete(const TopicIdPartition& key, int64_t end) override;
  bool RestartLog(const TopicIdPartition& key, uint64_t generation, int64_t offset) override;
  LocalLog Local(const TopicIdPartition& key) const override;
  host::EpochEnd LocalEpochEnd(const TopicIdPartition& key, int32_t epoch) const override;
  int32_t LocalEpochBelow(const TopicIdPartition& key, int32_t epoch) const override;
  FaultAction OnFault(const TopicIdPartition& key, const Fault& fault) override;
  void OnUnsettled(const TopicIdPartition& key) override;
  void OnAnswer(const TopicIdPartition& key, int64_t high_watermark, int64_t log_start,
                std::chrono::nanoseconds at) override;
  void OnRound() override;
  void OnLink(const Status& status) override;
  void OnRefused(const Status& why) override;

  Assigned& At(const TopicIdPartition& key) const { return *assigned_.at(key); }
  // What an append's answer means; drops the partition where it must.
  Processed Judge(Assigned& assigned, host::AppendResult result);
  void OnAppended(const TopicIdPartition& key, uint64_t generation, host::AppendResult result);
  void OnMutated(const TopicIdPartition& key, uint64_t generation, Status status);
  // Drops the partition and tells the owner once nothing more can be appended. `assigned` is gone
  // afterwards, unless an append is pending.
  void Stop(Assigned& assigned, FetchStop why, int64_t offset, int32_t epoch, std::string message);
  FaultAction OnSourceError(Assigned& assigned, const Fault& fault);
  FaultAction OnLeaderError(Assigned& assigned, const Fault& fault);
  void FollowLogStart(Assigned& assigned);
  // A newcomer that has caught up: would it be asked about at once by the hot fetcher?
  bool HotFetchIsNear(Assigned& assigned) const;
  // Hands the partition to the fetcher of another role.
  void Leave(Assigned& assigned, FetcherRole role);
  void SendIdleOnesAway();
  void Trouble(Assigned& assigned, const std::string& text);
  void TellTrouble(const std::string& reason);

  const std::shared_ptr<const MirrorSourceConfig> config_;
  MirrorFetcherOwner* const owner_;
  const FetcherRole role_;
  std::chrono::nanoseconds looked_for_idle_{0};
  const std::shared_ptr<FetcherStats> shared_stats_;
  std::unordered_map<TopicIdPartition, std::unique_ptr<Assigned>> assigned_;
  std::set<TopicIdPartition>
      log_start_behind_;  // to be raised further when the high watermark allows
  std::chrono::nanoseconds trouble_told_{0};     // 0: never
};

}  // namespace kmirror::fetcher
