#include "tests/coordinator/fake_source.h"

#include <algorithm>
#include <utility>

#include "conformance/mirrored_batches.h"

namespace kmirror::coordinator {
namespace {

using conformance::BatchSpec;
using conformance::MemoryLog;
using conformance::OwnedSet;

class FakeSourceCluster final : public fetcher::SourceCluster {
 public:
  FakeSourceCluster(SourceModel* model, const fetcher::MirrorSourceConfig& config, host::Lane* lane)
      : model_(model), lane_(lane), mirror_(config.mirror), patience_(config.request_timeout_ms) {
    ++model_->open_clients;
  }
  ~FakeSourceCluster() override {
    *alive_ = false;
    --model_->open_clients;
  }

  void DescribeTopics(std::vector<std::string> topics,
                      Answer<fetcher::SourceMetadata> answer) override {
    Call<fetcher::SourceMetadata>(
        SourceModel::kDescribe,
        [model = model_, topics]() -> Result<fetcher::SourceMetadata> {
          fetcher::SourceMetadata metadata;
          metadata.cluster_id = model->cluster_id;
          metadata.brokers = model->brokers;
          for (const std::string& name : topics) {
            fetcher::SourceTopic& out = metadata.topics.emplace_back();
            out.name = name;
            const auto it = model->topics.find(name);
            if (it == model->topics.end()) {
              out.error = ErrorCode::kUnknownTopicOrPartition;
              continue;
            }
            out.id = it->second.id;
            out.error = it->second.error;
            int32_t index = 0;
            for (const auto& partition : it->second.partitions) {
              out.partitions.push_back({index++, partition.leader_id, partition.leader_epoch});
            }
          }
          return metadata;
        },
        std::move(answer));
  }

  void ListTopics(Answer<std::vector<std::string>> answer) override {
    Call<std::vector<std::string>>(
        SourceModel::kList,
        [model = model_]() -> Result<std::vector<std::string>> {
          std::vector<std::string> names(model->listed_only.begin(), model->listed_only.end());
          for (const auto& [name, topic] : model->topics) names.push_back(name);
          return names;
        },
        std::move(answer));
  }

  void Features(Answer<fetcher::SourceFeatures> answer) override {
    Call<fetcher::SourceFeatures>(
        SourceModel::kFeatures,
        [model = model_]() -> Result<fetcher::SourceFeatures> {
          return fetcher::SourceFeatures{model->mirrors_feature};
        },
        std::move(answer));
  }

  void ListMirrors(Answer<std::vector<fetcher::SourceMirror>> answer) override {
    Call<std::vector<fetcher::SourceMirror>>(
        SourceModel::kListMirrors,
        [model = model_]() -> Result<std::vector<fetcher::SourceMirror>> { return model->mirrors; },
        std::move(answer));
  }

  void MirrorPositions(std::string, std::string topic, TopicIdPartition partition,
                       Answer<fetcher::SourceMirrorPosition> answer) override {
    Call<fetcher::SourceMirrorPosition>(
        SourceModel::kPositions,
        [model = model_, topic, partition]() -> Result<fetcher::SourceMirrorPosition> {
          const auto it = model->topics.find(topic);
          if (it == model->topics.end())
            return fetcher::SourceMirrorPosition{.authoritative = true, .active_state = {}};
          return it->second.partitions.at(static_cast<size_t>(partition.partition)).position;
        },
        std::move(answer));
  }

  void EndOffsetForEpoch(std::string topic, int32_t partition, int32_t, int32_t, int32_t epoch,
                         Answer<host::EpochEnd> answer) override {
    Call<host::EpochEnd>(
        SourceModel::kEpochEnd,
        [model = model_, topic, partition, epoch]() -> Result<host::EpochEnd> {
          const auto it = model->topics.find(topic);
          if (it == model->topics.end()) return {ErrorCode::kUnknownTopicOrPartition, topic};
          return it->second.partitions.at(static_cast<size_t>(partition))
              .log->EndOffsetForEpoch(epoch);
        },
        std::move(answer));
  }

  void Close() override {
    auto pending = std::move(pending_);
    pending_.clear();
    // The lane outlives the client; whoever asked may not.
    for (auto& [id, cancel] : pending) lane_->Post(std::move(cancel));
  }

 private:
  template <typename T>
  void Call(const char* op, std::function<Result<T>()> read, Answer<T> answer) {
    const uint64_t id = ++next_;
    auto shared = std::make_shared<Answer<T>>(std::move(answer));
    pending_[id] = [shared] { (*shared)(Status(ErrorCode::kCancelled, "the client was closed")); };
    if (model_->hung.contains(mirror_)) {
      lane_->RunAfter(patience_, [this, alive = alive_, id, shared] {
        if (!*alive || pending_.erase(id) == 0) return;
        (*shared)(Status(ErrorCode::kTimedOut, "no answer from the source"));
      });
      return;
    }
    auto result = std::make_shared<std::optional<Result<T>>>();
    model_->script.Run(
        op, {},
        [model = model_, read, result](host::Completion done) {
          if (!model->reachable) {
            return done({ErrorCode::kDisconnected, "source:9092: connection refused"});
          }
          *result = read();
          done((*result)->status());
        },
        [this, alive = alive_, lane = lane_, id, shared, result](Status status) {
          if (!*alive) return;
          lane->Post([this, alive, id, shared, result, status] {
            if (!*alive || pending_.erase(id) == 0) return;
            if (status.ok()) {
              (*shared)(**std::move(result));
            } else {
              (*shared)(status);
            }
          });
        });
  }

  SourceModel* model_;
  host::Lane* lane_;
  const std::string mirror_;
  const std::chrono::milliseconds patience_;
  uint64_t next_ = 0;
  std::map<uint64_t, std::function<void()>> pending_;
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
};

}  // namespace

SourceModel::Topic& SourceModel::AddTopic(const std::string& name, int partitions, uint8_t seed) {
  Topic& topic = topics[name];
  topic.id.bytes.fill(seed);
  for (int i = 0; i < partitions; ++i) {
    Partition& partition = topic.partitions.emplace_back();
    partition.log = std::make_shared<MemoryLog>(runtime, lane.get(), false);
    partition.log->Elect(0, true);
  }
  return topic;
}

void SourceModel::Elect(const std::string& topic, int32_t epoch, int partition) {
  At(topic, partition).leader_epoch = epoch;
  Log(topic, partition).Elect(epoch, true);
}

void SourceModel::Append(const std::string& topic, int records, int partition) {
  MemoryLog& log = Log(topic, partition);
  log.AppendLocal(conformance::DataBatch(BatchSpec{.base_offset = log.View().end}, records));
}

void SourceModel::AppendTransactional(const std::string& topic, int64_t producer_id,
                                      int16_t producer_epoch, int32_t sequence, int partition) {
  MemoryLog& log = Log(topic, partition);
  log.AppendLocal(conformance::DataBatch(BatchSpec{.base_offset = log.View().end,
                                                   .producer_id = producer_id,
                                                   .producer_epoch = producer_epoch,
                                                   .base_sequence = sequence,
                                                   .transactional = true}));
}

void SourceModel::AppendMarker(const std::string& topic, int16_t type, int64_t producer_id,
                               int16_t producer_epoch, int32_t coordinator_epoch, int partition) {
  Log(topic, partition)
      .AppendLocal(conformance::Marker(
          type, BatchSpec{.producer_id = producer_id, .producer_epoch = producer_epoch},
          coordinator_epoch));
}

std::unique_ptr<fetcher::SourceCluster> FakeSourceFactory::Open(
    std::shared_ptr<const fetcher::MirrorSourceConfig> config, host::Lane* lane) {
  return std::make_unique<FakeSourceCluster>(model_, *config, lane);
}

FakeFetching::~FakeFetching() { *alive_ = false; }

void FakeFetching::SetMirror(std::shared_ptr<const fetcher::MirrorSourceConfig> config) {
  ++restarts;
  RemoveMirror(config->mirror);
}

void FakeFetching::RemoveMirror(const std::string& mirror) {
  std::erase_if(assigned_, [&](const auto& entry) { return entry.second.mirror == mirror; });
}

void FakeFetching::Add(const std::string& mirror, fetcher::FetchAssignment assignment) {
  if (frozen_) return;
  ++adds;
  const TopicIdPartition partition = assignment.partition;
  const uint64_t generation = assignment.generation;
  add_offsets.push_back(assignment.log->View().end);
  assigned_[partition] = {std::move(assignment), mirror};
  lane_->Post([this, alive = alive_, partition, generation] {
    if (*alive) Poll(partition, generation);
  });
}

void FakeFetching::Remove(const TopicIdPartition& partition, std::function<void()> done) {
  if (frozen_) return;
  ++removes;
  assigned_.erase(partition);
  auto answer = [lane = lane_, done = std::move(done)] { lane->Post(done); };
  if (hold_removes_) {
    held_removes_.push_back(std::move(answer));
  } else {
    answer();
  }
}

void FakeFetching::HoldRemoves(bool hold) {
  hold_removes_ = hold;
  if (hold) return;
  for (auto& answer : std::exchange(held_removes_, {})) answer();
}

void FakeFetching::UpdateLocalEpoch(const TopicIdPartition& partition, int32_t local_leader_epoch) {
  const auto it = assigned_.find(partition);
  if (it == assigned_.end()) return;
  it->second.assignment.local_leader_epoch = local_leader_epoch;
  it->second.near_told = false;
}

std::optional<fetcher::FetchPosition> FakeFetching::Position(
    const TopicIdPartition& partition) const {
  const auto it = assigned_.find(partition);
  if (it == assigned_.end()) return std::nullopt;
  fetcher::FetchPosition position;
  const auto topic = model_->topics.find(it->second.assignment.topic);
  if (it->second.told && topic != model_->topics.end()) {
    position.source_high_watermark =
        topic->second.partitions.at(static_cast<size_t>(partition.partition))
            .log->View()
            .high_watermark;
  }
  return position;
}

void FakeFetching::Stop(const TopicIdPartition& partition, fetcher::FetchStop why, int64_t offset,
                        int32_t epoch, std::string message) {
  End(partition, why, offset, epoch, std::move(message));
}

void FakeFetching::Deliver(fetcher::FetchStopped stopped) {
  lane_->Post([this, alive = alive_, stopped = std::move(stopped)] {
    if (*alive && !frozen_) events_->OnStopped(stopped);
  });
}

void FakeFetching::End(const TopicIdPartition& partition, fetcher::FetchStop why, int64_t offset,
                       int32_t epoch, std::string message) {
  const auto it = assigned_.find(partition);
  if (it == assigned_.end()) return;
  fetcher::FetchStopped stopped;
  stopped.partition = partition;
  stopped.why = why;
  stopped.generation = it->second.assignment.generation;
  stopped.offset = offset;
  stopped.epoch = epoch;
  stopped.message = std::move(message);
  assigned_.erase(it);
  Deliver(std::move(stopped));
}

void FakeFetching::Poll(const TopicIdPartition& partition, uint64_t generation) {
  if (frozen_) return;
  auto current = [&] {
    const auto it = assigned_.find(partition);
    return it != assigned_.end() && it->second.assignment.generation == generation ? &it->second
                                                                                   : nullptr;
  };
  Slot* slot = current();
  if (slot == nullptr) return;
  while (slot != nullptr && Step(partition, *slot)) slot = current();
  if (current() == nullptr) return;
  lane_->RunAfter(poll, [this, alive = alive_, partition, generation] {
    if (*alive) Poll(partition, generation);
  });
}

// True when something was copied, so that more may follow at once.
bool FakeFetching::Step(const TopicIdPartition& partition, Slot& slot) {
  if (!model_->reachable || model_->hung.contains(slot.mirror)) return false;
  const auto topic = model_->topics.find(slot.assignment.topic);
  if (topic == model_->topics.end() || topic->second.id != partition.topic_id) return false;
  const MemoryLog& source =
      *topic->second.partitions.at(static_cast<size_t>(partition.partition)).log;
  host::PartitionLog& local = *slot.assignment.log;
  const host::LogView view = local.View();

  if (!slot.told && view.last_batch_epoch >= 0) {
    const host::EpochEnd end = source.EndOffsetForEpoch(view.last_batch_epoch);
    if (end.epoch != view.last_batch_epoch || end.end_offset < view.end) {
      End(partition, fetcher::FetchStop::kDiverged, end.end_offset, end.epoch, "diverged");
      return false;
    }
  }
  auto flows = [&] {
    if (slot.told) return;
    slot.told = true;
    lane_->Post([this, alive = alive_, partition, generation = slot.assignment.generation] {
      if (!*alive || frozen_) return;
      const auto it = assigned_.find(partition);
      if (it != assigned_.end() && it->second.assignment.generation == generation)
        events_->OnFetching(partition);
    });
  };
  for (const MemoryLog::Batch& batch : source.batches()) {
    if (batch.info.base_offset < view.end) continue;
    if (batch.info.leader_epoch > slot.assignment.local_leader_epoch) {
      End(partition, fetcher::FetchStop::kEpochAhead, batch.info.base_offset,
          batch.info.leader_epoch, "");
      return false;
    }
    if (batch.info.leader_epoch > slot.assignment.local_leader_epoch - 3 && !slot.near_told) {
      slot.near_told = true;
      lane_->Post([this, alive = alive_, partition, epoch = batch.info.leader_epoch] {
        if (*alive && !frozen_) events_->OnEpochNear(partition, epoch);
      });
    }
    if (limit_ == 0) return false;
    OwnedSet set({batch.bytes}, view.end, slot.assignment.local_leader_epoch);
    const host::AppendResult result = local.AppendMirrored(set.get(), nullptr);
    switch (result.code) {
      case host::AppendCode::kOk:
        if (limit_ > 0) --limit_;
        flows();
        return true;
      case host::AppendCode::kFenced: return false;  // the coordinator will say what comes next
      default:
        End(partition, fetcher::FetchStop::kLocalError, view.end, -1, "the log refused an append");
        return false;
    }
  }
  flows();
  return false;
}

}  // namespace kmirror::coordinator
