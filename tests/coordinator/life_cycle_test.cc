// Start, pause, resume and start again: which states are stored in which order, what is cut, and
// who may write meanwhile. Numbers S.. are scenarios of the specification.
#include "conformance/mirrored_batches.h"
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
