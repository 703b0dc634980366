#include "broker/mirror_host/mirror_host.h"

#include <spdlog/logger.h>
#include <spdlog/sinks/stdout_sinks.h>

#include <condition_variable>
#include <mutex>
#include <set>
#include <utility>

#include "broker/mirror_host/host_controller.h"
#include "broker/mirror_host/host_partition_log.h"
#include "broker/mirror_host/host_state_topic.h"
#include "broker/mirror_host/kill_for_test.h"
#include "broker/mirror_host/worker_pool.h"
#include "src/net/epoll_runtime.h"

namespace kmirror::broker {
namespace {

constexpr size_t kDiskThreads = 4;  // syncs of several partitions of one stop run at the same time

spdlog::level::level_enum LevelOf(host::LogLevel level) {
  switch (level) {
    case host::LogLevel::kTrace: return spdlog::level::trace;
    case host::LogLevel::kDebug: return spdlog::level::debug;
    case host::LogLevel::kInfo: return spdlog::level::info;
    case host::LogLevel::kWarn: return spdlog::level::warn;
    case host::LogLevel::kError: return spdlog::level::err;
  }
  return spdlog::level::info;
}

host::TopicInfo InfoOf(const TopicImage& topic) {
  host::TopicInfo info;
  info.name = topic.name;
  info.id = topic.id;
  info.configs = topic.configs;
  for (int32_t i = 0; i < topic.partition_count(); ++i) {
    const PartitionImage& partition = topic.partitions[static_cast<size_t>(i)];
    info.partitions.push_back({i, partition.leader, partition.leader_epoch});
  }
  return info;
}

}  // namespace

class MirrorHost::Impl final : public MetadataListener {
 public:
  Impl(Controller& controller, LogDirectory& logs, const BrokerConfig& config)
      : controller_(controller),
        logs_(logs),
        config_(config),
        logger_("kmirror", std::make_shared<spdlog::sinks::stderr_sink_mt>()),
        runtime_([this](host::LogLevel level, std::string_view area, std::string_view line) {
          logger_.log(LevelOf(level), "area={} {}", area, line);
        }),
        changes_(1),
        disk_(kDiskThreads),
        host_logs_(&logs, &disk_),
        host_controller_(&controller, &changes_),
        peers_(this) {
    logger_.set_level(spdlog::level::from_str(config.log_level));
    logger_.set_pattern("%Y-%m-%dT%H:%M:%S.%eZ level=%l %v", spdlog::pattern_time_type::utc);
  }

  ~Impl() override { Stop(std::chrono::seconds(10)); }

  Status Start() {
    state_topic_ = std::make_unique<HostStateTopic>(
        &controller_, &logs_, &changes_, &disk_,
        HostStateTopic::Options{config_.mirror_state_topic_num_partitions,
                                [this] { return runtime_.WallMs(); }});
    kmirror::Options options = config_.mirror;
    options.broker_id = config_.node_id;
    options.step_hook = KillForTest();
    const host::Host host{&runtime_, &host_logs_, &host_controller_, state_topic_.get(), &peers_};
    auto mirror = Mirror::Create(host, options);
    {
      const std::lock_guard lock(mutex_);
      mirror_ = std::move(mirror);
    }
    const Status listening = controller_.AddListenerNow(this);
    listening_ = listening.ok();
    return listening;
  }

  void Stop(std::chrono::milliseconds deadline) {
    if (listening_) controller_.RemoveListener(this);
    listening_ = false;
    std::unique_ptr<Mirror> mirror;
    {
      const std::lock_guard lock(mutex_);
      mirror = std::move(mirror_);
    }
    if (mirror != nullptr) {
      struct Wait {
        std::mutex mutex;
        std::condition_variable changed;
        bool done = false;
      };
      auto wait = std::make_shared<Wait>();
      mirror->Shutdown(deadline, [wait] {
        const std::lock_guard lock(wait->mutex);
        wait->done = true;
        wait->changed.notify_all();
      });
      std::unique_lock lock(wait->mutex);
      wait->changed.wait(lock, [&] { return wait->done; });
    }
    // Completions of calls in flight still find the library's lanes; after this there are none.
    changes_.Stop();
    disk_.Stop();
    mirror.reset();
  }

  Mirror* mirror() {
    const std::lock_guard lock(mutex_);
    return mirror_.get();
  }

  // --- MetadataListener, under the controller's lock, in order of version.

  Status Load(const ImagePtr& image) override {
    host::MetadataSnapshot snapshot;
    snapshot.version = image->version;
    snapshot.cluster_id = image->cluster_id;
    snapshot.this_broker = config_.node_id;
    snapshot.mirror_version = image->mirror_feature;
    for (const BrokerImage& broker : image->brokers) snapshot.brokers.push_back(BrokerOf(broker));
    image->topics.ForEach(
        [&](const TopicPtr& topic) { snapshot.topics.push_back(InfoOf(*topic)); });
    for (const auto& [name, configs] : image->mirrors) snapshot.mirrors.push_back({name, configs});
    Mirror* mirror = this->mirror();
    mirror->OnSnapshot(std::move(snapshot));
    GainShards(*image, mirror);
    return Status::Ok();
  }

  void Published(const ImageDelta& delta, const ImagePtr& image) noexcept override {
    Mirror* mirror = this->mirror();
    if (mirror == nullptr) return;
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

 private:
  class LoopbackPeers final : public host::Peers {
   public:
    explicit LoopbackPeers(Impl* host) : host_(host) {}
    void Send(int32_t broker, int16_t api_key, int16_t version, std::vector<uint8_t> body,
              Answer answer) override {
      Mirror* mirror = host_->mirror();
      if (broker != host_->config_.node_id || mirror == nullptr) {
        return answer(Status(ErrorCode::kDisconnected,
                             "broker " + std::to_string(broker) + " is not part of this cluster"));
      }
      RequestContext context;
      context.api_key = api_key;
      context.api_version = version;
      context.client_id = std::to_string(host_->config_.node_id);
      mirror->HandleRequest(context, body, [answer](std::vector<uint8_t> response) {
        answer(std::move(response));
      });
    }

   private:
    Impl* const host_;
  };

  static host::BrokerInfo BrokerOf(const BrokerImage& broker) {
    host::BrokerInfo info;
    info.id = broker.id;
    if (!broker.endpoints.empty()) info.address = broker.endpoints.front().address;
    return info;
  }

  // Shards are handed over once; this broker leads all of them for as long as it runs.
  void GainShards(const MetadataImage& image, Mirror* mirror) {
    const TopicPtr topic = image.topics.Find(kMirrorStateTopic);
    if (topic == nullptr) return;
    for (int32_t shard = 0; shard < topic->partition_count(); ++shard) {
      if (topic->partitions[static_cast<size_t>(shard)].leader != config_.node_id) continue;
      if (shards_.insert(shard).second) mirror->OnShardGained(shard);
    }
  }

  Controller& controller_;
  LogDirectory& logs_;
  const BrokerConfig& config_;
  spdlog::logger logger_;
  net::EpollRuntime runtime_;
  WorkerPool changes_;
  WorkerPool disk_;
  HostLogs host_logs_;
  HostController host_controller_;
  LoopbackPeers peers_;
  std::unique_ptr<HostStateTopic> state_topic_;
  bool listening_ = false;
  std::set<int32_t> shards_;  // the controller's lock

  std::mutex mutex_;
  std::unique_ptr<Mirror> mirror_;
};

MirrorHost::MirrorHost(Controller& controller, LogDirectory& logs, const BrokerConfig& config)
    : impl_(std::make_unique<Impl>(controller, logs, config)) {}

MirrorHost::~MirrorHost() = default;

Status MirrorHost::Start() { return impl_->Start(); }

void MirrorHost::Stop(std::chrono::milliseconds deadline) { impl_->Stop(deadline); }

Mirror* MirrorHost::mirror() { return impl_->mirror(); }

}  // namespace kmirror::broker
