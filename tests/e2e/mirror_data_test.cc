// A real Kafka mirrored into kmirrord, byte for byte (scenarios S02, S18 to S22, S25, S26, S43,
// S100).
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>

#include "tests/e2e/mirror_fixture.h"

namespace kmirror::test {
namespace {

class MirrorData : public MirrorFixture {
 protected:
  void SetUp() override { UseSharedSource(); }
};

TEST_F(MirrorData, S02AndS100AStartOfThreePartitionsGoesStraightToMirroring) {
  const std::string topic = UniqueName("s02");
  ASSERT_OK(admin_->CreateTopic(topic, 3));
  for (int p = 0; p < 3; ++p) Send(topic, Numbered(50), Producer::Options(), p);
  Mirror({topic});
  for (int p = 0; p < 3; ++p) {
    ExpectBytesEqual(topic, p);
    // Each partition passes only through PREPARING, optionally EPOCH_FENCING, then MIRRORING; never
    // FAILED.
    std::vector<std::string> states = standby_->States(topic, p);
    std::erase(states, "EPOCH_FENCING");
    EXPECT_EQ(states, (std::vector<std::string>{"PREPARING", "MIRRORING"})) << p;
    auto read = ReadPartition(standby_->bootstrap(), topic, p);
    ASSERT_OK(read.status());
    EXPECT_EQ(read->records.size(), 50u);
  }
  auto ours = AdminClient::Connect(standby_->bootstrap());
  ASSERT_OK(ours.status());
  auto topics = ours->Topics();
  ASSERT_OK(topics.status());
  for (const auto& t : *topics) {
    if (t.name == topic) {
      EXPECT_EQ(t.leaders.size(), 3u);
    }
  }
}

TEST_F(MirrorData, S100AStartOfManyTopicsNeverShowsFailed) {
  constexpr int kPartitions = 5;
  std::vector<std::string> topics;
  for (int i = 0; i < 20; ++i) {
    topics.push_back(UniqueName("s100"));
    ASSERT_OK(admin_->CreateTopic(topics.back(), kPartitions));
    Send(topics.back(), Numbered(3), Producer::Options(), i % kPartitions);
  }
  Mirror(topics);
  for (size_t i = 0; i < topics.size(); ++i) {
    for (int p = 0; p < kPartitions; ++p) {
      std::vector<std::string> states = standby_->States(topics[i], p);
      std::erase(states, "EPOCH_FENCING");
      EXPECT_EQ(states, (std::vector<std::string>{"PREPARING", "MIRRORING"})) << topics[i] << p;
    }
    ExpectBytesEqual(topics[i], static_cast<int>(i) % kPartitions);
  }
}

TEST_F(MirrorData, S18EveryCodecArrivesAsItWasSent) {
  std::vector<std::string> topics;
  const std::vector<std::string> codecs = {"none", "gzip", "snappy", "lz4", "zstd"};
  for (const std::string& codec : codecs) {
    topics.push_back(UniqueName("s18-" + codec));
    ASSERT_OK(admin_->CreateTopic(topics.back()));
    Producer::Options options;
    options.codec = codec;
    int sent = 0;
    for (int size : {1, 7, 50, 1, 7, 50, 84}) {
      options.batch_records_max = size;
      Send(topics.back(), Numbered(size, sent), options);
      sent += size;
    }
  }
  topics.push_back(UniqueName("s18-rotate"));
  ASSERT_OK(admin_->CreateTopic(topics.back()));
  // Long enough that every codec makes them smaller: librdkafka sends the rest as they are.
  for (int batch = 0; batch < 40; ++batch) {
    Producer::Options options;
    options.codec = codecs[static_cast<size_t>(batch) % codecs.size()];
    std::vector<ClientRecord> records = Numbered(5, batch * 5);
    for (ClientRecord& record : records) record.value = std::string(400, 'v');
    Send(topics.back(), records, options);
  }
  Mirror(topics);
  for (size_t i = 0; i < topics.size(); ++i) {
    ExpectBytesEqual(topics[i]);
    auto read = ReadPartition(standby_->bootstrap(), topics[i], 0);
    ASSERT_OK(read.status());
    EXPECT_EQ(read->records.size(), 200u) << topics[i];
  }
  // The rotation really has all five codecs, in the order of A.
  auto ours = ReadSegments(standby_->PartitionDir(topics.back()));
  ASSERT_OK(ours.status());
  std::set<int> seen;
  for (const RawBatch& batch : *ours) seen.insert(batch.Codec());
  EXPECT_EQ(seen, (std::set<int>{0, 1, 2, 3, 4}));
}

TEST_F(MirrorData, S19RecordCornersReadTheSameOnBothSides) {
  const std::string topic = UniqueName("s19");
  ASSERT_OK(admin_->CreateTopic(topic));
  std::vector<ClientRecord> records = {
      {std::nullopt, "no key", {}},
      {"no value", std::nullopt, {}},
      {"", "empty key", {}},
      {"empty value", "", {}},
      {"headers", "three", {{"h", "1"}, {"h", "2"}, {"h", std::nullopt}}},
      {"tiny", "x", {}},
      {"big", std::string(100 * 1024, 'b'), {}},
  };
  for (size_t i = 0; i < records.size(); ++i)
    records[i].timestamp_ms = 1700000000000 + 1000 * static_cast<int64_t>(i);
  Send(topic, records);
  Mirror({topic});
  ExpectBytesEqual(topic);
  auto theirs = ReadPartition(source_, topic, 0);
  auto ours = ReadPartition(standby_->bootstrap(), topic, 0);
  ASSERT_OK(theirs.status());
  ASSERT_OK(ours.status());
  EXPECT_EQ(ours->records, theirs->records);
  EXPECT_EQ(ours->records.size(), records.size());
}

TEST_F(MirrorData, S20LookUpsAnswerAsTheSourceDoes) {
  const std::string topic = UniqueName("s20");
  ASSERT_OK(admin_->CreateTopic(topic));
  const int64_t now = 1764480000000;  // out of order, one a day ahead, one ten years back
  std::vector<int64_t> stamps = {
      now, now + 5000, now - 3000, now + 86400000, now - 315360000000, now + 100, now + 90};
  for (int64_t stamp : stamps) Send(topic, {{"k", "v", {}, stamp}});
  Producer::Options gzip;
  gzip.codec = "gzip";
  Send(topic, {{"a", "1", {}, now + 200}, {"b", "2", {}, now + 400}, {"c", "3", {}, now + 300}},
       gzip);
  Mirror({topic});
  ExpectBytesEqual(topic);
  auto a = WireClient::Connect(source_);
  auto b = WireClient::Connect(standby_->bootstrap());
  ASSERT_OK(a.status());
  ASSERT_OK(b.status());
  std::vector<int64_t> asked = {-1, -2, -3, 0, now - 400000000000};
  for (int64_t stamp : stamps) asked.insert(asked.end(), {stamp - 1, stamp, stamp + 1});
  asked.insert(asked.end(),
               {now + 250, now + 300, now + 350, now + 400, now + 401, now + 864000000});
  for (int64_t stamp : asked) {
    for (int8_t isolation : {0, 1}) {
      const auto theirs = ListOffset(*a, topic, 0, stamp, isolation);
      const auto ours = ListOffset(*b, topic, 0, stamp, isolation);
      ASSERT_OK(theirs.status());
      ASSERT_OK(ours.status());
      EXPECT_EQ(ours->error, theirs->error) << stamp;
      EXPECT_EQ(ours->offset, theirs->offset) << stamp << " isolation " << int{isolation};
      EXPECT_EQ(ours->timestamp, theirs->timestamp) << stamp;
    }
  }
  // Epochs: the one that occurs, none between, and one far above.
  for (int32_t epoch : {0, 1000}) {
    const auto theirs = EpochEnd(*a, topic, 0, epoch);
    const auto ours = EpochEnd(*b, topic, 0, epoch);
    ASSERT_OK(theirs.status());
    ASSERT_OK(ours.status());
    EXPECT_EQ(*ours, *theirs) << epoch;
  }
}

TEST_F(MirrorData, S21ABatchLargerThanEveryLimitIsTakenWhole) {
  const std::string topic = UniqueName("s21");
  ASSERT_OK(admin_->CreateTopic(topic, 1, {{"max.message.bytes", "12000000"}}));
  Producer::Options big;
  big.more = {{"message.max.bytes", "12000000"}};
  Send(topic, Numbered(3));
  Send(topic, {{"big", std::string(900 * 1024, 'x'), {}}}, big);
  Send(topic, Numbered(3));
  Send(topic, {{"huge", std::string(8 << 20, 'y'), {}}}, big);
  Send(topic, Numbered(3));
  Mirror({topic}, {"fetch.max.bytes=65536", "fetch.response.max.bytes=65536"});
  ExpectBytesEqual(topic);
}

TEST_F(MirrorData, S22DifferentSegmentSizesServeTheSameBatches) {
  const std::string topic = UniqueName("s22");
  ASSERT_OK(admin_->CreateTopic(topic, 1, {{"segment.bytes", "4194304"}}));
  Standby::Options options;
  options.properties["log.segment.bytes"] = "1048576";
  StartStandby(options);
  std::vector<ClientRecord> records;
  for (int i = 0; i < 5000; ++i)
    records.push_back({"k" + std::to_string(i), std::string(4000, 'a' + i % 26), {}});
  Producer::Options producer;
  producer.batch_bytes_max = 60000;
  Send(topic, records, producer);
  Mirror({topic});
  ExpectBytesEqual(topic);
  EXPECT_GE(SegmentBases(standby_->PartitionDir(topic)).size(), 19u);
  auto theirs = FetchBatches(source_, topic, 0);
  ASSERT_OK(theirs.status());
  auto check = [&] {
    for (int i = 0; i < 20; ++i) {
      const int64_t offset = (i * 2503 + 17) % 5000;
      auto ours = FetchBatches(standby_->bootstrap(), topic, 0, offset);
      ASSERT_OK(ours.status());
      // Each fetch starts with the batch that contains the offset.
      ASSERT_FALSE(ours->empty());
      EXPECT_LE(ours->front().base_offset, offset);
      EXPECT_GE(ours->front().last_offset, offset);
    }
  };
  check();
  // The same after a restart that rebuilds the indexes.
  standby_->Kill();
  for (const auto& file : std::filesystem::directory_iterator(standby_->PartitionDir(topic))) {
    const auto extension = file.path().extension();
    if (extension == ".index" || extension == ".timeindex") std::filesystem::remove(file.path());
  }
  ASSERT_OK(standby_->Restart());
  ASSERT_OK(standby_->AwaitCaughtUp(topic, 5000));
  check();
  ExpectBytesEqual(topic);
}

TEST_F(MirrorData, S25AnIdempotentProducerIsMirroredFromTheMiddleOfItsSequence) {
  const std::string topic = UniqueName("s25");
  ASSERT_OK(admin_->CreateTopic(topic));
  Producer::Options options;
  options.idempotent = true;
  options.batch_records_max = 50;
  Send(topic, Numbered(1000), options);
  ASSERT_OK(admin_->DeleteRecords(topic, 0, 500));
  Mirror({topic});
  ExpectBytesEqual(topic, 0, 500);
  auto ours = ReadSegments(standby_->PartitionDir(topic));
  ASSERT_OK(ours.status());
  ASSERT_FALSE(ours->empty());
  EXPECT_GE(ours->front().producer_id, 0);
  EXPECT_GT(ours->front().base_sequence, 0) << "begins in the middle";
}

TEST_F(MirrorData, S26TransactionsReadTheSameWhileMirroringRuns) {
  const std::string topic = UniqueName("s26");
  ASSERT_OK(admin_->CreateTopic(topic));
  auto p1 = OpenTransaction("p1", topic, 3);
  ASSERT_OK(p1.status());
  ASSERT_OK(p1->Commit());
  AwaitSourceEnd(topic, 4);
  auto p2 = OpenTransaction("p2", topic, 2);
  ASSERT_OK(p2.status());
  ASSERT_OK(p2->Abort());
  AwaitSourceEnd(topic, 7);
  auto p3 = OpenTransaction("p3", topic, 2);
  ASSERT_OK(p3.status());
  Mirror({topic});
  ExpectBytesEqual(topic);
  for (const std::string& side : {source_, standby_->bootstrap()}) {
    auto offsets = FetchOffsets(side, topic, 0);
    ASSERT_OK(offsets.status());
    EXPECT_EQ(offsets->high_watermark, 9);
    EXPECT_EQ(offsets->stable, 7);
    ReadOptions committed;
    committed.read_committed = true;
    auto read = ReadPartition(side, topic, 0, committed);
    ASSERT_OK(read.status());
    std::vector<int64_t> visible;
    for (const ClientRecord& record : read->records) visible.push_back(record.offset);
    EXPECT_EQ(visible, (std::vector<int64_t>{0, 1, 2}));
    auto all = ReadPartition(side, topic, 0);
    ASSERT_OK(all.status());
    EXPECT_EQ(all->records.size(), 7u);
  }
  ASSERT_OK(p3->Commit());
  // 300 alternating single-record batches of three transactional and one plain producer.
  auto plain = Producer::Connect(source_);
  ASSERT_OK(plain.status());
  Result<Producer>* turn[] = {&p1, &p2, &p3};
  for (int round = 0; round < 25; ++round) {
    for (auto* producer : turn) ASSERT_OK((*producer)->Begin());
    for (int i = 0; i < 3; ++i) {
      for (auto* producer : turn) ASSERT_OK((*producer)->SendNumbered(topic, 0, 1).status());
      ASSERT_OK(plain->SendNumbered(topic, 0, 1).status());
    }
    for (int i = 0; i < 3; ++i) {
      ASSERT_OK((round + i) % 3 == 0 ? (*turn[i])->Abort() : (*turn[i])->Commit());
    }
  }
  ExpectBytesEqual(topic);
  ASSERT_TRUE(WaitUntil([&] {
    const auto offsets = FetchOffsets(source_, topic, 0);
    return offsets.ok() && offsets->stable == offsets->high_watermark;
  }));
  ExpectBytesEqual(topic);
  ReadOptions committed;
  committed.read_committed = true;
  auto theirs = ReadPartition(source_, topic, 0, committed);
  auto ours = ReadPartition(standby_->bootstrap(), topic, 0, committed);
  ASSERT_OK(theirs.status());
  ASSERT_OK(ours.status());
  EXPECT_EQ(ours->records, theirs->records);
  EXPECT_EQ(FetchOffsets(standby_->bootstrap(), topic, 0)->stable,
            FetchOffsets(source_, topic, 0)->stable);

  // What readers are told to skip, from every offset: as the source tells it, and as a scan of the
  // markers finds it.
  auto at_source = WireClient::Connect(source_);
  auto at_standby = WireClient::Connect(standby_->bootstrap());
  ASSERT_OK(at_source.status());
  ASSERT_OK(at_standby.status());
  const auto batches = OurBatches(topic);
  struct Aborted {
    int64_t first, producer, marker;
  };
  std::vector<Aborted> scanned;
  std::map<int64_t, int64_t> open;  // producer, first offset
  for (const RawBatch& batch : batches) {
    if (!batch.IsControl()) {
      if ((batch.attributes & 0x10) != 0) open.try_emplace(batch.producer_id, batch.base_offset);
    } else if (const auto it = open.find(batch.producer_id); it != open.end()) {
      if (batch.ControlType() == 0) {
        scanned.push_back({it->second, batch.producer_id, batch.base_offset});
      }
      open.erase(it);
    }
  }
  EXPECT_GE(scanned.size(), 20u);
  for (const RawBatch& batch : batches) {
    auto theirs = FetchAborted(*at_source, topic, 0, batch.base_offset);
    auto ours = FetchAborted(*at_standby, topic, 0, batch.base_offset);
    ASSERT_OK(theirs.status());
    ASSERT_OK(ours.status());
    AbortedList expected;
    for (const Aborted& txn : scanned) {
      if (txn.marker >= batch.base_offset) expected.emplace_back(txn.first, txn.producer);
    }
    for (AbortedList* list : {&*theirs, &*ours, &expected}) std::sort(list->begin(), list->end());
    EXPECT_EQ(*ours, *theirs) << batch.base_offset;
    EXPECT_EQ(*ours, expected) << batch.base_offset;
  }
}

TEST_F(MirrorData, S43PauseHoldsAndResumeGoesOnWithoutTouchingTheRest) {
  const std::string topic = UniqueName("s43"), other = UniqueName("s43-other");
  ASSERT_OK(admin_->CreateTopic(topic));
  ASSERT_OK(admin_->CreateTopic(other));
  Send(topic, Numbered(3));
  Mirror({topic, other});
  ASSERT_OK(standby_->AwaitCaughtUp(topic, 3));
  ASSERT_OK(standby_->Run({"pause", "m", "--topics", topic, "--wait", "30"}));
  Send(topic, Numbered(1, 3));
  Send(other, Numbered(5));
  ASSERT_OK(standby_->AwaitCaughtUp(other, 5));
  auto held = ReadPartition(standby_->bootstrap(), topic, 0);
  ASSERT_OK(held.status());
  EXPECT_EQ(held->records.size(), 3u);
  Producer::Options quick;
  quick.more = {{"message.timeout.ms", "5000"}};
  auto producer = Producer::Connect(standby_->bootstrap(), quick);
  ASSERT_OK(producer.status());
  EXPECT_FALSE(producer->SendNumbered(topic, 0, 1).ok());
  ASSERT_OK(standby_->Run({"resume", "m", "--topics", topic, "--wait", "30"}));
  ExpectBytesEqual(topic);
  std::vector<std::string> states = standby_->States(topic);
  std::erase(states, "EPOCH_FENCING");
  EXPECT_EQ(states,
            (std::vector<std::string>{"PREPARING", "MIRRORING", "PAUSING", "PAUSED", "MIRRORING"}));
  std::vector<std::string> rest = standby_->States(other);
  std::erase(rest, "EPOCH_FENCING");
  EXPECT_EQ(rest, (std::vector<std::string>{"PREPARING", "MIRRORING"}));
}

}  // namespace
}  // namespace kmirror::test
