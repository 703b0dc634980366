// Newcomers, busy partitions and idle ones: whose fetch a partition is in, and how it moves.
#include "tests/fetcher/mirror_fixture.h"

namespace kmirror::fetcher::testing {
namespace {

using ::testing::IsEmpty;

// A fetch under way may have nothing to say for as long as it is allowed to wait.
TEST_F(MirrorTest, ANewPartitionDoesNotWaitForTheFetchUnderWay) {
  config.fetch_wait_max_ms = 30000;
  const auto idle = Topic("t", 0);
  const auto fresh = Topic("t", 1);
  const auto empty = Topic("t", 2);
  source.Append("t", 1, 5);
  Start();
  Add(idle, "t");
  ASSERT_TRUE(Until([&] { return source.Count(1) == 1; }, 1s));
  Add(fresh, "t");
  EXPECT_TRUE(CaughtUp(fresh, "t", 10ms));
  Add(empty, "t");
  EXPECT_TRUE(Until([&] { return events.fetching.size() == 2; }, 50ms)) << "heard of soon, too";
  EXPECT_EQ(source.Fetches().front().max_wait_ms, 30000);
  for (const auto& fetch : source.Fetches()) {
    if (fetch.max_wait_ms == 30000) continue;
    EXPECT_EQ(fetch.session_epoch, -1) << "the source's cache of sessions is small";
    EXPECT_EQ(fetch.session_id, 0);
  }
  // They go on with the fetch that waits, all in one.
  EXPECT_TRUE(Until([&] { return manager->fetcher_count() == 1; }, 2s));
  EXPECT_TRUE(Until([&] { return events.fetching.size() == 3; }));
  source.Append("t", 1, 5);
  source.Append("t", 2, 5);
  source.Wake();
  EXPECT_TRUE(CaughtUp(fresh, "t"));
  EXPECT_TRUE(CaughtUp(empty, "t"));
  ExpectSameBytes(fresh, "t");
  EXPECT_EQ(source.Fetches().back().max_wait_ms, 30000);
  EXPECT_EQ(source.Count(23), 0u) << "no epoch exchange is needed in between";
  EXPECT_EQ(events.fetching.size(), 3u) << "each was told once";
  EXPECT_THAT(events.stopped, IsEmpty());
}

TEST_F(MirrorTest, ANewPartitionCatchesUpBeforeItSharesAFetchThatWaits) {
  config.fetch_wait_max_ms = 30000;
  config.fetch_response_max_bytes = config.fetch_max_bytes = 20000;
  const auto idle = Topic("t", 0);
  const auto fresh = Topic("t", 1);
  for (int i = 0; i < 50; ++i) source.Append("t", 1, 1, 10000);
  Start();
  Add(idle, "t");
  ASSERT_TRUE(Until([&] { return source.Count(1) == 1; }, 1s));
  Add(fresh, "t");
  EXPECT_TRUE(CaughtUp(fresh, "t", 1s)) << "many answers, and none waits";
  EXPECT_GT(source.Count(1), 25u);
  ExpectSameBytes(fresh, "t");
  EXPECT_TRUE(Until([&] { return manager->fetcher_count() == 1; }, 2s));
}

// Nor does it wait when it has caught up and shares that fetch from then on.
TEST_F(MirrorTest, ANewcomerLeavesWhenTheFetchItGoesToIsAboutToEnd) {
  const auto idle = Topic("t", 0);
  const auto fresh = Topic("t", 1);
  Start();
  Add(idle, "t");
  ASSERT_TRUE(Until([&] { return source.Count(1) == 1; }, 1s));
  runtime.Advance(100ms);
  Add(fresh, "t");
  for (int i = 0; i < 100; ++i) {
    source.Append("t", 1);
    source.Wake();
    EXPECT_TRUE(CaughtUp(fresh, "t", 30ms)) << "at append " << i;
    runtime.Advance(13ms);
  }
  EXPECT_EQ(manager->fetcher_count(), 1u);
  ExpectSameBytes(fresh, "t");
  size_t short_ones = 0;
  for (const auto& fetch : source.Fetches()) short_ones += fetch.max_wait_ms < 500 ? 1 : 0;
  EXPECT_GT(short_ones, 5u);
  EXPECT_LT(short_ones, 100u) << "it should have left after 400 ms";
}

// A log that is slow, not the source, keeps it there: nothing is asked for without end meanwhile.
TEST_F(MirrorTest, ANewcomerWhoseAppendTakesLongIsAskedAboutSeldom) {
  config.fetch_wait_max_ms = 30000;
  const auto idle = Topic("t", 0);
  const auto fresh = Topic("t", 1);
  source.Append("t", 1, 5);
  Start();
  Add(idle, "t");
  ASSERT_TRUE(Until([&] { return source.Count(1) == 1; }, 1s));
  LogOf(fresh).HoldAppends(true);
  Add(fresh, "t");
  ASSERT_TRUE(Until([&] { return LogOf(fresh).append_pending(); }, 1s));
  const size_t before = source.Count(1);
  runtime.Advance(1s);
  EXPECT_LE(source.Count(1) - before, 1000u / MirrorFetcherThread::kNewcomerWaitMs + 2);
  EXPECT_EQ(manager->fetcher_count(), 2u) << "it leaves with its append";
  LogOf(fresh).HoldAppends(false);
  LogOf(fresh).CompleteAppend();
  EXPECT_TRUE(CaughtUp(fresh, "t", 1s));
  EXPECT_TRUE(Until([&] { return manager->fetcher_count() == 1; }, 2s));
}

// The fetch it left behind may still be answered, with data that the next one has brought already.
TEST_F(MirrorTest, WhatAPartitionLeftBehindIsThrownAway) {
  const auto idle = Topic("t", 0);
  const auto mover = Topic("t", 1);
  const auto stays = Topic("t", 2);
  source.Append("t", 1, 5);
  source.Append("t", 2, 5);
  Start();
  Add(idle, "t");
  ASSERT_TRUE(Until([&] { return source.Count(1) == 1; }, 1s));
  LogOf(stays).HoldAppends(true);
  Add(stays, "t");
  Add(mover, "t");
  // In the moment when it leaves, the newcomers' next fetch names it already.
  ASSERT_TRUE(CaughtUp(mover, "t", 1s));
  for (int i = 0; i < 100; ++i) {
    source.Append("t", 1, 1);
    source.Wake();
    runtime.Advance(7ms);
  }
  ASSERT_TRUE(CaughtUp(mover, "t", 1s));
  ExpectSameBytes(mover, "t");
  EXPECT_EQ(manager->fetcher_count(), 2u);
  LogOf(stays).HoldAppends(false);
  LogOf(stays).CompleteAppend();
  ASSERT_TRUE(CaughtUp(stays, "t", 1s));
  EXPECT_THAT(events.stopped, IsEmpty());
}

TEST_F(MirrorTest, APartitionThatMovesToABusyBrokerDoesNotWaitThere) {
  config.fetch_wait_max_ms = 30000;
  source.brokers = {1, 2};
  const auto idle = Topic("t", 0);
  const auto moves = Topic("t", 1);
  source.At("t", 0).leader = 2;
  Start();
  Add(idle, "t");
  Add(moves, "t");
  ASSERT_TRUE(Until([&] { return source.Count(1) == 2; }, 1s));
  source.At("t", 1).leader = 2;
  source.At("t", 1).leader_epoch = 1;
  source.Append("t", 1, 5);
  manager->UpdateSourceLeader(moves, 2, ScriptedSource::Address(2), 1);
  EXPECT_TRUE(CaughtUp(moves, "t", 10ms));
}

TEST_F(MirrorTest, IdlePartitionsMakeWayForBusyOnes) {
  std::vector<TopicIdPartition> keys;
  for (int i = 0; i < 150; ++i) keys.push_back(Topic("t", i));
  Start();
  for (const auto& key : keys) Add(key, "t");
  ASSERT_TRUE(Until([&] { return events.fetching.size() == 150; }));
  EXPECT_TRUE(Until([&] { return manager->fetcher_count() == 1; }, 2s));
  runtime.Advance(25s);
  for (int i = 0; i < 10; ++i) source.Append("t", i);
  for (int i = 0; i < 10; ++i) ASSERT_TRUE(CaughtUp(keys[static_cast<size_t>(i)], "t"));
  runtime.Advance(15s);
  // 140 are idle: 40 of them went, the ten busy ones stayed.
  ASSERT_EQ(manager->fetcher_count(), 2u);
  std::set<int32_t> cold;
  for (const auto& fetch : source.Fetches()) {
    if (fetch.max_wait_ms != MirrorFetcherThread::kColdWaitMs) continue;
    for (const auto& topic : fetch.topics) {
      for (const auto& partition : topic.partitions) cold.insert(partition.partition);
    }
  }
  EXPECT_EQ(cold.size(), 40u);
  EXPECT_GE(*cold.begin(), 10);
  // The first byte brings one back at once, and a cold one's trim is followed too.
  const int32_t one = *cold.begin();
  const auto& key = keys[static_cast<size_t>(one)];
  const size_t before = source.Fetches().size();
  source.Append("t", one, 3);
  ASSERT_TRUE(CaughtUp(key, "t", 1s));
  source.Append("t", one, 2);
  ASSERT_TRUE(CaughtUp(key, "t", 1s));
  ExpectSameBytes(key, "t");
  runtime.Advance(3s);
  bool hot_again = false;
  const auto fetches = source.Fetches();
  for (size_t i = before; i < fetches.size(); ++i) {
    if (fetches[i].max_wait_ms != 500) continue;
    for (const auto& topic : fetches[i].topics) {
      for (const auto& partition : topic.partitions) hot_again |= partition.partition == one;
    }
  }
  EXPECT_TRUE(hot_again);
  EXPECT_EQ(events.fetching.size(), 150u) << "told once, whatever the temperature";
  EXPECT_THAT(events.stopped, IsEmpty());
  EXPECT_EQ(source.Count(23), 0u) << "no epoch exchange is needed in between";
  for (const auto& k : keys) EXPECT_TRUE(manager->Position(k).has_value());
}

}  // namespace
}  // namespace kmirror::fetcher::testing
