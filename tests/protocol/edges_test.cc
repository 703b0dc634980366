// Bodies no writer of Kafka's produces. What its reader takes, we take where a client may rely on
// it and refuse where it would hide a wrong length; each choice stands here with its reason.
#include <gtest/gtest.h>

#include <map>

#include "tests/protocol/golden_case.h"

namespace kmirror::protocol {
namespace {

enum class Choice { kAccept, kRefuse };

struct Decision {
  Choice choice;
  const char* reason;
};

const std::map<std::string, Decision>& Decisions() {
  static const std::map<std::string, Decision> decisions = {
      // As Kafka: accepted.
      {"string that is not UTF-8", {Choice::kAccept, "old clients send client ids in Latin-1"}},
      {"lone byte 0xff in a string", {Choice::kAccept, "as above; the bytes are kept as they are"}},
      {"bool other than 0 and 1",
       {Choice::kAccept, "Kafka's protocol guide says that any non-zero byte is true"}},
      {"varint of 5 bytes for the value 2",
       {Choice::kAccept, "writers that reserve room for a length pad it"}},
      {"unknown tag of two bytes", {Choice::kAccept, "what tags are for"}},
      {"nullable struct: -1", {Choice::kAccept, "null"}},
      {"nullable struct: 1 and the struct", {Choice::kAccept, "present"}},
      // As Kafka: refused.
      {"null for a string that is not nullable", {Choice::kRefuse, "no such value"}},
      {"null for an array that is not nullable", {Choice::kRefuse, "no such value"}},
      {"null for a compact string that is not nullable", {Choice::kRefuse, "no such value"}},
      {"string length -2", {Choice::kRefuse, "no such length"}},
      {"unknown tag longer than the message", {Choice::kRefuse, "beyond the end"}},
      {"-1 tagged fields", {Choice::kRefuse, "beyond the end"}},
      {"2147483647 tagged fields", {Choice::kRefuse, "beyond the end"}},
      {"varint of 6 bytes", {Choice::kRefuse, "32 bits never need more than 5"}},
      {"varint of more than 32 bits", {Choice::kRefuse, "would lose bits"}},
      // Stricter than Kafka: no writer does it, and each is how a frame read at the wrong place, or
      // of
      // another protocol, looks.
      {"array length -2 where null is allowed", {Choice::kRefuse, "a wrong length taken for null"}},
      {"array length -2147483648 where null is allowed",
       {Choice::kRefuse, "a wrong length taken for null"}},
      {"bytes after the message", {Choice::kRefuse, "a message of another layout (R17)"}},
      {"unknown tags in descending order", {Choice::kRefuse, "KIP-482: ascending"}},
      {"the same unknown tag twice", {Choice::kRefuse, "KIP-482: once"}},
      {"the same known tag twice", {Choice::kRefuse, "KIP-482: once; which one counts?"}},
      {"known tag: size differs from its content", {Choice::kRefuse, "a wrong length"}},
      {"nullable struct: -2", {Choice::kRefuse, "neither null nor present"}},
      {"nullable struct: 0 and the struct", {Choice::kRefuse, "neither null nor present"}},
  };
  return decisions;
}

TEST(Edges, AreAcceptedOrRefusedAsDecided) {
  const std::vector<GoldenCase> cases = EdgeCases();
  ASSERT_EQ(25u, cases.size());
  for (const GoldenCase& edge : cases) {
    const auto decision = Decisions().find(edge.what);
    ASSERT_NE(Decisions().end(), decision) << "undecided: " << edge.what;
    std::vector<uint8_t> again;
    const Status status =
        DecodeEncodeAny(edge.key, edge.version, edge.direction, edge.body, &again);
    EXPECT_EQ(decision->second.choice == Choice::kAccept, status.ok())
        << edge.what << " (" << decision->second.reason << "): " << status.ToString();
    if (!edge.kafka_accepts) EXPECT_FALSE(status.ok()) << edge.what << ": Kafka refuses it";
  }
}

}  // namespace
}  // namespace kmirror::protocol
