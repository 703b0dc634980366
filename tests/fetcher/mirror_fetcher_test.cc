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
