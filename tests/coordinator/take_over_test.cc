// A broker that becomes leader finds a state stored: it writes it once more, which fences what the
// old leader may still have under way, and then does what the state asks for.
#include "messages/write_mirror_states.h"
#include "tests/coordinator/coordinator_fixture.h"

namespace kmirror::coordinator {
namespace {

using S = MirrorPartitionState;
using conformance::Fault;
using conformance::MemoryController;
using conformance::MemoryLog;
using std::chrono::minutes;
using std::chrono::seconds;

class TakeOver : public CoordinatorTest {
 protected:
  void LeadAgain() {
    ASSERT_TRUE(c.host.controller().ElectNow(c.Id(), 9).ok());
    c.Advance(seconds(1));
    ASSERT_TRUE(c.host.controller().ElectNow(c.Id(), 0).ok());
    c.Advance(seconds(1));
  }

  // What another broker's leader of the same partition would ask the shard's leader for.
  ErrorCode WriteAs(int32_t leader_epoch, int32_t state_epoch, S state) {
    protocol::WriteMirrorStatesRequest request;
    request.mirror_name = "m";
    protocol::WriteMirrorStatesRequest::PartitionToWrite write;
    write.partition_index = 0;
    write.state = static_cast<int8_t>(state);
    write.leader_epoch = leader_epoch;
    write.state_epoch = state_epoch;
    request.topics.push_back({"t", {write}});
    const auto response = c.Ask<protocol::WriteMirrorStatesResponse>(request);
    return static_cast<ErrorCode>(response.topics.at(0).partitions.at(0).error_code);
  }

  // The state is `state`; a new leader takes over, and only then acts.
  void TakesOver(S state) {
    SCOPED_TRACE(StateName(state));
    ASSERT_EQ(c.State(), state);
    const auto before = *c.Stored();
    const size_t lines = c.runtime.CountLines("cause=TAKEN_OVER");
    LeadAgain();
    EXPECT_EQ(c.runtime.CountLines("cause=TAKEN_OVER"), lines + 1);
    ASSERT_EQ(c.State(), state);
    auto expected = before;
    expected.leader_epoch = c.LeaderEpoch();
    ++expected.state_epoch;
    EXPECT_EQ(*c.Stored(), expected) << "nothing else of the record changes";
    EXPECT_EQ(WriteAs(before.leader_epoch, before.state_epoch, S::kFailed),
              ErrorCode::kFencedLeaderEpoch);
    EXPECT_EQ(*c.Stored(), expected);
  }
};

TEST_F(TakeOver, HappensOnceInEveryStateOfAPausedAndResumedMirror) {
  c.source.AddTopic("t");
  c.source.Elect("t", 5);
  c.source.Append("t", 3);
  ASSERT_EQ(c.CreateMirror(), ErrorCode::kNone);
  c.source.script.Always(SourceModel::kPositions, Fault::kHold);
  ASSERT_EQ(c.Start(), ErrorCode::kNone);
  ASSERT_TRUE(c.RunUntilState(S::kPreparing));
  c.Advance(seconds(10));
  TakesOver(S::kPreparing);
  c.source.script.Heal(SourceModel::kPositions);
  c.source.script.Release();
  ASSERT_TRUE(c.RunUntilCaughtUp());

  TakesOver(S::kMirroring);
  ASSERT_TRUE(c.RunUntilCaughtUp());
  c.source.Append("t");
  ASSERT_TRUE(c.RunUntilCaughtUp());

  c.fetching->HoldRemoves(true);
  ASSERT_EQ(c.Pause(), ErrorCode::kNone);
  ASSERT_TRUE(c.RunUntilState(S::kPausing));
  TakesOver(S::kPausing);
  c.fetching->HoldRemoves(false);
  ASSERT_TRUE(c.RunUntilState(S::kPaused));

  TakesOver(S::kPaused);
  EXPECT_FALSE(c.fetching->Assigned(c.Id()));
  ASSERT_EQ(c.Resume(), ErrorCode::kNone);
  EXPECT_TRUE(c.RunUntilCaughtUp());
}

TEST_F(TakeOver, HappensInAStopAndWhenItIsDone) {
  StartCaughtUp(3, 5);
  c.host.controller().script().Always(MemoryController::kRaiseProducerIdFloor, Fault::kHold);
  ASSERT_EQ(c.Stop(), ErrorCode::kNone);
  ASSERT_TRUE(c.RunUntilState(S::kStopping));
  c.Advance(seconds(1));
  TakesOver(S::kStopping);
  c.host.controller().script().Heal(MemoryController::kRaiseProducerIdFloor);
  c.host.controller().script().Release();
  ASSERT_TRUE(c.RunUntilState(S::kStopped));
  EXPECT_EQ(c.Stored()->position, (statemachine::MirrorPosition{5, 3}));

  TakesOver(S::kStopped);
  EXPECT_EQ(c.Produce(), ErrorCode::kNone);
}

TEST_F(TakeOver, DoesNotKeepAStoppedPartitionClosedWhenStatesCannotBeStored) {
  StartCaughtUp(3, 5);
  ASSERT_EQ(c.Stop(), ErrorCode::kNone);
  ASSERT_TRUE(c.RunUntilState(S::kStopped));
  c.host.state_topic().script().Always("Append", Fault::kRefuse, {ErrorCode::kNoSpace, "full"});
  ASSERT_TRUE(c.host.controller().ElectNow(c.Id(), 9).ok());
  c.Advance(seconds(1));
  ASSERT_TRUE(c.host.controller().ElectNow(c.Id(), 0).ok());
  EXPECT_TRUE(c.RunUntil([&] { return c.Produce() == ErrorCode::kNone; }, seconds(1)));
  c.host.state_topic().script().Heal("Append");
  c.Advance(minutes(1));
  EXPECT_EQ(c.Stored()->leader_epoch, c.LeaderEpoch());
}

TEST_F(TakeOver, HappensInEpochFencing) {
  StartCaughtUp(3, 5);
  c.host.controller().script().Always(MemoryController::kBumpLeaderEpochs, Fault::kHold);
  c.source.Elect("t", 40);
  c.source.Append("t");
  ASSERT_TRUE(c.RunUntilState(S::kEpochFencing));
  TakesOver(S::kEpochFencing);
  c.host.controller().script().Heal(MemoryController::kBumpLeaderEpochs);
  c.host.controller().script().Release();
  EXPECT_TRUE(c.RunUntilCaughtUp());
}

TEST_F(TakeOver, HappensInUleRecovery) {
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
  TakesOver(S::kUleRecovery);
  c.Log().SetInSync(0, true);
  EXPECT_TRUE(c.RunUntilCaughtUp());
}

TEST_F(TakeOver, HappensInFailedAndKeepsItsReason) {
  StartCaughtUp(3, 5);
  c.fetching->Stop(c.Id(), fetcher::FetchStop::kDiverged, 1, 5);
  ASSERT_TRUE(c.RunUntilState(S::kFailed));
  TakesOver(S::kFailed);
  EXPECT_THAT(c.Stored()->reason, ::testing::HasSubstr("lost offsets"));
}

// The write was on its way when the leader was deposed: it lands after the new leader has read the
// state, and must not make the record say STOPPING of a partition that is mirrored on.
TEST_F(TakeOver, FencesWhatTheOldLeaderHadUnderWay) {
  StartCaughtUp(3, 5);
  const auto old = *c.Stored();
  LeadAgain();
  EXPECT_EQ(WriteAs(old.leader_epoch, old.state_epoch, S::kStopping),
            ErrorCode::kFencedLeaderEpoch);
  EXPECT_EQ(c.Stored()->state, S::kMirroring);
  c.Kill();
  c.Boot();
  EXPECT_TRUE(c.RunUntilCaughtUp());
  EXPECT_EQ(c.Path(), "PREPARING MIRRORING");
}

// It landed just before: the new leader's own write is refused, it reads again and goes on from
// there.
TEST_F(TakeOver, FollowsWhatTheOldLeaderCouldStillStore) {
  StartCaughtUp(3, 5);
  c.host.state_topic().script().Next("Append", Fault::kHold);
  const auto old = *c.Stored();
  ASSERT_TRUE(c.host.controller().ElectNow(c.Id(), 9).ok());
  c.runtime.RunUntilIdle();
  c.fetching->HoldRemoves(false);
  protocol::WriteMirrorStatesRequest request;
  request.mirror_name = "m";
  protocol::WriteMirrorStatesRequest::PartitionToWrite write;
  write.partition_index = 0;
  write.state = static_cast<int8_t>(S::kPausing);
  write.leader_epoch = old.leader_epoch;
  write.state_epoch = old.state_epoch;
  request.topics.push_back({"t", {write}});
  c.Send(request);
  c.Advance(seconds(1));
  ASSERT_TRUE(c.host.controller().ElectNow(c.Id(), 0).ok());
  c.Advance(seconds(1));
  c.host.state_topic().script().Release();
  // PAUSING is nothing that is wanted: it is finished, and then resumed.
  EXPECT_TRUE(c.RunUntilCaughtUp());
  EXPECT_EQ(c.Path(), "PREPARING MIRRORING PAUSING PAUSED MIRRORING");
}

}  // namespace
}  // namespace kmirror::coordinator
