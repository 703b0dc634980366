// The cluster's metadata as readers see it: one immutable picture, replaced as a whole.
//
// Any thread may hold a shared_ptr<const MetadataImage> for as long as it likes. Images share what
// did not change: a new one costs the buckets its change touched, not the number of topics.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "kmirror/mirror_partition_state.h"
#include "kmirror/types.h"

namespace kmirror::broker {

struct PartitionImage {
  int32_t leader = -1;  // broker id
  int32_t leader_epoch = 0;
  bool operator==(const PartitionImage&) const = default;
};

struct TopicImage {
  std::string name;
  Uuid id;
  std::vector<PartitionImage> partitions;      // dense from 0
  std::map<std::string, std::string> configs;  // explicit overrides, `mirror.name` among them
  int64_t mirror_version = 0;  // metadata version of the last change of `mirror.name`
                               // (or of loading)
  bool internal() const;       // __consumer_offsets, __transaction_state, __mirror_state
  int32_t partition_count() const { return static_cast<int32_t>(partitions.size()); }
};
using TopicPtr = std::shared_ptr<const TopicImage>;

// `mirror.name` taken apart (R2).
struct MirrorLink {
  std::string mirror;  // "": none
  DesiredState desired = DesiredState::kNone;
};
MirrorLink ParseMirrorLink(std::string_view value);
MirrorLink MirrorLinkOf(const TopicImage& topic);

struct BrokerImage {
  int32_t id = -1;
  struct Endpoint {
    std::string listener;
    HostPort address;
    std::string security_protocol;
  };
  std::vector<Endpoint> endpoints;  // advertised, in the order of the config
  std::string rack;
};

// Topics by name and by id, as a persistent map of shared buckets. A value type; copying is cheap.
class TopicTable {
 public:
  TopicPtr Find(std::string_view name) const;  // nullptr: none
  TopicPtr Find(const Uuid& id) const;
  size_t size() const { return size_; }
  // In order of name.
  std::vector<TopicPtr> Sorted() const;
  // In no order.
  void ForEach(const std::function<void(const TopicPtr&)>& each) const;

  void Put(TopicPtr topic);  // replaces the topic of that id
  void Remove(const Uuid& id);

 private:
  static constexpr size_t kBuckets = 256;
  using Bucket = std::vector<TopicPtr>;
  std::array<std::shared_ptr<const Bucket>, kBuckets> by_name_{};
  std::array<std::shared_ptr<const Bucket>, kBuckets> by_id_{};
  size_t size_ = 0;
};

struct MetadataImage {
  int64_t version = 0;  // strictly increasing; the store's revision
  std::string cluster_id;
  int32_t controller_id = -1;
  std::vector<BrokerImage> brokers;  // by id
  TopicTable topics;
  std::map<std::string, std::map<std::string, std::string>> mirrors;  // name -> configs
  std::map<int32_t, std::map<std::string, std::string>>
      broker_configs;          // dynamic; -1: cluster default
  int16_t mirror_feature = 0;  // finalized level of `mirror.version`

  const BrokerImage* FindBroker(int32_t id) const;
  // Dynamic configs of a broker over the cluster-wide ones.
  std::map<std::string, std::string> DynamicConfigs(int32_t broker) const;
};
using ImagePtr = std::shared_ptr<const MetadataImage>;

}  // namespace kmirror::broker
