// Those who may wait for the disk on behalf of the library, whose lanes must not.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

namespace kmirror::broker {

// Thread-safe. A pool of one runs its tasks in the order they were given.
class WorkerPool {
 public:
  virtual ~WorkerPool() = default;

  // Refused (false) after Stop.
  virtual bool Run(std::function<void()> task) = 0;
  // Runs all of them at the same time, as far as there are workers, and waits for their end. False
  // when the pool was stopped and some did not run. Not from a task of this pool.
  virtual bool RunTogether(std::vector<std::function<void()>> tasks) = 0;
  // Runs what was given so far, then takes no more. Idempotent; not from a task.
  virtual void Stop() = 0;
};

// How a host gets its pools: of that many workers.
using MakeWorkerPool = std::function<std::unique_ptr<WorkerPool>(size_t workers)>;

class ThreadPool final : public WorkerPool {
 public:
  explicit ThreadPool(size_t threads);
  ~ThreadPool() override { Stop(); }
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  bool Run(std::function<void()> task) override;
  bool RunTogether(std::vector<std::function<void()>> tasks) override;
  void Stop() override;

 private:
  void Work();

  std::mutex mutex_;
  std::condition_variable wake_;
  std::deque<std::function<void()>> tasks_;
  bool stopping_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace kmirror::broker
