// What clients of the broker may do to a topic that a mirror owns. The source cannot be reached:
// the topic stays PREPARING (R33), which is as read-only as any state before the stop.

#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

#include "messages/create_cluster_mirror.h"
#include "messages/create_partitions.h"
#include "messages/delete_records.h"
#include "messages/delete_topics.h"
#include "messages/describe_cluster_mirrors.h"
#include "messages/describe_configs.h"
#include "messages/incremental_alter_configs.h"
#include "messages/list_config_resources.h"
#include "messages/list_offsets.h"
#include "messages/pause_mirror_topics.h"
#include "messages/produce.h"
#include "messages/start_mirror_topics.h"
#include "messages/stop_mirror_topics.h"
#include "messages/write_txn_markers.h"
#include "tests/server/kmirrord_fixture.h"
#include "tests/support/free_port.h"

namespace kmirror::test {
namespace {

using namespace protocol;  // NOLINT: the messages, all of them

class MirrorTopicTest : public KmirrordTest {
 protected:
  void SetUp() override {
    Start();
    CreateTopic("plain");
    source_ = "127.0.0.1:" + std::to_string(FreePort());
    CreateClusterMirrorRequest create;
    create.mirror_name = "m";
    create.config.push_back({"bootstrap.servers", source_});
    create.config.push_back({"source.cluster.id", "AAAAAAAAAAAAAAAAAAAAAQ"});
    const auto created = Call<CreateClusterMirrorResponse>(create, 0);
    ASSERT_EQ(created.error_code, 0) << created.error_message.value_or("");
    StartMirrorTopicsRequest start;
    start.mirror_name = "m";
    auto& topic = start.topics.emplace_back();
    topic.topic_name = "t";
    topic.topic_id.bytes[2] = 0x42;
    topic.num_partitions = 1;
    const auto started = Call<StartMirrorTopicsResponse>(start, 0);
    ASSERT_EQ(started.error_code, 0) << started.error_message.value_or("");
    ASSERT_EQ(TopicId("t").bytes[2], 0x42);
  }

  ProduceResponse::PartitionProduceResponse Produce(const std::string& topic, int16_t version,
                                                    int16_t acks, const BatchOptions& batch = {}) {
    const std::vector<uint8_t> records = Batch(batch);
    const auto response = Call<ProduceResponse>(Request(topic, version, acks, records), version);
    return response.responses.at(0).partition_responses.at(0);
  }
  ProduceRequest Request(const std::string& topic, int16_t version, int16_t acks,
                         const std::vector<uint8_t>& records) {
    ProduceRequest request;
    request.acks = acks;
    request.timeout_ms = 10000;
    auto& data = request.topic_data.emplace_back();
    if (version >= 13)
      data.topic_id = TopicId(topic);
    else
      data.name = topic;
    auto& part = data.partition_data.emplace_back();
    part.records = RecordsView(ByteView(records));
    return request;
  }
  int64_t End(const std::string& topic) {
    ListOffsetsRequest request;
    request.replica_id = -1;
    auto& wanted = request.topics.emplace_back();
    wanted.name = topic;
    wanted.partitions.emplace_back().timestamp = -1;
    return Call<ListOffsetsResponse>(request, 6).topics.at(0).partitions.at(0).offset;
  }
  void ExpectReadOnly() {
    for (int16_t version = 3; version <= 13; ++version) {
      for (const int16_t acks : {1, -1}) {
        const auto answer = Produce("t", version, acks);
        EXPECT_EQ(answer.error_code, 42) << version;
        EXPECT_EQ(answer.base_offset, -1);
        if (version < 8) continue;
        // R23: clients show this text.
        const std::string text = answer.error_message.value_or("");
        EXPECT_EQ(text.find("READ_ONLY_TOPIC:"), 0u) << text;
        for (const std::string& part : {std::string("'t'"), std::string("'m'"), source_}) {
          EXPECT_NE(text.find(part), std::string::npos) << text;
        }
      }
    }
    EXPECT_EQ(End("t"), 0);
  }

  std::string source_;
};

TEST_F(MirrorTopicTest, EveryProducerReadsTheReadOnlyError) {
  ExpectReadOnly();
  // R22, S101: before anything about producer ids and transactions.
  EXPECT_EQ(
      Produce("t", 9, -1, {.producer_id = 0, .producer_epoch = 3, .base_sequence = 77}).error_code,
      42);
  EXPECT_EQ(
      Produce("t", 9, -1,
              {.producer_id = 0, .producer_epoch = 0, .base_sequence = 0, .transactional = true})
          .error_code,
      42);
  // The same client goes on with another topic.
  EXPECT_EQ(Produce("plain", 9, -1).error_code, 0);
  EXPECT_EQ(End("t"), 0);
}

TEST_F(MirrorTopicTest, AProduceWithoutAcksAppendsNothing) {
  WireClient client = Connect();
  const std::vector<uint8_t> records = Batch({});
  Writer frame;
  ASSERT_OK(EncodeRequestFrame(Request("t", 9, 0, records), 9, 1, "x", frame));
  ASSERT_OK(client.SendBytes(frame.Flatten()));
  EXPECT_EQ(client.ReceiveFrame().status().code(), ErrorCode::kDisconnected);
  EXPECT_EQ(End("t"), 0);
}

TEST_F(MirrorTopicTest, ItIsReadOnlyFromTheFirstMomentAfterACrash) {
  Kill();
  Start();
  ExpectReadOnly();
}

TEST_F(MirrorTopicTest, ItIsReadOnlyWhilePaused) {
  PauseMirrorTopicsRequest pause;
  pause.mirror_name = "m";
  pause.topics.emplace_back().topic_name = "t";
  Call<PauseMirrorTopicsResponse>(pause, 0);
  ExpectReadOnly();
}

// S37: refused for t, done for the plain topic of the same request.
TEST_F(MirrorTopicTest, ClientsMayNotChangeIt) {
  CreatePartitionsRequest grow;
  for (const char* name : {"t", "plain"}) {
    auto& topic = grow.topics.emplace_back();
    topic.name = name;
    topic.count = 3;
    topic.assignments.reset();
  }
  const auto grown = Call<CreatePartitionsResponse>(grow, 3);
  EXPECT_EQ(grown.results.at(0).error_code, 42);
  EXPECT_EQ(grown.results[0].error_message.value_or("").find("MIRROR_TOPIC_NOT_STOPPED:"), 0u);
  EXPECT_EQ(grown.results.at(1).error_code, 0);

  DeleteRecordsRequest cut;
  for (const char* name : {"t", "plain"}) {
    auto& topic = cut.topics.emplace_back();
    topic.name = name;
    topic.partitions.push_back({0, 0});
  }
  const auto records = Call<DeleteRecordsResponse>(cut, 2);
  EXPECT_EQ(records.topics.at(0).partitions.at(0).error_code, 42);
  EXPECT_EQ(records.topics.at(1).partitions.at(0).error_code, 0);

  DeleteTopicsRequest remove;
  remove.topics.emplace_back().name = "t";
  remove.topics.emplace_back().name = "plain";
  const auto removed = Call<DeleteTopicsResponse>(remove, 6);
  EXPECT_EQ(removed.responses.at(0).error_code, 42);
  EXPECT_EQ(removed.responses[0].error_message.value_or("").find("MIRROR_TOPIC_NOT_STOPPED:"), 0u);
  EXPECT_EQ(removed.responses.at(1).error_code, 0);
  EXPECT_EQ(TopicId("t").bytes[2], 0x42);
}

// S16
TEST_F(MirrorTopicTest, MirrorNameIsShownReadOnlyAndCannotBeWritten) {
  for (const int8_t operation : {0, 1}) {
    IncrementalAlterConfigsRequest request;
    auto& resource = request.resources.emplace_back();
    resource.resource_type = 2;
    resource.resource_name = "t";
    resource.configs.push_back(
        {"mirror.name", operation,
         operation == 0 ? std::optional<std::string>("m.removed") : std::nullopt});
    EXPECT_EQ(Call<IncrementalAlterConfigsResponse>(request, 1).responses.at(0).error_code, 40);
  }
  DescribeConfigsRequest describe;
  for (const auto& [type, name] : {std::pair<int8_t, std::string>{2, "t"}, {64, "m"}}) {
    auto& resource = describe.resources.emplace_back();
    resource.resource_type = type;
    resource.resource_name = name;
    resource.configuration_keys.reset();
  }
  const auto described = Call<DescribeConfigsResponse>(describe, 4);
  for (const auto& config : described.results.at(0).configs) {
    if (config.name == "mirror.name") EXPECT_TRUE(config.read_only);
  }
  std::map<std::string, std::string> mirror;
  for (const auto& config : described.results.at(1).configs) {
    mirror[config.name] = config.value.value_or("(null)");
  }
  EXPECT_EQ(mirror["bootstrap.servers"], source_);
  ExpectReadOnly();

  ListConfigResourcesRequest list;
  list.resource_types = {64};
  const auto listed = Call<ListConfigResourcesResponse>(list, 1);
  ASSERT_EQ(listed.config_resources.size(), 1u);
  EXPECT_EQ(listed.config_resources[0].resource_name, "m");
}

TEST_F(MirrorTopicTest, MarkersOfACoordinatorAreAnsweredAndNotAppended) {
  WriteTxnMarkersRequest request;
  auto& marker = request.markers.emplace_back();
  marker.producer_id = 7;
  auto& topic = marker.topics.emplace_back();
  topic.name = "t";
  topic.partition_indexes = {0};
  const auto response = Call<WriteTxnMarkersResponse>(request, 1);
  EXPECT_EQ(response.markers.at(0).topics.at(0).partitions.at(0).error_code, 0);
  EXPECT_EQ(End("t"), 0);
}

// R30, S39: from the moment the stop is acknowledged clients are told to try again, until it is
// open.
TEST_F(MirrorTopicTest, AProducerThatRetriesThroughTheStopGetsThroughOnce) {
  // Not before the mirror has begun: a topic without any state is opened at once.
  ASSERT_TRUE(WaitUntil([&] {
    DescribeClusterMirrorsRequest describe;
    describe.cluster_id.reset();
    const auto described = Call<DescribeClusterMirrorsResponse>(describe, 0);
    if (described.mirrors.size() != 1 || described.mirrors[0].topics.size() != 1) return false;
    return described.mirrors[0].topics[0].partitions.at(0).state_value == "PREPARING";
  }));
  StopMirrorTopicsRequest stop;
  stop.mirror_name = "m";
  stop.topics.emplace_back().topic_name = "t";
  const auto stopped = Call<StopMirrorTopicsResponse>(stop, 0);
  ASSERT_EQ(stopped.error_code, 0) << stopped.error_message.value_or("");
  int64_t offset = -1;
  std::map<int16_t, int> refusals;
  ASSERT_TRUE(WaitUntil([&] {
    const auto answer = Produce("t", 9, -1, {.count = 1});
    if (answer.error_code == 0) {
      offset = answer.base_offset;
      return true;
    }
    ++refusals[answer.error_code];
    return false;
  }));
  for (const auto& [code, count] : refusals) EXPECT_EQ(code, 19) << "NOT_ENOUGH_REPLICAS alone";
  // Once, and first: nothing was mirrored, so the stop had nothing to write.
  EXPECT_EQ(offset, 0);
  EXPECT_EQ(End("t"), offset + 1);
  for (const int16_t acks : {1, -1}) EXPECT_EQ(Produce("t", 9, acks).error_code, 0);
}

}  // namespace
}  // namespace kmirror::test
