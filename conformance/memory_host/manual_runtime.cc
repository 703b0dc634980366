#include "conformance/memory_host/manual_runtime.h"

#include <algorithm>
#include <cstdio>

namespace kmirror::conformance {

class ManualRuntime::ManualLane final : public host::Lane {
 public:
  ManualLane(ManualRuntime* runtime, std::string name)
      : runtime_(runtime), name_(std::move(name)) {}

  ~ManualLane() override {
    for (auto it = runtime_->timers_.begin(); it != runtime_->timers_.end();) {
      if (it->second.lane == this) {
        runtime_->timer_due_.erase(it->first.second);
        it = runtime_->timers_.erase(it);
      } else {
        ++it;
      }
    }
    std::erase(runtime_->lanes_, this);
    if (runtime_->current_ == this) runtime_->current_ = nullptr;
    // What was never run may own objects that post elsewhere as they go: let it go last.
    std::deque<Posted> dropped;
    dropped.swap(ready_);
  }

  void Post(Task task) override { ready_.push_back({runtime_->next_sequence_++, std::move(task)}); }

  TimerId RunAfter(std::chrono::nanoseconds delay, Task task) override {
    const TimerId id = runtime_->next_sequence_++;
    const int64_t due = runtime_->now_.count() + std::max<int64_t>(0, delay.count());
    runtime_->timers_.emplace(TimerKey{due, id}, Timer{this, std::move(task)});
    runtime_->timer_due_.emplace(id, due);
    return id;
  }

  void Cancel(TimerId timer) override {
    cancelled_.push_back(timer);  // it may have been moved to the ready tasks already
    if (cancelled_.size() > 64) cancelled_.erase(cancelled_.begin());
    const auto it = runtime_->timer_due_.find(timer);
    if (it == runtime_->timer_due_.end()) return;
    runtime_->timers_.erase(TimerKey{it->second, timer});
    runtime_->timer_due_.erase(it);
  }

  bool InLane() const override { return runtime_->current_ == this; }

  Status Watch(int, uint32_t, host::FdHandler*) override {
    return {ErrorCode::kUnsupportedVersion,
            "a runtime without a real clock watches no descriptors"};
  }
  void Unwatch(int) override {}

  // The timer `id` is due: its task is now an ordinary task, unless it gets cancelled before it
  // runs.
  void Fire(TimerId id, Task task) {
    ready_.push_back({runtime_->next_sequence_++, [this, id, task = std::move(task)] {
                        const auto it = std::find(cancelled_.begin(), cancelled_.end(), id);
                        if (it == cancelled_.end()) task();
                      }});
  }

  std::deque<Posted> ready_;

 private:
  ManualRuntime* runtime_;
  std::string name_;
  std::vector<TimerId> cancelled_;
};

ManualRuntime::~ManualRuntime() = default;

std::unique_ptr<host::Lane> ManualRuntime::NewLane(std::string_view name) {
  auto lane = std::make_unique<ManualLane>(this, std::string(name));
  lanes_.push_back(lane.get());
  return lane;
}

void ManualRuntime::Log(host::LogLevel level, std::string_view area,
                        std::string_view line) noexcept {
  if (echo_) {
    std::fprintf(stderr, "%10.3f %.*s %.*s\n", static_cast<double>(now_.count()) / 1e9,
                 static_cast<int>(area.size()), area.data(), static_cast<int>(line.size()),
                 line.data());
  }
  if (sink_) return sink_(level, area, line);
  lines_.push_back({level, std::string(area), std::string(line)});
  if (watch_line_) watch_line_(lines_.back());
}

size_t ManualRuntime::CountLines(std::string_view text) const {
  return static_cast<size_t>(std::count_if(lines_.begin(), lines_.end(), [&](const LogLine& line) {
    return line.line.find(text) != std::string::npos;
  }));
}

ManualRuntime::ManualLane* ManualRuntime::PickLane() {
  if (shuffle_lanes_) {
    std::vector<ManualLane*> ready;
    for (ManualLane* lane : lanes_) {
      if (!lane->ready_.empty()) ready.push_back(lane);
    }
    return ready.empty() ? nullptr : ready[shuffle_() % ready.size()];
  }
  ManualLane* oldest = nullptr;
  for (ManualLane* lane : lanes_) {
    if (lane->ready_.empty()) continue;
    if (oldest == nullptr || lane->ready_.front().sequence < oldest->ready_.front().sequence) {
      oldest = lane;
    }
  }
  return oldest;
}

bool ManualRuntime::RunOne() {
  FireTimersDue();
  ManualLane* lane = PickLane();
  if (lane == nullptr) return false;
  host::Lane::Task task = std::move(lane->ready_.front().task);
  lane->ready_.pop_front();
  current_ = lane;
  task();
  current_ = nullptr;
  return true;
}

size_t ManualRuntime::RunUntilIdle(size_t limit) {
  size_t ran = 0;
  while (RunOne()) {
    if (++ran >= limit) {
      livelocked_ = true;
      break;
    }
  }
  return ran;
}

void ManualRuntime::FireTimersDue() {
  while (!timers_.empty() && timers_.begin()->first.first <= now_.count()) {
    auto node = timers_.extract(timers_.begin());
    timer_due_.erase(node.key().second);
    node.mapped().lane->Fire(node.key().second, std::move(node.mapped().task));
  }
}

std::chrono::nanoseconds ManualRuntime::UntilNextTimer() const {
  if (timers_.empty()) return std::chrono::nanoseconds(-1);
  return std::chrono::nanoseconds(
      std::max<int64_t>(0, timers_.begin()->first.first - now_.count()));
}

void ManualRuntime::Advance(std::chrono::nanoseconds span) {
  const std::chrono::nanoseconds end = now_ + span;
  RunUntilIdle();
  while (!livelocked_ && !timers_.empty() && timers_.begin()->first.first <= end.count()) {
    now_ = std::max(now_, std::chrono::nanoseconds(timers_.begin()->first.first));
    RunUntilIdle();
  }
  now_ = end;
}

bool ManualRuntime::RunUntil(const std::function<bool()>& condition,
                             std::chrono::nanoseconds span) {
  const std::chrono::nanoseconds end = now_ + span;
  size_t ran = 0;
  while (true) {
    if (condition()) return true;
    if (RunOne()) {
      if (++ran >= 10'000'000) {
        livelocked_ = true;
        return false;
      }
      continue;
    }
    if (timers_.empty() || timers_.begin()->first.first > end.count()) break;
    now_ = std::max(now_, std::chrono::nanoseconds(timers_.begin()->first.first));
  }
  now_ = end;
  return condition();
}

}  // namespace kmirror::conformance
