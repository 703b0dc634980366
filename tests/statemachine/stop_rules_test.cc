#include "src/statemachine/stop_rules.h"

#include <gtest/gtest.h>

#include "src/statemachine/epoch_rules.h"
#include "src/statemachine/reconcile.h"

namespace kmirror::statemachine {
namespace {

using S = MirrorPartitionState;

PartitionRecord With(Progress progress, MirrorPosition position = {}) {
  PartitionRecord record;
  record.state = S::kStopping;
  record.progress = progress;
  record.position = position;
  return record;
}

TEST(StopRules, TouchTheLogOnlyIfMirroringDid) {
  EXPECT_TRUE(StopIsOnlyAWrite(With(Progress::kUntouched)));
  EXPECT_FALSE(StopIsOnlyAWrite(With(Progress::kCutting)));
  EXPECT_FALSE(StopIsOnlyAWrite(With(Progress::kMirrored)));
}

TEST(StopRules, TakeThePositionOnceAndOnlyFromAMirroredLog) {  // 6.3
  EXPECT_TRUE(StopTakesPosition(With(Progress::kMirrored)));
  EXPECT_FALSE(StopTakesPosition(With(Progress::kMirrored, {5, 100})));
  EXPECT_FALSE(StopTakesPosition(With(Progress::kMirrored, {-1, 0}))) << "an empty log agreed on";
  EXPECT_FALSE(StopTakesPosition(With(Progress::kCutting)));
  EXPECT_FALSE(StopTakesPosition(With(Progress::kUntouched, {5, 100})));
}

TEST(StopRules, ThePositionIsTheLastBatchAndTheEnd) {
  const LogShape log{.log_start = 0, .end = 100, .epochs = {{3, 0}, {5, 60}, {20, 100}}};
  EXPECT_EQ(PositionAtEnd(log, 5, 20), (MirrorPosition{5, 100}));
}

TEST(StopRules, ThePositionOfAnEmptiedLogNeverNamesAnEpochOfOurOwn) {
  // A leader that was elected once the stop was wanted has entered its epoch at the end (6.3).
  const LogShape log{.log_start = 100, .end = 100, .epochs = {{5, 60}, {20, 100}}};
  EXPECT_EQ(PositionAtEnd(log, -1, 20), (MirrorPosition{5, 100}));
  EXPECT_EQ(PositionAtEnd(log, -1, 21), (MirrorPosition{20, 100}));
  const LogShape own{.log_start = 100, .end = 100, .epochs = {{20, 100}}};
  EXPECT_EQ(PositionAtEnd(own, -1, 20), (MirrorPosition{-1, 100}));
  EXPECT_EQ(PositionAtEnd({}, -1, 20), (MirrorPosition{-1, 0}));
}

TEST(StopRules, TheEpochRisesAboveWhatWasMirroredAndWhatTheSourceMayHaveReached) {
  EXPECT_EQ(StopEpochFloor(With(Progress::kMirrored, {5, 100}), 5, std::nullopt), 5);
  EXPECT_EQ(StopEpochFloor(With(Progress::kMirrored, {5, 100}), 16, std::nullopt), 5)
      << "markers of an earlier attempt do not count";
  EXPECT_EQ(StopEpochFloor(With(Progress::kMirrored, {5, 100}), 5, 6), 16);
  EXPECT_EQ(StopEpochFloor(With(Progress::kMirrored, {50, 100}), 50, 6), 50);
  EXPECT_EQ(StopEpochFloor(With(Progress::kCutting), 16, std::nullopt), 16);
  EXPECT_EQ(StopEpochFloor(With(Progress::kCutting), -1, -1), -1);
  EXPECT_EQ(StopEpochFloor(With(Progress::kMirrored, {5, 100}), 5, INT32_MAX), 5);
}

TEST(EpochRules, KeepADistanceAndDoNotOverflow) {  // 3.5
  EXPECT_TRUE(EpochIsNear(5, 0));
  EXPECT_TRUE(EpochIsNear(14, 16));
  EXPECT_FALSE(EpochIsNear(13, 16));
  EXPECT_EQ(EpochFloor(5), 15);
  EXPECT_EQ(EpochFloor(INT32_MAX - 11), INT32_MAX - 1);
  EXPECT_FALSE(EpochFloor(INT32_MAX - 10).has_value());
}

}  // namespace
}  // namespace kmirror::statemachine
