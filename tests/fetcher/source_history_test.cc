// Epochs, divergence, gaps and trims of the source.
#include "messages/offset_for_leader_epoch.h"
#include "src/protocol/body.h"
#include "tests/fetcher/fault_fixture.h"

namespace kmirror::fetcher::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

// ---- Epochs.

TEST_F(FaultTest, ABatchEpochAboveTheLocalOneStopsBeforeAnyAppend) {
  const auto key = Copied(1);
  auto& partition = source.At("t", 0);
  partition.leader_epoch = kLocalEpoch + 1;
  partition.hint_leader = true;
  source.Append("t", 0);
  ASSERT_TRUE(Stopped());
  EXPECT_EQ(events.stopped[0].why, FetchStop::kEpochAhead);
  EXPECT_EQ(events.stopped[0].epoch, kLocalEpoch + 1);
  EXPECT_EQ(LogOf(key).View().end, 1);
}

TEST_F(FaultTest, AnEpochNearTheLocalOneIsToldOnceAndFetchingGoesOn) {
  const auto key = Copied(1);
  auto& partition = source.At("t", 0);
  partition.leader_epoch = kLocalEpoch - 2;
  partition.hint_leader = true;
  source.Append("t", 0);
  source.Append("t", 0);
  ASSERT_TRUE(CaughtUp(key, "t"));
  source.Append("t", 0);
  ASSERT_TRUE(CaughtUp(key, "t"));
  runtime.RunUntilIdle();
  EXPECT_THAT(events.near, ElementsAre(kLocalEpoch - 2));
  // After the bump it may come near again.
  LogOf(key).Elect(kLocalEpoch + 10, true);
  manager->UpdateLocalEpoch(key, kLocalEpoch + 10);
  partition.leader_epoch = kLocalEpoch + 8;
  source.Append("t", 0);
  ASSERT_TRUE(CaughtUp(key, "t"));
  runtime.RunUntilIdle();
  EXPECT_THAT(events.near, ElementsAre(kLocalEpoch - 2, kLocalEpoch + 8));
  EXPECT_THAT(events.stopped, IsEmpty());
}

TEST_F(FaultTest, AnAppendThatIsFencedWaitsForTheNewLocalEpoch) {
  const auto key = Copied(1);
  LogOf(key).Elect(kLocalEpoch + 10, true);
  source.Append("t", 0);
  runtime.Advance(5s);
  EXPECT_EQ(LogOf(key).View().end, 1);
  EXPECT_THAT(events.stopped, IsEmpty());
  manager->UpdateLocalEpoch(key, kLocalEpoch + 10);
  EXPECT_TRUE(CaughtUp(key, "t"));
}

// S71.
TEST_F(FaultTest, ASourceThatNamesAnEpochOlderThanItsBatchesIsRefreshedAndThenBelieved) {
  const auto key = Topic("t");
  source.At("t", 0).leader_epoch = 5;
  source.Append("t", 0, 3);
  source.At("t", 0).leader_epoch = 4;
  int refreshes = 0;
  events.on_stopped = [&](const FetchStopped& stopped) {
    ASSERT_EQ(stopped.why, FetchStop::kLeaderUnknown);
    ++refreshes;
    Add(key, "t");  // the source's metadata still says 4
  };
  Start();
  Add(key, "t");
  ASSERT_TRUE(CaughtUp(key, "t"));
  ExpectSameBytes(key, "t");
  EXPECT_EQ(refreshes, 1);
  size_t at_zero = 0;
  for (const auto& fetch : source.Fetches()) {
    for (const auto& topic : fetch.topics) at_zero += topic.partitions.at(0).fetch_offset == 0;
  }
  EXPECT_LE(at_zero, 5u);
}

TEST_F(FaultTest, TheEpochExchangeComesBeforeTheFirstFetchOfALogWithData) {
  const auto key = Copied(3);
  EXPECT_EQ(source.Count(23), 0u) << "an empty log has no epoch to ask about";
  EXPECT_TRUE(Remove(key));
  source.asked.clear();
  source.Append("t", 0);
  Add(key, "t");
  ASSERT_TRUE(CaughtUp(key, "t"));
  ASSERT_FALSE(source.asked.empty());
  EXPECT_EQ(source.asked[0].api_key, 23);
  protocol::OffsetForLeaderEpochRequest request;
  ASSERT_TRUE(protocol::DecodeBody(source.asked[0].body, source.asked[0].version, &request).ok());
  EXPECT_EQ(request.replica_id, -2);
}

// S74: the source lost offsets and the mirror may not cut.
TEST_F(FaultTest, DivergenceIsReportedBeforeAnythingIsCut) {
  for (const int16_t version : {int16_t{17}, int16_t{11}}) {
    SCOPED_TRACE(version);
    events = {};
    source.max_fetch_version = version;
    const auto key = Topic("t" + std::to_string(version), 0, static_cast<uint8_t>(version));
    const std::string topic = "t" + std::to_string(version);
    for (int i = 0; i < 30; ++i) source.Append(topic, 0);
    if (manager == nullptr) Start();
    Add(key, topic);
    ASSERT_TRUE(CaughtUp(key, topic));
    runtime.Advance(1s);
    source.LoseTail(topic, 0, 20, 1);
    for (int i = 0; i < 5; ++i) source.Append(topic, 0);
    // An old source fences first, and the coordinator adds again with the new epoch.
    ASSERT_TRUE(Stopped());
    if (events.stopped[0].why == FetchStop::kLeaderUnknown) {
      events.stopped.clear();
      Add(key, topic);
      ASSERT_TRUE(Stopped());
    }
    EXPECT_EQ(events.stopped[0].why, FetchStop::kDiverged);
    EXPECT_EQ(events.stopped[0].offset, 20);
    EXPECT_EQ(LogOf(key).View().end, 30);
  }
}

// S73: and when it may.
TEST_F(FaultTest, DivergenceIsCutWhereTheSourcesBegin) {
  const auto key = Topic("t");
  for (int i = 0; i < 30; ++i) source.Append("t", 0);
  Start();
  auto assignment = Assignment(key, "t");
  assignment.may_truncate = true;
  manager->Add("m", assignment);
  ASSERT_TRUE(CaughtUp(key, "t"));
  source.At("t", 0).hint_leader = true;
  source.LoseTail("t", 0, 20, 1);
  for (int i = 0; i < 5; ++i) source.Append("t", 0);
  ASSERT_TRUE(Stopped());
  EXPECT_EQ(events.stopped[0].why, FetchStop::kTruncated);
  EXPECT_EQ(events.stopped[0].offset, 20);
  EXPECT_EQ(LogOf(key).View().end, 20);
  Add(key, "t");
  ASSERT_TRUE(CaughtUp(key, "t"));
  ExpectSameBytes(key, "t");
}

TEST_F(FaultTest, NoCommonEpochIsReportedAndNothingIsCut) {
  const auto key = Topic("t");
  conformance::BatchSpec spec;
  spec.leader_epoch = 3;
  Store(key, conformance::DataBatch(spec, 4));
  source.At("t", 0).leader_epoch = 1;
  source.Append("t", 0, 2);
  Start();
  auto assignment = Assignment(key, "t");
  assignment.may_truncate = true;
  manager->Add("m", assignment);
  ASSERT_TRUE(Stopped());
  EXPECT_EQ(events.stopped[0].why, FetchStop::kNoCommonEpoch);
  EXPECT_EQ(LogOf(key).View().end, 4);
}

TEST_F(FaultTest, AnOlderEpochOfOursIsAskedWhenTheSourceDoesNotKnowTheNewest) {
  const auto key = Topic("t");
  source.At("t", 0).leader_epoch = 1;
  source.Append("t", 0, 4);
  Store(key, source.At("t", 0).batches[0].bytes);
  conformance::BatchSpec spec;
  spec.base_offset = 4;
  spec.leader_epoch = 9;  // ours alone
  Store(key, conformance::DataBatch(spec, 2));
  source.Append("t", 0, 3);
  Start();
  auto assignment = Assignment(key, "t");
  assignment.may_truncate = true;
  manager->Add("m", assignment);
  ASSERT_TRUE(Stopped());
  EXPECT_EQ(events.stopped[0].why, FetchStop::kTruncated);
  EXPECT_EQ(LogOf(key).View().end, 4);
  Add(key, "t");
  ASSERT_TRUE(CaughtUp(key, "t"));
  ExpectSameBytes(key, "t");
}

// ---- Range.

TEST_F(FaultTest, ASourceThatDoesNotBeginAtZeroIsNoGap) {
  const auto key = Topic("t");
  for (int i = 0; i < 30; ++i) source.Append("t", 0);
  source.DeleteRecords("t", 0, 10);
  config.gap_fails = true;
  Start();
  Add(key, "t");
  ASSERT_TRUE(CaughtUp(key, "t"));
  EXPECT_EQ(LogOf(key).View().log_start, 10);
  EXPECT_THAT(events.gaps, IsEmpty());
  EXPECT_THAT(events.stopped, IsEmpty());
  ExpectSameBytes(key, "t");
}

// S33.
TEST_F(FaultTest, RetentionThatOvertookTheMirrorIsReportedOnce) {
  const auto key = Copied(100);
  EXPECT_TRUE(Remove(key));
  for (int i = 0; i < 400; ++i) source.Append("t", 0);
  source.DeleteRecords("t", 0, 300);
  Add(key, "t");
  ASSERT_TRUE(CaughtUp(key, "t"));
  runtime.Advance(10s);
  EXPECT_THAT(events.gaps, ElementsAre(std::pair<int64_t, int64_t>(100, 300)));
  EXPECT_EQ(LogOf(key).View().log_start, 300);
  ExpectSameBytes(key, "t");
}

TEST_F(FaultTest, AGapIsRefusedWhenTheMirrorSaysSo) {
  config.gap_fails = true;
  const auto key = Copied(100);
  EXPECT_TRUE(Remove(key));
  for (int i = 0; i < 400; ++i) source.Append("t", 0);
  source.DeleteRecords("t", 0, 300);
  Add(key, "t");
  ASSERT_TRUE(Stopped());
  EXPECT_EQ(events.stopped[0].why, FetchStop::kGapRefused);
  EXPECT_EQ(events.stopped[0].offset, 300);
  EXPECT_EQ(LogOf(key).View().end, 100);
}

TEST_F(FaultTest, OutOfRangeThatIsNoneIsNotAskedWithoutDelay) {
  const auto key = Topic("t");
  source.Append("t", 0);
  source.At("t", 0).error = ErrorCode::kOffsetOutOfRange;
  Start();
  Add(key, "t");
  runtime.Advance(10s);
  EXPECT_LE(source.Count(1), 15u);
  EXPECT_THAT(events.stopped, IsEmpty());
  source.At("t", 0).error = ErrorCode::kNone;
  EXPECT_TRUE(CaughtUp(key, "t"));
}

// ---- Log start.

// S31.
TEST_F(FaultTest, TrimsOfAnIdleSourceAreFollowed) {
  const auto key = Copied(2500);
  for (const int64_t start : {1200, 1500, 2500}) {
    source.DeleteRecords("t", 0, start);
    EXPECT_TRUE(Until([&] { return LogOf(key).View().log_start == start; }, 5s));
  }
  source.Append("t", 0);
  ASSERT_TRUE(CaughtUp(key, "t"));
  EXPECT_EQ(LogOf(key).View().end, 2501);
}

// S32 (a).
TEST_F(FaultTest, ATrimWhileTheDataIsMissingEndsExactlyThere) {
  config.fetch_max_bytes = config.fetch_response_max_bytes = 5000;
  const auto key = Topic("t");
  for (int i = 0; i < 300; ++i) source.Append("t", 0);
  Start();
  Add(key, "t");
  ASSERT_TRUE(Until([&] { return LogOf(key).View().end >= 50; }));
  source.DeleteRecords("t", 0, 100);
  ASSERT_TRUE(CaughtUp(key, "t"));
  EXPECT_TRUE(Until([&] { return LogOf(key).View().log_start == 100; }, 5s));
  ExpectSameBytes(key, "t");
}

// S32 (b).
TEST_F(FaultTest, ATrimAfterALeaderMoveOfOursIsFollowed) {
  const auto key = Copied(338);
  EXPECT_TRUE(Remove(key));
  source.DeleteRecords("t", 0, 100);
  Add(key, "t");
  EXPECT_TRUE(Until([&] { return LogOf(key).View().log_start == 100; }, 5s));
  EXPECT_EQ(LogOf(key).View().end, 338);
  ExpectSameBytes(key, "t");
}

TEST_F(FaultTest, ALogStartAboveTheHighWatermarkIsRaisedWhenFollowersCatchUp) {
  const auto key = Topic("t");
  LogOf(key).SetFollowers({{.in_sync = true, .automatic = false}});
  for (int i = 0; i < 10; ++i) source.Append("t", 0);
  Start();
  Add(key, "t");
  ASSERT_TRUE(CaughtUp(key, "t"));
  source.DeleteRecords("t", 0, 6);
  runtime.Advance(2s);
  EXPECT_EQ(LogOf(key).View().log_start, 0);
  LogOf(key).SetFollowerEnd(0, 4);
  EXPECT_TRUE(Until([&] { return LogOf(key).View().log_start == 4; }, 2s));
  // The source says nothing new; it is our own doing.
  LogOf(key).SetFollowerEnd(0, 10);
  EXPECT_TRUE(Until([&] { return LogOf(key).View().log_start == 6; }, 2s));
}

}  // namespace
}  // namespace kmirror::fetcher::testing
