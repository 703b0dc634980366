// The destination: kmirrord without its network server, on a simulated disk, and the library in it.
//
// LogManager, the metadata store, the controller, the log directory, the host seam and the Mirror
// are the production code. A process dies when the disk does (SimDisk::Kill) and is cleared away by
// Bury; Start makes the next one.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "broker/controller/controller.h"
#include "broker/controller/file_metadata_store.h"
#include "broker/controller/log_directory.h"
#include "broker/mirror_host/broker_host.h"
#include "broker/storage/log_manager.h"
#include "conformance/memory_host/manual_runtime.h"
#include "kmirror/mirror.h"
#include "tests/sim/broken_host.h"
#include "tests/sim/sim_disk.h"
#include "tests/sim/sim_network.h"
#include "tests/sim/trace.h"

namespace kmirror::sim {

class SimWorkers;

inline constexpr const char* kDataFolder = "/broker/data";
inline constexpr int32_t kBrokerId = 1;

struct BrokerSetup {
  bool flush_every_message = true;  // flush.messages=1; otherwise the page cache is trusted
  int64_t segment_bytes = 4096;
  int64_t index_interval_bytes = 256;
  int32_t state_partitions = 3;
  int32_t replica_fetchers = 1;
  std::chrono::milliseconds refresh_interval{30000};
  std::chrono::milliseconds retry_max_backoff{20000};
  Breakage breakage = Breakage::kNone;
};

class SimBroker {
 public:
  // All outlive the broker.
  SimBroker(uint64_t seed, BrokerSetup setup, conformance::ManualRuntime* runtime, SimDisk* disk,
            SimNetwork* network, Trace* trace);
  ~SimBroker();

  // Starts a process on what the disk has. An error: it did not come up; nothing of it is left.
  Status Start();
  bool running() const { return mirror_ != nullptr && !disk_->dead(); }
  // What is left of a process that died. The disk was not restarted yet.
  void Bury();
  // An orderly end, and the process is gone. False: it was not orderly.
  bool StopInOrder();

  // Called before and after each durable step of start, pause, resume and stop.
  std::function<void(std::string_view step, bool after)> on_step;
  // How long a task of a worker takes.
  std::function<std::chrono::nanoseconds()> worker_delay;

  // REQUIRES: running.
  Mirror& mirror() { return *mirror_; }
  broker::Controller& controller() { return *controller_; }
  broker::LogDirectory& logs() { return *logs_; }
  broker::LogManager& manager() { return *manager_; }
  // Upkeep of the logs, once a second in kmirrord.
  Status Tick() { return manager_->Tick(runtime_->WallMs()); }
  // One request of a mirror API; `respond` is not called when the process dies before.
  void Ask(int16_t api_key, const std::vector<uint8_t>& body,
           std::function<void(std::vector<uint8_t>)> respond);

 private:
  class Clock final : public broker::LogClock {
   public:
    explicit Clock(const host::Runtime* runtime) : runtime_(runtime) {}
    int64_t NowMs() const override { return runtime_->WallMs(); }

   private:
    const host::Runtime* const runtime_;
  };

  Status StartParts();
  void ShutMirror();
  void Clear();
  uint64_t Random() { return random_(); }

  std::mt19937_64 random_;
  const BrokerSetup setup_;
  conformance::ManualRuntime* const runtime_;
  SimDisk* const disk_;
  SimNetwork* const network_;
  Trace* const trace_;
  const Clock clock_;
  broker::BrokerConfig config_;
  std::unique_ptr<broker::LogManager> manager_;
  std::unique_ptr<broker::FileMetadataStore> store_;
  std::unique_ptr<broker::LogDirectory> logs_;
  std::unique_ptr<broker::Controller> controller_;
  std::unique_ptr<broker::BrokerHost> host_;
  std::vector<SimWorkers*> workers_;  // the host's
  std::unique_ptr<BrokenLogs> broken_;
  std::unique_ptr<Mirror> mirror_;
  uint64_t process_ = 0;  // number of the present one
};

}  // namespace kmirror::sim
