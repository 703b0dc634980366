// A host::Runtime on threads: every lane is one thread with an epoll of its own. For processes that
// have no event loop to offer (kmirrord, benchmarks, tests over real sockets).
//
// Thread-safe. REQUIRES at destruction: every lane it made has been destroyed. A lane may be
// destroyed on itself; its thread then ends after the running callback, and the runtime's
// destructor waits for it.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>

#include "kmirror/host/runtime.h"
#include "kmirror/status.h"

namespace kmirror::net {

class KMIRROR_API EpollRuntime : public host::Runtime {
 public:
  // Called on any thread, several at once; see host::Runtime::Log. Empty: log lines are dropped.
  using LogSink = std::function<void(host::LogLevel, std::string_view area, std::string_view line)>;

  explicit EpollRuntime(LogSink log);
  ~EpollRuntime() override;

  // The thread's name is the first 15 bytes of `name`.
  std::unique_ptr<host::Lane> NewLane(std::string_view name) override;
  std::chrono::nanoseconds MonotonicNow() const override;
  int64_t WallMs() const override;
  uint64_t Random() override;
  void Log(host::LogLevel level, std::string_view area, std::string_view line) noexcept override;

  struct Shared;  // what lanes need of the runtime

 private:
  LogSink log_;
  std::shared_ptr<Shared> shared_;
};

}  // namespace kmirror::net
