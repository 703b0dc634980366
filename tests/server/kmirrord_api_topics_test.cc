// Topics made, grown and deleted, in every version.

#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

#include "messages/create_partitions.h"
#include "messages/create_topics.h"
#include "messages/delete_topics.h"
#include "messages/metadata.h"
#include "tests/server/kmirrord_api_fixture.h"

namespace kmirror::test {
namespace {

using namespace protocol;  // NOLINT: the messages, all of them

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

}  // namespace
}  // namespace kmirror::test
