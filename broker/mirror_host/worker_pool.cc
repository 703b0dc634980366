#include "broker/mirror_host/worker_pool.h"

#include <latch>
#include <utility>

namespace kmirror::broker {

ThreadPool::ThreadPool(size_t threads) {
  for (size_t i = 0; i < threads; ++i) threads_.emplace_back([this] { Work(); });
}

bool ThreadPool::Run(std::function<void()> task) {
  {
    const std::lock_guard lock(mutex_);
    if (stopping_) return false;
    tasks_.push_back(std::move(task));
  }
  wake_.notify_one();
  return true;
}

bool ThreadPool::RunTogether(std::vector<std::function<void()>> tasks) {
  // Shared: the last to count down may still be inside when the wait is over.
  const auto left = std::make_shared<std::latch>(static_cast<std::ptrdiff_t>(tasks.size()));
  bool all = true;
  for (std::function<void()>& task : tasks) {
    const bool taken = Run([task = std::move(task), left] {
      task();
      left->count_down();
    });
    if (taken) continue;
    all = false;
    left->count_down();
  }
  left->wait();
  return all;
}

void ThreadPool::Stop() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  wake_.notify_all();
  for (std::thread& thread : threads_) {
    if (thread.joinable()) thread.join();
  }
}

void ThreadPool::Work() {
  std::unique_lock lock(mutex_);
  for (;;) {
    wake_.wait(lock, [this] { return stopping_ || !tasks_.empty(); });
    if (tasks_.empty()) return;
    std::function<void()> task = std::move(tasks_.front());
    tasks_.pop_front();
    lock.unlock();
    task();
    task = nullptr;  // what it holds goes without the lock
    lock.lock();
  }
}

}  // namespace kmirror::broker
