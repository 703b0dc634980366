#include "kmirror/log/epoch_history.h"

#include <gtest/gtest.h>

namespace kmirror::log {
namespace {

EpochHistory Of(const std::vector<EpochStart>& entries) {
  EpochHistory history;
  for (const EpochStart& entry : entries) history.Assign(entry.epoch, entry.start_offset);
  return history;
}

TEST(EpochHistory, KeepsTheFirstStartOfAnEpoch) {
  EpochHistory history;
  EXPECT_TRUE(history.Assign(3, 10));
  EXPECT_FALSE(history.Assign(3, 20));
  EXPECT_TRUE(history.Assign(5, 30));
  EXPECT_FALSE(history.Assign(-1, 40));
  EXPECT_FALSE(history.Assign(6, -1));
  EXPECT_EQ(history.entries(), (std::vector<EpochStart>{{3, 10}, {5, 30}}));
}

TEST(EpochHistory, RemovesWhatContradictsANewEntry) {
  EpochHistory history = Of({{1, 0}, {3, 10}, {5, 30}});
  EXPECT_TRUE(history.Assign(4, 20));  // epoch 5 above it cannot be
  EXPECT_EQ(history.entries(), (std::vector<EpochStart>{{1, 0}, {3, 10}, {4, 20}}));
  EXPECT_TRUE(history.Assign(6, 10));  // nor may epochs start where it does
  EXPECT_EQ(history.entries(), (std::vector<EpochStart>{{1, 0}, {6, 10}}));
}

TEST(EpochHistory, AnswersTheTableOfTheEpochExchange) {
  const EpochHistory history = Of({{3, 10}, {5, 60}, {16, 100}});
  EXPECT_EQ(history.EndOffsetFor(-1, 150), (EpochEnd{-1, -1}));
  EXPECT_EQ(history.EndOffsetFor(16, 150), (EpochEnd{16, 150}));
  EXPECT_EQ(history.EndOffsetFor(17, 150), (EpochEnd{-1, -1}));
  EXPECT_EQ(history.EndOffsetFor(2, 150), (EpochEnd{2, 10}));
  EXPECT_EQ(history.EndOffsetFor(3, 150), (EpochEnd{3, 60}));
  EXPECT_EQ(history.EndOffsetFor(4, 150), (EpochEnd{3, 60}));
  EXPECT_EQ(history.EndOffsetFor(5, 150), (EpochEnd{5, 100}));
  EXPECT_EQ(history.EndOffsetFor(15, 150), (EpochEnd{5, 100}));
  EXPECT_EQ(EpochHistory().EndOffsetFor(1, 150), (EpochEnd{-1, -1}));
}

TEST(EpochHistory, FindsTheEpochOfAnOffsetAndTheOneBefore) {
  const EpochHistory history = Of({{3, 10}, {5, 60}});
  EXPECT_EQ(history.EpochForOffset(9), std::nullopt);
  EXPECT_EQ(history.EpochForOffset(10), 3);
  EXPECT_EQ(history.EpochForOffset(59), 3);
  EXPECT_EQ(history.EpochForOffset(60), 5);
  EXPECT_EQ(history.Previous(5), (EpochStart{3, 10}));
  EXPECT_EQ(history.Previous(4), (EpochStart{3, 10}));
  EXPECT_EQ(history.Previous(3), std::nullopt);
}

TEST(EpochHistory, IsCutAtBothEnds) {
  EpochHistory history = Of({{1, 0}, {2, 10}, {3, 20}});
  EXPECT_FALSE(history.TruncateFromEnd(21));
  EXPECT_TRUE(history.TruncateFromEnd(20));
  EXPECT_EQ(history.entries(), (std::vector<EpochStart>{{1, 0}, {2, 10}}));
  EXPECT_TRUE(history.TruncateFromStart(5));
  EXPECT_EQ(history.entries(), (std::vector<EpochStart>{{1, 5}, {2, 10}}));
  EXPECT_TRUE(history.TruncateFromStart(10));
  EXPECT_EQ(history.entries(), (std::vector<EpochStart>{{2, 10}}));
  EXPECT_FALSE(history.TruncateFromStart(10));
  EXPECT_TRUE(history.TruncateFromStart(99));
  EXPECT_EQ(history.entries(), (std::vector<EpochStart>{{2, 99}}));
}

TEST(EpochHistory, LowersTheStartOfTheLeadersOwnEpoch) {
  EpochHistory history = Of({{1, 0}, {7, 50}});
  EXPECT_FALSE(history.LowerStart(6, 40));
  EXPECT_FALSE(history.LowerStart(7, 50));
  EXPECT_TRUE(history.LowerStart(7, 40));
  EXPECT_EQ(history.entries(), (std::vector<EpochStart>{{1, 0}, {7, 40}}));
}

TEST(EpochHistory, WritesAndReadsTheCheckpointText) {
  const EpochHistory history = Of({{0, 0}, {2, 11}, {13, 41}});
  const std::string text = "0\n3\n0 0\n2 11\n13 41\n";  // as the prototype's broker wrote it
  EXPECT_EQ(history.Encode(), text);
  auto read = EpochHistory::Decode(text);
  ASSERT_TRUE(read.ok());
  EXPECT_EQ(read->entries(), history.entries());
  EXPECT_EQ(EpochHistory().Encode(), "0\n0\n");
  for (const char* bad :
       {"", "0", "1\n0\n", "0\n2\n0 0\n", "0\n1\n0\n", "0\n1\nx 0\n", "0\n1\n0 0 0\n",
        "0\n2\n1 0\n1 5\n", "0\n2\n1 5\n2 5\n", "0\n1\n-1 5\n", "0\n-1\n"}) {
    EXPECT_FALSE(EpochHistory::Decode(bad).ok()) << bad;
  }
}

}  // namespace
}  // namespace kmirror::log
