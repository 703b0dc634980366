// What a partition's position says of the source, and how old that is.
#include "tests/fetcher/mirror_fixture.h"

namespace kmirror::fetcher::testing {
namespace {

TEST_F(MirrorTest, PositionTellsLagAndAge) {
  const auto key = Topic("t");
  source.Append("t", 0, 5);
  Start();
  EXPECT_FALSE(manager->Position(key).has_value());
  Add(key, "t");
  ASSERT_TRUE(CaughtUp(key, "t"));
  ASSERT_TRUE(Until([&] { return !events.fetching.empty(); }));
  auto position = manager->Position(key);
  ASSERT_TRUE(position.has_value());
  EXPECT_EQ(position->source_high_watermark, 5);
  EXPECT_EQ(position->fetch_offset, 5);
  const int64_t learned = position->learned_ns;
  // An idle partition is left out of answers; its position is fresh all the same.
  runtime.Advance(10s);
  position = manager->Position(key);
  EXPECT_GT(position->learned_ns, learned + 8'000'000'000);
  EXPECT_EQ(position->caught_up_ns, position->learned_ns);
}

// Somebody who decides about a failover reads this age.
TEST_F(MirrorTest, ASourceThatDiesIsAsOldAsItsLastAnswerNotAsItsLastData) {
  const auto key = Topic("t");
  source.Append("t", 0, 5);
  Start();
  Add(key, "t");
  ASSERT_TRUE(CaughtUp(key, "t"));
  runtime.Advance(60s);
  const int64_t alive = runtime.MonotonicNow().count();
  source.down.insert(1);
  source.Cut();
  runtime.Advance(10s);
  const auto position = manager->Position(key);
  ASSERT_TRUE(position.has_value());
  EXPECT_NE(position->unreachable_since_ns, 0);
  EXPECT_GE(position->learned_ns, alive - 1'000'000'000) << "a poll of 500 ms before it died";
  EXPECT_LE(position->learned_ns, alive);
}

// Between leaving one fetcher's session and being asked about by the next, nobody has news of it.
TEST_F(MirrorTest, AMovedPartitionIsAsOldAsItsOwnLastAnswer) {
  std::vector<TopicIdPartition> keys;
  for (int i = 0; i < 150; ++i) keys.push_back(Topic("t", i));
  Start();
  for (const auto& key : keys) Add(key, "t");
  ASSERT_TRUE(Until([&] { return events.fetching.size() == 150; }));
  runtime.Advance(25s);
  for (int i = 0; i < 10; ++i) source.Append("t", i);
  runtime.Advance(15s);
  ASSERT_EQ(manager->fetcher_count(), 2u);
  // Nine of the ten fall silent too, and follow the forty to a fetcher that is in the middle of its
  // polls. The tenth keeps their old fetcher in answers meanwhile.
  std::map<int32_t, std::set<int64_t>> learned;
  for (int step = 0; step < 1200; ++step) {
    source.Append("t", 9);
    runtime.Advance(50ms);
    for (int i = 0; i < 150; ++i) {
      learned[i].insert(manager->Position(keys[static_cast<size_t>(i)])->learned_ns);
    }
  }
  std::map<int32_t, int64_t> forgotten, adopted;
  const auto fetches = source.Fetches();
  size_t at = 0;
  for (const auto& asked : source.asked) {
    if (asked.api_key != 1) continue;
    const auto& fetch = fetches.at(at++);
    if (fetch.max_wait_ms == 500) {
      for (const auto& topic : fetch.forgotten_topics_data) {
        for (const int32_t p : topic.partitions) forgotten[p] = asked.at.count();
      }
    } else if (fetch.max_wait_ms == MirrorFetcherThread::kColdWaitMs) {
      for (const auto& topic : fetch.topics) {
        for (const auto& p : topic.partitions) adopted.try_emplace(p.partition, asked.at.count());
      }
    }
  }
  int moved = 0, waited = 0;
  for (const auto& [p, from] : forgotten) {
    if (!adopted.contains(p)) continue;
    ++moved;
    if (adopted[p] - from > 100'000'000) ++waited;
    for (const int64_t time : learned[p]) {
      EXPECT_FALSE(time > from && time < adopted[p])
          << p << " left at " << from << ", was asked about from " << adopted[p]
          << ", and claims news of " << time;
    }
  }
  EXPECT_GE(moved, 45);
  EXPECT_GE(waited, 1) << "no move shows anything";
}

// The answer came, and says nothing of how far the source is: what was known is as old as it was.
TEST_F(MirrorTest, AnErrorOfThePartitionIsNoNewsOfItsLag) {
  const auto key = Topic("t");
  source.Append("t", 0, 5);
  Start();
  Add(key, "t");
  ASSERT_TRUE(CaughtUp(key, "t"));
  ASSERT_TRUE(Until([&] { return manager->Position(key)->source_high_watermark == 5; }));
  source.Append("t", 0, 5);
  source.DeleteRecords("t", 0, 7);
  source.hold_fetches = true;
  source.answer = [](const ScriptedSource::Asked& asked) {
    // Nothing more is learned of its range.
    return asked.api_key == 2 ? std::optional(std::vector<uint8_t>{}) : std::nullopt;
  };
  runtime.Advance(100ms);
  const int64_t learned = manager->Position(key)->learned_ns;
  source.ReleaseFetches();
  runtime.Advance(5s);
  const auto position = manager->Position(key);
  ASSERT_TRUE(position.has_value());
  EXPECT_EQ(position->source_high_watermark, 5);
  EXPECT_LE(position->learned_ns, learned + 1'000'000);
}

}  // namespace
}  // namespace kmirror::fetcher::testing
