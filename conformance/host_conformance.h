// The host conformance suite: does a broker keep its side of the seam (include/kmirror/host)?
//
// A host's author writes a HostFixture, instantiates the suite and links host_conformance*.cc:
//
//   std::unique_ptr<kmirror::conformance::HostFixture> MakeMine();
//   INSTANTIATE_TEST_SUITE_P(Mine, HostConformance, testing::Values(&MakeMine));
//
// Every test makes a host of its own. The library itself does not take part: the suite plays it.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "conformance/mirrored_batches.h"
#include "kmirror/host/host.h"
#include "kmirror/mirror.h"

namespace kmirror::conformance {

// One broker, alone in its cluster, empty at the start. Called on one thread.
class HostFixture {
 public:
  virtual ~HostFixture() = default;

  virtual host::Host AsHost() = 0;

  // Connects `mirror` as the broker does with the real one: snapshot, deltas, shards, peers'
  // requests. Called at most once between two restarts. `mirror` outlives the fixture.
  virtual void Attach(Mirror* mirror) = 0;

  // Waits until `condition` holds, letting the host work; false after a generous deadline. Must not
  // hold a lock that a completion needs.
  virtual bool WaitFor(const std::function<bool()>& condition) = 0;

  // What a client's Produce of one record batch with acks=all comes to, before it is put on the
  // wire: the offset given, or kReadOnly, kNotEnoughReplicas, ...
  virtual Result<int64_t> Produce(const TopicIdPartition& partition, Bytes batch) = 0;

  // Every byte of the partition from the first batch that reaches the log start to the end.
  virtual Bytes ReadLog(const TopicIdPartition& partition) = 0;

  // Kills the broker without warning and starts it on what is on its disk. False: cannot be done.
  virtual bool Restart() { return false; }

  // The producer id the cluster would give to the next client; nullopt: the host does not tell.
  virtual std::optional<int64_t> NextProducerId() { return std::nullopt; }
};

// Stands where the library would: notes what the host says, and checks its order.
class RecordingMirror final : public Mirror {
 public:
  void OnSnapshot(host::MetadataSnapshot snapshot) override;
  void OnDelta(host::MetadataDelta delta) override;
  void OnShardGained(int32_t shard) override;
  void OnShardLost(int32_t shard) override;
  void HandleRequest(const RequestContext& context, ByteView body,
                     std::function<void(std::vector<uint8_t>)> respond) override;
  Status CheckTopicChange(const Uuid&) const override { return {}; }
  MirrorPartitionState StateOf(const TopicIdPartition&) const override {
    return MirrorPartitionState::kUnknown;
  }
  void Collect(MetricSink*) const override {}
  void Shutdown(std::chrono::milliseconds, std::function<void()> done) override { done(); }

  // The picture that snapshot and deltas add up to.
  std::optional<host::TopicInfo> Topic(const Uuid& id) const;
  std::optional<host::TopicInfo> TopicNamed(const std::string& name) const;
  std::optional<host::MirrorInfo> MirrorNamed(const std::string& name) const;
  int64_t version() const;
  size_t deltas() const;
  host::MetadataDelta last_delta() const;
  std::set<int32_t> shards() const;
  int32_t this_broker() const;
  int requests() const;
  // A version that did not grow, a delta before the snapshot, a second snapshot.
  std::vector<std::string> faults() const;

 private:
  mutable std::mutex mutex_;
  bool snapshot_seen_ = false;
  int64_t version_ = -1;
  int32_t this_broker_ = -1;
  std::map<Uuid, host::TopicInfo> topics_;
  std::map<std::string, host::MirrorInfo> mirrors_;
  std::set<int32_t> shards_;
  size_t deltas_ = 0;
  host::MetadataDelta last_delta_;
  int requests_ = 0;
  std::vector<std::string> faults_;
};

class HostConformance : public testing::TestWithParam<std::unique_ptr<HostFixture> (*)()> {
 protected:
  void SetUp() override;
  void TearDown() override;

  // Makes an asynchronous call and waits for its completion, which must come exactly once.
  Status Call(const std::function<void(host::Completion)>& call);

  // A topic that is mirrored by "m" (or whatever `mirror_name` says; "" none), all of whose logs
  // are there. Its partitions are led here.
  Uuid MakeTopic(const std::string& name, const std::string& mirror_name = "m",
                 int32_t partitions = 1);
  std::shared_ptr<host::PartitionLog> LogOf(const TopicIdPartition& partition);
  // Raises the leader epoch above `epoch` and waits until log and metadata show it.
  void BumpAbove(const TopicIdPartition& partition, int32_t epoch);
  Status SetName(const Uuid& topic, std::optional<std::string> value, int64_t version = -1);

  // Appends at the log's end under its present epoch.
  host::AppendResult Append(const std::shared_ptr<host::PartitionLog>& log,
                            std::vector<Bytes> batches);
  // Carries out an append whatever way the host answers it.
  host::AppendResult AppendSet(const std::shared_ptr<host::PartitionLog>& log,
                               const host::MirroredSet& set);
  // log_start <= stable <= high watermark <= end.
  static void ExpectConsistent(const host::LogView& view);

  std::unique_ptr<HostFixture> fixture_;
  std::vector<std::unique_ptr<RecordingMirror>> mirrors_;
  RecordingMirror* mirror_ = nullptr;
  host::Host host_;

  // A fixture log: topic "t" of mirror "m", leader epoch above 16.
  Uuid topic_;
  TopicIdPartition partition_;
  std::shared_ptr<host::PartitionLog> log_;
  int32_t Epoch() const { return log_->View().leader_epoch; }
  // Makes the above.
  void MakeLog();
  // Restarts the host and connects a new recording mirror. False: the host cannot.
  bool RestartHost();
};

}  // namespace kmirror::conformance
