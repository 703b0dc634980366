// Delays of FAILED partitions and of control retries. Pure: randomness comes in as an argument.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>

namespace kmirror::statemachine {

// initial * 2^attempt, capped, then spread by +-20 % (coordinator.md 2.5). `random`: uniform 64
// bits.
inline std::chrono::milliseconds RetryDelay(std::chrono::milliseconds initial,
                                            std::chrono::milliseconds cap, int attempt,
                                            uint64_t random) {
  const int doublings = std::clamp(attempt, 0, 40);
  double delay = static_cast<double>(std::max<int64_t>(initial.count(), 1));
  for (int i = 0; i < doublings && delay < static_cast<double>(cap.count()); ++i) delay *= 2;
  delay = std::min(delay, static_cast<double>(cap.count()));
  const double spread = static_cast<double>(random >> 11) / static_cast<double>(1ull << 53);
  return std::chrono::milliseconds(static_cast<int64_t>(delay * (0.8 + 0.4 * spread)));
}

}  // namespace kmirror::statemachine
