// What the mirror scenarios share: a source, a standby, short ways to fill and compare.
#pragma once

#include <gtest/gtest.h>

#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "tests/e2e/raw_log.h"
#include "tests/e2e/standby.h"
#include "tests/support/assert_ok.h"
#include "tests/support/kafka_client.h"
#include "tests/support/kafka_fixture.h"

namespace kmirror::test {

// `count` records with key "k<i>", value "v<i>".
inline std::vector<ClientRecord> Numbered(int count, int first = 0) {
  std::vector<ClientRecord> records;
  for (int i = first; i < first + count; ++i) {
    records.push_back({"k" + std::to_string(i), "v" + std::to_string(i), {}});
  }
  return records;
}

class MirrorFixture : public ::testing::Test {
 protected:
  // The Kafka all tests of a run share; a test that stops or kills its source calls OwnSource
  // instead.
  void UseSharedSource() {
    auto kafka = SharedKafka();
    ASSERT_OK(kafka.status());
    UseSource(kafka->bootstrap);
  }
  void OwnSource(RealKafka::Options options = {}) {
    auto kafka = RealKafka::Start(std::move(options));
    ASSERT_OK(kafka.status());
    kafka_ = std::move(*kafka);
    UseSource(kafka_->bootstrap());
  }
  void UseSource(const std::string& bootstrap) {
    source_ = bootstrap;
    auto admin = AdminClient::Connect(source_);
    ASSERT_OK(admin.status());
    admin_ = std::make_unique<AdminClient>(std::move(*admin));
  }

  void StartStandby(Standby::Options options = {}) {
    auto standby = Standby::Start(std::move(options));
    ASSERT_OK(standby.status());
    standby_ = std::move(*standby);
  }

  // Creates mirror `m` if need be and starts the topics; returns when they are caught up.
  void Mirror(const std::vector<std::string>& topics, std::vector<std::string> configs = {}) {
    if (standby_ == nullptr) StartStandby();
    if (!created_) {
      std::vector<std::string> create = {"create", "m", "--source", source_};
      for (std::string& config : configs) {
        create.push_back("--config");
        create.push_back(std::move(config));
      }
      ASSERT_OK(standby_->Run(create));
      created_ = true;
    }
    std::string list;
    for (const std::string& topic : topics) list += (list.empty() ? "" : ",") + topic;
    ASSERT_OK(standby_->Run({"start", "m", "--topics", list, "--wait", "60"}, Seconds(90)));
  }

  void Send(const std::string& topic, const std::vector<ClientRecord>& records,
            const Producer::Options& options = Producer::Options(), int32_t partition = 0) {
    auto producer = Producer::Connect(source_, options);
    ASSERT_OK(producer.status());
    ASSERT_OK(producer->Send(topic, partition, records).status());
  }

  // A transaction that is open, with `count` records of its own in the topic. Debian's librdkafka
  // (2.0.2) now and then keeps the first records of a new transactional producer in its own queue
  // for good; nothing was sent then, and another producer begins anew.
  Result<Producer> OpenTransaction(const std::string& id, const std::string& topic, int count) {
    Status last;
    for (int attempt = 0; attempt < 4; ++attempt) {
      Producer::Options options;
      options.transactional_id = UniqueName(id);
      options.more = {{"message.timeout.ms", "8000"}};
      auto producer = Producer::Connect(source_, options);
      last = producer.status();
      if (last.ok()) last = producer->Begin();
      if (last.ok()) last = producer->SendNumbered(topic, 0, count).status();
      if (last.ok()) return producer;
      std::printf("a transactional producer of librdkafka got stuck: %s\n",
                  last.ToString().c_str());
    }
    return last;
  }

  int64_t SourceEnd(const std::string& topic, int32_t partition = 0) {
    auto offsets = FetchOffsets(source_, topic, partition);
    EXPECT_OK(offsets.status());
    return offsets.ok() ? offsets->high_watermark : -1;
  }

  // A commit or abort answers before its marker is written: what follows must not overtake it.
  void AwaitSourceEnd(const std::string& topic, int64_t end) {
    ASSERT_TRUE(WaitUntil([&] { return SourceEnd(topic) == end; })) << topic << " ends elsewhere";
  }

  // Every batch on our disk is the batch Kafka's Fetch returns, and none is missing.
  void ExpectBytesEqual(const std::string& topic, int32_t partition = 0, int64_t from = 0) {
    // The source's end is asked for anew: markers of a transaction come after its commit answered.
    PartitionRow row;
    int64_t end = -1;
    ASSERT_TRUE(WaitUntil([&] {
      end = SourceEnd(topic, partition);
      auto described = standby_->Row(topic, partition);
      if (described.ok()) row = *described;
      return row.state == "MIRRORING" && row.lag == 0 && row.destination_offset == end;
    })) << topic
        << " is " << row.state << " at " << row.destination_offset << ", source end " << end << ", "
        << row.error_message << "\n"
        << standby_->Log();
    auto theirs = FetchBatches(source_, topic, partition, from);
    ASSERT_OK(theirs.status());
    auto ours = ReadSegments(standby_->PartitionDir(topic, partition));
    ASSERT_OK(ours.status());
    EXPECT_EQ(Difference(From(*ours, from), *theirs), "") << topic;
  }

  std::vector<RawBatch> OurBatches(const std::string& topic, int32_t partition = 0) {
    auto ours = ReadSegments(standby_->PartitionDir(topic, partition));
    EXPECT_OK(ours.status());
    return ours.ok() ? *ours : std::vector<RawBatch>();
  }

  std::unique_ptr<RealKafka> kafka_;
  std::string source_;
  std::unique_ptr<AdminClient> admin_;
  std::unique_ptr<Standby> standby_;
  bool created_ = false;
};

}  // namespace kmirror::test
