#include <gtest/gtest.h>

#include <chrono>
#include <vector>

#include "conformance/memory_host/manual_runtime.h"

namespace kmirror::conformance {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

TEST(ManualRuntime, RunsTasksInTheOrderTheyWerePostedAndNeverInline) {
  ManualRuntime runtime;
  auto a = runtime.NewLane("a");
  auto b = runtime.NewLane("b");
  std::vector<int> order;
  a->Post([&] { order.push_back(1); });
  b->Post([&] { order.push_back(2); });
  a->Post([&] {
    EXPECT_TRUE(a->InLane());
    EXPECT_FALSE(b->InLane());
    order.push_back(3);
  });
  EXPECT_TRUE(order.empty());
  EXPECT_EQ(runtime.RunUntilIdle(), 3u);
  EXPECT_EQ(order, (std::vector<int>{1, 2, 3}));
}

TEST(ManualRuntime, FiresTimersAtTheirTimesAndOnlyWhenTimeMoves) {
  ManualRuntime runtime;
  auto lane = runtime.NewLane("a");
  const auto start = runtime.MonotonicNow();
  std::vector<milliseconds> fired;
  auto note = [&] {
    fired.push_back(std::chrono::duration_cast<milliseconds>(runtime.MonotonicNow() - start));
  };
  lane->RunAfter(milliseconds(30), note);
  lane->RunAfter(milliseconds(10), [&] {
    note();
    lane->RunAfter(milliseconds(5), note);
  });
  runtime.RunUntilIdle();
  EXPECT_TRUE(fired.empty());
  runtime.Advance(milliseconds(29));
  EXPECT_EQ(fired, (std::vector<milliseconds>{milliseconds(10), milliseconds(15)}));
  runtime.Advance(milliseconds(1));
  EXPECT_EQ(fired.back(), milliseconds(30));
}

TEST(ManualRuntime, ACancelledTimerDoesNotRunEvenWhenItWasDueAlready) {
  ManualRuntime runtime;
  auto lane = runtime.NewLane("a");
  int ran = 0;
  host::Lane::TimerId second = 0;
  lane->RunAfter(seconds(1), [&] {
    ++ran;
    lane->Cancel(second);  // due at the same moment
  });
  second = lane->RunAfter(seconds(1), [&] { ++ran; });
  runtime.Advance(seconds(2));
  EXPECT_EQ(ran, 1);
  lane->Cancel(second);
  lane->Cancel(0);
}

TEST(ManualRuntime, DestroyingALaneDropsItsTasksAndTimers) {
  ManualRuntime runtime;
  auto lane = runtime.NewLane("a");
  int ran = 0;
  lane->Post([&] { ++ran; });
  lane->RunAfter(seconds(1), [&] { ++ran; });
  lane.reset();
  runtime.Advance(seconds(2));
  EXPECT_EQ(ran, 0);
  EXPECT_EQ(runtime.lane_count(), 0u);
}

TEST(ManualRuntime, ALaneMayBeDestroyedByItsOwnTask) {
  ManualRuntime runtime;
  auto lane = runtime.NewLane("a");
  int ran = 0;
  lane->Post([&] {
    lane.reset();
    ++ran;
  });
  runtime.RunUntilIdle();
  EXPECT_EQ(ran, 1);
}

TEST(ManualRuntime, RunUntilLetsOnlyAsMuchTimePassAsItNeeds) {
  ManualRuntime runtime;
  auto lane = runtime.NewLane("a");
  bool ready = false;
  lane->RunAfter(seconds(3), [&] { ready = true; });
  const auto start = runtime.MonotonicNow();
  EXPECT_TRUE(runtime.RunUntil([&] { return ready; }));
  EXPECT_EQ(runtime.MonotonicNow() - start, seconds(3));
  EXPECT_FALSE(runtime.RunUntil([] { return false; }, seconds(7)));
  EXPECT_EQ(runtime.MonotonicNow() - start, seconds(10));
}

TEST(ManualRuntime, TheSameSeedShufflesLanesTheSameWayAndKeepsOrderInsideALane) {
  auto run = [](uint64_t seed) {
    ManualRuntime runtime(seed);
    runtime.ShuffleLanes(true);
    auto a = runtime.NewLane("a");
    auto b = runtime.NewLane("b");
    std::vector<int> order;
    for (int i = 0; i < 20; ++i) {
      a->Post([&order, i] { order.push_back(i); });
      b->Post([&order, i] { order.push_back(100 + i); });
    }
    runtime.RunUntilIdle();
    return order;
  };
  const std::vector<int> once = run(5);
  EXPECT_EQ(once, run(5));
  EXPECT_NE(once, run(6));
  int last_a = -1;
  for (const int value : once) {
    if (value >= 100) continue;
    EXPECT_EQ(value, last_a + 1);
    last_a = value;
  }
}

TEST(ManualRuntime, ARunWithoutEndIsReportedAsALivelock) {
  ManualRuntime runtime;
  auto lane = runtime.NewLane("a");
  std::function<void()> again = [&] { lane->Post(again); };
  lane->Post(again);
  EXPECT_EQ(runtime.RunUntilIdle(1000), 1000u);
  EXPECT_TRUE(runtime.livelocked());
}

}  // namespace
}  // namespace kmirror::conformance
