// The controller's changes besides topics: configs, mirrors, leader epochs, producer ids, features.
#include <algorithm>
#include <limits>
#include <set>
#include <utility>

#include "broker/controller/controller.h"
#include "broker/controller/metadata_records.h"
#include "broker/controller/producer_id_range.h"

namespace kmirror::broker {
namespace {

constexpr int64_t kProducerIdBlock = 1000;

Status UnknownMirror(const std::string& mirror) {
  return {ErrorCode::kUnknownClusterMirror, "there is no mirror " + mirror};
}

// What IncrementalAlterConfigs sees of a mirror's configs, in the shape of the other tables. List
// and password types keep their meaning; nullptr: unknown.
const ConfigDefinition* MirrorDefinition(std::string_view name) {
  static const std::map<std::string_view, ConfigDefinition> definitions = [] {
    std::map<std::string_view, ConfigDefinition> table;
    for (const MirrorConfigDefinition& row : MirrorConfigTable()) {
      ConfigDefinition definition;
      definition.name = row.name;
      definition.type = row.type;
      definition.fallback = row.fallback;
      table.emplace(row.name, definition);
    }
    return table;
  }();
  const auto found = definitions.find(name);
  return found == definitions.end() ? nullptr : &found->second;
}

// Configs that identify the source never change once they are set (coordinator.md 10).
Status CheckFixed(const ConfigMap& before, const ConfigMap& after) {
  for (const MirrorConfigDefinition& row : MirrorConfigTable()) {
    if (!row.fixed) continue;
    const auto old_value = before.find(std::string(row.name));
    if (old_value == before.end() || old_value->second.empty()) continue;
    const auto new_value = after.find(std::string(row.name));
    if (new_value == after.end() || new_value->second != old_value->second) {
      return {ErrorCode::kInvalidConfig, std::string(row.name) + ": is " + old_value->second +
                                             " and does not change; make another mirror"};
    }
  }
  return {};
}

}  // namespace

// --- Configs
// ------------------------------------------------------------------------------------------

Status Controller::StoreTopicConfigs(const TopicPtr& topic, ConfigMap configs, bool validate_only) {
  if (Status s = CheckTopicConfigs(configs, true); !s.ok()) return s;
  if (validate_only || configs == topic->configs) return {};
  auto next = std::make_shared<TopicImage>(*topic);
  next->configs = std::move(configs);
  Change change = Begin();
  PutTopic(change, topic, std::move(next));
  return Commit(std::move(change));
}

Status Controller::AlterTopicConfigs(const std::string& name, std::span<const ConfigChange> changes,
                                     bool validate_only) {
  std::lock_guard lock(mutex_);
  const TopicPtr topic = image()->topics.Find(name);
  if (topic == nullptr) return {ErrorCode::kUnknownTopicOrPartition, "there is no topic " + name};
  for (const ConfigChange& change : changes) {
    if (change.name == kMirrorNameConfig) {
      return {ErrorCode::kInvalidConfig, "mirror.name: only the mirror requests change it"};
    }
  }
  Result<ConfigMap> configs = ApplyConfigChanges(topic->configs, changes, FindTopicConfig);
  if (!configs.ok()) return configs.status();
  return StoreTopicConfigs(topic, std::move(*configs), validate_only);
}

Status Controller::ReplaceTopicConfigs(const std::string& name, ConfigMap configs,
                                       bool validate_only) {
  std::lock_guard lock(mutex_);
  const TopicPtr topic = image()->topics.Find(name);
  if (topic == nullptr) return {ErrorCode::kUnknownTopicOrPartition, "there is no topic " + name};
  if (configs.contains(std::string(kMirrorNameConfig))) {
    return {ErrorCode::kInvalidConfig, "mirror.name: only the mirror requests change it"};
  }
  if (const auto kept = topic->configs.find(std::string(kMirrorNameConfig));
      kept != topic->configs.end()) {
    configs.insert(*kept);
  }
  return StoreTopicConfigs(topic, std::move(configs), validate_only);
}

Status Controller::AlterBrokerConfigs(int32_t broker, std::span<const ConfigChange> changes,
                                      bool validate_only) {
  std::lock_guard lock(mutex_);
  if (broker != -1 && image()->FindBroker(broker) == nullptr) {
    return {ErrorCode::kInvalidRequest, "there is no broker " + std::to_string(broker)};
  }
  for (const ConfigChange& change : changes) {
    const ConfigDefinition* definition = FindBrokerConfig(change.name);
    if (definition != nullptr && definition->read_only) {
      return {ErrorCode::kInvalidRequest,
              change.name + ": cannot be changed while the broker runs"};
    }
  }
  ConfigMap before;
  if (const auto found = image()->broker_configs.find(broker);
      found != image()->broker_configs.end()) {
    before = found->second;
  }
  Result<ConfigMap> configs = ApplyConfigChanges(before, changes, FindBrokerConfig);
  if (!configs.ok()) return configs.status();
  for (const auto& [key, value] : *configs) {
    if (Status s = CheckConfigValue(*FindBrokerConfig(key), value); !s.ok()) return s;
  }
  if (validate_only || *configs == before) return {};
  Change change = Begin();
  change.delta.broker_configs = true;
  if (configs->empty()) {
    change.batch.push_back({BrokerConfigKey(broker), std::nullopt});
    change.next->broker_configs.erase(broker);
  } else {
    change.batch.push_back({BrokerConfigKey(broker), EncodeConfigs(*configs)});
    change.next->broker_configs[broker] = std::move(*configs);
  }
  return Commit(std::move(change));
}

Status Controller::AlterMirrorConfigs(const std::string& mirror,
                                      std::span<const ConfigChange> changes, bool validate_only) {
  std::lock_guard lock(mutex_);
  const ImagePtr now = image();
  const auto found = now->mirrors.find(mirror);
  if (found == now->mirrors.end()) return UnknownMirror(mirror);
  std::vector<ConfigChange> stored(changes.begin(), changes.end());
  for (ConfigChange& change : stored) change.name = MirrorConfigKey(change.name);
  Result<ConfigMap> configs = ApplyConfigChanges(found->second, stored, MirrorDefinition);
  if (!configs.ok()) return configs.status();
  if (Status s = CheckMirrorConfigs(*configs); !s.ok()) return s;
  if (Status s = CheckFixed(found->second, *configs); !s.ok()) return s;
  if (validate_only || *configs == found->second) return {};
  Change change = Begin();
  change.batch.push_back({MirrorKey(mirror), EncodeConfigs(*configs)});
  change.next->mirrors[mirror] = std::move(*configs);
  change.delta.mirrors.push_back(mirror);
  return Commit(std::move(change));
}

// --- Mirrors
// ------------------------------------------------------------------------------------------

Status Controller::SetMirrorNames(std::span<const MirrorNameSetting> changes,
                                  int64_t expected_version) {
  std::lock_guard lock(mutex_);
  const ImagePtr now = image();
  Change change = Begin();
  std::set<Uuid> seen;
  for (const MirrorNameSetting& setting : changes) {
    const TopicPtr topic = now->topics.Find(setting.topic_id);
    if (topic == nullptr) {
      return {ErrorCode::kUnknownTopicId,
              "there is no topic with id " + setting.topic_id.ToString()};
    }
    if (!seen.insert(setting.topic_id).second) {
      return {ErrorCode::kInvalidRequest, "topic " + topic->name + " given twice"};
    }
    if (expected_version >= 0 && topic->mirror_version > expected_version) {
      return {ErrorCode::kInvalidClusterMirrorState,
              "topic " + topic->name + " was changed at the same time; look again"};
    }
    auto next = std::make_shared<TopicImage>(*topic);
    if (setting.value) {
      if (Status s = CheckMirrorName(ParseMirrorLink(*setting.value).mirror); !s.ok()) return s;
      next->configs[std::string(kMirrorNameConfig)] = *setting.value;
    } else {
      next->configs.erase(std::string(kMirrorNameConfig));
    }
    if (next->configs == topic->configs) continue;
    next->mirror_version = change.next->version;
    PutTopic(change, topic, std::move(next));
  }
  return Commit(std::move(change));
}

Status Controller::SetMirrorConfigs(
    const std::string& mirror, const std::map<std::string, std::optional<std::string>>& changes,
    bool create) {
  std::lock_guard lock(mutex_);
  const ImagePtr now = image();
  const auto found = now->mirrors.find(mirror);
  if (create) {
    if (Status s = CheckMirrorName(mirror); !s.ok()) return s;
    if (found != now->mirrors.end()) {
      return {ErrorCode::kClusterMirrorAlreadyExists, "mirror " + mirror + " already exists"};
    }
  } else if (found == now->mirrors.end()) {
    return UnknownMirror(mirror);
  }
  const ConfigMap before = found == now->mirrors.end() ? ConfigMap{} : found->second;
  ConfigMap configs = before;
  for (const auto& [key, value] : changes) {
    const std::string stored = MirrorConfigKey(key);
    if (value) {
      configs[stored] = *value;
    } else {
      configs.erase(stored);
    }
  }
  if (Status s = CheckMirrorConfigs(configs); !s.ok()) return s;
  if (Status s = CheckFixed(before, configs); !s.ok()) return s;
  if (!create && configs == before) return {};
  Change change = Begin();
  change.batch.push_back({MirrorKey(mirror), EncodeConfigs(configs)});
  change.next->mirrors[mirror] = std::move(configs);
  change.delta.mirrors.push_back(mirror);
  return Commit(std::move(change));
}

Status Controller::DeleteMirror(const std::string& mirror, int64_t expected_version) {
  std::lock_guard lock(mutex_);
  const ImagePtr now = image();
  if (!now->mirrors.contains(mirror)) return UnknownMirror(mirror);
  std::vector<TopicPtr> linked;
  for (const TopicPtr& topic : now->topics.Sorted()) {
    if (MirrorLinkOf(*topic).mirror == mirror) linked.push_back(topic);
  }
  for (const TopicPtr& topic : linked) {
    if (expected_version >= 0 && topic->mirror_version > expected_version) {
      return {ErrorCode::kInvalidClusterMirrorState,
              "topic " + topic->name + " was changed at the same time; look again"};
    }
  }
  Change change = Begin();
  change.batch.push_back({MirrorKey(mirror), std::nullopt});
  change.next->mirrors.erase(mirror);
  change.delta.mirrors.push_back(mirror);
  for (const TopicPtr& topic : linked) {
    auto next = std::make_shared<TopicImage>(*topic);
    next->configs.erase(std::string(kMirrorNameConfig));
    next->mirror_version = change.next->version;
    PutTopic(change, topic, std::move(next));
  }
  return Commit(std::move(change));
}

Status Controller::BumpLeaderEpochs(std::span<const LeaderEpochBump> bumps) {
  std::lock_guard lock(mutex_);
  const ImagePtr now = image();
  std::map<Uuid, std::shared_ptr<TopicImage>> changed;
  for (const LeaderEpochBump& bump : bumps) {
    const TopicPtr topic = now->topics.Find(bump.partition.topic_id);
    if (topic == nullptr) {
      return {ErrorCode::kUnknownTopicId,
              "there is no topic with id " + bump.partition.topic_id.ToString()};
    }
    const int32_t index = bump.partition.partition;
    if (index < 0 || index >= topic->partition_count()) {
      return {ErrorCode::kUnknownTopicOrPartition,
              "topic " + topic->name + " has no partition " + std::to_string(index)};
    }
    if (bump.min_leader_epoch == std::numeric_limits<int32_t>::max()) {
      return {ErrorCode::kInvalidRequest, "there is no leader epoch above 2147483647"};
    }
    const auto found = changed.find(topic->id);
    const TopicImage& present = found == changed.end() ? *topic : *found->second;
    if (present.partitions[static_cast<size_t>(index)].leader_epoch > bump.min_leader_epoch)
      continue;
    const auto place = changed.try_emplace(topic->id, nullptr).first;
    if (place->second == nullptr) place->second = std::make_shared<TopicImage>(*topic);
    place->second->partitions[static_cast<size_t>(index)].leader_epoch = bump.min_leader_epoch + 1;
  }
  Change change = Begin();
  for (const auto& [id, topic] : changed) PutTopic(change, now->topics.Find(id), topic);
  return Commit(std::move(change));
}

// --- Producer ids
// -------------------------------------------------------------------------------------

Status Controller::StoreProducerIds(const ProducerIds& ids) {
  const Result<int64_t> revision = store_->Apply(
      {{std::string(kClusterKey), EncodeClusterRecord(image()->mirror_feature, ids)}});
  if (!revision.ok()) return revision.status();
  // Readers see nothing of it: no image, no delta.
  revision_ = *revision;
  return {};
}

Result<ProducerIdRange> Controller::AllocateProducerIds(int32_t count) {
  if (count < 1 || count > 100000) {
    return Status(ErrorCode::kInvalidRequest,
                  "a block of " + std::to_string(count) + " producer ids");
  }
  std::lock_guard lock(mutex_);
  ProducerIds ids = ids_;
  ProducerIdSpan range = ProducerIdRangeOf(cluster_id_, ids.generation);
  if (ids.next > range.end - count) {
    range = ProducerIdRangeOf(cluster_id_, ++ids.generation);
    ids.next = ids.reserved = range.begin;
  }
  const ProducerIdRange block{ids.next, ids.next + count};
  ids.next = block.end;
  if (ids.next > ids.reserved) {
    ids.reserved = std::min(ids.next + kProducerIdBlock, range.end);
    if (Status s = StoreProducerIds(ids); !s.ok()) return s;
  }
  ids_ = ids;
  return block;
}

Status Controller::RaiseProducerIdFloor(int64_t max_seen) {
  std::lock_guard lock(mutex_);
  const ProducerIdSpan range = ProducerIdRangeOf(cluster_id_, ids_.generation);
  if (!range.Contains(max_seen) || max_seen < ids_.next) return {};
  ProducerIds ids = ids_;
  ids.next = max_seen + 1;
  if (ids.next > ids.reserved) {
    ids.reserved = ids.next;
    if (Status s = StoreProducerIds(ids); !s.ok()) return s;
  }
  ids_ = ids;
  return {};
}

// --- Features
// -----------------------------------------------------------------------------------------

Status Controller::UpdateFeature(std::string_view feature, int16_t level, bool validate_only) {
  std::lock_guard lock(mutex_);
  if (feature != "mirror.version") {
    return {ErrorCode::kInvalidUpdateVersion, "unknown feature " + std::string(feature)};
  }
  if (level < 0 || level > 1) {
    return {ErrorCode::kInvalidUpdateVersion, "mirror.version has the levels 0 and 1"};
  }
  if (validate_only || level == image()->mirror_feature) return {};
  Change change = Begin();
  change.batch.push_back({std::string(kClusterKey), EncodeClusterRecord(level, ids_)});
  change.next->mirror_feature = level;
  change.delta.features = true;
  return Commit(std::move(change));
}

}  // namespace kmirror::broker
