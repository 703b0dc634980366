// Fetch over the wire: limits, epochs, sessions, long polls, slow readers.

#include <gtest/gtest.h>

#include <chrono>
#include <string>
#include <thread>
#include <vector>

#include "messages/delete_records.h"
#include "messages/delete_topics.h"
#include "messages/fetch.h"
#include "messages/produce.h"
#include "tests/server/kmirrord_fixture.h"
#include "tests/server/raw_socket.h"

namespace kmirror::test {
namespace {

using protocol::FetchRequest;
using protocol::FetchResponse;
using protocol::RecordsView;

class FetchTest : public KmirrordTest {
 protected:
  void SetUp() override {
    Start();
    CreateTopic("t");
    id_ = TopicId("t");
  }

  void Append(WireClient& client, const std::vector<uint8_t>& records, int32_t partition = 0,
              const std::string& name = "t") {
    protocol::ProduceRequest request;
    request.acks = 1;
    request.timeout_ms = 10000;
    auto& topic = request.topic_data.emplace_back();
    topic.name = name;
    auto& part = topic.partition_data.emplace_back();
    part.index = partition;
    part.records = RecordsView(ByteView(records));
    const auto response = client.Call<protocol::ProduceResponse>(request, 9);
    ASSERT_OK(response.status());
    ASSERT_EQ(response->responses.at(0).partition_responses.at(0).error_code, 0);
  }
  void Append(const std::vector<uint8_t>& records, int32_t partition = 0,
              const std::string& topic = "t") {
    if (!writer_) writer_ = std::make_unique<WireClient>(Connect());
    Append(*writer_, records, partition, topic);
  }

  FetchRequest Request(int64_t offset, int32_t wait_ms = 0, int32_t partition_bytes = 1 << 20) {
    FetchRequest request;
    request.max_wait_ms = wait_ms;
    request.min_bytes = 1;
    Add(&request, "t", id_, 0, offset, partition_bytes);
    return request;
  }
  static FetchRequest::FetchPartition& Add(FetchRequest* request, const std::string& name,
                                           const Uuid& id, int32_t partition, int64_t offset,
                                           int32_t partition_bytes = 1 << 20) {
    auto& topic = request->topics.emplace_back();
    topic.topic = name;
    topic.topic_id = id;
    auto& part = topic.partitions.emplace_back();
    part.partition = partition;
    part.fetch_offset = offset;
    part.partition_max_bytes = partition_bytes;
    return part;
  }
  // The one partition of an answer.
  FetchResponse::PartitionData Fetch(const FetchRequest& request, int16_t version = 12) {
    answer_ = Call<FetchResponse>(request, version);
    if (answer_.responses.size() != 1 || answer_.responses[0].partitions.size() != 1) {
      ADD_FAILURE() << "not one partition; error " << answer_.error_code;
      return {};
    }
    return answer_.responses[0].partitions[0];
  }
  static size_t Size(const FetchResponse::PartitionData& data) {
    return data.records ? data.records->size() : 0;
  }

  Uuid id_;
  FetchResponse answer_;
  std::unique_ptr<WireClient> writer_;
};

TEST_F(FetchTest, EveryVersionReturnsTheBytesAsTheyWereSent) {
  const std::vector<uint8_t> batch = Batch({.count = 4});
  Append(batch);
  for (int16_t version = 4; version <= 18; ++version) {
    const auto data = Fetch(Request(0), version);
    EXPECT_EQ(data.error_code, 0) << version;
    EXPECT_EQ(data.high_watermark, 4);
    EXPECT_EQ(data.last_stable_offset, 4);
    if (version >= 5) EXPECT_EQ(data.log_start_offset, 0);
    EXPECT_FALSE(data.aborted_transactions.has_value()) << "null for an uncommitted reader";
    ASSERT_EQ(Size(data), batch.size());
    // Offset 0 and epoch 0 are what the broker writes; the rest is as sent.
    const ByteView bytes = data.records->bytes();
    EXPECT_TRUE(std::equal(bytes.begin() + 16, bytes.end(), batch.begin() + 16));
    if (version >= 13)
      EXPECT_EQ(answer_.responses[0].topic_id, id_);
    else
      EXPECT_EQ(answer_.responses[0].topic, "t");
    EXPECT_EQ(Size(Fetch(Request(4), version)), 0u) << "at the end: empty, not an error";
  }
}

TEST_F(FetchTest, StartsWithTheBatchThatHoldsTheOffset) {
  const std::vector<uint8_t> batch = Batch({.count = 5});
  for (int i = 0; i < 3; ++i) Append(batch);
  for (const int64_t offset : {5, 7, 9}) {
    const auto data = Fetch(Request(offset));
    ASSERT_EQ(Size(data), 2 * batch.size());
    EXPECT_EQ(data.records->bytes()[7], 5) << "base offset of the batch";
  }
}

TEST_F(FetchTest, TheFirstBatchComesWholeHoweverSmallTheLimits) {
  const std::vector<uint8_t> large = Batch({.bytes = 100000});
  Append(large);
  Append(large);
  EXPECT_EQ(Size(Fetch(Request(0, 0, 1))), large.size());
  FetchRequest request = Request(0);
  request.max_bytes = 10;
  EXPECT_EQ(Size(Fetch(request)), large.size());
}

TEST_F(FetchTest, LaterPartitionsShareWhatIsLeftAndSendNoPiecesAlone) {
  CreateTopic("wide", 3);
  const Uuid id = TopicId("wide");
  const std::vector<uint8_t> batch = Batch({.bytes = 30000});
  for (int32_t partition = 0; partition < 3; ++partition) Append(batch, partition, "wide");
  FetchRequest request;
  request.min_bytes = 1;
  request.max_bytes = 40000;
  for (int32_t partition = 0; partition < 3; ++partition) Add(&request, "wide", id, partition, 0);
  const auto response = Call<FetchResponse>(request, 12);
  std::vector<size_t> sizes;
  for (const auto& topic : response.responses) {
    for (const auto& partition : topic.partitions) sizes.push_back(Size(partition));
  }
  EXPECT_EQ(sizes, (std::vector<size_t>{batch.size(), 0, 0}));
}

TEST_F(FetchTest, SaysWhatIsWrongPartitionByPartition) {
  Append(Batch({.count = 3}));
  EXPECT_EQ(Fetch(Request(4)).error_code, 1) << "past the end";
  EXPECT_EQ(Fetch(Request(-1)).error_code, 1);
  FetchRequest unknown;
  Add(&unknown, "unknown", {}, 0, 0);
  EXPECT_EQ(Fetch(unknown, 12).error_code, 3);
  Uuid strange;
  strange.bytes[0] = 1;
  FetchRequest by_id;
  Add(&by_id, "", strange, 0, 0);
  EXPECT_EQ(Fetch(by_id, 13).error_code, 100);
  FetchRequest other_partition;
  Add(&other_partition, "t", id_, 8, 0);
  EXPECT_EQ(Fetch(other_partition, 12).error_code, 3);
  FetchRequest follower = Request(0);
  follower.replica_id = 3;
  EXPECT_EQ(Fetch(follower, 12).error_code, 6) << "nobody else is a replica";
  // The leader is told from version 16 on; before 12 there is not even a field for it.
  EXPECT_EQ(Fetch(follower, 11).error_code, 6);
  EXPECT_EQ(Fetch(follower, 12).current_leader.leader_id, -1);

  protocol::DeleteRecordsRequest remove;
  auto& topic = remove.topics.emplace_back();
  topic.name = "t";
  topic.partitions.push_back({0, 2});
  Call<protocol::DeleteRecordsResponse>(remove, 2);
  const auto below = Fetch(Request(1));
  EXPECT_EQ(below.error_code, 1) << "below the start";
}

TEST_F(FetchTest, ComparesLeaderEpochsAndFindsDivergence) {
  Append(Batch({.count = 3}));
  FetchRequest request = Request(0);
  request.topics[0].partitions[0].current_leader_epoch = 0;
  EXPECT_EQ(Fetch(request).error_code, 0);
  request.topics[0].partitions[0].current_leader_epoch = 4;
  EXPECT_EQ(Fetch(request).error_code, 75);

  // The client has offsets 3 to 8 with an epoch that ended at 3 here.
  FetchRequest diverged = Request(3);
  diverged.topics[0].partitions[0].last_fetched_epoch = 0;
  EXPECT_EQ(Fetch(diverged).error_code, 0);
  EXPECT_EQ(Fetch(diverged).diverging_epoch.end_offset, -1);
  diverged.topics[0].partitions[0].fetch_offset = 9;
  const auto data = Fetch(diverged);
  EXPECT_EQ(data.error_code, 0);
  EXPECT_EQ(data.diverging_epoch.epoch, 0);
  EXPECT_EQ(data.diverging_epoch.end_offset, 3);
  EXPECT_EQ(Size(data), 0u);
  diverged.topics[0].partitions[0].last_fetched_epoch = 9;
  EXPECT_EQ(Fetch(diverged).error_code, 1) << "an epoch nobody led here";
}

TEST_F(FetchTest, ALongPollWakesWhenARecordComes) {
  std::thread later;
  WireClient writer = Connect();
  const auto start = std::chrono::steady_clock::now();
  later = std::thread([&] { Append(writer, Batch({.count = 2})); });
  const auto data = Fetch(Request(0, 60000));
  later.join();
  EXPECT_EQ(data.high_watermark, 2);
  EXPECT_GT(Size(data), 0u);
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(50));
}

TEST_F(FetchTest, ALongPollWaitsForItsMinimumAndNoLongerThanItsPatience) {
  const std::vector<uint8_t> batch = Batch({.bytes = 1000});
  FetchRequest request = Request(0, 60000);
  request.min_bytes = static_cast<int32_t>(batch.size() * 3);
  WireClient writer = Connect();
  std::thread later([&] {
    for (int i = 0; i < 3; ++i) Append(writer, batch);
  });
  EXPECT_EQ(Size(Fetch(request)), batch.size() * 3);
  later.join();
  // Too little comes: it answers with that when its time is over.
  const auto start = std::chrono::steady_clock::now();
  request.max_wait_ms = 300;
  request.min_bytes = 1 << 20;
  EXPECT_EQ(Size(Fetch(request)), batch.size() * 3);
  EXPECT_GE(std::chrono::steady_clock::now() - start, std::chrono::milliseconds(290));
}

TEST_F(FetchTest, AnErrorDoesNotWait) {
  const auto start = std::chrono::steady_clock::now();
  EXPECT_EQ(Fetch(Request(77, 60000)).error_code, 1);
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(50));
}

TEST_F(FetchTest, ASessionTellsOnlyNewsAndWakesForAnyOfItsPartitions) {
  CreateTopic("wide", 20);
  const Uuid id = TopicId("wide");
  FetchRequest open;
  open.session_epoch = 0;
  for (int32_t partition = 0; partition < 20; ++partition) Add(&open, "wide", id, partition, 0);
  auto response = Call<FetchResponse>(open, 16);
  const int32_t session = response.session_id;
  ASSERT_GT(session, 0);

  FetchRequest next;
  next.session_id = session;
  next.session_epoch = 1;
  next.max_wait_ms = 60000;
  next.min_bytes = 1;
  WireClient writer = Connect();
  std::thread later([&] { Append(writer, Batch({.count = 2}), 13, "wide"); });
  response = Call<FetchResponse>(next, 16);
  later.join();
  ASSERT_EQ(response.error_code, 0);
  ASSERT_EQ(response.responses.size(), 1u);
  ASSERT_EQ(response.responses[0].partitions.size(), 1u);
  EXPECT_EQ(response.responses[0].partitions[0].partition_index, 13);

  // The position moved: nothing is new.
  next.session_epoch = 2;
  next.max_wait_ms = 0;
  Add(&next, "wide", id, 13, 2);
  response = Call<FetchResponse>(next, 16);
  EXPECT_TRUE(response.responses.empty());
  EXPECT_EQ(response.session_id, session);

  FetchRequest wrong;
  wrong.session_id = session;
  wrong.session_epoch = 9;
  EXPECT_EQ(Call<FetchResponse>(wrong, 16).error_code, 71);
  wrong.session_id = session ^ 1;
  EXPECT_EQ(Call<FetchResponse>(wrong, 16).error_code, 70);
}

TEST_F(FetchTest, ADeletedTopicEndsItsSessionsPartition) {
  FetchRequest open;
  open.session_epoch = 0;
  Add(&open, "t", id_, 0, 0);
  const int32_t session = Call<FetchResponse>(open, 16).session_id;
  protocol::DeleteTopicsRequest remove;
  remove.topics.emplace_back().name = "t";
  ASSERT_EQ(Call<protocol::DeleteTopicsResponse>(remove, 6).responses.at(0).error_code, 0);
  FetchRequest next;
  next.session_id = session;
  next.session_epoch = 1;
  next.max_wait_ms = 60000;
  next.min_bytes = 1;
  const auto response = Call<FetchResponse>(next, 16);
  ASSERT_EQ(response.responses.size(), 1u);
  EXPECT_EQ(response.responses[0].partitions.at(0).error_code, 100);
}

TEST_F(FetchTest, SlowReadersHoldNobodysMemory) {
  // 32 readers ask for 16 MiB each, and take nothing.
  const std::vector<uint8_t> batch = Batch({.bytes = 1000000});
  for (int i = 0; i < 16; ++i) Append(batch);
  const int64_t before = ResidentBytes();
  protocol::Writer frame;
  ASSERT_OK(protocol::EncodeRequestFrame(Request(0, 0, 1 << 24), 12, 1, "slow", frame));
  std::vector<std::unique_ptr<RawSocket>> readers;
  for (int i = 0; i < 32; ++i) {
    readers.push_back(std::make_unique<RawSocket>(address(), 4096));
    ASSERT_TRUE(readers.back()->Send(frame.Flatten()));
    // Its answer has begun.
    EXPECT_EQ(readers.back()->Receive(4).size(), 4u);
  }
  EXPECT_LT(ResidentBytes() - before, 32 << 20) << "512 MiB are asked for";
  // Others are served meanwhile, and a slow one still gets every byte.
  EXPECT_GT(Size(Fetch(Request(0))), 0u);
  const size_t rest = 16 * batch.size();
  EXPECT_GT(readers[0]->Receive(rest).size(), rest - 1);
}

TEST_F(FetchTest, ClaimsOfGreatRequestsCostWhatWasSent) {
  const int64_t before = ResidentBytes();
  std::vector<std::unique_ptr<RawSocket>> claims;
  for (int i = 0; i < 50; ++i) {
    claims.push_back(std::make_unique<RawSocket>(address()));
    ASSERT_TRUE(claims.back()->SendSize(100 * 1024 * 1024));
    ASSERT_TRUE(claims.back()->Send(std::vector<uint8_t>(100)));
  }
  EXPECT_EQ(Fetch(Request(0)).error_code, 0);
  EXPECT_LT(ResidentBytes() - before, 32 << 20) << "5 GiB are claimed";
  RawSocket over(address());
  ASSERT_TRUE(over.SendSize(100 * 1024 * 1024 + 1));
  EXPECT_TRUE(over.ClosedByPeer());
}

}  // namespace
}  // namespace kmirror::test
