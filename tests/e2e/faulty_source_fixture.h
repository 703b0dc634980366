// A standby whose source is a kmirrord behind a proxy, so that every byte of it can be spoilt.
#pragma once

#include <gtest/gtest.h>

#include <fstream>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "kmirror/log/record_batch_builder.h"
#include "messages/create_topics.h"
#include "messages/produce.h"
#include "tests/e2e/mirror_fixture.h"
#include "tests/support/kafka_proxy.h"
#include "tests/support/wire_client.h"

namespace kmirror::test {

// A source cluster that is reached through its proxy alone, except by the test itself.
class ProxiedSource {
 public:
  explicit ProxiedSource(std::map<std::string, std::string> properties = {}) {
    Standby::Options options;
    options.properties = std::move(properties);
    options.properties["advertised.listeners"] = "PLAINTEXT://" + proxy.address().ToString();
    auto started = Standby::Start(std::move(options));
    EXPECT_OK(started.status());
    if (!started.ok()) std::abort();
    broker = std::move(*started);
    proxy.ForwardTo(FirstServer(broker->listen_address()));
  }

  void CreateTopic(const std::string& name, int32_t partitions = 1) {
    protocol::CreateTopicsRequest request;
    auto& topic = request.topics.emplace_back();
    topic.name = name;
    topic.num_partitions = partitions;
    topic.replication_factor = -1;
    const auto response = Ask<protocol::CreateTopicsResponse>(request, 7);
    ASSERT_EQ(response.topics.size(), 1u);
    ASSERT_EQ(response.topics[0].error_code, 0);
  }

  // One batch of one record; the next offset.
  int64_t Append(const std::string& topic, size_t bytes = 60, int32_t partition = 0) {
    log::RecordBatchBuilder builder;
    const std::string value(bytes, static_cast<char>('a' + appended_++ % 26));
    builder.Add(1700000000000 + appended_, std::nullopt, log::AsBytes(value));
    const std::vector<uint8_t> batch = builder.Build();
    protocol::ProduceRequest request;
    request.acks = 1;
    request.timeout_ms = 10000;
    auto& to = request.topic_data.emplace_back();
    to.name = topic;
    auto& part = to.partition_data.emplace_back();
    part.index = partition;
    part.records = protocol::RecordsView(ByteView(batch));
    const auto response = Ask<protocol::ProduceResponse>(request, 9);
    if (response.responses.size() != 1) return -1;
    const auto& answer = response.responses[0].partition_responses.at(0);
    EXPECT_EQ(answer.error_code, 0);
    return answer.base_offset + 1;
  }

  std::string bootstrap() const { return proxy.address().ToString(); }
  std::string direct() const { return broker->listen_address(); }

  KafkaProxy proxy;
  std::unique_ptr<Standby> broker;

 private:
  template <typename Response, typename Request>
  Response Ask(const Request& request, int16_t version) {
    if (!client_) {
      auto connected = WireClient::Connect(direct());
      EXPECT_OK(connected.status());
      if (!connected.ok()) return {};
      client_ = std::make_unique<WireClient>(std::move(*connected));
    }
    auto response = client_->Call<Response>(request, version);
    EXPECT_OK(response.status());
    return response.ok() ? *response : Response();
  }

  std::unique_ptr<WireClient> client_;
  int64_t appended_ = 0;
};

class FaultySource : public MirrorFixture {
 protected:
  void SetUp() override {
    bad_ = std::make_unique<ProxiedSource>();
    source_ = bad_->direct();  // whom the test compares with
    StartStandby();
  }

  // Mirror `name` of `source` with one topic, MIRRORING and caught up.
  void StartMirror(const std::string& name, ProxiedSource& source, const std::string& topic,
                   const std::vector<std::string>& more = {}) {
    std::vector<std::string> create = {"create",           name,       "--source",
                                       source.bootstrap(), "--config", "fetch.backoff.ms=10"};
    for (const std::string& config : more) {
      create.push_back("--config");
      create.push_back(config);
    }
    ASSERT_OK(standby_->Run(create));
    ASSERT_OK(standby_->Run({"start", name, "--topics", topic, "--wait", "30"}, Seconds(60)));
  }

  int64_t StandbyEnd(const std::string& topic, int32_t partition = 0) {
    const auto offsets = FetchOffsets(standby_->bootstrap(), topic, partition);
    return offsets.ok() ? offsets->high_watermark : -1;
  }
  bool AwaitEnd(const std::string& topic, int64_t end, Seconds patience = Seconds(30)) {
    return WaitUntil([&] { return StandbyEnd(topic) == end; }, patience);
  }
  // Describe names the trouble with these words while it lasts.
  bool AwaitTrouble(const std::string& topic, const std::string& words) {
    return WaitUntil([&] {
      const auto row = standby_->Row(topic);
      if (row.ok()) trouble_ = row->state + ": " + row->error_message;
      return row.ok() && row->error_message.find(words) != std::string::npos;
    });
  }
  void ExpectNeverFailed(const std::string& topic) {
    for (const std::string& state : standby_->States(topic)) EXPECT_NE(state, "FAILED");
  }

  // The most memory that the standby has used (VmHWM), since it was last forgotten.
  int64_t PeakMemory() {
    std::ifstream status("/proc/" + std::to_string(standby_->process().pid()) + "/status");
    for (std::string word; status >> word;) {
      int64_t kib = 0;
      if (word == "VmHWM:" && status >> kib) return kib * 1024;
    }
    return -1;
  }
  void ForgetPeakMemory() {
    std::ofstream("/proc/" + std::to_string(standby_->process().pid()) + "/clear_refs") << "5";
  }

  std::unique_ptr<ProxiedSource> bad_;
  std::string trouble_;  // what AwaitTrouble has seen last
};

}  // namespace kmirror::test
