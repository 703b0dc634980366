#include "tests/support/kafka_fixture.h"

#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <random>

#include "tests/support/process.h"

namespace kmirror::test {
namespace {

// Beyond the script's own patience, so that its message is what a failure shows.
constexpr Seconds kScriptPatience{240};

Result<std::string> Script(std::vector<std::string> args) {
  std::string what = "scripts/kafka";
  for (const std::string& arg : args) what += " " + arg;
  args.insert(args.begin(), KMIRROR_SOURCE_DIR "/scripts/kafka");
  RunResult run = RunProgram(std::move(args), kScriptPatience);
  if (run.Success()) return std::move(run.out);
  const std::string how = !run.status ? "ran out of time"
                          : run.status->signal != 0
                              ? "killed by signal " + std::to_string(run.status->signal)
                              : "exit " + std::to_string(run.status->code);
  return {ErrorCode::kIo, what + ": " + how + "\n" + run.err + run.out};
}

std::string FirstLine(const std::string& text) { return text.substr(0, text.find('\n')); }

}  // namespace

Result<std::string> KafkaTool(const std::string& name, const std::vector<std::string>& args) {
  std::vector<std::string> all = {"tool", name};
  all.insert(all.end(), args.begin(), args.end());
  return Script(std::move(all));
}

Result<std::unique_ptr<RealKafka>> RealKafka::Start(Options options) {
  std::unique_ptr<RealKafka> kafka(new RealKafka);
  std::vector<std::string> args = {"start",   kafka->dir_ / "kafka",
                                   "-n",      std::to_string(options.nodes),
                                   "--owner", std::to_string(::getpid())};
  for (const std::string& property : options.properties) {
    args.push_back("-o");
    args.push_back(property);
  }
  if (!options.listener.empty()) {
    args.push_back("--listener");
    args.push_back(options.listener);
  }
  const Result<std::string> started = Script(std::move(args));
  if (!started.ok()) return started.status();
  kafka->bootstrap_ = FirstLine(*started);
  return kafka;
}

RealKafka::~RealKafka() {
  const Status ignored = Kill();  // a node that ended by itself is as good
  (void)ignored;
}

std::filesystem::path RealKafka::LogDir(int id) const {
  return dir_.path() / "kafka" / ("node" + std::to_string(id)) / "data";
}

Status RealKafka::Do(const std::string& verb, int id) {
  std::vector<std::string> args = {verb, dir_ / "kafka"};
  if (id != 0) args.push_back(std::to_string(id));
  return Script(std::move(args)).status();
}

Status RealKafka::Stop(int id) { return Do("stop", id); }
Status RealKafka::Kill(int id) { return Do("kill", id); }
Status RealKafka::Restart(int id) { return Do("up", id); }

Result<SharedKafkaInfo> SharedKafka() {
  const char* chosen = std::getenv("KMIRROR_SHARED_KAFKA");
  const std::filesystem::path dir = chosen != nullptr ? chosen : KMIRROR_BINARY_DIR "/kafka";
  SharedKafkaInfo info;
  std::ifstream file(dir / "bootstrap");
  if (!std::getline(file, info.bootstrap)) {
    return {ErrorCode::kIo, "no shared Kafka in " + dir.string() +
                                ": run the test through ctest, or `scripts/kafka start DIR` and "
                                "set KMIRROR_SHARED_KAFKA=DIR"};
  }
  info.log_dir = dir / "node1" / "data";
  return info;
}

std::string UniqueName(const std::string& prefix) {
  std::random_device random;
  return prefix + "-" + std::to_string(random() % 1000000) + "-" + std::to_string(::getpid());
}

}  // namespace kmirror::test
