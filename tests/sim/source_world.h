// The source cluster and its clients: what was ever written there, and by what events.
//
// Answers come from a ScriptedSource; beside it stands the truth, as batches: the present log of
// each partition and every log it had before an unclean election took a tail away.
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <map>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "conformance/memory_host/manual_runtime.h"
#include "tests/fetcher/scripted_source.h"
#include "tests/sim/naive_log.h"
#include "tests/sim/sim_network.h"
#include "tests/sim/trace.h"

namespace kmirror::sim {

struct SourcePartition {
  std::string topic;
  Uuid id;
  int32_t index = 0;
  // From offset 0, whatever retention removed. The last one is the present.
  std::vector<BatchList> branches{1};
  int64_t end = 0;
  int64_t high_watermark = 0;
  int64_t log_start = 0;
  int64_t greatest_log_start = 0;
  int32_t epoch = 0;
  OpenTransactions transactions;
  std::map<int64_t, int32_t> sequences;
  // The high watermark over time: (when it became so, value).
  std::deque<std::pair<Span, int64_t>> watermarks{{Span(0), 0}};
  int64_t lost_tails = 0;

  const BatchList& log() const { return branches.back(); }
  // The smallest high watermark that was true at `when` or later.
  int64_t WatermarkSince(Span when) const;
};

class SourceWorld {
 public:
  SourceWorld(uint64_t seed, conformance::ManualRuntime* runtime, Trace* trace);

  fetcher::testing::ScriptedSource& scripted() { return scripted_; }
  void SetNetwork(SimNetwork* network) { network_ = network; }

  void AddTopic(const std::string& name, int partitions);
  // One partition more.
  void Grow(const std::string& name);
  int PartitionCount(const std::string& name) const;
  const std::map<std::string, Uuid>& topics() const { return topics_; }
  std::deque<SourcePartition>& partitions() { return partitions_; }
  SourcePartition& At(const std::string& topic, int32_t index);
  SourcePartition* Find(const Uuid& id, int32_t index);

  // --- What clients do, on one partition.
  void Produce(SourcePartition& partition);
  // Ends one of its open transactions, if there is one.
  void EndTransaction(SourcePartition& partition);
  void EndAllTransactions(SourcePartition& partition);

  // --- What happens to brokers.
  // A new leader, epoch up; what was above the high watermark may go.
  void Elect(SourcePartition& partition);
  // A leader that lacks a tail which consumers have seen.
  void ElectUnclean(SourcePartition& partition);
  void DeleteRecords(SourcePartition& partition);
  // Everything written is replicated.
  void CatchUp(SourcePartition& partition);
  void SetDown(int32_t broker, bool down);
  // The next fetch is answered with nothing but this time to wait, whatever there is (KIP-219).
  void ThrottleNextFetch(int32_t ms);
  int32_t SomeBroker();
  void Heal();

 private:
  uint64_t Pick(uint64_t n) { return random_() % n; }
  bool Chance(int percent) { return Pick(100) < static_cast<uint64_t>(percent); }
  void Append(SourcePartition& partition, std::vector<uint8_t> bytes);
  void SetWatermark(SourcePartition& partition, int64_t high_watermark);
  void LoseFrom(SourcePartition& partition, int64_t offset, int32_t epoch);
  fetcher::testing::ScriptedSource::Partition& Scripted(const SourcePartition& partition) {
    return scripted_.At(partition.topic, partition.index);
  }
  void Note(const SourcePartition& partition, const std::string& what);
  void MoveLeader(SourcePartition& partition);

  std::mt19937_64 random_;
  conformance::ManualRuntime* const runtime_;
  Trace* const trace_;
  SimNetwork* network_ = nullptr;
  fetcher::testing::ScriptedSource scripted_;
  std::map<std::string, Uuid> topics_;
  std::deque<SourcePartition> partitions_;
};

}  // namespace kmirror::sim
