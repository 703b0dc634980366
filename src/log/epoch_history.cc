#include "kmirror/log/epoch_history.h"

#include <algorithm>
#include <charconv>

namespace kmirror::log {

bool EpochHistory::AssignSlow(int32_t epoch, int64_t start_offset) {
  if (epoch < 0 || start_offset < 0) return false;
  while (!entries_.empty() &&
         (entries_.back().epoch >= epoch || entries_.back().start_offset >= start_offset)) {
    entries_.pop_back();
  }
  entries_.push_back({epoch, start_offset});
  return true;
}

EpochEnd EpochHistory::EndOffsetFor(int32_t epoch, int64_t log_end_offset) const {
  if (epoch < 0 || entries_.empty()) return {};
  if (epoch == entries_.back().epoch) return {epoch, log_end_offset};
  const auto above =
      std::upper_bound(entries_.begin(), entries_.end(), epoch,
                       [](int32_t value, const EpochStart& entry) { return value < entry.epoch; });
  if (above == entries_.end()) return {};
  if (above == entries_.begin()) return {epoch, above->start_offset};
  return {std::prev(above)->epoch, above->start_offset};
}

std::optional<int32_t> EpochHistory::EpochForOffset(int64_t offset) const {
  const auto above = std::upper_bound(
      entries_.begin(), entries_.end(), offset,
      [](int64_t value, const EpochStart& entry) { return value < entry.start_offset; });
  if (above == entries_.begin()) return std::nullopt;
  return std::prev(above)->epoch;
}

std::optional<EpochStart> EpochHistory::Previous(int32_t epoch) const {
  for (auto entry = entries_.rbegin(); entry != entries_.rend(); ++entry) {
    if (entry->epoch < epoch) return *entry;
  }
  return std::nullopt;
}

bool EpochHistory::TruncateFromEnd(int64_t offset) {
  const size_t before = entries_.size();
  while (!entries_.empty() && entries_.back().start_offset >= offset) entries_.pop_back();
  return entries_.size() != before;
}

bool EpochHistory::TruncateFromStart(int64_t offset) {
  size_t dropped = 0;
  while (dropped < entries_.size() && entries_[dropped].start_offset <= offset) ++dropped;
  if (dropped == 0) return false;
  if (dropped == 1 && entries_[0].start_offset == offset) return false;
  // The last of them still covers `offset`.
  entries_[dropped - 1].start_offset = offset;
  entries_.erase(entries_.begin(), entries_.begin() + static_cast<std::ptrdiff_t>(dropped - 1));
  return true;
}

bool EpochHistory::LowerStart(int32_t epoch, int64_t offset) {
  if (entries_.empty() || offset < 0) return false;
  const EpochStart last = entries_.back();
  if (last.epoch != epoch || last.start_offset <= offset) return false;
  return AssignSlow(epoch, offset);
}

void EpochHistory::Clear() { entries_.clear(); }

std::string EpochHistory::Encode() const {
  std::string text = "0\n" + std::to_string(entries_.size()) + "\n";
  for (const EpochStart& entry : entries_) {
    text += std::to_string(entry.epoch) + " " + std::to_string(entry.start_offset) + "\n";
  }
  return text;
}

Result<EpochHistory> EpochHistory::Decode(std::string_view text) {
  int line_number = 0;
  const auto bad = [&](std::string_view what) {
    return Status(
        ErrorCode::kCorruptMessage,
        "leader epoch checkpoint, line " + std::to_string(line_number) + ": " + std::string(what));
  };
  const auto next_line = [&](std::string_view* line) {
    if (text.empty()) return false;
    const size_t end = text.find('\n');
    *line = text.substr(0, end);
    text = end == std::string_view::npos ? std::string_view() : text.substr(end + 1);
    ++line_number;
    return true;
  };
  const auto number = [](std::string_view* from, auto* value) {
    const auto [end, error] = std::from_chars(from->data(), from->data() + from->size(), *value);
    if (error != std::errc()) return false;
    from->remove_prefix(static_cast<size_t>(end - from->data()));
    return true;
  };
  std::string_view line;
  int32_t version = -1;
  int64_t count = -1;
  if (!next_line(&line) || !number(&line, &version) || !line.empty() || version != 0) {
    return bad("version 0 expected");
  }
  if (!next_line(&line) || !number(&line, &count) || !line.empty() || count < 0) {
    return bad("number of entries expected");
  }
  EpochHistory history;
  while (next_line(&line)) {
    EpochStart entry;
    if (!number(&line, &entry.epoch) || line.empty() || line.front() != ' ') {
      return bad("\"epoch start\" expected");
    }
    line.remove_prefix(1);
    if (!number(&line, &entry.start_offset) || !line.empty() || entry.epoch < 0 ||
        entry.start_offset < 0) {
      return bad("\"epoch start\" expected");
    }
    if (!history.entries_.empty() && (entry.epoch <= history.entries_.back().epoch ||
                                      entry.start_offset <= history.entries_.back().start_offset)) {
      return bad("epochs or offsets do not increase");
    }
    history.entries_.push_back(entry);
  }
  if (static_cast<int64_t>(history.entries_.size()) != count) {
    return bad("another number of entries than line 2 says");
  }
  return history;
}

}  // namespace kmirror::log
