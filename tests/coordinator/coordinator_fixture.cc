#include "tests/coordinator/coordinator_fixture.h"

#include <utility>

#include "conformance/mirrored_batches.h"
#include "kmirror/log/control_batch.h"
#include "tests/coordinator/transition_count.h"

namespace kmirror::coordinator {
namespace {

using conformance::CallScript;
using conformance::Fault;
using conformance::MemoryController;
using conformance::MemoryLog;
using conformance::MemoryStateTopic;

conformance::MemoryHostOptions HostOptions(int32_t broker) {
  conformance::MemoryHostOptions options;
  options.cluster_id = "memory-cluster-BBBBBBB";
  options.state_partitions = 5;
  options.broker = broker;
  return options;
}

}  // namespace

Cluster::Cluster(uint64_t seed, int32_t broker)
    : runtime(seed), host(&runtime, HostOptions(broker)), source(&runtime) {
  runtime.WatchLines(
      [](const conformance::ManualRuntime::LogLine& line) { CountTransition(line.line); });
}

Cluster::~Cluster() {
  host.Detach();
  mirror.reset();
}

void Cluster::Boot() {
  mirror = std::make_unique<MirrorImpl>(
      host.AsHost(), options, [this](host::Lane* lane, fetcher::FetchEvents* events) {
        Parts parts;
        auto made = std::make_unique<FakeFetching>(&source, lane, events);
        fetching = made.get();
        parts.fetching = std::move(made);
        parts.sources = std::make_unique<FakeSourceFactory>(&source);
        return parts;
      });
  host.Attach(mirror.get());
}

std::vector<CallScript*> Cluster::Scripts() {
  std::vector<CallScript*> all = {&host.controller().script(), &host.state_topic().script(),
                                  &host.peers().script()};
  for (const host::TopicInfo& topic : host.controller().Snapshot().topics) {
    for (const host::PartitionInfo& partition : topic.partitions) {
      if (const auto log = host.logs().Get({topic.id, partition.index}))
        all.push_back(&log->script());
    }
  }
  return all;
}

void Cluster::Freeze() {
  frozen_ = true;
  host.Detach();
  fetching->Freeze();
  for (CallScript* script : Scripts()) {
    for (const char* op :
         {MemoryController::kCreateTopic, MemoryController::kCreatePartitions,
          MemoryController::kSetMirrorNames, MemoryController::kSetMirrorConfigs,
          MemoryController::kDeleteMirror, MemoryController::kBumpLeaderEpochs,
          MemoryController::kRaiseProducerIdFloor, MemoryStateTopic::kEnsure,
          MemoryStateTopic::kAppend, MemoryStateTopic::kReplay, MemoryLog::kAppendAbort,
          MemoryLog::kAppendReset, MemoryLog::kTruncate, MemoryLog::kRestartAt,
          MemoryLog::kAwaitReplicated, MemoryLog::kAwaitTruncated, MemoryLog::kSync}) {
      script->Always(op, Fault::kHold);
    }
    script->Always(MemoryLog::kSetLocalWrites, Fault::kRefuse, {ErrorCode::kCancelled, "dying"});
    script->Always(MemoryLog::kRaiseLogStart, Fault::kRefuse, {ErrorCode::kCancelled, "dying"});
  }
}

void Cluster::Kill(bool lose_unsynced) {
  host.Detach();
  mirror.reset();
  fetching = nullptr;
  if (frozen_) {
    for (CallScript* script : Scripts()) {
      for (const char* op :
           {MemoryController::kCreateTopic, MemoryController::kCreatePartitions,
            MemoryController::kSetMirrorNames, MemoryController::kSetMirrorConfigs,
            MemoryController::kDeleteMirror, MemoryController::kBumpLeaderEpochs,
            MemoryController::kRaiseProducerIdFloor, MemoryStateTopic::kEnsure,
            MemoryStateTopic::kAppend, MemoryStateTopic::kReplay, MemoryLog::kAppendAbort,
            MemoryLog::kAppendReset, MemoryLog::kTruncate, MemoryLog::kRestartAt,
            MemoryLog::kAwaitReplicated, MemoryLog::kAwaitTruncated, MemoryLog::kSync,
            MemoryLog::kSetLocalWrites, MemoryLog::kRaiseLogStart}) {
        script->Heal(op);
      }
    }
  }
  frozen_ = false;
  host.Restart(lose_unsynced);
}

ErrorCode Cluster::CreateMirror(const std::string& name, std::map<std::string, std::string> more) {
  protocol::CreateClusterMirrorRequest request;
  request.mirror_name = name;
  request.config.push_back({"bootstrap.servers", "source:9092"});
  for (auto& [key, value] : more) request.config.push_back({key, value});
  return static_cast<ErrorCode>(Ask<protocol::CreateClusterMirrorResponse>(request).error_code);
}

ErrorCode Cluster::Start(const std::string& topic, const std::string& name, bool discard) {
  protocol::StartMirrorTopicsRequest request;
  request.mirror_name = name;
  request.topics.push_back({.topic_id = {}, .topic_name = topic, .num_partitions = 0});
  request.discard_local = discard;
  const auto response = Ask<protocol::StartMirrorTopicsResponse>(request);
  return static_cast<ErrorCode>(response.topics.size() == 1 ? response.topics[0].error_code
                                                            : response.error_code);
}

template <typename Response, typename Request>
ErrorCode Cluster::Change(const std::string& topic, const std::string& name) {
  Request request;
  request.mirror_name = name;
  request.topics.push_back({topic});
  const auto response = Ask<Response>(request);
  return static_cast<ErrorCode>(response.topics.size() == 1 ? response.topics[0].error_code
                                                            : response.error_code);
}

ErrorCode Cluster::Stop(const std::string& topic, const std::string& name) {
  return Change<protocol::StopMirrorTopicsResponse, protocol::StopMirrorTopicsRequest>(topic, name);
}

ErrorCode Cluster::Pause(const std::string& topic, const std::string& name) {
  return Change<protocol::PauseMirrorTopicsResponse, protocol::PauseMirrorTopicsRequest>(topic,
                                                                                         name);
}

ErrorCode Cluster::Resume(const std::string& topic, const std::string& name) {
  return Change<protocol::ResumeMirrorTopicsResponse, protocol::ResumeMirrorTopicsRequest>(topic,
                                                                                           name);
}

int Cluster::Recover(const std::string& topic, const std::string& name) {
  protocol::RecoverMirrorTopicsRequest request;
  request.mirror_name = name;
  request.topics.push_back({topic});
  return static_cast<int>(Ask<protocol::RecoverMirrorTopicsResponse>(request).topics.size());
}

DescribedPartition Cluster::Describe(const std::string& topic, int partition,
                                     const std::string& name) {
  protocol::DescribeClusterMirrorsRequest request;
  request.mirror_names.push_back(name);
  const auto response = Ask<protocol::DescribeClusterMirrorsResponse>(request);
  for (const auto& described : response.mirrors) {
    for (const auto& one : described.topics) {
      if (one.topic_name != topic) continue;
      for (const auto& p : one.partitions) {
        if (p.partition_index == partition) return p;
      }
    }
  }
  ADD_FAILURE() << topic << "-" << partition << " is not described";
  return {};
}

MirrorPartitionState Cluster::State(const std::string& topic, int partition) {
  const host::TopicInfo* info = host.controller().FindTopic(topic);
  if (info == nullptr || mirror == nullptr) return MirrorPartitionState::kUnknown;
  return mirror->StateOf({info->id, partition});
}

bool Cluster::RunUntilState(MirrorPartitionState state, std::chrono::nanoseconds span,
                            const std::string& topic, int partition) {
  return runtime.RunUntil([&] { return State(topic, partition) == state; }, span);
}

bool Cluster::RunUntilCaughtUp(const std::string& topic, int partition) {
  return runtime.RunUntil(
      [&] {
        if (State(topic, partition) != MirrorPartitionState::kMirroring) return false;
        const auto log = host.Log(topic, partition);
        return log != nullptr && fetching->Assigned(Id(topic, partition)) &&
               log->View().end == source.Log(topic, partition).View().end;
      },
      std::chrono::minutes(2));
}

StateKey Cluster::Key(const std::string& topic, int partition, const std::string& name) {
  const host::TopicInfo* info = host.controller().FindTopic(topic);
  return {name, {info == nullptr ? Uuid{} : info->id, partition}};
}

std::vector<statemachine::PartitionRecord> Cluster::History(const std::string& topic, int partition,
                                                            const std::string& name) {
  std::vector<statemachine::PartitionRecord> found;
  const StateKey key = Key(topic, partition, name);
  const auto key_bytes = EncodeStateKey(key);
  for (const host::StateRecord& record : host.state_topic().records(key.Shard(5))) {
    if (record.key != key_bytes || !record.value) continue;
    auto decoded = DecodeStateValue(*record.value);
    EXPECT_TRUE(decoded.ok()) << decoded.status().ToString();
    if (decoded.ok()) found.push_back(*decoded);
  }
  return found;
}

std::string Cluster::Path(const std::string& topic, int partition, const std::string& name) {
  std::string path;
  auto last = MirrorPartitionState::kUnknown;
  for (const auto& record : History(topic, partition, name)) {
    if (record.state == last) continue;
    last = record.state;
    if (!path.empty()) path += ' ';
    path += StateName(last);
  }
  return path;
}

std::optional<statemachine::PartitionRecord> Cluster::Stored(const std::string& topic,
                                                             int partition,
                                                             const std::string& name) {
  const StateKey key = Key(topic, partition, name);
  const auto key_bytes = EncodeStateKey(key);
  const auto& records = host.state_topic().records(key.Shard(5));
  for (auto it = records.rbegin(); it != records.rend(); ++it) {
    if (it->key != key_bytes) continue;
    if (!it->value) return std::nullopt;
    return *DecodeStateValue(*it->value);
  }
  return std::nullopt;
}

int32_t Cluster::LeaderEpoch(const std::string& topic, int partition) {
  return host.controller()
      .FindTopic(topic)
      ->partitions.at(static_cast<size_t>(partition))
      .leader_epoch;
}

std::string Cluster::MirrorName(const std::string& topic) {
  const host::TopicInfo* info = host.controller().FindTopic(topic);
  const auto it = info->configs.find("mirror.name");
  return it == info->configs.end() ? "" : it->second;
}

ErrorCode Cluster::Produce(const std::string& topic, int partition) {
  auto result = Log(topic, partition).Produce(conformance::DataBatch({}));
  return result.ok() ? ErrorCode::kNone : result.status().code();
}

std::string Cluster::Shape(const std::string& topic, int partition) {
  return ShapeOf(Log(topic, partition));
}

std::string Cluster::ShapeOf(const MemoryLog& log) {
  std::string shape;
  for (const MemoryLog::Batch& batch : log.batches()) {
    if (!shape.empty()) shape += ' ';
    switch (batch.info.control_type) {
      case log::kControlAbort: shape += 'A'; break;
      case log::kControlCommit: shape += 'C'; break;
      case log::kControlMirrorPidReset: shape += 'R'; break;
      default: break;
    }
    shape += std::to_string(batch.info.base_offset);
    if (batch.info.last_offset != batch.info.base_offset)
      shape += "-" + std::to_string(batch.info.last_offset);
    shape += "@" + std::to_string(batch.info.leader_epoch);
  }
  return shape;
}

void CoordinatorTest::StartCaughtUp(int records, int32_t epoch, int partitions) {
  c.source.AddTopic("t", partitions);
  for (int p = 0; p < partitions; ++p) {
    c.source.Elect("t", epoch, p);
    if (records > 0) c.source.Append("t", records, p);
  }
  ASSERT_EQ(c.CreateMirror(), ErrorCode::kNone);
  ASSERT_EQ(c.Start(), ErrorCode::kNone);
  for (int p = 0; p < partitions; ++p) ASSERT_TRUE(c.RunUntilCaughtUp("t", p)) << c.Path("t", p);
}

}  // namespace kmirror::coordinator
