#include "broker/mirror_host/mirror_host.h"

#include <spdlog/logger.h>
#include <spdlog/sinks/stdout_sinks.h>

#include <condition_variable>
#include <mutex>
#include <string>
#include <utility>

#include "broker/mirror_host/broker_host.h"
#include "broker/mirror_host/kill_for_test.h"
#include "src/net/epoll_runtime.h"

namespace kmirror::broker {
namespace {

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

// The file's options under what was changed at run time; values were checked when they were stored.
kmirror::Options OptionsOf(const BrokerConfig& config, const ConfigMap& dynamic) {
  kmirror::Options options = config.mirror;
  options.broker_id = config.node_id;
  options.step_hook = KillForTest();
  const auto number = [&](const char* key, int64_t otherwise) {
    const auto found = dynamic.find(key);
    return found == dynamic.end() ? otherwise : static_cast<int64_t>(std::stoll(found->second));
  };
  options.num_replica_fetchers =
      static_cast<int32_t>(number("mirror.num.replica.fetchers", options.num_replica_fetchers));
  options.metadata_refresh_interval = std::chrono::milliseconds(
      number("mirror.metadata.refresh.interval.ms", options.metadata_refresh_interval.count()));
  return options;
}

}  // namespace

class MirrorHost::Impl {
 public:
  Impl(Controller& controller, LogDirectory& logs, const BrokerConfig& config)
      : controller_(controller),
        config_(config),
        logger_("kmirror", std::make_shared<spdlog::sinks::stderr_sink_mt>()),
        runtime_([this](host::LogLevel level, std::string_view area, std::string_view line) {
          logger_.log(LevelOf(level), "area={} {}", area, line);
        }),
        host_(controller, logs, config, runtime_) {
    logger_.set_level(spdlog::level::from_str(config.log_level));
    logger_.set_pattern("%Y-%m-%dT%H:%M:%S.%eZ level=%l %v", spdlog::pattern_time_type::utc);
  }

  ~Impl() { Stop(std::chrono::seconds(10)); }

  Status Start() {
    auto mirror = Mirror::Create(
        host_.AsHost(), OptionsOf(config_, controller_.image()->DynamicConfigs(config_.node_id)));
    Mirror* attached = mirror.get();
    {
      const std::lock_guard lock(mutex_);
      mirror_ = std::move(mirror);
    }
    return host_.Attach(attached);
  }

  void Stop(std::chrono::milliseconds deadline) {
    host_.Detach();
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
    host_.Stop();
    mirror.reset();
  }

  Mirror* mirror() {
    const std::lock_guard lock(mutex_);
    return mirror_.get();
  }

 private:
  Controller& controller_;
  const BrokerConfig& config_;
  spdlog::logger logger_;
  net::EpollRuntime runtime_;
  BrokerHost host_;

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
