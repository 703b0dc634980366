#include "broker/server/api_table.h"

#include <algorithm>

namespace kmirror::broker {
namespace {

// Key, advertised least version, least and greatest version (protocol.md 10.1). Produce is
// advertised from 0: librdkafka drops compression otherwise; 0 to 2 are refused like any unknown
// version. Fetch 19 and CreateTopics 8 are KIP-1279's; 19 is for followers, of which there are none
// yet.
constexpr ApiEntry kApis[] = {
    {0, 0, 3, 13, HandleProduce},
    {1, 4, 4, 18, HandleFetch},
    {2, 1, 1, 11, HandleListOffsets},
    {3, 0, 0, 13, HandleMetadata},
    {10, 0, 0, 6, HandleFindCoordinator},
    {18, 0, 0, 5, HandleApiVersions},
    {19, 2, 2, 8, HandleCreateTopics},
    {20, 1, 1, 6, HandleDeleteTopics},
    {21, 0, 0, 2, HandleDeleteRecords},
    {22, 0, 0, 5, HandleInitProducerId},
    {23, 2, 2, 4, HandleOffsetForLeaderEpoch},
    {27, 1, 1, 2, HandleWriteTxnMarkers},
    {32, 1, 1, 4, HandleDescribeConfigs},
    {33, 0, 0, 2, HandleAlterConfigs},
    {35, 1, 1, 5, HandleDescribeLogDirs},
    {37, 0, 0, 3, HandleCreatePartitions},
    {43, 0, 0, 2, HandleElectLeaders},
    {44, 0, 0, 1, HandleIncrementalAlterConfigs},
    {45, 0, 0, 1, HandleAlterPartitionReassignments},
    {46, 0, 0, 0, HandleListPartitionReassignments},
    {57, 0, 0, 2, HandleUpdateFeatures},
    {60, 0, 0, 2, HandleDescribeCluster},
    {61, 0, 0, 0, HandleDescribeProducers},
    {74, 0, 0, 1, HandleListConfigResources},
    {75, 0, 0, 0, HandleDescribeTopicPartitions},
};

}  // namespace

std::span<const ApiEntry> BrokerApis() { return kApis; }

const ApiEntry* FindBrokerApi(int16_t key) {
  const auto found = std::ranges::find(kApis, key, &ApiEntry::key);
  return found == std::end(kApis) ? nullptr : &*found;
}

std::vector<ServedApi> AdvertisedApis() {
  std::vector<ServedApi> all;
  for (const ApiEntry& api : kApis) all.push_back({api.key, api.advertised_min, api.max_version});
  const std::span<const ServedApi> mirror = Mirror::Apis();
  all.insert(all.end(), mirror.begin(), mirror.end());
  std::ranges::sort(all, {}, &ServedApi::key);
  return all;
}

}  // namespace kmirror::broker
