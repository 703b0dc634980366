// The broker's own APIs over the wire, each in every version it is served in.

#include <gtest/gtest.h>

#include <set>
#include <string>
#include <vector>

#include "messages/alter_configs.h"
#include "messages/api_versions.h"
#include "messages/create_cluster_mirror.h"
#include "messages/create_partitions.h"
#include "messages/create_topics.h"
#include "messages/delete_records.h"
#include "messages/delete_topics.h"
#include "messages/describe_cluster.h"
#include "messages/describe_configs.h"
#include "messages/describe_log_dirs.h"
#include "messages/describe_producers.h"
#include "messages/describe_topic_partitions.h"
#include "messages/elect_leaders.h"
#include "messages/find_coordinator.h"
#include "messages/incremental_alter_configs.h"
#include "messages/init_producer_id.h"
#include "messages/list_config_resources.h"
#include "messages/list_offsets.h"
#include "messages/metadata.h"
#include "messages/offset_for_leader_epoch.h"
#include "messages/produce.h"
#include "messages/update_features.h"
#include "messages/write_txn_markers.h"
#include "src/protocol/mirror_numbers.h"
#include "tests/server/kmirrord_fixture.h"
#include "tests/server/raw_socket.h"

namespace kmirror::test {
namespace {

using namespace protocol;  // NOLINT: the messages, all of them

class ApiTest : public KmirrordTest {
 protected:
  void SetUp() override { Start(); }

  // One batch to one partition; keeps `records_` alive.
  ProduceRequest ProduceOf(const std::string& topic, const std::vector<uint8_t>& records,
                           int16_t acks = 1, int32_t partition = 0) {
    records_ = records;
    ProduceRequest request;
    request.acks = acks;
    request.timeout_ms = 10000;
    auto& data = request.topic_data.emplace_back();
    data.name = topic;
    auto& part = data.partition_data.emplace_back();
    part.index = partition;
    part.records = RecordsView(ByteView(records_));
    return request;
  }
  ProduceResponse::PartitionProduceResponse Produce(const std::string& topic,
                                                    const std::vector<uint8_t>& records,
                                                    int16_t version = 12, int16_t acks = 1,
                                                    int32_t partition = 0) {
    ProduceRequest request = ProduceOf(topic, records, acks, partition);
    if (version >= 13) {
      request.topic_data[0].name.clear();
      request.topic_data[0].topic_id = TopicId(topic);
    }
    const auto response = Call<ProduceResponse>(request, version);
    if (response.responses.size() != 1 || response.responses[0].partition_responses.size() != 1) {
      ADD_FAILURE() << "no answer for the partition";
      return {};
    }
    return response.responses[0].partition_responses[0];
  }
  ListOffsetsResponse::ListOffsetsPartitionResponse ListOffset(const std::string& topic,
                                                               int64_t timestamp,
                                                               int16_t version = 10) {
    ListOffsetsRequest request;
    request.replica_id = -1;
    auto& wanted = request.topics.emplace_back();
    wanted.name = topic;
    auto& partition = wanted.partitions.emplace_back();
    partition.timestamp = timestamp;
    const auto response = Call<ListOffsetsResponse>(request, version);
    if (response.topics.size() != 1) return {};
    return response.topics[0].partitions.at(0);
  }
  int64_t End(const std::string& topic) { return ListOffset(topic, -1).offset; }

  std::vector<uint8_t> records_;
};

TEST_F(ApiTest, ApiVersionsTellsEveryServedApi) {
  ApiVersionsRequest request;
  request.client_software_name = "kmirror-test";
  request.client_software_version = "1.0";
  for (int16_t version = 0; version <= 4; ++version) {
    const auto response = Call<ApiVersionsResponse>(request, version);
    EXPECT_EQ(response.error_code, 0);
    std::map<int16_t, std::pair<int, int>> ranges;
    for (const auto& api : response.api_keys) {
      ranges[api.api_key] = {api.min_version, api.max_version};
    }
    EXPECT_EQ(ranges[0], std::pair(0, 13)) << "librdkafka drops compression without Produce 0";
    EXPECT_EQ(ranges[1], std::pair(4, 18));
    EXPECT_EQ(ranges[18], std::pair(0, 4));
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
  // Correlation id, error 35, one range: key 18, versions 0 to 4. No tags, no throttle time.
  EXPECT_EQ(answer, std::string("\0\0\0\x07\0\x23\0\0\0\x01\0\x12\0\0\0\x04", 16));
  // The connection goes on.
  ASSERT_TRUE(client.SendFrame(std::string("\0\x12\0\0\0\0\0\x08\xff\xff", 10)));
  EXPECT_EQ(client.ReceiveFrame().substr(0, 6), std::string("\0\0\0\x08\0\0", 6));
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

TEST_F(ApiTest, ProduceAppendsInEveryVersion) {
  CreateTopic("t");
  int64_t end = 0;
  for (int16_t version = 3; version <= 13; ++version) {
    const auto answer = Produce("t", Batch({.count = 3}), version, version % 2 == 0 ? -1 : 1);
    EXPECT_EQ(answer.error_code, 0) << version;
    EXPECT_EQ(answer.base_offset, end);
    EXPECT_EQ(answer.log_append_time_ms, -1);
    if (version >= 5) EXPECT_EQ(answer.log_start_offset, 0);
    end += 3;
  }
  EXPECT_EQ(End("t"), end);
}

TEST_F(ApiTest, ProduceWithoutAcksAppendsAndAnswersNothing) {
  CreateTopic("t");
  // The answer that comes first is that of the request behind it.
  Writer both;
  ASSERT_OK(EncodeRequestFrame(ProduceOf("t", Batch({.count = 2}), 0), 9, 1, "x", both));
  MetadataRequest metadata;
  ASSERT_OK(EncodeRequestFrame(metadata, 9, 2, "x", both));
  WireClient client = Connect();
  ASSERT_OK(client.SendBytes(both.Flatten()));
  const auto frame = client.ReceiveFrame();
  ASSERT_OK(frame.status());
  EXPECT_EQ(frame->at(3), 2);
  EXPECT_EQ(End("t"), 2);
  // A failure closes the connection, since there is no answer to tell it by.
  Writer failing;
  ASSERT_OK(EncodeRequestFrame(ProduceOf("unknown", Batch({}), 0), 9, 3, "x", failing));
  ASSERT_OK(client.SendBytes(failing.Flatten()));
  EXPECT_EQ(client.ReceiveFrame().status().code(), ErrorCode::kDisconnected);
}

TEST_F(ApiTest, ProduceRefusesWhatKafkaRefuses) {
  CreateTopic("t");
  EXPECT_EQ(Produce("t", Batch({}), 9, 7).error_code, 21) << "acks";
  EXPECT_EQ(Produce("t", Batch({}), 9, 1, 5).error_code, 3) << "partition";
  EXPECT_EQ(Produce("t", {}, 9).error_code, 87) << "nothing";
  std::vector<uint8_t> two = Batch({});
  const std::vector<uint8_t> second = Batch({});
  two.insert(two.end(), second.begin(), second.end());
  EXPECT_EQ(Produce("t", two, 9).error_code, 87) << "two batches";
  std::vector<uint8_t> damaged = Batch({.count = 5});
  damaged[70] ^= 1;
  EXPECT_EQ(Produce("t", damaged, 9).error_code, 2) << "checksum";
  std::vector<uint8_t> cut = Batch({.count = 5});
  cut.pop_back();
  EXPECT_EQ(Produce("t", cut, 9).error_code, 2) << "cut";
  EXPECT_EQ(Produce("t", Batch({.bytes = 2 << 20}), 9).error_code, 10) << "too large";
  const auto transactional = Produce(
      "t",
      Batch({.producer_id = 5, .producer_epoch = 0, .base_sequence = 0, .transactional = true}), 9);
  EXPECT_EQ(transactional.error_code, 49) << "nobody coordinates transactions yet";
  EXPECT_EQ(End("t"), 0) << "none of them was appended";

  ProduceRequest by_id = ProduceOf("", Batch({}));
  by_id.topic_data[0].topic_id.bytes[0] = 1;
  const auto unknown = Call<ProduceResponse>(by_id, 13);
  EXPECT_EQ(unknown.responses.at(0).partition_responses.at(0).error_code, 100);
}

TEST_F(ApiTest, AnIdempotentProducerIsHeardOnce) {
  CreateTopic("t");
  InitProducerIdRequest init;
  init.transactional_id.reset();
  init.transaction_timeout_ms = 1000;
  const int64_t id = Call<InitProducerIdResponse>(init, 4).producer_id;
  ASSERT_GE(id, 0);
  const auto batch = [&](int32_t sequence, int16_t epoch = 0) {
    return Batch(
        {.count = 3, .producer_id = id, .producer_epoch = epoch, .base_sequence = sequence});
  };
  EXPECT_EQ(Produce("t", batch(0)).base_offset, 0);
  EXPECT_EQ(Produce("t", batch(3)).base_offset, 3);
  for (int i = 0; i < 3; ++i) {
    const auto again = Produce("t", batch(0));
    EXPECT_EQ(again.error_code, 0);
    EXPECT_EQ(again.base_offset, 0) << "the offset of the first time";
  }
  EXPECT_EQ(Produce("t", batch(9)).error_code, 45) << "a gap";
  EXPECT_EQ(End("t"), 6);
  EXPECT_EQ(Produce("t", batch(0, 1)).error_code, 0) << "a new epoch starts anew";
  EXPECT_EQ(Produce("t", batch(6, 0)).error_code, 47) << "the old one is over";

  DescribeProducersRequest describe;
  auto& topic = describe.topics.emplace_back();
  topic.name = "t";
  topic.partition_indexes = {0, 4};
  const auto producers = Call<DescribeProducersResponse>(describe, 0);
  const auto& partitions = producers.topics.at(0).partitions;
  ASSERT_EQ(partitions.at(0).active_producers.size(), 1u);
  EXPECT_EQ(partitions[0].active_producers[0].producer_id, id);
  EXPECT_EQ(partitions[0].active_producers[0].producer_epoch, 1);
  EXPECT_EQ(partitions[0].active_producers[0].last_sequence, 2);
  EXPECT_EQ(partitions.at(1).error_code, 3);
}

TEST_F(ApiTest, InitProducerIdGivesEveryoneAnotherId) {
  std::set<int64_t> ids;
  for (int16_t version = 0; version <= 5; ++version) {
    for (int i = 0; i < 300; ++i) {
      InitProducerIdRequest request;
      request.transactional_id.reset();
      request.transaction_timeout_ms = 60000;
      const auto response = Call<InitProducerIdResponse>(request, version);
      ASSERT_EQ(response.error_code, 0);
      EXPECT_EQ(response.producer_epoch, 0);
      EXPECT_TRUE(ids.insert(response.producer_id).second) << response.producer_id;
    }
  }
  InitProducerIdRequest transactional;
  transactional.transactional_id = "tx";
  EXPECT_EQ(Call<InitProducerIdResponse>(transactional, 4).error_code, 15);
  // Ids are not given out again after a crash.
  Kill();
  Start();
  InitProducerIdRequest request;
  request.transactional_id.reset();
  EXPECT_TRUE(ids.insert(Call<InitProducerIdResponse>(request, 4).producer_id).second);
}

TEST_F(ApiTest, ListOffsetsKnowsItsTimestampsByVersion) {
  CreateTopic("t");
  EXPECT_EQ(ListOffset("t", -3).offset, -1) << "the log is empty";
  ASSERT_EQ(Produce("t", Batch({.count = 5, .timestamp_ms = 1700000000000})).error_code, 0);
  ASSERT_EQ(Produce("t", Batch({.count = 5, .timestamp_ms = 1600000000000})).error_code, 0);
  for (int16_t version = 1; version <= 11; ++version) {
    EXPECT_EQ(ListOffset("t", -1, version).offset, 10) << version;
    EXPECT_EQ(ListOffset("t", -2, version).offset, 0) << version;
    const auto found = ListOffset("t", 1700000000002, version);
    EXPECT_EQ(found.offset, 2);
    EXPECT_EQ(found.timestamp, 1700000000002);
    if (version >= 4) EXPECT_EQ(found.leader_epoch, 0);
    EXPECT_EQ(ListOffset("t", 1800000000000, version).offset, -1) << "later than all";
    EXPECT_EQ(ListOffset("t", 1800000000000, version).error_code, 0);
    const auto greatest = ListOffset("t", -3, version);
    EXPECT_EQ(greatest.error_code, version >= 7 ? 0 : 35);
    if (version >= 7) EXPECT_EQ(greatest.offset, 4);
    EXPECT_EQ(ListOffset("t", -4, version).error_code, version >= 8 ? 0 : 35);
    EXPECT_EQ(ListOffset("t", -5, version).error_code, version >= 9 ? 0 : 35);
    EXPECT_EQ(ListOffset("t", -77, version).error_code, 35);
  }
  EXPECT_EQ(ListOffset("unknown", -1).error_code, 3);
  ListOffsetsRequest fenced;
  fenced.replica_id = -1;
  auto& topic = fenced.topics.emplace_back();
  topic.name = "t";
  for (const int32_t epoch : {0, 3}) {
    auto& partition = topic.partitions.emplace_back();
    partition.partition_index = 0;
    partition.current_leader_epoch = epoch;
    partition.timestamp = -1;
    const auto response = Call<ListOffsetsResponse>(fenced, 6);
    EXPECT_EQ(response.topics.at(0).partitions.at(0).error_code, epoch == 0 ? 0 : 75);
    topic.partitions.clear();
  }
}

TEST_F(ApiTest, OffsetForLeaderEpochAnswersFromTheHistory) {
  CreateTopic("t");
  ASSERT_EQ(Produce("t", Batch({.count = 5})).error_code, 0);
  for (int16_t version = 2; version <= 4; ++version) {
    OffsetForLeaderEpochRequest request;
    auto& topic = request.topics.emplace_back();
    topic.topic = "t";
    for (const auto& [current, epoch] : {std::pair{-1, 0}, {0, 7}, {5, 0}}) {
      auto& partition = topic.partitions.emplace_back();
      partition.current_leader_epoch = current;
      partition.leader_epoch = epoch;
    }
    const auto response = Call<OffsetForLeaderEpochResponse>(request, version);
    const auto& answers = response.topics.at(0).partitions;
    ASSERT_EQ(answers.size(), 3u);
    EXPECT_EQ(answers[0].end_offset, 5);
    EXPECT_EQ(answers[0].leader_epoch, 0);
    EXPECT_EQ(answers[1].end_offset, -1) << "an epoch nobody led";
    EXPECT_EQ(answers[1].error_code, 0);
    EXPECT_EQ(answers[2].error_code, 75) << "a current epoch we do not know";
  }
}

TEST_F(ApiTest, CreateTopicsInEveryVersion) {
  for (int16_t version = 2; version <= 8; ++version) {
    const std::string name = "v" + std::to_string(version);
    CreateTopicsRequest request;
    auto& topic = request.topics.emplace_back();
    topic.name = name;
    topic.num_partitions = version >= 4 ? -1 : 2;
    topic.replication_factor = version >= 4 ? -1 : 1;
    topic.configs.push_back({"retention.ms", "1000"});
    Uuid wanted;
    if (version == 8) {
      wanted.bytes[5] = 77;
      topic.mirror_info.emplace();
      topic.mirror_info->topic_id = wanted;
    }
    const auto response = Call<CreateTopicsResponse>(request, version);
    ASSERT_EQ(response.topics.size(), 1u);
    ASSERT_EQ(response.topics[0].error_code, 0) << response.topics[0].error_message.value_or("");
    if (version >= 5) {
      EXPECT_EQ(response.topics[0].num_partitions, version >= 4 ? 1 : 2);
      EXPECT_FALSE(response.topics[0].configs->empty());
    }
    if (version >= 7) EXPECT_EQ(response.topics[0].topic_id, TopicId(name));
    if (version == 8) EXPECT_EQ(response.topics[0].topic_id, wanted);
    EXPECT_EQ(Call<CreateTopicsResponse>(request, version).topics.at(0).error_code, 36);
  }
}

TEST_F(ApiTest, CreateTopicsRefusesOneAndMakesTheOthers) {
  CreateTopicsRequest request;
  const auto add = [&](const std::string& name) -> CreateTopicsRequest::CreatableTopic& {
    auto& topic = request.topics.emplace_back();
    topic.name = name;
    topic.num_partitions = 1;
    topic.replication_factor = 1;
    return topic;
  };
  add("good");
  add("bad/name");
  add("none").num_partitions = 0;
  add("wide").replication_factor = 3;
  add("odd").configs.push_back({"no.such.config", "1"});
  add("owned").configs.push_back({"mirror.name", "m"});
  add("twice");
  add("twice");
  auto& placed = add("placed");
  placed.num_partitions = -1;
  placed.replication_factor = -1;
  placed.assignments.push_back({0, {1}});
  placed.assignments.push_back({1, {1}});
  auto& elsewhere = add("elsewhere");
  elsewhere.num_partitions = -1;
  elsewhere.replication_factor = -1;
  elsewhere.assignments.push_back({0, {9}});
  const auto response = Call<CreateTopicsResponse>(request, 7);
  std::map<std::string, int> errors;
  for (const auto& topic : response.topics) errors[topic.name] = topic.error_code;
  EXPECT_EQ(errors, (std::map<std::string, int>{{"good", 0},
                                                {"bad/name", 17},
                                                {"none", 37},
                                                {"wide", 38},
                                                {"odd", 40},
                                                {"owned", 40},
                                                {"twice", 42},
                                                {"placed", 0},
                                                {"elsewhere", 39}}));

  CreateTopicsRequest only_checked;
  auto& topic = only_checked.topics.emplace_back();
  topic.name = "checked";
  topic.num_partitions = 1;
  topic.replication_factor = 1;
  only_checked.validate_only = true;
  EXPECT_EQ(Call<CreateTopicsResponse>(only_checked, 7).topics.at(0).error_code, 0);
  MetadataRequest all;
  all.topics.reset();
  EXPECT_EQ(Call<MetadataResponse>(all, 9).topics.size(), 2u) << "good and placed";
}

TEST_F(ApiTest, DeleteTopicsInEveryVersion) {
  for (int16_t version = 1; version <= 6; ++version) {
    CreateTopic("t");
    ASSERT_EQ(Produce("t", Batch({})).base_offset, 0) << "a new log each time";
    DeleteTopicsRequest request;
    request.timeout_ms = 10000;
    if (version < 6) {
      request.topic_names = {"t", "unknown"};
    } else {
      request.topics.resize(2);
      request.topics[0].topic_id = TopicId("t");
      request.topics[1].name = "unknown";
    }
    const auto response = Call<DeleteTopicsResponse>(request, version);
    ASSERT_EQ(response.responses.size(), 2u);
    EXPECT_EQ(response.responses[0].error_code, 0);
    EXPECT_EQ(response.responses[1].error_code, 3);
    EXPECT_EQ(Produce("t", Batch({})).error_code, 3);
  }
}

TEST_F(ApiTest, CreatePartitionsInEveryVersion) {
  CreateTopic("t");
  for (int16_t version = 0; version <= 3; ++version) {
    CreatePartitionsRequest request;
    auto& topic = request.topics.emplace_back();
    topic.name = "t";
    topic.count = version + 2;
    topic.assignments.reset();
    request.topics.emplace_back().name = "unknown";
    request.topics.back().count = 2;
    request.topics.back().assignments.reset();
    auto response = Call<CreatePartitionsResponse>(request, version);
    ASSERT_EQ(response.results.size(), 2u);
    EXPECT_EQ(response.results[0].error_code, 0) << response.results[0].error_message.value_or("");
    EXPECT_EQ(response.results[1].error_code, 3);
    EXPECT_EQ(Produce("t", Batch({}), 9, 1, version + 1).base_offset, 0);
    response = Call<CreatePartitionsResponse>(request, version);
    EXPECT_EQ(response.results.at(0).error_code, 37) << "not more than now";
  }
}

TEST_F(ApiTest, DeleteRecordsInEveryVersion) {
  CreateTopic("t");
  for (int i = 0; i < 4; ++i) ASSERT_EQ(Produce("t", Batch({.count = 10})).error_code, 0);
  for (int16_t version = 0; version <= 2; ++version) {
    DeleteRecordsRequest request;
    auto& topic = request.topics.emplace_back();
    topic.name = "t";
    topic.partitions.push_back({0, (version + 1) * 10});
    topic.partitions.push_back({7, 1});
    const auto response = Call<DeleteRecordsResponse>(request, version);
    const auto& answers = response.topics.at(0).partitions;
    EXPECT_EQ(answers.at(0).error_code, 0);
    EXPECT_EQ(answers[0].low_watermark, (version + 1) * 10);
    EXPECT_EQ(answers.at(1).error_code, 3);
    EXPECT_EQ(ListOffset("t", -2).offset, (version + 1) * 10);
  }
  DeleteRecordsRequest request;
  auto& topic = request.topics.emplace_back();
  topic.name = "t";
  topic.partitions.push_back({0, 41});
  EXPECT_EQ(Call<DeleteRecordsResponse>(request, 2).topics.at(0).partitions.at(0).error_code, 1);
  topic.partitions[0].offset = -1;
  EXPECT_EQ(Call<DeleteRecordsResponse>(request, 2).topics.at(0).partitions.at(0).low_watermark,
            40);
}

TEST_F(ApiTest, DescribeConfigsInEveryVersion) {
  CreateTopic("t");
  for (int16_t version = 1; version <= 4; ++version) {
    DescribeConfigsRequest request;
    const auto add = [&](int8_t type, const std::string& name) {
      auto& resource = request.resources.emplace_back();
      resource.resource_type = type;
      resource.resource_name = name;
      resource.configuration_keys.reset();
    };
    add(2, "t");
    add(4, "1");
    add(4, "");
    add(2, "unknown");
    add(4, "9");
    add(64, "no-such-mirror");
    add(16, "x");
    request.include_synonyms = true;
    request.include_documentation = version >= 3;
    const auto response = Call<DescribeConfigsResponse>(request, version);
    ASSERT_EQ(response.results.size(), 7u);
    const auto& topic = response.results[0];
    EXPECT_EQ(topic.error_code, 0);
    bool seen = false;
    for (const auto& config : topic.configs) {
      EXPECT_NE(config.name, "mirror.name") << "not set, not shown";
      if (config.name != "retention.ms") continue;
      seen = true;
      EXPECT_EQ(config.value, "604800000");
      EXPECT_EQ(config.config_source, 5);
      if (version >= 3) EXPECT_EQ(config.config_type, 5) << "long";
      if (version >= 3) EXPECT_NE(config.documentation.value_or(""), "");
    }
    EXPECT_TRUE(seen);
    EXPECT_EQ(response.results[1].error_code, 0);
    EXPECT_FALSE(response.results[1].configs.empty());
    EXPECT_EQ(response.results[2].error_code, 0);
    EXPECT_EQ(response.results[3].error_code, 3);
    EXPECT_EQ(response.results[4].error_code, 42);
    EXPECT_EQ(response.results[5].error_code, 137);
    EXPECT_EQ(response.results[6].error_code, 42);
  }
}

TEST_F(ApiTest, AlteredConfigsShowAndMirrorNameStaysShut) {
  CreateTopic("t");
  const auto value_of = [&](const std::string& key) -> std::optional<std::string> {
    DescribeConfigsRequest request;
    auto& resource = request.resources.emplace_back();
    resource.resource_type = 2;
    resource.resource_name = "t";
    resource.configuration_keys = std::vector<std::string>{key};
    const auto response = Call<DescribeConfigsResponse>(request, 4);
    if (response.results.at(0).configs.size() != 1) return std::nullopt;
    return response.results[0].configs[0].value;
  };
  const auto increment = [&](int16_t version, const std::string& key, int8_t operation,
                             std::optional<std::string> value) {
    IncrementalAlterConfigsRequest request;
    auto& resource = request.resources.emplace_back();
    resource.resource_type = 2;
    resource.resource_name = "t";
    resource.configs.push_back({key, operation, std::move(value)});
    return Call<IncrementalAlterConfigsResponse>(request, version).responses.at(0).error_code;
  };
  for (int16_t version = 0; version <= 1; ++version) {
    EXPECT_EQ(increment(version, "retention.ms", 0, "5000"), 0);
    EXPECT_EQ(value_of("retention.ms"), "5000");
    EXPECT_EQ(increment(version, "retention.ms", 1, std::nullopt), 0);
    EXPECT_EQ(value_of("retention.ms"), "604800000");
    EXPECT_EQ(increment(version, "retention.ms", 0, "soon"), 40);
    EXPECT_EQ(increment(version, "no.such.config", 0, "1"), 40);
    EXPECT_EQ(increment(version, "retention.ms", 9, "1"), 42);
    // S16: only the mirror requests may write it.
    EXPECT_EQ(increment(version, "mirror.name", 0, "m"), 40);
    EXPECT_EQ(increment(version, "mirror.name", 1, std::nullopt), 40);
  }
  for (int16_t version = 0; version <= 2; ++version) {
    AlterConfigsRequest request;
    auto& resource = request.resources.emplace_back();
    resource.resource_type = 2;
    resource.resource_name = "t";
    resource.configs.push_back({"segment.ms", "60000"});
    EXPECT_EQ(Call<AlterConfigsResponse>(request, version).responses.at(0).error_code, 0);
    EXPECT_EQ(value_of("segment.ms"), "60000");
    resource.configs[0].name = "mirror.name";
    EXPECT_EQ(Call<AlterConfigsResponse>(request, version).responses.at(0).error_code, 40);
    EXPECT_EQ(value_of("segment.ms"), "60000") << "a refused change leaves everything";
    request.resources.push_back(request.resources[0]);
    EXPECT_EQ(Call<AlterConfigsResponse>(request, version).responses.at(0).error_code, 42);
  }
}

TEST_F(ApiTest, DescribeClusterAndLogDirsAndResources) {
  CreateTopic("t", 2);
  ASSERT_EQ(Produce("t", Batch({})).error_code, 0);
  for (int16_t version = 0; version <= 2; ++version) {
    DescribeClusterRequest request;
    request.include_cluster_authorized_operations = true;
    const auto response = Call<DescribeClusterResponse>(request, version);
    EXPECT_EQ(response.cluster_id, cluster_id());
    ASSERT_EQ(response.brokers.size(), 1u);
    EXPECT_EQ(response.brokers[0].port, address().port);
    EXPECT_EQ(response.cluster_authorized_operations, 8096);
    if (version == 0) continue;
    request.endpoint_type = 2;
    EXPECT_EQ(Call<DescribeClusterResponse>(request, version).error_code, 114);
  }
  for (int16_t version = 1; version <= 5; ++version) {
    DescribeLogDirsRequest request;
    request.topics.reset();
    const auto response = Call<DescribeLogDirsResponse>(request, version);
    ASSERT_EQ(response.results.size(), 1u);
    EXPECT_EQ(response.results[0].log_dir, data().string());
    ASSERT_EQ(response.results[0].topics.size(), 1u);
    EXPECT_EQ(response.results[0].topics[0].partitions.size(), 2u);
  }
  for (int16_t version = 0; version <= 1; ++version) {
    ListConfigResourcesRequest request;
    const auto response = Call<ListConfigResourcesResponse>(request, version);
    EXPECT_EQ(response.error_code, 0);
    EXPECT_EQ(response.config_resources.size(), version == 0 ? 0u : 2u)
        << "the topic and the broker";
  }
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
      EXPECT_EQ(response.error_code, 35);
    } else {
      ASSERT_EQ(response.coordinators.size(), 2u);
      EXPECT_EQ(response.coordinators[1].error_code, 35);
      EXPECT_EQ(response.coordinators[1].key, "h");
    }
  }
}

TEST_F(ApiTest, ElectLeadersFindsNothingToDo) {
  CreateTopic("t");
  for (int16_t version = 0; version <= 2; ++version) {
    ElectLeadersRequest request;
    request.topic_partitions.emplace();
    request.topic_partitions->push_back({"t", {0, 9}});
    const auto response = Call<ElectLeadersResponse>(request, version);
    const auto& results = response.replica_election_results.at(0).partition_result;
    EXPECT_EQ(results.at(0).error_code, 84);
    EXPECT_EQ(results.at(1).error_code, 3);
  }
}

TEST_F(ApiTest, UpdateFeaturesLowersAndRaisesMirrorVersion) {
  const auto finalized = [&] {
    ApiVersionsRequest request;
    request.client_software_name = request.client_software_version = "x";
    return Call<ApiVersionsResponse>(request, 4).finalized_features.size();
  };
  const auto update = [&](int16_t version, const std::string& feature, int16_t level, bool lower) {
    UpdateFeaturesRequest request;
    auto& change = request.feature_updates.emplace_back();
    change.feature = feature;
    change.max_version_level = level;
    if (version == 0)
      change.allow_downgrade = lower;
    else
      change.upgrade_type = lower ? 3 : 1;
    const auto response = Call<UpdateFeaturesResponse>(request, version);
    return version >= 2 ? response.error_code : response.results.at(0).error_code;
  };
  for (int16_t version = 0; version <= 2; ++version) {
    EXPECT_EQ(update(version, "mirror.version", 0, false), 95) << "not asked for as a downgrade";
    EXPECT_EQ(finalized(), 1u);
    EXPECT_EQ(update(version, "mirror.version", 0, true), 0);
    EXPECT_EQ(finalized(), 0u);
    EXPECT_EQ(update(version, "mirror.version", 1, false), 0);
    EXPECT_EQ(finalized(), 1u);
    EXPECT_EQ(update(version, "no.such.feature", 1, false), 95);
  }
}

TEST_F(ApiTest, WriteTxnMarkersOfNobodyIsRefused) {
  CreateTopic("t");
  for (int16_t version = 1; version <= 2; ++version) {
    WriteTxnMarkersRequest request;
    auto& marker = request.markers.emplace_back();
    marker.producer_id = 7;
    auto& topic = marker.topics.emplace_back();
    topic.name = "t";
    topic.partition_indexes = {0, 3};
    const auto response = Call<WriteTxnMarkersResponse>(request, version);
    const auto& answers = response.markers.at(0).topics.at(0).partitions;
    EXPECT_EQ(answers.at(0).error_code, 49);
    EXPECT_EQ(answers.at(1).error_code, 3);
  }
  EXPECT_EQ(End("t"), 0);
}

}  // namespace
}  // namespace kmirror::test
