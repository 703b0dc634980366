// Watches a run: after each task, from the bytes on the disk and from what was answered, whether
// anything happened that must not. Rules of fetcher-and-log.md 9 and R29, by parsers and models of
// the tests' own; what it asks the product is only what a client may ask.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "messages/describe_cluster_mirrors.h"
#include "tests/sim/disk_reader.h"
#include "tests/sim/sim_broker.h"
#include "tests/sim/sim_network.h"
#include "tests/sim/source_world.h"

namespace kmirror::sim {

class Checker {
 public:
  Checker(conformance::ManualRuntime* runtime, SimDisk* disk, SimBroker* broker,
          SourceWorld* source, SimNetwork* network, Trace* trace, int32_t shards,
          bool flush_every_message, bool stop_truncates);

  // While the process runs and no task does.
  void AfterTask();
  // The process is dead, the disk has not been touched since. `power_loss`: what follows.
  void ProcessDied(bool power_loss);
  // A new one is up. `disk_trouble`: it met a disk that refused things, and may lack partitions.
  void ProcessStarted(bool disk_trouble);

  // --- What was answered.

  // A client of the destination was told that its batch stands at this offset.
  void Produced(const std::string& topic, int32_t partition, int64_t offset,
                const std::vector<uint8_t>& bytes);
  // About to be sent: it may end up in the log whatever is answered.
  void Producing(const std::vector<uint8_t>& bytes) { sent_.insert(PayloadOf(bytes)); }
  void Described(const protocol::DescribeClusterMirrorsResponse& response);
  // A request that changes something was answered OK.
  void Acknowledged();

  // The first rule that was broken; empty: none.
  const std::string& violation() const { return violation_; }
  void Violate(const std::string& what);
  // How often each state was seen.
  const std::map<std::string, int64_t>& states() const { return states_seen_; }
  // The newest stored state; nullopt: none.
  std::optional<StateRow> Row(const std::string& mirror, const Uuid& topic_id, int32_t partition);
  // Batches as they stand on the disk.
  const BatchList& LogOf(const std::string& topic, int32_t partition) {
    return reader_.ReadLog(topic, partition).batches;
  }

 private:
  struct Watched {
    bool seen = false;
    uint64_t version = 0;  // of the directory that was looked at
    BatchList log;         // as it was then
    std::optional<StateRow> row;
    bool linked = false;  // to a mirror
    int64_t log_start = 0;
    // What clients were told: offset to payload.
    std::map<int64_t, std::vector<uint8_t>> acknowledged;
  };
  using Key = std::pair<std::string, int32_t>;  // topic name, partition
  enum class Death { kNone, kKilled, kPowerLost };

  // The batch without what the leader writes into it: base offset, leader epoch.
  static std::vector<uint8_t> PayloadOf(const std::vector<uint8_t>& batch);
  void CheckPartition(const broker::TopicImage& topic, int32_t partition, bool quiet);
  // Nobody may write to a topic before its stop is stored, or while another state is wanted.
  void CheckBarrier(const std::string& name, const broker::TopicImage& topic,
                    const broker::LogPositions& at, const std::optional<StateRow>& row);
  void CheckOrder(const std::string& name, const BatchList& log, int32_t leader_epoch);
  void CheckCopy(const std::string& name, const SourcePartition& source, const BatchList& log,
                 const std::optional<StateRow>& row, int64_t log_start);
  void CheckMovement(const std::string& name, Watched& watched, const BatchList& log,
                     const std::optional<StateRow>& row, int64_t log_start, bool linked,
                     bool unclean, const SourcePartition& source);
  bool MayRemove(const Watched& watched, const std::optional<StateRow>& row,
                 const RawBatch& first_removed, bool restarted, bool unclean,
                 const SourcePartition& source) const;
  bool MayAppear(const RawBatch& batch, const Watched& watched, const std::optional<StateRow>& row,
                 bool linked, std::string* why) const;
  // What stands above the position of the last stop is ours.
  void CheckOurs(const std::string& name, const BatchList& log, const StateRow& row);
  void CheckStopped(const std::string& name, const SourcePartition& source, const BatchList& log,
                    const StateRow& row, int64_t log_start, int32_t leader_epoch);
  void CheckAcknowledged(const std::string& name, Watched& watched, const BatchList& log,
                         int64_t log_start);
  void CheckProduct(const std::string& name, const broker::LogPositions& at, const BatchList& log);
  void CheckRows();
  void CheckRow(const std::string& name, const std::optional<StateRow>& before,
                const std::optional<StateRow>& row);
  void CheckLag(const std::string& topic,
                const protocol::DescribeClusterMirrorsResponse::DescribedPartition& shown);

  conformance::ManualRuntime* const runtime_;
  SimDisk* const disk_;
  SimBroker* const broker_;
  SourceWorld* const source_;
  SimNetwork* const network_;
  Trace* const trace_;
  const int32_t shards_;
  const bool flush_every_message_;
  const bool stop_truncates_;  // `stop.uncommitted`
  DiskReader reader_;
  std::map<Key, Watched> watched_;
  std::vector<broker::TopicPtr> topics_;  // with partitions that are watched
  int64_t image_version_ = -1;
  int64_t disk_changes_ = -1;   // that were looked at
  Death death_ = Death::kNone;  // what came before the state that is looked at first
  bool blind_ = false;          // this process lacks partitions; the next one will tell
  std::map<StateKeyText, DiskReader::Rows> rows_;  // as last looked at
  std::map<StateKeyText, size_t> shown_;           // so many of them were shown
  std::set<std::vector<uint8_t>> sent_;
  int64_t acknowledged_version_ = 0;
  std::string violation_;
  std::map<std::string, int64_t> states_seen_;
};

}  // namespace kmirror::sim
