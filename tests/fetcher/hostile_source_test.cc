// A source that is broken or hostile: what it sends is never stored, what is wrong is named, memory
// stays bounded, other fetchers are not touched, and mirroring goes on by itself once it behaves.
#include <algorithm>

#include "kmirror/log/checksum.h"
#include "src/fetcher/slab_pool.h"
#include "tests/fetcher/fault_fixture.h"

namespace kmirror::fetcher::testing {
namespace {

using conformance::BatchSpec;
using conformance::DataBatch;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class HostileSourceTest : public FaultTest {
 protected:
  // Partition `t-0` at broker 1, which misbehaves, and `u-0` at broker 2 by a fetcher of its own.
  void StartBoth(int records) {
    source.brokers = {1, 2};
    bad = Topic("t", 0, 1);
    good = Topic("u", 0, 2);
    source.At("u", 0).leader = 2;
    for (int i = 0; i < records; ++i) source.Append("t", 0);
    Start();
    Add(bad, "t");
    Add(good, "u");
    ASSERT_TRUE(CaughtUp(bad, "t"));
    ASSERT_TRUE(Until([&] { return events.fetching.size() == 2; }));
  }

  // Changes the answers about `t` while `misbehaves`.
  void Misbehave(std::function<void(protocol::FetchResponse*)> how) {
    misbehaves = true;
    source.edit_fetch = [this, how = std::move(how)](protocol::FetchResponse* response) {
      if (misbehaves && IsOfBad(*response)) how(response);
    };
  }
  bool IsOfBad(const protocol::FetchResponse& response) const {
    return std::ranges::any_of(response.responses, [this](const auto& topic) {
      return topic.topic_id == bad.topic_id;
    });
  }
  static void SetRecords(protocol::FetchResponse* response, const Bytes& bytes) {
    const auto copy = std::make_shared<Bytes>(bytes);
    for (auto& topic : response->responses) {
      for (auto& partition : topic.partitions) {
        partition.records = protocol::RecordsView(ByteView(*copy), copy);
      }
    }
  }

  // For so long the other fetcher copies as if nothing were, and nothing of `t` is stored.
  void ExpectHarmless(std::chrono::nanoseconds span, int64_t end) {
    const auto until = runtime.MonotonicNow() + span;
    while (runtime.MonotonicNow() < until) {
      source.Append("u", 0);
      ASSERT_TRUE(CaughtUp(good, "u", 50ms)) << "the other fetcher was held up";
      ASSERT_EQ(LogOf(bad).View().end, end);
      runtime.Advance(200ms);
    }
  }
  std::string Trouble() const { return manager->Position(bad)->trouble; }
  void ExpectHealed() {
    misbehaves = false;
    source.Append("t", 0);
    ASSERT_TRUE(CaughtUp(bad, "t"));
    ExpectSameBytes(bad, "t");
    runtime.RunUntilIdle();
    EXPECT_EQ(Trouble(), "");
    EXPECT_THAT(events.stopped, IsEmpty());
    ASSERT_TRUE(CaughtUp(good, "u"));
    ExpectSameBytes(good, "u");
  }

  double PeakBytes() const {
    struct Sink : MetricSink {
      void Add(std::string_view name, Kind, std::string_view, std::span<const Label>,
               double value) override {
        if (name == "kmirror_fetch_buffer_peak_bytes") peak = value;
      }
      double peak = -1;
    } sink;
    manager->Collect(&sink);
    return sink.peak;
  }

  TopicIdPartition bad, good;
  bool misbehaves = false;
};

TEST_F(HostileSourceTest, AnswersThatComeByteByByteAreCopied) {
  source.chunk_bytes = 1;
  const auto key = Topic("t");
  for (int i = 0; i < 20; ++i) source.Append("t", 0, 1 + i % 4, 40);
  Start();
  Add(key, "t");
  ASSERT_TRUE(CaughtUp(key, "t"));
  for (int i = 0; i < 5; ++i) {
    source.Append("t", 0, 3, 10);
    ASSERT_TRUE(CaughtUp(key, "t"));
  }
  ExpectSameBytes(key, "t");
  EXPECT_EQ(source.connects, 1u);
  EXPECT_THAT(events.stopped, IsEmpty());
}

// S27 in full.
TEST_F(HostileSourceTest, AnAnswerOf300BytesMayBeCutAtEveryOne) {
  config.fetch_backoff_ms = 10;
  const auto key = Copied(1);
  size_t size = 0;
  source.edit_body = [&](Bytes* body) { size = body->size(); };
  size_t cuts = 0;
  size_t largest = 0;
  for (size_t at = 0; at == 0 || at < largest; ++at) {
    const int64_t end = LogOf(key).View().end;
    source.cut_next_fetch_after = at;
    source.Append("t", 0, 1, 70);
    source.Append("t", 0, 1, 70);
    ASSERT_TRUE(Until([&] { return !source.cut_next_fetch_after.has_value(); })) << at;
    largest = std::max(largest, size);
    ++cuts;
    ASSERT_GE(LogOf(key).View().end, end);
    ASSERT_TRUE(CaughtUp(key, "t")) << at;
    ASSERT_EQ(LogOf(key).View().end, end + 2);
  }
  EXPECT_GE(largest, 290u);
  EXPECT_LE(largest, 400u);
  EXPECT_EQ(cuts, largest);
  ExpectSameBytes(key, "t");
  EXPECT_THAT(events.stopped, IsEmpty());
}

// What the checksum does not cover, and what the source alone can know, may say anything; all else
// is found. Whatever it is, the next good answer is taken.
TEST_F(HostileSourceTest, EveryByteOfAnAnswerMayLie) {
  config.fetch_backoff_ms = 10;
  StartBoth(2);
  Bytes original;
  size_t at = 0;
  uint8_t value = 0;
  bool told = true;
  bool of_bad = false;
  source.edit_fetch = [&](protocol::FetchResponse* response) { of_bad = IsOfBad(*response); };
  source.edit_body = [&](Bytes* body) {
    if (told || !of_bad) return;
    told = true;
    original = *body;
    if (at < body->size()) (*body)[at] = value;
  };
  size_t size = 1;
  size_t lies = 0;
  for (at = 0; at < size; ++at) {
    for (const uint8_t lie : {0x00, 0x01, 0x7f, 0x80, 0xff}) {
      SCOPED_TRACE("byte " + std::to_string(at) + " says " + std::to_string(lie));
      value = lie;
      told = false;
      source.Append("t", 0, 1, 30);
      ASSERT_TRUE(Until([&] { return told; }, 10min));
      size = original.size();
      ++lies;
      // A batch that is placed elsewhere, or a log that is trimmed, is what the source says it is:
      // the log begins anew then, as an operator would have it after such a source.
      const bool caught = Until(
          [&] { return !events.stopped.empty() || LogOf(bad).View().end >= source.At("t", 0).end; },
          30min);
      ASSERT_TRUE(caught) << Trouble();
      const bool same = LogOf(bad).Bytes() == source.At("t", 0).Bytes(LogOf(bad).View().log_start);
      if (!events.stopped.empty() || !same) {
        // Offsets and epochs of a batch lie outside its checksum.
        const size_t batch =
            original.size() - 1 - 1 - 1 - source.At("t", 0).batches.back().bytes.size();
        const bool header = at < batch + 17;
        EXPECT_TRUE(header) << "a byte under the checksum was believed";
        if (events.stopped.empty()) EXPECT_TRUE(Remove(bad));
        events.stopped.clear();
        MakeLog(bad);
        Add(bad, "t");
        ASSERT_TRUE(CaughtUp(bad, "t", 10min));
        ExpectSameBytes(bad, "t");
      }
    }
    source.Append("u", 0);
    ASSERT_TRUE(CaughtUp(good, "u", 50ms));
  }
  EXPECT_GT(lies, 500u);
  ExpectSameBytes(good, "u");
  EXPECT_LE(PeakBytes(), static_cast<double>(config.fetch_buffer_bytes));
}

TEST_F(HostileSourceTest, RecordsOfAnotherTopicIdAreNotStored) {
  StartBoth(3);
  Misbehave([](protocol::FetchResponse* response) {
    for (auto& topic : response->responses) topic.topic_id = TopicId(77);
  });
  source.Append("t", 0, 2);
  ExpectHarmless(1min, 3);
  EXPECT_THAT(Trouble(), HasSubstr("not asked for"));
  EXPECT_FALSE(events.trouble.empty());
  ExpectHealed();
}

TEST_F(HostileSourceTest, MorePartitionsThanWereAskedForAreNotStored) {
  StartBoth(3);
  // Another index; the same partition twice.
  for (const bool twice : {false, true}) {
    SCOPED_TRACE(twice);
    const int64_t end = source.At("t", 0).end;
    Misbehave([twice](protocol::FetchResponse* response) {
      for (auto& topic : response->responses) {
        if (topic.partitions.empty()) continue;
        auto more = topic.partitions[0];
        if (!twice) more.partition_index = 9;
        topic.partitions.insert(topic.partitions.begin(), std::move(more));
      }
    });
    source.Append("t", 0, 2);
    const auto until = runtime.MonotonicNow() + 30s;
    while (runtime.MonotonicNow() < until) {
      source.Append("u", 0);
      ASSERT_TRUE(CaughtUp(good, "u", 50ms));
      // What was asked for may be stored, once.
      ASSERT_LE(LogOf(bad).View().end, end + 2);
      runtime.Advance(200ms);
    }
    EXPECT_THAT(Trouble(), HasSubstr(twice ? "twice" : "not asked for"));
    ExpectHealed();
  }
}

TEST_F(HostileSourceTest, BatchesThatWereSentBeforeAreNotStoredAgain) {
  StartBoth(5);
  Misbehave([this](protocol::FetchResponse* response) {
    SetRecords(response, source.At("t", 0).batches[1].bytes);
  });
  source.Append("t", 0, 2);
  ExpectHarmless(15s, 5);
  EXPECT_THAT(Trouble(), HasSubstr("offsets 1 to 1 where 5 was asked for"));
  ExpectHealed();
}

TEST_F(HostileSourceTest, BatchesThatOverlapTheEndAreNotStored) {
  StartBoth(5);
  BatchSpec spec;
  spec.base_offset = 3;
  const Bytes overlapping = DataBatch(spec, 6);  // 3 to 8, where 5 is wanted
  Misbehave([&](protocol::FetchResponse* response) { SetRecords(response, overlapping); });
  source.Append("t", 0, 2);
  ExpectHarmless(15s, 5);
  EXPECT_THAT(Trouble(), HasSubstr("offsets 3 to 8 where 5 was asked for"));
  ExpectHealed();
}

TEST_F(HostileSourceTest, BatchesThatKeepGoingBackFailThePartitionRetryablyAndNameIt) {
  StartBoth(5);
  Misbehave([this](protocol::FetchResponse* response) {
    SetRecords(response, source.At("t", 0).batches[1].bytes);
  });
  source.Append("t", 0, 2);
  ASSERT_TRUE(Stopped());
  EXPECT_EQ(events.stopped[0].why, FetchStop::kLocalError) << "what the coordinator retries";
  EXPECT_THAT(events.stopped[0].message, HasSubstr("do not continue the log"));
  EXPECT_THAT(events.stopped[0].message, HasSubstr("where 5 was asked for"));
  EXPECT_EQ(LogOf(bad).View().end, 5);
  misbehaves = false;
  Add(bad, "t");
  ASSERT_TRUE(CaughtUp(bad, "t"));
  ExpectSameBytes(bad, "t");
}

TEST_F(HostileSourceTest, EpochsThatGoBackAreNotStored) {
  // Behind what the log holds, and within one answer.
  for (const bool within : {false, true}) {
    SCOPED_TRACE(within);
    events = {};
    const std::string topic = within ? "within" : "behind";
    const auto key = Topic(topic, 0, within ? 8 : 9);
    source.At(topic, 0).leader_epoch = 5;
    source.Append(topic, 0, 2);
    if (manager == nullptr) Start();
    Add(key, topic);
    ASSERT_TRUE(CaughtUp(key, topic));
    Bytes records;
    int64_t offset = 2;
    for (const int32_t epoch : within ? std::vector{5, 3} : std::vector{4}) {
      BatchSpec spec;
      spec.base_offset = offset++;
      spec.leader_epoch = epoch;
      const Bytes batch = DataBatch(spec);
      records.insert(records.end(), batch.begin(), batch.end());
    }
    misbehaves = true;
    source.edit_fetch = [&](protocol::FetchResponse* response) {
      if (misbehaves) SetRecords(response, records);
    };
    source.Append(topic, 0, 2);
    runtime.Advance(10s);
    EXPECT_EQ(LogOf(key).View().end, 2);
    EXPECT_THAT(manager->Position(key)->trouble,
                HasSubstr(within ? "epoch 3 at offset 3 behind one of epoch 5"
                                 : "epoch 4 at offset 2 behind one of epoch 5"));
    misbehaves = false;
    ASSERT_TRUE(CaughtUp(key, topic));
    ExpectSameBytes(key, topic);
    EXPECT_THAT(events.stopped, IsEmpty());
    EXPECT_TRUE(Remove(key));
  }
}

TEST_F(HostileSourceTest, MoreBytesThanWereAskedForAreTakenInBoundedMemory) {
  config.fetch_max_bytes = config.fetch_response_max_bytes = 100 << 10;
  config.fetch_buffer_bytes = 3 << 20;
  const auto key = Copied(1);
  // The limits are the source's to keep; 30 MiB come where 100 KiB were asked for.
  for (int i = 0; i < 500; ++i) source.Append("t", 0, 1, 60000);
  Bytes all = source.At("t", 0).Bytes(1);
  misbehaves = true;
  source.edit_fetch = [&](protocol::FetchResponse* response) {
    if (std::exchange(misbehaves, false)) SetRecords(response, all);
  };
  source.chunk_bytes = 64 << 10;
  ASSERT_TRUE(CaughtUp(key, "t"));
  ExpectSameBytes(key, "t");
  EXPECT_LE(PeakBytes(), static_cast<double>(config.fetch_buffer_bytes));
  EXPECT_GT(PeakBytes(), 0);
}

TEST_F(HostileSourceTest, AHugeFirstBatchIsTakenWholeAndNothingElseBesideIt) {
  config.fetch_max_bytes = config.fetch_response_max_bytes = 100 << 10;
  config.fetch_buffer_bytes = 2 << 20;
  const auto key = Topic("t");
  source.Append("t", 0, 1, 12 << 20);
  for (int i = 0; i < 200; ++i) source.Append("t", 0, 1, 50000);
  source.chunk_bytes = 64 << 10;
  Start();
  Add(key, "t");
  ASSERT_TRUE(CaughtUp(key, "t"));
  ExpectSameBytes(key, "t");
  EXPECT_GE(PeakBytes(), 12.0 * (1 << 20));
  EXPECT_LE(PeakBytes(), 15.0 * (1 << 20));
}

TEST_F(HostileSourceTest, ABatchThatClaimsMoreThanItHasStoresNothing) {
  StartBoth(3);
  // The batch says 2 GiB, 1 GiB, or a byte more than there is; its partition's length is right.
  for (const int32_t claim : {INT32_MAX - 12, 1 << 30, -1}) {
    SCOPED_TRACE(claim);
    const int64_t end = source.At("t", 0).end;
    source.Append("t", 0, 1, 100);
    Bytes lying = source.At("t", 0).batches.back().bytes;
    const int32_t length = claim > 0 ? claim : static_cast<int32_t>(lying.size()) - 12 + 1;
    for (int i = 0; i < 4; ++i) lying[8 + i] = static_cast<uint8_t>(length >> (24 - 8 * i));
    Misbehave([&](protocol::FetchResponse* response) { SetRecords(response, lying); });
    source.Wake();
    ExpectHarmless(15s, end);
    EXPECT_THAT(Trouble(), HasSubstr("no whole batch"));
    ExpectHealed();
  }
  EXPECT_LE(PeakBytes(), static_cast<double>(config.fetch_buffer_bytes));
}

TEST_F(HostileSourceTest, ASourceThatForgetsToAnswerOnePartitionIsAskedAgain) {
  StartBoth(3);
  const auto second = Topic("t", 1);
  Misbehave([](protocol::FetchResponse* response) {
    for (auto& topic : response->responses) {
      std::erase_if(topic.partitions, [](const auto& each) { return each.partition_index == 1; });
    }
  });
  Add(second, "t");
  source.Append("t", 1);
  runtime.Advance(5s);
  EXPECT_EQ(LogOf(second).View().end, 0);
  misbehaves = false;
  source.Append("t", 1);
  ASSERT_TRUE(CaughtUp(second, "t"));
  ExpectSameBytes(second, "t");
  ExpectHealed();
}

}  // namespace
}  // namespace kmirror::fetcher::testing
