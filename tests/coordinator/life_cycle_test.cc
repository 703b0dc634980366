// Start, pause, resume, stop and start again: which states are stored in which order, what the log
// holds at the end, and who may write to it meanwhile. Numbers S.. are scenarios of the
// specification.
#include "conformance/mirrored_batches.h"
#include "kmirror/log/control_batch.h"
#include "tests/coordinator/coordinator_fixture.h"

namespace kmirror::coordinator {
namespace {

using S = MirrorPartitionState;
using conformance::Fault;
using conformance::MemoryLog;
using std::chrono::minutes;
using std::chrono::seconds;

using LifeCycle = CoordinatorTest;

TEST_F(LifeCycle, AStartIsPreparingThenMirroringAndNeverFailed) {  // S02, R21, S100
  StartCaughtUp(50, 0, 3);
  for (int p = 0; p < 3; ++p) {
    EXPECT_EQ(c.Path("t", p), "PREPARING MIRRORING");
    EXPECT_EQ(c.Log("t", p).Bytes(), c.source.Log("t", p).Bytes());
  }
  EXPECT_EQ(c.host.controller().FindTopic("t")->id, c.source.topics.at("t").id);
  EXPECT_EQ(c.runtime.CountLines("FAILED"), 0u);
}

TEST_F(LifeCycle, TheLeaderEpochIsRaisedAboveTheSourceBeforeTheFirstFetch) {  // R27
  StartCaughtUp(3, 5);
  EXPECT_EQ(c.LeaderEpoch(), 16);
  EXPECT_EQ(c.Path(), "PREPARING MIRRORING");
}

TEST_F(LifeCycle, APlainStopEndsTheLogWithOneResetAboveEveryMirroredEpoch) {  // S45
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

TEST_F(LifeCycle, EveryOpenTransactionGetsOneAbortInOrderOfFirstOffsets) {  // S46, R18
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

TEST_F(LifeCycle, ATransactionCutBetweenPartitionsBlocksNeither) {  // S47
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

TEST_F(LifeCycle, AStopWithLagKeepsWhatIsHereAndNothingArrivesLater) {  // S48
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

TEST_F(LifeCycle, AStopNeedsNoSource) {  // S49
  StartCaughtUp(50, 5);
  c.source.reachable = false;
  c.Advance(minutes(1));
  EXPECT_EQ(c.State(), S::kMirroring) << "an outage is no failure";
  ASSERT_EQ(c.Stop(), ErrorCode::kNone);
  ASSERT_TRUE(c.RunUntilState(S::kStopped, seconds(10)));
  EXPECT_EQ(c.Shape(), "0-49@5 R50@16");
}

TEST_F(LifeCycle, AStopNeedsNoSourceSinceTheRestartEither) {  // S50, S108 c
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

TEST_F(LifeCycle, BelowMinIsrAStopWaitsInStoppingAndSaysWhy) {  // S93
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

TEST_F(LifeCycle, AReplicaLostBetweenTheMarkersIsWaitedForAndNoMarkerIsDoubled) {  // S93, L11
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

TEST_F(LifeCycle, TwoStopsAtOnceStopOnce) {  // S55
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

TEST_F(LifeCycle, PauseAndResumeSkipPreparing) {  // S43
  StartCaughtUp(3, 5);
  ASSERT_EQ(c.Pause(), ErrorCode::kNone);
  ASSERT_TRUE(c.RunUntilState(S::kPaused));
  c.source.Append("t");
  c.Advance(minutes(1));
  EXPECT_EQ(c.Log().View().end, 3);
  EXPECT_EQ(c.Produce(), ErrorCode::kReadOnly);
  EXPECT_FALSE(c.fetching->Assigned(c.Id()));
  ASSERT_EQ(c.Resume(), ErrorCode::kNone);
  ASSERT_TRUE(c.RunUntilCaughtUp());
  EXPECT_EQ(c.Path(), "PREPARING MIRRORING PAUSING PAUSED MIRRORING");
  EXPECT_EQ(c.Log().View().end, 4);
  EXPECT_EQ(c.fetching->add_offsets.back(), 3);
}

TEST_F(LifeCycle, AStopFromPausedLeavesWhatTheSourceGotMeanwhile) {  // S44
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

TEST_F(LifeCycle, StartAgainInTheSameDirectionGoesBackToTheOwnPosition) {  // S62, 3.6
  StartCaughtUp(10, 5);
  ASSERT_EQ(c.Stop(), ErrorCode::kNone);
  ASSERT_TRUE(c.RunUntilState(S::kStopped));
  for (int i = 0; i < 3; ++i) ASSERT_EQ(c.Produce(), ErrorCode::kNone);
  c.source.Append("t", 4);
  ASSERT_EQ(c.Start(), ErrorCode::kNone);
  ASSERT_TRUE(c.RunUntilCaughtUp());
  EXPECT_EQ(c.Path(), "PREPARING MIRRORING STOPPING STOPPED PREPARING MIRRORING");
  EXPECT_EQ(c.Shape(), "0-9@5 10-13@5");
  EXPECT_EQ(c.Log().Bytes(), c.source.Log("t").Bytes());
  EXPECT_EQ(c.fetching->add_offsets.back(), 10) << "no full copy";
  EXPECT_EQ(c.Produce(), ErrorCode::kReadOnly);
  EXPECT_TRUE(c.Stored()->position.IsNone());
}

// coordinator.md 9.1: this cluster is A, the old active; the model is B, which has failed over.
TEST_F(LifeCycle, FailbackCutsToThePositionOfTheOtherSideAndCopiesOnlyTheRest) {
  host::NewTopic old;
  old.name = "t";
  old.id.bytes.fill(0x51);
  ASSERT_TRUE(c.host.controller().CreateTopicNow(old).ok());
  const TopicIdPartition id = c.Id();
  auto raise = [&](int32_t min) {
    c.host.controller().BumpLeaderEpochs({{id, min}}, [](Status) {});
    c.runtime.RunUntilIdle();
  };
  raise(2);
  for (int i = 0; i < 6; ++i) c.Log().AppendLocal(conformance::DataBatch({}, 10));  // 0-59 @3
  raise(4);
  for (int i = 0; i < 4; ++i) c.Log().AppendLocal(conformance::DataBatch({}, 10));  // 60-99 @5

  SourceModel::Topic& topic = c.source.AddTopic("t");
  SourceModel::Partition& b = topic.partitions[0];
  for (const MemoryLog::Batch& batch : c.Log().batches()) {
    b.log->Elect(batch.info.leader_epoch, true);
    b.log->AppendLocal(batch.bytes);
  }
  ASSERT_EQ(b.log->Bytes(), c.Log().Bytes());
  c.source.Elect("t", 16);
  b.log->AppendLocal(conformance::Reset(100, 16));  // 100
  c.source.Append("t", 49);                         // 101-149
  b.position = {.authoritative = true,
                .active = false,
                .active_state = {},
                .last_mirror_epoch = 5,
                .last_mirror_offset = 100};
  c.Log().AppendLocal(conformance::DataBatch({}, 5));  // A alone: 100-104 @5
  raise(5);
  c.Log().AppendLocal(conformance::DataBatch({}, 5));  // 105-109 @6
  ASSERT_EQ(c.Log().View().end, 110);

  ASSERT_EQ(c.CreateMirror(), ErrorCode::kNone);
  ASSERT_EQ(c.Start(), ErrorCode::kNone);
  ASSERT_TRUE(c.RunUntilCaughtUp());
  EXPECT_EQ(c.fetching->add_offsets, std::vector<int64_t>{100});
  EXPECT_EQ(c.Log().Bytes(), b.log->Bytes());
  EXPECT_EQ(c.LeaderEpoch(), 27);
  EXPECT_EQ(c.Path(), "PREPARING MIRRORING");
  // A second switch: LME 16, LMO 150.
  ASSERT_EQ(c.Stop(), ErrorCode::kNone);
  ASSERT_TRUE(c.RunUntilState(S::kStopped));
  EXPECT_EQ(c.Stored()->position, (statemachine::MirrorPosition{16, 150}));
  EXPECT_EQ(c.Log().batches().back().info.leader_epoch, 27);
}

TEST_F(LifeCycle, FailbackWaitsUntilTheOtherSidesStopIsComplete) {  // 3.1 step 4
  c.source.AddTopic("t");
  c.source.Append("t");
  c.source.At("t").position.active = true;
  c.source.At("t").position.active_state = "STOPPING";
  ASSERT_EQ(c.CreateMirror(), ErrorCode::kNone);
  ASSERT_EQ(c.Start(), ErrorCode::kNone);
  ASSERT_TRUE(c.RunUntilState(S::kFailed));
  EXPECT_THAT(c.Stored()->reason, ::testing::HasSubstr("STOPPING"));
  EXPECT_EQ(c.fetching->adds, 0);
  c.source.At("t").position.active = false;
  EXPECT_TRUE(c.RunUntilCaughtUp());
}

TEST_F(LifeCycle, AMirrorLoopFailsAndIsRetriedUntilItIsGone) {  // S67
  c.source.AddTopic("t");
  c.source.Append("t");
  c.source.mirrors.push_back({"back", "memory-cluster-BBBBBBB", {"t"}});
  ASSERT_EQ(c.CreateMirror(), ErrorCode::kNone);
  ASSERT_EQ(c.Start(), ErrorCode::kNone);
  ASSERT_TRUE(c.RunUntilState(S::kFailed));
  EXPECT_THAT(c.Stored()->reason, ::testing::HasSubstr("mirror loop"));
  EXPECT_THAT(c.Stored()->reason, ::testing::HasSubstr("back"));
  EXPECT_EQ(c.Log().View().end, 0);
  EXPECT_EQ(c.fetching->adds, 0);
  c.source.mirrors[0].topics = {"other"};
  EXPECT_TRUE(c.RunUntilCaughtUp());
}

TEST_F(LifeCycle, ALogThatIsNotEmptyAndHasNoPositionIsNeverEmptiedSilently) {  // R26
  c.source.AddTopic("t");
  c.source.Append("t", 4);
  host::NewTopic old;
  old.name = "t";
  old.id.bytes.fill(0x51);
  ASSERT_TRUE(c.host.controller().CreateTopicNow(old).ok());
  for (int i = 0; i < 5; ++i) ASSERT_EQ(c.Produce(), ErrorCode::kNone);
  const auto before = c.Log().Bytes();
  ASSERT_EQ(c.CreateMirror(), ErrorCode::kNone);
  ASSERT_EQ(c.Start(), ErrorCode::kNone);
  ASSERT_TRUE(c.RunUntilState(S::kFailed));
  c.Advance(minutes(30));
  EXPECT_EQ(c.Path(), "PREPARING FAILED");
  EXPECT_EQ(c.Stored()->attempt, -1);
  EXPECT_THAT(c.Stored()->reason, ::testing::HasSubstr("no common position"));
  EXPECT_THAT(c.Stored()->reason, ::testing::HasSubstr("[0, 5)"));
  EXPECT_EQ(c.Log().Bytes(), before);
  EXPECT_EQ(c.Recover(), 1);
  c.Advance(minutes(1));
  EXPECT_EQ(c.State(), S::kFailed);
  EXPECT_EQ(c.Log().Bytes(), before) << "recover gives no permission to discard";
  // R31: the operator allows it, and the log is copied anew.
  ASSERT_EQ(c.Start("t", "m", true), ErrorCode::kNone);
  ASSERT_TRUE(c.RunUntilCaughtUp());
  EXPECT_EQ(c.Log().Bytes(), c.source.Log("t").Bytes());
  EXPECT_GE(c.runtime.CountLines("event=discard-local range=[0, 5)"), 1u);
}

TEST_F(LifeCycle, APermissionToDiscardOfARefusedStartDoesNotOutliveIt) {  // R31
  c.source.AddTopic("t");
  c.source.Append("t", 4);
  host::NewTopic old;
  old.name = "t";
  old.id.bytes.fill(0x51);
  ASSERT_TRUE(c.host.controller().CreateTopicNow(old).ok());
  ASSERT_EQ(c.Produce(), ErrorCode::kNone);
  const auto before = c.Log().Bytes();
  ASSERT_EQ(c.CreateMirror(), ErrorCode::kNone);
  c.host.controller().script().Next("SetMirrorNames", Fault::kRefuse,
                                    {ErrorCode::kNotController, "moved"});
  ASSERT_EQ(c.Start("t", "m", true), ErrorCode::kNotController);
  ASSERT_EQ(c.Start("t", "m", false), ErrorCode::kNone);
  ASSERT_TRUE(c.RunUntilState(S::kFailed));
  c.Advance(minutes(1));
  EXPECT_EQ(c.Log().Bytes(), before);
  EXPECT_THAT(c.Stored()->reason, ::testing::HasSubstr("no common position"));
}

TEST_F(LifeCycle, ACrashBeforeADiscardDoesNotTurnLocalRecordsIntoMirroredOnes) {  // R26
  // Both clusters count epochs from 0, so the epoch exchange alone would take the local records for
  // the source's.
  c.source.AddTopic("t");
  c.source.Append("t", 8);
  host::NewTopic old;
  old.name = "t";
  old.id.bytes.fill(0x51);
  ASSERT_TRUE(c.host.controller().CreateTopicNow(old).ok());
  for (int i = 0; i < 5; ++i) ASSERT_EQ(c.Produce(), ErrorCode::kNone);
  ASSERT_EQ(c.CreateMirror(), ErrorCode::kNone);
  c.Log().script().Next(MemoryLog::kRestartAt, Fault::kHold);
  ASSERT_EQ(c.Start("t", "m", true), ErrorCode::kNone);
  ASSERT_TRUE(c.RunUntil([&] { return c.Log().script().held(MemoryLog::kRestartAt) == 1; }));
  EXPECT_EQ(c.Stored()->progress, statemachine::Progress::kCutting);
  c.Kill();
  c.Boot();
  c.Advance(minutes(1));
  EXPECT_EQ(c.State(), S::kFailed);
  EXPECT_THAT(c.Stored()->reason, ::testing::HasSubstr("no common position"));
  EXPECT_EQ(c.fetching->adds, 0);
  ASSERT_EQ(c.Start("t", "m", true), ErrorCode::kNone);
  ASSERT_TRUE(c.RunUntilCaughtUp());
  EXPECT_EQ(c.Log().Bytes(), c.source.Log("t").Bytes());
}

TEST_F(LifeCycle, NotLoadedIsNotUnknown) {  // S92, R19
  StartCaughtUp(10, 5);
  c.Kill();
  c.host.state_topic().script().Always("Replay", Fault::kHold);
  c.Boot();
  const size_t appends = c.host.state_topic().appends();
  const auto history = c.Log().script().history().size();
  c.Advance(seconds(100));  // three refreshes
  EXPECT_EQ(c.Log().View().end, 10);
  EXPECT_EQ(c.Log().script().history().size(), history) << "the log was touched";
  EXPECT_EQ(c.host.state_topic().appends(), appends) << "a state was written";
  EXPECT_EQ(c.Describe().state_value, "UNKNOWN");
  EXPECT_THAT(c.Describe().error_message.value_or(""), ::testing::HasSubstr("loading"));
  EXPECT_EQ(c.Produce(), ErrorCode::kReadOnly);
  c.host.state_topic().script().Heal("Replay");
  c.host.state_topic().script().Release();
  ASSERT_TRUE(c.RunUntilCaughtUp());
  EXPECT_EQ(c.fetching->add_offsets, std::vector<int64_t>{10});
  EXPECT_EQ(c.Path(), "PREPARING MIRRORING");
}

TEST_F(LifeCycle, OneFailedPartitionDoesNotBlockTheStopOfTheOthers) {  // S96
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

TEST_F(LifeCycle, ADeletedSourceTopicIsFailedAndCanBeTakenOver) {  // S108 a, 4.4
  StartCaughtUp(3, 5);
  const SourceModel::Topic kept = c.source.topics.at("t");
  c.source.topics.erase("t");
  ASSERT_TRUE(c.RunUntilState(S::kFailed, minutes(5)));
  EXPECT_EQ(c.Stored()->attempt, -1);
  EXPECT_EQ(c.Produce(), ErrorCode::kReadOnly);
  EXPECT_GE(c.runtime.CountLines("deleted"), 1u);
  ASSERT_EQ(c.Stop(), ErrorCode::kNone);
  ASSERT_TRUE(c.RunUntilState(S::kStopped));
  EXPECT_EQ(c.Shape(), "0-2@5 R3@16");
  EXPECT_EQ(c.Produce(), ErrorCode::kNone);
}

TEST_F(LifeCycle, AReplacedSourceIsFailedAndCanBeTakenOver) {  // S108 b
  StartCaughtUp(3, 5);
  c.source.cluster_id = "another-cluster-ZZZZZZZ";
  ASSERT_TRUE(c.RunUntilState(S::kFailed, minutes(2)));
  EXPECT_EQ(c.Stored()->attempt, -1);
  const std::string reason = c.Stored()->reason;
  EXPECT_THAT(reason, ::testing::HasSubstr("another-cluster-ZZZZZZZ"));
  c.source.topics.erase("t");
  c.Advance(minutes(5));
  EXPECT_EQ(c.Stored()->reason, reason) << "the reason first given stays";
  ASSERT_EQ(c.Stop(), ErrorCode::kNone);
  ASSERT_TRUE(c.RunUntilState(S::kStopped));
  EXPECT_EQ(c.Shape(), "0-2@5 R3@16");
}

TEST_F(LifeCycle, ASourceTopicMadeAgainIsFoundByTheRefresh) {  // S102
  StartCaughtUp(3, 5);
  c.source.topics.erase("t");
  c.source.AddTopic("t", 1, 0x77);
  c.source.Append("t", 9);
  ASSERT_TRUE(c.RunUntilState(S::kFailed, seconds(61)));
  EXPECT_EQ(c.Stored()->attempt, -1);
  Uuid there;
  there.bytes.fill(0x77);
  EXPECT_THAT(c.Stored()->reason, ::testing::HasSubstr(there.ToString()));
  EXPECT_THAT(c.Stored()->reason, ::testing::HasSubstr(c.Id().topic_id.ToString()));
  EXPECT_EQ(c.Log().View().end, 3);
  ASSERT_EQ(c.Stop(), ErrorCode::kNone);
  EXPECT_TRUE(c.RunUntilState(S::kStopped));
}

// 7.2, R30: what a client is answered in every state.
TEST_F(LifeCycle, ClientsAreAnsweredByWhatIsWantedAndStored) {
  c.source.AddTopic("t");
  c.source.Elect("t", 5);
  c.source.Append("t", 3);
  ASSERT_EQ(c.CreateMirror(), ErrorCode::kNone);
  c.source.script.Always(SourceModel::kPositions, Fault::kHold);
  ASSERT_EQ(c.Start(), ErrorCode::kNone);
  ASSERT_TRUE(c.RunUntilState(S::kPreparing));
  EXPECT_EQ(c.Produce(), ErrorCode::kReadOnly) << "PREPARING";
  c.source.script.Heal(SourceModel::kPositions);
  c.source.script.Release();
  ASSERT_TRUE(c.RunUntilCaughtUp());
  EXPECT_EQ(c.Produce(), ErrorCode::kReadOnly) << "MIRRORING";
  c.fetching->HoldRemoves(true);
  ASSERT_EQ(c.Pause(), ErrorCode::kNone);
  ASSERT_TRUE(c.RunUntilState(S::kPausing));
  EXPECT_EQ(c.Produce(), ErrorCode::kReadOnly) << "PAUSING";
  c.fetching->HoldRemoves(false);
  ASSERT_TRUE(c.RunUntilState(S::kPaused));
  EXPECT_EQ(c.Produce(), ErrorCode::kReadOnly) << "PAUSED";
  c.Log().script().Next(MemoryLog::kAppendReset, Fault::kRefuse, {ErrorCode::kIo, "disk"});
  ASSERT_EQ(c.Stop(), ErrorCode::kNone);
  EXPECT_EQ(c.Produce(), ErrorCode::kNotEnoughReplicas) << "stop accepted";
  ASSERT_TRUE(c.RunUntilState(S::kFailed));
  EXPECT_EQ(c.Produce(), ErrorCode::kNotEnoughReplicas) << "FAILED in the stop";
  ASSERT_TRUE(c.RunUntilState(S::kStopped));
  EXPECT_EQ(c.Produce(), ErrorCode::kNone) << "STOPPED";
  c.Kill();
  c.host.state_topic().script().Always("Replay", Fault::kHold);
  c.Boot();
  c.Advance(seconds(1));
  EXPECT_EQ(c.Produce(), ErrorCode::kNotEnoughReplicas) << "state not loaded";
  c.host.state_topic().script().Heal("Replay");
  c.host.state_topic().script().Release();
  ASSERT_TRUE(c.RunUntilState(S::kStopped));
  EXPECT_EQ(c.Produce(), ErrorCode::kNone);
  ASSERT_EQ(c.Start(), ErrorCode::kNone);
  EXPECT_EQ(c.Produce(), ErrorCode::kReadOnly) << "wanted again";
}

TEST_F(LifeCycle, AStopBeforeAnythingWasMirroredTouchesNothing) {
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

TEST_F(LifeCycle, AStopAfterACutKeepsThePositionAndStillWritesMarkers) {  // 6.3 Progress 1
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

TEST_F(LifeCycle, StopWithTruncatePolicyCutsToTheStableOffsetBeforeThePosition) {  // R4
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

TEST_F(LifeCycle, AnEpochAheadIsFencedAndRaised) {  // 3.5
  StartCaughtUp(3, 5);
  c.source.Elect("t", 40);
  c.source.Append("t", 2);
  ASSERT_TRUE(c.RunUntilCaughtUp());
  EXPECT_EQ(c.Path(), "PREPARING MIRRORING EPOCH_FENCING MIRRORING");
  EXPECT_EQ(c.LeaderEpoch(), 51);
  EXPECT_EQ(c.Log().Bytes(), c.source.Log("t").Bytes());
}

TEST_F(LifeCycle, AnEpochThatComesNearIsRaisedInTheBackground) {  // 3.5 proactive
  StartCaughtUp(3, 5);
  c.source.Elect("t", 15);
  c.source.Append("t", 2);
  ASSERT_TRUE(c.RunUntil([&] { return c.LeaderEpoch() == 26; }));
  EXPECT_TRUE(c.RunUntilCaughtUp());
  EXPECT_EQ(c.Path(), "PREPARING MIRRORING");
}

TEST_F(LifeCycle, TheSourceLeaderMovingIsNoFailure) {  // 4.1, R10
  StartCaughtUp(3, 5);
  c.source.brokers[2] = {"source2", 9092};
  c.source.At("t").leader_id = 2;
  c.source.At("t").leader_epoch = 6;
  c.fetching->Stop(c.Id(), fetcher::FetchStop::kLeaderUnknown);
  ASSERT_TRUE(c.RunUntil([&] {
    const auto* assignment = c.fetching->Assignment(c.Id());
    return assignment != nullptr && assignment->leader_id == 2;
  }));
  EXPECT_EQ(c.fetching->Assignment(c.Id())->source_leader_epoch, 6);
  EXPECT_EQ(c.Path(), "PREPARING MIRRORING");
}

TEST_F(LifeCycle, FollowingATruncatedSourceWaitsForEveryReplica) {  // ULE_RECOVERY
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
  c.Advance(minutes(1));
  EXPECT_EQ(c.State(), S::kUleRecovery);
  c.Log().SetInSync(0, true);
  ASSERT_TRUE(c.RunUntilCaughtUp());
  EXPECT_EQ(c.Path(), "PREPARING MIRRORING ULE_RECOVERY MIRRORING");
}

TEST_F(LifeCycle, DivergenceWithoutSupportIsFinalAndCutsNothing) {  // R13
  StartCaughtUp(3, 5);
  c.fetching->Stop(c.Id(), fetcher::FetchStop::kDiverged, 1, 5);
  ASSERT_TRUE(c.RunUntilState(S::kFailed));
  EXPECT_EQ(c.Stored()->attempt, -1);
  c.Advance(minutes(10));
  EXPECT_EQ(c.State(), S::kFailed);
  EXPECT_EQ(c.Log().View().end, 3);
  EXPECT_EQ(c.Log().script().calls(MemoryLog::kTruncate), 0u);
}

TEST_F(LifeCycle, FailuresAreCountedAndForgottenWhenDataFlows) {  // 2.3, 2.5
  StartCaughtUp(3, 5);
  c.Log().FailNextAppend(host::AppendCode::kIo);
  c.Log().FailNextAppend(host::AppendCode::kIo);
  c.source.Append("t");
  ASSERT_TRUE(c.RunUntilState(S::kFailed));
  EXPECT_EQ(c.Stored()->attempt, 1);
  EXPECT_EQ(c.Stored()->previous, S::kMirroring);
  ASSERT_TRUE(c.RunUntil([&] { return c.Stored()->attempt == 2; }));
  ASSERT_TRUE(c.RunUntil([&] { return c.Log().View().end == 4; }));
  ASSERT_TRUE(c.RunUntil([&] { return c.Stored()->attempt == 0; }));
  EXPECT_EQ(c.Stored()->reason, "");
  EXPECT_EQ(c.State(), S::kMirroring);
}

TEST_F(LifeCycle, AttemptsEndAtTheConfiguredNumberAndRecoverStartsAnew) {  // 2.5, 2.7
  c.Kill();
  c.options.failed_retry_max_attempts = 3;
  c.Boot();
  StartCaughtUp(3, 5);
  c.source.Append("t");
  for (int i = 0; i < 3; ++i) c.Log().FailNextAppend(host::AppendCode::kIo);
  ASSERT_TRUE(c.RunUntil([&] { return c.Stored()->attempt == 3; }));
  c.Advance(minutes(30));
  EXPECT_EQ(c.State(), S::kFailed);
  EXPECT_EQ(c.Recover(), 1);
  ASSERT_TRUE(c.RunUntilCaughtUp());
  EXPECT_EQ(c.Recover(), 0) << "healthy topics are left out";
}

TEST_F(LifeCycle, GrowthOfTheSourceIsFollowed) {  // 4.3
  StartCaughtUp(3, 5);
  SourceModel::Topic& topic = c.source.topics.at("t");
  topic.partitions.emplace_back();
  topic.partitions[1].log = std::make_shared<MemoryLog>(&c.runtime, c.source.lane.get(), false);
  topic.partitions[1].log->Elect(0, true);
  c.source.Append("t", 7, 1);
  ASSERT_TRUE(c.RunUntilCaughtUp("t", 1));
  EXPECT_EQ(c.Path("t", 1), "PREPARING MIRRORING");
  EXPECT_EQ(c.Log("t", 1).View().end, 7);
  EXPECT_EQ(c.host.controller().script().calls("CreatePartitions"), 1u);
}

TEST_F(LifeCycle,
       PartitionsTheSourceDoesNotHaveWaitWithoutHammeringAndDoNotBlockAStop) {  // 4.3, S10
  StartCaughtUp(3, 5);
  c.host.controller().CreatePartitions(c.Id().topic_id, 2, [](Status) {});
  ASSERT_TRUE(c.RunUntilState(S::kPreparing, minutes(1), "t", 1));
  const size_t before = c.source.script.calls(SourceModel::kDescribe);
  c.Advance(minutes(1));
  EXPECT_LT(c.source.script.calls(SourceModel::kDescribe) - before, 30u)
      << "the source is asked in a loop";
  EXPECT_EQ(c.State("t", 1), S::kPreparing);
  EXPECT_NE(c.Describe("t", 1).error_message.value_or(""), "");
  ASSERT_EQ(c.Stop(), ErrorCode::kNone);
  EXPECT_TRUE(c.RunUntilState(S::kStopped, minutes(1), "t", 0));
  EXPECT_TRUE(c.RunUntilState(S::kStopped, minutes(1), "t", 1));
}

TEST_F(LifeCycle, AStartTowardsADeadSourceStaysPreparing) {  // R33
  c.source.AddTopic("t");
  c.source.Append("t", 3);
  ASSERT_EQ(c.CreateMirror(), ErrorCode::kNone);
  ASSERT_EQ(c.Start(), ErrorCode::kNone);
  c.source.reachable = false;
  c.Advance(minutes(20));
  EXPECT_EQ(c.State(), S::kPreparing);
  EXPECT_EQ(c.Path(), "PREPARING");
  EXPECT_THAT(c.Describe().error_message.value_or(""), ::testing::HasSubstr("refused"));
  c.source.reachable = true;
  EXPECT_TRUE(c.runtime.RunUntil([&] { return c.State() == S::kMirroring; }, minutes(6)));
}

TEST_F(LifeCycle, AFetcherThatLosesItsLeaderDuringAStateWriteDoesNotStopTheWrite) {
  StartCaughtUp(3, 5);
  c.Log().FailNextAppend(host::AppendCode::kIo);
  c.source.Append("t");
  ASSERT_TRUE(c.RunUntilState(S::kFailed));
  c.host.state_topic().script().Heal("Append");
  ASSERT_TRUE(c.RunUntilState(S::kMirroring));
  // The write that forgets the failure meets a full disk; meanwhile the source's leader moves.
  c.host.state_topic().script().Always("Append", Fault::kRefuse, {ErrorCode::kNoSpace, "full"});
  ASSERT_TRUE(c.RunUntil([&] { return c.runtime.CountLines("shard-append-failed") > 0; }));
  c.fetching->Stop(c.Id(), fetcher::FetchStop::kLeaderUnknown);
  c.Advance(seconds(30));
  c.host.state_topic().script().Heal("Append");
  ASSERT_EQ(c.Stop(), ErrorCode::kNone);
  EXPECT_TRUE(c.RunUntilState(S::kStopped));
}

TEST_F(LifeCycle, AChangedConnectionStartsTheFetcherAnewAlsoDuringAStateWrite) {
  StartCaughtUp(3, 5);
  c.Log().FailNextAppend(host::AppendCode::kIo);
  c.source.Append("t");
  ASSERT_TRUE(c.RunUntilState(S::kFailed));
  ASSERT_TRUE(c.RunUntilState(S::kMirroring));
  c.host.state_topic().script().Always("Append", Fault::kRefuse, {ErrorCode::kNoSpace, "full"});
  ASSERT_TRUE(c.RunUntil([&] { return c.runtime.CountLines("shard-append-failed") > 0; }));
  c.host.controller().SetMirrorConfigs("m", {{"bootstrap.servers", "elsewhere:9092"}}, false,
                                       [](Status) {});
  c.runtime.RunUntilIdle();
  c.host.state_topic().script().Heal("Append");
  c.source.Append("t");
  EXPECT_TRUE(c.RunUntilCaughtUp());
  EXPECT_TRUE(c.RunUntil([&] { return c.Stored()->attempt == 0; }));
}

TEST_F(LifeCycle, ADeletionSeenWhileTheStateLoadsIsNotForgotten) {
  StartCaughtUp(3, 5);
  c.Kill();
  c.source.topics.erase("t");
  c.host.state_topic().script().Always("Replay", Fault::kHold);
  c.Boot();
  c.Advance(minutes(5));
  c.host.state_topic().script().Heal("Replay");
  c.host.state_topic().script().Release();
  ASSERT_TRUE(c.RunUntilState(S::kFailed));
  EXPECT_EQ(c.Stored()->attempt, -1);
}

TEST_F(LifeCycle, AnAmbiguousStateWriteIsReadAgainBeforeAnotherDecision) {  // R29
  StartCaughtUp(3, 5);
  ASSERT_EQ(c.Stop(), ErrorCode::kNone);
  ASSERT_TRUE(c.RunUntilState(S::kStopped));
  // PREPARING lands, its answer does not; the operator has changed his mind meanwhile.
  c.host.state_topic().script().Next("Append", Fault::kLoseAnswer, {ErrorCode::kTimedOut, "lost"});
  ASSERT_EQ(c.Start(), ErrorCode::kNone);
  ASSERT_TRUE(c.RunUntil([&] { return c.Path().ends_with("STOPPED PREPARING"); }));
  ASSERT_TRUE(c.RunUntil([&] { return c.runtime.CountLines("shard-append-failed") > 0; }));
  ASSERT_EQ(c.Stop(), ErrorCode::kNone);
  c.Advance(minutes(1));
  EXPECT_EQ(c.State(), S::kStopped);
  EXPECT_EQ(c.Stored()->state, S::kStopped);
  EXPECT_EQ(c.Produce(), ErrorCode::kNone);
  EXPECT_EQ(c.Shape(), "0-2@5 R3@16 4@16");
}

TEST_F(LifeCycle, AShutdownLeavesNothingBehindThatCallsTheHost) {
  StartCaughtUp(3, 5);
  // A create waits for a source that does not answer, a shard for its replay.
  c.source.script.Always(SourceModel::kDescribe, Fault::kHold);
  protocol::CreateClusterMirrorRequest create;
  create.mirror_name = "other";
  create.config.push_back({"bootstrap.servers", "source:9092"});
  std::optional<std::vector<uint8_t>> answer;
  c.Send(create, &answer);
  protocol::StartMirrorTopicsRequest start;
  start.mirror_name = "m";
  start.topics.push_back({.topic_id = c.Id().topic_id, .topic_name = "u", .num_partitions = 1});
  start.topics[0].topic_id.bytes.fill(0x99);
  c.Send(start);
  c.runtime.RunUntilIdle();
  c.host.state_topic().script().Always("Append", Fault::kRefuse, {ErrorCode::kNoSpace, "full"});
  c.host.state_topic().script().Always("Replay", Fault::kRefuse, {ErrorCode::kIo, "broken"});
  c.fetching->Stop(c.Id(), fetcher::FetchStop::kLocalError, -1, -1, "test");
  c.Advance(seconds(1));
  bool done = false;
  c.mirror->Shutdown(seconds(1), [&] { done = true; });
  c.runtime.RunUntilIdle();
  ASSERT_TRUE(done);
  c.source.script.Heal(SourceModel::kDescribe);
  c.source.script.Release();
  const auto topic_calls = c.host.state_topic().script().history().size();
  const auto controller_calls = c.host.controller().script().history().size();
  c.Advance(minutes(5));
  EXPECT_EQ(c.host.state_topic().script().history().size(), topic_calls);
  EXPECT_EQ(c.host.controller().script().history().size(), controller_calls);
  EXPECT_EQ(c.source.open_clients, 0);
  EXPECT_TRUE(answer.has_value());
}

TEST_F(LifeCycle, ANewLeaderWaitsForTheStateWriteOfTheOldOne) {
  StartCaughtUp(3, 5);
  ASSERT_EQ(c.Stop(), ErrorCode::kNone);
  ASSERT_TRUE(c.RunUntilState(S::kStopped));
  c.host.state_topic().script().Next("Append", Fault::kHold);
  ASSERT_EQ(c.Start(), ErrorCode::kNone);
  ASSERT_TRUE(c.RunUntil([&] { return c.host.state_topic().script().held("Append") == 1; }));
  // PREPARING of the old leader is on its way. The new one must not take STOPPED for the truth.
  ASSERT_TRUE(c.host.controller().ElectNow(c.Id(), 9).ok());
  c.runtime.RunUntilIdle();
  ASSERT_TRUE(c.host.controller().ElectNow(c.Id(), 0).ok());
  ASSERT_EQ(c.Stop(), ErrorCode::kNone);
  c.Advance(seconds(10));
  EXPECT_EQ(c.Produce(), ErrorCode::kNotEnoughReplicas);
  c.host.state_topic().script().Release();
  ASSERT_TRUE(c.RunUntilState(S::kStopped));
  EXPECT_EQ(c.Produce(), ErrorCode::kNone);
  EXPECT_EQ(c.Path(), "PREPARING MIRRORING STOPPING STOPPED PREPARING STOPPING STOPPED");
}

}  // namespace
}  // namespace kmirror::coordinator
