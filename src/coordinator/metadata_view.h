// The host's metadata as the coordinator keeps it: topics with what is wanted of them, mirrors with
// their configs. Built from one snapshot and deltas. Lane-confined.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "kmirror/host/metadata.h"
#include "src/statemachine/desired_state.h"

namespace kmirror::coordinator {

inline constexpr std::string_view kMirrorNameConfig = "mirror.name";
inline constexpr std::string_view kUleSupportConfig = "mirror.support.unclean.leader.election";
inline constexpr std::string_view kStateTopicName = "__mirror_state";

struct TopicView {
  host::TopicInfo info;
  statemachine::Desired desired;
  int64_t desired_version = 0;  // metadata version of the last change of mirror.name
};

class MetadataView {
 public:
  struct Changes {
    std::vector<Uuid> topics;          // changed, created or removed
    std::vector<std::string> mirrors;  // changed, created or removed
  };

  Changes Reset(host::MetadataSnapshot snapshot);
  Changes Apply(host::MetadataDelta delta);

  bool loaded() const { return version_ >= 0; }
  int64_t version() const { return version_; }
  const std::string& cluster_id() const { return cluster_id_; }
  int32_t this_broker() const { return this_broker_; }
  bool enabled() const { return mirror_version_ >= 1; }

  const TopicView* Topic(const Uuid& id) const;
  const TopicView* TopicByName(const std::string& name) const;
  // Configs of the mirror; nullptr when it does not exist.
  const std::map<std::string, std::string>* Mirror(const std::string& name) const;
  const std::map<std::string, std::map<std::string, std::string>>& mirrors() const {
    return mirrors_;
  }
  const std::unordered_map<Uuid, TopicView>& topics() const { return topics_; }
  // Topics linked to the mirror in any desired state, by name.
  std::vector<const TopicView*> TopicsOf(const std::string& mirror) const;
  // Leader of that partition of __mirror_state: -1 none. False when the topic does not exist.
  bool StateLeader(int32_t shard, int32_t* leader) const;

 private:
  void Put(host::TopicInfo topic);
  void Remove(const Uuid& id);

  int64_t version_ = -1;
  std::string cluster_id_;
  int32_t this_broker_ = -1;
  int16_t mirror_version_ = 0;
  std::unordered_map<Uuid, TopicView> topics_;
  std::map<std::string, Uuid> by_name_;
  std::map<std::string, std::map<std::string, std::string>> mirrors_;
};

}  // namespace kmirror::coordinator
