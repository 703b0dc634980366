// Leader epochs, log starts, growth (scenarios S23, S24, S30, S31, S33, S36, S69) with a source of
// the test's own, because it is restarted.
#include <gtest/gtest.h>

#include "tests/e2e/mirror_fixture.h"

namespace kmirror::test {
namespace {

class MirrorEpochs : public MirrorFixture {};

TEST_F(MirrorEpochs, S23S24AndS69EpochsAreKeptAndTheDestinationStaysAheadThroughRestarts) {
  OwnSource();
  const std::string topic = UniqueName("s23");
  ASSERT_OK(admin_->CreateTopic(topic));
  Send(topic, Numbered(10));
  // Three restarts before the mirror: epochs 0, 2, 4, 6, one of them without a record.
  for (int i = 1; i <= 3; ++i) {
    ASSERT_OK(kafka_->Stop());
    ASSERT_OK(kafka_->Restart());
    if (i != 2) Send(topic, Numbered(10, i * 10));
  }
  Mirror({topic});
  ExpectBytesEqual(topic);
  auto compare = [&] {
    auto a = WireClient::Connect(source_);
    auto b = WireClient::Connect(standby_->bootstrap());
    ASSERT_OK(a.status());
    ASSERT_OK(b.status());
    const auto batches = OurBatches(topic);
    for (int32_t epoch = batches.front().leader_epoch; epoch <= batches.back().leader_epoch;
         ++epoch) {
      const auto theirs = EpochEnd(*a, topic, 0, epoch);
      const auto ours = EpochEnd(*b, topic, 0, epoch);
      ASSERT_OK(theirs.status());
      ASSERT_OK(ours.status());
      EXPECT_EQ(*ours, *theirs) << "epoch " << epoch;
    }
  };
  compare();
  // While it mirrors: the source goes down and comes back with a higher epoch, twice, once by
  // SIGKILL.
  for (int i = 4; i <= 5; ++i) {
    ASSERT_OK(i == 4 ? kafka_->Stop() : kafka_->Kill());
    ASSERT_OK(kafka_->Restart());
    Send(topic, Numbered(10, i * 10));
    ExpectBytesEqual(topic);
  }
  compare();
  for (const std::string& state : standby_->States(topic)) EXPECT_NE(state, "FAILED");
  // D6: the partition's own epoch is above every epoch in its log.
  ASSERT_OK(standby_->Run({"stop", "m", "--topics", topic, "--wait", "30"}));
  const auto batches = OurBatches(topic);
  EXPECT_GT(batches.back().leader_epoch, batches[batches.size() - 2].leader_epoch);
}

TEST_F(MirrorEpochs, S30AndS31TheLogStartFollowsTheSource) {
  UseSharedSource();
  const std::string topic = UniqueName("s30");
  ASSERT_OK(admin_->CreateTopic(topic));
  Producer::Options batches;
  batches.batch_records_max = 100;
  batches.linger_ms = 50;
  for (int i = 0; i < 25; ++i) Send(topic, Numbered(100, i * 100), batches);
  ASSERT_OK(admin_->DeleteRecords(topic, 0, 1000));
  Mirror({topic});
  ASSERT_OK(standby_->AwaitCaughtUp(topic, 2500));
  auto start = [&] {
    auto offsets = FetchOffsets(standby_->bootstrap(), topic, 0);
    EXPECT_OK(offsets.status());
    return offsets->start;
  };
  EXPECT_EQ(start(), 1000);
  EXPECT_EQ(FetchBatches(standby_->bootstrap(), topic, 0, 0).status().code(),
            ErrorCode::kOffsetOutOfRange);
  ExpectBytesEqual(topic, 0, 1000);
  // S31: no new record on the source, the start still follows.
  for (int64_t trim : {1200, 1500, 2500}) {
    ASSERT_OK(admin_->DeleteRecords(topic, 0, trim));
    ASSERT_TRUE(WaitUntil([&] { return start() == trim; })) << trim << " is " << start();
  }
  Send(topic, Numbered(1));
  ASSERT_OK(standby_->AwaitCaughtUp(topic, 2501));
  ExpectBytesEqual(topic, 0, 2500);
}

TEST_F(MirrorEpochs, S33RetentionThatOvertakesAPausedMirrorIsReportedOnce) {
  UseSharedSource();
  const std::string topic = UniqueName("s33");
  ASSERT_OK(admin_->CreateTopic(topic));
  Producer::Options batches;
  batches.batch_records_max = 100;
  batches.linger_ms = 50;
  Send(topic, Numbered(100), batches);
  Mirror({topic});
  ASSERT_OK(standby_->AwaitCaughtUp(topic, 100));
  ASSERT_OK(standby_->Run({"pause", "m", "--topics", topic, "--wait", "30"}));
  for (int i = 1; i < 5; ++i) Send(topic, Numbered(100, i * 100), batches);
  ASSERT_OK(admin_->DeleteRecords(topic, 0, 300));
  ASSERT_OK(standby_->Run({"resume", "m", "--topics", topic, "--wait", "30"}));
  ExpectBytesEqual(topic, 0, 300);
  EXPECT_EQ(FetchOffsets(standby_->bootstrap(), topic, 0)->start, 300);
  const std::string log = standby_->Log();
  size_t gaps = 0;
  for (size_t at = log.find("event=gap"); at != std::string::npos;
       at = log.find("event=gap", at + 1))
    ++gaps;
  EXPECT_EQ(gaps, 1u) << log;
  EXPECT_NE(log.find("lost=[100, 300)"), std::string::npos);
}

TEST_F(MirrorEpochs, S36PartitionsGrowWithTheSourceUnlessPausedOrStopped) {
  UseSharedSource();
  const std::string topic = UniqueName("s36");
  ASSERT_OK(admin_->CreateTopic(topic, 3));
  for (int p = 0; p < 3; ++p) Send(topic, Numbered(5), Producer::Options(), p);
  Mirror({topic});
  auto count = [&]() -> size_t {
    auto ours = AdminClient::Connect(standby_->bootstrap());
    EXPECT_OK(ours.status());
    auto topics = ours->Topics();
    EXPECT_OK(topics.status());
    for (const auto& t : *topics) {
      if (t.name == topic) return t.leaders.size();
    }
    return 0;
  };
  ASSERT_OK(admin_->CreatePartitions(topic, 5));
  for (int p = 0; p < 5; ++p) Send(topic, Numbered(5, 5), Producer::Options(), p);
  ASSERT_TRUE(WaitUntil([&] { return count() == 5; }));
  for (int p = 0; p < 5; ++p) ExpectBytesEqual(topic, p);
  // Paused: stays at 5 until resume. Another topic of the mirror shows that refreshes went by.
  ASSERT_OK(standby_->Run({"pause", "m", "--topics", topic, "--wait", "30"}));
  ASSERT_OK(admin_->CreatePartitions(topic, 6));
  const std::string witness = UniqueName("s36-witness");
  ASSERT_OK(admin_->CreateTopic(witness, 1));
  Mirror({witness});
  ASSERT_OK(admin_->CreatePartitions(witness, 2));
  ASSERT_OK(standby_->AwaitState(witness, "MIRRORING", 1));
  EXPECT_EQ(count(), 5u);
  ASSERT_OK(standby_->Run({"resume", "m", "--topics", topic, "--wait", "30"}));
  ASSERT_TRUE(WaitUntil([&] { return count() == 6; }));
  // Stopped: stays.
  ASSERT_OK(standby_->Run({"stop", "m", "--topics", topic, "--wait", "30"}));
  ASSERT_OK(admin_->CreatePartitions(topic, 7));
  ASSERT_OK(admin_->CreatePartitions(witness, 3));
  ASSERT_OK(standby_->AwaitState(witness, "MIRRORING", 2));
  EXPECT_EQ(count(), 6u);
}

}  // namespace
}  // namespace kmirror::test
