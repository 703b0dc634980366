// A host::Runtime without threads and without a clock of its own: every lane runs on the caller's
// thread, time moves only when the test moves it, and the same seed gives the same run.
//
//   ManualRuntime runtime(/*seed=*/7);
//   auto lane = runtime.NewLane("coordinator");
//   lane->RunAfter(std::chrono::seconds(1), [] { ... });
//   runtime.Advance(std::chrono::seconds(1));
//
// Single-threaded: everything, NewLane and Post included, is called from one thread.
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "kmirror/host/runtime.h"

namespace kmirror::conformance {

class ManualRuntime final : public host::Runtime {
 public:
  struct LogLine {
    host::LogLevel level;
    std::string area;
    std::string line;
  };

  explicit ManualRuntime(uint64_t seed = 1) : random_(seed), shuffle_(seed) {}
  // REQUIRES: every lane is destroyed.
  ~ManualRuntime() override;

  std::unique_ptr<host::Lane> NewLane(std::string_view name) override;
  std::chrono::nanoseconds MonotonicNow() const override { return now_; }
  int64_t WallMs() const override {
    return wall_start_ms_ + std::chrono::duration_cast<std::chrono::milliseconds>(now_).count();
  }
  uint64_t Random() override { return random_(); }
  void Log(host::LogLevel level, std::string_view area, std::string_view line) noexcept override;

  // Runs posted tasks until there is none, without moving the clock. Returns how many ran. A run of
  // more than `limit` tasks is taken for a livelock: it stops there and `livelocked()` is true.
  size_t RunUntilIdle(size_t limit = 1'000'000);
  // Runs exactly one posted task; false if there is none.
  bool RunOne();
  // Moves the clock forward by `span`, stopping at every timer on the way; idle afterwards.
  void Advance(std::chrono::nanoseconds span);
  // Lets time pass from timer to timer until `condition` holds; checked after every task. False if
  // it does not hold after `span` of this clock (which then has passed).
  bool RunUntil(const std::function<bool()>& condition,
                std::chrono::nanoseconds span = std::chrono::minutes(10));
  // The next timer's distance from now; nullopt-like negative when there is none.
  std::chrono::nanoseconds UntilNextTimer() const;

  // With it, ready lanes are chosen at random (by seed) instead of in the order of posting. The
  // order inside one lane stays.
  void ShuffleLanes(bool on) { shuffle_lanes_ = on; }
  // Time passes and nothing runs, as when the whole machine stood still. Also within a task.
  void Stall(std::chrono::nanoseconds span) { now_ += span; }
  // Wall clocks jump; this one does when told.
  void JumpWallClock(std::chrono::milliseconds by) { wall_start_ms_ += by.count(); }

  const std::vector<LogLine>& lines() const { return lines_; }
  void ClearLines() { lines_.clear(); }
  // Sees every line as it is logged.
  void WatchLines(std::function<void(const LogLine&)> watch) { watch_line_ = std::move(watch); }
  // Number of lines that contain `text`.
  size_t CountLines(std::string_view text) const;
  // Lines go there and are not kept.
  using LineSink =
      std::function<void(host::LogLevel level, std::string_view area, std::string_view line)>;
  void SetLineSink(LineSink sink) { sink_ = std::move(sink); }
  // Also writes lines to stderr: for a person who debugs a test.
  void EchoLines(bool on) { echo_ = on; }

  bool livelocked() const { return livelocked_; }
  size_t lane_count() const { return lanes_.size(); }

 private:
  class ManualLane;
  struct Posted {
    uint64_t sequence;
    host::Lane::Task task;
  };
  struct Timer {
    ManualLane* lane;
    host::Lane::Task task;
  };
  using TimerKey = std::pair<int64_t, uint64_t>;  // due in ns, id

  ManualLane* PickLane();
  void FireTimersDue();

  std::chrono::nanoseconds now_{std::chrono::hours(1)};
  int64_t wall_start_ms_ = 1'800'000'000'000;
  std::mt19937_64 random_;
  std::mt19937_64 shuffle_;
  bool shuffle_lanes_ = false;
  bool echo_ = false;
  bool livelocked_ = false;
  uint64_t next_sequence_ = 1;
  std::vector<ManualLane*> lanes_;  // in order of creation; owned by whoever asked for them
  ManualLane* current_ = nullptr;
  std::map<TimerKey, Timer> timers_;
  std::map<uint64_t, int64_t> timer_due_;  // id -> due
  std::vector<LogLine> lines_;
  std::function<void(const LogLine&)> watch_line_;
  LineSink sink_;
};

}  // namespace kmirror::conformance
