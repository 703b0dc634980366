// Transitions that need two things to happen at once: a source that vanishes, or an operator who
// stops, while the partition is on its way between two other states.
#include "tests/coordinator/coordinator_fixture.h"
#include "tests/coordinator/invariants.h"

namespace kmirror::coordinator {
namespace {

using S = MirrorPartitionState;
using conformance::Fault;
using conformance::MemoryController;
using conformance::MemoryLog;
using conformance::MemoryStateTopic;
using std::chrono::minutes;
using std::chrono::seconds;

class RareTransitions : public CoordinatorTest {
 protected:
  // EPOCH_FENCING, and the leader epoch does not rise.
  void StayFencing() {
    StartCaughtUp(3, 5);
    c.host.controller().script().Always(MemoryController::kBumpLeaderEpochs, Fault::kHold);
    c.source.Elect("t", 40);
    c.source.Append("t");
    ASSERT_TRUE(c.RunUntilState(S::kEpochFencing));
  }
  void LetEpochsRise() {
    c.host.controller().script().Heal(MemoryController::kBumpLeaderEpochs);
    c.host.controller().script().Release();
  }

  // ULE_RECOVERY, and a follower does not follow.
  void StayRecovering() {
    c.host.logs().OnCreate(
        [](const TopicIdPartition&, MemoryLog& log) { log.SetFollowers({MemoryLog::Follower{}}); });
    StartCaughtUp(3, 5);
    ASSERT_TRUE(
        c.host.controller()
            .AlterTopicConfigNow(c.Id().topic_id, "mirror.support.unclean.leader.election", "true")
            .ok());
    c.Log().SetInSync(0, false);
    c.fetching->Stop(c.Id(), fetcher::FetchStop::kTruncated, 3, 5);
    ASSERT_TRUE(c.RunUntilState(S::kUleRecovery));
  }

  // PAUSING, and the fetcher does not let go.
  void StayPausing() {
    StartCaughtUp(3, 5);
    c.fetching->HoldRemoves(true);
    ASSERT_EQ(c.Pause(), ErrorCode::kNone);
    ASSERT_TRUE(c.RunUntilState(S::kPausing));
  }

  // Started, then killed before the start could be stored; wants something else when it is back.
  void StartThenDieThen(ErrorCode (Cluster::*want)(const std::string&, const std::string&)) {
    c.host.state_topic().script().Always(MemoryStateTopic::kAppend, Fault::kRefuse,
                                         {ErrorCode::kNoSpace, "full"});
    ASSERT_EQ(c.Start(), ErrorCode::kNone);
    c.Advance(seconds(1));
    c.Kill();
    c.host.state_topic().script().Heal(MemoryStateTopic::kAppend);
    c.host.state_topic().script().Always(MemoryStateTopic::kReplay, Fault::kHold);
    c.Boot();
    ASSERT_EQ((c.*want)("t", "m"), ErrorCode::kNone);
    c.host.state_topic().script().Heal(MemoryStateTopic::kReplay);
    c.host.state_topic().script().Release();
    c.Advance(seconds(10));
  }

  void SourceTopicVanishes() {
    kept_ = c.source.topics.at("t");
    c.source.topics.erase("t");
    ASSERT_TRUE(c.RunUntilState(S::kFailed, minutes(5)));
    EXPECT_EQ(c.Stored()->attempt, -1);
    EXPECT_THAT(c.Stored()->reason, ::testing::HasSubstr("deleted"));
    EXPECT_NE(c.Produce(), ErrorCode::kNone);
  }
  void SourceTopicIsBack() { c.source.topics.emplace("t", kept_); }

  SourceModel::Topic kept_;
};

TEST_F(RareTransitions, AStopFromEpochFencing) {
  StayFencing();
  ASSERT_EQ(c.Stop(), ErrorCode::kNone);
  ASSERT_TRUE(c.RunUntilState(S::kStopping));
  LetEpochsRise();
  ASSERT_TRUE(c.RunUntilState(S::kStopped));
  EXPECT_EQ(c.Shape(), "0-2@5 R3@51");
  CheckStopped(c, "t", 0, {});
}

TEST_F(RareTransitions, ASourceThatVanishesInEpochFencing) {
  StayFencing();
  SourceTopicVanishes();
  SourceTopicIsBack();
  LetEpochsRise();
  EXPECT_EQ(c.Recover(), 1);
  ASSERT_TRUE(c.RunUntilCaughtUp());
  EXPECT_EQ(c.Path(), "PREPARING MIRRORING EPOCH_FENCING FAILED MIRRORING");
}

TEST_F(RareTransitions, AStopFromUleRecovery) {
  StayRecovering();
  ASSERT_EQ(c.Stop(), ErrorCode::kNone);
  ASSERT_TRUE(c.RunUntilState(S::kStopped));
  CheckStopped(c, "t", 0, {});
}

TEST_F(RareTransitions, ASourceThatVanishesInUleRecovery) {
  StayRecovering();
  SourceTopicVanishes();
  SourceTopicIsBack();
  EXPECT_EQ(c.Recover(), 1);
  ASSERT_TRUE(c.RunUntilCaughtUp());
  EXPECT_EQ(c.Path(), "PREPARING MIRRORING ULE_RECOVERY FAILED MIRRORING");
}

TEST_F(RareTransitions, AStopFromPausing) {
  StayPausing();
  ASSERT_EQ(c.Stop(), ErrorCode::kNone);
  ASSERT_TRUE(c.RunUntilState(S::kStopping));
  c.fetching->HoldRemoves(false);
  ASSERT_TRUE(c.RunUntilState(S::kStopped));
  EXPECT_EQ(c.Path(), "PREPARING MIRRORING PAUSING STOPPING STOPPED");
}

TEST_F(RareTransitions, ASourceThatVanishesInPausingAndInPaused) {
  StayPausing();
  SourceTopicVanishes();
  c.fetching->HoldRemoves(false);
  SourceTopicIsBack();
  EXPECT_EQ(c.Recover(), 1);
  ASSERT_TRUE(c.RunUntilState(S::kPaused));
  EXPECT_EQ(c.Stored()->reason, "");
  SourceTopicVanishes();
  EXPECT_EQ(c.Path(), "PREPARING MIRRORING PAUSING FAILED PAUSING PAUSED FAILED");
  SourceTopicIsBack();
  EXPECT_EQ(c.Recover(), 1);
  ASSERT_TRUE(c.RunUntilState(S::kPaused));
}

// Why nothing is mirrored any more has become another, and a final one.
TEST_F(RareTransitions, ASourceThatVanishesAfterTheLastRetryFailed) {
  c.Kill();
  c.options.failed_retry_max_attempts = 1;
  c.Boot();
  StartCaughtUp(3, 5);
  c.Log().FailNextAppend(host::AppendCode::kIo);
  c.source.Append("t");
  ASSERT_TRUE(c.RunUntilState(S::kFailed));
  EXPECT_EQ(c.Stored()->attempt, 1);
  c.source.topics.erase("t");
  // Shown, and not only stored: the driver has heard of it.
  ASSERT_TRUE(c.RunUntil(
      [&] { return c.runtime.CountLines("from=FAILED to=FAILED cause=FAILED") == 1; }, minutes(5)));
  EXPECT_EQ(c.State(), S::kFailed);
  EXPECT_EQ(c.Stored()->attempt, -1);
  EXPECT_EQ(c.Stored()->previous, S::kMirroring);
  EXPECT_THAT(c.Stored()->reason, ::testing::HasSubstr("deleted"));
}

TEST_F(RareTransitions, ASourceThatVanishesBeforeAPausedTopicEverBegan) {
  c.source.AddTopic("t");
  c.source.Append("t", 3);
  ASSERT_EQ(c.CreateMirror(), ErrorCode::kNone);
  StartThenDieThen(&Cluster::Pause);
  EXPECT_EQ(c.State(), S::kUnknown);
  SourceTopicVanishes();
  EXPECT_EQ(c.Stored()->previous, S::kUnknown);
  ASSERT_EQ(c.Stop(), ErrorCode::kNone);
  ASSERT_TRUE(c.RunUntilState(S::kStopped));
  EXPECT_EQ(c.Produce(), ErrorCode::kNone);
}

// Stopped, wanted again and paused at once: it is read-only and waits, so its operator must hear
// that its source is gone, as in every other state that is not stopped (R11).
TEST_F(RareTransitions, ASourceThatVanishesBeforeAStoppedTopicBeganAgain) {
  StartCaughtUp(3, 5);
  ASSERT_EQ(c.Stop(), ErrorCode::kNone);
  ASSERT_TRUE(c.RunUntilState(S::kStopped));
  ASSERT_EQ(c.Produce(), ErrorCode::kNone);
  const auto position = c.Stored()->position;
  StartThenDieThen(&Cluster::Pause);
  EXPECT_EQ(c.State(), S::kStopped);
  EXPECT_EQ(c.Produce(), ErrorCode::kReadOnly);
  SourceTopicVanishes();
  EXPECT_EQ(c.Stored()->previous, S::kStopped);
  EXPECT_EQ(c.Stored()->position, position) << "the common position survives";
  ASSERT_EQ(c.Stop(), ErrorCode::kNone);
  ASSERT_TRUE(c.RunUntilState(S::kStopped));
  EXPECT_EQ(c.Stored()->position, position);
  ASSERT_EQ(c.Produce(), ErrorCode::kNone);
  SourceTopicIsBack();
  ASSERT_EQ(c.Start(), ErrorCode::kNone);
  ASSERT_TRUE(c.RunUntilCaughtUp());
  EXPECT_EQ(c.fetching->add_offsets.back(), 3) << "no full copy";
}

// The write may have landed and only its answer be late, so it is made certain before anything else
// is decided.
TEST_F(RareTransitions, AStartThatIsNotAnsweredIsStoredBeforeTheStopThatFollowsIt) {
  c.source.AddTopic("t");
  c.source.Append("t", 3);
  ASSERT_EQ(c.CreateMirror(), ErrorCode::kNone);
  c.host.state_topic().script().Always(MemoryStateTopic::kAppend, Fault::kRefuse,
                                       {ErrorCode::kNoSpace, "full"});
  ASSERT_EQ(c.Start(), ErrorCode::kNone);
  ASSERT_EQ(c.Stop(), ErrorCode::kNone);
  c.Advance(seconds(30));
  c.host.state_topic().script().Heal(MemoryStateTopic::kAppend);
  ASSERT_TRUE(c.RunUntilState(S::kStopped));
  EXPECT_EQ(c.Path(), "PREPARING STOPPING STOPPED");
  EXPECT_EQ(c.Produce(), ErrorCode::kNone);
}

TEST_F(RareTransitions, AStopBeforeTheFirstStateIsStored) {
  c.source.AddTopic("t");
  c.source.Append("t", 3);
  ASSERT_EQ(c.CreateMirror(), ErrorCode::kNone);
  StartThenDieThen(&Cluster::Stop);
  ASSERT_TRUE(c.RunUntilState(S::kStopped));
  EXPECT_EQ(c.Path(), "STOPPING STOPPED");
  EXPECT_EQ(c.Produce(), ErrorCode::kNone);
}

}  // namespace
}  // namespace kmirror::coordinator
