// Failover: a stop leaves a writable topic with no hanging transaction and no stale producer
// (scenarios S39, S42, S45, S46, S48 to S50, S55, S62, S101, S103), and Kafka's own tool agrees
// with our files.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <regex>
#include <sstream>

#include "messages/describe_producers.h"
#include "messages/produce.h"
#include "messages/stop_mirror_topics.h"
#include "tests/e2e/mirror_fixture.h"

namespace kmirror::test {
namespace {

class MirrorStop : public MirrorFixture {
 protected:
  void SetUp() override { UseSharedSource(); }

  size_t Producers(const std::string& topic) {
    auto client = WireClient::Connect(standby_->bootstrap());
    EXPECT_OK(client.status());
    protocol::DescribeProducersRequest request;
    request.topics.push_back({topic, {0}});
    auto response = client->Call<protocol::DescribeProducersResponse>(request, 0);
    EXPECT_OK(response.status());
    EXPECT_EQ(response->topics[0].partitions[0].error_code, 0);
    return response->topics[0].partitions[0].active_producers.size();
  }

  // Kafka's dump tool on every file of the partition: every batch valid, no index mismatch.
  std::string DumpOf(const std::string& topic) {
    std::string files, all;
    for (const auto& entry : std::filesystem::directory_iterator(standby_->PartitionDir(topic))) {
      const std::string extension = entry.path().extension();
      if (extension == ".log" || extension == ".index" || extension == ".timeindex" ||
          extension == ".txnindex" || extension == ".snapshot") {
        files += (files.empty() ? "" : ",") + entry.path().string();
      }
    }
    auto dump = KafkaTool("dump-log", {"--deep-iteration", "--print-data-log", "--files", files});
    EXPECT_OK(dump.status());
    if (!dump.ok()) return "";
    EXPECT_EQ(dump->find("isvalid: false"), std::string::npos) << *dump;
    EXPECT_EQ(dump->find("Mismatches in"), std::string::npos) << *dump;
    EXPECT_EQ(dump->find("Index timestamp of log segment"), std::string::npos) << *dump;
    EXPECT_EQ(dump->find("is corrupt"), std::string::npos) << *dump;
    return *dump;
  }
};

TEST_F(MirrorStop, S45AndS42APlainStopEndsInAResetAboveTheSourcesEpoch) {
  const std::string topic = UniqueName("s45"), second = UniqueName("s45-b"),
                    third = UniqueName("s45-c");
  for (const auto& t : {topic, second, third}) ASSERT_OK(admin_->CreateTopic(t));
  Send(topic, Numbered(50));
  Mirror({topic, second, third});
  ASSERT_OK(standby_->AwaitCaughtUp(topic, 50));
  ASSERT_OK(standby_->Run({"stop", "m", "--topics", topic, "--wait", "30"}));
  const auto ours = OurBatches(topic);
  ASSERT_FALSE(ours.empty());
  EXPECT_EQ(ours.back().base_offset, 50);
  EXPECT_EQ(ours.back().ControlType(), 7);
  EXPECT_EQ(ours.back().bytes.size(), 75u);
  const auto theirs = FetchBatches(source_, topic, 0);
  ASSERT_OK(theirs.status());
  EXPECT_EQ(Difference(Below(ours, 50), *theirs), "");
  for (const RawBatch& batch : *theirs) EXPECT_GT(ours.back().leader_epoch, batch.leader_epoch);
  auto producer = Producer::Connect(standby_->bootstrap());
  ASSERT_OK(producer.status());
  auto offsets = producer->SendNumbered(topic, 0, 1);
  ASSERT_OK(offsets.status());
  EXPECT_EQ((*offsets)[0], 51);
  // Control records stay invisible at both isolation levels, to librdkafka and to Kafka's own
  // consumer.
  for (bool committed : {false, true}) {
    ReadOptions options;
    options.read_committed = committed;
    auto read = ReadPartition(standby_->bootstrap(), topic, 0, options);
    ASSERT_OK(read.status());
    EXPECT_EQ(read->records.size(), 51u);
    EXPECT_EQ(read->next_offset, 52);
    auto java =
        KafkaTool("console-consumer",
                  {"--bootstrap-server", standby_->bootstrap(), "--topic", topic, "--partition",
                   "0", "--offset", "earliest", "--max-messages", "51", "--timeout-ms", "20000",
                   "--isolation-level", committed ? "read_committed" : "read_uncommitted"});
    ASSERT_OK(java.status());
    EXPECT_EQ(std::count(java->begin(), java->end(), 'v'), 51) << *java;
  }
  // The other topics of the mirror go on.
  Send(second, Numbered(5));
  Send(third, Numbered(5));
  ExpectBytesEqual(second);
  ExpectBytesEqual(third);
}

TEST_F(MirrorStop, S46OpenTransactionsAreAbortedOnceEachAndTheDumpToolAgrees) {
  const std::string topic = UniqueName("s46");
  ASSERT_OK(admin_->CreateTopic(topic));
  auto p1 = OpenTransaction("p1", topic, 3);
  ASSERT_OK(p1.status());
  ASSERT_OK(p1->Commit());  // 0-2, COMMIT 3
  AwaitSourceEnd(topic, 4);
  auto p2 = OpenTransaction("p2", topic, 2);
  ASSERT_OK(p2.status());
  ASSERT_OK(p2->Abort());  // 4-5, ABORT 6
  AwaitSourceEnd(topic, 7);
  auto p3 = OpenTransaction("p3", topic, 2);  // 7-8 open
  ASSERT_OK(p3.status());
  auto p4 = OpenTransaction("p4", topic, 1);  // 9 open
  ASSERT_OK(p4.status());
  Mirror({topic});
  ASSERT_OK(standby_->AwaitCaughtUp(topic, 10));
  ASSERT_OK(standby_->Run({"stop", "m", "--topics", topic, "--wait", "30"}));
  const auto ours = OurBatches(topic);
  ASSERT_GE(ours.size(), 3u);
  const auto tail = From(ours, 10);
  ASSERT_EQ(tail.size(), 3u) << "n open transactions: the log grows by n + 1";
  EXPECT_EQ(tail[0].ControlType(), 0);
  EXPECT_EQ(tail[1].ControlType(), 0);
  EXPECT_EQ(tail[2].ControlType(), 7);
  EXPECT_NE(tail[0].producer_id, tail[1].producer_id);
  const auto offsets = FetchOffsets(standby_->bootstrap(), topic, 0);
  ASSERT_OK(offsets.status());
  EXPECT_EQ(offsets->high_watermark, 13);
  EXPECT_EQ(offsets->stable, 13);
  ReadOptions committed;
  committed.read_committed = true;
  auto read = ReadPartition(standby_->bootstrap(), topic, 0, committed);
  ASSERT_OK(read.status());
  EXPECT_EQ(read->records.size(), 3u);
  EXPECT_EQ(read->next_offset, 13);
  EXPECT_EQ(ReadPartition(standby_->bootstrap(), topic, 0)->records.size(), 8u);
  EXPECT_EQ(Producers(topic), 0u);
  const std::string dump = DumpOf(topic);
  EXPECT_TRUE(std::regex_search(dump, std::regex("offset: 10[^\\n]*endTxnMarker: ABORT"))) << dump;
  EXPECT_TRUE(std::regex_search(dump, std::regex("offset: 11[^\\n]*endTxnMarker: ABORT"))) << dump;
  EXPECT_TRUE(
      std::regex_search(dump, std::regex("offset: 12[^\\n]*(isControl: true|UNKNOWN|controlType)")))
      << dump;
}

TEST_F(MirrorStop, S48NothingArrivesAfterAStopAndS62AStartAgainBringsItBack) {
  const std::string topic = UniqueName("s48");
  ASSERT_OK(admin_->CreateTopic(topic));
  Send(topic, Numbered(10));
  Mirror({topic});
  ASSERT_OK(standby_->AwaitCaughtUp(topic, 10));
  ASSERT_OK(standby_->Run({"stop", "m", "--topics", topic, "--wait", "30"}));
  auto local = Producer::Connect(standby_->bootstrap());
  ASSERT_OK(local.status());
  ASSERT_OK(local->SendNumbered(topic, 0, 3, 1000).status());  // 11-13
  Send(topic, Numbered(4, 10));
  EXPECT_EQ(FetchOffsets(standby_->bootstrap(), topic, 0)->high_watermark, 14)
      << "10 data, reset, 3 local";
  ASSERT_OK(standby_->Run({"start", "m", "--topics", topic, "--wait", "60"}));
  ExpectBytesEqual(topic);
  auto read = ReadPartition(standby_->bootstrap(), topic, 0);
  ASSERT_OK(read.status());
  EXPECT_EQ(read->records.size(), 14u);
  for (const RawBatch& batch : OurBatches(topic)) EXPECT_FALSE(batch.IsControl());
  // And a second failover of the same topic works.
  ASSERT_OK(standby_->Run({"stop", "m", "--topics", topic, "--wait", "30"}));
  EXPECT_EQ(OurBatches(topic).back().ControlType(), 7);
}

TEST_F(MirrorStop, S55TwoStopsAtOnceMakeOneResetAndOneAbort) {
  const std::string topic = UniqueName("s55");
  ASSERT_OK(admin_->CreateTopic(topic));
  auto open = OpenTransaction("open", topic, 2);
  ASSERT_OK(open.status());
  Mirror({topic});
  ASSERT_OK(standby_->AwaitCaughtUp(topic, 2));
  protocol::StopMirrorTopicsRequest request;
  request.mirror_name = "m";
  request.topics.push_back({topic});
  auto first = WireClient::Connect(standby_->bootstrap()),
       second = WireClient::Connect(standby_->bootstrap());
  ASSERT_OK(first.status());
  ASSERT_OK(second.status());
  for (auto* client : {&first, &second}) {
    protocol::Writer writer;
    ASSERT_OK(protocol::EncodeRequestFrame(request, 0, 1, "test", writer));
    ASSERT_OK((*client)->SendBytes(writer.Flatten()));
  }
  for (auto* client : {&first, &second}) {
    auto frame = (*client)->ReceiveFrame();
    ASSERT_OK(frame.status());
    protocol::StopMirrorTopicsResponse response;
    int32_t id = 0;
    ASSERT_OK(protocol::DecodeResponseFrame(*frame, 0, &id, &response));
    EXPECT_EQ(response.error_code, 0);
    ASSERT_EQ(response.topics.size(), 1u);
    EXPECT_TRUE(response.topics[0].error_code == 0 || response.topics[0].error_code == 145);
  }
  ASSERT_OK(standby_->AwaitState(topic, "STOPPED"));
  const auto tail = From(OurBatches(topic), 2);
  ASSERT_EQ(tail.size(), 2u);
  EXPECT_EQ(tail[0].ControlType(), 0);
  EXPECT_EQ(tail[1].ControlType(), 7);
}

protocol::ProduceResponse Produce(
    const std::string& bootstrap, const std::string& topic, std::vector<uint8_t> batch,
    int16_t acks, int16_t version,
    const std::optional<std::string>& transactional_id = std::nullopt) {
  auto client = WireClient::Connect(bootstrap);
  EXPECT_OK(client.status());
  protocol::ProduceRequest request;
  request.transactional_id = transactional_id;
  request.acks = acks;
  request.timeout_ms = 5000;
  auto& t = request.topic_data.emplace_back();
  t.name = topic;
  auto& p = t.partition_data.emplace_back();
  p.index = 0;
  p.records = protocol::RecordsView(batch);
  auto response = client->Call<protocol::ProduceResponse>(request, version);
  EXPECT_OK(response.status());
  return response.ok() ? *response : protocol::ProduceResponse();
}

TEST_F(MirrorStop, S39AndS101EveryProducerReadsTheReadOnlyErrorAndNothingIsAppended) {
  const std::string topic = UniqueName("s39");
  ASSERT_OK(admin_->CreateTopic(topic));
  // A mirrored producer with an epoch, whose batches serve as raw frames below.
  Producer::Options idempotent;
  idempotent.idempotent = true;
  Send(topic, Numbered(5), idempotent);
  auto open = OpenTransaction("open", topic, 1);
  ASSERT_OK(open.status());
  ASSERT_OK(open->Commit());
  AwaitSourceEnd(topic, 7);
  Mirror({topic});
  ASSERT_OK(standby_->AwaitCaughtUp(topic, 7));
  const auto batches = OurBatches(topic);
  const int64_t end = batches.back().last_offset + 1;
  const auto plain_row = batches[0];
  std::vector<uint8_t> transactional;
  for (const RawBatch& batch : batches) {
    if ((batch.attributes & 0x30) == 0x10) transactional = batch.bytes;
  }
  ASSERT_FALSE(transactional.empty());
  for (const char* state : {"MIRRORING", "PAUSED"}) {
    if (std::string(state) == "PAUSED") {
      ASSERT_OK(standby_->Run({"pause", "m", "--topics", topic, "--wait", "30"}));
    }
    for (int16_t acks : {1, -1}) {
      auto response = Produce(standby_->bootstrap(), topic, plain_row.bytes, acks, 9);
      ASSERT_EQ(response.responses.size(), 1u);
      const auto& p = response.responses[0].partition_responses[0];
      EXPECT_EQ(p.error_code, 42) << state;
      ASSERT_TRUE(p.error_message.has_value());
      EXPECT_TRUE(p.error_message->starts_with("READ_ONLY_TOPIC:")) << *p.error_message;
      EXPECT_NE(p.error_message->find(topic), std::string::npos);
      EXPECT_NE(p.error_message->find("m"), std::string::npos);
    }
    // S101: the same producer id and epoch as a mirrored one, in a transaction: read-only comes
    // first.
    auto response = Produce(standby_->bootstrap(), topic, transactional, -1, 9, "some-id");
    ASSERT_EQ(response.responses.size(), 1u);
    EXPECT_EQ(response.responses[0].partition_responses[0].error_code, 42) << state;
    EXPECT_EQ(FetchOffsets(standby_->bootstrap(), topic, 0)->high_watermark, end) << state;
  }
  // acks 0 has no answer; the log does not move either.
  {
    Producer::Options fire;
    fire.acks = "0";
    auto producer = Producer::Connect(standby_->bootstrap(), fire);
    ASSERT_OK(producer.status());
    (void)producer->SendNumbered(topic, 0, 3);
    // Another exchange with the broker, after which the lost records would be there.
    EXPECT_EQ(FetchOffsets(standby_->bootstrap(), topic, 0)->high_watermark, end);
  }
  ASSERT_OK(standby_->Run({"stop", "m", "--topics", topic, "--wait", "30"}));
  for (const char* acks : {"0", "1", "all"}) {
    Producer::Options options;
    options.acks = acks;
    auto producer = Producer::Connect(standby_->bootstrap(), options);
    ASSERT_OK(producer.status());
    ASSERT_OK(producer->SendNumbered(topic, 0, 1).status());
  }
  ASSERT_TRUE(WaitUntil(
      [&] { return FetchOffsets(standby_->bootstrap(), topic, 0)->high_watermark == end + 4; }));
}

TEST_F(MirrorStop, S16TheOwnershipConfigCannotBeSetByHand) {
  const std::string topic = UniqueName("s16");
  ASSERT_OK(admin_->CreateTopic(topic));
  Send(topic, Numbered(3));
  Mirror({topic});
  for (const std::vector<std::string>& change :
       {std::vector<std::string>{"--add-config", "mirror.name=other"},
        std::vector<std::string>{"--delete-config", "mirror.name"}}) {
    std::vector<std::string> args = {"--bootstrap-server", standby_->bootstrap(), "--alter",
                                     "--topic", topic};
    args.insert(args.end(), change.begin(), change.end());
    auto result = KafkaTool("configs", args);
    EXPECT_FALSE(result.ok()) << *result;
  }
  auto described = KafkaTool("configs", {"--bootstrap-server", standby_->bootstrap(), "--describe",
                                         "--all", "--topic", topic});
  ASSERT_OK(described.status());
  Send(topic, Numbered(3, 3));
  ExpectBytesEqual(topic);
  EXPECT_EQ(standby_->Row(topic)->state, "MIRRORING");
}

TEST_F(MirrorStop, S103CrashRecoveryWithoutSnapshotsKnowsOnlyWhatFollowsTheReset) {
  const std::string topic = UniqueName("s103");
  ASSERT_OK(admin_->CreateTopic(topic));
  Producer::Options idempotent;
  idempotent.idempotent = true;
  for (int i = 0; i < 4; ++i) Send(topic, Numbered(3, i * 3), idempotent);
  Mirror({topic});
  ASSERT_OK(standby_->AwaitCaughtUp(topic, 12));
  ASSERT_OK(standby_->Run({"stop", "m", "--topics", topic, "--wait", "30"}));
  auto producer = Producer::Connect(standby_->bootstrap(), idempotent);
  ASSERT_OK(producer.status());
  ASSERT_OK(producer->SendNumbered(topic, 0, 2).status());
  EXPECT_EQ(Producers(topic), 1u);
  standby_->Kill();
  for (const auto& file : std::filesystem::directory_iterator(standby_->PartitionDir(topic))) {
    const std::string extension = file.path().extension();
    if (extension == ".snapshot" || extension == ".index" || extension == ".timeindex") {
      std::filesystem::remove(file.path());
    }
  }
  ASSERT_OK(standby_->Restart());
  ASSERT_OK(standby_->AwaitState(topic, "STOPPED"));
  EXPECT_EQ(Producers(topic), 1u);
  ASSERT_OK(standby_->Stop());
  ASSERT_OK(standby_->Restart());
  EXPECT_EQ(Producers(topic), 1u) << "the snapshot written then agrees";
  ASSERT_OK(standby_->AwaitState(topic, "STOPPED"));
  DumpOf(topic);
}

// A source of its own: it dies.
class MirrorDeadSource : public MirrorFixture {
 protected:
  void SetUp() override { OwnSource(); }
};

TEST_F(MirrorDeadSource, S49AndS50AStopWorksWithTheSourceGoneAlsoAfterARestart) {
  const std::string first = UniqueName("s49"), second = UniqueName("s50");
  ASSERT_OK(admin_->CreateTopic(first));
  ASSERT_OK(admin_->CreateTopic(second));
  auto open = OpenTransaction("open", first, 2), other = OpenTransaction("other", second, 2);
  ASSERT_OK(open.status());
  ASSERT_OK(other.status());
  Mirror({first, second});
  ASSERT_OK(standby_->AwaitCaughtUp(first, 2));
  ASSERT_OK(standby_->AwaitCaughtUp(second, 2));
  ASSERT_OK(kafka_->Kill());
  // R10: unreachable is no failure. It shows, and nothing else happens.
  ASSERT_TRUE(WaitUntil([&] {
    const auto row = standby_->Row(first);
    return row.ok() && !row->error_message.empty();
  }));
  EXPECT_EQ(standby_->Row(first)->state, "MIRRORING");
  EXPECT_EQ(standby_->Row(first)->retry_attempt, 0);
  ASSERT_OK(standby_->Run({"stop", "m", "--topics", first, "--wait", "10"}));
  auto check = [&](const std::string& topic) {
    const auto tail = From(OurBatches(topic), 2);
    ASSERT_EQ(tail.size(), 2u);
    EXPECT_EQ(tail[0].ControlType(), 0);
    EXPECT_EQ(tail[1].ControlType(), 7);
    auto producer = Producer::Connect(standby_->bootstrap());
    ASSERT_OK(producer.status());
    ASSERT_OK(producer->SendNumbered(topic, 0, 1).status());
  };
  check(first);
  standby_->Kill();
  ASSERT_OK(standby_->Restart());
  ASSERT_OK(standby_->Run({"stop", "m", "--topics", second, "--wait", "20"}));
  check(second);
  ASSERT_OK(standby_->AwaitState(first, "STOPPED"));
  auto producer = Producer::Connect(standby_->bootstrap());
  ASSERT_OK(producer.status());
  ASSERT_OK(producer->SendNumbered(first, 0, 1).status());
}

}  // namespace
}  // namespace kmirror::test
