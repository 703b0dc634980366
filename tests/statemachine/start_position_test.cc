#include "src/statemachine/start_position.h"

#include <gtest/gtest.h>

#include <random>

#include "src/base/java_hash.h"

namespace kmirror::statemachine {
namespace {

LogShape Shape(int64_t start, int64_t end, std::vector<EpochStart> epochs) {
  return {start, end, epochs};
}

// What Kafka answers to OffsetForLeaderEpoch (fetcher-and-log.md 5.1).
std::pair<int32_t, int64_t> SourceAnswer(const LogShape& source, int32_t epoch) {
  if (source.epochs.empty() || epoch > source.epochs.back().epoch) return {-1, -1};
  if (epoch == source.epochs.back().epoch) return {epoch, source.end};
  const EpochStart* floor = nullptr;
  int64_t next_start = source.end;
  for (const EpochStart& entry : source.epochs) {
    if (entry.epoch <= epoch) {
      floor = &entry;
    } else {
      next_start = entry.start_offset;
      break;
    }
  }
  if (floor == nullptr) return {epoch, source.epochs.front().start_offset};
  return {floor->epoch, next_start};
}

std::optional<int64_t> Exchange(const LogShape& local, const LogShape& source,
                                int* rounds = nullptr) {
  EpochExchange exchange(local);
  int asked = 0;
  while (auto question = exchange.Question()) {
    const auto [epoch, end] = SourceAnswer(source, *question);
    exchange.Answer(epoch, end);
    ++asked;
    if (asked > 100) ADD_FAILURE() << "does not end";
    if (asked > 100) break;
  }
  if (rounds != nullptr) *rounds = asked;
  return exchange.Cut();
}

// The numbers of coordinator.md 9.1.
TEST(CutForPosition, KeepsTheCommonPrefixAtAFailback) {
  const LogShape a = Shape(0, 110, {{3, 0}, {5, 60}, {6, 105}});
  EXPECT_EQ(CutForPosition(a, {5, 100}), 100);
  EXPECT_EQ(CutForPosition(a, {5, -1}), 105) << "no offset known: the epoch's end alone";
  EXPECT_EQ(CutForPosition(a, {3, 100}), 60);
  const LogShape b = Shape(0, 150, {{3, 0}, {5, 60}, {16, 100}});
  EXPECT_EQ(CutForPosition(b, {16, 150}), 150);
}

TEST(CutForPosition, DoesNotFallToZeroForAnEpochAboveEveryLocalOne) {
  const LogShape b = Shape(0, 40, {{3, 0}});
  EXPECT_EQ(CutForPosition(b, {9, 30}), 30);
  EXPECT_EQ(CutForPosition(b, {9, 90}), 40);
}

TEST(CutForPosition, KnowsAnAgreementOnAnEmptyLog) {
  EXPECT_FALSE((MirrorPosition{-1, 0}).IsNone());
  EXPECT_TRUE((MirrorPosition{}).IsNone());
  EXPECT_EQ(CutForPosition(Shape(0, 3, {{11, 0}}), {-1, 0}), 0)
      << "only the reset and local records follow";
}

TEST(Later, PrefersTheGreaterEpochThenTheGreaterOffset) {
  EXPECT_EQ(Later({5, 100}, {16, 20}), (MirrorPosition{16, 20}));
  EXPECT_EQ(Later({5, 100}, {5, 90}), (MirrorPosition{5, 100}));
  EXPECT_EQ(Later({}, {0, 0}), (MirrorPosition{0, 0}));
}

TEST(EpochExchange, AsksNothingForAnEmptyLog) {
  EpochExchange exchange(Shape(7, 7, {}));
  EXPECT_EQ(exchange.Question(), std::nullopt);
  EXPECT_EQ(exchange.Cut(), 7);
}

TEST(EpochExchange, CutsATailTheSourceLost) {
  EXPECT_EQ(Exchange(Shape(0, 30, {{0, 0}}), Shape(0, 25, {{0, 0}, {1, 20}})), 20);
}

TEST(EpochExchange, SkipsLocalEpochsTheSourceNeverHad) {
  // B stopped at 100 in epoch 5, wrote its own in 16, and starts again towards A at epoch 6.
  const LogShape b = Shape(0, 150, {{3, 0}, {5, 60}, {16, 100}});
  const LogShape a = Shape(0, 110, {{3, 0}, {5, 60}, {6, 105}});
  EXPECT_EQ(Exchange(b, a), 100);
}

TEST(EpochExchange, SaysNothingWhenNoEpochIsInCommon) {
  EXPECT_EQ(Exchange(Shape(0, 5, {{4, 0}}), Shape(0, 0, {})), std::nullopt);
  EXPECT_EQ(EpochExchange(Shape(0, 5, {})).Cut(), std::nullopt)
      << "v0 and v1 entries carry no epoch";
}

TEST(EpochExchange, FindsExactlyTheCommonPrefixOfAnyTwoHistoriesOfOneWriterPerEpoch) {
  std::mt19937 random(20261130);
  for (int round = 0; round < 5000; ++round) {
    // A common past, then each side goes on in epochs the other never had.
    LogShape local, source;
    int64_t at = 0;
    int32_t epoch = 0;
    for (int n = static_cast<int>(random() % 4) + 1; n > 0; --n) {
      epoch += 1 + static_cast<int32_t>(random() % 3);
      local.epochs.push_back({epoch, at});
      at += 1 + static_cast<int64_t>(random() % 20);
    }
    source = local;
    // The last common epoch may have gone on at the source beyond what was mirrored.
    local.end = at;
    source.end = at + static_cast<int64_t>(random() % 5);
    int32_t next = epoch;
    auto extend = [&](LogShape& log, int32_t step) {
      for (int n = static_cast<int>(random() % 3); n > 0; --n) {
        next += step + static_cast<int32_t>(random() % 3);
        log.epochs.push_back({next, log.end});
        log.end += 1 + static_cast<int64_t>(random() % 10);
      }
    };
    extend(source, 1);
    extend(local, 1);
    int rounds = 0;
    const auto cut = Exchange(local, source, &rounds);
    ASSERT_TRUE(cut.has_value());
    EXPECT_EQ(*cut, at) << "round " << round;
    EXPECT_LE(rounds, static_cast<int>(local.epochs.size()));
  }
}

TEST(StartCut, AnEmptyLogNeedsNoQuestion) {
  const StartCut start = ChooseStartCut(Shape(7, 7, {}), {5, 100}, {});
  EXPECT_EQ(start.next, StartCut::Next::kCut);
  EXPECT_EQ(start.cut, 7);
}

TEST(StartCut, RecordsThatWereNeverMirroredAreNotCutSilently) {  // R26
  PartitionRecord record;
  EXPECT_EQ(ChooseStartCut(Shape(0, 5, {{0, 0}}), {}, record).next,
            StartCut::Next::kNoCommonPosition);
  record.progress = Progress::kCutting;
  EXPECT_EQ(ChooseStartCut(Shape(0, 5, {{0, 0}}), {}, record).next,
            StartCut::Next::kNoCommonPosition)
      << "a cut was announced and never made";
  record.progress = Progress::kMirrored;
  EXPECT_EQ(ChooseStartCut(Shape(0, 5, {{0, 0}}), {}, record).next, StartCut::Next::kCompareEpochs);
}

TEST(StartCut, TheLaterPositionIsCutAtBeforeEpochsAreCompared) {  // 3.6
  PartitionRecord record;
  record.position = {5, 100};
  const StartCut start =
      ChooseStartCut(Shape(0, 150, {{3, 0}, {5, 60}, {16, 100}}), {4, 50}, record);
  EXPECT_EQ(start.next, StartCut::Next::kCompareEpochs);
  EXPECT_EQ(start.known, (MirrorPosition{5, 100}));
  EXPECT_EQ(start.shape.end, 100);
  record.position = {-1, 0};
  EXPECT_EQ(ChooseStartCut(Shape(0, 5, {{16, 0}}), {}, record).next, StartCut::Next::kCut);
}

TEST(StartCut, NoEpochInCommonIsAnAnswerOnlyWithAKnownPosition) {
  EpochExchange exchange(Shape(0, 5, {{4, 0}}));
  exchange.Answer(-1, -1);
  EXPECT_EQ(CutAfterExchange(exchange, {}, 0), std::nullopt);
  EpochExchange below(Shape(0, 5, {{4, 0}}));
  below.Answer(2, 0);
  EXPECT_EQ(CutAfterExchange(below, {}, 0), std::nullopt);
  EXPECT_EQ(CutAfterExchange(below, {4, 3}, 0), 0);
}

TEST(JavaHash, MatchesTheVectorsOfTheSpecification) {
  EXPECT_EQ(JavaHash("a-to-b:ASNFZ4mrze_-3LqYdlQyEA:0"), 2031615075);
  EXPECT_EQ(AbsHash(JavaHash("a-to-b:ASNFZ4mrze_-3LqYdlQyEA:0")) % 50, 25);
  EXPECT_EQ(AbsHash(JavaHash("a-to-b:ASNFZ4mrze_-3LqYdlQyEA:1")) % 50, 26);
  EXPECT_EQ(AbsHash(JavaHash("my-mirror:AAAAAAAAAAAAAAAAAAAAAQ:7")) % 50, 29);
  EXPECT_EQ(JavaHash("a-to-b"), -1472817284);
  EXPECT_EQ(AbsHash(JavaHash("a-to-b")) % 50, 34);
  EXPECT_EQ(JavaHash("polygenelubricants"), INT32_MIN);
  EXPECT_EQ(AbsHash(JavaHash("polygenelubricants")), 0);
}

}  // namespace
}  // namespace kmirror::statemachine
