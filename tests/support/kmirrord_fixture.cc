#include "tests/support/kmirrord_fixture.h"

#include <fstream>
#include <regex>

#include "tests/support/free_port.h"

namespace kmirror::test {
namespace {

constexpr const char* kBinDir = KMIRROR_BINARY_DIR "/bin/";

}  // namespace

Result<std::unique_ptr<Kmirrord>> Kmirrord::Start(Options options) {
  std::unique_ptr<Kmirrord> broker(new Kmirrord);
  broker->options_ = std::move(options);
  if (broker->options_.data_dir.empty()) broker->options_.data_dir = broker->dir_ / "data";
  // Ports of our choice, so that clients find the broker again after a restart.
  broker->address_ = "127.0.0.1:" + std::to_string(FreePort());
  broker->metrics_ = "127.0.0.1:" + std::to_string(FreePort());
  if (Status status = broker->Launch(); !status.ok()) return status;
  return broker;
}

Status Kmirrord::Launch() {
  std::vector<std::string> argv = {std::string(kBinDir) + "kmirrord"};
  if (options_.properties.empty()) {
    argv.push_back("--dev");
  } else {
    const std::filesystem::path config = dir_ / "server.properties";
    std::ofstream file(config);
    for (const std::string& line : options_.properties) file << line << "\n";
    file.close();
    argv.insert(argv.end(), {"--config", config});
  }
  argv.insert(argv.end(),
              {"--data", options_.data_dir, "--listen", address_, "--metrics", metrics_});
  argv.insert(argv.end(), options_.arguments.begin(), options_.arguments.end());
  process_ = std::make_unique<Process>(std::move(argv));
  const std::optional<std::string> ready = process_->WaitForLine("^kmirrord ready ", Seconds(60));
  std::smatch found;
  static const std::regex form("^kmirrord ready (\\S+) cluster (\\S+)$");
  if (!ready || !std::regex_match(*ready, found, form)) {
    process_->Kill();
    const std::optional<ExitStatus> ignored = process_->Wait();
    (void)ignored;
    return {ErrorCode::kIo, "kmirrord does not say that it is ready:\n" + Log()};
  }
  address_ = found[1];
  cluster_id_ = found[2];
  return {};
}

void Kmirrord::Kill() {
  process_->Kill();
  const std::optional<ExitStatus> ignored = process_->Wait();
  (void)ignored;
}

Status Kmirrord::Stop() {
  process_->Terminate();
  const std::optional<ExitStatus> status = process_->Wait(Seconds(60));
  if (!status) return {ErrorCode::kTimedOut, "kmirrord does not stop:\n" + Log()};
  if (status->Success()) return {};
  return {ErrorCode::kIo, "kmirrord ended with code " + std::to_string(status->code) + ", signal " +
                              std::to_string(status->signal) + ":\n" + Log()};
}

Status Kmirrord::Restart() {
  if (process_->Running()) Kill();
  return Launch();
}

std::string Kmirrord::Log() const { return process_->out() + process_->err(); }

RunResult KmirrorCommand(const std::string& bootstrap, const std::vector<std::string>& arguments,
                         Seconds patience) {
  std::vector<std::string> argv = {std::string(kBinDir) + "kmirror", "--bootstrap-server",
                                   bootstrap};
  argv.insert(argv.end(), arguments.begin(), arguments.end());
  return RunProgram(std::move(argv), patience);
}

}  // namespace kmirror::test
