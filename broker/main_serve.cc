#include "broker/main_serve.h"

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <optional>
#include <random>
#include <thread>
#include <utility>

#include "broker/controller/controller.h"
#include "broker/main_data_folder.h"
#include "broker/mirror_host/mirror_host.h"
#include "broker/server/fetch_sessions.h"
#include "broker/server/http_endpoint.h"
#include "broker/server/log_watch.h"
#include "broker/server/metrics_page.h"
#include "broker/server/network_thread.h"
#include "broker/server/request_dispatcher.h"
#include "broker/server/services.h"
#include "broker/server/socket_server.h"

namespace kmirror::broker {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kTick{1000};  // of retention, flushes, checkpoints
constexpr milliseconds kRequestGrace{500};

int64_t NowMs(auto clock_now) {
  return std::chrono::duration_cast<milliseconds>(clock_now.time_since_epoch()).count();
}
int64_t MonotonicMs() { return NowMs(std::chrono::steady_clock::now()); }
int64_t WallMs() { return NowMs(std::chrono::system_clock::now()); }

// Calls LogManager::Tick on a thread that may wait for the disk.
class Ticker {
 public:
  Ticker(LogManager& logs, RunningBroker::LogLine log)
      : thread_([this, &logs, log = std::move(log)] { Run(logs, log); }) {}
  ~Ticker() {
    {
      const std::lock_guard lock(mutex_);
      stop_ = true;
    }
    wake_.notify_all();
    thread_.join();
  }

 private:
  void Run(LogManager& logs, const RunningBroker::LogLine& log) {
    Status last;
    std::unique_lock lock(mutex_);
    while (!wake_.wait_for(lock, kTick, [this] { return stop_; })) {
      lock.unlock();
      const Status ticked = logs.Tick(WallMs());
      // Once, not every second while the disk is full.
      if (!ticked.ok() && ticked.ToString() != last.ToString()) {
        log("warn",
            "upkeep of the logs failed reason=\"" + ticked.ToString() + "\" next=\"retried\"");
      }
      last = ticked;
      lock.lock();
    }
  }

  std::mutex mutex_;
  std::condition_variable wake_;
  bool stop_ = false;
  std::thread thread_;
};

SocketServer::Options SocketOptions(const BrokerConfig& config) {
  SocketServer::Options options;
  for (const Listener& listener : config.listeners) options.listeners.push_back(listener.bind);
  options.network_threads = config.num_network_threads;
  options.connections_max = config.max_connections;
  options.connections_max_per_ip = config.max_connections_per_ip;
  options.request_bytes_max = config.socket_request_max_bytes;
  options.request_memory_bytes = config.queued_max_request_bytes;
  options.idle_max = milliseconds(config.connections_max_idle_ms);
  return options;
}

}  // namespace

class RunningBroker::Impl {
 public:
  Impl(const BrokerConfig& config, LogLine log) : config_(config), log_(std::move(log)) {}
  ~Impl() { (void)Stop(); }

  Status Start() {
    Result<std::unique_ptr<DataFolder>> folder = DataFolder::Open(config_);
    if (!folder.ok()) return folder.status();
    folder_ = std::move(*folder);
    for (const LogManager::Directory& directory : folder_->logs().unopened()) {
      log_("warn", "partition cannot be opened directory=" + directory.name + " reason=\"" +
                       directory.why.ToString() + "\" next=\"the others are served\"");
    }
    sessions_ = std::make_unique<FetchSessions>(
        static_cast<size_t>(std::max(config_.max_incremental_fetch_session_cache_slots, 0)),
        std::random_device()());
    services_ = {.config = &config_,
                 .controller = &folder_->controller(),
                 .logs = &folder_->log_directory(),
                 .sessions = sessions_.get(),
                 .watch = &watch_,
                 .metrics = &metrics_,
                 .worker = &worker_,
                 .mirror = [this] { return mirror_host_ ? mirror_host_->mirror() : nullptr; },
                 .monotonic_ms = MonotonicMs,
                 .wall_ms = WallMs,
                 .log = log_};
    dispatcher_ = std::make_unique<RequestDispatcher>(services_);
    sockets_ = std::make_unique<SocketServer>(SocketOptions(config_), dispatcher_.get(), log_);
    if (Status bound = sockets_->Start(); !bound.ok()) return bound;
    Advertise();
    worker_.Start();
    mirror_host_ =
        std::make_unique<MirrorHost>(folder_->controller(), folder_->log_directory(), config_);
    if (Status started = mirror_host_->Start(); !started.ok()) {
      return started.WithContext("the mirror host did not start");
    }
    ticker_ = std::make_unique<Ticker>(folder_->logs(), log_);
    if (config_.metrics) {
      http_ = std::make_unique<HttpEndpoint>(
          "/metrics", [this] { return RenderMetrics(services_, *sockets_); });
      if (Status served = http_->Start(*config_.metrics); !served.ok()) return served;
    }
    sockets_->Accept();
    return {};
  }

  Status Stop() {
    // Whoever calls the mirror goes before it, and it before the logs and the metadata.
    if (sockets_) sockets_->Stop(kRequestGrace);
    if (http_) http_->Stop();
    worker_.Stop();
    if (mirror_host_) mirror_host_->Stop();
    ticker_.reset();
    Status closed = folder_ ? folder_->Close() : Status();
    mirror_host_.reset();
    folder_.reset();
    return closed;
  }

  const HostPort& address() const { return address_; }
  const std::string& cluster_id() const { return cluster_id_; }
  const HostPort& metrics_address() const { return http_ ? http_->address() : none_; }

 private:
  void Advertise() {
    std::vector<BrokerImage::Endpoint> endpoints;
    for (size_t i = 0; i < config_.listeners.size(); ++i) {
      const Listener& listener = config_.listeners[i];
      HostPort address = listener.advertised;
      if (address.port == 0) address.port = sockets_->addresses()[i].port;
      endpoints.push_back({listener.name, address, listener.security_protocol});
    }
    address_ = endpoints.front().address;
    cluster_id_ = folder_->controller().image()->cluster_id;
    folder_->controller().SetEndpoints(std::move(endpoints));
  }

  const BrokerConfig config_;
  const LogLine log_;
  LogWatch watch_;  // before the logs, whose listener it is
  BrokerMetrics metrics_;
  std::unique_ptr<DataFolder> folder_;
  std::unique_ptr<FetchSessions> sessions_;
  Services services_;
  std::unique_ptr<RequestDispatcher> dispatcher_;
  std::unique_ptr<MirrorHost> mirror_host_;
  std::unique_ptr<SocketServer> sockets_;
  std::unique_ptr<HttpEndpoint> http_;
  std::unique_ptr<Ticker> ticker_;
  // Last: what it has not done when it stops are requests, whose memory is the socket server's.
  NetworkThread worker_{"worker"};
  HostPort address_;
  HostPort none_;
  std::string cluster_id_;
};

RunningBroker::RunningBroker(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
RunningBroker::~RunningBroker() = default;

Result<std::unique_ptr<RunningBroker>> RunningBroker::Start(const BrokerConfig& config,
                                                            LogLine log) {
  auto impl = std::make_unique<Impl>(config, std::move(log));
  if (Status started = impl->Start(); !started.ok()) return started;
  return std::unique_ptr<RunningBroker>(new RunningBroker(std::move(impl)));
}

const HostPort& RunningBroker::address() const { return impl_->address(); }
const std::string& RunningBroker::cluster_id() const { return impl_->cluster_id(); }
const HostPort& RunningBroker::metrics_address() const { return impl_->metrics_address(); }
Status RunningBroker::Stop() { return impl_->Stop(); }

}  // namespace kmirror::broker
