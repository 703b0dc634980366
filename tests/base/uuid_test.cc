#include <gtest/gtest.h>

#include <unordered_set>

#include "kmirror/types.h"

namespace kmirror {
namespace {

Uuid Counting() {
  Uuid id;
  for (size_t i = 0; i < id.bytes.size(); ++i) id.bytes[i] = static_cast<uint8_t>(i * 17);
  return id;
}

TEST(Uuid, IsZeroByDefault) {
  EXPECT_TRUE(Uuid{}.IsZero());
  EXPECT_FALSE(Counting().IsZero());
}

// The texts below come from Java: org.apache.kafka.common.Uuid of Kafka 4.4.
TEST(Uuid, PrintsAsKafkaDoes) {
  EXPECT_EQ(Uuid{}.ToString(), "AAAAAAAAAAAAAAAAAAAAAA");
  Uuid one;  // Uuid.ONE_UUID, the id of the metadata topic
  one.bytes[15] = 1;
  EXPECT_EQ(one.ToString(), "AAAAAAAAAAAAAAAAAAAAAQ");
  EXPECT_EQ(Counting().ToString(), "ABEiM0RVZneImaq7zN3u_w");
}

TEST(Uuid, ReadsBackWhatItPrints) {
  const Uuid id = Counting();
  const std::optional<Uuid> parsed = Uuid::Parse(id.ToString());
  ASSERT_TRUE(parsed.has_value());
  EXPECT_EQ(*parsed, id);
}

TEST(Uuid, RefusesTextOfAnotherLengthOrAlphabet) {
  EXPECT_FALSE(Uuid::Parse("").has_value());
  EXPECT_FALSE(Uuid::Parse("AAAAAAAAAAAAAAAAAAAAA").has_value());
  EXPECT_FALSE(Uuid::Parse("AAAAAAAAAAAAAAAAAAAAAAA").has_value());
  EXPECT_FALSE(Uuid::Parse("ABEiM0RVZneImaq7zN3u/w").has_value());  // '/' is not URL-safe
  EXPECT_FALSE(Uuid::Parse("AAAAAAAAAAAAAAAAAAAAA=").has_value());
}

TEST(Uuid, OrdersByWireBytes) {
  Uuid low, high;
  low.bytes[0] = 1;
  high.bytes[0] = 0x80;
  EXPECT_LT(low, high);
}

TEST(Uuid, HashesApartInSetsOfPartitions) {
  std::unordered_set<TopicIdPartition> set;
  for (int32_t i = 0; i < 100; ++i) set.insert({Counting(), i});
  set.insert({Uuid{}, 0});
  EXPECT_EQ(set.size(), 101u);
  EXPECT_TRUE(set.contains({Counting(), 42}));
}

TEST(HostPort, PrintsAsKafkaClientsWriteIt) {
  EXPECT_EQ((HostPort{"broker1", 9092}).ToString(), "broker1:9092");
}

}  // namespace
}  // namespace kmirror
