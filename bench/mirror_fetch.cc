// The product on the same stream as reference_loop: a MirrorFetcherManager over TCP, appending to
// the storage of kmirrord.
//
//   mirror_fetch TOTAL_MIB DIR [--tls]
// Prints: BYTES CPU_SECONDS WALL_SECONDS (CPU of the fetcher's lane). Runs from the first byte
// asked for to the last one appended; connecting is not counted, as in the reference. With --tls
// the bytes come over TLS 1.3, from a process between the sender and us.
#include <sched.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <future>
#include <memory>
#include <string>

#include "bench/reference/sender.h"
#include "bench/tls_relay.h"
#include "broker/storage/partition_log.h"
#include "src/fetcher/mirror_fetcher_manager.h"
#include "src/net/epoll_runtime.h"
#include "src/net/tcp_transport.h"

namespace {

using namespace kmirror;

double Cpu(int who) {
  rusage usage;
  getrusage(who, &usage);
  const auto seconds = [](timeval v) {
    return static_cast<double>(v.tv_sec) + static_cast<double>(v.tv_usec) * 1e-6;
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

// The storage behind the seam. Measures on the lane that appends: from the first append's answer on
// would miss the first receive, so the CPU time of the thread at its start is taken as the zero.
class BenchLog : public host::PartitionLog {
 public:
  BenchLog(std::shared_ptr<broker::PartitionLog> log, int64_t target)
      : log_(std::move(log)), target_(target) {}

  host::AppendResult AppendMirrored(const host::MirroredSet& set,
                                    host::AppendDone*) noexcept override {
    const Status status = log_->AppendMirrored(set.bytes, set.batches, set.expected_end_offset,
                                               set.local_leader_epoch);
    if (!status.ok()) {
      std::fprintf(stderr, "%s\n", status.ToString().c_str());
      std::exit(1);
    }
    const int64_t end = set.batches.back().last_offset + 1;
    if (end >= target_) done.set_value(Cpu(RUSAGE_THREAD));
    return {host::AppendCode::kOk, end};
  }
  host::LogView View() const noexcept override {
    const broker::LogPositions at = log_->Positions();
    host::LogView view;
    view.log_start = at.log_start;
    view.last_stable_offset = at.last_stable;
    view.high_watermark = at.high_watermark;
    view.end = at.log_end;
    view.last_batch_epoch = at.last_batch_epoch;
    return view;
  }
  std::vector<host::OpenTransaction> OpenTransactions() const override { return {}; }
  std::vector<host::EpochEntry> Epochs() const override { return {}; }
  host::EpochEnd EndOffsetForEpoch(int32_t) const override { return {}; }
  int32_t EpochBefore(int64_t) const override { return -1; }
  int64_t MaxProducerId() const override { return -1; }
  bool EndsWithReset() const override { return false; }
  void AppendAbort(const host::OpenTransaction&, int32_t, host::Completion) override {}
  void AppendReset(int32_t, host::Completion) override {}
  void Truncate(int64_t, int32_t, host::Completion) override {}
  void RestartAt(int64_t, int32_t, host::Completion) override {}
  Status RaiseLogStart(int64_t) noexcept override { return {}; }
  void AwaitReplicated(int32_t, host::Completion) override {}
  void AwaitTruncated(bool, int32_t, host::Completion) override {}
  void Sync(host::Completion) override {}
  Status SetLocalWrites(host::LocalWrites, int32_t, int64_t) noexcept override { return {}; }

  std::promise<double> done;

 private:
  const std::shared_ptr<broker::PartitionLog> log_;
  const int64_t target_;
};

// Pins fetcher lanes to the receiver's processor.
class PinnedRuntime : public net::EpollRuntime {
 public:
  PinnedRuntime()
      : EpollRuntime([](host::LogLevel level, std::string_view, std::string_view line) {
          if (level >= host::LogLevel::kWarn) {
            std::fprintf(stderr, "%.*s\n", static_cast<int>(line.size()), line.data());
          }
        }) {}
  std::unique_ptr<host::Lane> NewLane(std::string_view name) override {
    auto lane = EpollRuntime::NewLane(name);
    if (name.starts_with("MirrorFetcherThread")) {
      lane->Post([] {
        cpu_set_t cpus;
        CPU_ZERO(&cpus);
        CPU_SET(1, &cpus);
        sched_setaffinity(0, sizeof cpus, &cpus);
      });
    }
    return lane;
  }
};

class Events : public fetcher::FetchEvents {
 public:
  void OnFetching(const TopicIdPartition&) override {}
  void OnStopped(const fetcher::FetchStopped& stopped) override {
    std::fprintf(stderr, "stopped: %s\n", stopped.message.c_str());
    std::exit(1);
  }
  void OnEpochNear(const TopicIdPartition&, int32_t) override {}
  void OnGap(const TopicIdPartition&, int64_t, int64_t) override {}
  void OnSourceTrouble(const std::string&, const std::string& reason) override {
    std::fprintf(stderr, "trouble: %s\n", reason.c_str());
  }
};

}  // namespace

int main(int argc, char** argv) {
  const bool with_tls = argc == 4 && std::string(argv[3]) == "--tls";
  if (argc != 3 && !with_tls) {
    std::fprintf(stderr, "usage: mirror_fetch TOTAL_MIB DIR [--tls]\n");
    return 2;
  }
  bench::SenderOptions sender_options;
  sender_options.total_bytes = std::strtoul(argv[1], nullptr, 10) << 20;
  const std::string root = std::string(argv[2]) + "/mirror-" + std::to_string(getpid());
  const std::string directory = root + "/t-0";
  std::filesystem::create_directories(directory);

  uint16_t port = 0;
  const int listening = bench::Listen(&port);
  const pid_t sender = fork();
  if (sender == 0) bench::RunSender(listening, sender_options);
  std::shared_ptr<fetcher::TlsOptions> tls;
  bench::TlsRelay relay;
  if (with_tls) {
    relay = bench::StartTlsRelay(port, sender_options.cpu);
    port = relay.port;
    tls = std::make_shared<fetcher::TlsOptions>();
    tls->truststore_certificates = relay.certificate;
  }

  const int64_t total = static_cast<int64_t>(bench::TotalBytes(sender_options));
  broker::PartitionLog::Options log_options;
  log_options.directory = directory;
  log_options.topic = "t";
  auto opened = broker::PartitionLog::Open(log_options);
  if (!opened.ok() || !(*opened)->BecomeLeader(10, false).ok()) {
    std::fprintf(stderr, "open: %s\n", opened.status().ToString().c_str());
    return 1;
  }
  const int64_t target = total / static_cast<int64_t>(sender_options.batch_bytes) *
                         bench::kRecordsPerBatch;
  auto log = std::make_shared<BenchLog>(*opened, target);

  PinnedRuntime runtime;
  net::TcpTransport transport;
  Events events;
  auto lane = runtime.NewLane("coordinator");
  auto manager = std::make_unique<fetcher::MirrorFetcherManager>(
      &runtime, lane.get(), &events, &transport, fetcher::MirrorFetcherManager::Options{1, 1});
  const auto start = runtime.MonotonicNow();
  lane->Post([&] {
    auto config = std::make_shared<fetcher::MirrorSourceConfig>();
    config->mirror = "bench";
    config->tls = tls;
    config->fetch_response_max_bytes = config->fetch_max_bytes = 10 << 20;
    manager->SetMirror(config);
    fetcher::FetchAssignment assignment;
    assignment.partition.topic_id.bytes.fill(bench::kTopicIdByte);
    assignment.topic = "t";
    assignment.leader_id = 1;
    assignment.leader = {"127.0.0.1", port};
    assignment.source_leader_epoch = 0;
    assignment.local_leader_epoch = 10;
    assignment.log = log;
    manager->Add("bench", assignment);
  });
  const double cpu = log->done.get_future().get();
  const double wall =
      std::chrono::duration<double>(runtime.MonotonicNow() - start).count();
  std::printf("%ld %.6f %.6f\n", static_cast<long>(total), cpu, wall);
  std::promise<void> closed;
  lane->Post([&] {
    manager->Shutdown([&] {
      manager.reset();
      closed.set_value();
    });
  });
  closed.get_future().wait();
  lane.reset();
  waitpid(sender, nullptr, 0);
  if (with_tls) waitpid(relay.pid, nullptr, 0);
  log.reset();
  *opened = nullptr;
  std::filesystem::remove_all(root);
}
