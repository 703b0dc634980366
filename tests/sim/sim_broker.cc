#include "tests/sim/sim_broker.h"

#include <utility>

#include "src/mirror_over.h"
#include "tests/sim/sim_workers.h"

namespace kmirror::sim {

using broker::BrokerConfig;
using broker::LogManager;

SimBroker::SimBroker(uint64_t seed, BrokerSetup setup, conformance::ManualRuntime* runtime,
                     SimDisk* disk, SimNetwork* network, Trace* trace)
    : random_(seed),
      setup_(setup),
      runtime_(runtime),
      disk_(disk),
      network_(network),
      trace_(trace),
      clock_(runtime) {}

SimBroker::~SimBroker() {
  disk_->Kill();
  Bury();
}

Status SimBroker::Start() {
  ++process_;
  network_->dead = false;
  Status started = StartParts();
  if (!started.ok()) Clear();
  return started;
}

Status SimBroker::StartParts() {
  const std::string text =
      "node.id=" + std::to_string(kBrokerId) +
      "\nlisteners=PLAINTEXT://127.0.0.1:9092\nlog.dirs=" + kDataFolder +
      "\nlog.segment.bytes=" + std::to_string(setup_.segment_bytes) +
      "\nlog.index.interval.bytes=" + std::to_string(setup_.index_interval_bytes) +
      "\nlog.segment.delete.delay.ms=5000\nlog.retention.ms=-1\nmirror.state.topic.num."
      "partitions=" +
      std::to_string(setup_.state_partitions) + "\n" +
      (setup_.flush_every_message ? "log.flush.interval.messages=1\n" : "");
  Result<BrokerConfig> config = BrokerConfig::Parse(text, "simulation");
  if (!config.ok()) return config.status();
  config_ = std::move(*config);

  LogManager::Options options;
  options.directory = config_.log_dir;
  options.cluster_id = "destination-cluster-AA";
  options.node_id = kBrokerId;
  options.io = disk_;
  options.clock = &clock_;
  options.random = [this] { return static_cast<uint32_t>(Random()); };
  options.config_of = [this](const std::string&) { return broker::LogConfigFor({}, config_); };
  auto manager = LogManager::Open(options);
  if (!manager.ok()) return manager.status();
  manager_ = std::move(*manager);

  // Snapshots of the metadata are rare in life; here they happen.
  auto store = broker::FileMetadataStore::Open(
      {.directory = config_.metadata_dir, .io = disk_, .snapshot_after_bytes = 6000});
  if (!store.ok()) return store.status();
  store_ = std::move(*store);
  auto controller = broker::Controller::Open({.store = store_.get(),
                                              .config = config_,
                                              .cluster_id = manager_->meta().cluster_id,
                                              .new_id = [this]() -> Result<Uuid> {
                                                Uuid id;
                                                for (uint8_t& byte : id.bytes)
                                                  byte = static_cast<uint8_t>(Random());
                                                return id;
                                              }});
  if (!controller.ok()) return controller.status();
  controller_ = std::move(*controller);
  logs_ = std::make_unique<broker::LogDirectory>(manager_.get(), config_);
  controller_->AddListener(logs_.get());
  if (Status started = controller_->Start(); !started.ok()) return started;

  host_ = std::make_unique<broker::BrokerHost>(
      *controller_, *logs_, config_, *runtime_, [this](size_t workers) {
        auto pool = std::make_unique<SimWorkers>(runtime_, workers, [this] {
          return worker_delay ? worker_delay() : std::chrono::microseconds(100);
        });
        workers_.push_back(pool.get());
        return pool;
      });
  kmirror::Options mirror = config_.mirror;
  mirror.broker_id = kBrokerId;
  mirror.num_replica_fetchers = setup_.replica_fetchers;
  mirror.metadata_refresh_interval = setup_.refresh_interval;
  mirror.failed_retry_max_backoff = setup_.retry_max_backoff;
  mirror.step_hook = [this](std::string_view step, bool after) {
    if (on_step) on_step(step, after);
  };
  host::Host seam = host_->AsHost();
  if (setup_.breakage != Breakage::kNone) {
    broken_ = std::make_unique<BrokenLogs>(seam.logs, setup_.breakage);
    seam.logs = broken_.get();
  }
  // The transport is not the library's to destroy.
  mirror_ =
      CreateMirrorOver(std::shared_ptr<fetcher::Transport>(network_, [](auto*) {}), seam, mirror);
  return host_->Attach(mirror_.get());
}

void SimBroker::ShutMirror() {
  if (mirror_ == nullptr) return;
  if (host_ != nullptr) host_->Detach();
  bool done = false;
  mirror_->Shutdown(std::chrono::milliseconds(0), [&done] { done = true; });
  for (int i = 0; i < 1000 && !done; ++i) {
    runtime_->RunUntilIdle();
    for (SimWorkers* pool : workers_) pool->RunPending();
    // Rarely something waits for a timer of its own.
    if (!done) runtime_->Advance(std::chrono::milliseconds(1));
  }
  if (!done) trace_->Line("broker", "the library does not shut down");
}

void SimBroker::Clear() {
  ShutMirror();
  if (host_ != nullptr) host_->Stop();
  mirror_.reset();
  broken_.reset();
  host_.reset();
  workers_.clear();
  controller_.reset();
  logs_.reset();
  store_.reset();
  manager_.reset();
}

void SimBroker::Bury() {
  network_->dead = true;
  Clear();
}

bool SimBroker::StopInOrder() {
  ShutMirror();
  if (host_ != nullptr) host_->Stop();
  const bool in_order = manager_ != nullptr && manager_->Shutdown().ok();
  network_->dead = true;
  Clear();
  return in_order && !disk_->dead();
}

void SimBroker::Ask(int16_t api_key, const std::vector<uint8_t>& body,
                    std::function<void(std::vector<uint8_t>)> respond) {
  RequestContext context;
  context.api_key = api_key;
  context.client_id = "operator";
  mirror_->HandleRequest(context, body,
                         [this, process = process_, respond = std::move(respond)](auto answer) {
                           if (process == process_ && !disk_->dead()) respond(std::move(answer));
                         });
}

}  // namespace kmirror::sim
