#include <gtest/gtest.h>

#include "tests/storage/log_test_support.h"

namespace kmirror::broker::test {
namespace {

TEST(AppendMirrored, StoresTheBytesUnchangedAndMovesTheEnd) {
  LogFixture f;
  ASSERT_TRUE(f.Open().ok());
  const TestBatch first = MakeBatch({.base_offset = 0, .count = 3, .leader_epoch = 5});
  const TestBatch second = MakeBatch({.base_offset = 7, .count = 2, .leader_epoch = 6});
  const std::vector<TestBatch> set{first, second};
  ASSERT_TRUE(AppendSet(*f.log, set).ok());
  const LogPositions positions = f.log->Positions();
  EXPECT_EQ(positions.log_end, 9);
  EXPECT_EQ(positions.high_watermark, 9);
  EXPECT_EQ(positions.last_batch_epoch, 6);
  std::string expected(first.bytes.begin(), first.bytes.end());
  expected.append(second.bytes.begin(), second.bytes.end());
  EXPECT_EQ(ReadAll(f.options.directory + "/00000000000000000000.log"), expected);
}

}  // namespace
}  // namespace kmirror::broker::test
