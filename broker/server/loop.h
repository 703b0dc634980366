// A network thread, as the code that answers requests sees it.
#pragma once

#include <chrono>
#include <functional>
#include <memory>

namespace kmirror::broker {

class Loop {
 public:
  using Task = std::function<void()>;
  // Destroying it cancels: the task does not run afterwards. On the loop's thread only.
  class Timer {
   public:
    virtual ~Timer() = default;
  };

  virtual ~Loop() = default;
  // Thread-safe; never inline. Dropped when the loop has stopped.
  virtual void Post(Task task) = 0;
  // On the loop's thread.
  virtual std::unique_ptr<Timer> After(std::chrono::milliseconds delay, Task task) = 0;
};

}  // namespace kmirror::broker
