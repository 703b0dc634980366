// One broker's coordinator on the in-memory host, mirroring from an in-memory source.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "conformance/memory_host/memory_host.h"
#include "messages/create_cluster_mirror.h"
#include "messages/describe_cluster_mirrors.h"
#include "messages/pause_mirror_topics.h"
#include "messages/recover_mirror_topics.h"
#include "messages/resume_mirror_topics.h"
#include "messages/start_mirror_topics.h"
#include "messages/stop_mirror_topics.h"
#include "src/coordinator/mirror_impl.h"
#include "src/coordinator/state_codec.h"
#include "src/protocol/body.h"
#include "tests/coordinator/fake_source.h"

namespace kmirror::coordinator {

using DescribedPartition = protocol::DescribeClusterMirrorsResponse::DescribedPartition;

class Cluster {
 public:
  explicit Cluster(uint64_t seed = 1, int32_t broker = 0);
  ~Cluster();

  // A new process: nothing in memory, what is on disk is there.
  void Boot();
  // The process dies. `lose_unsynced`: the page cache dies with it.
  void Kill(bool lose_unsynced = false);
  // Called inside a running task: from now on the process has no effect on anything, and Kill must
  // follow. What was called before stays done, its answer is never heard.
  void Freeze();
  bool frozen() const { return frozen_; }

  // Sends a request and runs until it is answered; the test fails when it is not.
  template <typename Response, typename Request>
  Response Ask(const Request& request);
  // Sends it and does not wait. The answer's bytes go to *answer.
  template <typename Request>
  void Send(const Request& request, std::optional<std::vector<uint8_t>>* answer = nullptr);

  // Short forms for mirror "m".
  ErrorCode CreateMirror(const std::string& mirror = "m",
                         std::map<std::string, std::string> more = {});
  ErrorCode Start(const std::string& topic = "t", const std::string& mirror = "m",
                  bool discard = false);
  ErrorCode Stop(const std::string& topic = "t", const std::string& mirror = "m");
  ErrorCode Pause(const std::string& topic = "t", const std::string& mirror = "m");
  ErrorCode Resume(const std::string& topic = "t", const std::string& mirror = "m");
  // How many topics the answer lists.
  int Recover(const std::string& topic = "t", const std::string& mirror = "m");
  DescribedPartition Describe(const std::string& topic = "t", int partition = 0,
                              const std::string& mirror = "m");

  MirrorPartitionState State(const std::string& topic = "t", int partition = 0);
  bool RunUntilState(MirrorPartitionState state,
                     std::chrono::nanoseconds span = std::chrono::minutes(2),
                     const std::string& topic = "t", int partition = 0);
  // MIRRORING with everything the source has.
  bool RunUntilCaughtUp(const std::string& topic = "t", int partition = 0);
  bool RunUntil(const std::function<bool()>& condition,
                std::chrono::nanoseconds span = std::chrono::minutes(2)) {
    return runtime.RunUntil(condition, span);
  }
  void Advance(std::chrono::nanoseconds span) { runtime.Advance(span); }

  // What is stored of the partition: every record in order, and the newest (nullopt: none, or a
  // tombstone).
  std::vector<statemachine::PartitionRecord> History(const std::string& topic = "t",
                                                     int partition = 0,
                                                     const std::string& mirror = "m");
  // The stored states in order, repetitions of one state once: "PREPARING MIRRORING".
  std::string Path(const std::string& topic = "t", int partition = 0,
                   const std::string& mirror = "m");
  std::optional<statemachine::PartitionRecord> Stored(const std::string& topic = "t",
                                                      int partition = 0,
                                                      const std::string& mirror = "m");
  StateKey Key(const std::string& topic = "t", int partition = 0, const std::string& mirror = "m");
  TopicIdPartition Id(const std::string& topic = "t", int partition = 0) {
    return Key(topic, partition).partition;
  }
  int32_t LeaderEpoch(const std::string& topic = "t", int partition = 0);
  std::string MirrorName(const std::string& topic = "t");

  conformance::MemoryLog& Log(const std::string& topic = "t", int partition = 0) {
    return *host.Log(topic, partition);
  }
  // What a client's produce is answered: kNone when it is appended.
  ErrorCode Produce(const std::string& topic = "t", int partition = 0);
  // "0-2@5 A3@16 R4@16": data, ABORT, COMMIT (C) and RESET batches with offsets and epochs.
  std::string Shape(const std::string& topic = "t", int partition = 0);
  static std::string ShapeOf(const conformance::MemoryLog& log);

  conformance::ManualRuntime runtime;
  conformance::MemoryHost host;
  SourceModel source;
  Options options;
  std::unique_ptr<MirrorImpl> mirror;
  FakeFetching* fetching = nullptr;

 private:
  template <typename Response, typename Request>
  ErrorCode Change(const std::string& topic, const std::string& mirror);
  std::vector<conformance::CallScript*> Scripts();
  bool frozen_ = false;
};

// A cluster per test, and nothing broken at its end.
class CoordinatorTest : public ::testing::Test {
 protected:
  void SetUp() override { c.Boot(); }
  void TearDown() override {
    EXPECT_EQ(c.host.violations(), std::vector<std::string>());
    EXPECT_FALSE(c.runtime.livelocked());
  }
  // Mirror "m", topic "t" with `records` at the source's epoch, MIRRORING and caught up.
  void StartCaughtUp(int records = 3, int32_t epoch = 5, int partitions = 1);

  Cluster c;
};

template <typename Request>
void Cluster::Send(const Request& request, std::optional<std::vector<uint8_t>>* answer) {
  protocol::Writer out;
  ASSERT_TRUE(Encode(request, 0, out).ok());
  RequestContext context;
  context.api_key = Request::kApiKey;
  mirror->HandleRequest(context, out.Flatten(), [answer](std::vector<uint8_t> body) {
    if (answer != nullptr) *answer = std::move(body);
  });
}

template <typename Response, typename Request>
Response Cluster::Ask(const Request& request) {
  auto answer = std::make_shared<std::optional<std::vector<uint8_t>>>();
  protocol::Writer out;
  EXPECT_TRUE(Encode(request, 0, out).ok());
  RequestContext context;
  context.api_key = Request::kApiKey;
  mirror->HandleRequest(context, out.Flatten(),
                        [answer](std::vector<uint8_t> body) { *answer = std::move(body); });
  Response response;
  runtime.RunUntil([&] { return answer->has_value() || frozen_; }, std::chrono::minutes(1));
  if (!answer->has_value()) {
    if (!frozen_) ADD_FAILURE() << Request::kName << " was not answered";
    response.error_code = static_cast<int16_t>(ErrorCode::kTimedOut);
    return response;
  }
  // The decoded texts are copies; the bytes may go.
  EXPECT_TRUE(protocol::DecodeBody(**answer, 0, &response).ok());
  return response;
}

}  // namespace kmirror::coordinator
