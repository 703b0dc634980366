#include "conformance/memory_host/memory_controller.h"

#include <algorithm>
#include <utility>

namespace kmirror::conformance {
namespace {

constexpr char kMirrorName[] = "mirror.name";

std::string NameConfig(const std::map<std::string, std::string>& configs) {
  const auto it = configs.find(kMirrorName);
  return it == configs.end() ? std::string() : it->second;
}

}  // namespace

MirrorNameValue ParseMirrorName(std::string_view value) {
  if (value.empty()) return {};
  for (const auto& [suffix, desired] :
       {std::pair<std::string_view, DesiredState>{".paused", DesiredState::kPaused},
        {".removed", DesiredState::kStopped}}) {
    if (value.size() > suffix.size() && value.ends_with(suffix)) {
      return {std::string(value.substr(0, value.size() - suffix.size())), desired};
    }
  }
  return {std::string(value), DesiredState::kMirroring};
}

host::LocalWrites ClosedFor(const std::map<std::string, std::string>& configs) {
  switch (ParseMirrorName(NameConfig(configs)).desired) {
    case DesiredState::kNone: return host::LocalWrites::kAllowed;
    case DesiredState::kStopped: return host::LocalWrites::kStopping;
    case DesiredState::kMirroring:
    case DesiredState::kPaused: break;
  }
  return host::LocalWrites::kReadOnly;
}

// ---- Logs

std::shared_ptr<host::PartitionLog> MemoryLogs::Find(const TopicIdPartition& partition) {
  const auto it = logs_.find(partition);
  if (it == logs_.end() || it->second.hidden || it->second.removed || !it->second.log->leader()) {
    return nullptr;
  }
  return it->second.log;
}

std::shared_ptr<MemoryLog> MemoryLogs::Get(const TopicIdPartition& partition) const {
  const auto it = logs_.find(partition);
  return it == logs_.end() ? nullptr : it->second.log;
}

void MemoryLogs::Hide(const TopicIdPartition& partition, bool hidden) {
  if (const auto it = logs_.find(partition); it != logs_.end()) it->second.hidden = hidden;
}

void MemoryLogs::Apply(const host::TopicInfo& topic, int32_t this_broker, bool name_changed,
                       int64_t version) {
  const host::LocalWrites closed = ClosedFor(topic.configs);
  const bool mirrored = closed == host::LocalWrites::kReadOnly;
  for (const host::PartitionInfo& info : topic.partitions) {
    const TopicIdPartition partition{topic.id, info.index};
    Held& held = logs_[partition];
    const bool created = held.log == nullptr;
    if (created) {
      held.log = std::make_shared<MemoryLog>(runtime_, lane_, inline_answers_);
      if (on_create_) on_create_(partition, *held.log);
    }
    if (created || name_changed) held.log->HostSetLocalWrites(closed, version);
    if (info.leader != this_broker) {
      held.log->Resign();
    } else if (held.epoch != info.leader_epoch || !held.log->leader()) {
      held.log->Elect(info.leader_epoch, mirrored);
    }
    held.epoch = info.leader_epoch;
  }
}

void MemoryLogs::Remove(const Uuid& topic_id) {
  for (auto& [partition, held] : logs_) {
    if (partition.topic_id != topic_id || held.removed) continue;
    held.removed = true;
    held.log->Close();
  }
}

std::vector<std::string> MemoryLogs::violations() const {
  std::vector<std::string> all;
  for (const auto& [partition, held] : logs_) {
    for (const std::string& violation : held.log->violations()) {
      all.push_back(partition.topic_id.ToString() + "-" + std::to_string(partition.partition) +
                    ": " + violation);
    }
  }
  return all;
}

void MemoryLogs::DropPending() {
  for (auto& [partition, held] : logs_) held.log->DropPending();
}

// ---- Controller

MemoryController::MemoryController(host::Runtime* runtime, host::Lane* lane, bool inline_answers,
                                   MemoryLogs* logs, std::string cluster_id, int32_t this_broker)
    : runtime_(runtime),
      lane_(lane),
      inline_answers_(inline_answers),
      logs_(logs),
      script_(lane, inline_answers),
      cluster_id_(std::move(cluster_id)),
      this_broker_(this_broker),
      brokers_{{this_broker, {"memory", 9092}}} {}

host::MetadataSnapshot MemoryController::Snapshot() const {
  host::MetadataSnapshot snapshot;
  snapshot.version = version_;
  snapshot.cluster_id = cluster_id_;
  snapshot.this_broker = this_broker_;
  snapshot.mirror_version = mirror_version_;
  snapshot.brokers = brokers_;
  for (const auto& [id, topic] : topics_) snapshot.topics.push_back(topic);
  for (const auto& [name, mirror] : mirrors_) snapshot.mirrors.push_back(mirror);
  return snapshot;
}

void MemoryController::Listen(Listener listener) {
  listener_ = std::make_shared<Listener>(std::move(listener));
  queued_.clear();
  if (listener_->snapshot) listener_->snapshot(Snapshot());
}

void MemoryController::StopListening() {
  listener_.reset();
  queued_.clear();
}

void MemoryController::PauseDeltas(bool paused) {
  deltas_paused_ = paused;
  if (paused) return;
  std::vector<std::function<void()>> go;
  go.swap(queued_);
  for (auto& task : go) task();
}

void MemoryController::Send(host::MetadataDelta delta) {
  if (!listener_) return;
  auto deliver = [listener = std::weak_ptr<Listener>(listener_), delta = std::move(delta)] {
    const std::shared_ptr<Listener> alive = listener.lock();
    if (alive && alive->delta) alive->delta(delta);
  };
  if (deltas_paused_) {
    queued_.push_back([this, deliver] { lane_->Post(deliver); });
  } else if (inline_answers_) {
    deliver();
  } else {
    lane_->Post(std::move(deliver));
  }
}

void MemoryController::Commit(Draft draft) {
  host::MetadataDelta delta;
  delta.version = ++version_;
  for (auto& [id, topic] : draft.topics) {
    const auto old = topics_.find(id);
    const std::string old_name = old == topics_.end() ? "" : NameConfig(old->second.configs);
    const bool name_changed = old_name != NameConfig(topic.configs);
    if (name_changed) name_changed_at_[id] = version_;
    logs_->Apply(topic, this_broker_, name_changed, version_);
    delta.changed_topics.push_back(topic);
    topics_[id] = std::move(topic);
  }
  for (const Uuid& id : draft.removed_topics) {
    topics_.erase(id);
    name_changed_at_.erase(id);
    logs_->Remove(id);
  }
  delta.removed_topics = std::move(draft.removed_topics);
  for (host::MirrorInfo& mirror : draft.mirrors) {
    delta.changed_mirrors.push_back(mirror);
    mirrors_[mirror.name] = std::move(mirror);
  }
  for (const std::string& name : draft.removed_mirrors) mirrors_.erase(name);
  delta.removed_mirrors = std::move(draft.removed_mirrors);
  if (!draft.brokers.empty()) brokers_ = draft.brokers;
  delta.changed_brokers = std::move(draft.brokers);
  if (draft.mirror_version >= 0) mirror_version_ = draft.mirror_version;
  delta.mirror_version = draft.mirror_version;
  Send(std::move(delta));
}

void MemoryController::Run(std::string_view op, std::string detail, std::function<Status()> change,
                           host::Completion done) {
  auto body = [this, change = std::move(change)](host::Completion answer) {
    Status status = change();
    if (deltas_paused_ && status.ok()) {
      queued_.push_back([answer = std::move(answer), status] { answer(status); });
    } else {
      answer(std::move(status));
    }
  };
  script_.Run(op, detail, std::move(body), std::move(done));
}

const host::TopicInfo* MemoryController::FindTopic(std::string_view name) const {
  for (const auto& [id, topic] : topics_) {
    if (topic.name == name) return &topic;
  }
  return nullptr;
}

const host::TopicInfo* MemoryController::FindTopic(const Uuid& id) const {
  const auto it = topics_.find(id);
  return it == topics_.end() ? nullptr : &it->second;
}

const host::MirrorInfo* MemoryController::FindMirror(std::string_view name) const {
  const auto it = mirrors_.find(std::string(name));
  return it == mirrors_.end() ? nullptr : &it->second;
}

Status MemoryController::CheckNames(const std::vector<Uuid>& topics,
                                    int64_t expected_version) const {
  for (const Uuid& id : topics) {
    const host::TopicInfo* topic = FindTopic(id);
    if (topic == nullptr) return {ErrorCode::kUnknownTopicId, "no topic " + id.ToString()};
    const auto changed = name_changed_at_.find(id);
    if (expected_version >= 0 && changed != name_changed_at_.end() &&
        changed->second > expected_version) {
      return {ErrorCode::kInvalidClusterMirrorState, "mirror.name of " + topic->name +
                                                         " changed since version " +
                                                         std::to_string(expected_version)};
    }
  }
  return {};
}

Status MemoryController::CreateTopicNow(host::NewTopic topic) {
  if (topic.partitions < 1) return {ErrorCode::kInvalidPartitions, "a topic has partitions"};
  if (FindTopic(topic.name) != nullptr) {
    return {ErrorCode::kTopicAlreadyExists, "topic " + topic.name + " exists"};
  }
  while (topic.id.IsZero()) {
    for (uint8_t& byte : topic.id.bytes) byte = static_cast<uint8_t>(runtime_->Random());
  }
  if (FindTopic(topic.id) != nullptr) {
    return {ErrorCode::kTopicAlreadyExists, "topic id " + topic.id.ToString() + " is taken"};
  }
  host::TopicInfo info;
  info.name = std::move(topic.name);
  info.id = topic.id;
  info.configs = std::move(topic.configs);
  for (int32_t index = 0; index < topic.partitions; ++index) {
    info.partitions.push_back({index, this_broker_, 0});
  }
  Draft draft;
  draft.topics.emplace(info.id, std::move(info));
  Commit(std::move(draft));
  return {};
}

void MemoryController::CreateTopic(host::NewTopic topic, host::Completion done) {
  const std::string name = topic.name;
  Run(
      kCreateTopic, name, [this, topic = std::move(topic)] { return CreateTopicNow(topic); },
      std::move(done));
}

void MemoryController::CreatePartitions(Uuid topic_id, int32_t count, host::Completion done) {
  auto change = [this, topic_id, count]() -> Status {
    const host::TopicInfo* topic = FindTopic(topic_id);
    if (topic == nullptr) return {ErrorCode::kUnknownTopicId, "no topic " + topic_id.ToString()};
    if (count <= static_cast<int32_t>(topic->partitions.size())) {
      return {ErrorCode::kInvalidPartitions,
              topic->name + " has " + std::to_string(topic->partitions.size()) + " partitions"};
    }
    host::TopicInfo grown = *topic;
    for (int32_t index = static_cast<int32_t>(grown.partitions.size()); index < count; ++index) {
      grown.partitions.push_back({index, this_broker_, 0});
    }
    Draft draft;
    draft.topics.emplace(topic_id, std::move(grown));
    Commit(std::move(draft));
    return {};
  };
  Run(kCreatePartitions, topic_id.ToString(), std::move(change), std::move(done));
}

void MemoryController::SetMirrorNames(std::vector<host::MirrorNameChange> changes,
                                      int64_t expected_version, host::Completion done) {
  auto change = [this, changes = std::move(changes), expected_version]() -> Status {
    std::vector<Uuid> ids;
    for (const host::MirrorNameChange& one : changes) ids.push_back(one.topic_id);
    if (Status status = CheckNames(ids, expected_version); !status.ok()) return status;
    Draft draft;
    for (const host::MirrorNameChange& one : changes) {
      host::TopicInfo topic = *FindTopic(one.topic_id);
      if (one.value) {
        topic.configs[kMirrorName] = *one.value;
      } else {
        topic.configs.erase(kMirrorName);
      }
      draft.topics.insert_or_assign(one.topic_id, std::move(topic));
    }
    Commit(std::move(draft));
    return {};
  };
  Run(kSetMirrorNames, {}, std::move(change), std::move(done));
}

void MemoryController::SetMirrorConfigs(std::string mirror,
                                        std::map<std::string, std::optional<std::string>> changes,
                                        bool create, host::Completion done) {
  const std::string detail = mirror;
  auto change = [this, mirror = std::move(mirror), changes = std::move(changes),
                 create]() -> Status {
    const host::MirrorInfo* present = FindMirror(mirror);
    if (create && present != nullptr) {
      return {ErrorCode::kClusterMirrorAlreadyExists, "mirror " + mirror + " exists"};
    }
    if (!create && present == nullptr) {
      return {ErrorCode::kUnknownClusterMirror, "no mirror " + mirror};
    }
    host::MirrorInfo info = present != nullptr ? *present : host::MirrorInfo{mirror, {}};
    for (const auto& [name, value] : changes) {
      if (value) {
        info.configs[name] = *value;
      } else {
        info.configs.erase(name);
      }
    }
    Draft draft;
    draft.mirrors.push_back(std::move(info));
    Commit(std::move(draft));
    return {};
  };
  Run(kSetMirrorConfigs, detail, std::move(change), std::move(done));
}

void MemoryController::DeleteMirror(std::string mirror, int64_t expected_version,
                                    host::Completion done) {
  const std::string detail = mirror;
  auto change = [this, mirror = std::move(mirror), expected_version]() -> Status {
    if (FindMirror(mirror) == nullptr) {
      return {ErrorCode::kUnknownClusterMirror, "no mirror " + mirror};
    }
    std::vector<Uuid> linked;
    for (const auto& [id, topic] : topics_) {
      if (ParseMirrorName(NameConfig(topic.configs)).mirror == mirror) linked.push_back(id);
    }
    if (Status status = CheckNames(linked, expected_version); !status.ok()) return status;
    Draft draft;
    for (const Uuid& id : linked) {
      host::TopicInfo topic = *FindTopic(id);
      topic.configs.erase(kMirrorName);
      draft.topics.emplace(id, std::move(topic));
    }
    draft.removed_mirrors.push_back(mirror);
    Commit(std::move(draft));
    return {};
  };
  Run(kDeleteMirror, detail, std::move(change), std::move(done));
}

void MemoryController::BumpLeaderEpochs(std::vector<host::EpochBump> bumps, host::Completion done) {
  auto change = [this, bumps = std::move(bumps)]() -> Status {
    Draft draft;
    for (const host::EpochBump& bump : bumps) {
      const host::TopicInfo* present = FindTopic(bump.partition.topic_id);
      if (present == nullptr) {
        return {ErrorCode::kUnknownTopicId, "no topic " + bump.partition.topic_id.ToString()};
      }
      const int32_t index = bump.partition.partition;
      if (index < 0 || index >= static_cast<int32_t>(present->partitions.size())) {
        return {ErrorCode::kUnknownTopicOrPartition,
                present->name + " has no partition " + std::to_string(index)};
      }
      host::TopicInfo topic = *present;
      if (const auto it = draft.topics.find(topic.id); it != draft.topics.end()) topic = it->second;
      int32_t& epoch = topic.partitions[static_cast<size_t>(index)].leader_epoch;
      if (epoch > bump.min_leader_epoch) continue;
      if (bump.min_leader_epoch == INT32_MAX) {
        return {ErrorCode::kInvalidRequest, "no leader epoch is above 2^31-1"};
      }
      epoch = bump.min_leader_epoch + 1;
      draft.topics.insert_or_assign(topic.id, std::move(topic));
    }
    if (!draft.topics.empty()) Commit(std::move(draft));
    return {};
  };
  Run(kBumpLeaderEpochs, {}, std::move(change), std::move(done));
}

void MemoryController::SetProducerIdRange(int64_t begin, int64_t end) {
  producer_id_range_begin_ = begin;
  producer_id_range_end_ = end;
  producer_id_floor_ = begin;
}

void MemoryController::RaiseProducerIdFloor(int64_t max_seen, host::Completion done) {
  auto change = [this, max_seen]() -> Status {
    if (max_seen >= producer_id_range_begin_ && max_seen < producer_id_range_end_) {
      producer_id_floor_ = std::max(producer_id_floor_, max_seen + 1);
    }
    return {};
  };
  Run(kRaiseProducerIdFloor, std::to_string(max_seen), std::move(change), std::move(done));
}

// ---- Changes by others

Status MemoryController::DeleteTopicNow(const Uuid& topic_id) {
  if (FindTopic(topic_id) == nullptr) return {ErrorCode::kUnknownTopicId, topic_id.ToString()};
  Draft draft;
  draft.removed_topics.push_back(topic_id);
  Commit(std::move(draft));
  return {};
}

Status MemoryController::AlterTopicConfigNow(const Uuid& topic_id, const std::string& name,
                                             std::optional<std::string> value) {
  const host::TopicInfo* present = FindTopic(topic_id);
  if (present == nullptr) return {ErrorCode::kUnknownTopicId, topic_id.ToString()};
  host::TopicInfo topic = *present;
  if (value) {
    topic.configs[name] = *value;
  } else {
    topic.configs.erase(name);
  }
  Draft draft;
  draft.topics.emplace(topic_id, std::move(topic));
  Commit(std::move(draft));
  return {};
}

Status MemoryController::ElectNow(const TopicIdPartition& partition, int32_t leader) {
  const host::TopicInfo* present = FindTopic(partition.topic_id);
  if (present == nullptr || partition.partition < 0 ||
      partition.partition >= static_cast<int32_t>(present->partitions.size())) {
    return {ErrorCode::kUnknownTopicOrPartition, partition.topic_id.ToString()};
  }
  host::TopicInfo topic = *present;
  host::PartitionInfo& info = topic.partitions[static_cast<size_t>(partition.partition)];
  info.leader = leader;
  ++info.leader_epoch;
  Draft draft;
  draft.topics.emplace(topic.id, std::move(topic));
  Commit(std::move(draft));
  return {};
}

void MemoryController::SetBrokersNow(std::vector<host::BrokerInfo> brokers) {
  Draft draft;
  draft.brokers = std::move(brokers);
  Commit(std::move(draft));
}

void MemoryController::SetMirrorVersionNow(int16_t version) {
  Draft draft;
  draft.mirror_version = version;
  Commit(std::move(draft));
}

}  // namespace kmirror::conformance
