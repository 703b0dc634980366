#include "tools/kmirror/waiting.h"

#include <algorithm>
#include <thread>

#include "tools/kmirror/output.h"

namespace kmirror::tools {
namespace {

using Clock = std::chrono::steady_clock;

bool Done(Verb verb, const PartitionRow& row) {
  switch (verb) {
    case Verb::kPause: return row.state == "PAUSED";
    case Verb::kStop: return row.state == "STOPPED";
    case Verb::kRecover: return row.state != "FAILED";
    default: return row.CaughtUp();
  }
}

// A stop takes over what has failed for good, and a recover tries it again: until that shows, a
// description still tells the old failure.
bool LeavesFailed(Verb verb) { return verb == Verb::kStop || verb == Verb::kRecover; }

const char* Word(Verb verb) {
  switch (verb) {
    case Verb::kPause: return "paused";
    case Verb::kStop: return "stopped";
    case Verb::kRecover: return "no longer failed";
    default: return "caught up";
  }
}

// One line that is rewritten on a terminal, and a line a change (at most one a second) elsewhere.
class ProgressLine {
 public:
  ProgressLine(bool live, std::ostream& err) : live_(live), err_(err) {}
  ~ProgressLine() {
    if (live_ && shown_) err_ << '\n' << std::flush;
  }
  void Show(const std::string& text) {
    const Clock::time_point now = Clock::now();
    if (live_) {
      err_ << "\r\033[K" << text << std::flush;
    } else if (text != last_ && (!shown_ || now - at_ >= std::chrono::seconds(1))) {
      err_ << text << std::endl;
      last_ = text;
      at_ = now;
    }
    shown_ = true;
  }

 private:
  bool live_;
  std::ostream& err_;
  bool shown_ = false;
  std::string last_;
  Clock::time_point at_;
};

}  // namespace

Reached Compare(const Goal& goal, const std::vector<PartitionRow>& rows) {
  Reached reached;
  std::map<std::string, int32_t> seen;
  for (const PartitionRow& row : rows) {
    if (row.mirror != goal.mirror || !goal.topics.contains(row.topic)) continue;
    ++seen[row.topic];
    ++reached.states[row.state];
    reached.greatest_lag = std::max(reached.greatest_lag, row.lag);
    if (row.state == "MIRRORING" && row.lag < 0) ++reached.unknown_lags;
    if (Done(goal.verb, row)) {
      ++reached.done;
    } else {
      reached.missing.push_back(row);
      if (!LeavesFailed(goal.verb) && row.state == "FAILED" && row.retry_attempt < 0) {
        reached.hopeless.push_back(row);
      }
    }
  }
  for (const auto& [topic, partitions] : goal.topics) {
    reached.total += std::max(partitions, seen[topic]);
  }
  return reached;
}

std::string ProgressText(const Goal& goal, const Reached& reached) {
  std::string text = std::to_string(reached.done) + " of " + std::to_string(reached.total) +
                     " partitions " + Word(goal.verb) + "; " + StatesText(reached.states);
  if (goal.verb == Verb::kStart || goal.verb == Verb::kResume) {
    if (reached.greatest_lag >= 0) {
      text += "; greatest lag " + std::to_string(reached.greatest_lag);
    }
    if (reached.unknown_lags > 0) text += "; lag unknown " + std::to_string(reached.unknown_lags);
  }
  return text;
}

WaitEnd WaitFor(MirrorAdmin& admin, const Goal& goal, std::chrono::milliseconds patience,
                std::chrono::milliseconds interval, bool live, std::ostream& err) {
  const Clock::time_point deadline = Clock::now() + patience;
  std::vector<std::string> reasons;
  WaitEnd end = WaitEnd::kRanOut;
  {
    ProgressLine progress(live, err);
    while (true) {
      const Result<Description> description = admin.Describe(goal.mirror);
      if (!description.ok()) {
        progress.Show("no answer: " + description.status().message());
        reasons = {"the cluster does not answer: " + description.status().ToString()};
      } else {
        const Reached reached = Compare(goal, description->rows);
        progress.Show(ProgressText(goal, reached));
        if (reached.complete()) return WaitEnd::kReached;
        reasons = description->silent;
        for (const PartitionRow& row : reached.missing) {
          std::string reason = row.topic + "-" + std::to_string(row.partition) + " is " + row.state;
          if (!row.step.empty()) reason += " (" + row.step + ")";
          if (row.error_message) reason += ": " + *row.error_message;
          reasons.push_back(std::move(reason));
        }
        if (!reached.hopeless.empty()) {
          end = WaitEnd::kHopeless;
          break;
        }
      }
      const auto left =
          std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Clock::now());
      if (left <= std::chrono::milliseconds(0)) break;
      std::this_thread::sleep_for(std::min(interval, left));
    }
  }
  constexpr size_t kShown = 10;
  for (size_t i = 0; i < reasons.size() && i < kShown; ++i) err << "  " << reasons[i] << '\n';
  if (reasons.size() > kShown) err << "  and " << reasons.size() - kShown << " more\n";
  return end;
}

}  // namespace kmirror::tools
