#include "tests/sim/trace.h"

#include <cstdio>
#include <cstring>

namespace kmirror::sim {

void Trace::Mix(std::string_view text) {
  size_t at = 0;
  for (; at + 8 <= text.size(); at += 8) {
    uint64_t word = 0;
    std::memcpy(&word, text.data() + at, 8);
    Mix(word);
  }
  uint64_t last = text.size();
  for (; at < text.size(); ++at) last = last << 8 | static_cast<uint8_t>(text[at]);
  Mix(last);
}

void Trace::Line(std::string_view who, std::string_view what) {
  const int64_t now = now_ ? now_().count() : 0;
  Mix(static_cast<uint64_t>(now));
  Mix(what);
  char time[32];
  std::snprintf(time, sizeof time, "%12.6f ", static_cast<double>(now) / 1e9);
  std::string line(time);
  line.append(who).append(" ").append(what);
  if (echo_) std::fprintf(stderr, "%s\n", line.c_str());
  lines_.push_back(std::move(line));
  if (lines_.size() > kKeptLines) lines_.pop_front();
}

std::string Trace::LastLines() const {
  std::string all;
  for (const std::string& line : lines_) all += line + "\n";
  return all;
}

}  // namespace kmirror::sim
