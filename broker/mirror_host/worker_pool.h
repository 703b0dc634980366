// Threads that may wait for the disk on behalf of the library, whose lanes must not.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace kmirror::broker {

// Thread-safe. With one thread, tasks run in the order they were given.
class WorkerPool {
 public:
  explicit WorkerPool(size_t threads);
  ~WorkerPool() { Stop(); }
  WorkerPool(const WorkerPool&) = delete;

  // Refused (false) after Stop.
  bool Run(std::function<void()> task);
  // Runs what was given so far, then ends the threads. Idempotent; not from a task.
  void Stop();

 private:
  void Work();

  std::mutex mutex_;
  std::condition_variable wake_;
  std::deque<std::function<void()>> tasks_;
  bool stopping_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace kmirror::broker
