// The runner: tests/sim/README.md.
#include <spdlog/spdlog.h>
#include <sys/resource.h>

#include <cinttypes>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <string>

#include "tests/sim/simulation.h"

namespace {

using kmirror::sim::SimOptions;
using kmirror::sim::SimResult;
using kmirror::sim::Simulation;

double CpuSeconds() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) / 1e6;
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

int Usage() {
  std::fprintf(stderr,
               "usage: sim [--seeds N] [--first S] [--verbose] [--keep-going]\n"
               "  --seeds N     how many seeds are run (1)\n"
               "  --first S     the first one (1)\n"
               "  --verbose     every line of the trace to stderr\n"
               "  --keep-going  after a failed seed too\n");
  return 2;
}

}  // namespace

int main(int argc, char** argv) {
  uint64_t seeds = 1;
  uint64_t first = 1;
  bool verbose = false;
  bool keep_going = false;
  for (int i = 1; i < argc; ++i) {
    const std::string argument = argv[i];
    if (argument == "--seeds" && i + 1 < argc) {
      seeds = std::strtoull(argv[++i], nullptr, 10);
    } else if (argument == "--first" && i + 1 < argc) {
      first = std::strtoull(argv[++i], nullptr, 10);
    } else if (argument == "--verbose") {
      verbose = true;
    } else if (argument == "--keep-going") {
      keep_going = true;
    } else {
      return Usage();
    }
  }
  spdlog::set_level(verbose ? spdlog::level::info : spdlog::level::off);
  std::map<std::string, int64_t> counts;
  std::map<std::string, int64_t> states;
  double simulated = 0;
  uint64_t ran = 0;
  uint64_t failed = 0;
  for (uint64_t seed = first; seed < first + seeds; ++seed) {
    const SimResult result = Simulation(SimOptions{.seed = seed, .echo = verbose}).Run();
    ++ran;
    for (const auto& [what, count] : result.counts) counts[what] += count;
    for (const auto& [state, count] : result.states) states[state] += count;
    simulated += static_cast<double>(result.simulated.count()) / 1e9;
    if (verbose) std::printf("seed %" PRIu64 ": trace %016" PRIx64 "\n", seed, result.trace_hash);
    if (result.violation.empty()) continue;
    ++failed;
    std::printf("%s\nseed %" PRIu64 " FAILED: %s\nagain: --first %" PRIu64 " --verbose\n",
                keep_going ? "" : result.last_lines.c_str(), seed, result.violation.c_str(), seed);
    std::fflush(stdout);
    if (!keep_going) break;
  }
  const double cpu = CpuSeconds();
  std::printf("%" PRIu64 " seeds from %" PRIu64 ", %" PRIu64 " failed\n", ran, first, failed);
  for (const auto& [what, count] : counts)
    std::printf("  %10" PRId64 "  %s\n", count, what.c_str());
  for (const auto& [state, count] : states) {
    std::printf("  %10" PRId64 "  state: %s entered\n", count, state.c_str());
  }
  std::printf("simulated %.0f s in %.1f s of CPU time: %.0f times faster\n", simulated, cpu,
              simulated / cpu);
  return failed == 0 ? 0 : 1;
}
