// Delay before the next try after failures in a row: doubles from `initial` to `max`, spread by
// +-20 % so that many waiters of one source do not come back together (R10). Pure.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>

namespace kmirror::fetcher {

class Backoff {
 public:
  using Duration = std::chrono::nanoseconds;

  Backoff(Duration initial, Duration max) : initial_(initial), max_(max) {}

  // The delay after one more failure. `random`: 64 uniform bits.
  Duration Next(uint64_t random) {
    const int shift = std::min(failures_, 30);
    ++failures_;
    Duration base = max_;
    if (initial_.count() <= (max_.count() >> shift)) base = Duration(initial_.count() << shift);
    const int64_t fifth = base.count() / 5;
    const int64_t spread = 2 * fifth + 1;
    return base - Duration(fifth) +
           Duration(static_cast<int64_t>(random % static_cast<uint64_t>(spread)));
  }
  void Reset() { failures_ = 0; }
  int failures() const { return failures_; }

 private:
  Duration initial_;
  Duration max_;
  int failures_ = 0;
};

}  // namespace kmirror::fetcher
