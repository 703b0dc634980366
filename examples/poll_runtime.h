// A host::Runtime on one thread and poll(2): every lane is a queue of the same loop.
//
// Post, RunAfter and Cancel may be called from any thread (name resolution answers from its own);
// everything else belongs to the thread that calls RunUntil.
#pragma once

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "kmirror/host/runtime.h"

class PollRuntime final : public kmirror::host::Runtime {
 public:
  using Clock = std::chrono::steady_clock;

  PollRuntime() {
    if (pipe(wake_) != 0) wake_[0] = wake_[1] = -1;
  }
  ~PollRuntime() override {
    close(wake_[0]);
    close(wake_[1]);
  }

  std::unique_ptr<kmirror::host::Lane> NewLane(std::string_view) override {
    return std::make_unique<PollLane>(this, next_lane_++);
  }
  std::chrono::nanoseconds MonotonicNow() const override { return Clock::now().time_since_epoch(); }
  int64_t WallMs() const override {
    return std::chrono::duration_cast<std::chrono::milliseconds>(
               std::chrono::system_clock::now().time_since_epoch())
        .count();
  }
  uint64_t Random() override {
    const std::lock_guard lock(mutex_);
    return random_();
  }
  void Log(kmirror::host::LogLevel level, std::string_view area,
           std::string_view line) noexcept override {
    if (level < kmirror::host::LogLevel::kWarn && !verbose) return;
    std::fprintf(stderr, "%.*s %.*s\n", static_cast<int>(area.size()), area.data(),
                 static_cast<int>(line.size()), line.data());
  }

  // Runs the loop until `condition` holds, or `patience` is over (then false).
  template <typename Condition>
  bool RunUntil(Condition condition, std::chrono::milliseconds patience) {
    const Clock::time_point deadline = Clock::now() + patience;
    while (!condition()) {
      if (Clock::now() >= deadline) return false;
      Turn(std::min(deadline, Clock::now() + std::chrono::milliseconds(50)));
    }
    return true;
  }

  bool verbose = false;

 private:
  struct Item {
    uint64_t lane;
    kmirror::host::Lane::Task task;
  };
  struct Watched {
    uint64_t lane;
    uint32_t events;
    kmirror::host::FdHandler* handler;
  };

  class PollLane final : public kmirror::host::Lane {
   public:
    PollLane(PollRuntime* runtime, uint64_t id) : runtime_(runtime), id_(id) {
      const std::lock_guard lock(runtime_->mutex_);
      runtime_->lanes_.insert(id_);
    }
    ~PollLane() override {
      const std::lock_guard lock(runtime_->mutex_);
      runtime_->lanes_.erase(id_);  // what is left of it is dropped as it comes up
      std::erase_if(runtime_->watched_, [&](const auto& one) { return one.second.lane == id_; });
    }
    void Post(Task task) override { runtime_->Add({id_, std::move(task)}); }
    TimerId RunAfter(std::chrono::nanoseconds delay, Task task) override {
      const std::lock_guard lock(runtime_->mutex_);
      const TimerId id = runtime_->next_timer_++;
      const auto due = Clock::now() + std::chrono::duration_cast<Clock::duration>(delay);
      runtime_->timers_.emplace(std::pair(due, id), Item{id_, std::move(task)});
      return id;
    }
    void Cancel(TimerId timer) override {
      const std::lock_guard lock(runtime_->mutex_);
      std::erase_if(runtime_->timers_, [&](const auto& one) { return one.first.second == timer; });
    }
    bool InLane() const override { return runtime_->current_ == id_; }
    kmirror::Status Watch(int fd, uint32_t events, kmirror::host::FdHandler* handler) override {
      runtime_->watched_[fd] = {id_, events, handler};
      return {};
    }
    void Unwatch(int fd) override { runtime_->watched_.erase(fd); }

   private:
    PollRuntime* runtime_;
    uint64_t id_;
  };

  void Add(Item item) {
    {
      const std::lock_guard lock(mutex_);
      ready_.push_back(std::move(item));
    }
    const char byte = 0;
    (void)!write(wake_[1], &byte, 1);
  }

  // One turn of the loop: waits for the first thing to do, at most until `limit`.
  void Turn(Clock::time_point limit) {
    std::vector<pollfd> polled{{wake_[0], POLLIN, 0}};
    bool idle;
    {
      const std::lock_guard lock(mutex_);
      for (const auto& [fd, one] : watched_) {
        short events = 0;
        if (one.events & kmirror::host::Lane::kReadable) events |= POLLIN;
        if (one.events & kmirror::host::Lane::kWritable) events |= POLLOUT;
        polled.push_back({fd, events, 0});
      }
      if (!timers_.empty()) limit = std::min(limit, timers_.begin()->first.first);
      idle = ready_.empty();
    }
    const auto wait = std::chrono::ceil<std::chrono::milliseconds>(limit - Clock::now()).count();
    poll(polled.data(), polled.size(), idle ? static_cast<int>(std::max<int64_t>(0, wait)) : 0);
    if (polled[0].revents != 0) {
      char drained[256];
      (void)!read(wake_[0], drained, sizeof drained);
    }
    for (size_t i = 1; i < polled.size(); ++i) {
      if (polled[i].revents == 0) continue;
      const auto it = watched_.find(polled[i].fd);
      if (it == watched_.end()) continue;  // an earlier handler let it go
      uint32_t events = 0;
      if (polled[i].revents & POLLIN) events |= kmirror::host::Lane::kReadable;
      if (polled[i].revents & POLLOUT) events |= kmirror::host::Lane::kWritable;
      if (polled[i].revents & (POLLERR | POLLHUP | POLLNVAL)) events |= kmirror::host::Lane::kError;
      current_ = it->second.lane;
      it->second.handler->OnReady(events);
      current_ = 0;
    }
    std::deque<Item> due;
    {
      const std::lock_guard lock(mutex_);
      due.swap(ready_);
      while (!timers_.empty() && timers_.begin()->first.first <= Clock::now()) {
        due.push_back(std::move(timers_.begin()->second));
        timers_.erase(timers_.begin());
      }
    }
    for (Item& item : due) {
      {
        const std::lock_guard lock(mutex_);
        if (!lanes_.contains(item.lane)) continue;
      }
      current_ = item.lane;
      item.task();
      current_ = 0;
    }
  }

  std::mutex mutex_;
  std::set<uint64_t> lanes_;
  std::deque<Item> ready_;
  std::map<std::pair<Clock::time_point, uint64_t>, Item> timers_;
  uint64_t next_timer_ = 1;
  std::mt19937_64 random_{std::random_device{}()};

  uint64_t next_lane_ = 1;
  uint64_t current_ = 0;
  std::map<int, Watched> watched_;
  int wake_[2] = {-1, -1};
};
