// What each verb of `kmirror` does, from its parsed arguments to its exit code.
#pragma once

#include <chrono>
#include <optional>
#include <ostream>
#include <string>
#include <vector>

#include "tools/kmirror/mirror_admin.h"

namespace kmirror::tools {

// Scripts rely on these numbers.
enum ExitCode : int { kDone = 0, kFailed = 1, kUsage = 2, kWaitRanOut = 3 };

struct Arguments {
  std::string bootstrap;            // of the destination
  std::string mirror;               // empty: all (describe, status)
  std::vector<std::string> topics;  // names and patterns
  bool all = false;
  std::string source;                // create
  std::string config_file;           // create
  std::vector<std::string> configs;  // create, "K=V" each
  bool discard_local = false;        // start (R31)
  bool json = false;
  bool failed = false;  // describe
  std::optional<double> wait_seconds;
  std::chrono::milliseconds timeout{30'000};     // of one request
  std::chrono::milliseconds poll_interval{200};  // while waiting
  bool live_progress = false;                    // err is a terminal: rewrite one line
};

// Results go to `out`; progress, warnings and errors with what to do next to `err`.
ExitCode Run(Verb verb, const Arguments& arguments, std::ostream& out, std::ostream& err);

// `kmirror api-versions HOST:PORT`: what that broker, of whatever cluster, says it serves.
ExitCode PrintApiVersions(const std::string& server, std::chrono::milliseconds timeout,
                          std::ostream& out, std::ostream& err);

// What a person can do about `status`; empty when there is nothing particular to say.
std::string NextStep(const Status& status, Verb verb, const Arguments& arguments);

}  // namespace kmirror::tools
