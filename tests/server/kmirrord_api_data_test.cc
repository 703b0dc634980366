// Records in and their offsets out, in every version.

#include <gtest/gtest.h>

#include <set>
#include <string>
#include <utility>
#include <vector>

#include "kmirror/log/batch.h"
#include "kmirror/log/checksum.h"
#include "messages/delete_records.h"
#include "messages/describe_producers.h"
#include "messages/incremental_alter_configs.h"
#include "messages/init_producer_id.h"
#include "messages/list_offsets.h"
#include "messages/metadata.h"
#include "messages/offset_for_leader_epoch.h"
#include "messages/produce.h"
#include "messages/write_txn_markers.h"
#include "tests/server/kmirrord_api_fixture.h"
#include "tests/support/wait_until.h"

namespace kmirror::test {
namespace {

using namespace protocol;  // NOLINT: the messages, all of them

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
  EXPECT_EQ(Produce("t", cut, 9).error_code, 87) << "cut";
  EXPECT_EQ(Produce("t", Batch({.bytes = 2 << 20}), 9).error_code, 10) << "too large";
  const auto transactional = Produce(
      "t",
      Batch({.producer_id = 5, .producer_epoch = 0, .base_sequence = 0, .transactional = true}), 9);
  EXPECT_EQ(transactional.error_code, 53) << "transactional records without a transactional id";
  const std::vector<uint8_t> in_transaction =
      Batch({.producer_id = 5, .producer_epoch = 0, .base_sequence = 0, .transactional = true});
  ProduceRequest with_id = ProduceOf("t", in_transaction);
  with_id.transactional_id = "tx";
  EXPECT_EQ(Call<ProduceResponse>(with_id, 9).responses.at(0).partition_responses.at(0).error_code,
            49)
      << "nobody coordinates transactions yet";
  EXPECT_EQ(End("t"), 0) << "none of them was appended";

  ProduceRequest by_id = ProduceOf("", Batch({}));
  by_id.topic_data[0].topic_id.bytes[0] = 1;
  const auto unknown = Call<ProduceResponse>(by_id, 13);
  EXPECT_EQ(unknown.responses.at(0).partition_responses.at(0).error_code, 100);
}

TEST_F(ApiTest, ProduceRefusesOddBatchesAndCorrectsATimeThatIsWrong) {
  CreateTopic("t");
  const auto sum = [](std::vector<uint8_t>* batch) {
    const uint32_t crc = log::Crc32c(0, ByteView(*batch).subspan(log::kBatchCrcStart));
    for (size_t i = 0; i < 4; ++i) {
      (*batch)[log::kBatchCrcOffset + i] = static_cast<uint8_t>(crc >> (24 - 8 * i));
    }
  };
  std::vector<uint8_t> late_base = Batch({.count = 2});
  late_base[7] = 9;
  EXPECT_EQ(Produce("t", late_base).error_code, 87) << "offsets of a client begin at 0";
  std::vector<uint8_t> more = Batch({.count = 2});
  more.insert(more.end(), {1, 2, 3});
  more[11] = static_cast<uint8_t>(more[11] + 3);
  sum(&more);
  EXPECT_EQ(Produce("t", more).error_code, 87) << "bytes after the last record";
  std::vector<uint8_t> control = Batch({.count = 2});
  control[22] |= 0x20;
  sum(&control);
  EXPECT_EQ(Produce("t", control).error_code, 87) << "control batches are not for clients";
  std::vector<uint8_t> old_format = Batch({});
  old_format[16] = 1;
  EXPECT_EQ(Produce("t", old_format).error_code, 87) << "message format v1";
  std::vector<uint8_t> new_format = Batch({});
  new_format[16] = 3;
  EXPECT_EQ(Produce("t", new_format).error_code, 2) << "a format of the future";
  EXPECT_EQ(End("t"), 0);

  // The header claims more than a second too much; a look-up by time finds the records all the
  // same.
  std::vector<uint8_t> too_late = Batch({.count = 2, .timestamp_ms = 1700000000000});
  too_late[41] = static_cast<uint8_t>(too_late[41] + 4);
  sum(&too_late);
  EXPECT_EQ(Produce("t", too_late).error_code, 0);
  const auto greatest = ListOffset("t", -3);
  EXPECT_EQ(greatest.offset, 1);
  EXPECT_EQ(greatest.timestamp, 1700000000001);
}

TEST_F(ApiTest, AProducerIsRememberedHoweverOldItsRecordsAre) {
  Kill();
  StartWithConfig("log.retention.ms=-1\nlog.retention.check.interval.ms=100\n");
  CreateTopic("t");
  const auto batch = [](int32_t sequence) {
    return Batch({.timestamp_ms = 1500000000000,
                  .producer_id = 5,
                  .producer_epoch = 0,
                  .base_sequence = sequence});
  };
  ASSERT_EQ(Produce("t", batch(0)).base_offset, 0);
  // Retention has run when the one topic that it empties is empty.
  CreateTopic("passing");
  IncrementalAlterConfigsRequest shorten;
  auto& resource = shorten.resources.emplace_back();
  resource.resource_type = 2;
  resource.resource_name = "passing";
  resource.configs.push_back({"retention.ms", 0, "1"});
  ASSERT_EQ(Call<IncrementalAlterConfigsResponse>(shorten, 1).responses.at(0).error_code, 0);
  for (int i = 0; i < 2; ++i) {
    ASSERT_EQ(Produce("passing", Batch({})).error_code, 0);
    const int64_t end = End("passing");
    ASSERT_TRUE(WaitUntil([&] { return ListOffset("passing", -2).offset == end; }));
  }
  EXPECT_EQ(Produce("t", batch(0)).base_offset, 0) << "a retry is still known as one";
  EXPECT_EQ(Produce("t", batch(2)).error_code, 45) << "and so is a gap";
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
