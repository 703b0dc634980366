// A child process under the control of a test.
#pragma once

#include <sys/types.h>

#include <condition_variable>
#include <csignal>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "tests/support/wait_until.h"

namespace kmirror::test {

// How a process ended: exactly one of the two is set.
struct ExitStatus {
  int code = 0;
  int signal = 0;  // 0 when it exited by itself
  bool Success() const { return code == 0 && signal == 0; }
};

// Starts at construction and is killed (SIGKILL) by the destructor, and by the kernel when the
// thread that constructed it ends: a crashed test leaves nothing behind. Output is read by a thread
// of ours, so the child never blocks on a full pipe. Member functions are for one thread at a time.
//
// A program that cannot be run shows as exit code 127 with the reason on its stderr.
class Process {
 public:
  // argv[0] is looked up in PATH. `environment` is added to our own.
  explicit Process(std::vector<std::string> argv,
                   const std::map<std::string, std::string>& environment = {});
  ~Process();
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;

  pid_t pid() const { return pid_; }

  // The first whole line of stdout not returned before that matches `pattern` (ECMAScript, anywhere
  // in the line). Lines before it are passed over. Nullopt: stdout ended or the deadline passed
  // first.
  [[nodiscard]] std::optional<std::string> WaitForLine(const std::string& pattern,
                                                       Seconds patience = Seconds(30));

  // Sends `signal` to this process alone; nothing happens when it has ended.
  void Signal(int signal);
  void Kill() { Signal(SIGKILL); }
  void Terminate() { Signal(SIGTERM); }

  // Waits for the end. Nullopt: still running at the deadline.
  [[nodiscard]] std::optional<ExitStatus> Wait(Seconds patience = Seconds(30));
  bool Running() { return !Poll(); }

  // Closes the child's stdin (it is an empty pipe) after writing `text` to it.
  void WriteInput(const std::string& text);

  // All output so far; complete once Wait() has answered.
  std::string out() const;
  std::string err() const;

 private:
  bool Poll();  // true: ended, exit_ is set
  void ReadOutput();

  pid_t pid_ = -1;
  int in_ = -1, out_fd_ = -1, err_fd_ = -1;
  std::optional<ExitStatus> exit_;
  std::thread reader_;

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::string out_, err_;   // guarded by mutex_
  bool out_ended_ = false;  // guarded by mutex_
  bool all_ended_ = false;  // guarded by mutex_
  size_t line_start_ = 0;   // first byte of out_ that WaitForLine has not passed
};

// Runs a program to its end. `status` is nullopt when it was killed at the deadline.
struct RunResult {
  std::optional<ExitStatus> status;
  std::string out, err;
  bool Success() const { return status && status->Success(); }
};
RunResult RunProgram(std::vector<std::string> argv, Seconds patience = Seconds(60),
                     const std::map<std::string, std::string>& environment = {});

}  // namespace kmirror::test
