// Frames that lie about their lengths, made from Kafka's good ones. Kafka refuses all of them.
#include <gtest/gtest.h>

#include <regex>

#include "tests/protocol/golden_case.h"

namespace kmirror::protocol {
namespace {

std::string SnakeCase(const std::string& name) {
  std::string out;
  for (const char c : name) {
    if (c >= 'A' && c <= 'Z') {
      if (!out.empty()) out += '_';
      out += static_cast<char>(c - 'A' + 'a');
    } else {
      out += c;
    }
  }
  return out;
}

Status DecodeFrame(const GoldenCase& hostile) {
  std::vector<uint8_t> body;
  const Status header =
      BodyOfFrame(hostile.frame, hostile.key, hostile.version, hostile.direction, &body);
  if (!header.ok()) return header;
  std::vector<uint8_t> again;
  return DecodeEncodeAny(hostile.key, hostile.version, hostile.direction, body, &again);
}

TEST(Hostile, EveryFrameIsRefusedWithTheFieldInTheError) {
  const std::vector<GoldenCase> cases = HostileCases();
  ASSERT_GT(cases.size(), 300u);
  const std::regex names_a_field(
      R"(^[A-Za-z]+ v\d+: [a-z_0-9]+(\[\d+\])?(\.[a-z_0-9]+(\[\d+\])?)*: .+)");
  for (const GoldenCase& hostile : cases) {
    const Status status = DecodeFrame(hostile);
    ASSERT_FALSE(status.ok()) << hostile.name;
    EXPECT_EQ(ErrorCode::kMalformed, status.code()) << hostile.name;
    EXPECT_TRUE(std::regex_search(status.message(), names_a_field))
        << hostile.name << ": " << status.message();
    if (!hostile.field.empty()) {
      EXPECT_NE(std::string::npos, status.message().find(SnakeCase(hostile.field)))
          << hostile.name << ": " << status.message();
    }
  }
}

TEST(Hostile, NoPrefixOfAGoodBodyIsTakenForAWholeOne) {
  // Every cut of the newest version of every message; some end where a message of fewer fields
  // would.
  size_t cuts = 0;
  for (const GoldenCase& golden : UnknownTagCases()) {
    for (size_t size = 0; size < golden.body.size(); ++size) {
      std::vector<uint8_t> again;
      const Status status = DecodeEncodeAny(golden.key, golden.version, golden.direction,
                                            ByteView(golden.body).first(size), &again);
      EXPECT_FALSE(status.ok()) << golden.name << " cut at " << size;
      ++cuts;
    }
  }
  EXPECT_GT(cuts, 1000u);
}

}  // namespace
}  // namespace kmirror::protocol
