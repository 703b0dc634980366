// One of the two brokers that are compared: a connection, and what the broker has named by itself.
//
// Ids that a broker chooses (topics, producers, fetch sessions) differ between the two. A history
// speaks of them by names of its own; each side knows what they are called here, and NormalForm
// turns them back. For one thread.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "kmirror/status.h"
#include "kmirror/types.h"
#include "src/protocol/body.h"
#include "tests/support/wire_client.h"

namespace kmirror::test {

struct Answer {
  bool closed = false;         // the broker closed the connection instead
  std::vector<uint8_t> frame;  // without its size; empty when closed or when none was wanted
  std::string trouble;         // neither: no answer in time, or one that does not decode
  nlohmann::json body;         // as sent; of a Fetch with its batches (batch_text.h)
};

class Side {
 public:
  // `prefix`: what every topic of this history begins with, on both sides.
  Side(std::string name, std::string bootstrap, std::string prefix);

  const std::string& name() const { return name_; }
  const std::string& prefix() const { return prefix_; }
  int32_t port() const { return FirstServer(bootstrap_).port; }

  template <typename Request>
  Answer Ask(const Request& request, int16_t version, bool wants_answer = true) {
    protocol::Writer writer;
    const Status encoded =
        protocol::EncodeRequestFrame(request, version, kCorrelationId, "differential", writer);
    if (!encoded.ok()) return Trouble("request: " + encoded.ToString());
    return AskBytes(Request::kApiKey, version, writer.Flatten(), wants_answer);
  }
  // A frame with its size. Without a wanted answer: whether the connection still serves after it.
  Answer AskBytes(int16_t key, int16_t version, ByteView frame, bool wants_answer = true);

  // For the harness itself, which knows that its requests are good.
  template <typename Response, typename Request>
  Result<Response> Call(const Request& request, int16_t version) {
    if (Status connected = EnsureConnected(); !connected.ok()) return connected;
    Result<Response> response = client_->Call<Response>(request, version);
    if (!response.ok()) client_.reset();
    return response;
  }

  // --- Names of the broker's own
  // ------------------------------------------------------------------------------------------

  std::string ClusterId();
  // The id of a topic of this history as Metadata has it now; zero when there is none.
  Uuid TopicId(const std::string& topic);
  void LearnTopicId(const std::string& topic, const Uuid& id);
  // What a topic id is called in both worlds.
  std::string TopicLabel(const std::string& id);
  std::string ProducerLabel(int64_t id);
  // The last new one was got by a request that the other side refuses: it does not count.
  void ForgetProducer(int64_t id) { producer_labels_.erase(id); }
  std::string SessionLabel(int32_t id);

  // By the order in which the history got them.
  std::vector<std::pair<int64_t, int16_t>> producers;  // id, epoch
  std::vector<int32_t> sessions;

  // --- Waiting until metadata has arrived everywhere in the broker
  // ------------------------------------------------------------------------------------------

  // All partitions of the topic serve, and there are so many.
  Status AwaitTopic(const std::string& topic, int32_t partitions);
  Status AwaitGone(const std::string& topic);
  // Every config change answered before is in effect: a change made after it is visible.
  Status AwaitConfigs(const std::string& fence_topic);

 private:
  static constexpr int32_t kCorrelationId = 77;
  static Answer Trouble(std::string what) {
    Answer answer;
    answer.trouble = std::move(what);
    return answer;
  }
  Status EnsureConnected();
  Status Fence(const std::string& fence_topic);

  const std::string name_;
  const std::string bootstrap_;
  const std::string prefix_;
  std::unique_ptr<WireClient> client_;
  std::map<std::string, std::string> topic_labels_;  // id as text -> topic and generation
  std::map<std::string, int> generations_;           // topic -> ids seen
  int strange_topics_ = 0;
  std::map<int64_t, std::string> producer_labels_;
  std::map<int32_t, std::string> session_labels_;
  int64_t fence_ = 100000000000;
};

}  // namespace kmirror::test
