#include "tests/support/wait_until.h"

#include <algorithm>
#include <cstdlib>
#include <thread>

namespace kmirror::test {

double TimeFactor() {
  const char* text = std::getenv("KMIRROR_TEST_TIME_FACTOR");
  const double factor = text != nullptr ? std::strtod(text, nullptr) : 0;
  return factor > 0 ? factor : 1;
}

Deadline::Deadline(Seconds patience)
    : end_(std::chrono::steady_clock::now() +
           std::chrono::duration_cast<std::chrono::steady_clock::duration>(patience *
                                                                           TimeFactor())) {}

bool Deadline::Passed() const { return std::chrono::steady_clock::now() >= end_; }

std::chrono::milliseconds Deadline::Left() const {
  return std::max(std::chrono::milliseconds(0), std::chrono::ceil<std::chrono::milliseconds>(
                                                    end_ - std::chrono::steady_clock::now()));
}

bool WaitUntil(const std::function<bool()>& condition, Seconds patience) {
  const Deadline deadline(patience);
  auto pause = std::chrono::milliseconds(1);
  while (!condition()) {
    if (deadline.Passed()) return condition();
    std::this_thread::sleep_for(pause);
    pause = std::min(pause * 2, std::chrono::milliseconds(50));
  }
  return true;
}

}  // namespace kmirror::test
