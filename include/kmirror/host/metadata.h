// The host's cluster metadata as the library sees it: one snapshot, then deltas in order.
//
// The host hands a snapshot to Mirror::OnSnapshot once, then each change to Mirror::OnDelta, in
// order, with strictly increasing versions. One change is one delta: a topic that is created with
// its id and its `mirror.name` appears whole (R2). Plain values; the library copies what it keeps.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "kmirror/types.h"

namespace kmirror::host {

struct BrokerInfo {
  int32_t id = -1;
  HostPort address;
};

struct PartitionInfo {
  int32_t index = 0;
  int32_t leader = -1;  // broker id, -1 none
  int32_t leader_epoch = 0;
};

struct TopicInfo {
  std::string name;
  Uuid id;
  std::vector<PartitionInfo> partitions;       // by index, dense from 0
  std::map<std::string, std::string> configs;  // explicit overrides only, `mirror.name` among them
};

// A mirror is the set of configs of the resource CLUSTER_MIRROR of its name.
struct MirrorInfo {
  std::string name;
  std::map<std::string, std::string> configs;  // names without the `mirror.` prefix (R25)
};

struct MetadataSnapshot {
  int64_t version = 0;
  std::string cluster_id;
  int32_t this_broker = -1;
  int16_t mirror_version = 1;  // finalized feature `mirror.version`; 0 is off
  std::vector<BrokerInfo> brokers;
  std::vector<TopicInfo> topics;  // __mirror_state is one of them when it exists
  std::vector<MirrorInfo> mirrors;
};

struct MetadataDelta {
  int64_t version = 0;
  std::vector<TopicInfo> changed_topics;  // whole new value of each
  std::vector<Uuid> removed_topics;
  std::vector<MirrorInfo> changed_mirrors;  // whole new value of each
  std::vector<std::string> removed_mirrors;
  std::vector<BrokerInfo> changed_brokers;
  int16_t mirror_version = -1;  // -1: unchanged
};

}  // namespace kmirror::host
