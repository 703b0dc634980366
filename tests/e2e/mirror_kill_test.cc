// kmirrord killed with -9 before and after each durable step of start, pause, resume and stop. What
// was acknowledged is there afterwards, and everything ends as if nothing had happened
// (coordinator.md 6.4, 13.6; R29). At random moments: mirror_kill_campaign_test.cc.
#include <gtest/gtest.h>

#include "src/coordinator/steps.h"
#include "tests/e2e/mirror_fixture.h"

namespace kmirror::test {
namespace {

struct KillPoint {
  std::string step;
  std::string when;  // "before" or "after"
};

void PrintTo(const KillPoint& point, std::ostream* out) { *out << point.step << ' ' << point.when; }

std::vector<KillPoint> KillPoints() {
  std::vector<KillPoint> points;
  for (const std::string_view step : coordinator::kDurableSteps) {
    for (const char* when : {"before", "after"}) points.push_back({std::string(step), when});
  }
  return points;
}

class MirrorKill : public MirrorFixture, public ::testing::WithParamInterface<KillPoint> {
 protected:
  // The step's own process: the next time it reaches the step it kills itself with SIGKILL.
  void RestartToDie() {
    ASSERT_OK(standby_->Stop());
    ASSERT_OK(
        standby_->Restart({{"KMIRROR_TEST_KILL_AT", GetParam().step + ":" + GetParam().when}}));
  }
  // Runs the command whose step kills; the process must die of it, else the step was never hit.
  void RunAndDie(std::vector<std::string> args) {
    args.back() = "1";  // --wait: the broker will not live to see the end of it
    (void)standby_->Cli(args, Seconds(20));
    const auto end = standby_->process().Wait(Seconds(20));
    ASSERT_TRUE(end.has_value()) << GetParam().step << " " << GetParam().when << " was never hit\n"
                                 << standby_->Log();
    EXPECT_EQ(end->signal, SIGKILL) << standby_->Log();
    ASSERT_OK(standby_->Restart({{"KMIRROR_TEST_KILL_AT", ""}}));
  }
};

TEST_P(MirrorKill, EndsAsIfNothingHadHappened) {
  const std::string step = GetParam().step;
  // Only a source whose epoch rose while it was mirrored makes a stop bump: that one restarts.
  if (step == coordinator::kStepStopEpoch) {
    OwnSource();
  } else {
    UseSharedSource();
  }
  const std::string topic = UniqueName("kill");
  ASSERT_OK(admin_->CreateTopic(topic));
  Send(topic, Numbered(10));
  auto p1 = OpenTransaction("p1", topic, 2);
  ASSERT_OK(p1.status());
  auto p2 = OpenTransaction("p2", topic, 3);
  ASSERT_OK(p2.status());
  ASSERT_EQ(SourceEnd(topic), 15);  // both stay open
  StartStandby();
  ASSERT_OK(standby_->Run({"create", "m", "--source", source_}));
  created_ = true;
  const std::vector<std::string> start = {"start", "m", "--topics", topic, "--wait", "15"};
  const std::vector<std::string> stop = {"stop", "m", "--topics", topic, "--wait", "15"};
  const std::vector<std::string> pause = {"pause", "m", "--topics", topic, "--wait", "15"};
  const std::vector<std::string> resume = {"resume", "m", "--topics", topic, "--wait", "15"};
  const auto stopped_log_is_right = [&](int64_t data_end) {
    ASSERT_OK(standby_->AwaitState(topic, "STOPPED"));
    const auto ours = OurBatches(topic);
    auto theirs = FetchBatches(source_, topic, 0);
    ASSERT_OK(theirs.status());
    EXPECT_EQ(Difference(Below(ours, data_end), Below(*theirs, data_end)), "");
    const auto tail = From(ours, data_end);
    ASSERT_EQ(tail.size(), 3u) << "an ABORT for each open transaction, exactly once, and one reset";
    EXPECT_EQ(tail[0].ControlType(), 0);
    EXPECT_EQ(tail[1].ControlType(), 0);
    EXPECT_NE(tail[0].producer_id, tail[1].producer_id);
    EXPECT_EQ(tail[2].ControlType(), 7);
    for (const RawBatch& batch : tail) EXPECT_GT(batch.leader_epoch, theirs->back().leader_epoch);
    const auto offsets = FetchOffsets(standby_->bootstrap(), topic, 0);
    ASSERT_OK(offsets.status());
    EXPECT_EQ(offsets->stable, data_end + 3);
    const auto row = standby_->Row(topic);
    ASSERT_OK(row.status());
    EXPECT_EQ(row->last_mirror_offset, data_end);
    auto producer = Producer::Connect(standby_->bootstrap());
    ASSERT_OK(producer.status());
    auto sent = producer->SendNumbered(topic, 0, 1);
    ASSERT_OK(sent.status());
    EXPECT_EQ((*sent)[0], data_end + 3);
  };

  if (step.starts_with("start.cut")) {
    // A start that has something to cut: a stopped topic with local records.
    ASSERT_OK(standby_->Run(start));
    ASSERT_OK(standby_->Run(stop));
    auto local = Producer::Connect(standby_->bootstrap());
    ASSERT_OK(local.status());
    ASSERT_OK(local->SendNumbered(topic, 0, 2).status());
    RestartToDie();
    RunAndDie(start);
    ASSERT_OK(standby_->Run(start, Seconds(30)));
    ExpectBytesEqual(topic);
  } else if (step.starts_with("start.")) {
    RestartToDie();
    RunAndDie(start);
    ASSERT_OK(standby_->Run(start, Seconds(30)));
    ExpectBytesEqual(topic);
  } else if (step.starts_with("pause.")) {
    ASSERT_OK(standby_->Run(start));
    RestartToDie();
    ASSERT_OK(standby_->AwaitCaughtUp(topic, 15));
    RunAndDie(pause);
    ASSERT_OK(standby_->Run(pause, Seconds(30)));
    Send(topic, Numbered(5));
    EXPECT_EQ(FetchOffsets(standby_->bootstrap(), topic, 0)->high_watermark, 15);
    ASSERT_OK(standby_->Run(resume, Seconds(30)));
    ExpectBytesEqual(topic);
  } else if (step.starts_with("resume.")) {
    ASSERT_OK(standby_->Run(start));
    ASSERT_OK(standby_->Run(pause));
    RestartToDie();
    RunAndDie(resume);
    ASSERT_OK(standby_->Run(resume, Seconds(30)));
    Send(topic, Numbered(5));
    ExpectBytesEqual(topic);
  } else {
    ASSERT_OK(standby_->Run(start));
    if (step == coordinator::kStepStopEpoch) {
      // A clean stop of a broker does not end the transactions: they are still open afterwards.
      ASSERT_OK(kafka_->Stop());
      ASSERT_OK(kafka_->Restart());
      Send(topic, Numbered(1));
      ASSERT_OK(standby_->AwaitCaughtUp(topic, 16));
    }
    const int64_t end = SourceEnd(topic);
    RestartToDie();
    ASSERT_OK(standby_->AwaitCaughtUp(topic, end));
    RunAndDie(stop);
    ASSERT_OK(standby_->Run(stop, Seconds(30)));
    stopped_log_is_right(end);
  }
  for (const std::string& state : standby_->States(topic)) EXPECT_NE(state, "FAILED");
}

INSTANTIATE_TEST_SUITE_P(Steps, MirrorKill, ::testing::ValuesIn(KillPoints()),
                         [](const auto& info) {
                           std::string name = info.param.step + "_" + info.param.when;
                           std::replace(name.begin(), name.end(), '.', '_');
                           return name;
                         });

}  // namespace
}  // namespace kmirror::test
