#include "conformance/host_conformance.h"

#include <algorithm>
#include <atomic>

namespace kmirror::conformance {

GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(HostConformance);

// ---- RecordingMirror

void RecordingMirror::OnSnapshot(host::MetadataSnapshot snapshot) {
  const std::lock_guard lock(mutex_);
  if (snapshot_seen_) faults_.push_back("a second snapshot");
  snapshot_seen_ = true;
  version_ = snapshot.version;
  this_broker_ = snapshot.this_broker;
  for (host::TopicInfo& topic : snapshot.topics) topics_[topic.id] = std::move(topic);
  for (host::MirrorInfo& mirror : snapshot.mirrors) mirrors_[mirror.name] = std::move(mirror);
}

void RecordingMirror::OnDelta(host::MetadataDelta delta) {
  const std::lock_guard lock(mutex_);
  if (!snapshot_seen_) faults_.push_back("a delta before the snapshot");
  if (delta.version <= version_) {
    faults_.push_back("version " + std::to_string(delta.version) + " after " +
                      std::to_string(version_));
  }
  version_ = delta.version;
  for (const host::TopicInfo& topic : delta.changed_topics) {
    for (size_t i = 0; i < topic.partitions.size(); ++i) {
      if (topic.partitions[i].index != static_cast<int32_t>(i)) {
        faults_.push_back("partitions of " + topic.name + " are not dense");
      }
    }
    topics_[topic.id] = topic;
  }
  for (const Uuid& id : delta.removed_topics) topics_.erase(id);
  for (const host::MirrorInfo& mirror : delta.changed_mirrors) mirrors_[mirror.name] = mirror;
  for (const std::string& name : delta.removed_mirrors) mirrors_.erase(name);
  ++deltas_;
  last_delta_ = std::move(delta);
}

void RecordingMirror::OnShardGained(int32_t shard) {
  const std::lock_guard lock(mutex_);
  shards_.insert(shard);
}

void RecordingMirror::OnShardLost(int32_t shard) {
  const std::lock_guard lock(mutex_);
  shards_.erase(shard);
}

void RecordingMirror::HandleRequest(const RequestContext&, ByteView body,
                                    std::function<void(std::vector<uint8_t>)> respond) {
  {
    const std::lock_guard lock(mutex_);
    ++requests_;
  }
  respond({body.rbegin(), body.rend()});
}

std::optional<host::TopicInfo> RecordingMirror::Topic(const Uuid& id) const {
  const std::lock_guard lock(mutex_);
  const auto it = topics_.find(id);
  return it == topics_.end() ? std::nullopt : std::optional(it->second);
}

std::optional<host::TopicInfo> RecordingMirror::TopicNamed(const std::string& name) const {
  const std::lock_guard lock(mutex_);
  for (const auto& [id, topic] : topics_) {
    if (topic.name == name) return topic;
  }
  return std::nullopt;
}

std::optional<host::MirrorInfo> RecordingMirror::MirrorNamed(const std::string& name) const {
  const std::lock_guard lock(mutex_);
  const auto it = mirrors_.find(name);
  return it == mirrors_.end() ? std::nullopt : std::optional(it->second);
}

int64_t RecordingMirror::version() const {
  const std::lock_guard lock(mutex_);
  return version_;
}

size_t RecordingMirror::deltas() const {
  const std::lock_guard lock(mutex_);
  return deltas_;
}

host::MetadataDelta RecordingMirror::last_delta() const {
  const std::lock_guard lock(mutex_);
  return last_delta_;
}

std::set<int32_t> RecordingMirror::shards() const {
  const std::lock_guard lock(mutex_);
  return shards_;
}

int32_t RecordingMirror::this_broker() const {
  const std::lock_guard lock(mutex_);
  return this_broker_;
}

int RecordingMirror::requests() const {
  const std::lock_guard lock(mutex_);
  return requests_;
}

std::vector<std::string> RecordingMirror::faults() const {
  const std::lock_guard lock(mutex_);
  return faults_;
}

// ---- HostConformance

void HostConformance::SetUp() {
  fixture_ = GetParam()();
  ASSERT_NE(fixture_, nullptr);
  host_ = fixture_->AsHost();
  ASSERT_NE(host_.runtime, nullptr);
  ASSERT_NE(host_.logs, nullptr);
  ASSERT_NE(host_.controller, nullptr);
  ASSERT_NE(host_.state_topic, nullptr);
  ASSERT_NE(host_.peers, nullptr);
  mirrors_.push_back(std::make_unique<RecordingMirror>());
  mirror_ = mirrors_.back().get();
  fixture_->Attach(mirror_);
  ASSERT_TRUE(fixture_->WaitFor([&] { return mirror_->version() >= 0; })) << "no snapshot";
}

void HostConformance::TearDown() {
  log_.reset();
  fixture_.reset();
  for (const auto& mirror : mirrors_) {
    for (const std::string& fault : mirror->faults()) ADD_FAILURE() << "metadata: " << fault;
  }
}

bool HostConformance::RestartHost() {
  log_.reset();
  if (!fixture_->Restart()) return false;
  host_ = fixture_->AsHost();
  mirrors_.push_back(std::make_unique<RecordingMirror>());
  mirror_ = mirrors_.back().get();
  fixture_->Attach(mirror_);
  EXPECT_TRUE(fixture_->WaitFor([&] { return mirror_->version() >= 0; })) << "no snapshot";
  return true;
}

Status HostConformance::Call(const std::function<void(host::Completion)>& call) {
  struct State {
    std::mutex mutex;
    int answers = 0;
    Status status;
  };
  auto state = std::make_shared<State>();
  call([state](Status status) {
    const std::lock_guard lock(state->mutex);
    ++state->answers;
    state->status = std::move(status);
  });
  auto answered = [&] {
    const std::lock_guard lock(state->mutex);
    return state->answers > 0;
  };
  if (!fixture_->WaitFor(answered)) return {ErrorCode::kTimedOut, "no completion"};
  const std::lock_guard lock(state->mutex);
  EXPECT_EQ(state->answers, 1) << "a completion ran more than once";
  return state->status;
}

std::shared_ptr<host::PartitionLog> HostConformance::LogOf(const TopicIdPartition& partition) {
  std::shared_ptr<host::PartitionLog> log;
  EXPECT_TRUE(fixture_->WaitFor([&] {
    log = host_.logs->Find(partition);
    return log != nullptr;
  })) << "no log for partition "
      << partition.partition;
  return log;
}

Uuid HostConformance::MakeTopic(const std::string& name, const std::string& mirror_name,
                                int32_t partitions) {
  static std::atomic<uint8_t> counter{1};
  host::NewTopic topic;
  topic.name = name;
  topic.id.bytes[0] = 0x77;
  topic.id.bytes[15] = counter.fetch_add(1);
  topic.partitions = partitions;
  if (!mirror_name.empty()) topic.configs["mirror.name"] = mirror_name;
  const Status status =
      Call([&](host::Completion done) { host_.controller->CreateTopic(topic, std::move(done)); });
  EXPECT_TRUE(status.ok()) << status.ToString();
  for (int32_t i = 0; i < partitions; ++i) EXPECT_NE(LogOf({topic.id, i}), nullptr);
  return topic.id;
}

Status HostConformance::SetName(const Uuid& topic, std::optional<std::string> value,
                                int64_t version) {
  return Call([&](host::Completion done) {
    host_.controller->SetMirrorNames({{topic, value}}, version, std::move(done));
  });
}

void HostConformance::BumpAbove(const TopicIdPartition& partition, int32_t epoch) {
  const Status status = Call([&](host::Completion done) {
    host_.controller->BumpLeaderEpochs({{partition, epoch}}, std::move(done));
  });
  ASSERT_TRUE(status.ok()) << status.ToString();
  const auto log = LogOf(partition);
  ASSERT_NE(log, nullptr);
  ASSERT_TRUE(fixture_->WaitFor([&] { return log->View().leader_epoch > epoch; }));
}

void HostConformance::MakeLog() {
  topic_ = MakeTopic("t");
  partition_ = {topic_, 0};
  BumpAbove(partition_, 15);
  log_ = LogOf(partition_);
  ASSERT_NE(log_, nullptr);
}

host::AppendResult HostConformance::AppendSet(const std::shared_ptr<host::PartitionLog>& log,
                                              const host::MirroredSet& set) {
  struct Noted final : host::AppendDone {
    void Done(host::AppendResult r) noexcept override {
      const std::lock_guard lock(mutex);
      result = r;
    }
    std::mutex mutex;
    std::optional<host::AppendResult> result;
  };
  auto noted = std::make_shared<Noted>();
  const host::AppendResult result = log->AppendMirrored(set, noted.get());
  if (result.code != host::AppendCode::kPending) return result;
  const bool answered = fixture_->WaitFor([&] {
    const std::lock_guard lock(noted->mutex);
    return noted->result.has_value();
  });
  if (!answered) {
    ADD_FAILURE() << "a pending append was never answered";
    static std::vector<std::shared_ptr<Noted>> kept;  // it may still be called
    kept.push_back(noted);
    return {host::AppendCode::kPending, -1};
  }
  return *noted->result;
}

host::AppendResult HostConformance::Append(const std::shared_ptr<host::PartitionLog>& log,
                                           std::vector<Bytes> batches) {
  const host::LogView view = log->View();
  OwnedSet set(std::move(batches), view.end, view.leader_epoch);
  return AppendSet(log, set.get());
}

void HostConformance::ExpectConsistent(const host::LogView& view) {
  EXPECT_LE(view.log_start, view.last_stable_offset);
  EXPECT_LE(view.last_stable_offset, view.high_watermark);
  EXPECT_LE(view.high_watermark, view.end);
}

}  // namespace kmirror::conformance
