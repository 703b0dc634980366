// Fetch sessions (KIP-227), the broker's side: which partitions a client fetches, so that it needs
// to say, and hear, only what changed.
//
// Pure apart from its locks: no clock, no I/O. Thread-safe. Follows Kafka: a session is made by a
// full request with epoch 0 when the cache has room for it, and an incremental answer leaves out
// partitions without news.
#pragma once

#include <cstdint>
#include <list>
#include <memory>
#include <mutex>
#include <random>
#include <string>
#include <unordered_map>
#include <vector>

#include "kmirror/status.h"
#include "kmirror/types.h"
#include "messages/fetch.h"

namespace kmirror::broker {

struct FetchTopicKey {
  std::string name;  // up to version 12
  Uuid id;           // from version 13
};

// What one request asks of one partition.
struct FetchTarget {
  std::shared_ptr<const FetchTopicKey> topic;
  int32_t partition = 0;
  int32_t max_bytes = 0;
  int64_t offset = 0;
  int32_t current_leader_epoch = -1;
  int32_t last_fetched_epoch = -1;
};

class FetchSession;

// A request after the session was looked at: fetch `targets` in this order.
struct FetchPlan {
  enum Kind { kSessionless, kNewSession, kIncremental };
  Kind kind = kSessionless;
  bool uses_topic_ids = false;
  std::vector<FetchTarget> targets;
  std::shared_ptr<FetchSession> session;                          // kIncremental
  std::vector<std::shared_ptr<struct SessionPartition>> entries;  // of targets; kIncremental
};

class FetchSessions {
 public:
  // slots: max.incremental.fetch.session.cache.slots; 0: no session is ever made.
  FetchSessions(size_t slots, uint64_t seed) : slots_(slots), random_(seed) {}

  // now_ms: monotonic. Errors are of the whole answer: FETCH_SESSION_ID_NOT_FOUND,
  // INVALID_FETCH_SESSION_EPOCH, FETCH_SESSION_TOPIC_ID_ERROR.
  Result<FetchPlan> Begin(const protocol::FetchRequest& request, int16_t version, int64_t now_ms);

  // Fills session id and topics of the answer. `answers` holds one for each target, in order.
  void Finish(const FetchPlan& plan, std::vector<protocol::FetchResponse::PartitionData> answers,
              int64_t now_ms, protocol::FetchResponse* response);

  size_t size() const;
  int64_t partitions() const;  // in all sessions
  int64_t evictions() const;

 private:
  std::shared_ptr<FetchSession> Find(int32_t id) const;
  bool Remove(int32_t id);
  int32_t Insert(std::shared_ptr<FetchSession> session, int64_t now_ms);
  bool MakeRoom(size_t partitions, int64_t now_ms);
  Result<FetchPlan> Continue(const protocol::FetchRequest& request, bool uses_topic_ids,
                             int64_t now_ms);

  const size_t slots_;
  mutable std::mutex mutex_;
  std::mt19937_64 random_;
  std::unordered_map<int32_t, std::shared_ptr<FetchSession>> sessions_;
  int64_t evictions_ = 0;
};

}  // namespace kmirror::broker
