// What the source and the link may do to a mirror, and what must come of it.
#include <algorithm>
#include <set>

#include "src/protocol/body.h"
#include "tests/fetcher/fault_fixture.h"

namespace kmirror::fetcher::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

// S27.
TEST_F(FaultTest, AnswersCutAtAnyByteLoseAndRepeatNothing) {
  const auto key = Topic("t");
  for (int i = 0; i < 30; ++i) source.Append("t", 0, 1 + i % 3, 100);
  source.chunk_bytes = 37;
  config.fetch_backoff_ms = 10;
  config.fetch_response_max_bytes = config.fetch_max_bytes = 2000;
  Start();
  Add(key, "t");
  int64_t end = 0;
  for (size_t at = 0; at < 2000; at += 53) {
    source.cut_next_fetch_after = at;
    EXPECT_TRUE(Until([&] { return !source.cut_next_fetch_after.has_value(); }, 10min));
    EXPECT_GE(LogOf(key).View().end, end);
    end = LogOf(key).View().end;
    if (LogOf(key).View().end == source.At("t", 0).end) source.Append("t", 0, 5, 300);
  }
  ASSERT_TRUE(CaughtUp(key, "t", 20min));
  ExpectSameBytes(key, "t");
  EXPECT_THAT(events.stopped, IsEmpty());
}

// S29.
TEST_F(FaultTest, ADamagedBatchDelaysItsPartitionAloneAndIsNeverStored) {
  const auto bad = Topic("t", 0);
  const auto good = Topic("t", 1);
  for (int i = 0; i < 5; ++i) source.Append("t", 0, 1, 50);
  int flips = 3;
  source.edit_fetch = [&](protocol::FetchResponse* response) {
    for (auto& topic : response->responses) {
      for (auto& partition : topic.partitions) {
        if (partition.partition_index != 0 || !partition.records || flips == 0 ||
            partition.records->size() < 400) {
          continue;
        }
        --flips;
        auto copy = std::make_shared<std::vector<uint8_t>>(partition.records->bytes().begin(),
                                                           partition.records->bytes().end());
        (*copy)[300] ^= 0x10;
        partition.records = protocol::RecordsView(ByteView(*copy), copy);
      }
    }
  };
  Start();
  Add(bad, "t");
  Add(good, "t");
  ASSERT_TRUE(Until([&] { return events.fetching.size() == 1; }));
  for (int i = 0; i < 4; ++i) {
    source.Append("t", 1);
    ASSERT_TRUE(CaughtUp(good, "t", 400ms)) << "partition 1 was delayed";
    EXPECT_EQ(LogOf(bad).View().end, 0);
  }
  ASSERT_TRUE(CaughtUp(bad, "t"));
  EXPECT_EQ(flips, 0);
  ExpectSameBytes(bad, "t");
  EXPECT_THAT(events.stopped, IsEmpty());
}

TEST_F(FaultTest, ABatchThatStaysCorruptIsReportedInTheEnd) {
  const auto key = Topic("t");
  source.Append("t", 0, 1);
  source.Append("t", 0, 1);
  source.At("t", 0).batches[1].bytes.back() ^= 1;
  config.fetch_max_bytes = 1;  // one batch an answer
  Start();
  Add(key, "t");
  ASSERT_TRUE(Stopped());
  EXPECT_EQ(events.stopped[0].why, FetchStop::kCorrupt);
  EXPECT_EQ(events.stopped[0].offset, 1);
  EXPECT_EQ(LogOf(key).View().end, 1);
}

TEST_F(FaultTest, AnIncompleteLastBatchIsFetchedAgain) {
  config.fetch_max_bytes = 300;  // not a multiple of a batch
  const auto key = Copied(20);
  ExpectSameBytes(key, "t");
  struct Sink : MetricSink {
    void Add(std::string_view name, Kind, std::string_view, std::span<const Label>,
             double value) override {
      if (name == "kmirror_fetch_partial_bytes_total") partial = value;
    }
    double partial = 0;
  } sink;
  manager->Collect(&sink);
  EXPECT_GT(sink.partial, 0);
}

TEST_F(FaultTest, AnAnswerThatDoesNotDecodeClosesTheConnection) {
  const auto key = Copied(3);
  const size_t connects = source.connects;
  int bad = 1;
  source.edit_body = [&](std::vector<uint8_t>* body) {
    if (bad-- > 0) (*body)[10] = 0xff, (*body)[11] = 0xff, (*body)[12] = 0xff;
  };
  source.Append("t", 0, 2);
  ASSERT_TRUE(CaughtUp(key, "t"));
  EXPECT_GT(source.connects, connects);
  ExpectSameBytes(key, "t");
}

// ---- The link.

TEST_F(FaultTest, AnUnreachableSourceIsRetriedLessAndLessOftenAndNeverAFailure) {
  const auto key = Copied(3);
  source.down.insert(1);
  source.Cut();
  runtime.Advance(1h);
  EXPECT_THAT(events.stopped, IsEmpty());
  // 1, 2, 4 ... 256 s, then every 5 minutes or so, with 20 % of jitter.
  EXPECT_GE(source.connects, 15u);
  EXPECT_LE(source.connects, 26u);
  ASSERT_FALSE(events.trouble.empty());
  EXPECT_LE(events.trouble.size(), source.connects);
  const auto position = manager->Position(key);
  ASSERT_TRUE(position.has_value());
  EXPECT_NE(position->unreachable_since_ns, 0);
  EXPECT_THAT(position->trouble, HasSubstr("refused"));
  source.down.clear();
  source.Append("t", 0, 2);
  ASSERT_TRUE(CaughtUp(key, "t", 7min));
  runtime.RunUntilIdle();
  EXPECT_EQ(manager->Position(key)->unreachable_since_ns, 0);
  EXPECT_EQ(manager->Position(key)->trouble, "");
}

TEST_F(FaultTest, ThrottleIsADelayOfTheConnectionAndNotAnError) {
  const auto key = Copied(3);
  runtime.Advance(1s);
  source.throttle_ms = 45000;  // longer than the socket timeout (7.2)
  source.Append("t", 0, 2);
  runtime.RunUntilIdle();
  const size_t fetches = source.Count(1);
  runtime.Advance(44s);
  EXPECT_EQ(source.Count(1), fetches);
  EXPECT_EQ(LogOf(key).View().end, 3);
  EXPECT_THAT(events.trouble, IsEmpty());
  // Partitions can still be removed meanwhile.
  const auto other = Topic("u", 0, 2);
  Add(other, "u");
  EXPECT_TRUE(Remove(other));
  ASSERT_TRUE(CaughtUp(key, "t", 2s));
}

TEST_F(FaultTest, AThrottledAnswerIsNoNewsOfAnyPartition) {
  const auto key = Copied(3);
  runtime.Advance(1100ms);  // between two polls
  const int64_t before = runtime.MonotonicNow().count();
  ASSERT_GT(manager->Position(key)->learned_ns, 0);
  source.throttle_ms = 20000;
  source.Append("t", 0, 2);  // which the quota holds back, with everything else
  runtime.Advance(10s);
  const auto position = manager->Position(key);
  EXPECT_EQ(position->source_high_watermark, 3);
  EXPECT_LT(position->learned_ns, before) << "the answer did not say that there is nothing";
  ASSERT_TRUE(CaughtUp(key, "t", 15s));
  ASSERT_TRUE(Until([&] { return manager->Position(key)->source_high_watermark == 5; }, 1s));
  EXPECT_GT(manager->Position(key)->learned_ns, before);
}

TEST_F(FaultTest, APartitionWhoseFirstAnswerIsThrottledIsHeardInTheEnd) {
  const auto old = Copied(3);
  (void)old;
  const auto fresh = Topic("u", 0, 2);
  source.Append("u", 0, 4);
  Add(fresh, "u");
  // Whatever fetch names it first, its answers are held back for a while.
  for (int i = 0; i < 20; ++i) {
    source.throttle_ms = 50;
    runtime.Advance(20ms);
    const auto position = manager->Position(fresh);
    if (!position.has_value() || position->learned_ns == 0) continue;
    EXPECT_TRUE(position->source_high_watermark == 4) << position->source_high_watermark;
  }
  source.throttle_ms = 0;
  ASSERT_TRUE(CaughtUp(fresh, "u"));
  ASSERT_TRUE(Until([&] { return manager->Position(fresh)->source_high_watermark == 4; }));
  EXPECT_TRUE(Until([&] { return std::ranges::count(events.fetching, fresh) == 1; }));
}

TEST_F(FaultTest, AThrottledFullFetchOpensNoSession) {
  const auto key = Topic("t");
  source.Append("t", 0, 2);
  source.throttle_ms = 3000;
  Start();
  Add(key, "t");
  ASSERT_TRUE(CaughtUp(key, "t"));
  const auto fetches = source.Fetches();
  ASSERT_GE(fetches.size(), 2u);
  EXPECT_EQ(fetches[1].session_id, 0);
  EXPECT_EQ(fetches[1].session_epoch, 0);
}

TEST_F(FaultTest, ARefusedSessionIsNotHammered) {
  const auto key = Copied(1);
  (void)key;
  runtime.Advance(1s);
  const size_t before = source.Count(1);
  source.answer = [&](const ScriptedSource::Asked& asked) -> std::optional<std::vector<uint8_t>> {
    if (asked.api_key != 1) return std::nullopt;
    protocol::FetchResponse response;
    response.error_code = static_cast<int16_t>(ErrorCode::kFetchSessionTopicIdError);
    protocol::Writer out;
    (void)protocol::Encode(response, asked.version, out);
    return out.Flatten();
  };
  runtime.Advance(1min);
  EXPECT_GE(source.Count(1), before + 4);
  EXPECT_LE(source.Count(1), before + 10);
}

// ---- Partition errors.

TEST_F(FaultTest, AnErrorDelaysOnePartitionByTheBackoff) {
  const auto key = Topic("t", 0);
  const auto other = Topic("t", 1);
  source.At("t", 0).error = ErrorCode::kUnknownLeaderEpoch;
  source.Append("t", 0);
  Start();
  Add(key, "t");
  Add(other, "t");
  ASSERT_TRUE(Until([&] { return events.fetching.size() == 1; }));
  runtime.Advance(10s);
  size_t asked = 0;
  for (const auto& fetch : source.Fetches()) {
    for (const auto& topic : fetch.topics) {
      for (const auto& partition : topic.partitions) asked += partition.partition == 0;
    }
  }
  EXPECT_GE(asked, 6u);
  EXPECT_LE(asked, 12u);
  EXPECT_THAT(manager->Position(key)->trouble, HasSubstr("UNKNOWN_LEADER_EPOCH"));
  source.At("t", 0).error = ErrorCode::kNone;
  EXPECT_TRUE(CaughtUp(key, "t"));
  EXPECT_THAT(events.stopped, IsEmpty());
}

TEST_F(FaultTest, MissingRightsAreAskedForLessAndLessOften) {
  const auto key = Topic("t");
  source.At("t", 0).error = ErrorCode::kTopicAuthorizationFailed;
  source.Append("t", 0);
  Start();
  Add(key, "t");
  runtime.Advance(10min);
  EXPECT_LE(source.Count(1), 40u);  // with the fetches that forget it
  EXPECT_GE(source.Count(1), 8u);
  EXPECT_THAT(events.stopped, IsEmpty());
  source.At("t", 0).error = ErrorCode::kNone;
  EXPECT_TRUE(CaughtUp(key, "t", 2min));
}

TEST_F(FaultTest, ATopicThatStaysUnknownIsLookedUpAgain) {
  const auto key = Topic("t");
  source.At("t", 0).error = ErrorCode::kUnknownTopicId;
  Start();
  Add(key, "t");
  ASSERT_TRUE(Stopped());
  EXPECT_EQ(events.stopped[0].why, FetchStop::kLeaderUnknown);
  EXPECT_THAT(events.trouble, SizeIs(::testing::Ge(1)));
}

TEST_F(FaultTest, FollowsTheLeaderThatAnAnswerNamesAtOnce) {
  source.brokers = {1, 2};
  const auto key = Copied(3);
  auto& partition = source.At("t", 0);
  partition.leader = 2;
  partition.leader_epoch = 1;
  partition.hint_leader = true;
  source.Append("t", 0, 4);
  ASSERT_TRUE(CaughtUp(key, "t", 1s)) << "waited for a refresh";
  ExpectSameBytes(key, "t");
  EXPECT_THAT(events.stopped, IsEmpty());
  EXPECT_EQ(source.Fetches().back().topics.size(), 1u);
  EXPECT_EQ(source.asked.back().broker, 2);
  ASSERT_TRUE(Until([&] { return manager->fetcher_count() == 1; }));
}

TEST_F(FaultTest, EveryConnectionToWhateverLeaderIsMadeWithTheTlsOfTheMirror) {
  config.tls = std::make_shared<const TlsOptions>();
  source.brokers = {1, 2, 3};
  const auto key = Copied(3);
  // A leader that an answer names, one that metadata names, a connection that breaks, a fetcher for
  // cold partitions and a change of configs.
  auto& partition = source.At("t", 0);
  partition.leader = 2;
  partition.leader_epoch = 1;
  partition.hint_leader = true;
  source.Append("t", 0, 4);
  ASSERT_TRUE(CaughtUp(key, "t"));
  source.down.insert(2);
  source.Cut(2);
  partition.leader = 3;
  partition.leader_epoch = 2;
  source.Append("t", 0, 4);
  manager->UpdateSourceLeader(key, 3, ScriptedSource::Address(3), 2);
  ASSERT_TRUE(CaughtUp(key, "t"));
  source.Cut(3);
  source.Append("t", 0, 4);
  ASSERT_TRUE(CaughtUp(key, "t"));
  runtime.Advance(2min);
  std::set<HostPort> endpoints;
  for (const ConnectionOptions& options : source.connections_asked) {
    EXPECT_EQ(options.tls, config.tls) << options.endpoint.ToString();
    endpoints.insert(options.endpoint);
  }
  EXPECT_THAT(endpoints, SizeIs(3));
  const size_t before = source.connections_asked.size();
  config.tls = std::make_shared<const TlsOptions>();
  manager->SetMirror(std::make_shared<MirrorSourceConfig>(config));
  source.Append("t", 0, 4);
  ASSERT_TRUE(CaughtUp(key, "t"));
  ASSERT_GT(source.connections_asked.size(), before) << "the fetchers start again";
  for (size_t i = before; i < source.connections_asked.size(); ++i) {
    EXPECT_EQ(source.connections_asked[i].tls, config.tls);
  }
}

TEST_F(FaultTest, ADeadLeaderIsLeftWhenMetadataNamesItsSuccessor) {
  source.brokers = {1, 2};
  const auto key = Copied(3);
  source.down.insert(1);
  source.Cut(1);
  runtime.Advance(1min);
  auto& partition = source.At("t", 0);
  partition.leader = 2;
  partition.leader_epoch = 1;
  source.Append("t", 0, 4);
  // Metadata from before the election changes nothing.
  manager->UpdateSourceLeader(key, 1, ScriptedSource::Address(1), 0);
  manager->UpdateSourceLeader(key, -1, {}, 1);
  runtime.Advance(1s);
  EXPECT_EQ(LogOf(key).View().end, 3);
  manager->UpdateSourceLeader(key, 2, ScriptedSource::Address(2), 1);
  ASSERT_TRUE(CaughtUp(key, "t", 1s));
  ExpectSameBytes(key, "t");
  runtime.RunUntilIdle();
  EXPECT_EQ(manager->Position(key)->unreachable_since_ns, 0);
  // Nor does older metadata take it back.
  manager->UpdateSourceLeader(key, 1, ScriptedSource::Address(1), 0);
  source.Append("t", 0, 2);
  ASSERT_TRUE(CaughtUp(key, "t", 1s));
  EXPECT_THAT(events.stopped, IsEmpty());
}

TEST_F(FaultTest, ANewEpochOfTheSameLeaderIsTakenOverInPlace) {
  const auto key = Copied(3);
  auto& partition = source.At("t", 0);
  partition.leader_epoch = 5;
  partition.hint_leader = true;
  source.Append("t", 0, 4);
  ASSERT_TRUE(CaughtUp(key, "t", 1s));
  EXPECT_EQ(source.connects, 1u);
  EXPECT_EQ(events.fetching.size(), 1u);
}

TEST_F(FaultTest, ALeaderChangeWithoutAddressesIsLeftToTheCoordinator) {
  source.brokers = {1, 2};
  const auto key = Copied(3);
  (void)key;
  source.At("t", 0).leader = 2;
  source.Append("t", 0);
  ASSERT_TRUE(Stopped());
  EXPECT_EQ(events.stopped[0].why, FetchStop::kLeaderUnknown);
  EXPECT_FALSE(manager->Position(key).has_value());
}

TEST_F(FaultTest, BrokersThatNameEachOtherAreNotFollowedForever) {
  source.brokers = {1, 2};
  const auto key = Copied(1);
  (void)key;
  runtime.Advance(1s);
  auto& partition = source.At("t", 0);
  partition.error = ErrorCode::kNotLeaderOrFollower;
  partition.hint_leader = true;
  partition.leader = 2;
  source.edit_fetch = [&](protocol::FetchResponse* response) {
    // Each broker names the other one.
    const int32_t other = source.asked.back().broker == 1 ? 2 : 1;
    for (auto& node : response->node_endpoints) {
      node.node_id = other;
      node.host = ScriptedSource::Address(other).host;
    }
    for (auto& topic : response->responses) {
      for (auto& p : topic.partitions) p.current_leader.leader_id = other;
    }
  };
  source.Wake();
  ASSERT_TRUE(Stopped());
  EXPECT_EQ(events.stopped[0].why, FetchStop::kLeaderUnknown);
}

TEST_F(FaultTest, APreferredReplicaIsNotFollowed) {
  const auto key = Copied(1);
  source.At("t", 0).preferred_replica = 5;
  source.Append("t", 0);
  runtime.Advance(10s);
  EXPECT_EQ(LogOf(key).View().end, 1);
  EXPECT_LE(source.Count(1), 30u);
  source.At("t", 0).preferred_replica = -1;
  EXPECT_TRUE(CaughtUp(key, "t"));
}

}  // namespace
}  // namespace kmirror::fetcher::testing
