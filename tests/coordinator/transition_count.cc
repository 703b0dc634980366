#include "tests/coordinator/transition_count.h"

#include <fcntl.h>
#include <unistd.h>

#include <cstdlib>
#include <map>
#include <string>
#include <vector>

#include "src/statemachine/partition_rules.h"

namespace kmirror::coordinator {
namespace {

std::string Value(std::string_view line, std::string_view key) {
  const size_t at = line.find(key);
  if (at == std::string_view::npos) return {};
  const std::string_view rest = line.substr(at + key.size());
  return std::string(rest.substr(0, rest.find(' ')));
}

class Counts {
 public:
  void Add(std::string transition) { ++taken_[std::move(transition)]; }

  ~Counts() {
    const char* path = std::getenv("KMIRROR_TRANSITIONS_FILE");
    if (path == nullptr || *path == 0) return;
    std::string text;
    for (const std::string& rule : Rules()) text += "rule " + rule + "\n";
    for (const auto& [transition, count] : taken_) {
      text += "taken " + transition + " " + std::to_string(count) + "\n";
    }
    const int file = open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0644);
    if (file < 0) return;
    // One write a process: lines of processes that end together do not mix.
    [[maybe_unused]] const ssize_t written = write(file, text.data(), text.size());
    close(file);
  }

 private:
  // The table, with the rule whose target depends on the record once for each target.
  static std::vector<std::string> Rules() {
    using statemachine::PartitionEvent;
    std::vector<std::string> rules;
    for (const statemachine::Rule& rule : statemachine::PartitionRules()) {
      const std::string begin =
          std::string(StateName(rule.from)) + " " + std::string(EventName(rule.on)) + " ";
      if (rule.on != PartitionEvent::kRetryDue) {
        rules.push_back(begin + std::string(StateName(rule.to)));
        continue;
      }
      for (const auto to : {MirrorPartitionState::kPreparing, MirrorPartitionState::kMirroring,
                            MirrorPartitionState::kPausing, MirrorPartitionState::kStopping}) {
        rules.push_back(begin + std::string(StateName(to)));
      }
    }
    return rules;
  }

  std::map<std::string, int64_t> taken_;
};

}  // namespace

void CountTransition(std::string_view line) {
  static Counts counts;
  std::string from;
  std::string to;
  if (line.find(" event=state-change ") != std::string_view::npos) {
    from = Value(line, " from=");
    to = Value(line, " to=");
  } else if (line.find(" event=state-written ") != std::string_view::npos) {
    from = to = Value(line, " state=");
  } else {
    return;
  }
  counts.Add(from + " " + Value(line, " cause=") + " " + to);
}

}  // namespace kmirror::coordinator
