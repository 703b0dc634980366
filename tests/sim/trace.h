// What happened in a run, as one number and as the last lines of text.
//
// Everything that happens is mixed into the hash: two runs of one seed are the same run exactly
// when their hashes are equal. Lines are for a person who looks at a failure.
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <string>
#include <string_view>

#include "kmirror/types.h"

namespace kmirror::sim {

class Trace {
 public:
  static constexpr size_t kKeptLines = 200;

  void SetClock(std::function<std::chrono::nanoseconds()> now) { now_ = std::move(now); }
  // Lines also go to stderr as they come.
  void Echo(bool on) { echo_ = on; }
  bool echo() const { return echo_; }

  void Mix(uint64_t value) {
    hash_ ^= value;
    hash_ *= 0x9E3779B97F4A7C15u;
    hash_ ^= hash_ >> 29;
  }
  void Mix(std::string_view text);
  void Mix(ByteView bytes) {
    Mix(std::string_view(reinterpret_cast<const char*>(bytes.data()), bytes.size()));
  }
  // Time and text go into the hash, the line into the last lines.
  void Line(std::string_view who, std::string_view what);
  // Counts a fault that was injected, or a situation that was met.
  void Count(const std::string& what, int64_t by = 1) { counts_[what] += by; }

  uint64_t hash() const { return hash_; }
  const std::map<std::string, int64_t>& counts() const { return counts_; }
  std::string LastLines() const;

 private:
  std::function<std::chrono::nanoseconds()> now_;
  bool echo_ = false;
  uint64_t hash_ = 1;
  std::deque<std::string> lines_;
  std::map<std::string, int64_t> counts_;
};

}  // namespace kmirror::sim
