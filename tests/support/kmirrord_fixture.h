// kmirrord and the kmirror command line as processes of a test.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "kmirror/status.h"
#include "tests/support/process.h"
#include "tests/support/temp_dir.h"

namespace kmirror::test {

// One broker of ours, dead with the object.
class Kmirrord {
 public:
  struct Options {
    // Lines of a config file, "key=value"; with none it runs as `kmirrord --dev`.
    std::vector<std::string> properties;
    std::vector<std::string> arguments;  // added to the command line
    // Where the data lies: a folder of the fixture's own when empty.
    std::filesystem::path data_dir;
  };

  // Returns when the broker has said that it serves.
  static Result<std::unique_ptr<Kmirrord>> Start(Options options);
  static Result<std::unique_ptr<Kmirrord>> Start() { return Start(Options()); }

  // The same address over restarts.
  const std::string& bootstrap() const { return address_; }
  const std::string& metrics_address() const { return metrics_; }
  const std::string& cluster_id() const { return cluster_id_; }
  const std::filesystem::path& data_dir() const { return options_.data_dir; }
  Process& process() { return *process_; }

  void Kill();       // SIGKILL; returns when it is gone
  Status Stop();     // SIGTERM; an error when it does not end by itself with exit code 0
  Status Restart();  // kills what still runs

  // Output of the process that ran last.
  std::string Log() const;

 private:
  Kmirrord() = default;
  Status Launch();

  TempDir dir_;
  Options options_;
  std::string address_, metrics_, cluster_id_;
  std::unique_ptr<Process> process_;
};

// `kmirror --bootstrap-server BOOTSTRAP ARGUMENTS...`, run to its end.
RunResult KmirrorCommand(const std::string& bootstrap, const std::vector<std::string>& arguments,
                         Seconds patience = Seconds(90));

}  // namespace kmirror::test
