// Keys and values of the metadata store: one key a topic, one a mirror, one a broker's dynamic
// configs, one for the cluster. Pure.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "broker/controller/metadata_image.h"

namespace kmirror::broker {

inline constexpr std::string_view kClusterKey = "cluster";
inline constexpr std::string_view kTopicPrefix = "topic/";
inline constexpr std::string_view kMirrorPrefix = "mirror/";
inline constexpr std::string_view kBrokerConfigPrefix = "config/";  // broker id, or -1 for all

std::string TopicKey(std::string_view name);
std::string MirrorKey(std::string_view name);
std::string BrokerConfigKey(int32_t broker);

struct ClusterRecord {
  std::string cluster_id;
  int16_t mirror_feature = 0;
  int32_t producer_generation = 0;
  int64_t producer_reserved = 0;
  bool operator==(const ClusterRecord&) const = default;
};

// Values begin with their version. Decoders answer nullopt for anything that is not one whole
// value.
std::string EncodeCluster(const ClusterRecord& record);
std::optional<ClusterRecord> DecodeCluster(std::string_view value);
std::string EncodeTopic(const TopicImage& topic);
std::optional<TopicImage> DecodeTopic(std::string_view name, std::string_view value);
using StoredConfigs = std::map<std::string, std::string>;
std::string EncodeConfigs(const StoredConfigs& configs);
std::optional<StoredConfigs> DecodeConfigs(std::string_view value);

}  // namespace kmirror::broker
