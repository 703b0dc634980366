#include "tests/differential/side.h"

#include "messages/api_versions.h"
#include "messages/describe_configs.h"
#include "messages/fetch.h"
#include "messages/incremental_alter_configs.h"
#include "messages/list_offsets.h"
#include "messages/metadata.h"
#include "tests/differential/batch_text.h"
#include "tests/protocol/json_text.h"
#include "tests/support/wait_until.h"

namespace kmirror::test {

using namespace protocol;  // NOLINT: the messages, all of them

Side::Side(std::string name, std::string bootstrap, std::string prefix)
    : name_(std::move(name)), bootstrap_(std::move(bootstrap)), prefix_(std::move(prefix)) {}

Status Side::EnsureConnected() {
  if (client_) return {};
  Result<WireClient> client = WireClient::Connect(bootstrap_);
  if (!client.ok()) return client.status();
  client_ = std::make_unique<WireClient>(std::move(*client));
  return {};
}

Answer Side::AskBytes(int16_t key, int16_t version, ByteView frame, bool wants_answer) {
  if (Status connected = EnsureConnected(); !connected.ok()) return Trouble(connected.ToString());
  Answer answer;
  Status sent = client_->SendBytes(frame);
  if (sent.ok() && !wants_answer) {
    // Whoever still answers this has taken the request before it.
    Writer probe;
    sent = EncodeRequestFrame(ApiVersionsRequest{}, 0, kCorrelationId, "differential", probe);
    if (sent.ok()) sent = client_->SendBytes(probe.Flatten());
  }
  Result<std::vector<uint8_t>> received =
      sent.ok() ? client_->ReceiveFrame() : Result<std::vector<uint8_t>>(sent);
  if (!received.ok()) {
    client_.reset();
    answer.closed = received.status().code() == ErrorCode::kDisconnected;
    if (!answer.closed) answer.trouble = received.status().ToString();
    return answer;
  }
  if (!wants_answer) return answer;
  answer.frame = std::move(*received);
  Reader reader(answer.frame);
  int32_t correlation = -1;
  Status read = DecodeResponseHeader(reader, ResponseHeaderVersion(key, version), &correlation);
  std::string text;
  if (read.ok() && correlation != kCorrelationId) return Trouble("answer to another request");
  if (read.ok()) {
    read = BodyToJson(key, version, Direction::kResponse, reader.rest(), false, &text);
  }
  if (!read.ok()) return Trouble("answer: " + read.ToString());
  answer.body = nlohmann::json::parse(text, nullptr, false);
  if (answer.body.is_discarded()) return Trouble("answer is no JSON: " + text);
  if (const int32_t session = answer.body.value("sessionId", 0);
      session != 0 && (sessions.empty() || sessions.back() != session)) {
    sessions.push_back(session);
  }
  if (key == FetchRequest::kApiKey) PutBatches(reader.rest(), version, *this, &answer.body);
  return answer;
}

// --- Names of the broker's own
// --------------------------------------------------------------------------------------------

std::string Side::ClusterId() {
  const auto response = Call<MetadataResponse>(MetadataRequest{}, 2);
  return response.ok() ? response->cluster_id.value_or("") : "";
}

Uuid Side::TopicId(const std::string& topic) {
  MetadataRequest request;
  request.topics->emplace_back().name = prefix_ + topic;
  request.allow_auto_topic_creation = false;
  const Result<MetadataResponse> response = Call<MetadataResponse>(request, 12);
  if (!response.ok() || response->topics.size() != 1) return {};
  const Uuid id = response->topics[0].topic_id;
  if (!id.IsZero()) LearnTopicId(topic, id);
  return id;
}

void Side::LearnTopicId(const std::string& topic, const Uuid& id) {
  const auto [place, fresh] = topic_labels_.try_emplace(id.ToString());
  if (fresh) place->second = "id of " + topic + " " + std::to_string(++generations_[topic]);
}

std::string Side::TopicLabel(const std::string& id) {
  if (id == Uuid{}.ToString()) return "no id";
  const auto [place, fresh] = topic_labels_.try_emplace(id);
  if (fresh) place->second = "strange id " + std::to_string(++strange_topics_);
  return place->second;
}

std::string Side::ProducerLabel(int64_t id) {
  for (size_t i = 0; i < producers.size(); ++i) {
    if (producers[i].first == id) return "producer " + std::to_string(i);
  }
  const auto [place, fresh] = producer_labels_.try_emplace(id);
  if (fresh) place->second = "new producer " + std::to_string(producer_labels_.size());
  return place->second;
}

std::string Side::SessionLabel(int32_t id) {
  const auto [place, fresh] = session_labels_.try_emplace(id);
  if (fresh) place->second = "session " + std::to_string(session_labels_.size());
  return place->second;
}

// --- Waiting
// --------------------------------------------------------------------------------------------

Status Side::AwaitTopic(const std::string& topic, int32_t partitions) {
  Status last;
  const bool there = WaitUntil([&] {
    if (TopicId(topic).IsZero()) return false;
    ListOffsetsRequest request;
    request.replica_id = -1;
    auto& wanted = request.topics.emplace_back();
    wanted.name = prefix_ + topic;
    for (int32_t i = 0; i < partitions; ++i) {
      auto& partition = wanted.partitions.emplace_back();
      partition.partition_index = i;
      partition.timestamp = -1;
    }
    const Result<ListOffsetsResponse> response = Call<ListOffsetsResponse>(request, 5);
    last = response.status();
    if (!response.ok() || response->topics.size() != 1) return false;
    for (const auto& partition : response->topics[0].partitions) {
      if (partition.error_code != 0) return false;
    }
    return true;
  });
  if (there) return {};
  return {ErrorCode::kTimedOut, name_ + ": " + topic + " does not serve: " + last.ToString()};
}

Status Side::AwaitGone(const std::string& topic) {
  const bool gone = WaitUntil([&] {
    if (!TopicId(topic).IsZero()) return false;
    ListOffsetsRequest request;
    request.replica_id = -1;
    auto& wanted = request.topics.emplace_back();
    wanted.name = prefix_ + topic;
    wanted.partitions.emplace_back().timestamp = -1;
    const Result<ListOffsetsResponse> response = Call<ListOffsetsResponse>(request, 5);
    return response.ok() && response->topics.size() == 1 &&
           response->topics[0].partitions.at(0).error_code == 3;
  });
  if (gone) return {};
  return {ErrorCode::kTimedOut, name_ + ": " + topic + " is still there"};
}

Status Side::AwaitConfigs(const std::string& fence_topic) {
  // Kafka puts a new image into its cache before it tells the logs, one image after the other: when
  // the second is seen, the logs have what came before the first.
  for (int i = 0; i < 2; ++i) {
    if (Status status = Fence(fence_topic); !status.ok()) return status;
  }
  return {};
}

Status Side::Fence(const std::string& fence_topic) {
  const std::string value = std::to_string(++fence_);
  IncrementalAlterConfigsRequest change;
  auto& resource = change.resources.emplace_back();
  resource.resource_type = 2;
  resource.resource_name = prefix_ + fence_topic;
  resource.configs.push_back({"retention.ms", 0, value});
  const auto changed = Call<IncrementalAlterConfigsResponse>(change, 1);
  if (!changed.ok()) return changed.status();
  if (changed->responses.at(0).error_code != 0) {
    return {ErrorCode::kUnknownServerError, name_ + ": the fence topic does not change"};
  }
  DescribeConfigsRequest look;
  auto& wanted = look.resources.emplace_back();
  wanted.resource_type = 2;
  wanted.resource_name = prefix_ + fence_topic;
  wanted.configuration_keys = std::vector<std::string>{"retention.ms"};
  const bool seen = WaitUntil([&] {
    const auto response = Call<DescribeConfigsResponse>(look, 4);
    return response.ok() && response->results.at(0).configs.size() == 1 &&
           response->results[0].configs[0].value == value;
  });
  if (seen) return {};
  return {ErrorCode::kTimedOut, name_ + ": a config change does not show"};
}

}  // namespace kmirror::test
