#include "tests/hostile/good_client.h"

#include <algorithm>
#include <vector>

#include "messages/create_topics.h"
#include "messages/fetch.h"
#include "messages/list_offsets.h"
#include "messages/metadata.h"
#include "messages/produce.h"
#include "tests/server/kmirrord_fixture.h"
#include "tests/support/wire_client.h"

namespace kmirror::test {
namespace {

using protocol::RecordsView;

// Base offset and leader epoch are the log's to write; all else must be what was sent.
constexpr size_t kLogsOwnBytes = 16;
constexpr size_t kLengthAt = 8;

bool SameBatch(ByteView sent, ByteView got) {
  return sent.size() == got.size() &&
         std::ranges::equal(sent.subspan(kLengthAt, 4), got.subspan(kLengthAt, 4)) &&
         std::ranges::equal(sent.subspan(kLogsOwnBytes), got.subspan(kLogsOwnBytes));
}

std::string Text(const Status& status) { return status.ToString(); }

}  // namespace

GoodClient::GoodClient(std::string bootstrap, std::string topic)
    : bootstrap_(std::move(bootstrap)), topic_(std::move(topic)), thread_([this] { Run(); }) {}

GoodClient::~GoodClient() {
  stop_ = true;
  thread_.join();
}

std::string GoodClient::problem() const {
  const std::lock_guard lock(mutex_);
  return problem_;
}

bool GoodClient::AwaitRounds(int64_t more, Seconds patience) const {
  const int64_t wanted = rounds_ + more;
  return WaitUntil([&] { return rounds_ >= wanted || !problem().empty(); }, patience) &&
         problem().empty();
}

void GoodClient::Run() {
  std::string wrong;
  Result<WireClient> client = WireClient::Connect(bootstrap_);
  if (!client.ok()) wrong = "connect: " + Text(client.status());
  if (wrong.empty()) {
    protocol::CreateTopicsRequest create;
    auto& topic = create.topics.emplace_back();
    topic.name = topic_;
    topic.num_partitions = 1;
    topic.replication_factor = -1;
    const auto made = client->Call<protocol::CreateTopicsResponse>(create, 7);
    if (!made.ok() || made->topics.size() != 1 || made->topics[0].error_code != 0) {
      wrong = "create: " + Text(made.status());
    }
  }
  for (int64_t number = 0; wrong.empty() && !stop_; ++number) {
    wrong = Round(*client, number);
    if (wrong.empty()) ++rounds_;
  }
  if (wrong.empty()) return;
  const std::lock_guard lock(mutex_);
  problem_ = "round " + std::to_string(rounds_) + ": " + wrong;
}

std::string GoodClient::Round(WireClient& client, int64_t number) {
  const std::vector<uint8_t> batch = Batch(
      {.count = 1, .first = static_cast<int>(number), .timestamp_ms = 1700000000000 + number});
  {
    protocol::ProduceRequest request;
    request.acks = -1;
    request.timeout_ms = 10000;
    auto& topic = request.topic_data.emplace_back();
    topic.name = topic_;
    auto& partition = topic.partition_data.emplace_back();
    partition.records = RecordsView(ByteView(batch));
    const auto answer = client.Call<protocol::ProduceResponse>(request, 9);
    if (!answer.ok()) return "produce: " + Text(answer.status());
    if (answer->responses.size() != 1) return "produce: another topic";
    const auto& one = answer->responses[0].partition_responses.at(0);
    if (one.error_code != 0 || one.base_offset != number) {
      return "produce: error " + std::to_string(one.error_code) + " offset " +
             std::to_string(one.base_offset);
    }
  }
  {
    protocol::FetchRequest request;
    request.max_wait_ms = 1000;
    request.min_bytes = 1;
    request.max_bytes = 1 << 20;
    auto& topic = request.topics.emplace_back();
    topic.topic = topic_;
    auto& partition = topic.partitions.emplace_back();
    partition.fetch_offset = number;
    partition.partition_max_bytes = 1 << 20;
    const auto answer = client.Call<protocol::FetchResponse>(request, 11);
    if (!answer.ok()) return "fetch: " + Text(answer.status());
    if (answer->responses.size() != 1) return "fetch: another topic";
    const auto& one = answer->responses[0].partitions.at(0);
    if (one.error_code != 0 || one.high_watermark != number + 1 || !one.records ||
        !SameBatch(batch, one.records->bytes())) {
      return "fetch: error " + std::to_string(one.error_code) + " high watermark " +
             std::to_string(one.high_watermark) + ", or other bytes";
    }
  }
  {
    protocol::MetadataRequest request;
    request.topics->emplace_back().name = topic_;
    const auto answer = client.Call<protocol::MetadataResponse>(request, 9);
    if (!answer.ok()) return "metadata: " + Text(answer.status());
    if (answer->topics.size() != 1 || answer->topics[0].error_code != 0 ||
        answer->topics[0].name != topic_ || answer->topics[0].partitions.size() != 1) {
      return "metadata: another topic";
    }
  }
  {
    protocol::ListOffsetsRequest request;
    request.replica_id = -1;
    auto& topic = request.topics.emplace_back();
    topic.name = topic_;
    auto& partition = topic.partitions.emplace_back();
    partition.timestamp = -1;
    const auto answer = client.Call<protocol::ListOffsetsResponse>(request, 7);
    if (!answer.ok()) return "list offsets: " + Text(answer.status());
    if (answer->topics.size() != 1 || answer->topics[0].partitions.at(0).offset != number + 1) {
      return "list offsets: another end";
    }
  }
  return "";
}

}  // namespace kmirror::test
