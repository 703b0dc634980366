// A kmirrord of the test's own, and the kmirror command line against it, as an operator has them.
#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "kmirror/status.h"
#include "tests/support/process.h"
#include "tests/support/temp_dir.h"
#include "tests/support/wait_until.h"

namespace kmirror::test {

// One line of `kmirror describe --json`.
struct PartitionRow {
  std::string mirror, topic, state, error_message, step;
  int32_t partition = 0;
  int64_t source_offset = -1, destination_offset = -1, lag = -1, lag_age_ms = -1;
  int64_t last_mirror_offset = -1;
  int32_t last_mirror_epoch = -1;
  int retry_attempt = 0;
};

class Standby {
 public:
  struct Options {
    std::map<std::string, std::string> properties;  // added to the config file
    std::map<std::string, std::string> environment;
    // Called with the data directory, which exists and is empty, before the first start.
    std::function<void(const std::filesystem::path&)> prepare;
  };
  static Result<std::unique_ptr<Standby>> Start(Options options);
  static Result<std::unique_ptr<Standby>> Start() { return Start(Options()); }
  ~Standby();

  const std::string& bootstrap() const { return bootstrap_; }
  // Where it listens, which is not what it tells clients when it advertises something else.
  std::string listen_address() const { return "127.0.0.1:" + std::to_string(port_); }
  const std::string& cluster_id() const { return cluster_id_; }
  std::filesystem::path PartitionDir(const std::string& topic, int32_t partition = 0) const {
    return data_.path() / "data" / (topic + "-" + std::to_string(partition));
  }
  std::filesystem::path data_dir() const { return data_.path() / "data"; }
  Process& process() { return *process_; }
  std::string Log() const;  // stderr of all runs so far

  void Kill();    // -9
  Status Stop();  // SIGTERM, waits for a clean end
  Status Restart(std::map<std::string, std::string> environment = {});
  // A line of the config file, from the next start on.
  void Configure(const std::string& key, const std::string& value);

  // `kmirror --bootstrap-server ... ARGS`, not waited for.
  std::unique_ptr<Process> CliProcess(std::vector<std::string> args) const;
  // The same, waited for.
  RunResult Cli(std::vector<std::string> args, Seconds patience = Seconds(60)) const;
  // Cli that must succeed; the error holds both outputs.
  Status Run(std::vector<std::string> args, Seconds patience = Seconds(60)) const;
  Result<std::vector<PartitionRow>> Describe(const std::string& mirror = "") const;
  Result<PartitionRow> Row(const std::string& topic, int32_t partition = 0) const;
  // Until describe shows the state (and, for MIRRORING, a lag of 0 that is known).
  Status AwaitState(const std::string& topic, const std::string& state, int32_t partition = 0,
                    Seconds patience = Seconds(30)) const;
  Status AwaitCaughtUp(const std::string& topic, int64_t end_offset, int32_t partition = 0,
                       Seconds patience = Seconds(30)) const;
  // A number of the metrics page: `kmirror_source_refreshes_total{mirror="m"}`; nullopt: not there.
  std::optional<double> Metric(const std::string& name) const;
  // Until the mirror's source was asked for its metadata `times` more times, successfully.
  Status AwaitRefreshes(int times, const std::string& mirror = "m") const;
  // State changes of the partition as the log tells them, in order: "PREPARING", "MIRRORING", ...
  // A state that follows itself (a restart) is told once.
  std::vector<std::string> States(const std::string& topic, int32_t partition = 0) const;

 private:
  Standby() = default;
  Status Launch(const std::map<std::string, std::string>& environment);
  void WriteConfig() const;

  TempDir data_;
  std::unique_ptr<Process> process_;
  std::string bootstrap_, cluster_id_;
  std::string earlier_log_;
  std::map<std::string, std::string> environment_;
  std::map<std::string, std::string> properties_;
  int port_ = 0;
};

}  // namespace kmirror::test
