// What the local log may do to a mirror, and what must come of it.
#include "tests/fetcher/fault_fixture.h"

namespace kmirror::fetcher::testing {
namespace {

using ::testing::IsEmpty;

// S79.
TEST_F(FaultTest, AFullDiskStopsOnePartitionAndNothingIsSkipped) {
  const auto key = Topic("t", 0);
  const auto other = Topic("t", 1);
  Start();
  Add(key, "t");
  Add(other, "t");
  ASSERT_TRUE(Until([&] { return events.fetching.size() == 2; }));
  LogOf(key).FailNextAppend(host::AppendCode::kNoSpace);
  source.Append("t", 0, 3);
  source.Append("t", 1, 3);
  ASSERT_TRUE(Stopped());
  EXPECT_EQ(events.stopped[0].why, FetchStop::kLocalError);
  EXPECT_EQ(events.stopped[0].partition, key);
  ASSERT_TRUE(CaughtUp(other, "t"));
  EXPECT_EQ(LogOf(key).View().end, 0);
  Add(key, "t");
  ASSERT_TRUE(CaughtUp(key, "t"));
  ExpectSameBytes(key, "t");
}

TEST_F(FaultTest, AWriteThatFailsLateTakesThePositionBack) {
  const auto key = Copied(2);
  LogOf(key).HoldAppends(true);
  source.Append("t", 0, 3);
  ASSERT_TRUE(Until([&] { return LogOf(key).append_pending(); }));
  runtime.RunUntilIdle();
  // The next fetch has left with the position after the write.
  EXPECT_EQ(source.Fetches().back().topics.at(0).partitions.at(0).fetch_offset, 5);
  source.Append("t", 0, 2);
  runtime.RunUntilIdle();
  LogOf(key).HoldAppends(false);
  LogOf(key).CompleteAppend(host::AppendCode::kNotEnd);
  ASSERT_TRUE(CaughtUp(key, "t"));
  ExpectSameBytes(key, "t");
  EXPECT_THAT(events.stopped, IsEmpty());
}

TEST_F(FaultTest, ALogThatMovesUnderTheFetcherIsFetchedFromItsEnd) {
  const auto key = Copied(5);
  LogOf(key).LoseTail(3);
  source.Append("t", 0, 1);
  ASSERT_TRUE(CaughtUp(key, "t"));
  ExpectSameBytes(key, "t");
  EXPECT_THAT(events.stopped, IsEmpty());
}

TEST_F(FaultTest, ARefusedAppendIsALocalError) {
  const auto key = Copied(1);
  (void)key;
  LogOf(key).FailNextAppend(host::AppendCode::kRefused);
  source.Append("t", 0);
  ASSERT_TRUE(Stopped());
  EXPECT_EQ(events.stopped[0].why, FetchStop::kLocalError);
}

}  // namespace
}  // namespace kmirror::fetcher::testing
