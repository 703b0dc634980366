// Our codec against the real Kafka: what it says about itself is read here with no other client.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "messages/api_versions.h"
#include "src/protocol/registry.h"
#include "tests/support/assert_ok.h"
#include "tests/support/kafka_fixture.h"
#include "tests/support/wire_client.h"

namespace kmirror::test {
namespace {

using protocol::ApiVersionsRequest;
using protocol::ApiVersionsResponse;

struct Range {
  int16_t min, max;
  bool operator==(const Range&) const = default;
};

Result<std::map<int16_t, Range>> AskApiVersions(int16_t version) {
  const Result<SharedKafkaInfo> kafka = SharedKafka();
  if (!kafka.ok()) return kafka.status();
  Result<WireClient> client = WireClient::Connect(kafka->bootstrap);
  if (!client.ok()) return client.status();
  ApiVersionsRequest request;
  request.client_software_name = "kmirror-test";
  request.client_software_version = "0.1.0";
  const auto response = client->Call<ApiVersionsResponse>(request, version);
  if (!response.ok()) return response.status();
  if (response->error_code != 0) {
    return {static_cast<ErrorCode>(response->error_code), "ApiVersions"};
  }
  std::map<int16_t, Range> ranges;
  for (const auto& api : response->api_keys) {
    ranges[api.api_key] = {api.min_version, api.max_version};
  }
  return ranges;
}

// Shows the answer too: the first look at a source whose version is not known.
TEST(RealKafkaApiVersions, AreThoseOfKafka44) {
  const auto ranges = AskApiVersions(4);
  ASSERT_OK(ranges.status());
  for (const auto& [key, range] : *ranges) {
    const protocol::ApiInfo* known = protocol::FindApi(key);
    std::printf("%3d %-28s %d..%d\n", key, known != nullptr ? known->name : "(not in our codec)",
                range.min, range.max);
  }
  // As another program read them from Kafka 4.4.0.
  EXPECT_EQ(ranges->at(0), (Range{0, 13}));
  EXPECT_EQ(ranges->at(1), (Range{4, 18}));
  EXPECT_EQ(ranges->at(2), (Range{1, 11}));
  EXPECT_EQ(ranges->at(3), (Range{0, 13}));
  EXPECT_EQ(ranges->at(18), (Range{0, 5}));
  EXPECT_EQ(ranges->at(23), (Range{2, 4}));
  // Kafka's own key 94 is another API than the KIP's: that it is there says nothing about
  // mirroring.
  EXPECT_EQ(ranges->at(94), (Range{0, 0}));
  EXPECT_EQ(ranges->rbegin()->first, 94);
}

TEST(RealKafkaApiVersions, ReadTheSameInEveryVersionOfTheRequest) {
  const auto expected = AskApiVersions(4);
  ASSERT_OK(expected.status());
  for (int16_t version = 0; version <= 3; ++version) {
    auto ranges = AskApiVersions(version);
    ASSERT_OK(ranges.status());
    EXPECT_EQ(*ranges, *expected) << "version " << version;
  }
}

TEST(RealKafkaApiVersions, LeaveRoomForEveryRequestWeSendToASource) {
  const auto ranges = AskApiVersions(4);
  ASSERT_OK(ranges.status());
  for (const int16_t key : {1, 2, 3, 18, 23, 32}) {
    const protocol::ApiInfo* known = protocol::FindApi(key);
    ASSERT_NE(known, nullptr) << key;
    ASSERT_TRUE(ranges->contains(key)) << known->name;
    const Range theirs = ranges->at(key);
    EXPECT_LE(std::max(theirs.min, known->min_version), std::min(theirs.max, known->max_version))
        << known->name;
  }
}

TEST(WireClient, SeesTheBrokerCloseOnBytesThatAreNoRequest) {
  const Result<SharedKafkaInfo> kafka = SharedKafka();
  ASSERT_OK(kafka.status());
  Result<WireClient> client = WireClient::Connect(kafka->bootstrap);
  ASSERT_OK(client.status());
  const uint8_t rubbish[] = {0, 0, 0, 4, 0x7f, 0xff, 0x7f, 0xff};
  ASSERT_OK(client->SendBytes(rubbish));
  EXPECT_EQ(client->ReceiveFrame().status().code(), ErrorCode::kDisconnected);
}

}  // namespace
}  // namespace kmirror::test
