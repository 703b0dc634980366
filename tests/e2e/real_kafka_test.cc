// The real Kafka that other tests mirror from, and the client they look at it with: what is wrong
// here would make every other finding doubtful.
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/support/assert_ok.h"
#include "tests/support/kafka_client.h"
#include "tests/support/kafka_fixture.h"

namespace kmirror::test {
namespace {

class RealKafkaTest : public ::testing::Test {
 protected:
  void SetUp() override {
    Result<SharedKafkaInfo> kafka = SharedKafka();
    ASSERT_TRUE(kafka.ok()) << kafka.status().ToString();
    kafka_ = std::move(kafka).value();
    Result<AdminClient> admin = AdminClient::Connect(kafka_.bootstrap);
    ASSERT_TRUE(admin.ok()) << admin.status().ToString();
    admin_ = std::move(admin).value();
  }

  SharedKafkaInfo kafka_;
  AdminClient admin_;
  const std::string topic_ = UniqueName("real-kafka");
};

TEST_F(RealKafkaTest, ShowsATopicThatWasCreated) {
  ASSERT_OK(admin_.CreateTopic(topic_, 3));
  const auto topics = admin_.Topics();
  ASSERT_OK(topics.status());
  const auto found = std::ranges::find(*topics, topic_, &AdminClient::Topic::name);
  ASSERT_NE(found, topics->end());
  EXPECT_EQ(found->leaders, (std::vector<int32_t>{1, 1, 1}));
  ASSERT_OK(admin_.DeleteTopic(topic_));
}

TEST_F(RealKafkaTest, RefusesATopicThatExists) {
  ASSERT_OK(admin_.CreateTopic(topic_));
  EXPECT_EQ(admin_.CreateTopic(topic_).code(), ErrorCode::kTopicAlreadyExists);
}

TEST_F(RealKafkaTest, GivesBackEveryCodecsRecordsWithTheirNullsAndHeaders) {
  ASSERT_OK(admin_.CreateTopic(topic_));
  std::vector<ClientRecord> records(4);
  records[0] = {.key = "k",
                .value = "v",
                .headers = {{"h", "1"}, {"h", std::nullopt}, {"e", ""}},
                .timestamp_ms = 1000};
  records[1] = {.key = std::nullopt, .value = std::nullopt, .headers = {}, .timestamp_ms = 2000};
  records[2] = {.key = "", .value = "", .headers = {}, .timestamp_ms = 3000};
  records[3] = {
      .key = "big", .value = std::string(100000, 'x'), .headers = {}, .timestamp_ms = 4000};
  std::vector<ClientRecord> expected;
  for (const char* codec : {"none", "gzip", "snappy", "lz4", "zstd"}) {
    auto producer = Producer::Connect(kafka_.bootstrap, {.codec = codec});
    ASSERT_OK(producer.status());
    const auto offsets = producer->Send(topic_, 0, records);
    ASSERT_OK(offsets.status());
    for (size_t i = 0; i < records.size(); ++i) {
      expected.push_back(records[i]);
      expected.back().offset = (*offsets)[i];
      EXPECT_EQ((*offsets)[i], static_cast<int64_t>(expected.size()) - 1);
    }
  }
  const auto read = ReadPartition(kafka_.bootstrap, topic_, 0);
  ASSERT_OK(read.status());
  EXPECT_EQ(read->records, expected);
  EXPECT_EQ(read->next_offset, 20);

  const auto offset = admin_.OffsetForTime(topic_, 0, 1500);
  ASSERT_OK(offset.status());
  EXPECT_EQ(*offset, 1);
}

TEST_F(RealKafkaTest, ShowsCommittedAbortedAndOpenTransactionsApart) {
  ASSERT_OK(admin_.CreateTopic(topic_));
  Producer::Options options;
  options.more = {{"message.timeout.ms", "8000"}};
  // Now and then this librdkafka never sends a new producer's first records: another one does.
  Result<Producer> producer(ErrorCode::kNotLoaded, "");
  Status begun(ErrorCode::kNotLoaded, "");
  for (int attempt = 0; attempt < 4 && !begun.ok(); ++attempt) {
    options.transactional_id = UniqueName(topic_);
    producer = Producer::Connect(kafka_.bootstrap, options);
    ASSERT_OK(producer.status());
    ASSERT_OK(producer->Begin());
    begun = producer->SendNumbered(topic_, 0, 3, 0).status();
  }
  ASSERT_OK(begun);
  ASSERT_OK(producer->Commit());  // marker at 3
  ASSERT_OK(producer->Begin());
  ASSERT_OK(producer->SendNumbered(topic_, 0, 3, 10).status());
  ASSERT_OK(producer->Abort());  // marker at 7
  ASSERT_OK(producer->Begin());
  ASSERT_OK(producer->SendNumbered(topic_, 0, 3, 20).status());

  const auto committed = ReadPartition(kafka_.bootstrap, topic_, 0, {.read_committed = true});
  ASSERT_OK(committed.status());
  EXPECT_EQ(committed->records.size(), 3u);
  EXPECT_EQ(committed->next_offset, 8);  // the last stable offset
  const auto all = ReadPartition(kafka_.bootstrap, topic_, 0);
  ASSERT_OK(all.status());
  EXPECT_EQ(all->records.size(), 9u);
  EXPECT_EQ(all->next_offset, 11);
}

TEST_F(RealKafkaTest, DeletesRecordsAndMovesTheLogStart) {
  ASSERT_OK(admin_.CreateTopic(topic_));
  auto producer = Producer::Connect(kafka_.bootstrap);
  ASSERT_OK(producer.status());
  ASSERT_OK(producer->SendNumbered(topic_, 0, 10).status());
  ASSERT_OK(admin_.DeleteRecords(topic_, 0, 4));
  const auto marks = admin_.QueryWatermarks(topic_, 0);
  ASSERT_OK(marks.status());
  EXPECT_EQ(marks->low, 4);
  EXPECT_EQ(marks->high, 10);
  const auto read = ReadPartition(kafka_.bootstrap, topic_, 0, {.from_offset = 2});
  EXPECT_EQ(read.status().code(), ErrorCode::kOffsetOutOfRange) << read.status().ToString();
}

TEST_F(RealKafkaTest, DumpsItsOwnSegmentsWithItsTool) {
  ASSERT_OK(admin_.CreateTopic(topic_));
  auto producer = Producer::Connect(kafka_.bootstrap);
  ASSERT_OK(producer.status());
  ASSERT_OK(producer->SendNumbered(topic_, 0, 5).status());
  const auto dump =
      KafkaTool("dump-log", {"--deep-iteration", "--files",
                             kafka_.log_dir / (topic_ + "-0") / "00000000000000000000.log"});
  ASSERT_OK(dump.status());
  EXPECT_NE(dump->find("isvalid: true"), std::string::npos) << *dump;
  EXPECT_EQ(dump->find("isvalid: false"), std::string::npos) << *dump;
}

TEST(OwnKafka, KeepsItsDataAndAddressThroughAKill) {
  auto kafka = RealKafka::Start();
  ASSERT_OK(kafka.status());
  const std::string bootstrap = (*kafka)->bootstrap();
  auto admin = AdminClient::Connect(bootstrap);
  ASSERT_OK(admin.status());
  ASSERT_OK(admin->CreateTopic("kept"));
  auto producer = Producer::Connect(bootstrap);
  ASSERT_OK(producer.status());
  ASSERT_OK(producer->SendNumbered("kept", 0, 7).status());
  ASSERT_OK((*kafka)->Kill());
  ASSERT_OK((*kafka)->Restart());
  const auto read = ReadPartition(bootstrap, "kept", 0, {.count = 7});
  ASSERT_OK(read.status());
  EXPECT_EQ(read->records.size(), 7u);
}

}  // namespace
}  // namespace kmirror::test
