// A manager with its source, logs and recorded events, all on one manual clock.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "conformance/memory_host/manual_runtime.h"
#include "conformance/memory_host/memory_log.h"
#include "conformance/mirrored_batches.h"
#include "src/fetcher/mirror_fetcher_manager.h"
#include "tests/fetcher/scripted_source.h"

namespace kmirror::fetcher::testing {

using namespace std::chrono_literals;

struct Events : FetchEvents {
  void OnFetching(const TopicIdPartition& key) override { fetching.push_back(key); }
  void OnStopped(const FetchStopped& event) override {
    stopped.push_back(event);
    if (on_stopped) on_stopped(event);
  }
  void OnEpochNear(const TopicIdPartition&, int32_t epoch) override { near.push_back(epoch); }
  void OnGap(const TopicIdPartition&, int64_t from, int64_t to) override {
    gaps.emplace_back(from, to);
  }
  void OnSourceTrouble(const std::string&, const std::string& reason) override {
    trouble.push_back(reason);
  }
  std::vector<TopicIdPartition> fetching;
  std::vector<FetchStopped> stopped;
  std::function<void(const FetchStopped&)> on_stopped;
  std::vector<int32_t> near;
  std::vector<std::pair<int64_t, int64_t>> gaps;
  std::vector<std::string> trouble;
};

inline Uuid TopicId(uint8_t seed) {
  Uuid id;
  id.bytes.fill(seed);
  return id;
}

class MirrorTest : public ::testing::Test {
 protected:
  static constexpr int32_t kLocalEpoch = 100;

  MirrorTest() : source(&runtime), lane(runtime.NewLane("coordinator")) {
    config.mirror = "m";
    config.fetch_wait_max_ms = 500;
  }
  ~MirrorTest() override {
    if (manager != nullptr) {
      bool done = false;
      for (auto& [key, log] : logs) {
        log->HoldAppends(false);
        if (log->append_pending()) log->CompleteAppend();
      }
      manager->Shutdown([&done] { done = true; });
      EXPECT_TRUE(runtime.RunUntil([&done] { return done; }, 1min));
      manager.reset();
    }
    for (auto& [key, log] : logs) {
      EXPECT_THAT(log->violations(), ::testing::IsEmpty());
    }
    EXPECT_FALSE(runtime.livelocked());
    logs.clear();
    lane.reset();
  }

  void Start(int32_t fetchers = 1) {
    MirrorFetcherManager::Options options;
    options.broker_id = 7;
    options.num_fetchers = fetchers;
    manager =
        std::make_unique<MirrorFetcherManager>(&runtime, lane.get(), &events, &source, options);
    manager->SetMirror(std::make_shared<MirrorSourceConfig>(config));
  }

  // A topic of the source and the logs that mirror it.
  TopicIdPartition Topic(const std::string& name, int32_t index = 0, uint8_t seed = 1) {
    const TopicIdPartition key{TopicId(seed), index};
    source.AddPartition(name, key.topic_id, index);
    MakeLog(key);
    return key;
  }
  conformance::MemoryLog& MakeLog(const TopicIdPartition& key) {
    auto log = std::make_shared<conformance::MemoryLog>(&runtime, lane.get(), true);
    log->Elect(kLocalEpoch, true);
    logs[key] = log;
    return *log;
  }
  conformance::MemoryLog& LogOf(const TopicIdPartition& key) { return *logs.at(key); }

  FetchAssignment Assignment(const TopicIdPartition& key, const std::string& topic) {
    const auto& partition = source.At(topic, key.partition);
    FetchAssignment assignment;
    assignment.partition = key;
    assignment.topic = topic;
    assignment.leader_id = partition.leader;
    assignment.leader = ScriptedSource::Address(partition.leader);
    assignment.source_leader_epoch = partition.leader_epoch;
    assignment.local_leader_epoch = kLocalEpoch;
    assignment.log = logs.at(key);
    return assignment;
  }
  void Add(const TopicIdPartition& key, const std::string& topic) {
    manager->Add("m", Assignment(key, topic));
  }
  bool Remove(const TopicIdPartition& key) {
    bool done = false;
    manager->Remove(key, [&done] { done = true; });
    return runtime.RunUntil([&done] { return done; }, 1s);
  }

  bool Until(std::function<bool()> condition, std::chrono::nanoseconds span = 1min) {
    return runtime.RunUntil(condition, span);
  }
  bool CaughtUp(const TopicIdPartition& key, const std::string& topic,
                std::chrono::nanoseconds span = 1min) {
    return Until(
        [&] {
          return LogOf(key).View().end == source.At(topic, key.partition).end;
        },
        span);
  }
  void ExpectSameBytes(const TopicIdPartition& key, const std::string& topic) {
    const int64_t start = LogOf(key).View().log_start;
    EXPECT_TRUE(LogOf(key).Bytes() == source.At(topic, key.partition).Bytes(start));
  }

  conformance::ManualRuntime runtime;
  ScriptedSource source;
  Events events;
  MirrorSourceConfig config;
  std::unique_ptr<host::Lane> lane;
  std::map<TopicIdPartition, std::shared_ptr<conformance::MemoryLog>> logs;
  std::unique_ptr<MirrorFetcherManager> manager;
};

}  // namespace kmirror::fetcher::testing
