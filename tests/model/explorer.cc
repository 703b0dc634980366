#include "tests/model/explorer.h"

#include <cstring>
#include <memory>
#include <string_view>

namespace kmirror::model {
namespace {

constexpr uint32_t kNone = UINT32_MAX;

uint64_t Hash(const World& world) {
  uint64_t words[(sizeof(World) + 7) / 8] = {};
  std::memcpy(words, &world, sizeof(World));
  uint64_t hash = 0x9e3779b97f4a7c15u;
  for (uint64_t word : words) {
    hash = (hash ^ word) * 0xff51afd7ed558ccdu;
    hash ^= hash >> 32;
  }
  return hash;
}

// Worlds by number, and which number a world has. Kept in blocks, so that they never move.
class Worlds {
 public:
  const World& operator[](uint32_t at) const { return blocks_[at / kBlock][at % kBlock]; }
  uint32_t size() const { return size_; }

  // The number, and whether it is new.
  std::pair<uint32_t, bool> Add(const World& world) {
    if ((size_ + 1) * 2 > slots_.size()) Grow();
    for (size_t at = Hash(world) & (slots_.size() - 1);; at = (at + 1) & (slots_.size() - 1)) {
      if (slots_[at] == kNone) {
        slots_[at] = size_;
        if (size_ % kBlock == 0) blocks_.push_back(std::make_unique<World[]>(kBlock));
        blocks_.back()[size_ % kBlock] = world;
        return {size_++, true};
      }
      if (std::memcmp(&(*this)[slots_[at]], &world, sizeof(World)) == 0) return {slots_[at], false};
    }
  }

 private:
  static constexpr uint32_t kBlock = 4096;
  void Grow() {
    std::vector<uint32_t> slots(slots_.empty() ? 1 << 16 : slots_.size() * 2, kNone);
    slots_.swap(slots);
    for (uint32_t i = 0; i < size_; ++i) {
      size_t at = Hash((*this)[i]) & (slots_.size() - 1);
      while (slots_[at] != kNone) at = (at + 1) & (slots_.size() - 1);
      slots_[at] = i;
    }
  }

  std::vector<std::unique_ptr<World[]>> blocks_;
  std::vector<uint32_t> slots_;
  uint32_t size_ = 0;
};

struct Origin {
  uint32_t parent = kNone;
  Label label;
};

std::string Example(const std::vector<Origin>& origins, const Worlds& worlds, uint32_t at,
                    const Label* last, const World& end, int* steps) {
  std::vector<std::string> lines;
  if (last != nullptr) lines.push_back(last->Text());
  for (; origins[at].parent != kNone; at = origins[at].parent) {
    lines.push_back(origins[at].label.Text());
  }
  *steps = static_cast<int>(lines.size());
  std::string text;
  for (size_t i = lines.size(); i-- > 0;) {
    text += "  " + std::to_string(lines.size() - i) + ". " + lines[i] + "\n";
  }
  (void)worlds;
  return text + "which is\n" + end.Text();
}

}  // namespace

Exploration Explore(const Machine& machine, uint64_t max_states) {
  Exploration result;
  Worlds worlds;
  std::vector<Origin> origins;
  std::vector<std::pair<uint32_t, uint32_t>> helping;  // (to, from)
  worlds.Add(machine.Start());
  origins.push_back({});
  uint32_t level_end = 1;
  for (uint32_t at = 0; at < worlds.size() && result.violation.empty(); ++at) {
    if (at == level_end) {
      ++result.depth;
      level_end = worlds.size();
    }
    const World from = worlds[at];
    machine.Successors(from, [&](Step& step, const Label& label, bool helps) {
      ++result.transitions;
      if (!step.broken.empty()) {
        if (!result.violation.empty()) return;
        result.violation = step.broken;
        result.example = Example(origins, worlds, at, &label, step.w, &result.example_steps);
        return;
      }
      for (int b = 0; b < kMaxBrokers; ++b) {
        const Node& n = step.w.node[b];
        if (n.writing == Writing::kAnswered && from.node[b].writing == Writing::kSent) {
          result.rules_taken.emplace(from.stored.state, n.write.event);
        }
      }
      const auto [to, added] = worlds.Add(step.w);
      if (added) origins.push_back({at, label});
      if (helps && to != at) helping.emplace_back(to, at);
    });
    if (worlds.size() > max_states) {
      result.complete = false;
      break;
    }
  }
  result.states = worlds.size();
  if (!result.violation.empty() || !result.complete) return result;

  // Backwards from where all is well. What is not met has no way there.
  std::vector<uint32_t> first(worlds.size() + 1, 0);
  for (const auto& [to, from] : helping) ++first[to + 1];
  for (size_t i = 1; i < first.size(); ++i) first[i] += first[i - 1];
  std::vector<uint32_t> before(helping.size());
  std::vector<uint32_t> next(first.begin(), first.end() - 1);
  for (const auto& [to, from] : helping) before[next[to]++] = from;
  std::vector<bool> met(worlds.size(), false);
  std::vector<uint32_t> queue;
  for (uint32_t at = 0; at < worlds.size(); ++at) {
    if (!Arrived(worlds[at], machine.scope())) continue;
    met[at] = true;
    queue.push_back(at);
  }
  while (!queue.empty()) {
    const uint32_t at = queue.back();
    queue.pop_back();
    for (uint32_t i = first[at]; i < first[at + 1]; ++i) {
      if (met[before[i]]) continue;
      met[before[i]] = true;
      queue.push_back(before[i]);
    }
  }
  for (uint32_t at = 0; at < worlds.size(); ++at) {
    if (met[at]) continue;
    result.violation = "13.9: no way leads to what is wanted";
    result.example = Example(origins, worlds, at, nullptr, worlds[at], &result.example_steps);
    break;
  }
  return result;
}

}  // namespace kmirror::model
