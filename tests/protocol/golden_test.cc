// Every body Kafka 4.4's own classes wrote: decode, compare every value, encode, compare every
// byte.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tests/protocol/golden_case.h"
#include "tests/protocol/json_text.h"

namespace kmirror::protocol {
namespace {

void ExpectSameBytesAgain(const GoldenCase& golden) {
  std::vector<uint8_t> again;
  const Status status =
      DecodeEncodeAny(golden.key, golden.version, golden.direction, golden.body, &again);
  ASSERT_TRUE(status.ok()) << golden.name << ": " << status.ToString();
  EXPECT_EQ(ToHex(golden.expected), ToHex(again)) << golden.name;
}

void ExpectSameValues(const GoldenCase& golden) {
  std::string text;
  const Status status = BodyToJson(golden.key, golden.version, golden.direction, golden.body,
                                   /*all_tags=*/false, &text);
  ASSERT_TRUE(status.ok()) << golden.name << ": " << status.ToString();
  const auto expected = nlohmann::json::parse(golden.json);
  const auto decoded = nlohmann::json::parse(text);
  EXPECT_EQ(expected, decoded) << golden.name << "\n"
                               << nlohmann::json::diff(expected, decoded).dump(1);
}

void ExpectBodyBehindHeader(const GoldenCase& golden) {
  std::vector<uint8_t> body;
  const Status status =
      BodyOfFrame(golden.frame, golden.key, golden.version, golden.direction, &body);
  ASSERT_TRUE(status.ok()) << golden.name << ": " << status.ToString();
  EXPECT_EQ(golden.body, body) << golden.name;
}

TEST(Golden, KafkasBodiesDecodeToItsValuesAndEncodeToItsBytes) {
  const std::vector<GoldenCase> cases = KafkaCases();
  ASSERT_GT(cases.size(), 1000u);
  for (const GoldenCase& golden : cases) {
    ExpectSameBytesAgain(golden);
    ExpectSameValues(golden);
    ExpectBodyBehindHeader(golden);
  }
}

TEST(Golden, UnknownTagsAreSkippedInHeaderAndBody) {
  const std::vector<GoldenCase> cases = UnknownTagCases();
  ASSERT_GT(cases.size(), 40u);
  for (const GoldenCase& golden : cases) {
    ASSERT_NE(golden.body, golden.expected) << golden.name;
    ExpectSameBytesAgain(golden);
    ExpectSameValues(golden);
    if (golden.direction == Direction::kRequest) {
      std::vector<uint8_t> body;
      ASSERT_TRUE(
          BodyOfFrame(golden.frame, golden.key, golden.version, golden.direction, &body).ok())
          << golden.name;
      EXPECT_EQ(golden.body, body) << golden.name;
    }
  }
}

TEST(Golden, AnswersOfABrokerToApiVersionsOfEveryVersion) {
  const std::vector<GoldenCase> cases = ApiVersionsCases();
  ASSERT_EQ(7u, cases.size());
  for (const GoldenCase& golden : cases) {
    ExpectSameBytesAgain(golden);
    ExpectSameValues(golden);
    ExpectBodyBehindHeader(golden);
  }
}

TEST(Golden, FramesBetweenRealClientsAndARealKafkaComeBackByteForByte) {
  const std::vector<GoldenCase> cases = RecordedCases();
  ASSERT_GT(cases.size(), 100u);
  for (const GoldenCase& golden : cases) ExpectSameBytesAgain(golden);
}

}  // namespace
}  // namespace kmirror::protocol
