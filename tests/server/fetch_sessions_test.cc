#include "broker/server/fetch_sessions.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/support/assert_ok.h"

namespace kmirror::broker {
namespace {

using protocol::FetchRequest;
using protocol::FetchResponse;
using protocol::RecordsView;
using Answers = std::vector<FetchResponse::PartitionData>;

constexpr int16_t kByName = 12;
constexpr int16_t kById = 13;
constexpr int64_t kTwoMinutes = 120000;

const uint8_t kBytes[10] = {};

FetchRequest Request(int32_t session, int32_t epoch) {
  FetchRequest request;
  request.session_id = session;
  request.session_epoch = epoch;
  return request;
}

void Add(FetchRequest* request, const std::string& topic, int32_t partition, int64_t offset = 0) {
  FetchRequest::FetchTopic& added = request->topics.emplace_back();
  added.topic = topic;
  added.topic_id.bytes[0] = static_cast<uint8_t>(topic.front());
  added.partitions.emplace_back();
  added.partitions[0].partition = partition;
  added.partitions[0].fetch_offset = offset;
  added.partitions[0].partition_max_bytes = 100;
}

void Forget(FetchRequest* request, const std::string& topic, int32_t partition) {
  FetchRequest::ForgottenTopic& gone = request->forgotten_topics_data.emplace_back();
  gone.topic = topic;
  gone.topic_id.bytes[0] = static_cast<uint8_t>(topic.front());
  gone.partitions = {partition};
}

FetchResponse::PartitionData Answer(int32_t partition, int64_t high_watermark = 5) {
  FetchResponse::PartitionData data;
  data.partition_index = partition;
  data.high_watermark = high_watermark;
  data.log_start_offset = 0;
  data.records = RecordsView();
  return data;
}

FetchResponse::PartitionData WithRecords(int32_t partition, int64_t high_watermark = 5) {
  FetchResponse::PartitionData data = Answer(partition, high_watermark);
  data.records = RecordsView(ByteView(kBytes));
  return data;
}

// "topic-partition" of the plan's targets, or of what an answer holds, in order.
std::vector<std::string> Names(const FetchPlan& plan) {
  std::vector<std::string> names;
  for (const FetchTarget& target : plan.targets) {
    names.push_back(target.topic->name + "-" + std::to_string(target.partition));
  }
  return names;
}
std::vector<std::string> Names(const FetchResponse& response) {
  std::vector<std::string> names;
  for (const auto& topic : response.responses) {
    for (const auto& partition : topic.partitions) {
      names.push_back(topic.topic + "-" + std::to_string(partition.partition_index));
    }
  }
  return names;
}

using Strings = std::vector<std::string>;

class FetchSessionsTest : public ::testing::Test {
 protected:
  // A session over a-0, a-1 and b-0 with high watermark 5.
  int32_t Open(FetchSessions& sessions, int64_t now = 0, int16_t version = kByName) {
    FetchRequest request = Request(0, 0);
    Add(&request, "a", 0);
    Add(&request, "a", 1);
    Add(&request, "b", 0);
    Result<FetchPlan> plan = sessions.Begin(request, version, now);
    EXPECT_OK(plan.status());
    FetchResponse response;
    sessions.Finish(*plan, {Answer(0), Answer(1), Answer(0)}, now, &response);
    EXPECT_EQ(response.responses.size(), 2u);
    return response.session_id;
  }
};

TEST_F(FetchSessionsTest, AFullRequestWithEpochZeroOpensASession) {
  FetchSessions sessions(10, 1);
  EXPECT_GT(Open(sessions), 0);
  EXPECT_EQ(sessions.size(), 1u);
  EXPECT_EQ(sessions.partitions(), 3);
}

TEST_F(FetchSessionsTest, AFinalEpochAndOldVersionsOpenNone) {
  FetchSessions sessions(10, 1);
  for (const auto& [epoch, version] : {std::pair<int32_t, int16_t>{-1, 12}, {0, 6}}) {
    FetchRequest request = Request(0, epoch);
    Add(&request, "a", 0);
    const Result<FetchPlan> plan = sessions.Begin(request, version, 0);
    ASSERT_OK(plan.status());
    FetchResponse response;
    sessions.Finish(*plan, {Answer(0)}, 0, &response);
    EXPECT_EQ(response.session_id, 0);
    EXPECT_EQ(Names(response), Strings{"a-0"});
  }
  EXPECT_EQ(sessions.size(), 0u);
}

TEST_F(FetchSessionsTest, AnIncrementalAnswerHoldsOnlyWhatIsNew) {
  FetchSessions sessions(10, 1);
  const int32_t id = Open(sessions);
  Result<FetchPlan> plan = sessions.Begin(Request(id, 1), kByName, 0);
  ASSERT_OK(plan.status());
  EXPECT_EQ(Names(*plan), (Strings{"a-0", "a-1", "b-0"}));
  FetchResponse nothing;
  sessions.Finish(*plan, {Answer(0), Answer(1), Answer(0)}, 0, &nothing);
  EXPECT_EQ(nothing.session_id, id);
  EXPECT_TRUE(nothing.responses.empty());

  // A moved high watermark is news, and so are records.
  plan = sessions.Begin(Request(id, 2), kByName, 0);
  ASSERT_OK(plan.status());
  FetchResponse news;
  sessions.Finish(*plan, {Answer(0, 6), Answer(1), WithRecords(0)}, 0, &news);
  EXPECT_EQ(Names(news), (Strings{"a-0", "b-0"}));
}

TEST_F(FetchSessionsTest, AnErrorIsNewsAndSoIsItsEnd) {
  FetchSessions sessions(10, 1);
  const int32_t id = Open(sessions);
  FetchResponse::PartitionData failed = Answer(0, -1);
  failed.error_code = 3;
  for (int32_t epoch = 1; epoch <= 2; ++epoch) {
    const Result<FetchPlan> plan = sessions.Begin(Request(id, epoch), kByName, 0);
    ASSERT_OK(plan.status());
    FetchResponse response;
    sessions.Finish(*plan, {failed, Answer(1), Answer(0)}, 0, &response);
    EXPECT_EQ(Names(response), Strings{"a-0"});
  }
  const Result<FetchPlan> plan = sessions.Begin(Request(id, 3), kByName, 0);
  FetchResponse healed;
  sessions.Finish(*plan, {Answer(0), Answer(1), Answer(0)}, 0, &healed);
  EXPECT_EQ(Names(healed), Strings{"a-0"});
}

TEST_F(FetchSessionsTest, WhatHadRecordsComesLastTheNextTime) {
  FetchSessions sessions(10, 1);
  const int32_t id = Open(sessions);
  Result<FetchPlan> plan = sessions.Begin(Request(id, 1), kByName, 0);
  FetchResponse response;
  sessions.Finish(*plan, {WithRecords(0), Answer(1), Answer(0)}, 0, &response);
  plan = sessions.Begin(Request(id, 2), kByName, 0);
  EXPECT_EQ(Names(*plan), (Strings{"a-1", "b-0", "a-0"}));
}

TEST_F(FetchSessionsTest, IncrementalRequestsAddChangeAndForgetPartitions) {
  FetchSessions sessions(10, 1);
  const int32_t id = Open(sessions);
  FetchRequest request = Request(id, 1);
  Add(&request, "c", 7, 70);
  Add(&request, "a", 1, 42);
  Forget(&request, "a", 0);
  Forget(&request, "never-there", 0);
  const Result<FetchPlan> plan = sessions.Begin(request, kByName, 0);
  ASSERT_OK(plan.status());
  EXPECT_EQ(Names(*plan), (Strings{"a-1", "b-0", "c-7"}));
  EXPECT_EQ(plan->targets[0].offset, 42);
  EXPECT_EQ(plan->targets[2].offset, 70);
  FetchResponse response;
  sessions.Finish(*plan, {Answer(1), Answer(0), Answer(7)}, 0, &response);
  EXPECT_EQ(Names(response), Strings{"c-7"}) << "a new partition is told in any case";
}

TEST_F(FetchSessionsTest, ASessionWithoutPartitionsEnds) {
  FetchSessions sessions(10, 1);
  const int32_t id = Open(sessions);
  FetchRequest request = Request(id, 1);
  Forget(&request, "a", 0);
  Forget(&request, "a", 1);
  Forget(&request, "b", 0);
  const Result<FetchPlan> plan = sessions.Begin(request, kByName, 0);
  ASSERT_OK(plan.status());
  FetchResponse response;
  sessions.Finish(*plan, {}, 0, &response);
  EXPECT_EQ(response.session_id, 0);
  EXPECT_EQ(sessions.size(), 0u);
}

TEST_F(FetchSessionsTest, RefusesUnknownSessionsWrongEpochsAndAChangeOfReference) {
  FetchSessions sessions(10, 1);
  const int32_t id = Open(sessions);
  EXPECT_EQ(sessions.Begin(Request(id + 1, 1), kByName, 0).status().code(),
            ErrorCode::kFetchSessionIdNotFound);
  EXPECT_EQ(sessions.Begin(Request(id, 2), kByName, 0).status().code(),
            ErrorCode::kInvalidFetchSessionEpoch);
  EXPECT_EQ(sessions.Begin(Request(id, 1), kById, 0).status().code(),
            ErrorCode::kFetchSessionTopicIdError);
  EXPECT_OK(sessions.Begin(Request(id, 1), kByName, 0).status());
  EXPECT_EQ(sessions.Begin(Request(id, 1), kByName, 0).status().code(),
            ErrorCode::kInvalidFetchSessionEpoch)
      << "each epoch is used once";
}

TEST_F(FetchSessionsTest, AFullRequestEndsTheSessionItNames) {
  FetchSessions sessions(10, 1);
  const int32_t id = Open(sessions);
  FetchRequest request = Request(id, -1);
  Add(&request, "a", 0);
  EXPECT_OK(sessions.Begin(request, kByName, 0).status());
  EXPECT_EQ(sessions.size(), 0u);
}

TEST_F(FetchSessionsTest, ByIdTheAnswerCarriesIdsAndNoNames) {
  FetchSessions sessions(10, 1);
  const int32_t id = Open(sessions, 0, kById);
  const Result<FetchPlan> plan = sessions.Begin(Request(id, 1), kById, 0);
  ASSERT_OK(plan.status());
  FetchResponse response;
  sessions.Finish(*plan, {WithRecords(0), WithRecords(1), Answer(0)}, 0, &response);
  ASSERT_EQ(response.responses.size(), 1u);
  EXPECT_EQ(response.responses[0].topic, "");
  EXPECT_EQ(response.responses[0].topic_id.bytes[0], 'a');
  EXPECT_EQ(response.responses[0].partitions.size(), 2u);
}

TEST_F(FetchSessionsTest, AFullCacheKeepsYoungSessionsAndServesWithoutOne) {
  FetchSessions sessions(2, 1);
  const int32_t first = Open(sessions, 0);
  const int32_t second = Open(sessions, 0);
  EXPECT_NE(first, second);
  EXPECT_EQ(Open(sessions, kTwoMinutes - 1), 0);
  EXPECT_EQ(sessions.evictions(), 0);
  EXPECT_OK(sessions.Begin(Request(first, 1), kByName, 0).status());
}

TEST_F(FetchSessionsTest, AFullCacheEvictsTheSessionUnusedForLongest) {
  FetchSessions sessions(2, 1);
  const int32_t first = Open(sessions, 0);
  const int32_t second = Open(sessions, 0);
  EXPECT_OK(sessions.Begin(Request(first, 1), kByName, kTwoMinutes).status());
  EXPECT_GT(Open(sessions, kTwoMinutes + 1), 0);
  EXPECT_EQ(sessions.evictions(), 1);
  EXPECT_EQ(sessions.Begin(Request(second, 1), kByName, 0).status().code(),
            ErrorCode::kFetchSessionIdNotFound);
  EXPECT_OK(sessions.Begin(Request(first, 2), kByName, 0).status());
}

TEST_F(FetchSessionsTest, AnOldSmallerSessionMakesRoomForALargerOne) {
  FetchSessions sessions(1, 1);
  FetchRequest request = Request(0, 0);
  Add(&request, "a", 0);
  Result<FetchPlan> plan = sessions.Begin(request, kByName, 0);
  FetchResponse response;
  sessions.Finish(*plan, {Answer(0)}, 0, &response);
  const int32_t small = response.session_id;
  ASSERT_GT(small, 0);
  // In use, and yet small and old enough.
  EXPECT_OK(sessions.Begin(Request(small, 1), kByName, kTwoMinutes).status());
  EXPECT_GT(Open(sessions, kTwoMinutes), 0);
  EXPECT_EQ(sessions.evictions(), 1);
}

TEST_F(FetchSessionsTest, NoSlotsMeansNoSessions) {
  FetchSessions sessions(0, 1);
  EXPECT_EQ(Open(sessions), 0);
}

}  // namespace
}  // namespace kmirror::broker
