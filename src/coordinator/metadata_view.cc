#include "src/coordinator/metadata_view.h"

#include <algorithm>
#include <utility>

namespace kmirror::coordinator {

void MetadataView::Put(host::TopicInfo topic) {
  const auto name = topic.configs.find(std::string(kMirrorNameConfig));
  const auto desired = statemachine::ParseMirrorName(
      name == topic.configs.end() ? std::string_view() : name->second);
  auto [it, added] = topics_.try_emplace(topic.id);
  TopicView& view = it->second;
  if (!added && view.info.name != topic.name) by_name_.erase(view.info.name);
  if (added || view.desired != desired) view.desired_version = version_;
  view.desired = desired;
  by_name_[topic.name] = topic.id;
  view.info = std::move(topic);
}

void MetadataView::Remove(const Uuid& id) {
  const auto it = topics_.find(id);
  if (it == topics_.end()) return;
  const auto name = by_name_.find(it->second.info.name);
  if (name != by_name_.end() && name->second == id) by_name_.erase(name);
  topics_.erase(it);
}

MetadataView::Changes MetadataView::Reset(host::MetadataSnapshot snapshot) {
  Changes changes;
  version_ = snapshot.version;
  cluster_id_ = std::move(snapshot.cluster_id);
  this_broker_ = snapshot.this_broker;
  mirror_version_ = snapshot.mirror_version;
  topics_.clear();
  by_name_.clear();
  mirrors_.clear();
  for (host::TopicInfo& topic : snapshot.topics) {
    changes.topics.push_back(topic.id);
    Put(std::move(topic));
  }
  for (host::MirrorInfo& mirror : snapshot.mirrors) {
    changes.mirrors.push_back(mirror.name);
    mirrors_[mirror.name] = std::move(mirror.configs);
  }
  return changes;
}

MetadataView::Changes MetadataView::Apply(host::MetadataDelta delta) {
  Changes changes;
  version_ = delta.version;
  if (delta.mirror_version >= 0) mirror_version_ = delta.mirror_version;
  for (const Uuid& id : delta.removed_topics) {
    changes.topics.push_back(id);
    Remove(id);
  }
  for (host::TopicInfo& topic : delta.changed_topics) {
    changes.topics.push_back(topic.id);
    Put(std::move(topic));
  }
  for (host::MirrorInfo& mirror : delta.changed_mirrors) {
    changes.mirrors.push_back(mirror.name);
    mirrors_[mirror.name] = std::move(mirror.configs);
  }
  for (const std::string& mirror : delta.removed_mirrors) {
    changes.mirrors.push_back(mirror);
    mirrors_.erase(mirror);
  }
  return changes;
}

const TopicView* MetadataView::Topic(const Uuid& id) const {
  const auto it = topics_.find(id);
  return it == topics_.end() ? nullptr : &it->second;
}

const TopicView* MetadataView::TopicByName(const std::string& name) const {
  const auto it = by_name_.find(name);
  return it == by_name_.end() ? nullptr : Topic(it->second);
}

const std::map<std::string, std::string>* MetadataView::Mirror(const std::string& name) const {
  const auto it = mirrors_.find(name);
  return it == mirrors_.end() ? nullptr : &it->second;
}

std::vector<const TopicView*> MetadataView::TopicsOf(const std::string& mirror) const {
  std::vector<const TopicView*> found;
  for (const auto& [id, topic] : topics_) {
    if (topic.desired.state != DesiredState::kNone && topic.desired.mirror == mirror) {
      found.push_back(&topic);
    }
  }
  std::sort(found.begin(), found.end(),
            [](const auto* a, const auto* b) { return a->info.name < b->info.name; });
  return found;
}

bool MetadataView::StateLeader(int32_t shard, int32_t* leader) const {
  const TopicView* topic = TopicByName(std::string(kStateTopicName));
  if (topic == nullptr) return false;
  *leader = -1;
  for (const host::PartitionInfo& partition : topic->info.partitions) {
    if (partition.index == shard) *leader = partition.leader;
  }
  return true;
}

}  // namespace kmirror::coordinator
