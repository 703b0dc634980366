// The smallest host of libkmirror: mirrors one topic of a Kafka into memory, then takes it over.
//
//   minimal_host HOST:PORT TOPIC [SECONDS]
//
// Exit codes: 0 mirrored and stopped, 1 it did not work, 2 usage. A real broker has a disk,
// replicas and clients instead (broker/ in the sources of kmirror is one); the seam is the same.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "kmirror/mirror.h"
#include "poll_runtime.h"
#include "vector_log.h"

namespace {

using namespace kmirror;  // NOLINT: an example

// ---- Metadata: topics with their logs, and mirrors. Every change is one step and one delta.

class Metadata final : public host::Controller, public host::Logs {
 public:
  explicit Metadata(host::Runtime* runtime) : runtime_(runtime) {}
  Mirror* mirror = nullptr;  // gets the deltas

  host::MetadataSnapshot Snapshot() const {
    host::MetadataSnapshot snapshot;
    snapshot.version = version_;
    snapshot.cluster_id = "minimal-host-AAAAAAAAA";
    snapshot.this_broker = 0;
    snapshot.brokers = {{0, {"127.0.0.1", 9092}}};
    for (const auto& [id, topic] : topics_) snapshot.topics.push_back(topic);
    for (const auto& [name, info] : mirrors_) snapshot.mirrors.push_back(info);
    return snapshot;
  }
  const host::TopicInfo* Topic(const std::string& name) const {
    for (const auto& [id, topic] : topics_) {
      if (topic.name == name) return &topic;
    }
    return nullptr;
  }
  VectorLog* LogOf(const TopicIdPartition& partition) {
    const auto it = logs_.find(partition);
    return it == logs_.end() ? nullptr : it->second.get();
  }

  std::shared_ptr<host::PartitionLog> Find(const TopicIdPartition& partition) override {
    const auto it = logs_.find(partition);
    return it == logs_.end() ? nullptr : it->second;
  }

  void CreateTopic(host::NewTopic topic, host::Completion done) override {
    while (topic.id.IsZero()) {
      for (uint8_t& byte : topic.id.bytes) byte = static_cast<uint8_t>(runtime_->Random());
    }
    if (Topic(topic.name) != nullptr || topics_.contains(topic.id)) {
      return done({ErrorCode::kTopicAlreadyExists, topic.name});
    }
    host::TopicInfo info{topic.name, topic.id, {}, topic.configs};
    for (int32_t i = 0; i < topic.partitions; ++i) info.partitions.push_back({i, 0, 0});
    Apply({info});
    done(Status::Ok());
  }
  void CreatePartitions(Uuid id, int32_t count, host::Completion done) override {
    const auto it = topics_.find(id);
    if (it == topics_.end() || count <= static_cast<int32_t>(it->second.partitions.size())) {
      return done({ErrorCode::kInvalidPartitions, "not more than there are"});
    }
    host::TopicInfo info = it->second;
    while (static_cast<int32_t>(info.partitions.size()) < count) {
      info.partitions.push_back({static_cast<int32_t>(info.partitions.size()), 0, 0});
    }
    Apply({info});
    done(Status::Ok());
  }
  void SetMirrorNames(std::vector<host::MirrorNameChange> changes, int64_t expected_version,
                      host::Completion done) override {
    std::vector<host::TopicInfo> changed;
    for (const host::MirrorNameChange& change : changes) {
      const auto it = topics_.find(change.topic_id);
      if (it == topics_.end())
        return done({ErrorCode::kUnknownTopicId, change.topic_id.ToString()});
      if (expected_version >= 0 && name_versions_[change.topic_id] > expected_version) {
        return done({ErrorCode::kInvalidClusterMirrorState, "mirror.name has changed since"});
      }
      changed.push_back(it->second);
      if (change.value) {
        changed.back().configs["mirror.name"] = *change.value;
      } else {
        changed.back().configs.erase("mirror.name");
      }
    }
    Apply(std::move(changed));
    done(Status::Ok());
  }
  void SetMirrorConfigs(std::string name, std::map<std::string, std::optional<std::string>> changes,
                        bool create, host::Completion done) override {
    if (create == mirrors_.contains(name)) {
      return done(
          {create ? ErrorCode::kClusterMirrorAlreadyExists : ErrorCode::kUnknownClusterMirror,
           name});
    }
    host::MirrorInfo& info = mirrors_[name];
    info.name = name;
    for (const auto& [key, value] : changes) {
      if (value) {
        info.configs[key] = *value;
      } else {
        info.configs.erase(key);
      }
    }
    Apply({}, &info);
    done(Status::Ok());
  }
  void DeleteMirror(std::string name, int64_t, host::Completion done) override {
    // Nothing in this program deletes a mirror; a real host unlinks its topics in the same step.
    done({ErrorCode::kUnsupportedVersion, name + ": not in this example"});
  }
  void BumpLeaderEpochs(std::vector<host::EpochBump> bumps, host::Completion done) override {
    std::map<Uuid, host::TopicInfo> changed;
    for (const host::EpochBump& bump : bumps) {
      const auto it = topics_.find(bump.partition.topic_id);
      if (it == topics_.end()) return done({ErrorCode::kUnknownTopicId, ""});
      host::TopicInfo& info = changed.try_emplace(it->first, it->second).first->second;
      int32_t& epoch =
          info.partitions.at(static_cast<size_t>(bump.partition.partition)).leader_epoch;
      if (epoch <= bump.min_leader_epoch) epoch = bump.min_leader_epoch + 1;
    }
    std::vector<host::TopicInfo> topics;
    for (auto& [id, info] : changed) topics.push_back(std::move(info));
    Apply(std::move(topics));
    done(Status::Ok());
  }
  void RaiseProducerIdFloor(int64_t, host::Completion done) override {
    done(Status::Ok());  // no producer ids are handed out here
  }

 private:
  // Makes a change visible here, in the logs and their barriers, and then to the library.
  void Apply(std::vector<host::TopicInfo> topics, const host::MirrorInfo* info = nullptr) {
    host::MetadataDelta delta;
    delta.version = ++version_;
    for (host::TopicInfo& topic : topics) {
      const auto name = topic.configs.find("mirror.name");
      const std::string value = name == topic.configs.end() ? "" : name->second;
      const auto old = topics_.find(topic.id);
      const bool renamed = old == topics_.end() || old->second.configs != topic.configs;
      if (renamed) name_versions_[topic.id] = version_;
      for (const host::PartitionInfo& partition : topic.partitions) {
        std::shared_ptr<VectorLog>& log = logs_[{topic.id, partition.index}];
        const bool created = log == nullptr;
        if (created) log = std::make_shared<VectorLog>(runtime_);
        log->Lead(partition.leader_epoch);
        if (!created && !renamed) continue;
        log->CloseWrites(value.empty()                 ? host::LocalWrites::kAllowed
                         : value.ends_with(".removed") ? host::LocalWrites::kStopping
                                                       : host::LocalWrites::kReadOnly,
                         version_);
      }
      topics_[topic.id] = topic;
      delta.changed_topics.push_back(std::move(topic));
    }
    if (info != nullptr) delta.changed_mirrors.push_back(*info);
    if (mirror != nullptr) mirror->OnDelta(std::move(delta));
  }

  host::Runtime* runtime_;
  int64_t version_ = 1;
  std::map<Uuid, host::TopicInfo> topics_;
  std::map<Uuid, int64_t> name_versions_;
  std::map<std::string, host::MirrorInfo> mirrors_;
  std::map<TopicIdPartition, std::shared_ptr<VectorLog>> logs_;
};

// ---- The state topic: four shards in memory. A real one survives a crash.

class States final : public host::StateTopic {
 public:
  Mirror* mirror = nullptr;

  int32_t partition_count() const override { return kShards; }
  void Ensure(host::Completion done) override {
    if (!made_) {
      made_ = true;
      for (int32_t shard = 0; shard < kShards; ++shard) mirror->OnShardGained(shard);
    }
    done(Status::Ok());
  }
  void Append(int32_t shard, std::vector<host::StateRecord> records,
              host::Completion done) override {
    for (host::StateRecord& record : records) shards_[shard].push_back(std::move(record));
    done(Status::Ok());
  }
  void Replay(int32_t shard, EachRecord each, host::Completion done) override {
    for (const host::StateRecord& record : shards_[shard]) {
      each(record.key, record.value ? std::optional<ByteView>(*record.value) : std::nullopt);
    }
    done(Status::Ok());
  }

 private:
  static constexpr int32_t kShards = 4;
  bool made_ = false;
  std::map<int32_t, std::vector<host::StateRecord>> shards_;
};

// ---- Peers: this broker is alone.

class Loopback final : public host::Peers {
 public:
  Mirror* mirror = nullptr;

  void Send(int32_t broker, int16_t key, int16_t version, std::vector<uint8_t> body,
            Answer answer) override {
    if (broker != 0) return answer({ErrorCode::kDisconnected, "there is one broker"});
    RequestContext context;
    context.api_key = key;
    context.api_version = version;
    mirror->HandleRequest(context, body,
                          [answer](std::vector<uint8_t> response) { answer(std::move(response)); });
  }
};

// ---- Requests, as a client of the mirror APIs would send them. A real host passes on what it
// receives; here the few bytes of version 0 are written by hand.

class Body {
 public:
  Body& Count(size_t n) { return Byte(n + 1); }  // of an array or a string; below 127 here
  Body& String(const std::string& text) {
    Count(text.size());
    bytes_.insert(bytes_.end(), text.begin(), text.end());
    return *this;
  }
  Body& Zeros(size_t n) {
    bytes_.insert(bytes_.end(), n, 0);
    return *this;
  }
  Body& MinusOne64() {
    bytes_.insert(bytes_.end(), 8, 0xff);
    return *this;
  }
  Body& Tags() { return Byte(0); }
  const std::vector<uint8_t>& bytes() const { return bytes_; }

 private:
  Body& Byte(size_t value) {
    bytes_.push_back(static_cast<uint8_t>(value));
    return *this;
  }
  std::vector<uint8_t> bytes_;
};

constexpr int16_t kCreate = 94, kStart = 95, kStop = 96;

// Sends a request and waits for its answer. True when the answer's error code is 0, and so is that
// of its only topic.
bool Ask(PollRuntime& runtime, Mirror& mirror, int16_t key, const Body& body, const char* what) {
  std::optional<std::vector<uint8_t>> response;
  RequestContext context;
  context.api_key = key;
  mirror.HandleRequest(context, body.bytes(),
                       [&](std::vector<uint8_t> bytes) { response = std::move(bytes); });
  if (!runtime.RunUntil([&] { return response.has_value(); }, std::chrono::seconds(40)))
    return false;
  // throttle int32, error int16, message; start and stop then have topics: name, error, message.
  const std::vector<uint8_t>& bytes = *response;
  int code = bytes.size() < 6 ? -1 : static_cast<int16_t>(bytes[4] << 8 | bytes[5]);
  size_t at = 6;
  std::string message;
  auto number = [&] {  // 7 bits a byte, least significant first
    size_t value = 0;
    for (int shift = 0; at < bytes.size() && shift < 28; shift += 7) {
      const uint8_t byte = bytes[at++];
      value |= static_cast<size_t>(byte & 0x7f) << shift;
      if (byte < 0x80) break;
    }
    return value;
  };
  auto read_string = [&] {
    const size_t size = number();  // one more than there are; 0 is null
    if (size <= 1 || at + size - 1 > bytes.size()) return;
    message.assign(bytes.begin() + static_cast<std::ptrdiff_t>(at),
                   bytes.begin() + static_cast<std::ptrdiff_t>(at + size - 1));
    at += size - 1;
  };
  read_string();
  if (code == 0 && key != kCreate && number() == 2) {
    read_string();  // the topic's name
    if (at + 2 <= bytes.size()) code = static_cast<int16_t>(bytes[at] << 8 | bytes[at + 1]);
    at += 2;
    read_string();
  }
  if (code == 0) return true;
  std::fprintf(stderr, "%s: %s %s\n", what, ErrorName(static_cast<ErrorCode>(code)).c_str(),
               message.c_str());
  return false;
}

int Run(const std::string& source, const std::string& topic, std::chrono::seconds patience) {
  PollRuntime runtime;
  runtime.verbose = std::getenv("VERBOSE") != nullptr;
  Metadata metadata(&runtime);
  States states;
  Loopback peers;
  const host::Host host{&runtime, &metadata, &metadata, &states, &peers};
  const std::unique_ptr<Mirror> mirror = Mirror::Create(host, Options{});
  metadata.mirror = states.mirror = peers.mirror = mirror.get();
  mirror->OnSnapshot(metadata.Snapshot());

  auto all = [&](MirrorPartitionState state) {
    const host::TopicInfo* info = metadata.Topic(topic);
    if (info == nullptr) return false;
    for (const host::PartitionInfo& partition : info->partitions) {
      if (mirror->StateOf({info->id, partition.index}) != state) return false;
    }
    return true;
  };
  auto ends = [&] {
    int64_t sum = 0;
    const host::TopicInfo* info = metadata.Topic(topic);
    for (size_t i = 0; info != nullptr && i < info->partitions.size(); ++i) {
      sum += metadata.LogOf({info->id, static_cast<int32_t>(i)})->View().end;
    }
    return sum;
  };

  Body create;
  create.String("example").Count(1).String("bootstrap.servers").String(source).Tags().Tags();
  Body start;  // a topic with a zero id and no partitions: the source is asked about it
  start.String("example").Count(1).Zeros(16).String(topic).Zeros(4).Tags().MinusOne64().Tags();
  Body stop;
  stop.String("example").Count(1).String(topic).Tags().MinusOne64().Tags();

  bool done = Ask(runtime, *mirror, kCreate, create, "create") &&
              Ask(runtime, *mirror, kStart, start, "start");
  if (done && !runtime.RunUntil([&] { return all(MirrorPartitionState::kMirroring); }, patience)) {
    std::fprintf(stderr, "%s is not mirrored after %lld s\n", topic.c_str(),
                 static_cast<long long>(patience.count()));
    done = false;
  }
  if (done) {
    // Follow it until nothing new comes for a second.
    for (int64_t before = -1; before != ends();) {
      before = ends();
      runtime.RunUntil([] { return false; }, std::chrono::seconds(1));
      std::printf("%s: mirrored up to offset sum %lld\n", topic.c_str(),
                  static_cast<long long>(ends()));
    }
    done = Ask(runtime, *mirror, kStop, stop, "stop") &&
           runtime.RunUntil([&] { return all(MirrorPartitionState::kStopped); }, patience);
    const host::TopicInfo* info = metadata.Topic(topic);
    std::printf("%s: %s, writable: %s\n", topic.c_str(), done ? "STOPPED" : "not stopped",
                metadata.LogOf({info->id, 0})->writable() ? "yes" : "no");
  }

  bool gone = false;
  mirror->Shutdown(std::chrono::seconds(5), [&] { gone = true; });
  runtime.RunUntil([&] { return gone; }, std::chrono::seconds(10));
  return done && gone ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3 || std::strlen(argv[1]) > 120 || std::strlen(argv[2]) > 120) {
    std::fprintf(stderr, "usage: minimal_host HOST:PORT TOPIC [SECONDS]\n");
    return 2;
  }
  const int seconds = argc > 3 ? std::atoi(argv[3]) : 60;
  return Run(argv[1], argv[2], std::chrono::seconds(seconds > 0 ? seconds : 60));
}
