#include "tests/support/wait_until.h"

#include <gtest/gtest.h>

namespace kmirror::test {
namespace {

TEST(WaitUntil, AsksUntilTheConditionHolds) {
  int asked = 0;
  EXPECT_TRUE(WaitUntil([&] { return ++asked == 3; }));
  EXPECT_EQ(asked, 3);
}

TEST(WaitUntil, GivesUpAtTheDeadline) {
  EXPECT_FALSE(WaitUntil([] { return false; }, Seconds(0.01)));
}

TEST(WaitUntil, AsksAtLeastOnceWithoutPatience) {
  EXPECT_TRUE(WaitUntil([] { return true; }, Seconds(0)));
}

}  // namespace
}  // namespace kmirror::test
