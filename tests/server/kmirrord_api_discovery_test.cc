// What clients ask first, in every version: APIs, brokers, topics, coordinators.

#include <gtest/gtest.h>

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "messages/api_versions.h"
#include "messages/create_cluster_mirror.h"
#include "messages/describe_topic_partitions.h"
#include "messages/find_coordinator.h"
#include "messages/metadata.h"
#include "tests/server/kmirrord_api_fixture.h"
#include "tests/server/raw_socket.h"

namespace kmirror::test {
namespace {

using namespace protocol;  // NOLINT: the messages, all of them

TEST_F(ApiTest, ApiVersionsTellsEveryServedApi) {
  ApiVersionsRequest request;
  request.client_software_name = "kmirror-test";
  request.client_software_version = "1.0";
  for (int16_t version = 0; version <= 5; ++version) {
    const auto response = Call<ApiVersionsResponse>(request, version);
    EXPECT_EQ(response.error_code, 0);
    std::map<int16_t, std::pair<int, int>> ranges;
    for (const auto& api : response.api_keys) {
      ranges[api.api_key] = {api.min_version, api.max_version};
    }
    EXPECT_EQ(ranges[0], std::pair(0, 13)) << "librdkafka drops compression without Produce 0";
    EXPECT_EQ(ranges[1], std::pair(4, 18));
    EXPECT_EQ(ranges[18], std::pair(0, 5));
    // R35: all mirror keys, 94 included.
    for (const int16_t key : {94, 95, 96, 98, 99, 102, 103, 104, 107}) {
      EXPECT_TRUE(ranges.contains(key)) << key;
    }
    if (version < 3) continue;
    ASSERT_EQ(response.finalized_features.size(), 1u);
    EXPECT_EQ(response.finalized_features[0].name, "mirror.version");
    EXPECT_EQ(response.finalized_features[0].max_version_level, 1);
    ASSERT_EQ(response.supported_features.size(), 1u);
    EXPECT_EQ(response.supported_features[0].min_version, version < 4 ? 1 : 0) << "KAFKA-17011";
  }
}

TEST_F(ApiTest, ApiVersionsOfAnUnknownVersionIsAnsweredInVersionZero) {
  RawSocket client(address());
  // Header v2 with a client id, then what version 9 might look like.
  std::string frame("\0\x12\0\x09\0\0\0\x07\0\x01x\0\x02y\x02z\0", 18);
  ASSERT_TRUE(client.SendFrame(frame));
  const std::string answer = client.ReceiveFrame();
  // Correlation id, error 35, one range: key 18, versions 0 to 5. No tags, no throttle time.
  EXPECT_EQ(answer, std::string("\0\0\0\x07\0\x23\0\0\0\x01\0\x12\0\0\0\x05", 16));
  // The connection goes on.
  ASSERT_TRUE(client.SendFrame(std::string("\0\x12\0\0\0\0\0\x08\xff\xff", 10)));
  EXPECT_EQ(client.ReceiveFrame().substr(0, 6), std::string("\0\0\0\x08\0\0", 6));
}

TEST_F(ApiTest, ApiVersionsTellsAClientThatItCameToTheWrongBroker) {
  ApiVersionsRequest request;
  request.client_software_name = request.client_software_version = "x";
  const auto code = [&](std::optional<std::string> cluster, int32_t node) {
    request.cluster_id = std::move(cluster);
    request.node_id = node;
    return Call<ApiVersionsResponse>(request, 5).error_code;
  };
  EXPECT_EQ(code(std::nullopt, -1), 0);
  EXPECT_EQ(code(cluster_id(), 1), 0);
  EXPECT_EQ(code(cluster_id(), 2), 129) << "REBOOTSTRAP_REQUIRED";
  EXPECT_EQ(code("another", 1), 129);
  EXPECT_EQ(code(std::nullopt, 1), 42) << "half a question";
  EXPECT_EQ(code(cluster_id(), -1), 42);
}

TEST_F(ApiTest, ApiVersionsRefusesASoftwareNameThatIsNone) {
  ApiVersionsRequest request;
  request.client_software_name = "bad name";
  request.client_software_version = "1";
  EXPECT_EQ(Call<ApiVersionsResponse>(request, 3).error_code, 42);
}

TEST_F(ApiTest, WhatDoesNotDecodeClosesTheConnectionAndNothingElse) {
  const std::vector<std::string> bad = {
      std::string("\0\x03\0\x09\0\0\0\x01\xff\xff\0\x7f", 12),  // Metadata cut short
      std::string("\x7f\xff\0\0\0\0\0\x01\xff\xff", 10),        // unknown key
      std::string("\0\x01\0\x63\0\0\0\x01\xff\xff\0", 11),      // Fetch 99
      std::string("\0\0\0\x02\0\0\0\x01\xff\xff", 10),          // Produce 2, advertised and refused
      std::string("\0\x04\0\0\0\0\0\x01\xff\xff", 10),          // a key that is no more
      "\1",                                                     // no header
      std::string("\0\x03\0\0\0\0\0\x01\xff\xff\x7f\xff\xff\xff", 14),  // an array of 2^31-1
  };
  RawSocket other(address());
  for (const std::string& frame : bad) {
    RawSocket client(address());
    ASSERT_TRUE(client.SendFrame(frame));
    EXPECT_TRUE(client.ClosedByPeer()) << testing::PrintToString(frame);
  }
  ASSERT_TRUE(other.SendFrame(std::string("\0\x12\0\0\0\0\0\x08\xff\xff", 10)));
  EXPECT_FALSE(other.ReceiveFrame().empty());
  EXPECT_TRUE(process_->Running());
}

TEST_F(ApiTest, KafkasOwnKey94GetsInvalidRequest) {
  // UnregisterController of Kafka 4.4: a controller id and a tag buffer (R17).
  RawSocket client(address());
  ASSERT_TRUE(client.SendFrame(std::string("\0\x5e\0\0\0\0\0\x07\0\x01x\0\0\0\0\x05\0", 17)));
  const std::string answer = client.ReceiveFrame();
  ASSERT_GE(answer.size(), 11u);
  EXPECT_EQ(answer.substr(0, 5), std::string("\0\0\0\x07\0", 5));
  EXPECT_EQ(answer.substr(9, 2), std::string("\0\x2a", 2)) << "INVALID_REQUEST";
}

TEST_F(ApiTest, MirrorRequestsReachTheLibrary) {
  CreateClusterMirrorRequest request;
  request.mirror_name = "bad name";
  const auto response = Call<CreateClusterMirrorResponse>(request, 0);
  EXPECT_EQ(response.error_code, 42);
  EXPECT_NE(response.error_message.value_or(""), "");
}

TEST_F(ApiTest, MetadataTellsBrokersAndTopicsInEveryVersion) {
  CreateTopic("here", 2);
  const Uuid id = TopicId("here");
  for (int16_t version = 0; version <= 13; ++version) {
    MetadataRequest request;
    request.topics->emplace_back().name = "here";
    const auto response = Call<MetadataResponse>(request, version);
    ASSERT_EQ(response.brokers.size(), 1u);
    EXPECT_EQ(response.brokers[0].node_id, 1);
    EXPECT_EQ(response.brokers[0].port, address().port);
    if (version >= 1) EXPECT_EQ(response.controller_id, 1);
    if (version >= 2) EXPECT_EQ(response.cluster_id, cluster_id());
    ASSERT_EQ(response.topics.size(), 1u) << version;
    const auto& topic = response.topics[0];
    EXPECT_EQ(topic.error_code, 0);
    EXPECT_EQ(topic.name, "here");
    if (version >= 10) EXPECT_EQ(topic.topic_id, id);
    ASSERT_EQ(topic.partitions.size(), 2u);
    EXPECT_EQ(topic.partitions[1].leader_id, 1);
    EXPECT_EQ(topic.partitions[1].isr_nodes, std::vector<int32_t>{1});
    if (version >= 7) EXPECT_EQ(topic.partitions[0].leader_epoch, 0);
  }
}

TEST_F(ApiTest, MetadataAllNoneUnknownAndById) {
  CreateTopic("a");
  CreateTopic("b");
  MetadataRequest all;
  all.topics.reset();
  EXPECT_EQ(Call<MetadataResponse>(all, 12).topics.size(), 2u);
  MetadataRequest none;
  EXPECT_EQ(Call<MetadataResponse>(none, 12).topics.size(), 0u);
  EXPECT_EQ(Call<MetadataResponse>(none, 0).topics.size(), 2u) << "empty means all in version 0";

  MetadataRequest odd;
  odd.allow_auto_topic_creation = false;
  odd.topics->emplace_back().name = "unknown";
  odd.topics->emplace_back().name = "not/a/name";
  auto& by_id = odd.topics->emplace_back();
  by_id.name.reset();
  by_id.topic_id = TopicId("b");
  auto& by_strange_id = odd.topics->emplace_back();
  by_strange_id.name.reset();
  by_strange_id.topic_id.bytes[3] = 9;
  odd.include_topic_authorized_operations = true;
  const auto response = Call<MetadataResponse>(odd, 12);
  ASSERT_EQ(response.topics.size(), 4u);
  EXPECT_EQ(response.topics[0].error_code, 3);
  EXPECT_EQ(response.topics[1].error_code, 17);
  EXPECT_EQ(response.topics[2].error_code, 0);
  EXPECT_EQ(response.topics[2].name, "b");
  EXPECT_EQ(response.topics[2].topic_authorized_operations, 3576);
  EXPECT_EQ(response.topics[3].error_code, 100);
  EXPECT_EQ(Call<MetadataResponse>(all, 12).topics.size(), 2u) << "nothing was created";
}

TEST_F(ApiTest, MetadataCreatesATopicThatIsAskedFor) {
  MetadataRequest request;
  request.topics->emplace_back().name = "fresh";
  request.topics->emplace_back().name = "not/a/name";
  const auto response = Call<MetadataResponse>(request, 3);
  ASSERT_EQ(response.topics.size(), 2u);
  EXPECT_EQ(response.topics[0].error_code, 0);
  EXPECT_EQ(response.topics[0].partitions.size(), 1u);
  EXPECT_EQ(response.topics[1].error_code, 17);
}

TEST_F(ApiTest, DescribeTopicPartitionsGoesPageByPage) {
  CreateTopic("a", 3);
  CreateTopic("b", 2);
  std::vector<std::string> seen;
  DescribeTopicPartitionsRequest request;
  request.response_partition_limit = 2;
  for (int page = 0; page < 5; ++page) {
    const auto response = Call<DescribeTopicPartitionsResponse>(request, 0);
    for (const auto& topic : response.topics) {
      for (const auto& partition : topic.partitions) {
        seen.push_back(*topic.name + std::to_string(partition.partition_index));
        EXPECT_TRUE(partition.eligible_leader_replicas) << "null ends Kafka's admin client";
        EXPECT_TRUE(partition.last_known_elr);
      }
    }
    if (!response.next_cursor) break;
    request.cursor.emplace();
    request.cursor->topic_name = response.next_cursor->topic_name;
    request.cursor->partition_index = response.next_cursor->partition_index;
  }
  EXPECT_EQ(seen, (std::vector<std::string>{"a0", "a1", "a2", "b0", "b1"}));
}

TEST_F(ApiTest, FindCoordinatorSaysThereIsNone) {
  for (int16_t version = 0; version <= 6; ++version) {
    FindCoordinatorRequest request;
    if (version < 4)
      request.key = "g";
    else
      request.coordinator_keys = {"g", "h"};
    const auto response = Call<FindCoordinatorResponse>(request, version);
    if (version < 4) {
      EXPECT_EQ(response.error_code, 15);
    } else {
      ASSERT_EQ(response.coordinators.size(), 2u);
      EXPECT_EQ(response.coordinators[1].error_code, 35);
      EXPECT_EQ(response.coordinators[1].key, "h");
    }
  }
}

}  // namespace
}  // namespace kmirror::test
