// One partition that cannot be written among others that can: its attempts end, an operator's
// recover begins anew (S70), and it does not stand in the way of a stop (S96).
#include <gtest/gtest.h>

#include "tests/e2e/faulty_source_fixture.h"
#include "tests/e2e/mount.h"

namespace kmirror::test {
namespace {

class FailedPartition : public FaultySource {
 protected:
  static constexpr int kPartitions = 4;

  void SetUp() override {
    if (!MayMount()) GTEST_SKIP() << "mounting needs root";
    bad_ = std::make_unique<ProxiedSource>();
    source_ = bad_->direct();
    Standby::Options options;
    options.properties["log.segment.bytes"] = "1048576";
    options.properties["mirror.failed.retry.max.attempts"] = "3";
    StartStandby(options);
    bad_->CreateTopic("t", kPartitions);
    for (int p = 0; p < kPartitions; ++p) end_[p] = bad_->Append("t", 60, p);
    StartMirror("m", *bad_, "t");
  }

  // Partition 0 becomes FAILED for good; the others have got more meanwhile.
  void UseUpAttempts(Mount& over) {
    ASSERT_OK(over.Tmpfs("64k"));
    ASSERT_OK(over.ReadOnly());
    // What is open can still be written; the next segment cannot be made.
    for (int i = 0; i < 30; ++i) end_[0] = bad_->Append("t", 100 * 1024, 0);
    ASSERT_TRUE(WaitUntil([&] {
      const auto row = standby_->Row("t", 0);
      return row.ok() && row->state == "FAILED" && row->retry_attempt == 3;
    })) << standby_->Log();
    for (int p = 1; p < kPartitions; ++p) end_[p] = bad_->Append("t", 60, p);
    for (int p = 1; p < kPartitions; ++p) {
      ASSERT_TRUE(WaitUntil([&] { return StandbyEnd("t", p) == end_[p]; })) << p;
    }
  }
  void ExpectOthersNeverStopped() {
    for (int p = 1; p < kPartitions; ++p) {
      std::vector<std::string> states = standby_->States("t", p);
      std::erase(states, "EPOCH_FENCING");
      EXPECT_EQ(states, (std::vector<std::string>{"PREPARING", "MIRRORING"})) << p;
    }
  }

  int64_t end_[kPartitions] = {};
};

TEST_F(FailedPartition, S70AfterTheLastAttemptItWaitsForTheOperator) {
  {
    Mount over(standby_->PartitionDir("t", 0));
    UseUpAttempts(over);
  }
  // The folder can be written again. Nothing happens by itself: other partitions show that time
  // goes by, and two refreshes of the source change nothing either.
  ASSERT_OK(standby_->AwaitRefreshes(2));
  const auto row = standby_->Row("t", 0);
  ASSERT_OK(row.status());
  EXPECT_EQ(row->state, "FAILED");
  EXPECT_EQ(row->retry_attempt, 3);
  EXPECT_NE(row->error_message.find("writing to the log failed"), std::string::npos)
      << row->error_message;
  ASSERT_OK(standby_->Run({"recover", "m", "--topics", "t", "--wait", "30"}));
  ASSERT_OK(standby_->AwaitCaughtUp("t", end_[0], 0));
  EXPECT_EQ(standby_->Row("t", 0)->retry_attempt, 0);
  for (int p = 0; p < kPartitions; ++p) ExpectBytesEqual("t", p);
  ExpectOthersNeverStopped();
}

TEST_F(FailedPartition, S96ItDoesNotBlockTheStopOfTheOthers) {
  {
    Mount over(standby_->PartitionDir("t", 0));
    UseUpAttempts(over);
  }
  const int64_t kept = StandbyEnd("t", 0);
  EXPECT_LT(kept, end_[0]);
  ExpectOthersNeverStopped();
  ASSERT_OK(standby_->Run({"stop", "m", "--topics", "t", "--wait", "30"}));
  auto producer = Producer::Connect(standby_->bootstrap());
  ASSERT_OK(producer.status());
  for (int p = 0; p < kPartitions; ++p) {
    EXPECT_EQ(standby_->Row("t", p)->state, "STOPPED");
    auto offsets = producer->SendNumbered("t", p, 1);
    ASSERT_OK(offsets.status());
    EXPECT_EQ((*offsets)[0], (p == 0 ? kept : end_[p]) + 1) << "what it has, and the reset";
  }
}

}  // namespace
}  // namespace kmirror::test
