// The loop that fetches partitions from one broker: sessions, turns, delays, epoch exchanges,
// ranges, and the gate in front of every append. A "thread" in Kafka's words; here everything of it
// happens on one lane, driven by events, without blocking.
//
// It knows no log and no mirror: the derived class gives it five things:
//   Identity           who asks, and for how much
//   CheckSet, ProcessSet     what becomes of fetched batches
//   CutLog, RestartLog       how the local log is cut
//   Local, LocalEpochEnd, LocalEpochBelow   what the local log holds
//   OnFault            what an error means for a partition
// MirrorFetcherThread (here) and a broker's own replica fetcher derive from it.
//
// Lane rule: every method, hook and callback runs on the lane it was made with. Hooks must not call
// back into the public methods; the protected ones are theirs.
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "kmirror/host/partition_log.h"
#include "kmirror/host/runtime.h"
#include "kmirror/status.h"
#include "kmirror/types.h"
#include "src/fetcher/backoff.h"
#include "src/fetcher/fetch_response_parser.h"
#include "src/fetcher/fetch_session.h"
#include "src/fetcher/fetched_set.h"
#include "src/fetcher/fetcher_stats.h"
#include "src/fetcher/partition_fetch_state.h"
#include "src/fetcher/slab_pool.h"
#include "src/fetcher/transport.h"

namespace kmirror::fetcher {

struct FetcherSettings {
  std::string name;                  // for log lines
  ConnectionOptions connection;
  std::chrono::nanoseconds fetch_backoff{std::chrono::seconds(1)};
  std::chrono::nanoseconds max_backoff{std::chrono::minutes(5)};
  std::chrono::milliseconds request_timeout{30000};
  int64_t buffer_bytes = 8 << 20;    // R37
  int16_t max_fetch_version = kFetchMaxVersion;
};

// Who asks (1.11).
struct FetchIdentity {
  int32_t replica_id = -1;           // -1: a consumer
  int64_t replica_epoch = -1;
  int8_t isolation_level = 0;
  int32_t max_wait_ms = 500;
  int32_t min_bytes = 1;
  int32_t max_bytes = 10 << 20;      // of an answer
  int32_t partition_max_bytes = 10 << 20;
  // Partitions come and go: every fetch names every partition, and so does its answer (a session
  // for each would push others out of the source's cache), and one that has never been answered
  // does not wait at the source for what happens to others.
  bool passing = false;
};

class AbstractFetcherThread : private FetchResponseHandler, private ResponseSink {
 public:
  struct NewPartition {
    TopicIdPartition key;            // unique in this fetcher
    std::string topic;
    Uuid source_topic_id;            // zero: the source has no ids
    int32_t current_leader_epoch = -1;
    bool truncating = true;          // false: fetch at once (replica threads, 1.3)
    uint64_t generation = 0;         // tells this adding from others of the same key
    std::chrono::nanoseconds initial_delay{0};
  };

  // All outlive the thread.
  AbstractFetcherThread(host::Runtime* runtime, host::Lane* lane, Transport* transport,
                        FetcherSettings settings, std::shared_ptr<FetcherStats> stats);
  // REQUIRES: Close has completed.
  ~AbstractFetcherThread() override;

  // REQUIRES: the key is not there. Starts at the local log's end.
  void AddPartition(NewPartition partition);
  // `removed` runs once nothing of the partition is in flight at the log nor can start: at once, or
  // when the pending append has completed. Also for unknown keys.
  void RemovePartition(const TopicIdPartition& key, std::function<void()> removed);
  // Removes every partition, then closes the connections.
  void Close(std::function<void()> closed);

  bool HasPartition(const TopicIdPartition& key) { return Find(key) != nullptr; }
  size_t partition_count() const { return partitions_.size(); }

 protected:
  // What a set's processing came to.
  enum class Processed : uint8_t {
    kDone,     // in the log
    kPending,  // SetProcessed follows
    kRetry,    // nothing was appended: back to the log's end, epochs first, after a delay
    kGone,     // nothing was appended and the hook has dropped the partition
  };
  struct LocalLog {
    int64_t start = 0;
    int64_t end = 0;
    int32_t latest_epoch = -1;       // of the epoch history
    int32_t last_batch_epoch = -1;
  };
  // A partition's error with what the source said about its leader.
  struct Fault {
    enum class Kind : uint8_t {
      kSource,          // `code` from the source
      kCorrupt,         // offset, text
      kMisplaced,       // whole batches that do not continue the log: offset, text
      kOnlyPartial,     // not one whole batch came
      kPreferredReplica,
      kNoCommonEpoch,   // the source knows none of our epochs
      kCutFailed,       // CutDone with `code` and `text`
    };
    Kind kind = Kind::kSource;
    ErrorCode code = ErrorCode::kNone;
    std::string text;
    int64_t offset = -1;
    int32_t leader_id = -1;
    int32_t leader_epoch = -1;
    std::optional<HostPort> leader_address;
    bool has_endpoints = false;      // the answer named brokers at all
  };
  enum class FaultAction : uint8_t {
    kDelay,   // by the fetch backoff
    kKeep,    // the hook has seen to it
    kGone,    // the hook has dropped the partition
  };

  // ---- The hooks.
  virtual FetchIdentity Identity() const = 0;
  // Before the position moves: may this set be appended? False: the hook has dropped the partition.
  virtual bool CheckSet(const TopicIdPartition& key, const FetchedSet& set,
                        int32_t fetch_epoch) = 0;
  // `expected_end`: where the log must end. The set stays valid until the call answers, or with
  // kPending until SetProcessed, which must not come from within this call.
  virtual Processed ProcessSet(const TopicIdPartition& key, uint64_t generation,
                               const FetchedSet& set, int64_t expected_end, int64_t high_watermark,
                               int64_t log_start) = 0;
  // The log diverges from the source at `offset`, below its end. True: it is being cut there and
  // CutDone follows, not from within this call. False: the hook has dropped the partition.
  virtual bool CutLog(const TopicIdPartition& key, uint64_t generation, int64_t offset) = 0;
  // After the last cut of an alignment: true to go on fetching, false: the hook dropped the
  // partition.
  virtual bool OnCutComplete(const TopicIdPartition& key, int64_t end) = 0;
  // The source begins at `offset`, above our end: restart the log empty there. Answers as CutLog.
  virtual bool RestartLog(const TopicIdPartition& key, uint64_t generation, int64_t offset) = 0;
  virtual LocalLog Local(const TopicIdPartition& key) const = 0;
  virtual host::EpochEnd LocalEpochEnd(const TopicIdPartition& key, int32_t epoch) const = 0;
  // The greatest epoch of the history below `epoch`; -1 none.
  virtual int32_t LocalEpochBelow(const TopicIdPartition& key, int32_t epoch) const = 0;
  virtual FaultAction OnFault(const TopicIdPartition& key, const Fault& fault) = 0;
  // ---- And what it tells them.
  // An answer without error for the partition has been dealt with, appends included. -1: unchanged.
  // `at`: when the answer began to arrive. What it says of the source is no younger, however long
  // the rest of it and the appends took.
  virtual void OnAnswer(const TopicIdPartition& key, int64_t high_watermark, int64_t log_start,
                        std::chrono::nanoseconds at) = 0;
  // An answer named the partition, and what it says of the source is not known yet: an error, a
  // divergence, data that waits for its append. Until OnAnswer, other answers are no news of it.
  virtual void OnUnsettled(const TopicIdPartition& key) { (void)key; }
  // A fetch round succeeded, whichever partitions it named; none when the source throttles.
  virtual void OnRound() {}
  // The source cannot be reached, or (OK) it can again.
  virtual void OnLink(const Status& status) = 0;
  // The source refuses the fetch, or answers another one; it is asked anew, after a while.
  virtual void OnRefused(const Status& why) { (void)why; }

  // ---- For hooks.
  // Drops the partition; `dropped` runs when nothing more of it can be appended.
  void Drop(const TopicIdPartition& key, std::function<void()> dropped);
  void SetProcessed(const TopicIdPartition& key, uint64_t generation, Processed result);
  void CutDone(const TopicIdPartition& key, uint64_t generation, Status status);
  // The source's leader epoch rose; never lowers it.
  void RaiseSourceEpoch(const TopicIdPartition& key, int32_t epoch);
  void DelayPartition(const TopicIdPartition& key, std::chrono::nanoseconds delay);
  const PartitionFetchState* State(const TopicIdPartition& key);
  // Whether the source tells of diverging epochs in fetch answers; then a partition that was just
  // fetched elsewhere may go on without an exchange.
  bool EpochsInFetch() const { return fetch_version_ >= kFetchFirstFlexible; }

  host::Runtime* runtime() const { return runtime_; }
  host::Lane* lane() const { return lane_; }
  const FetcherSettings& settings() const { return settings_; }
  FetcherStats& stats() const { return *stats_; }
  void Log(host::LogLevel level, const std::string& line) const;

 private:
  struct QueuedSet {
    std::unique_ptr<FetchedSet> set;
    int64_t expected_end = 0;
    int64_t high_watermark = -1;
    int64_t log_start = -1;
  };
  struct Partition {
    std::string topic;
    Uuid source_topic_id;
    uint64_t generation = 0;
    PartitionFetchState state;
    std::deque<QueuedSet> queue;     // gated, in order; the front one is at the log while busy
    bool busy = false;               // an append, a cut or a restart is in flight
    bool cutting = false;            // it is a cut or a restart
    bool restarting = false;
    bool removing = false;
    std::vector<std::function<void()>> removed;
    bool asking = false;             // an epoch or range request is in flight,
    const void* asked_on = nullptr;  // on this link
    int32_t ask_epoch = -1;          // ask with this one instead of the latest (1.6 [R])
    bool cut_complete = false;       // of the cut in flight
    bool was_cut = false;            // since the alignment began
    bool dirty = false;
    bool control_listed = false;     // in control_ or control_waiting_
    bool answered = false;           // OnAnswer is due once the queue is empty
    int64_t answered_high_watermark = -1;
    int64_t answered_log_start = -1;
    std::chrono::nanoseconds answered_at{0};
  };
  // The partition of the answer that is being received.
  struct Current {
    bool accepted = false;
    TopicIdPartition key;
    uint64_t generation = 0;
    int64_t next_offset = 0;
    int32_t fetch_epoch = -1;
    int64_t high_watermark = -1;
    int64_t log_start = -1;
    bool any_set = false;
  };
  struct LeaderFault {
    TopicIdPartition key;
    uint64_t generation;
    Fault fault;
  };
  struct Divergence {
    TopicIdPartition key;
    uint64_t generation;
    host::EpochEnd source;
  };
  struct Link {
    std::unique_ptr<Connection> connection;
    bool open = false;
    bool opening = false;
    Backoff backoff;
    std::chrono::nanoseconds retry_at{0};
    std::chrono::nanoseconds not_before{0};  // the source asked for patience on this connection
    bool failed = false;             // since the last success
  };
  struct AskedEpoch {
    TopicIdPartition key;
    uint64_t generation;
    int32_t leader_epoch;
    int32_t epoch;
  };

  // Why the set cannot follow what the log and the queue hold; empty: it can.
  std::string Misplaced(const TopicIdPartition& key, const Partition& partition,
                        const FetchedSet& set) const;
  Partition* Find(const TopicIdPartition& key) { return partitions_.Find(key); }
  Partition* FindSame(const TopicIdPartition& key, uint64_t generation);
  std::chrono::nanoseconds Now() const { return runtime_->MonotonicNow(); }

  // Does what can be done now: links, epoch exchanges, the next fetch.
  void Pump();
  void OpenLink(Link* link);
  void OnLinkOpened(Link* link, Status status);
  void OnLinkFailed(Link* link, const Status& status);
  void OnLinkSucceeded(Link* link);
  // An answer on this link asked for `throttle_ms` without another request (7.2).
  void Throttle(Link* link, int32_t throttle_ms);
  void CloseLinks();
  Status CheckVersions(const BrokerVersions& versions) const;
  // A link for a control request that must not wait behind a fetch; null: opening, or not
  // reachable.
  Link* ControlLink();
  void ArmTimer();
  void OnTimer();

  // Epoch exchanges and ranges of the partitions that need them: of those listed, not of all.
  void WantControl(const TopicIdPartition& key, Partition& partition);
  void StartControl();
  void AskEpochs(Link* link, std::vector<AskedEpoch> asked);
  void OnEpochAnswer(Link* link, const std::vector<AskedEpoch>& asked, int16_t version,
                     Result<std::vector<uint8_t>> body);
  void Align(const TopicIdPartition& key, Partition& partition, host::EpochEnd source,
             int32_t asked_epoch);
  void GoOnFetching(const TopicIdPartition& key, Partition& partition);
  void Cut(const TopicIdPartition& key, Partition& partition, int64_t offset, bool complete);

  // ListOffsets: the latest offset first, then, if `latest` is given, the earliest.
  void AskRange(Link* link, const TopicIdPartition& key, Partition& partition,
                std::optional<int64_t> latest);
  void OnRange(Link* link, const TopicIdPartition& key, uint64_t generation, int32_t leader_epoch,
               std::optional<int64_t> latest, int16_t version, Result<std::vector<uint8_t>> body);

  void SendFetch();
  bool HasUnheard(const FetchSession::Request& request);
  std::optional<FetchSession::Request> BuildFetch(const FetchIdentity& identity);
  SessionPartition Ask(const TopicIdPartition& key, const Partition& partition,
                       const FetchIdentity& identity) const;
  bool Wanted(const Partition& partition) const;
  void MarkDirty(const TopicIdPartition& key, Partition& partition);
  void EndRound();
  void HoldFetches(const Status& why);
  // A source that does not wait for news must not be asked without end.
  void SlowDownIfEmpty();
  void HandleFault(const TopicIdPartition& key, uint64_t generation, const Fault& fault);
  void Delay(const TopicIdPartition& key, Partition& partition, std::chrono::nanoseconds delay);

  size_t DeferredBytes();            // of the set that FlushDeferred would hand on; 0: none
  void FlushDeferred();
  void ProcessQueue(const TopicIdPartition& key);
  void CountAppended(const FetchedSet& set);
  void RollBack(const TopicIdPartition& key, Partition& partition);
  void SettleAnswer(const TopicIdPartition& key);
  void ClearQueue(Partition& partition);
  void FinishRemoval(const TopicIdPartition& key);
  void CloseIfEmpty();

  // FetchResponseHandler
  Status OnPrologue(int32_t throttle_ms, ErrorCode error, int32_t session_id) override;
  bool OnPartition(const FetchedPartition& partition) override;
  void OnSet(std::unique_ptr<FetchedSet> set) override;
  void OnPartitionEnd(const FetchedPartition& partition, const FetchedPartitionEnd& end) override;
  void OnMemoryShort() override { FlushDeferred(); }
  bool HoldsSets() const override { return held_sets_ > 0; }
  // ResponseSink
  Status Begin(size_t bytes) override;
  std::span<uint8_t> Room(size_t left) override { return parser_.Room(left); }
  Status Received(size_t bytes) override;
  void Done(Status status) override;

  host::Runtime* const runtime_;
  host::Lane* const lane_;
  Transport* const transport_;
  const FetcherSettings settings_;
  const std::shared_ptr<FetcherStats> stats_;

  SlabPool pool_;                    // outlives every set
  FetchOrder<Partition> partitions_;
  std::map<std::pair<std::string, int32_t>, TopicIdPartition> by_name_;
  size_t without_topic_id_ = 0;
  std::vector<TopicIdPartition> dirty_;
  std::set<std::pair<std::chrono::nanoseconds, TopicIdPartition>> delayed_;
  // Partitions that may have something to ask; and those that have, and no link to ask on.
  std::vector<TopicIdPartition> control_;
  std::vector<TopicIdPartition> control_waiting_;

  Link fetch_link_;
  Link control_link_;
  int16_t fetch_version_ = 0;        // negotiated, before the cap of names
  Backoff session_backoff_;
  std::chrono::nanoseconds fetch_not_before_{0};  // after a refused session

  FetchSession session_;
  bool session_uses_ids_ = false;
  bool fetching_ = false;            // a fetch is in flight
  int16_t fetching_version_ = 0;
  std::vector<SessionPartition> asked_last_;
  int32_t throttle_ms_ = 0;
  std::chrono::nanoseconds answer_at_{0};  // when the answer under way, or the last, began
  bool session_refused_ = false;
  // By its quota the source has answered nothing at all (KIP-219): no news of anything, and not
  // even that there is none.
  bool withheld_ = false;
  std::chrono::nanoseconds fetch_sent_at_{0};
  std::chrono::nanoseconds fetch_wait_{0};  // what the source was allowed to wait for news
  bool any_news_ = false;                   // the answer has brought data, or an error
  int empty_answers_ = 0;                   // in a row that came early and brought none
  FetchResponseParser parser_;
  Current current_;
  // Its last queued set waits for the next fetch to leave.
  std::optional<TopicIdPartition> deferred_;
  size_t held_sets_ = 0;
  std::vector<LeaderFault> leader_faults_;
  std::vector<Divergence> divergences_;

  host::Lane::TimerId timer_ = 0;
  std::chrono::nanoseconds timer_due_{0};
  bool pumping_ = false;
  bool close_posted_ = false;
  std::function<void()> closed_;     // set: closing
};

}  // namespace kmirror::fetcher
