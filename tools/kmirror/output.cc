#include "tools/kmirror/output.h"

#include <algorithm>
#include <cstdio>
#include <iomanip>

namespace kmirror::tools {
namespace {

constexpr const char* kLife[] = {"UNKNOWN",   "PREPARING", "EPOCH_FENCING", "ULE_RECOVERY",
                                 "MIRRORING", "PAUSING",   "PAUSED",        "STOPPING",
                                 "STOPPED",   "FAILED"};

std::string Number(int64_t value) { return value < 0 ? "-" : std::to_string(value); }
std::string OrDash(const std::string& text) { return text.empty() ? "-" : text; }

// A line of cells, each filled up to its width; the last one is not filled.
void PrintCells(const std::vector<std::pair<std::string, size_t>>& cells, std::ostream& out) {
  for (size_t i = 0; i < cells.size(); ++i) {
    const auto& [text, width] = cells[i];
    const std::string shown = Fit(text, width);
    out << shown;
    if (i + 1 == cells.size()) break;
    for (size_t at = shown.size(); at <= width; ++at) out << ' ';
  }
  out << '\n';
}

std::string Where(const PartitionRow& row) {
  return row.topic + "-" + std::to_string(row.partition);
}

std::string RetryText(const PartitionRow& row) {
  if (row.retry_attempt < 0) return "NonRetryable";
  return std::to_string(row.retry_attempt);
}

std::string AttentionText(const PartitionRow& row) {
  std::string text = row.mirror + " " + Where(row) + " " + row.state;
  if (!row.step.empty()) text += " (" + row.step + ")";
  if (row.state == "FAILED") {
    text += row.retry_attempt < 0 ? ", not retried" : ", retry " + RetryText(row);
  }
  if (row.error_message) text += ": " + *row.error_message;
  return text;
}

bool NeedsAttention(const PartitionRow& row) {
  return row.state == "FAILED" || row.error_message.has_value();
}

void PrintAttention(const std::vector<PartitionRow>& rows, std::ostream& out) {
  constexpr int kShown = 10;
  int count = 0;
  for (const PartitionRow& row : rows) {
    if (!NeedsAttention(row)) continue;
    if (count == 0) out << "\nNeeds attention:\n";
    if (++count <= kShown) out << "  " << AttentionText(row) << '\n';
  }
  if (count > kShown) out << "  and " << count - kShown << " more (describe --failed)\n";
}

}  // namespace

std::string Fit(const std::string& text, size_t width) {
  if (text.size() <= width) return text;
  if (width <= 3) return text.substr(text.size() - width);
  return "..." + text.substr(text.size() - (width - 3));
}

std::string AgeText(int64_t ms) {
  char text[64];
  if (ms < 0) return "-";
  if (ms < 1000) {
    std::snprintf(text, sizeof text, "%lld ms", static_cast<long long>(ms));
  } else if (ms < 60'000) {
    std::snprintf(text, sizeof text, "%.1f s", static_cast<double>(ms) / 1000);
  } else {
    std::snprintf(text, sizeof text, "%lld min %lld s", static_cast<long long>(ms / 60'000),
                  static_cast<long long>(ms / 1000 % 60));
  }
  return text;
}

std::string StatesText(const std::map<std::string, int>& states) {
  std::string text;
  auto add = [&](const std::string& state, int count) {
    text += (text.empty() ? "" : ", ") + state + " " + std::to_string(count);
  };
  for (const char* state : kLife) {
    if (const auto it = states.find(state); it != states.end()) add(it->first, it->second);
  }
  for (const auto& [state, count] : states) {
    const bool known = std::any_of(std::begin(kLife), std::end(kLife),
                                   [&](const char* name) { return state == name; });
    if (!known) add(state, count);
  }
  return OrDash(text);
}

std::vector<MirrorSummary> Summarise(const std::vector<ListedMirror>& mirrors,
                                     const std::vector<PartitionRow>& rows) {
  std::vector<MirrorSummary> summaries;
  for (const ListedMirror& mirror : mirrors) summaries.push_back({.mirror = mirror});
  for (const PartitionRow& row : rows) {
    auto it = std::find_if(summaries.begin(), summaries.end(),
                           [&](const auto& summary) { return summary.mirror.name == row.mirror; });
    if (it == summaries.end()) {
      summaries.push_back({.mirror = {.name = row.mirror}});
      it = summaries.end() - 1;
    }
    it->rows.push_back(row);
    ++it->states[row.state];
    if (row.lag > it->greatest_lag) {
      it->greatest_lag = row.lag;
      it->greatest_lag_age_ms = row.lag_age_ms;
    } else if (row.lag >= 0 && row.lag == it->greatest_lag) {
      it->greatest_lag_age_ms = std::max(it->greatest_lag_age_ms, row.lag_age_ms);
    }
    if (row.state == "MIRRORING" && row.lag < 0) ++it->unknown_lags;
  }
  return summaries;
}

void PrintList(const std::vector<ListedMirror>& mirrors, std::ostream& out) {
  if (mirrors.empty()) {
    out << "No mirrors found\n";
    return;
  }
  PrintCells(
      {{"MIRROR", 30}, {"TOPICS", 10}, {"SOURCE-CLUSTER-ID", 26}, {"SOURCE-BOOTSTRAP-SERVER", 50}},
      out);
  for (const ListedMirror& mirror : mirrors) {
    PrintCells({{mirror.name, 30},
                {std::to_string(mirror.topic_count), 10},
                {OrDash(mirror.source_cluster_id), 26},
                {OrDash(mirror.source_bootstrap), 50}},
               out);
  }
}

void PrintDescription(const std::vector<PartitionRow>& rows, std::ostream& out) {
  if (rows.empty()) {
    out << "No mirror partitions found\n";
    return;
  }
  PrintCells({{"MIRROR", 30},
              {"TOPIC", 40},
              {"PARTITION", 10},
              {"SOURCE-OFFSET", 15},
              {"DESTINATION-OFFSET", 18},
              {"LAG", 10},
              {"STATE", 12}},
             out);
  for (const PartitionRow& row : rows) {
    PrintCells({{row.mirror, 30},
                {row.topic, 40},
                {std::to_string(row.partition), 10},
                {Number(row.source_offset), 15},
                {Number(row.destination_offset), 18},
                {Number(row.lag), 10},
                {row.state, 13}},
               out);
  }
  PrintAttention(rows, out);
}

void PrintFailed(const std::vector<PartitionRow>& rows, std::ostream& out) {
  bool any = false;
  for (const PartitionRow& row : rows) {
    if (row.state != "FAILED") continue;
    if (!any) {
      PrintCells({{"MIRROR", 30}, {"TOPIC", 40}, {"PARTITION", 10}, {"RETRY", 12}, {"ERROR", 80}},
                 out);
    }
    any = true;
    PrintCells({{row.mirror, 30},
                {row.topic, 40},
                {std::to_string(row.partition), 10},
                {RetryText(row), 12}},
               out);
    // Reasons are cut on the right: they begin with what went wrong.
    std::string error = row.error_message.value_or("-");
    if (error.size() > 80) error = error.substr(0, 77) + "...";
    out << "    " << error << '\n';
  }
  if (!any) out << "No failed partitions found\n";
}

void PrintStatus(const std::vector<MirrorSummary>& summaries, std::ostream& out) {
  if (summaries.empty()) {
    out << "No mirrors found\n";
    return;
  }
  PrintCells({{"MIRROR", 24},
              {"SOURCE", 28},
              {"PARTITIONS", 10},
              {"GREATEST-LAG", 12},
              {"LAG-AGE", 12},
              {"STATES", 60}},
             out);
  std::vector<PartitionRow> all;
  for (const MirrorSummary& summary : summaries) {
    std::string states = StatesText(summary.states);
    if (summary.unknown_lags > 0) {
      states += "; lag unknown " + std::to_string(summary.unknown_lags);
    }
    PrintCells({{summary.mirror.name, 24},
                {OrDash(summary.mirror.source_bootstrap), 28},
                {std::to_string(summary.rows.size()), 10},
                {Number(summary.greatest_lag), 12},
                {AgeText(summary.greatest_lag_age_ms), 12},
                {states, 200}},
               out);
    all.insert(all.end(), summary.rows.begin(), summary.rows.end());
  }
  PrintAttention(all, out);
}

}  // namespace kmirror::tools
