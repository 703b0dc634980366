#include "broker/server/fetch_sessions.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace kmirror::broker {

using protocol::FetchRequest;
using protocol::FetchResponse;

namespace {

// A session that was used, or made, less than this ago is not evicted (as Kafka).
constexpr int64_t kEvictionMs = 120000;
constexpr int32_t kInitialEpoch = 0;
constexpr int32_t kFinalEpoch = -1;

int32_t NextEpoch(int32_t epoch) { return epoch == INT32_MAX ? 1 : epoch + 1; }

std::string KeyOf(bool by_id, const std::string& name, const Uuid& id, int32_t partition) {
  std::string key;
  if (by_id)
    key.assign(reinterpret_cast<const char*>(id.bytes.data()), id.bytes.size());
  else
    key = name;
  char tail[sizeof partition];
  std::memcpy(tail, &partition, sizeof partition);
  return key.append(1, '\0').append(tail, sizeof tail);
}

FetchTarget TargetOf(std::shared_ptr<const FetchTopicKey> topic,
                     const FetchRequest::FetchPartition& partition) {
  return {.topic = std::move(topic),
          .partition = partition.partition,
          .max_bytes = partition.partition_max_bytes,
          .offset = partition.fetch_offset,
          .current_leader_epoch = partition.current_leader_epoch,
          .last_fetched_epoch = partition.last_fetched_epoch};
}

}  // namespace

struct SessionPartition {
  FetchTarget target;
  int64_t high_watermark = -1;  // as told last; -1 makes the next answer tell it again
  int64_t log_start = -1;
  std::list<std::shared_ptr<SessionPartition>>::iterator place;
  bool dropped = false;

  // Whether the client must hear of `data`; remembers what it hears then.
  bool News(const FetchResponse::PartitionData& data) {
    bool news = data.records && !data.records->empty();
    if (high_watermark != data.high_watermark || log_start != data.log_start_offset) news = true;
    high_watermark = data.high_watermark;
    log_start = data.log_start_offset;
    if (data.preferred_read_replica >= 0 || data.diverging_epoch.epoch >= 0 ||
        data.diverging_epoch.end_offset >= 0) {
      news = true;
    }
    if (data.error_code != 0) {
      // So that recovery is news as well.
      high_watermark = -1;
      news = true;
    }
    return news;
  }
};

class FetchSession {
 public:
  explicit FetchSession(bool by_id) : uses_topic_ids(by_id) {}

  void Put(FetchTarget target) {
    std::string key = KeyOf(uses_topic_ids, target.topic->name, target.topic->id, target.partition);
    if (const auto found = by_key_.find(key); found != by_key_.end()) {
      found->second->target = std::move(target);
      return;
    }
    auto entry = std::make_shared<SessionPartition>();
    entry->target = std::move(target);
    entry->place = order_.insert(order_.end(), entry);
    by_key_.emplace(std::move(key), std::move(entry));
  }

  void Drop(const std::string& name, const Uuid& id, int32_t partition) {
    const auto found = by_key_.find(KeyOf(uses_topic_ids, name, id, partition));
    if (found == by_key_.end()) return;
    found->second->dropped = true;
    order_.erase(found->second->place);
    by_key_.erase(found);
  }

  // What had data goes last next time, so that every partition has its turn.
  void MoveToEnd(const SessionPartition& entry) {
    if (!entry.dropped) order_.splice(order_.end(), order_, entry.place);
  }

  const std::list<std::shared_ptr<SessionPartition>>& order() const { return order_; }
  size_t size() const { return by_key_.size(); }
  SessionPartition* Find(const FetchTarget& target) {
    const auto found =
        by_key_.find(KeyOf(uses_topic_ids, target.topic->name, target.topic->id, target.partition));
    return found == by_key_.end() ? nullptr : found->second.get();
  }

  const bool uses_topic_ids;
  std::mutex mutex;  // guards all below
  int32_t id = 0;
  int32_t epoch = 1;       // that the next request must carry
  int64_t created_ms = 0;  // these three are also read under the cache's lock, and written
  int64_t used_ms = 0;     // under it alone
  size_t cached_size = 0;

 private:
  std::list<std::shared_ptr<SessionPartition>> order_;
  std::unordered_map<std::string, std::shared_ptr<SessionPartition>> by_key_;
};

Result<FetchPlan> FetchSessions::Begin(const FetchRequest& request, int16_t version,
                                       int64_t now_ms) {
  const bool uses_topic_ids = version >= 13;
  const int32_t epoch = version >= 7 ? request.session_epoch : kFinalEpoch;
  if (epoch != kInitialEpoch && epoch != kFinalEpoch) {
    return Continue(request, uses_topic_ids, now_ms);
  }
  if (request.session_id != 0) Remove(request.session_id);
  FetchPlan plan;
  plan.kind = epoch == kInitialEpoch ? FetchPlan::kNewSession : FetchPlan::kSessionless;
  plan.uses_topic_ids = uses_topic_ids;
  for (const FetchRequest::FetchTopic& topic : request.topics) {
    const auto key = std::make_shared<const FetchTopicKey>(topic.topic, topic.topic_id);
    for (const FetchRequest::FetchPartition& partition : topic.partitions) {
      plan.targets.push_back(TargetOf(key, partition));
    }
  }
  return plan;
}

Result<FetchPlan> FetchSessions::Continue(const FetchRequest& request, bool uses_topic_ids,
                                          int64_t now_ms) {
  const std::shared_ptr<FetchSession> session = Find(request.session_id);
  if (!session) return Status(ErrorCode::kFetchSessionIdNotFound, "no such fetch session");
  FetchPlan plan;
  plan.kind = FetchPlan::kIncremental;
  plan.uses_topic_ids = uses_topic_ids;
  size_t size = 0;
  {
    const std::lock_guard lock(session->mutex);
    if (session->epoch != request.session_epoch) {
      return Status(ErrorCode::kInvalidFetchSessionEpoch,
                    "expected epoch " + std::to_string(session->epoch));
    }
    if (session->uses_topic_ids != uses_topic_ids) {
      return Status(ErrorCode::kFetchSessionTopicIdError,
                    "the session was made by another kind of topic reference");
    }
    for (const FetchRequest::FetchTopic& topic : request.topics) {
      const auto key = std::make_shared<const FetchTopicKey>(topic.topic, topic.topic_id);
      for (const FetchRequest::FetchPartition& partition : topic.partitions) {
        session->Put(TargetOf(key, partition));
      }
    }
    for (const FetchRequest::ForgottenTopic& topic : request.forgotten_topics_data) {
      for (const int32_t partition : topic.partitions) {
        session->Drop(topic.topic, topic.topic_id, partition);
      }
    }
    session->epoch = NextEpoch(session->epoch);
    size = session->size();
    plan.targets.reserve(size);
    plan.entries.reserve(size);
    for (const auto& entry : session->order()) {
      plan.targets.push_back(entry->target);
      plan.entries.push_back(entry);
    }
  }
  if (size == 0) {
    Remove(request.session_id);
    plan.kind = FetchPlan::kSessionless;
    return plan;
  }
  plan.session = session;
  const std::lock_guard lock(mutex_);
  session->used_ms = now_ms;
  session->cached_size = size;
  return plan;
}

void FetchSessions::Finish(const FetchPlan& plan, std::vector<FetchResponse::PartitionData> answers,
                           int64_t now_ms, FetchResponse* response) {
  std::vector<bool> told(answers.size(), true);
  if (plan.kind == FetchPlan::kIncremental) {
    const std::lock_guard lock(plan.session->mutex);
    response->session_id = plan.session->id;
    for (size_t i = 0; i < answers.size(); ++i) {
      SessionPartition& entry = *plan.entries[i];
      told[i] = entry.News(answers[i]);
      if (told[i] && answers[i].records && !answers[i].records->empty()) {
        plan.session->MoveToEnd(entry);
      }
    }
  } else if (plan.kind == FetchPlan::kNewSession) {
    auto session = std::make_shared<FetchSession>(plan.uses_topic_ids);
    for (size_t i = 0; i < answers.size(); ++i) {
      session->Put(plan.targets[i]);
      session->Find(plan.targets[i])->News(answers[i]);
    }
    session->cached_size = session->size();
    response->session_id = Insert(std::move(session), now_ms);
  }
  const FetchTopicKey* last = nullptr;
  for (size_t i = 0; i < answers.size(); ++i) {
    if (!told[i]) continue;
    const FetchTopicKey* topic = plan.targets[i].topic.get();
    const bool same = last != nullptr &&
                      (plan.uses_topic_ids ? last->id == topic->id : last->name == topic->name);
    if (!same) {
      FetchResponse::FetchableTopicResponse& added = response->responses.emplace_back();
      if (plan.uses_topic_ids)
        added.topic_id = topic->id;
      else
        added.topic = topic->name;
      last = topic;
    }
    response->responses.back().partitions.push_back(std::move(answers[i]));
  }
}

size_t FetchSessions::size() const {
  const std::lock_guard lock(mutex_);
  return sessions_.size();
}

int64_t FetchSessions::partitions() const {
  const std::lock_guard lock(mutex_);
  int64_t sum = 0;
  for (const auto& [id, session] : sessions_) sum += static_cast<int64_t>(session->cached_size);
  return sum;
}

int64_t FetchSessions::evictions() const {
  const std::lock_guard lock(mutex_);
  return evictions_;
}

std::shared_ptr<FetchSession> FetchSessions::Find(int32_t id) const {
  const std::lock_guard lock(mutex_);
  const auto found = sessions_.find(id);
  return found == sessions_.end() ? nullptr : found->second;
}

bool FetchSessions::Remove(int32_t id) {
  const std::lock_guard lock(mutex_);
  return sessions_.erase(id) > 0;
}

int32_t FetchSessions::Insert(std::shared_ptr<FetchSession> session, int64_t now_ms) {
  const std::lock_guard lock(mutex_);
  if (!MakeRoom(session->cached_size, now_ms)) return 0;
  int32_t id = 0;
  while (id == 0 || sessions_.contains(id)) {
    id = static_cast<int32_t>(random_() & 0x7fffffff);
  }
  session->id = id;
  session->created_ms = session->used_ms = now_ms;
  sessions_.emplace(id, std::move(session));
  return id;
}

// Lock held. Kafka's rule: the session unused for longest goes if it is stale; else the smallest
// old one, if it is smaller than the new one.
bool FetchSessions::MakeRoom(size_t partitions, int64_t now_ms) {
  if (slots_ == 0) return false;
  if (sessions_.size() < slots_) return true;
  auto oldest = sessions_.end();
  auto smallest = sessions_.end();
  for (auto it = sessions_.begin(); it != sessions_.end(); ++it) {
    if (oldest == sessions_.end() || it->second->used_ms < oldest->second->used_ms) oldest = it;
    if (now_ms - it->second->created_ms < kEvictionMs) continue;
    if (smallest == sessions_.end() || it->second->cached_size < smallest->second->cached_size) {
      smallest = it;
    }
  }
  auto victim = sessions_.end();
  if (now_ms - oldest->second->used_ms > kEvictionMs)
    victim = oldest;
  else if (smallest != sessions_.end() && smallest->second->cached_size < partitions)
    victim = smallest;
  if (victim == sessions_.end()) return false;
  sessions_.erase(victim);
  ++evictions_;
  return true;
}

}  // namespace kmirror::broker
