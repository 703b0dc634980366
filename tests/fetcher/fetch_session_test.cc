// KIP-227 from the client's side, row by row (fetcher-and-log 1.10), and the other pure parts.
#include "src/fetcher/fetch_session.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "src/fetcher/backoff.h"
#include "src/fetcher/fetcher_id.h"
#include "src/fetcher/partition_fetch_state.h"
#include "src/fetcher/truncation_point.h"

namespace kmirror::fetcher {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

SessionPartition Wanted(int32_t index, int64_t offset = 0, uint64_t generation = 1) {
  SessionPartition partition;
  partition.key.topic_id.bytes.fill(1);
  partition.key.partition = index;
  partition.topic = "t";
  partition.source_topic_id = partition.key.topic_id;
  partition.fetch_offset = offset;
  partition.max_bytes = 100;
  partition.generation = generation;
  return partition;
}

std::vector<int32_t> Indexes(const std::vector<SessionPartition>& partitions) {
  std::vector<int32_t> indexes;
  for (const auto& partition : partitions) indexes.push_back(partition.key.partition);
  return indexes;
}

class FetchSessionTest : public ::testing::Test {
 protected:
  // A session with partitions 0..count-1, opened as number 77.
  void OpenWith(int32_t count) {
    std::vector<SessionPartition> wanted;
    for (int32_t i = 0; i < count; ++i) wanted.push_back(Wanted(i));
    const auto request = session.BuildFull(wanted);
    EXPECT_EQ(request.session_epoch, 0);
    ASSERT_TRUE(Answer(ErrorCode::kNone, 77, wanted).ok());
  }
  Status Answer(ErrorCode error, int32_t id, const std::vector<SessionPartition>& partitions,
                int32_t throttle = 0) {
    if (Status status = session.OnPrologue(error, id); !status.ok()) return status;
    for (const auto& partition : partitions) (void)session.OnPartition(&partition.key);
    return session.OnEnd(throttle);
  }
  FetchSession::Request Incremental(std::vector<SessionPartition> changed,
                                    std::vector<TopicIdPartition> unwanted = {}) {
    again.clear();
    return session.BuildIncremental(std::move(changed), unwanted, &again);
  }
  FetchSession session;
  std::vector<TopicIdPartition> again;
};

TEST_F(FetchSessionTest, AFullFetchOpensASessionAndTheNextOnesAreIncremental) {
  OpenWith(2);
  EXPECT_EQ(session.id(), 77);
  auto request = Incremental({});
  EXPECT_EQ(request.session_id, 77);
  EXPECT_EQ(request.session_epoch, 1);
  EXPECT_THAT(request.partitions, IsEmpty());
  ASSERT_TRUE(Answer(ErrorCode::kNone, 77, {}).ok());
  EXPECT_EQ(Incremental({}).session_epoch, 2);
}

// What an answer left out has no news; what it named with an error has, and nobody knows which.
TEST_F(FetchSessionTest, AnErrorNamesAPartitionToo) {
  OpenWith(1);
  (void)Incremental({Wanted(1), Wanted(2)});
  ASSERT_TRUE(Answer(ErrorCode::kNone, 77, {Wanted(2)}).ok());
  EXPECT_FALSE(session.Named(Wanted(1).key));
  EXPECT_TRUE(session.Named(Wanted(2).key));
  EXPECT_FALSE(session.Named(Wanted(3).key)) << "not in the session";
  (void)Incremental({});
  ASSERT_TRUE(Answer(ErrorCode::kNone, 77, {}).ok());
  EXPECT_FALSE(session.Named(Wanted(2).key)) << "an earlier answer did";
}

TEST_F(FetchSessionTest, OnlyChangedPartitionsAreSentInTheOrderGiven) {
  OpenWith(3);
  const auto request = Incremental({Wanted(2, 5), Wanted(0, 0), Wanted(1, 9), Wanted(4)});
  EXPECT_THAT(Indexes(request.partitions), ElementsAre(2, 1, 4));
  EXPECT_EQ(session.Find(Wanted(2).key)->fetch_offset, 5);
}

TEST_F(FetchSessionTest, UnwantedPartitionsAreForgottenOnce) {
  OpenWith(2);
  auto request = Incremental({}, {Wanted(1).key, Wanted(9).key});
  EXPECT_THAT(Indexes(request.forgotten), ElementsAre(1));
  ASSERT_TRUE(Answer(ErrorCode::kNone, 77, {}).ok());
  request = Incremental({}, {Wanted(1).key});
  EXPECT_THAT(request.forgotten, IsEmpty());
  EXPECT_EQ(session.size(), 1u);
}

TEST_F(FetchSessionTest, AnotherAssignmentOfAPartitionLeavesTheSessionFirst) {
  OpenWith(2);
  auto request = Incremental({Wanted(1, 0, /*generation=*/2)});
  EXPECT_THAT(request.partitions, IsEmpty());
  EXPECT_THAT(Indexes(request.forgotten), ElementsAre(1));
  EXPECT_TRUE(request.hurry);
  EXPECT_THAT(again, ElementsAre(Wanted(1).key));
  ASSERT_TRUE(Answer(ErrorCode::kNone, 77, {}).ok());
  request = Incremental({Wanted(1, 0, 2)});
  EXPECT_THAT(Indexes(request.partitions), ElementsAre(1));
  EXPECT_FALSE(request.hurry);
}

TEST_F(FetchSessionTest, AnEvictedSessionStartsFromNothing) {
  OpenWith(1);
  Incremental({});
  EXPECT_FALSE(Answer(ErrorCode::kFetchSessionIdNotFound, 0, {}).ok());
  EXPECT_TRUE(session.NeedsFull());
  EXPECT_EQ(session.id(), 0);
}

TEST_F(FetchSessionTest, AnyOtherRefusalClosesTheOldSessionWithTheNextFetch) {
  OpenWith(1);
  Incremental({});
  EXPECT_FALSE(Answer(ErrorCode::kInvalidFetchSessionEpoch, 0, {}).ok());
  EXPECT_TRUE(session.NeedsFull());
  EXPECT_EQ(session.BuildFull({Wanted(0)}).session_id, 77);
}

TEST_F(FetchSessionTest, ALostConnectionClosesTheOldSessionWithTheNextFetch) {
  OpenWith(1);
  Incremental({});
  session.OnTransportFailure();
  EXPECT_TRUE(session.NeedsFull());
  EXPECT_EQ(session.BuildFull({Wanted(0)}).session_id, 77);
}

TEST_F(FetchSessionTest, AnAnswerToAFullFetchMustNameExactlyWhatWasAsked) {
  session.BuildFull({Wanted(0), Wanted(1)});
  EXPECT_FALSE(Answer(ErrorCode::kNone, 77, {Wanted(0)}).ok());
  EXPECT_TRUE(session.NeedsFull());
  EXPECT_EQ(session.id(), 0);
  session.BuildFull({Wanted(0), Wanted(1)});
  EXPECT_FALSE(Answer(ErrorCode::kNone, 77, {Wanted(0), Wanted(1), Wanted(2)}).ok());
  session.BuildFull({Wanted(0), Wanted(1)});
  EXPECT_FALSE(Answer(ErrorCode::kNone, 77, {Wanted(0), Wanted(0)}).ok());
}

TEST_F(FetchSessionTest, AnAnswerToAnIncrementalFetchMayLeaveOutButNotInvent) {
  OpenWith(2);
  Incremental({Wanted(0, 3)});
  EXPECT_TRUE(Answer(ErrorCode::kNone, 77, {}).ok());
  Incremental({});
  EXPECT_FALSE(Answer(ErrorCode::kNone, 77, {Wanted(5)}).ok());
  EXPECT_TRUE(session.NeedsFull());
  EXPECT_EQ(session.BuildFull({Wanted(0)}).session_id, 77);
}

TEST_F(FetchSessionTest, SessionZeroMeansFullFetchesForEver) {
  session.BuildFull({Wanted(0)});
  EXPECT_TRUE(Answer(ErrorCode::kNone, 0, {Wanted(0)}).ok());
  EXPECT_TRUE(session.NeedsFull());
  OpenWith(1);
  Incremental({});
  EXPECT_TRUE(Answer(ErrorCode::kNone, 0, {}).ok());
  EXPECT_TRUE(session.NeedsFull());
}

TEST_F(FetchSessionTest, AThrottledEmptyFullAnswerIsNoErrorAndNoSession) {
  session.BuildFull({Wanted(0)});
  EXPECT_TRUE(Answer(ErrorCode::kNone, 77, {}, /*throttle=*/500).ok());
  EXPECT_TRUE(session.NeedsFull());
  EXPECT_EQ(session.id(), 0);
}

TEST_F(FetchSessionTest, AThrottledEmptyIncrementalAnswerAdvancesTheSession) {
  OpenWith(1);
  Incremental({});
  EXPECT_TRUE(Answer(ErrorCode::kNone, 77, {}, /*throttle=*/500).ok());
  EXPECT_EQ(session.epoch(), 2);
}

// ---- Truncation points (1.6).

struct PointRow {
  host::EpochEnd source, local;
  int64_t fetch_offset, log_end;
  TruncationPoint expected;
};

TEST(TruncationPointTest, FollowsEveryRowOfTheTable) {
  const PointRow rows[] = {
      // The source knows no end: where we would fetch.
      {{-1, -1}, {5, 80}, 90, 100, {90, true}},
      // A peer of protocol v0: an offset without an epoch.
      {{-1, 70}, {-1, -1}, 90, 100, {70, true}},
      {{-1, 170}, {-1, -1}, 90, 100, {100, true}},
      // We know no epoch at or below the source's.
      {{3, 70}, {-1, -1}, 90, 100, {70, true}},
      // The same epoch on both sides: the lower end.
      {{3, 70}, {3, 60}, 90, 100, {60, true}},
      {{3, 60}, {3, 70}, 90, 100, {60, true}},
      {{3, 200}, {3, 100}, 90, 100, {100, true}},
      // An epoch we never had: cut to our older one and ask again.
      {{3, 70}, {2, 40}, 90, 100, {40, false}},
      {{3, 70}, {2, 140}, 90, 100, {100, false}},
  };
  for (const PointRow& row : rows) {
    EXPECT_EQ(FindTruncationPoint(row.source, row.local, row.fetch_offset, row.log_end),
              row.expected)
        << row.source.epoch << " " << row.source.end_offset;
  }
}

TEST(OutOfRangeTest, DecidesByBothLimits) {
  EXPECT_EQ(DecideOutOfRange(100, 90, std::nullopt)->what, OutOfRange::kSourceShorter);
  EXPECT_FALSE(DecideOutOfRange(100, 100, std::nullopt).has_value());
  EXPECT_EQ(DecideOutOfRange(100, 500, 300)->what, OutOfRange::kGap);
  EXPECT_EQ(DecideOutOfRange(100, 500, 300)->offset, 300);
  EXPECT_EQ(DecideOutOfRange(100, 500, 100)->what, OutOfRange::kWithin);
  EXPECT_EQ(DecideOutOfRange(100, 100, 0)->what, OutOfRange::kWithin);
}

// ---- Turns, numbers, delays.

TEST(FetchOrderTest, KeepsInsertionOrderAndMovesToTheEnd) {
  FetchOrder<int> order;
  const auto key = [](int32_t i) { return TopicIdPartition{{}, i}; };
  for (int i = 0; i < 4; ++i) order.Put(key(i), i);
  order.MoveToEnd(key(1));
  order.Put(key(0), 10);
  EXPECT_TRUE(order.Erase(key(2)));
  EXPECT_FALSE(order.Erase(key(2)));
  std::vector<int> values;
  for (const auto& [k, value] : order) values.push_back(value);
  EXPECT_THAT(values, ElementsAre(3, 1, 10));
}

TEST(FetcherIdTest, IsKafkasHash) {
  // String.hashCode: "orders" and a name whose hash wraps around, as the Java library computes
  // them.
  EXPECT_EQ(JavaStringHash("orders"), -1008770331);
  EXPECT_EQ(JavaStringHash("polygenelubricants"), INT32_MIN);
  EXPECT_EQ(JavaStringHash(""), 0);
  EXPECT_EQ(FetcherId("", 5, 3), 2);
  for (int32_t partition = 0; partition < 100; ++partition) {
    const int32_t id = FetcherId("orders", partition, 7);
    EXPECT_GE(id, 0);
    EXPECT_LT(id, 7);
  }
}

TEST(FetcherIdTest, TheMostNegativeSumIsNumberZero) {
  // 31 * hash + partition = INT32_MIN: hash("polygenelubricants") = INT32_MIN, times 31 the same.
  EXPECT_EQ(FetcherId("polygenelubricants", 0, 5), 0);
}

TEST(BackoffTest, DoublesToItsLimitWithinAFifth) {
  using std::chrono::seconds;
  for (const uint64_t random : {uint64_t{0}, uint64_t{12345678901234567}, ~uint64_t{0}}) {
    Backoff backoff(seconds(1), seconds(300));
    double expected = 1;
    for (int i = 0; i < 40; ++i) {
      const double delay = std::chrono::duration<double>(backoff.Next(random)).count();
      EXPECT_GE(delay, expected * 0.79);
      EXPECT_LE(delay, expected * 1.21);
      expected = std::min(expected * 2, 300.0);
    }
    backoff.Reset();
    EXPECT_LE(backoff.Next(random), std::chrono::milliseconds(1201));
  }
}

}  // namespace
}  // namespace kmirror::fetcher
