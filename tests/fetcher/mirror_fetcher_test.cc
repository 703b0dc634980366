// The everyday life of a mirrored partition: copying, turns, sessions, removal.
#include "tests/fetcher/mirror_fixture.h"

namespace kmirror::fetcher::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

TEST_F(MirrorTest, CopiesEveryBatchUnchanged) {
  const auto key = Topic("t");
  for (int i = 0; i < 20; ++i) source.Append("t", 0, 1 + i % 4);
  Start();
  Add(key, "t");
  EXPECT_TRUE(CaughtUp(key, "t"));
  source.Append("t", 0, 3);
  EXPECT_TRUE(CaughtUp(key, "t"));
  ExpectSameBytes(key, "t");
  runtime.RunUntilIdle();
  EXPECT_THAT(events.fetching, ElementsAre(key));
  EXPECT_THAT(events.stopped, IsEmpty());
}

TEST_F(MirrorTest, AsksAsAConsumerWithADeterministicClientId) {
  const auto key = Topic("t");
  source.At("t", 0).leader_epoch = 4;
  source.Append("t", 0);
  Start();
  Add(key, "t");
  ASSERT_TRUE(CaughtUp(key, "t"));
  const auto fetches = source.Fetches();
  ASSERT_FALSE(fetches.empty());
  EXPECT_EQ(fetches[0].replica_state.replica_id, -1);
  EXPECT_EQ(fetches[0].rack_id, "");
  EXPECT_EQ(fetches[0].isolation_level, 0);
  EXPECT_EQ(fetches[0].topics.at(0).topic_id, key.topic_id);
  EXPECT_EQ(fetches[0].topics.at(0).partitions.at(0).current_leader_epoch, 4);
  EXPECT_EQ(source.asked[0].client_id, "broker-7-fetcher-0-mirror-m");
}

TEST_F(MirrorTest, AnOldSourceIsAskedByNameWithoutFieldsItDoesNotKnow) {
  source.max_fetch_version = 10;
  const auto key = Topic("t");
  source.Append("t", 0, 5);
  Start();
  auto assignment = Assignment(key, "t");
  assignment.use_topic_id = false;
  manager->Add("m", assignment);
  ASSERT_TRUE(CaughtUp(key, "t"));
  ExpectSameBytes(key, "t");
  for (const auto& asked : source.asked) {
    if (asked.api_key == 1) {
      EXPECT_EQ(asked.version, 10);
    }
  }
}

TEST_F(MirrorTest, OnePartitionWithoutATopicIdHoldsTheFetcherAtVersion12) {
  const auto with = Topic("with", 0, 1);
  const auto without = Topic("without", 0, 2);
  source.Append("with", 0);
  source.Append("without", 0);
  Start();
  Add(with, "with");
  auto assignment = Assignment(without, "without");
  assignment.use_topic_id = false;
  manager->Add("m", assignment);
  EXPECT_TRUE(CaughtUp(with, "with"));
  EXPECT_TRUE(CaughtUp(without, "without"));
  int16_t last = 0;
  for (const auto& asked : source.asked) {
    if (asked.api_key == 1) last = asked.version;
  }
  EXPECT_EQ(last, 12);
}

TEST_F(MirrorTest, ASourceBelowFetch10IsReportedAndTriedAgainLater) {
  source.max_fetch_version = 9;
  const auto key = Topic("t");
  source.Append("t", 0);
  Start();
  Add(key, "t");
  EXPECT_TRUE(Until([&] { return !events.trouble.empty(); }));
  EXPECT_THAT(events.trouble.at(0), ::testing::HasSubstr("Fetch v10"));
  EXPECT_THAT(events.stopped, IsEmpty());
  source.max_fetch_version = 12;
  EXPECT_TRUE(CaughtUp(key, "t", 10min));
}

TEST_F(MirrorTest, SessionsSendOnlyWhatChanged) {
  std::vector<TopicIdPartition> keys;
  for (int i = 0; i < 4; ++i) keys.push_back(Topic("t", i));
  for (int i = 0; i < 4; ++i) source.Append("t", i);
  Start();
  for (const auto& key : keys) Add(key, "t");
  for (const auto& key : keys) ASSERT_TRUE(CaughtUp(key, "t"));
  ASSERT_TRUE(Until([&] { return events.fetching.size() == 4; }));
  runtime.Advance(2s);
  const size_t before = source.Fetches().size();
  source.Append("t", 2);
  ASSERT_TRUE(CaughtUp(keys[2], "t"));
  runtime.Advance(2s);
  const auto fetches = source.Fetches();
  ASSERT_GT(fetches.size(), before);
  EXPECT_THAT(fetches[before - 1].topics, IsEmpty());
  ASSERT_THAT(fetches[before].topics, SizeIs(1));
  ASSERT_THAT(fetches[before].topics[0].partitions, SizeIs(1));
  EXPECT_EQ(fetches[before].topics[0].partitions[0].partition, 2);
  EXPECT_EQ(fetches[before].session_id, fetches[before - 1].session_id);
  EXPECT_EQ(fetches[before].session_epoch, fetches[before - 1].session_epoch + 1);
}

TEST_F(MirrorTest, AnEvictedSessionIsOpenedAnewWithoutLoss) {
  const auto key = Topic("t");
  Start();
  Add(key, "t");
  ASSERT_TRUE(Until([&] { return !events.fetching.empty(); }));
  runtime.Advance(1s);
  source.forget_sessions = true;
  source.Append("t", 0, 2);
  ASSERT_TRUE(CaughtUp(key, "t"));
  source.Append("t", 0, 2);
  ASSERT_TRUE(CaughtUp(key, "t"));
  ExpectSameBytes(key, "t");
  const auto fetches = source.Fetches();
  EXPECT_EQ(std::ranges::count_if(fetches, [](const auto& f) { return f.session_epoch == 0; }), 2);
}

TEST_F(MirrorTest, ASourceWithoutSessionsIsServedWithFullFetches) {
  source.sessions = false;
  const auto key = Topic("t");
  source.Append("t", 0);
  Start();
  Add(key, "t");
  ASSERT_TRUE(CaughtUp(key, "t"));
  source.Append("t", 0);
  ASSERT_TRUE(CaughtUp(key, "t"));
  for (const auto& fetch : source.Fetches()) EXPECT_EQ(fetch.session_epoch, 0);
}

TEST_F(MirrorTest, PartitionsTakeTurnsUnderASmallAnswerLimit) {
  config.fetch_response_max_bytes = 3000;
  config.fetch_max_bytes = 3000;
  const auto busy = Topic("t", 0);
  const auto other = Topic("t", 1);
  for (int i = 0; i < 100; ++i) source.Append("t", 0, 1, 1000);
  for (int i = 0; i < 3; ++i) source.Append("t", 1, 1, 1000);
  Start();
  Add(busy, "t");
  Add(other, "t");
  // The other's three batches need at most as many answers as both together, not all of the busy
  // one's.
  ASSERT_TRUE(CaughtUp(other, "t"));
  EXPECT_LT(LogOf(busy).View().end, 20);
  ASSERT_TRUE(CaughtUp(busy, "t"));
  ExpectSameBytes(busy, "t");
  ExpectSameBytes(other, "t");
}

TEST_F(MirrorTest, ABatchGreaterThanEveryLimitIsTakenWhole) {
  config.fetch_response_max_bytes = 1000;
  config.fetch_max_bytes = 1000;
  config.fetch_buffer_bytes = 2 << 20;
  const auto key = Topic("t");
  source.Append("t", 0, 1, 10);
  source.Append("t", 0, 1, 5 << 20);
  source.Append("t", 0, 1, 10);
  Start();
  Add(key, "t");
  ASSERT_TRUE(CaughtUp(key, "t"));
  ExpectSameBytes(key, "t");
}

TEST_F(MirrorTest, MultiMegabyteAnswersComeInPieces) {
  const auto key = Topic("t");
  for (int i = 0; i < 300; ++i) source.Append("t", 0, 1, 16000);
  source.chunk_bytes = 70000;
  Start();
  Add(key, "t");
  ASSERT_TRUE(CaughtUp(key, "t"));
  ExpectSameBytes(key, "t");
}

// Whether the last set of an answer was in the log when the fetch behind it was sent.
class AppendOrderTest : public MirrorTest {
 protected:
  bool AppendedBeforeTheNextFetch(size_t batch_bytes) {
    const auto key = Topic("t");
    source.Append("t", 0, 1, batch_bytes);
    const int64_t end = source.At("t", 0).end;
    std::optional<bool> appended;
    source.on_asked = [&](const ScriptedSource::Asked&) {
      const auto fetches = source.Fetches();
      if (fetches.empty()) return;
      for (const auto& topic : fetches.back().topics) {
        if (topic.partitions.at(0).fetch_offset == end) appended = LogOf(key).View().end == end;
      }
    };
    Start();
    Add(key, "t");
    EXPECT_TRUE(CaughtUp(key, "t"));
    EXPECT_TRUE(Until([&] { return appended.has_value(); }));
    source.on_asked = nullptr;
    return appended.value_or(false);
  }
};

TEST_F(AppendOrderTest, ASmallSetIsAppendedFirst) { EXPECT_TRUE(AppendedBeforeTheNextFetch(1000)); }

TEST_F(AppendOrderTest, ALargeSetIsAppendedWhileTheSourceWorks) {
  EXPECT_FALSE(AppendedBeforeTheNextFetch(200'000));
}

TEST_F(MirrorTest, RemoveAnswersWhenNothingCanBeAppendedAnyMore) {
  const auto key = Topic("t");
  source.Append("t", 0, 10);
  Start();
  LogOf(key).HoldAppends(true);
  Add(key, "t");
  ASSERT_TRUE(Until([&] { return LogOf(key).append_pending(); }));
  bool done = false;
  manager->Remove(key, [&done] { done = true; });
  runtime.Advance(1h);
  EXPECT_FALSE(done);
  LogOf(key).CompleteAppend();
  EXPECT_TRUE(Until([&] { return done; }, 1s));
  const int64_t end = LogOf(key).View().end;
  source.Append("t", 0, 10);
  runtime.Advance(1min);
  EXPECT_EQ(LogOf(key).View().end, end);
  EXPECT_FALSE(manager->Position(key).has_value());
}

TEST_F(MirrorTest, RemoveOfAnUnknownPartitionAnswers) {
  Start();
  EXPECT_TRUE(Remove({TopicId(9), 0}));
}

TEST_F(MirrorTest, AFetcherWithoutPartitionsIsClosed) {
  const auto key = Topic("t");
  Start();
  Add(key, "t");
  ASSERT_TRUE(Until([&] { return !events.fetching.empty(); }));
  EXPECT_EQ(manager->fetcher_count(), 1u);
  EXPECT_TRUE(Remove(key));
  EXPECT_EQ(manager->fetcher_count(), 0u);
  runtime.RunUntilIdle();
  EXPECT_EQ(source.open_connections(), 0u);
  EXPECT_EQ(runtime.lane_count(), 1u);
}

TEST_F(MirrorTest, PendingAppendsKeepOrderAndAreNeverTwoAtOnce) {
  const auto key = Topic("t");
  for (int i = 0; i < 200; ++i) source.Append("t", 0, 1, 16000);
  Start();
  LogOf(key).HoldAppends(true);
  Add(key, "t");
  const int64_t end = source.At("t", 0).end;
  int appends = 0;
  while (LogOf(key).View().end < end) {
    ASSERT_TRUE(Until([&] { return LogOf(key).append_pending(); }));
    runtime.Advance(100ms);
    LogOf(key).CompleteAppend();
    ++appends;
    runtime.RunUntilIdle();
  }
  EXPECT_GT(appends, 1);
  ExpectSameBytes(key, "t");
}

TEST_F(MirrorTest, SlowLogStopsReadingAtTheSlabBound) {
  config.fetch_buffer_bytes = 2 << 20;
  config.fetch_response_max_bytes = 10 << 20;
  const auto key = Topic("t");
  for (int i = 0; i < 600; ++i) source.Append("t", 0, 1, 16000);
  source.chunk_bytes = 64 << 10;
  Start();
  LogOf(key).HoldAppends(true);
  Add(key, "t");
  ASSERT_TRUE(Until([&] { return LogOf(key).append_pending(); }));
  runtime.Advance(10s);
  // One answer holds everything, and it cannot have been read to its end.
  EXPECT_EQ(source.Count(1), 1u);
  const int64_t end = source.At("t", 0).end;
  while (LogOf(key).View().end < end) {
    ASSERT_TRUE(Until([&] { return LogOf(key).append_pending(); }, 10s));
    LogOf(key).CompleteAppend();
    runtime.RunUntilIdle();
  }
  ExpectSameBytes(key, "t");
}

// S28.
TEST_F(MirrorTest, LateAnswerAfterAPauseAndResumeIsThrownAway) {
  const auto key = Topic("t");
  source.Append("t", 0, 100);
  Start();
  Add(key, "t");
  ASSERT_TRUE(CaughtUp(key, "t"));
  runtime.Advance(2s);
  // The fetch for offset 100 is held; meanwhile pause and resume bring 100-199 by another fetch.
  source.hold_fetches = true;
  source.Append("t", 0, 100);
  ASSERT_TRUE(Until([&] { return source.Fetches().back().max_wait_ms == 500; }));
  EXPECT_TRUE(Remove(key));
  Add(key, "t");
  runtime.Advance(1s);
  source.ReleaseFetches();
  ASSERT_TRUE(CaughtUp(key, "t"));
  runtime.Advance(10s);
  EXPECT_EQ(LogOf(key).View().end, 200);
  ExpectSameBytes(key, "t");
  EXPECT_THAT(events.stopped, IsEmpty());
}

// S28 with another partition that keeps the fetcher, so that the held answer reaches the same one.
TEST_F(MirrorTest, LateAnswerInTheSameFetcherIsThrownAway) {
  const auto key = Topic("t", 0);
  const auto other = Topic("t", 1);
  source.Append("t", 0, 100);
  Start();
  Add(key, "t");
  Add(other, "t");
  ASSERT_TRUE(CaughtUp(key, "t"));
  runtime.Advance(2s);
  source.hold_fetches = true;
  source.Append("t", 0, 50);
  runtime.Advance(2s);
  EXPECT_TRUE(Remove(key));
  Add(key, "t");
  runtime.RunUntilIdle();
  source.ReleaseFetches();
  source.Append("t", 0, 50);
  ASSERT_TRUE(CaughtUp(key, "t"));
  EXPECT_EQ(LogOf(key).View().end, 200);
  ExpectSameBytes(key, "t");
  EXPECT_THAT(events.stopped, IsEmpty());
}

TEST_F(MirrorTest, ReplacingAnAssignmentNeverOverlapsAppends) {
  const auto key = Topic("t");
  source.Append("t", 0, 10);
  Start();
  LogOf(key).HoldAppends(true);
  Add(key, "t");
  ASSERT_TRUE(Until([&] { return LogOf(key).append_pending(); }));
  Add(key, "t");
  Add(key, "t");
  runtime.Advance(10s);
  LogOf(key).HoldAppends(false);
  LogOf(key).CompleteAppend();
  source.Append("t", 0, 10);
  ASSERT_TRUE(CaughtUp(key, "t"));
  ExpectSameBytes(key, "t");
}

TEST_F(MirrorTest, PartitionsSpreadOverFetchersByKafkasHash) {
  std::vector<TopicIdPartition> keys;
  for (int i = 0; i < 8; ++i) keys.push_back(Topic("t", i));
  Start(3);
  for (const auto& key : keys) Add(key, "t");
  ASSERT_TRUE(Until([&] { return events.fetching.size() == 8; }));
  EXPECT_EQ(manager->fetcher_count(), 3u);
  std::set<std::string> ids;
  for (const auto& asked : source.asked) ids.insert(asked.client_id);
  EXPECT_THAT(ids, ElementsAre("broker-7-fetcher-0-mirror-m", "broker-7-fetcher-1-mirror-m",
                               "broker-7-fetcher-2-mirror-m"));
}

TEST_F(MirrorTest, ANewConfigRestartsTheFetchersOfItsMirror) {
  const auto key = Topic("t");
  source.Append("t", 0);
  Start();
  Add(key, "t");
  ASSERT_TRUE(CaughtUp(key, "t"));
  config.fetch_wait_max_ms = 77;
  manager->SetMirror(std::make_shared<MirrorSourceConfig>(config));
  source.Append("t", 0);
  ASSERT_TRUE(CaughtUp(key, "t"));
  ASSERT_TRUE(Until([&] { return source.Fetches().back().max_wait_ms == 77; }));
  EXPECT_EQ(manager->fetcher_count(), 1u);
}

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

TEST_F(MirrorTest, CountersAreCollectedByMirrorAndOutliveTheFetcher) {
  struct Sink : MetricSink {
    void Add(std::string_view name, Kind, std::string_view, std::span<const Label> labels,
             double value) override {
      EXPECT_EQ(labels[0].value, "m");
      values[std::string(name)] = value;
      if (labels.size() > 1)
        fetcher = std::string(labels[1].name) + "=" + std::string(labels[1].value);
    }
    std::map<std::string, double> values;
    std::string fetcher;
  };
  const auto key = Topic("t");
  source.Append("t", 0, 5);
  source.Append("t", 0, 3);
  Start();
  Add(key, "t");
  ASSERT_TRUE(CaughtUp(key, "t"));
  Sink running;
  manager->Collect(&running);
  EXPECT_EQ(running.values["kmirror_fetch_batches_total"], 2);
  EXPECT_EQ(running.values["kmirror_fetch_records_total"], 8);
  EXPECT_EQ(running.values["kmirror_fetchers"], 1);
  EXPECT_EQ(running.fetcher, "fetcher=MirrorFetcherThread-0-1-m");
  EXPECT_EQ(running.values["kmirror_fetcher_batches_total"], 2);
  EXPECT_GE(running.values["kmirror_fetcher_appends_total"], 1);
  EXPECT_TRUE(Remove(key));
  runtime.RunUntilIdle();
  Sink closed;
  manager->Collect(&closed);
  EXPECT_EQ(closed.values["kmirror_fetch_records_total"], 8);
  EXPECT_EQ(closed.fetcher, "") << "it runs no more";
}

}  // namespace
}  // namespace kmirror::fetcher::testing
