// What the host's process provides: serial executors with timers and fd readiness, clocks,
// randomness and a log sink. The library creates no thread and reads no clock of its own.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string_view>

#include "kmirror/status.h"

namespace kmirror::host {

// Told by a Lane that a watched descriptor is ready. Runs on that lane.
class FdHandler {
 public:
  virtual ~FdHandler() = default;
  // `events`: any of Lane::kReadable, kWritable, kError. Level-triggered: called again while ready.
  // May call Watch, Unwatch and delete itself after Unwatch.
  virtual void OnReady(uint32_t events) noexcept = 0;
};

// A serial executor: tasks, timers and readiness callbacks of one lane never overlap. Which thread
// runs them is the host's choice (a thread a lane, a pool with strands, or all lanes on one thread
// as the tests do). Tasks run in the order they were posted.
//
// Owned by the library (unique_ptr from Runtime::NewLane). Destroying a lane, on the lane itself or
// when it is idle, drops what has not run; no callback starts after the destructor returned.
class Lane {
 public:
  using Task = std::function<void()>;
  using TimerId = uint64_t;  // never 0 for a live timer
  static constexpr uint32_t kReadable = 1, kWritable = 2, kError = 4;

  virtual ~Lane() = default;

  // Thread-safe. Runs `task` later on this lane, never inline.
  virtual void Post(Task task) = 0;
  // Thread-safe. Runs `task` once, not before `delay` of the monotonic clock.
  virtual TimerId RunAfter(std::chrono::nanoseconds delay, Task task) = 0;
  // On the lane: after it returns the task does not run. Elsewhere: best effort. 0 and fired ids
  // are fine.
  virtual void Cancel(TimerId timer) = 0;
  // True on the lane. Used by assertions only.
  virtual bool InLane() const = 0;

  // On the lane. Starts, or changes, the watch of `fd` (non-blocking socket, owned by the caller).
  // kUnsupportedVersion: this runtime has no readiness (a simulation); use another transport.
  virtual Status Watch(int fd, uint32_t events, FdHandler* handler) = 0;
  // On the lane, before the descriptor is closed. No callback for it follows.
  virtual void Unwatch(int fd) = 0;
};

enum class LogLevel : uint8_t { kTrace, kDebug, kInfo, kWarn, kError };

// Thread-safe. Owned by the host; outlives everything it made.
class Runtime {
 public:
  virtual ~Runtime() = default;

  // `name` is for logs and thread names, e.g. "coordinator", "MirrorFetcherThread-0-1-m".
  virtual std::unique_ptr<Lane> NewLane(std::string_view name) = 0;

  // Never goes back; the zero is arbitrary. All delays, timeouts, quotas and ages use it.
  virtual std::chrono::nanoseconds MonotonicNow() const = 0;
  // Milliseconds since 1970. May jump. Only for timestamps written into records.
  virtual int64_t WallMs() const = 0;
  // Uniform 64 bits (jitter). A simulation returns a seeded sequence.
  virtual uint64_t Random() = 0;

  // One line, already formatted as `key=value` fields. `area` is like "kmirror.fetcher". Must not
  // call back into the library, must not block for long.
  virtual void Log(LogLevel level, std::string_view area, std::string_view line) noexcept = 0;
};

}  // namespace kmirror::host
