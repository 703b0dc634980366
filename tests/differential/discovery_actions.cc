// What is there: topics, brokers, disks, versions. And what neither broker serves.
#include <algorithm>

#include "messages/alter_partition_reassignments.h"
#include "messages/api_versions.h"
#include "messages/describe_cluster.h"
#include "messages/describe_log_dirs.h"
#include "messages/describe_topic_partitions.h"
#include "messages/elect_leaders.h"
#include "messages/list_partition_reassignments.h"
#include "messages/metadata.h"
#include "tests/differential/history.h"

namespace kmirror::test {
namespace {

using namespace protocol;  // NOLINT: the messages, all of them

std::string AnyName(History& history) {
  const TopicView* topic = history.AnyTopic();
  return topic == nullptr || history.OneIn(6) ? history.UnknownTopic() : topic->name;
}

void AskMetadata(History& history) {
  struct Wanted {
    std::string name;
    bool plain = false;
    bool by_id = false;
    bool by_both = false;
  };
  const int16_t version = history.Version(0, 13);
  const bool all = history.OneIn(5);
  std::vector<Wanted> wanted;
  // Kafka drops the names when there are ids too.
  const bool by_id = version >= 10 && history.OneIn(3);
  const int64_t count = all ? 0 : history.Between(version == 0 ? 1 : 0, 3);
  for (int64_t i = 0; i < count; ++i) {
    Wanted& each = wanted.emplace_back();
    each.name = AnyName(history);
    each.by_id = by_id;
    each.by_both = by_id && history.OneIn(6);
    if (!each.by_id && history.OneIn(10)) {
      each.name = history.AnyOf<std::string>({"", "bad/name", ".", std::string(250, 'y')});
      each.plain = true;
    }
  }
  if (!wanted.empty() && history.OneIn(10)) wanted.push_back(wanted.front());
  const bool topic_operations = history.OneIn(2);
  const bool cluster_operations = history.OneIn(2);
  const bool create = history.OneIn(2);
  history.Both<MetadataResponse>(
      version,
      [&](Side& side) {
        MetadataRequest request;
        if (version >= 4) request.allow_auto_topic_creation = create;
        if (version >= 8) request.include_topic_authorized_operations = topic_operations;
        if (version >= 8 && version <= 10) {
          request.include_cluster_authorized_operations = cluster_operations;
        }
        if (all) {
          if (version > 0) request.topics.reset();
          return request;
        }
        for (const Wanted& each : wanted) {
          auto& topic = request.topics->emplace_back();
          topic.name = each.plain ? each.name : side.prefix() + each.name;
          if (!each.by_id) continue;
          topic.topic_id = side.TopicId(each.name);
          if (topic.topic_id.IsZero()) topic.topic_id.bytes = {7, 7, 7};
          if (!each.by_both) topic.name.reset();
        }
        return request;
      },
      {.normal = {.all_topics = all}});
}

void DescribePartitions(History& history) {
  std::vector<std::string> names;
  const int64_t count = history.Between(1, 3);
  for (int64_t i = 0; i < count; ++i) names.push_back(AnyName(history));
  const int32_t limit = history.AnyOf({2000, 2000, 1, 2, 3, 0, -1});
  std::optional<std::pair<std::string, int32_t>> cursor;
  if (history.OneIn(3)) cursor = {history.AnyOf(names), history.AnyOf({0, 1, 2, 7, -1})};
  // Then on to the end, as a client would.
  for (int page = 0; page < 6; ++page) {
    const auto response = history.Both<DescribeTopicPartitionsResponse>(0, [&](Side& side) {
      DescribeTopicPartitionsRequest request;
      for (const std::string& name : names) {
        request.topics.emplace_back().name = side.prefix() + name;
      }
      request.response_partition_limit = limit;
      if (cursor) {
        request.cursor.emplace();
        request.cursor->topic_name = side.prefix() + cursor->first;
        request.cursor->partition_index = cursor->second;
      }
      return request;
    });
    if (!response.next_cursor) break;
    cursor = {response.next_cursor->topic_name.substr(history.kafka.prefix().size()),
              response.next_cursor->partition_index};
  }
}

void DescribeTheCluster(History& history) {
  const int16_t version = history.Version(0, 2);
  DescribeClusterRequest request;
  request.include_cluster_authorized_operations = history.OneIn(2);
  if (version >= 1) request.endpoint_type = history.AnyOf<int8_t>({1, 1, 2, 0, 9});
  if (version >= 2) request.include_fenced_brokers = history.OneIn(2);
  history.Both<DescribeClusterResponse>(version, [&](Side&) { return request; });
}

void DescribeDisks(History& history) {
  const int16_t version = history.Version(1, 5);
  const bool all = history.OneIn(4);
  std::vector<std::pair<std::string, std::vector<int32_t>>> wanted;
  const int64_t count = history.Between(0, 2);
  for (int64_t i = 0; i < count; ++i) {
    wanted.emplace_back(AnyName(history),
                        history.AnyOf<std::vector<int32_t>>({{0}, {0, 1}, {9}, {}}));
  }
  history.Both<DescribeLogDirsResponse>(
      version,
      [&](Side& side) {
        DescribeLogDirsRequest request;
        if (all) {
          request.topics.reset();
          return request;
        }
        for (const auto& [name, partitions] : wanted) {
          request.topics->push_back({side.prefix() + name, partitions});
        }
        return request;
      },
      {.normal = {.all_topics = true}});
}

void Elect(History& history) {
  const int16_t version = history.Version(0, 2);
  // In version 0 Kafka sometimes names no topics then, and cannot say why.
  const bool all = version >= 1 && history.OneIn(5);
  std::vector<std::pair<std::string, std::vector<int32_t>>> wanted;
  const int64_t count = history.Between(0, 2);
  for (int64_t i = 0; i < count; ++i) {
    wanted.emplace_back(AnyName(history),
                        history.AnyOf<std::vector<int32_t>>({{0}, {0, 1}, {9}, {}}));
  }
  const int8_t type = history.AnyOf<int8_t>({0, 0, 0, 1, 2});
  history.Both<ElectLeadersResponse>(
      version,
      [&](Side& side) {
        ElectLeadersRequest request;
        if (version >= 1) request.election_type = type;
        request.timeout_ms = 10000;
        if (all) {
          request.topic_partitions.reset();
          return request;
        }
        request.topic_partitions.emplace();
        for (const auto& [name, partitions] : wanted) {
          request.topic_partitions->push_back({side.prefix() + name, partitions});
        }
        return request;
      },
      {.normal = {.all_topics = true}});
}

void Reassign(History& history) {
  const int16_t version = history.Version(0, 1);
  std::vector<
      std::pair<std::string, std::vector<std::pair<int32_t, std::optional<std::vector<int32_t>>>>>>
      wanted;
  const int64_t count = history.Between(0, 2);
  for (int64_t i = 0; i < count; ++i) {
    auto& [name, partitions] = wanted.emplace_back();
    name = AnyName(history);
    // Never a target that Kafka would begin to move to.
    partitions.emplace_back(
        history.AnyOf({0, 0, 9, -1}),
        history.AnyOf<std::optional<std::vector<int32_t>>>(
            {std::vector<int32_t>{1}, std::nullopt, std::vector<int32_t>{},
             std::vector<int32_t>{1, 1}, std::vector<int32_t>{7}, std::vector<int32_t>{-2}}));
  }
  const bool grow = history.OneIn(2);
  history.Both<AlterPartitionReassignmentsResponse>(version, [&](Side& side) {
    AlterPartitionReassignmentsRequest request;
    request.timeout_ms = 10000;
    if (version >= 1) request.allow_replication_factor_change = grow;
    for (const auto& [name, partitions] : wanted) {
      auto& topic = request.topics.emplace_back();
      topic.name = side.prefix() + name;
      for (const auto& [index, replicas] : partitions)
        topic.partitions.push_back({index, replicas});
    }
    return request;
  });
  history.Both<ListPartitionReassignmentsResponse>(
      0,
      [&](Side& side) {
        ListPartitionReassignmentsRequest request;
        if (grow) return request;
        request.topics.emplace();
        for (const auto& [name, partitions] : wanted) {
          request.topics->push_back({side.prefix() + name, {0, 9}});
        }
        return request;
      },
      {.normal = {.all_topics = true}});
}

void AskVersions(History& history) {
  ApiVersionsRequest request;
  const int16_t version = history.Version(0, 5);
  if (version >= 3) {
    request.client_software_name =
        history.AnyOf<std::string>({"name", "a name", "", "-x", "a.b-c"});
    request.client_software_version = history.AnyOf<std::string>({"1.0", "1.0", "", "1_0"});
  }
  const int64_t cluster = version >= 5 ? history.Between(0, 3) : 0;
  if (version >= 5) request.node_id = history.AnyOf({-1, 1, 1, 7});
  history.Both<ApiVersionsResponse>(version, [&](Side& side) {
    if (cluster == 1) request.cluster_id = side.ClusterId();
    if (cluster == 2) request.cluster_id = "another";
    if (cluster == 3) request.cluster_id = "";
    return request;
  });
}

std::vector<uint8_t> RawRequest(int16_t key, int16_t version, const std::vector<uint8_t>& body) {
  Writer writer;
  const size_t place = writer.ReserveInt32();
  writer.PutInt16(key);
  writer.PutInt16(version);
  writer.PutInt32(77);
  const bool ignored = writer.PutString(false, true, std::optional<std::string>("raw"));
  (void)ignored;
  writer.PutRaw(body);
  const Status finished = FinishFrame(place, writer.size() - 4, writer);
  (void)finished;
  return writer.Flatten();
}

// Keys and versions that nobody serves, and bodies that are none.
void AskNonsense(History& history) {
  switch (history.Between(0, 3)) {
    case 0:
      return history.BothBytes("(unknown key)", 3, 0,
                               RawRequest(history.AnyOf<int16_t>({4, 5, 6, 7, 1000, -1}), 0, {}));
    case 1:
      return history.BothBytes("(unknown version)", 3, 0,
                               RawRequest(history.AnyOf<int16_t>({0, 1, 2, 3, 19, 20, 32, 60}),
                                          history.AnyOf<int16_t>({99, -1}), {0, 0, 0, 0}));
    case 2: return history.BothBytes("(ApiVersions of the future)", 18, 0, RawRequest(18, 99, {0}));
    default:
      // Metadata v1 whose array of names claims more than there is.
      return history.BothBytes("(cut short)", 3, 1, RawRequest(3, 1, {0, 0, 0, 2, 0, 1, 'x'}));
  }
}

constexpr WeightedAction kActions[] = {
    {6, AskMetadata}, {4, DescribePartitions}, {2, DescribeTheCluster}, {3, DescribeDisks},
    {3, Elect},       {2, Reassign},           {1, AskVersions},        {1, AskNonsense},
};

}  // namespace

std::span<const WeightedAction> DiscoveryActions() { return kActions; }

}  // namespace kmirror::test
