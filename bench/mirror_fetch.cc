// The product on the streams of the references: a MirrorFetcherManager over TCP, appending to the
// storage of kmirrord.
//
//   mirror_fetch BATCH_BYTES TOTAL_MIB DIR [--tls]
//     from the sender that reference_loop has; runs from the first byte asked for to the last one
//     appended; connecting is not counted, as in the reference. With --tls the bytes come over TLS
//     1.3, from a process between the sender and us
//   mirror_fetch HOST PORT TOPIC_ID_HEX END[,END...] ANSWER_BYTES DIR [STAMPS]
//     partitions 0.. of a topic "t" of a real broker until each has reached its END, as
//     kafka_copier. STAMPS receives lines "END_OFFSET NANOSECONDS" (CLOCK_MONOTONIC) after each
//     append to partition 0, when readers can see it; the first at once, the others at the end
// Prints: BYTES CPU_SECONDS WALL_SECONDS (CPU of the fetcher's lane).
#include <sched.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <future>
#include <memory>
#include <string>
#include <vector>

#include "bench/reference/sender.h"
#include "bench/storage_log.h"
#include "bench/tls_relay.h"
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

int64_t Nanoseconds() {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec * 1'000'000'000 + now.tv_nsec;
}

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

// What is fetched, and how far.
struct Job {
  HostPort source{"127.0.0.1", 0};
  Uuid topic_id;
  std::vector<int64_t> ends;  // by partition
  int32_t answer_bytes = 10 << 20;
  std::string directory;
  std::FILE* stamps = nullptr;
  std::shared_ptr<const fetcher::TlsOptions> tls;
};

[[noreturn]] void Refuse(const std::string& what) {
  std::fprintf(stderr, "mirror_fetch: %s\n", what.c_str());
  std::exit(1);
}

// Answers the CPU seconds of the fetcher's lane; `wall` the seconds passed.
double Run(const Job& job, double* wall) {
  // When every log has reached its target; taken on the lane that appends. The CPU time of the
  // thread at its start is the zero: from the first append on would miss the first receive.
  std::promise<double> finished;
  size_t logs_left = job.ends.size();  // the fetcher's lane alone
  std::vector<std::shared_ptr<bench::StorageLog>> logs;
  for (size_t i = 0; i < job.ends.size(); ++i) {
    const auto appended = [&, target = job.ends[i], stamps = i == 0 ? job.stamps : nullptr](
                              int64_t before, int64_t end) {
      if (stamps != nullptr) {
        std::fprintf(stamps, "%ld %ld\n", static_cast<long>(end), static_cast<long>(Nanoseconds()));
        if (before == 0) std::fflush(stamps);  // whoever waits for the start sees it
      }
      if (before < target && end >= target && --logs_left == 0) {
        finished.set_value(Cpu(RUSAGE_THREAD));
      }
    };
    logs.push_back(std::make_shared<bench::StorageLog>(
        bench::NewLog(job.directory + "/t-" + std::to_string(i)), appended));
  }

  PinnedRuntime runtime;
  net::TcpTransport transport;
  bench::FetchTrouble events;
  auto lane = runtime.NewLane("coordinator");
  auto manager = std::make_unique<fetcher::MirrorFetcherManager>(
      &runtime, lane.get(), &events, &transport, fetcher::MirrorFetcherManager::Options{1, 1});
  const auto start = runtime.MonotonicNow();
  lane->Post([&] {
    auto config = std::make_shared<fetcher::MirrorSourceConfig>();
    config->mirror = "bench";
    config->tls = job.tls;
    config->fetch_response_max_bytes = config->fetch_max_bytes = job.answer_bytes;
    manager->SetMirror(config);
    for (size_t i = 0; i < logs.size(); ++i) {
      fetcher::FetchAssignment assignment;
      assignment.partition = {job.topic_id, static_cast<int32_t>(i)};
      assignment.topic = "t";
      assignment.leader_id = 1;
      assignment.leader = job.source;
      assignment.source_leader_epoch = 0;
      assignment.local_leader_epoch = 10;
      assignment.log = logs[i];
      manager->Add("bench", assignment);
    }
  });
  const double cpu = finished.get_future().get();
  *wall = std::chrono::duration<double>(runtime.MonotonicNow() - start).count();
  std::promise<void> closed;
  lane->Post([&] {
    manager->Shutdown([&] {
      manager.reset();
      closed.set_value();
    });
  });
  closed.get_future().wait();
  lane.reset();
  return cpu;
}

}  // namespace

int main(int argc, char** argv) {
  const bool with_tls = argc == 5 && std::string(argv[4]) == "--tls";
  if (with_tls) argc = 4;
  if (argc != 4 && argc != 7 && argc != 8) {
    std::fprintf(stderr,
                 "usage: mirror_fetch BATCH_BYTES TOTAL_MIB DIR [--tls]\n"
                 "       mirror_fetch HOST PORT TOPIC_ID_HEX END[,END...] ANSWER_BYTES DIR "
                 "[STAMPS]\n");
    return 2;
  }
  const std::string root =
      std::string(argc == 4 ? argv[3] : argv[6]) + "/mirror-" + std::to_string(getpid());
  Job job;
  job.directory = root;
  pid_t sender = -1;
  bench::TlsRelay relay;
  if (argc == 4) {
    bench::SenderOptions options;
    options.batch_bytes = std::strtoul(argv[1], nullptr, 10);
    options.total_bytes = std::strtoul(argv[2], nullptr, 10) << 20;
    if (options.batch_bytes < 128 || options.batch_bytes > options.answer_bytes) {
      Refuse("BATCH_BYTES is 128 to 10 MiB");
    }
    uint16_t port = 0;
    const int listening = bench::Listen(&port);
    sender = fork();
    if (sender == 0) bench::RunSender(listening, options);
    if (with_tls) {
      relay = bench::StartTlsRelay(port, options.cpu);
      port = relay.port;
      auto tls = std::make_shared<fetcher::TlsOptions>();
      tls->truststore_certificates = relay.certificate;
      job.tls = std::move(tls);
    }
    job.source.port = port;
    job.topic_id.bytes.fill(bench::kTopicIdByte);
    job.ends = {static_cast<int64_t>(bench::TotalBytes(options) / options.batch_bytes) *
                bench::kRecordsPerBatch};
  } else {
    job.source = {argv[1], std::atoi(argv[2])};
    const std::string id = argv[3];
    if (id.size() != 32) Refuse("a topic id has 32 hexadecimal digits");
    for (size_t i = 0; i < job.topic_id.bytes.size(); ++i) {
      job.topic_id.bytes[i] = static_cast<uint8_t>(std::stoi(id.substr(2 * i, 2), nullptr, 16));
    }
    for (char* at = argv[4]; *at != 0;) {
      job.ends.push_back(std::strtol(at, &at, 10));
      if (*at == ',') ++at;
    }
    job.answer_bytes = std::atoi(argv[5]);
    if (argc == 8 && (job.stamps = std::fopen(argv[7], "w")) == nullptr) Refuse(argv[7]);
  }

  double wall = 0;
  const double cpu = Run(job, &wall);
  uintmax_t bytes = 0;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(root)) {
    if (entry.path().extension() == ".log") bytes += entry.file_size();
  }
  std::printf("%ju %.6f %.6f\n", bytes, cpu, wall);
  if (job.stamps != nullptr) std::fclose(job.stamps);
  for (const pid_t child : {sender, relay.pid}) {
    if (child > 0) waitpid(child, nullptr, 0);
  }
  std::filesystem::remove_all(root);
}
