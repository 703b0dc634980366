// The client's half of an incremental fetch session (KIP-227): which partitions of a fetch must be
// on the wire, and what an answer means for the session. Pure; fetcher-and-log 1.10 has the rules.
//
// Sequence: BuildFull or BuildIncremental -> (OnTransportFailure | OnPrologue, OnPartition...,
// OnEnd).
#pragma once

#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

#include "kmirror/status.h"
#include "kmirror/types.h"

namespace kmirror::fetcher {

// A partition as the source was, or will be, asked for it.
struct SessionPartition {
  TopicIdPartition key;            // ours: unique within the session
  std::string topic;
  Uuid source_topic_id;            // zero: the source has no ids
  int64_t fetch_offset = 0;
  int64_t log_start_offset = -1;   // sources ignore it for consumers
  int32_t current_leader_epoch = -1;
  int32_t last_fetched_epoch = -1;
  int32_t max_bytes = 0;
  uint64_t generation = 0;         // of the assignment; never on the wire

  bool SameOnWire(const SessionPartition& other) const {
    return topic == other.topic && source_topic_id == other.source_topic_id &&
           fetch_offset == other.fetch_offset && log_start_offset == other.log_start_offset &&
           current_leader_epoch == other.current_leader_epoch &&
           last_fetched_epoch == other.last_fetched_epoch && max_bytes == other.max_bytes;
  }
};

class FetchSession {
 public:
  struct Request {
    int32_t session_id = 0;
    int32_t session_epoch = 0;
    std::vector<SessionPartition> partitions;  // in the order they go on the wire
    std::vector<SessionPartition> forgotten;
    // A partition must leave the session before it can come back (its earlier answer was thrown
    // away, and the source would not repeat what it believes we know): do not wait for data.
    bool hurry = false;
    bool full() const { return session_epoch == 0; }
  };

  static constexpr int32_t kInitialEpoch = 0;
  static constexpr int32_t kNoSession = -1;  // on the wire, for a full request that makes none

  // The next request must be full (and carry every wanted partition).
  bool NeedsFull() const { return epoch_ == kInitialEpoch; }
  // REQUIRES: NeedsFull(). `wanted` in fetch order.
  Request BuildFull(std::vector<SessionPartition> wanted);
  // REQUIRES: !NeedsFull(). `changed`: wanted partitions that may differ from what the session has,
  // in order; those that do not differ are left out. `unwanted`: partitions not to be fetched now;
  // ones the session does not have are ignored. Partitions in neither stay as they are. Partitions
  // that have to be offered again next time are added to `again`.
  Request BuildIncremental(std::vector<SessionPartition> changed,
                           const std::vector<TopicIdPartition>& unwanted,
                           std::vector<TopicIdPartition>* again);

  // The last answer said something of any partition; of this one, if only an error.
  bool NamedAny() const { return seen_ > 0; }
  bool Named(const TopicIdPartition& key) const;
  // What the source was last asked for this partition; null when it is not in the session.
  const SessionPartition* Find(const TopicIdPartition& key) const;
  size_t size() const { return entries_.size(); }
  int32_t id() const { return id_; }
  int32_t epoch() const { return epoch_; }

  void OnTransportFailure() { epoch_ = kInitialEpoch; }
  // Between requests: the next one is full, and closes the session there may be at the source.
  void Restart() { epoch_ = kInitialEpoch; }

  // The start of an answer. Not OK: nothing of it counts, and the session is as it must be for the
  // next request.
  Status OnPrologue(ErrorCode error, int32_t session_id);
  // A partition of the answer; null: one that we do not know. Not OK: the partition is not to be
  // used.
  Status OnPartition(const TopicIdPartition* key);
  // The end of an answer. Not OK: the session starts anew; what was appended already stays
  // (design.md).
  Status OnEnd(int32_t throttle_ms);

 private:
  struct Entry {
    SessionPartition sent;
    uint64_t seen_round = 0;
  };

  int32_t id_ = 0;
  int32_t epoch_ = kInitialEpoch;
  bool last_was_full_ = false;
  uint64_t round_ = 0;
  size_t seen_ = 0;
  int32_t answer_session_id_ = 0;
  std::string mismatch_;
  std::unordered_map<TopicIdPartition, Entry> entries_;
};

}  // namespace kmirror::fetcher
