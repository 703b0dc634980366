// The broker's workers without threads: tasks run one by one on a lane, after the time that the
// disk takes. A pool of one keeps the order; in a greater one tasks overtake each other.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "broker/mirror_host/worker_pool.h"
#include "kmirror/host/runtime.h"

namespace kmirror::sim {

class SimWorkers final : public broker::WorkerPool {
 public:
  // `delay`: how long the next task takes to be done.
  SimWorkers(host::Runtime* runtime, size_t workers,
             std::function<std::chrono::nanoseconds()> delay)
      : runtime_(runtime),
        lane_(runtime->NewLane("workers")),
        in_order_(workers == 1),
        delay_(std::move(delay)) {}

  bool Run(std::function<void()> task) override {
    if (stopped_) return false;
    const uint64_t id = ++last_;
    tasks_[id] = std::move(task);
    const auto now = runtime_->MonotonicNow();
    auto due = now + delay_();
    if (in_order_) due = last_due_ = std::max(due, last_due_);
    lane_->RunAfter(due - now, [this, id] { RunTask(id); });
    return true;
  }

  bool RunTogether(std::vector<std::function<void()>> tasks) override {
    if (stopped_) return tasks.empty();
    for (const std::function<void()>& task : tasks) task();
    return true;
  }

  // Without waiting. In a dead process they fail at the dead disk, and nobody hears of them.
  void RunPending() {
    while (!tasks_.empty()) RunTask(tasks_.begin()->first);
  }

  void Stop() override {
    RunPending();
    stopped_ = true;
  }

 private:
  void RunTask(uint64_t id) {
    const auto found = tasks_.find(id);
    if (found == tasks_.end()) return;
    const std::function<void()> task = std::move(found->second);
    tasks_.erase(found);
    task();
  }

  host::Runtime* const runtime_;
  std::unique_ptr<host::Lane> lane_;
  const bool in_order_;
  const std::function<std::chrono::nanoseconds()> delay_;
  std::map<uint64_t, std::function<void()>> tasks_;  // in the order they were given
  uint64_t last_ = 0;
  std::chrono::nanoseconds last_due_{0};
  bool stopped_ = false;
};

}  // namespace kmirror::sim
