// What the coordinator asks of the fetchers of this broker, and what they tell it.
//
// MirrorFetcherManager implements MirrorFetching; coordinator tests use a fake. All calls of
// MirrorFetching are made on the coordinator's lane; FetchEvents are delivered on that lane too.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "kmirror/host/partition_log.h"
#include "kmirror/types.h"
#include "src/fetcher/transport.h"

namespace kmirror::fetcher {

// How a mirror reaches and reads its source: from the mirror's configs (protocol.md 4.3), defaults
// of design.md. Immutable once handed out; a change of configs makes a new one.
struct MirrorSourceConfig {
  std::string mirror;
  std::vector<HostPort> bootstrap;
  std::string source_cluster_id;                 // "" until known
  std::shared_ptr<const TlsOptions> tls;         // null: `security.protocol` is PLAINTEXT
  int32_t fetch_wait_max_ms = 500;
  int32_t fetch_min_bytes = 1;
  int32_t fetch_response_max_bytes = 10 << 20;
  int32_t fetch_max_bytes = 10 << 20;            // one partition
  int64_t fetch_buffer_bytes = 8 << 20;          // R37, the slab bound of one fetcher
  int32_t fetch_backoff_ms = 1000;
  int32_t request_timeout_ms = 30000;
  int32_t socket_timeout_ms = 30000;
  int32_t socket_connection_setup_timeout_ms = 10000;
  int32_t socket_receive_buffer_bytes = -1;      // -1: leave autotuning on
  int8_t isolation_level = 0;                    // R5: 0 read_uncommitted, 1 read_committed
  bool gap_fails = false;                        // R12 `source.gap` = fail
};

// One partition to be mirrored from `leader`. Bound to one (local leader epoch): after a bump the
// coordinator calls UpdateLocalEpoch or removes and adds again.
struct FetchAssignment {
  TopicIdPartition partition;
  std::string topic;
  bool use_topic_id = true;                      // false: the source has no topic ids
  int32_t leader_id = -1;                        // source broker
  HostPort leader;
  int32_t source_leader_epoch = -1;
  int32_t local_leader_epoch = 0;
  bool may_truncate = false;  // `mirror.support.unclean.leader.election` (R13), or
                              // the source is itself a mirror (coordinator.md
                              // 4.7)
  uint64_t generation = 0;    // given back in FetchStopped, so that a late one shows
  std::shared_ptr<host::PartitionLog> log;
};

// Why a partition left its fetcher by itself. The fetcher has dropped the partition before the
// event is delivered: nothing more is appended until it is added again.
enum class FetchStop : uint8_t {
  kEpochAhead,       // a batch epoch above local_leader_epoch: EPOCH_FENCING (`epoch` says which)
  kLeaderUnknown,    // resolve the source leader again and re-add; not a failure (R10)
  kDiverged,         // the source lost offsets below our end; `offset` = where our log must be cut
                     // (nothing was cut unless may_truncate allowed it)
  kTruncated,        // as kDiverged, and the local log has been cut to `offset`: ULE_RECOVERY
  kGapRefused,       // source log start `offset` is above our end and source.gap = fail
  kTopicIdChanged,   // the source has another id for this name (not retryable)
  kLocalError,       // the disk, or an append that the log refused (retryable)
  kCorrupt,          // the same offset was corrupt too many times (2.5); `offset` names it
  kNoCommonEpoch,    // R26: the epoch exchange found no common position and the log is not empty
};

struct FetchStopped {
  TopicIdPartition partition;
  FetchStop why = FetchStop::kLocalError;
  uint64_t generation = 0;                       // of the assignment that ended
  int64_t offset = -1;
  int32_t epoch = -1;
  std::string message;
};

class FetchEvents {
 public:
  virtual ~FetchEvents() = default;
  // First successful fetch whose batches passed the epoch checks, or was empty, after an add.
  virtual void OnFetching(const TopicIdPartition& partition) = 0;
  virtual void OnStopped(const FetchStopped& stopped) = 0;
  // Proactive bump (fetcher-and-log.md 1.12 rule 2): ask for a local epoch above `source_epoch` +
  // 10. At most one per partition until its local epoch changes. The partition keeps fetching.
  virtual void OnEpochNear(const TopicIdPartition& partition, int32_t source_epoch) = 0;
  // R12: [from, to) was not there any more at the source; the log restarted at `to`.
  virtual void OnGap(const TopicIdPartition& partition, int64_t from, int64_t to) = 0;
  // A fetcher cannot reach `leader_id` of `mirror` (R10): metadata should be refreshed. Rate
  // limited.
  virtual void OnSourceTrouble(const std::string& mirror, const std::string& reason) = 0;
};

// What is known of a partition's lag. Thread-safe copies.
struct FetchPosition {
  int64_t source_high_watermark = -1;            // -1: nothing learned since it was added
  int64_t source_log_start = -1;
  int64_t fetch_offset = -1;
  int64_t learned_ns = 0;                        // monotonic time of the last answer for it
  int64_t caught_up_ns = 0;                      // monotonic time when lag was last known to be 0
  int64_t unreachable_since_ns = 0;              // 0: the last exchange succeeded
  std::string trouble;                           // reason while unreachable or backing off
};

class MirrorFetching {
 public:
  virtual ~MirrorFetching() = default;

  // Creates, or replaces after a config change, the source of a mirror. Its fetchers restart.
  virtual void SetMirror(std::shared_ptr<const MirrorSourceConfig> config) = 0;
  // Closes connections; REQUIRES no partition of it is assigned any more.
  virtual void RemoveMirror(const std::string& mirror) = 0;

  // Starts fetching at the log's end, with an epoch exchange first (fetcher-and-log.md 1.3).
  // An existing assignment of the partition is replaced.
  virtual void Add(const std::string& mirror, FetchAssignment assignment) = 0;
  // `done` runs on the coordinator's lane when no append of the partition is in flight or can start
  // (1.1: the barrier that STOPPING and PAUSING rest on). Also for partitions not assigned.
  virtual void Remove(const TopicIdPartition& partition, std::function<void()> done) = 0;
  // The destination's leader epoch rose; fetching goes on under the new one.
  virtual void UpdateLocalEpoch(const TopicIdPartition& partition, int32_t local_leader_epoch) = 0;
  // Who leads the partition at the source, as a refresh of its metadata says. A partition fetched
  // elsewhere is moved there, unless its fetcher has learned of a newer leader by itself: a broker
  // that died tells nobody who follows it. Nothing is said about partitions not assigned.
  virtual void UpdateSourceLeader(const TopicIdPartition& partition, int32_t leader_id,
                                  const HostPort& leader, int32_t leader_epoch) {
    (void)partition, (void)leader_id, (void)leader, (void)leader_epoch;
  }

  // Any thread. nullopt when not assigned.
  virtual std::optional<FetchPosition> Position(const TopicIdPartition& partition) const = 0;
};

}  // namespace kmirror::fetcher
