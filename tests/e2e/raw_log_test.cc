// The judges of mirrored data on a log that is right for certain: Kafka's own.
#include <gtest/gtest.h>

#include "tests/e2e/raw_log.h"
#include "tests/support/assert_ok.h"
#include "tests/support/dump_log.h"
#include "tests/support/kafka_client.h"
#include "tests/support/kafka_fixture.h"

namespace kmirror::test {
namespace {

TEST(RawLog, ReadsTheBytesOfKafkasSegmentFilesAsItsFetchAndItsToolDo) {
  const Result<SharedKafkaInfo> kafka = SharedKafka();
  ASSERT_OK(kafka.status());
  auto admin = AdminClient::Connect(kafka->bootstrap);
  ASSERT_OK(admin.status());
  const std::string topic = UniqueName("raw-fetch");
  ASSERT_OK(admin->CreateTopic(topic, 1, {{"max.message.bytes", "10000000"}}));
  for (const char* codec : {"none", "gzip", "snappy", "lz4", "zstd"}) {
    Producer::Options options;
    options.codec = codec;
    options.batch_records_max = 7;
    auto producer = Producer::Connect(kafka->bootstrap, options);
    ASSERT_OK(producer.status());
    ASSERT_OK(producer->SendNumbered(topic, 0, 50).status());
  }
  {
    // One batch larger than what is fetched at a time.
    auto producer = Producer::Connect(kafka->bootstrap);
    ASSERT_OK(producer.status());
    const ClientRecord huge{.key = "huge", .value = std::string(6 << 20, 'x'), .headers = {}};
    ASSERT_OK(producer->Send(topic, 0, std::vector{huge}).status());
  }
  Producer::Options options;
  options.more = {{"message.timeout.ms", "8000"}};
  // Now and then this librdkafka never sends a new producer's first records: another one does.
  Result<Producer> producer(ErrorCode::kNotLoaded, "");
  Status begun(ErrorCode::kNotLoaded, "");
  for (int attempt = 0; attempt < 4 && !begun.ok(); ++attempt) {
    options.transactional_id = UniqueName(topic);
    producer = Producer::Connect(kafka->bootstrap, options);
    ASSERT_OK(producer.status());
    ASSERT_OK(producer->Begin());
    begun = producer->SendNumbered(topic, 0, 5).status();
  }
  ASSERT_OK(begun);
  ASSERT_OK(producer->Abort());
  ASSERT_OK(producer->Begin());
  ASSERT_OK(producer->SendNumbered(topic, 0, 5).status());
  ASSERT_OK(producer->Commit());
  // A commit answers before its marker is written.
  ASSERT_TRUE(WaitUntil([&] {
    const auto offsets = FetchOffsets(kafka->bootstrap, topic, 0);
    return offsets.ok() && offsets->high_watermark == 263;
  }));

  const std::filesystem::path folder = kafka->log_dir / (topic + "-0");
  const auto fetched = FetchBatches(kafka->bootstrap, topic, 0);
  ASSERT_OK(fetched.status());
  const auto stored = ReadSegments(folder);
  ASSERT_OK(stored.status());
  EXPECT_EQ(Difference(*stored, *fetched), "");
  ASSERT_FALSE(fetched->empty());
  EXPECT_EQ(fetched->back().last_offset, 262);  // 250 + 1 + 5 + ABORT + 5 + COMMIT, from 0
  EXPECT_EQ(fetched->back().ControlType(), 1);

  const auto dump = DumpPartition(folder);
  ASSERT_OK(dump.status());
  EXPECT_EQ(dump->complaints, std::vector<std::string>());
  EXPECT_EQ(dump->batches.size(), fetched->size());
  EXPECT_EQ(dump->markers, (std::vector<std::string>{"256 ABORT", "262 COMMIT"}));
}

}  // namespace
}  // namespace kmirror::test
