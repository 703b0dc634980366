#include "kmirror/status.h"

#include <gtest/gtest.h>

#include <memory>
#include <set>

namespace kmirror {
namespace {

TEST(Status, IsOkByDefaultAndAllocatesNoText) {
  const Status status;
  EXPECT_TRUE(status.ok());
  EXPECT_EQ(status.code(), ErrorCode::kNone);
  EXPECT_EQ(status.message(), "");
  EXPECT_EQ(status.ToString(), "OK");
}

TEST(Status, ShowsKafkasNameOfTheCodeAndTheText) {
  EXPECT_EQ(Status(ErrorCode::kOffsetOutOfRange, "offset=7").ToString(),
            "OFFSET_OUT_OF_RANGE: offset=7");
  EXPECT_EQ(Status(ErrorCode::kFencedLeaderEpoch, "").ToString(), "FENCED_LEADER_EPOCH");
}

TEST(Status, TakesContextInFrontOfItsTextAndKeepsItsCode) {
  const Status inner(ErrorCode::kIo, "disk gone");
  const Status outer = inner.WithContext("topic=orders partition=3");
  EXPECT_EQ(outer.code(), ErrorCode::kIo);
  EXPECT_EQ(outer.message(), "topic=orders partition=3: disk gone");
  EXPECT_EQ(Status(ErrorCode::kIo, "").WithContext("append").message(), "append");
}

TEST(Status, StaysOkWhenItGetsContext) {
  EXPECT_TRUE(Status::Ok().WithContext("append").ok());
  EXPECT_EQ(Status::Ok().WithContext("append").message(), "");
}

TEST(ErrorNames, AreKafkasForItsCodes) {
  // Names and numbers as Kafka 4.4's own Errors enumeration prints them.
  EXPECT_EQ(ErrorName(static_cast<ErrorCode>(-1)), "UNKNOWN_SERVER_ERROR");
  EXPECT_EQ(ErrorName(static_cast<ErrorCode>(0)), "NONE");
  EXPECT_EQ(ErrorName(static_cast<ErrorCode>(1)), "OFFSET_OUT_OF_RANGE");
  EXPECT_EQ(ErrorName(static_cast<ErrorCode>(17)), "INVALID_TOPIC_EXCEPTION");
  EXPECT_EQ(ErrorName(static_cast<ErrorCode>(56)), "KAFKA_STORAGE_ERROR");
  EXPECT_EQ(ErrorName(static_cast<ErrorCode>(74)), "FENCED_LEADER_EPOCH");
  EXPECT_EQ(ErrorName(static_cast<ErrorCode>(90)), "PRODUCER_FENCED");
  EXPECT_EQ(ErrorName(static_cast<ErrorCode>(103)), "INCONSISTENT_TOPIC_ID");
}

TEST(ErrorNames, ShowTheNumberOfAnUnknownCode) {
  EXPECT_EQ(ErrorName(static_cast<ErrorCode>(32000)), "ERROR_32000");
  EXPECT_EQ(ErrorName(static_cast<ErrorCode>(-32000)), "ERROR_-32000");
}

TEST(ErrorNames, DifferForEveryKnownCode) {
  std::set<std::string> names;
  int known = 0;
  for (int code = -2000; code <= 2000; ++code) {
    const std::string name = ErrorName(static_cast<ErrorCode>(code));
    if (name.starts_with("ERROR_")) continue;
    if (name == "READ_ONLY_TOPIC") continue;  // in process and on the wire: two codes, one name
    ++known;
    EXPECT_TRUE(names.insert(name).second) << name;
  }
  EXPECT_GT(known, 90);
}

TEST(Result, HoldsAValueThatCanBeMovedOut) {
  Result<std::unique_ptr<int>> result(std::make_unique<int>(7));
  ASSERT_TRUE(result.ok());
  EXPECT_TRUE(result.status().ok());
  EXPECT_EQ(**result, 7);
  const std::unique_ptr<int> taken = std::move(result).value();
  EXPECT_EQ(*taken, 7);
}

TEST(Result, HoldsTheStatusThatSaysWhyThereIsNoValue) {
  const Result<int> result(ErrorCode::kNotLoaded, "partition=1");
  EXPECT_FALSE(result.ok());
  EXPECT_EQ(result.status().code(), ErrorCode::kNotLoaded);
  const Result<int> copy(result.status());
  EXPECT_EQ(copy.status().message(), "partition=1");
}

}  // namespace
}  // namespace kmirror
