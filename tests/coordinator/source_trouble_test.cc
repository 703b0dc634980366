// A source that moves, falls silent, grows, truncates, vanishes or is another one; fetchers that
// fail.
#include <algorithm>
#include <tuple>

#include "tests/coordinator/coordinator_fixture.h"

namespace kmirror::coordinator {
namespace {

using S = MirrorPartitionState;
using conformance::Fault;
using conformance::MemoryLog;
using std::chrono::minutes;
using std::chrono::seconds;

using SourceTrouble = CoordinatorTest;

TEST_F(SourceTrouble, ADeletedSourceTopicIsFailedAndCanBeTakenOver) {  // S108 a, 4.4
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

TEST_F(SourceTrouble, AReplacedSourceIsFailedAndCanBeTakenOver) {  // S108 b
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

TEST_F(SourceTrouble, ARecoverAsksTheSourceAgainAtOnce) {
  StartCaughtUp(3, 5);
  const std::string right = c.source.cluster_id;
  c.source.cluster_id = "another-cluster-ZZZZZZZ";
  ASSERT_TRUE(c.RunUntilState(S::kFailed, minutes(2)));
  c.source.cluster_id = right;
  c.source.Append("t");
  EXPECT_EQ(c.Recover(), 1);
  ASSERT_TRUE(c.RunUntil([&] { return c.Log().View().end == 4; }, seconds(10)))
      << "long before the refresh that is due";
  EXPECT_TRUE(c.RunUntil([&] { return !c.Describe().error_message.has_value(); }, seconds(10)));
}

TEST_F(SourceTrouble, ASourceTopicMadeAgainIsFoundByTheRefresh) {  // S102
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

TEST_F(SourceTrouble, AnEpochAheadIsFencedAndRaised) {  // 3.5
  StartCaughtUp(3, 5);
  c.source.Elect("t", 40);
  c.source.Append("t", 2);
  ASSERT_TRUE(c.RunUntilCaughtUp());
  EXPECT_EQ(c.Path(), "PREPARING MIRRORING EPOCH_FENCING MIRRORING");
  EXPECT_EQ(c.LeaderEpoch(), 51);
  EXPECT_EQ(c.Log().Bytes(), c.source.Log("t").Bytes());
}

TEST_F(SourceTrouble, AnEpochThatComesNearIsRaisedInTheBackground) {  // 3.5 proactive
  StartCaughtUp(3, 5);
  c.source.Elect("t", 15);
  c.source.Append("t", 2);
  ASSERT_TRUE(c.RunUntil([&] { return c.LeaderEpoch() == 26; }));
  EXPECT_TRUE(c.RunUntilCaughtUp());
  EXPECT_EQ(c.Path(), "PREPARING MIRRORING");
}

TEST_F(SourceTrouble, TheSourceLeaderMovingIsNoFailure) {  // 4.1, R10
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

TEST_F(SourceTrouble, FollowingATruncatedSourceWaitsForEveryReplica) {  // ULE_RECOVERY
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

TEST_F(SourceTrouble, DivergenceWithoutSupportIsFinalAndCutsNothing) {  // R13
  StartCaughtUp(3, 5);
  c.fetching->Stop(c.Id(), fetcher::FetchStop::kDiverged, 1, 5);
  ASSERT_TRUE(c.RunUntilState(S::kFailed));
  EXPECT_EQ(c.Stored()->attempt, -1);
  c.Advance(minutes(10));
  EXPECT_EQ(c.State(), S::kFailed);
  EXPECT_EQ(c.Log().View().end, 3);
  EXPECT_EQ(c.Log().script().calls(MemoryLog::kTruncate), 0u);
}

TEST_F(SourceTrouble, FailuresAreCountedAndForgottenWhenDataFlows) {  // 2.3, 2.5
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

TEST_F(SourceTrouble, AttemptsEndAtTheConfiguredNumberAndRecoverStartsAnew) {  // 2.5, 2.7
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

TEST_F(SourceTrouble, GrowthOfTheSourceIsFollowed) {  // 4.3
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

TEST_F(SourceTrouble,
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

TEST_F(SourceTrouble, AStartTowardsADeadSourceStaysPreparing) {  // R33
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

TEST_F(SourceTrouble, AHungSourceDelaysNoRetryAndNoRequestOfAnotherMirror) {  // S91
  constexpr int kPartitions = 10;
  for (const auto& [name, mirror, seed] :
       {std::tuple{"t1", "m1", uint8_t{1}}, {"t2", "m2", uint8_t{2}}}) {
    c.source.AddTopic(name, kPartitions, seed);
    for (int p = 0; p < kPartitions; ++p) c.source.Append(name, 1, p);
    ASSERT_EQ(c.CreateMirror(mirror), ErrorCode::kNone);
    ASSERT_EQ(c.Start(name, mirror), ErrorCode::kNone);
    for (int p = 0; p < kPartitions; ++p) ASSERT_TRUE(c.RunUntilCaughtUp(name, p));
  }
  c.Kill();
  c.source.hung.insert("m1");
  c.Boot();
  for (int p = 0; p < kPartitions; ++p) {
    ASSERT_TRUE(c.RunUntilState(S::kMirroring, seconds(30), "t2", p));
  }
  for (const char* request : {"describe", "pause", "resume"}) {
    for (const auto& [name, mirror] : {std::pair{"t1", "m1"}, {"t2", "m2"}}) {
      const auto asked = c.runtime.MonotonicNow();
      if (*request == 'd') c.Describe(name, 0, mirror);
      if (*request == 'p') EXPECT_EQ(c.Pause(name, mirror), ErrorCode::kNone);
      if (*request == 'r') EXPECT_EQ(c.Resume(name, mirror), ErrorCode::kNone);
      EXPECT_LT(c.runtime.MonotonicNow() - asked, seconds(1)) << request << " " << mirror;
    }
  }
  for (int p = 0; p < kPartitions; ++p) {
    ASSERT_TRUE(c.RunUntilState(S::kMirroring, seconds(30), "t2", p));
    c.Log("t2", p).FailNextAppend(host::AppendCode::kIo);
    c.source.Append("t2", 1, p);
  }
  // Every partition's times of failing and of trying again, a millisecond at a time.
  using std::chrono::milliseconds;
  using std::chrono::nanoseconds;
  struct Seen {
    nanoseconds failed{-1};
    nanoseconds retried{-1};
  };
  std::vector<Seen> seen(kPartitions);
  const auto all_retried = [&] {
    return std::ranges::all_of(seen, [](const Seen& each) { return each.retried.count() >= 0; });
  };
  for (int step = 0; step < 5000 && !all_retried(); ++step) {
    c.Advance(milliseconds(1));
    for (int p = 0; p < kPartitions; ++p) {
      Seen& one = seen[static_cast<size_t>(p)];
      const bool failed = c.State("t2", p) == S::kFailed;
      if (failed && one.failed.count() < 0) one.failed = c.runtime.MonotonicNow();
      if (!failed && one.failed.count() >= 0 && one.retried.count() < 0) {
        one.retried = c.runtime.MonotonicNow();
      }
    }
  }
  ASSERT_TRUE(all_retried());
  // The first attempt is due after twice the initial backoff, give or take a fifth; and its state
  // is written before it shows.
  constexpr milliseconds kWrite{20};
  const nanoseconds due = 2 * c.options.failed_retry_initial_backoff;
  for (int p = 0; p < kPartitions; ++p) {
    SCOPED_TRACE(p);
    const Seen& one = seen[static_cast<size_t>(p)];
    EXPECT_GE(one.retried - one.failed, due * 8 / 10 - milliseconds(2));
    EXPECT_LE(one.retried - one.failed, due * 12 / 10 + kWrite);
    ASSERT_TRUE(c.RunUntilCaughtUp("t2", p));
    // Armed once: one failure, one more attempt.
    int attempt = 0;
    for (const statemachine::PartitionRecord& record : c.History("t2", p, "m2")) {
      EXPECT_LE(record.attempt, attempt + 1);
      attempt = record.attempt;
      EXPECT_LE(attempt, 1);
    }
    EXPECT_EQ(c.State("t1", p), S::kMirroring) << "hung is not failed";
  }
  c.source.hung.clear();
  c.source.Append("t1");
  EXPECT_TRUE(c.RunUntilCaughtUp("t1"));
}

TEST_F(SourceTrouble, AFetcherThatLosesItsLeaderDuringAStateWriteDoesNotStopTheWrite) {
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

TEST_F(SourceTrouble, AChangedConnectionStartsTheFetcherAnewAlsoDuringAStateWrite) {
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

TEST_F(SourceTrouble, AConnectionChangedForTheWorseShowsItsReason) {
  StartCaughtUp(3, 5);
  c.source.reachable = false;
  const auto change = [this](const char* address) {
    c.host.controller().SetMirrorConfigs("m", {{"bootstrap.servers", address}}, false,
                                         [](Status) {});
  };
  change("elsewhere:9092");
  // Not only that the new source was not asked yet: what it came to.
  ASSERT_TRUE(c.RunUntil(
      [&] { return c.Describe().error_message.value_or("").starts_with("source unreachable: "); },
      seconds(30)))
      << c.Describe().error_message.value_or("");
  EXPECT_EQ(c.Describe().state_value, "MIRRORING");
  c.source.reachable = true;
  change("here:9092");
  c.source.Append("t");
  EXPECT_TRUE(c.RunUntilCaughtUp());
  EXPECT_FALSE(c.Describe().error_message.has_value());
}

TEST_F(SourceTrouble, ADeletionSeenWhileTheStateLoadsIsNotForgotten) {
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

}  // namespace
}  // namespace kmirror::coordinator
