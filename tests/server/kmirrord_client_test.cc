// An independent client (librdkafka) against kmirrord: round trips, and what a crash may not take.

#include <gtest/gtest.h>

#include <atomic>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "messages/metadata.h"
#include "tests/server/kmirrord_fixture.h"
#include "tests/server/raw_socket.h"
#include "tests/support/free_port.h"
#include "tests/support/kafka_client.h"

namespace kmirror::test {
namespace {

class ClientTest : public KmirrordTest {
 protected:
  std::vector<ClientRecord> ReadAll(const std::string& topic, int32_t partition = 0) {
    const auto read = ReadPartition(bootstrap(), topic, partition);
    EXPECT_OK(read.status()) << process_->err();
    return read.ok() ? read->records : std::vector<ClientRecord>();
  }
};

TEST_F(ClientTest, RecordsComeBackInEveryCodec) {
  Start();
  std::vector<ClientRecord> records;
  for (int i = 0; i < 200; ++i) {
    records.push_back({"key" + std::to_string(i),
                       std::string(static_cast<size_t>(i) * 7, 'v'),
                       {{"h", std::to_string(i)}, {"null", std::nullopt}},
                       1700000000000 + i});
  }
  records.push_back({std::nullopt, "no key", {}, 1700000000300});
  records.push_back({"no value", std::nullopt, {}, 1700000000301});
  records.push_back({"", "", {}, 1700000000302});
  records.push_back({"huge", std::string(900000, 'h'), {}, 1700000000303});
  for (const std::string codec : {"none", "gzip", "snappy", "lz4", "zstd"}) {
    const std::string topic = "codec-" + codec;
    CreateTopic(topic);
    auto producer = Producer::Connect(bootstrap(), {.codec = codec});
    ASSERT_OK(producer.status());
    const auto offsets = producer->Send(topic, 0, records);
    ASSERT_OK(offsets.status());
    std::vector<ClientRecord> read = ReadAll(topic);
    ASSERT_EQ(read.size(), records.size()) << codec;
    for (size_t i = 0; i < read.size(); ++i) {
      EXPECT_EQ(read[i].offset, static_cast<int64_t>(i));
      read[i].offset = -1;
      EXPECT_TRUE(read[i] == records[i]) << codec << " record " << i;
    }
  }
}

TEST_F(ClientTest, EveryKindOfAcknowledgementWorks) {
  Start();
  CreateTopic("t");
  for (const std::string acks : {"0", "1", "all"}) {
    auto producer = Producer::Connect(bootstrap(), {.acks = acks});
    ASSERT_OK(producer.status());
    ASSERT_OK(producer->SendNumbered("t", 0, 10).status()) << acks;
  }
  auto idempotent = Producer::Connect(bootstrap(), {.idempotent = true});
  ASSERT_OK(idempotent.status());
  ASSERT_OK(idempotent->SendNumbered("t", 0, 10).status());
  ASSERT_TRUE(WaitUntil([&] { return ReadAll("t").size() == 40; }));
}

TEST_F(ClientTest, AdminCallsOfTheClientWork) {
  Start();
  auto admin = AdminClient::Connect(bootstrap());
  ASSERT_OK(admin.status());
  EXPECT_EQ(*admin->ClusterId(), cluster_id());
  ASSERT_OK(admin->CreateTopic("t", 2, {{"retention.ms", "-1"}}));
  ASSERT_OK(admin->CreatePartitions("t", 4));
  EXPECT_EQ(admin->Topics()->at(0).leaders, (std::vector<int32_t>{1, 1, 1, 1}));
  auto producer = Producer::Connect(bootstrap());
  ASSERT_OK(producer.status());
  const int64_t base = 1700000000000;
  std::vector<ClientRecord> records;
  for (int i = 0; i < 20; ++i) records.push_back({std::nullopt, "v", {}, base + i * 1000});
  ASSERT_OK(producer->Send("t", 3, records).status());
  EXPECT_EQ(*admin->OffsetForTime("t", 3, base + 4500), 5);
  EXPECT_EQ(*admin->OffsetForTime("t", 3, base + 1000000), -1);
  ASSERT_OK(admin->DeleteRecords("t", 3, 15));
  EXPECT_EQ(admin->QueryWatermarks("t", 3)->low, 15);
  EXPECT_EQ(admin->QueryWatermarks("t", 3)->high, 20);
  ASSERT_OK(admin->DeleteTopic("t"));
  EXPECT_TRUE(WaitUntil([&] { return admin->Topics()->empty(); }));
}

// What librdkafka 2.3 to 2.16 send for a list of all topics: four bytes for a null array of one.
TEST_F(ClientTest, TheListOfAllTopicsOfACurrentLibrdkafkaIsUnderstood) {
  Start();
  CreateTopic("a");
  CreateTopic("b");
  RawSocket client(address());
  for (char version = 9; version <= 13; ++version) {
    std::string frame = {0, 3, 0, version, 0, 0, 0, 7, 0, 1, 'r', 0};  // header, client id "r"
    frame += std::string(4, '\0') + '\1';                              // topics, auto creation
    frame += std::string(version <= 10 ? 2 : 1, '\0') + '\0';  // authorized operations, tags
    ASSERT_TRUE(client.SendFrame(frame));
    const std::string answer = client.ReceiveFrame();
    ASSERT_FALSE(answer.empty()) << "version " << int{version};
    protocol::MetadataResponse response;
    int32_t id = 0;
    ASSERT_OK(protocol::DecodeResponseFrame(
        ByteView(reinterpret_cast<const uint8_t*>(answer.data()), answer.size()), version, &id,
        &response));
    EXPECT_EQ(id, 7);
    EXPECT_EQ(response.topics.size(), 2u);
    // Only that: bytes after any other request still close the connection.
    for (const std::string& odd : {frame + '\0', frame.substr(0, 12) + "\1" + frame.substr(13)}) {
      RawSocket other(address());
      ASSERT_TRUE(other.SendFrame(odd));
      EXPECT_TRUE(other.ClosedByPeer()) << "version " << int{version};
    }
  }
}

TEST_F(ClientTest, AWaitingReaderGetsWhatIsWrittenLater) {
  Start();
  CreateTopic("t");
  std::thread writer([&] {
    auto producer = Producer::Connect(bootstrap());
    EXPECT_OK(producer.status());
    for (int i = 0; i < 5; ++i) EXPECT_OK(producer->SendNumbered("t", 0, 4, i * 4).status());
  });
  const auto read = ReadPartition(bootstrap(), "t", 0, {.count = 20});
  writer.join();
  ASSERT_OK(read.status());
  EXPECT_EQ(read->records.size(), 20u);
}

// Rounds of: a producer writes, the broker is killed at some moment, and what was acknowledged is
// still there, once, in order.
TEST_F(ClientTest, KillMinusNineKeepsWhatWasAcknowledged) {
  constexpr int kRounds = 8;
  constexpr int kBatch = 20;
  Start();
  CreateTopic("t");
  std::map<int64_t, std::string> acknowledged;
  int next = 0;
  for (int round = 0; round < kRounds; ++round) {
    std::atomic<int> sent{0};
    std::atomic<bool> killed{false};
    std::thread writer([&] {
      auto producer = Producer::Connect(
          bootstrap(), {.acks = round % 2 == 0 ? "all" : "1",
                        .linger_ms = 0,
                        .more = {{"message.timeout.ms", "1000"}, {"retries", "0"}}});
      EXPECT_OK(producer.status());
      while (true) {
        const int first = next;
        next += kBatch;
        const auto offsets = producer->SendNumbered("t", 0, kBatch, first);
        // An error before the kill: a busy machine, and nothing is known of these records.
        if (!offsets.ok() && !killed) continue;
        if (!offsets.ok()) return;
        for (int i = 0; i < kBatch; ++i) {
          acknowledged[(*offsets)[static_cast<size_t>(i)]] = "v" + std::to_string(first + i);
        }
        ++sent;
      }
    });
    // A different moment each time.
    EXPECT_TRUE(WaitUntil([&] { return sent > round * 3; }));
    Kill();
    killed = true;
    writer.join();
    Start();
    const std::vector<ClientRecord> records = ReadAll("t");
    std::map<int64_t, std::string> found;
    for (const ClientRecord& record : records) found[record.offset] = record.value.value_or("");
    for (const auto& [offset, value] : acknowledged) {
      ASSERT_EQ(found[offset], value) << "round " << round << " offset " << offset;
    }
    for (size_t i = 0; i < records.size(); ++i) {
      ASSERT_EQ(records[i].offset, static_cast<int64_t>(i)) << "round " << round;
    }
  }
  EXPECT_GT(acknowledged.size(), static_cast<size_t>(kRounds * kBatch));
}

TEST_F(ClientTest, AnIdempotentProducerGoesOnAcrossARestartWithoutDuplicates) {
  const std::string listen = "127.0.0.1:" + std::to_string(FreePort());
  StartOn(listen);
  CreateTopic("t");
  auto producer = Producer::Connect(bootstrap(), {.idempotent = true});
  ASSERT_OK(producer.status());
  ASSERT_OK(producer->SendNumbered("t", 0, 50).status());
  for (int round = 1; round <= 3; ++round) {
    std::thread writer([&] { EXPECT_OK(producer->SendNumbered("t", 0, 50, round * 50).status()); });
    Kill();
    StartOn(listen);
    writer.join();
  }
  const std::vector<ClientRecord> records = ReadAll("t");
  ASSERT_EQ(records.size(), 200u);
  for (int i = 0; i < 200; ++i) {
    EXPECT_EQ(records[static_cast<size_t>(i)].value, "v" + std::to_string(i));
  }
}

}  // namespace
}  // namespace kmirror::test
