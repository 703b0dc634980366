// Waiting for a condition with a deadline: the only way a test waits.
#pragma once

#include <chrono>
#include <functional>

namespace kmirror::test {

using Seconds = std::chrono::duration<double>;

// KMIRROR_TEST_TIME_FACTOR, 1 when unset: what every deadline below is multiplied by, so that one
// number fits a slow or instrumented machine.
double TimeFactor();

// A point in time from which on the test has failed. Deadlines are for failures only: be generous.
class Deadline {
 public:
  explicit Deadline(Seconds patience);
  bool Passed() const;
  // Never negative.
  std::chrono::milliseconds Left() const;

 private:
  std::chrono::steady_clock::time_point end_;
};

// Asks `condition` until it holds (true) or the deadline has passed (false). Asks at once, and once
// more after the deadline.
[[nodiscard]] bool WaitUntil(const std::function<bool()>& condition,
                             Seconds patience = Seconds(30));

}  // namespace kmirror::test
