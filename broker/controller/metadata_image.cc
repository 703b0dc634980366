#include "broker/controller/metadata_image.h"

#include <algorithm>
#include <utility>

namespace kmirror::broker {
namespace {

constexpr std::string_view kPaused = ".paused";
constexpr std::string_view kRemoved = ".removed";

size_t BucketOf(std::string_view name, size_t buckets) {
  return std::hash<std::string_view>()(name) % buckets;
}
// Ids are random, but their hash mixes into the high bits.
size_t BucketOf(const Uuid& id, size_t buckets) { return (std::hash<Uuid>()(id) >> 32) % buckets; }

template <typename Bucket, typename Matches>
void Without(std::shared_ptr<const Bucket>* bucket, Matches matches) {
  if (*bucket == nullptr) return;
  auto copy = std::make_shared<Bucket>(**bucket);
  std::erase_if(*copy, matches);
  *bucket = std::move(copy);
}

template <typename Bucket>
void With(std::shared_ptr<const Bucket>* bucket, const TopicPtr& topic) {
  auto copy = *bucket == nullptr ? std::make_shared<Bucket>() : std::make_shared<Bucket>(**bucket);
  copy->push_back(topic);
  *bucket = std::move(copy);
}

}  // namespace

bool TopicImage::internal() const {
  return name == "__consumer_offsets" || name == "__transaction_state" || name == "__mirror_state";
}

MirrorLink ParseMirrorLink(std::string_view value) {
  if (value.empty()) return {};
  if (value.ends_with(kPaused)) {
    return {std::string(value.substr(0, value.size() - kPaused.size())), DesiredState::kPaused};
  }
  if (value.ends_with(kRemoved)) {
    return {std::string(value.substr(0, value.size() - kRemoved.size())), DesiredState::kStopped};
  }
  return {std::string(value), DesiredState::kMirroring};
}

MirrorLink MirrorLinkOf(const TopicImage& topic) {
  const auto found = topic.configs.find("mirror.name");
  return found == topic.configs.end() ? MirrorLink{} : ParseMirrorLink(found->second);
}

TopicPtr TopicTable::Find(std::string_view name) const {
  const auto& bucket = by_name_[BucketOf(name, kBuckets)];
  if (bucket == nullptr) return nullptr;
  for (const TopicPtr& topic : *bucket) {
    if (topic->name == name) return topic;
  }
  return nullptr;
}

TopicPtr TopicTable::Find(const Uuid& id) const {
  const auto& bucket = by_id_[BucketOf(id, kBuckets)];
  if (bucket == nullptr) return nullptr;
  for (const TopicPtr& topic : *bucket) {
    if (topic->id == id) return topic;
  }
  return nullptr;
}

std::vector<TopicPtr> TopicTable::Sorted() const {
  std::vector<TopicPtr> topics;
  topics.reserve(size_);
  ForEach([&](const TopicPtr& topic) { topics.push_back(topic); });
  std::sort(topics.begin(), topics.end(),
            [](const TopicPtr& a, const TopicPtr& b) { return a->name < b->name; });
  return topics;
}

void TopicTable::ForEach(const std::function<void(const TopicPtr&)>& each) const {
  for (const auto& bucket : by_id_) {
    if (bucket == nullptr) continue;
    for (const TopicPtr& topic : *bucket) each(topic);
  }
}

void TopicTable::Put(TopicPtr topic) {
  Remove(topic->id);
  With(&by_name_[BucketOf(topic->name, kBuckets)], topic);
  With(&by_id_[BucketOf(topic->id, kBuckets)], topic);
  ++size_;
}

void TopicTable::Remove(const Uuid& id) {
  const TopicPtr present = Find(id);
  if (present == nullptr) return;
  const auto same = [&](const TopicPtr& topic) { return topic->id == id; };
  Without(&by_name_[BucketOf(present->name, kBuckets)], same);
  Without(&by_id_[BucketOf(id, kBuckets)], same);
  --size_;
}

const BrokerImage* MetadataImage::FindBroker(int32_t id) const {
  for (const BrokerImage& broker : brokers) {
    if (broker.id == id) return &broker;
  }
  return nullptr;
}

std::map<std::string, std::string> MetadataImage::DynamicConfigs(int32_t broker) const {
  std::map<std::string, std::string> configs;
  if (const auto own = broker_configs.find(broker); own != broker_configs.end())
    configs = own->second;
  // insert keeps what is there: the broker's own value wins.
  if (const auto all = broker_configs.find(-1); all != broker_configs.end()) {
    configs.insert(all->second.begin(), all->second.end());
  }
  return configs;
}

}  // namespace kmirror::broker
