// The demo's arithmetic of loss: it must not flatter.
#include "tools/lab/failover_report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tools/lab/steady_producer.h"

namespace kmirror::lab {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

ReadRecord Record(int64_t number, int64_t offset, int32_t partition = 0) {
  return {partition, offset, 1000 + number, "key", ValueOf(number, 40)};
}

TEST(FailoverReport, NumbersAreReadBackFromValues) {
  EXPECT_EQ(NumberOf(ValueOf(0, 10)), 0);
  EXPECT_EQ(NumberOf(ValueOf(123456789, 200)), 123456789);
  EXPECT_EQ(NumberOf(ValueOf(5, 1)), 5);
  EXPECT_EQ(NumberOf("record x"), -1);
  EXPECT_EQ(NumberOf("something else"), -1);
}

// Source: 0..4 acknowledged, 5 written and not acknowledged. Mirrored: 0..2 and, by luck, nothing
// of the rest. After the failover 5 was sent again, then 6 and 7.
TEST(FailoverReport, LostIsWhatWasAcknowledgedAndIsNotHere) {
  Journal journal;
  for (int64_t n = 0; n < 5; ++n) journal.acked[0][n] = {0, n};
  journal.again = {5};
  for (int64_t n = 5; n < 8; ++n) journal.acked[1][n] = {0, n};
  std::vector<ReadRecord> source, destination;
  for (int64_t n = 0; n < 6; ++n) source.push_back(Record(n, n));
  for (int64_t n = 0; n < 3; ++n) destination.push_back(Record(n, n));
  for (int64_t n = 5; n < 8; ++n) destination.push_back(Record(n, n));
  const FailoverCounts counts = CountFailover(source, destination, {3}, journal);
  EXPECT_EQ(counts.mirrored, 3);
  EXPECT_EQ(counts.identical, 3);
  EXPECT_THAT(counts.lost, ElementsAre(3, 4));
  EXPECT_EQ(counts.again, 1);
  EXPECT_EQ(counts.twice, 0);
  EXPECT_EQ(counts.after, 3);
  EXPECT_EQ(counts.after_missing, 0);
  EXPECT_TRUE(counts.sound());
}

TEST(FailoverReport, ARecordThatWasMirroredAndSentAgainIsHereTwiceAndNotLost) {
  Journal journal;
  journal.acked[0][0] = {0, 0};
  journal.again = {1};
  journal.acked[1][1] = {0, 4};
  const FailoverCounts counts = CountFailover(
      {Record(0, 0), Record(1, 1)}, {Record(0, 0), Record(1, 1), Record(1, 4)}, {2}, journal);
  EXPECT_THAT(counts.lost, IsEmpty());
  EXPECT_EQ(counts.twice, 1);
  EXPECT_TRUE(counts.sound());
}

TEST(FailoverReport, ADifferenceBelowTheMirrorOffsetIsNotSound) {
  ReadRecord changed = Record(1, 1);
  changed.timestamp_ms += 1;
  for (const std::vector<ReadRecord>& destination :
       {std::vector<ReadRecord>{Record(0, 0), changed}, std::vector<ReadRecord>{Record(0, 0)},
        std::vector<ReadRecord>{Record(0, 0), Record(1, 2)}}) {
    EXPECT_FALSE(CountFailover({Record(0, 0), Record(1, 1)}, destination, {2}, {}).sound());
  }
}

TEST(FailoverReport, AnAcknowledgementOfTheDestinationThatIsNotFoundIsNotSound) {
  Journal journal;
  journal.acked[1][7] = {0, 5};
  EXPECT_FALSE(CountFailover({}, {}, {0}, journal).sound());
  EXPECT_FALSE(CountFailover({}, {Record(8, 5)}, {0}, journal).sound());
  EXPECT_TRUE(CountFailover({}, {Record(7, 5)}, {0}, journal).sound());
}

}  // namespace
}  // namespace kmirror::lab
