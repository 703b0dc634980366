// Stopping: what the log ends with, what is stored, and that neither a dead source nor a missing
// replica is in the way. Numbers S.. are scenarios of the specification.
#include "kmirror/log/control_batch.h"
#include "tests/coordinator/coordinator_fixture.h"

namespace kmirror::coordinator {
namespace {

using S = MirrorPartitionState;
using conformance::Fault;
using conformance::MemoryLog;
using std::chrono::minutes;
using std::chrono::seconds;

using Stopping = CoordinatorTest;

TEST_F(Stopping, APlainStopEndsTheLogWithOneResetAboveEveryMirroredEpoch) {  // S45
  StartCaughtUp(50, 5);
  ASSERT_EQ(c.Stop(), ErrorCode::kNone);
  ASSERT_TRUE(c.RunUntilState(S::kStopped));
  EXPECT_EQ(c.Path(), "PREPARING MIRRORING STOPPING STOPPED");
  EXPECT_EQ(c.Shape(), "0-49@5 R50@16");
  EXPECT_EQ(c.Stored()->position, (statemachine::MirrorPosition{5, 50}));
  EXPECT_EQ(c.Stored()->progress, statemachine::Progress::kUntouched);
  EXPECT_EQ(c.Log().synced_end(), 51);
  EXPECT_EQ(c.Produce(), ErrorCode::kNone);
  EXPECT_EQ(c.Log().View().end, 52);
}

TEST_F(Stopping, EveryOpenTransactionGetsOneAbortInOrderOfFirstOffsets) {  // S46, R18
  c.source.AddTopic("t");
  c.source.Elect("t", 5);
  c.source.AppendTransactional("t", 4002, 3, 0);                // 0
  c.source.AppendTransactional("t", 4001, 2, 0);                // 1
  c.source.AppendTransactional("t", 4003, 0, 0);                // 2
  c.source.AppendMarker("t", log::kControlCommit, 4003, 0, 9);  // 3
  c.source.AppendTransactional("t", 4001, 2, 1);                // 4
  ASSERT_EQ(c.CreateMirror(), ErrorCode::kNone);
  ASSERT_EQ(c.Start(), ErrorCode::kNone);
  ASSERT_TRUE(c.RunUntilCaughtUp());
  ASSERT_EQ(c.Stop(), ErrorCode::kNone);
  ASSERT_TRUE(c.RunUntilState(S::kStopped));
  EXPECT_EQ(c.Shape(), "0@5 1@5 2@5 C3@5 4@5 A5@16 A6@16 R7@16");
  const auto batches = c.Log().batches();
  EXPECT_EQ(batches[5].info.producer_id, 4002);
  EXPECT_EQ(batches[5].info.producer_epoch, 3);
  EXPECT_EQ(batches[6].info.producer_id, 4001);
  EXPECT_EQ(batches[6].info.producer_epoch, 2);
  EXPECT_EQ(c.Log().View().last_stable_offset, 8);
  EXPECT_TRUE(c.Log().OpenTransactions().empty());
  EXPECT_EQ(c.Stored()->position, (statemachine::MirrorPosition{5, 5}));
}

TEST_F(Stopping, ATransactionCutBetweenPartitionsBlocksNeither) {  // S47
  c.source.AddTopic("t", 2);
  for (int p = 0; p < 2; ++p) {
    c.source.AppendTransactional("t", 7, 0, 0, p);
    c.source.AppendTransactional("t", 7, 0, 1, p);
  }
  c.source.AppendMarker("t", log::kControlCommit, 7, 0, 1, 0);
  ASSERT_EQ(c.CreateMirror(), ErrorCode::kNone);
  ASSERT_EQ(c.Start(), ErrorCode::kNone);
  ASSERT_TRUE(c.RunUntilCaughtUp("t", 0));
  ASSERT_TRUE(c.RunUntilCaughtUp("t", 1));
  ASSERT_EQ(c.Stop(), ErrorCode::kNone);
  ASSERT_TRUE(c.RunUntilState(S::kStopped, minutes(1), "t", 0));
  ASSERT_TRUE(c.RunUntilState(S::kStopped, minutes(1), "t", 1));
  EXPECT_EQ(c.Shape("t", 0), "0@0 1@0 C2@0 R3@11");
  EXPECT_EQ(c.Shape("t", 1), "0@0 1@0 A2@11 R3@11");
}

TEST_F(Stopping, AStopWithLagKeepsWhatIsHereAndNothingArrivesLater) {  // S48
  c.source.AddTopic("t");
  for (int i = 0; i < 100; ++i) c.source.Append("t");
  c.fetching->Limit(60);
  ASSERT_EQ(c.CreateMirror(), ErrorCode::kNone);
  ASSERT_EQ(c.Start(), ErrorCode::kNone);
  ASSERT_TRUE(c.RunUntil([&] { return c.host.Log("t") && c.Log().View().end == 60; }));
  ASSERT_EQ(c.Stop(), ErrorCode::kNone);
  ASSERT_TRUE(c.RunUntilState(S::kStopped));
  c.fetching->Limit(-1);
  c.Advance(minutes(2));
  EXPECT_EQ(c.Log().View().end, 61);
  EXPECT_TRUE(c.Log().EndsWithReset());
  EXPECT_FALSE(c.fetching->Assigned(c.Id()));
}

TEST_F(Stopping, AStopNeedsNoSource) {  // S49
  StartCaughtUp(50, 5);
  c.source.reachable = false;
  c.Advance(minutes(1));
  EXPECT_EQ(c.State(), S::kMirroring) << "an outage is no failure";
  ASSERT_EQ(c.Stop(), ErrorCode::kNone);
  ASSERT_TRUE(c.RunUntilState(S::kStopped, seconds(10)));
  EXPECT_EQ(c.Shape(), "0-49@5 R50@16");
}

TEST_F(Stopping, AStopNeedsNoSourceSinceTheRestartEither) {  // S50, S108 c
  StartCaughtUp(50, 5);
  c.source.reachable = false;
  c.Kill();
  c.Boot();
  c.Advance(seconds(30));
  EXPECT_EQ(c.State(), S::kMirroring);
  ASSERT_EQ(c.Stop(), ErrorCode::kNone);
  ASSERT_TRUE(c.RunUntilState(S::kStopped, seconds(10)));
  EXPECT_EQ(c.Shape(), "0-49@5 R50@16");
}

TEST_F(Stopping, BelowMinIsrAStopWaitsInStoppingAndSaysWhy) {  // S93
  c.host.logs().OnCreate(
      [](const TopicIdPartition&, MemoryLog& log) { log.SetFollowers({MemoryLog::Follower{}}); });
  c.source.AddTopic("t");
  c.source.Elect("t", 5);
  c.source.AppendTransactional("t", 1, 0, 0);
  c.source.AppendTransactional("t", 2, 0, 0);
  ASSERT_EQ(c.CreateMirror(), ErrorCode::kNone);
  ASSERT_EQ(c.Start(), ErrorCode::kNone);
  ASSERT_TRUE(c.RunUntilCaughtUp());
  c.Log().SetMinInSync(2);
  c.Log().SetInSync(0, false);
  ASSERT_EQ(c.Stop(), ErrorCode::kNone);
  ASSERT_TRUE(c.RunUntilState(S::kStopping));
  c.Advance(minutes(2));
  EXPECT_EQ(c.State(), S::kStopping);
  EXPECT_EQ(c.Describe().retry_attempt, 0);
  EXPECT_THAT(c.Describe().error_message.value_or(""), ::testing::HasSubstr("NOT_ENOUGH_REPLICAS"));
  EXPECT_EQ(c.Produce(), ErrorCode::kNotEnoughReplicas);
  c.Log().SetInSync(0, true);
  ASSERT_TRUE(c.RunUntilState(S::kStopped));
  EXPECT_EQ(c.Path(), "PREPARING MIRRORING STOPPING STOPPED");
  EXPECT_EQ(c.Shape(), "0@5 1@5 A2@16 A3@16 R4@16");
  EXPECT_EQ(c.Log().View().last_stable_offset, c.Log().View().end);
}

TEST_F(Stopping, AReplicaLostBetweenTheMarkersIsWaitedForAndNoMarkerIsDoubled) {  // S93, L11
  c.host.logs().OnCreate(
      [](const TopicIdPartition&, MemoryLog& log) { log.SetFollowers({MemoryLog::Follower{}}); });
  c.source.AddTopic("t");
  c.source.Elect("t", 5);
  c.source.AppendTransactional("t", 1, 0, 0);
  c.source.AppendTransactional("t", 2, 0, 0);
  ASSERT_EQ(c.CreateMirror(), ErrorCode::kNone);
  ASSERT_EQ(c.Start(), ErrorCode::kNone);
  ASSERT_TRUE(c.RunUntilCaughtUp());
  // The follower stays in sync but stands still: appended, not replicated, for two minutes.
  c.Log().SetFollowerEnd(0, 2);
  ASSERT_EQ(c.Stop(), ErrorCode::kNone);
  c.Advance(minutes(2));
  EXPECT_EQ(c.State(), S::kStopping);
  EXPECT_EQ(c.Shape(), "0@5 1@5 A2@16 A3@16 R4@16");
  c.Log().SetFollowerEnd(0, 5);
  ASSERT_TRUE(c.RunUntilState(S::kStopped));
  EXPECT_EQ(c.Shape(), "0@5 1@5 A2@16 A3@16 R4@16");
}

TEST_F(Stopping, TwoStopsAtOnceStopOnce) {  // S55
  c.source.AddTopic("t");
  c.source.AppendTransactional("t", 1, 0, 0);
  ASSERT_EQ(c.CreateMirror(), ErrorCode::kNone);
  ASSERT_EQ(c.Start(), ErrorCode::kNone);
  ASSERT_TRUE(c.RunUntilCaughtUp());
  protocol::StopMirrorTopicsRequest stop;
  stop.mirror_name = "m";
  stop.topics.push_back({"t"});
  std::optional<std::vector<uint8_t>> first, second;
  c.Send(stop, &first);
  c.Send(stop, &second);
  ASSERT_TRUE(c.RunUntil([&] { return first && second; }));
  for (const auto* answer : {&first, &second}) {
    protocol::StopMirrorTopicsResponse response;
    ASSERT_TRUE(protocol::DecodeBody(**answer, 0, &response).ok());
    const auto code = static_cast<ErrorCode>(response.topics.at(0).error_code);
    EXPECT_TRUE(code == ErrorCode::kNone || code == ErrorCode::kInvalidClusterMirrorState);
  }
  ASSERT_TRUE(c.RunUntilState(S::kStopped));
  EXPECT_EQ(c.Stop(), ErrorCode::kNone);
  c.Advance(minutes(1));
  EXPECT_EQ(c.Shape(), "0@0 A1@11 R2@11");
}

TEST_F(Stopping, AStopFromPausedLeavesWhatTheSourceGotMeanwhile) {  // S44
  StartCaughtUp(3, 5);
  ASSERT_EQ(c.Pause(), ErrorCode::kNone);
  ASSERT_TRUE(c.RunUntilState(S::kPaused));
  c.source.Append("t");
  c.Kill();
  c.Boot();
  c.Advance(minutes(2));
  EXPECT_EQ(c.State(), S::kPaused);
  EXPECT_EQ(c.fetching->adds, 0);
  ASSERT_EQ(c.Stop(), ErrorCode::kNone);
  ASSERT_TRUE(c.RunUntilState(S::kStopped));
  EXPECT_EQ(c.Path(), "PREPARING MIRRORING PAUSING PAUSED STOPPING STOPPED");
  EXPECT_EQ(c.Shape(), "0-2@5 R3@16");
}

TEST_F(Stopping, OneFailedPartitionDoesNotBlockTheStopOfTheOthers) {  // S96
  StartCaughtUp(3, 5, 4);
  c.fetching->Stop(c.Id("t", 2), fetcher::FetchStop::kDiverged, 1, 5, "test");
  ASSERT_TRUE(c.RunUntilState(S::kFailed, minutes(1), "t", 2));
  EXPECT_EQ(c.Stored("t", 2)->attempt, -1);
  EXPECT_EQ(c.Produce("t", 2), ErrorCode::kReadOnly);
  ASSERT_EQ(c.Stop(), ErrorCode::kNone);
  for (int p = 0; p < 4; ++p) {
    ASSERT_TRUE(c.RunUntilState(S::kStopped, minutes(1), "t", p));
    EXPECT_EQ(c.Shape("t", p), "0-2@5 R3@16");
    EXPECT_EQ(c.Produce("t", p), ErrorCode::kNone);
  }
}

TEST_F(Stopping, AStopBeforeAnythingWasMirroredTouchesNothing) {
  c.source.AddTopic("t");
  c.source.Append("t", 3);
  ASSERT_EQ(c.CreateMirror(), ErrorCode::kNone);
  c.source.script.Always(SourceModel::kFeatures, Fault::kHold);
  ASSERT_EQ(c.Start(), ErrorCode::kNone);
  ASSERT_TRUE(c.RunUntilState(S::kPreparing));
  ASSERT_EQ(c.Stop(), ErrorCode::kNone);
  ASSERT_TRUE(c.RunUntilState(S::kStopped));
  c.source.script.Heal(SourceModel::kFeatures);
  c.source.script.Release();
  c.Advance(minutes(1));
  EXPECT_EQ(c.Path(), "PREPARING STOPPING STOPPED");
  EXPECT_EQ(c.Log().View().end, 0);
  EXPECT_TRUE(c.Stored()->position.IsNone());
  EXPECT_EQ(c.Produce(), ErrorCode::kNone);
}

TEST_F(Stopping, AStopAfterACutKeepsThePositionAndStillWritesMarkers) {  // 6.3 Progress 1
  StartCaughtUp(10, 5);
  ASSERT_EQ(c.Stop(), ErrorCode::kNone);
  ASSERT_TRUE(c.RunUntilState(S::kStopped));
  ASSERT_EQ(c.Produce(), ErrorCode::kNone);
  const auto position = c.Stored()->position;
  c.Log().script().Next(MemoryLog::kAwaitTruncated, Fault::kHold);
  ASSERT_EQ(c.Start(), ErrorCode::kNone);
  ASSERT_TRUE(c.RunUntil([&] { return c.Log().script().held(MemoryLog::kAwaitTruncated) == 1; }));
  EXPECT_EQ(c.Stored()->progress, statemachine::Progress::kCutting);
  ASSERT_EQ(c.Stop(), ErrorCode::kNone);
  ASSERT_TRUE(c.RunUntilState(S::kStopped));
  EXPECT_EQ(c.Stored()->position, position);
  EXPECT_EQ(c.Shape(), "0-9@5 R10@16");
}

TEST_F(Stopping, StopWithTruncatePolicyCutsToTheStableOffsetBeforeThePosition) {  // R4
  c.source.AddTopic("t");
  c.source.Elect("t", 5);
  c.source.Append("t", 2);                     // 0-1
  c.source.AppendTransactional("t", 9, 0, 0);  // 2
  c.source.Append("t", 1);                     // 3
  ASSERT_EQ(c.CreateMirror("m", {{"stop.uncommitted", "truncate"}}), ErrorCode::kNone);
  ASSERT_EQ(c.Start(), ErrorCode::kNone);
  ASSERT_TRUE(c.RunUntilCaughtUp());
  ASSERT_EQ(c.Stop(), ErrorCode::kNone);
  ASSERT_TRUE(c.RunUntilState(S::kStopped));
  EXPECT_EQ(c.Shape(), "0-1@5 R2@16");
  EXPECT_EQ(c.Stored()->position, (statemachine::MirrorPosition{5, 2}));
}

}  // namespace
}  // namespace kmirror::coordinator
