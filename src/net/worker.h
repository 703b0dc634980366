// Calls that may block, run one after another on a thread of the worker's own, which starts with
// the first: looking up a name, reading a file. No lane may block.
//
// Thread-safe.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>

#include "kmirror/host/runtime.h"

namespace kmirror::net {

class Worker {
 public:
  using Answer = std::function<void()>;
  using Ticket = uint64_t;  // never 0

  Worker() = default;
  ~Worker();  // waits for the call that is under way
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;

  // Runs `call` on the thread; what it returns runs on `lane`, unless cancelled before.
  Ticket Run(host::Lane* lane, std::function<Answer()> call);
  // Afterwards nothing more is posted to the ticket's lane. What was posted already still runs.
  void Cancel(Ticket ticket);

 private:
  struct Task {
    Ticket ticket = 0;
    host::Lane* lane = nullptr;
    std::function<Answer()> call;
  };
  void Loop();

  std::mutex mutex_;
  std::condition_variable wake_;
  std::deque<Task> queue_;  // guarded by mutex_, as the rest
  Ticket last_ticket_ = 0;
  Ticket running_ = 0;  // 0: none, or cancelled
  bool stop_ = false;
  std::thread thread_;
};

}  // namespace kmirror::net
