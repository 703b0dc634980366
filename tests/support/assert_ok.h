// ASSERT_OK and EXPECT_OK: the expression is a Status; the failure shows it.
#pragma once

#include <gtest/gtest.h>

#include "kmirror/status.h"

namespace kmirror::test {

inline ::testing::AssertionResult IsOk(const Status& status) {
  if (status.ok()) return ::testing::AssertionSuccess();
  return ::testing::AssertionFailure() << status.ToString();
}

}  // namespace kmirror::test

#define ASSERT_OK(expression) ASSERT_TRUE(::kmirror::test::IsOk(expression))
#define EXPECT_OK(expression) EXPECT_TRUE(::kmirror::test::IsOk(expression))
