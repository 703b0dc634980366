#include "broker/mirror_host/broker_host.h"

#include <utility>

namespace kmirror::broker {
namespace {

constexpr size_t kDiskThreads = 4;  // syncs of several partitions of one stop run at the same time

std::unique_ptr<WorkerPool> Workers(const MakeWorkerPool& make, size_t workers) {
  return make ? make(workers) : std::make_unique<ThreadPool>(workers);
}

host::TopicInfo InfoOf(const TopicImage& topic) {
  host::TopicInfo info;
  info.name = topic.name;
  info.id = topic.id;
  info.configs = topic.configs;
  info.partitions.reserve(topic.partitions.size());
  for (int32_t i = 0; i < topic.partition_count(); ++i) {
    const PartitionImage& partition = topic.partitions[static_cast<size_t>(i)];
    info.partitions.push_back({i, partition.leader, partition.leader_epoch});
  }
  return info;
}

host::BrokerInfo BrokerOf(const BrokerImage& broker) {
  host::BrokerInfo info;
  info.id = broker.id;
  if (!broker.endpoints.empty()) info.address = broker.endpoints.front().address;
  return info;
}

}  // namespace

BrokerHost::BrokerHost(Controller& controller, LogDirectory& logs, const BrokerConfig& config,
                       host::Runtime& runtime, const MakeWorkerPool& make_workers)
    : controller_(controller),
      node_id_(config.node_id),
      runtime_(runtime),
      changes_(Workers(make_workers, 1)),
      states_(Workers(make_workers, 1)),
      disk_(Workers(make_workers, kDiskThreads)),
      host_logs_(&logs, disk_.get()),
      host_controller_(&controller, changes_.get()),
      state_topic_(
          &controller, &logs, changes_.get(), states_.get(), disk_.get(),
          {config.mirror_state_topic_num_partitions, [&runtime] { return runtime.WallMs(); }}),
      peers_(this) {}

BrokerHost::~BrokerHost() { Stop(); }

host::Host BrokerHost::AsHost() {
  return {&runtime_, &host_logs_, &host_controller_, &state_topic_, &peers_};
}

Mirror* BrokerHost::mirror() {
  const std::lock_guard lock(mutex_);
  return mirror_;
}

Status BrokerHost::Attach(Mirror* mirror) {
  {
    const std::lock_guard lock(mutex_);
    mirror_ = mirror;
  }
  return controller_.AddListenerNow(this);
}

void BrokerHost::Detach() {
  controller_.RemoveListener(this);
  const std::lock_guard lock(mutex_);
  mirror_ = nullptr;
}

void BrokerHost::Stop() {
  Detach();
  changes_->Stop();
  states_->Stop();
  disk_->Stop();
}

void BrokerHost::LoopbackPeers::Send(int32_t broker, int16_t api_key, int16_t version,
                                     std::vector<uint8_t> body, Answer answer) {
  Mirror* mirror = host_->mirror();
  if (broker != host_->node_id_ || mirror == nullptr) {
    return answer(Status(ErrorCode::kDisconnected,
                         "broker " + std::to_string(broker) + " is not part of this cluster"));
  }
  RequestContext context;
  context.api_key = api_key;
  context.api_version = version;
  context.client_id = std::to_string(host_->node_id_);
  mirror->HandleRequest(context, body, [answer = std::move(answer)](std::vector<uint8_t> response) {
    answer(std::move(response));
  });
}

// --- What follows runs under the controller's lock, in order of version.

Status BrokerHost::Load(const ImagePtr& image) {
  host::MetadataSnapshot snapshot;
  snapshot.version = image->version;
  snapshot.cluster_id = image->cluster_id;
  snapshot.this_broker = node_id_;
  snapshot.mirror_version = image->mirror_feature;
  for (const BrokerImage& broker : image->brokers) snapshot.brokers.push_back(BrokerOf(broker));
  image->topics.ForEach([&](const TopicPtr& topic) { snapshot.topics.push_back(InfoOf(*topic)); });
  for (const auto& [name, configs] : image->mirrors) snapshot.mirrors.push_back({name, configs});
  Mirror* mirror = this->mirror();
  mirror->OnSnapshot(std::move(snapshot));
  GainShards(*image, mirror);
  return Status::Ok();
}

void BrokerHost::Published(const ImageDelta& delta, const ImagePtr& image) noexcept {
  Mirror* mirror = this->mirror();
  if (mirror == nullptr) return;
  // Dynamic configs of brokers are no business of the library.
  if (delta.topics.empty() && delta.mirrors.empty() && !delta.features) return;
  host::MetadataDelta out;
  out.version = delta.version;
  for (const ImageDelta::Topic& topic : delta.topics) {
    if (topic.after != nullptr) {
      out.changed_topics.push_back(InfoOf(*topic.after));
    } else {
      out.removed_topics.push_back(topic.before->id);
    }
  }
  for (const std::string& name : delta.mirrors) {
    const auto configs = image->mirrors.find(name);
    if (configs == image->mirrors.end()) {
      out.removed_mirrors.push_back(name);
    } else {
      out.changed_mirrors.push_back({name, configs->second});
    }
  }
  if (delta.features) out.mirror_version = image->mirror_feature;
  mirror->OnDelta(std::move(out));
  GainShards(*image, mirror);
}

// Shards are handed over once; this broker leads all of them for as long as it runs.
void BrokerHost::GainShards(const MetadataImage& image, Mirror* mirror) {
  const TopicPtr topic = image.topics.Find(kMirrorStateTopic);
  if (topic == nullptr) return;
  for (int32_t shard = 0; shard < topic->partition_count(); ++shard) {
    if (topic->partitions[static_cast<size_t>(shard)].leader != node_id_) continue;
    if (shards_.insert(shard).second) mirror->OnShardGained(shard);
  }
}

}  // namespace kmirror::broker
