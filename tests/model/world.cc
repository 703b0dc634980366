#include "tests/model/world.h"

#include <algorithm>

namespace kmirror::model {

bool Log::Append(Kind what, int at_epoch) {
  if (size == kMaxLog) return false;
  kind[size] = what;
  epoch[size] = static_cast<uint8_t>(at_epoch);
  ++size;
  return true;
}

void Log::Cut(int end) {
  while (size > end) {
    --size;
    kind[size] = Kind::kData;
    epoch[size] = 0;
  }
}

int Log::LastStableOffset() const {
  int first = -1;
  for (int i = 0; i < size; ++i) {
    if (kind[i] == Kind::kOpens && first < 0) first = i;
    if (kind[i] == Kind::kCommit || kind[i] == Kind::kAbort) first = -1;
  }
  return first < 0 ? size : first;
}

bool Log::HasOpenTransaction() const { return LastStableOffset() < size; }

bool Log::OnlyMirrored() const {
  return std::all_of(kind.begin(), kind.begin() + size, [](Kind k) {
    return k == Kind::kData || k == Kind::kOpens || k == Kind::kCommit;
  });
}

int Log::Common(const Log& other) const {
  int i = 0;
  while (i < size && i < other.size && kind[i] == other.kind[i] && epoch[i] == other.epoch[i]) ++i;
  return i;
}

statemachine::LogShape Log::Shape() const {
  statemachine::LogShape shape;
  shape.end = size;
  for (int i = 0; i < size; ++i) {
    if (i == 0 || epoch[i] != epoch[i - 1]) shape.epochs.push_back({epoch[i], i});
  }
  return shape;
}

std::string Log::Text() const {
  std::string text;
  for (int i = 0; i < size; ++i) {
    text += (i == 0 ? "" : " ");
    text += "DOCLAR"[static_cast<size_t>(kind[i])];
    text += std::to_string(epoch[i]);
  }
  return "[" + text + "]";
}

std::string_view ReasonText(Reason reason) {
  constexpr std::array<std::string_view, 5> texts = {"", "disk", "source gone", "diverged",
                                                     "no common"};
  return texts[static_cast<size_t>(reason)];
}

Packed Packed::Of(const statemachine::PartitionRecord& record) {
  Packed packed;
  packed.state = static_cast<int8_t>(record.state);
  packed.previous = static_cast<int8_t>(record.previous);
  packed.leader_epoch = static_cast<int8_t>(record.leader_epoch);
  packed.state_epoch = static_cast<uint8_t>(record.state_epoch);
  packed.position_epoch = static_cast<int8_t>(record.position.epoch);
  packed.position_offset = static_cast<int8_t>(record.position.offset);
  packed.progress = static_cast<int8_t>(record.progress);
  packed.attempt = static_cast<int8_t>(record.attempt);
  for (int i = 0; i < 5; ++i) {
    if (record.reason == ReasonText(static_cast<Reason>(i))) packed.reason = static_cast<Reason>(i);
  }
  return packed;
}

statemachine::PartitionRecord Packed::Record() const {
  statemachine::PartitionRecord record;
  record.state = static_cast<MirrorPartitionState>(state);
  record.previous = static_cast<MirrorPartitionState>(previous);
  record.leader_epoch = leader_epoch;
  record.state_epoch = state_epoch;
  record.position = {position_epoch, position_offset};
  record.progress = static_cast<statemachine::Progress>(progress);
  record.attempt = attempt;
  record.reason = ReasonText(reason);
  return record;
}

Write Write::Of(statemachine::PartitionEvent event, const statemachine::Decision& decision) {
  const statemachine::StateWrite& from = decision.write;
  Write write;
  write.event = static_cast<uint8_t>(event);
  write.action = static_cast<uint8_t>(decision.action);
  write.state = static_cast<int8_t>(from.state);
  if (from.position) {
    write.has_position = 1;
    write.position_epoch = static_cast<int8_t>(from.position->epoch);
    write.position_offset = static_cast<int8_t>(from.position->offset);
  }
  if (from.progress) write.progress = static_cast<int8_t>(*from.progress);
  if (from.attempt) write.attempt = static_cast<int8_t>(*from.attempt);
  if (from.reason) {
    statemachine::PartitionRecord record;
    record.reason = *from.reason;
    write.has_reason = 1;
    write.reason = Packed::Of(record).reason;
  }
  return write;
}

statemachine::StateWrite Write::Make() const {
  statemachine::StateWrite made;
  made.state = static_cast<MirrorPartitionState>(state);
  made.leader_epoch = leader_epoch;
  made.expected_state_epoch = expected_state_epoch;
  if (has_position) made.position = statemachine::MirrorPosition{position_epoch, position_offset};
  if (progress >= 0) made.progress = static_cast<statemachine::Progress>(progress);
  if (attempt >= -1) made.attempt = attempt;
  if (has_reason) made.reason = std::string(ReasonText(reason));
  return made;
}

std::string Packed::Text() const {
  std::string text(StateName(State()));
  if (State() == MirrorPartitionState::kFailed) {
    text += " (was " + std::string(StateName(static_cast<MirrorPartitionState>(previous))) + ", " +
            std::string(ReasonText(reason)) + ")";
  }
  text += " progress=" + std::to_string(progress) + " attempt=" + std::to_string(attempt) +
          " epochs=" + std::to_string(leader_epoch) + "/" + std::to_string(state_epoch);
  if (HasPosition()) {
    text += " position=" + std::to_string(position_epoch) + "@" + std::to_string(position_offset);
  }
  return text;
}

std::string_view AtText(At at) {
  constexpr std::array<std::string_view, 34> texts = {
      "idle",           "taking over",     "resolve source",
      "await epoch",    "choose cut",      "write cut",
      "truncate",       "truncating",      "align",
      "resolve",        "await epoch",     "fetching",
      "refresh",        "await epoch",     "await replicas",
      "remove fetcher", "paused",          "stop",
      "stop truncate",  "stop truncating", "await replicated",
      "take position",  "write position",  "stop epoch",
      "await epoch",    "producer floor",  "abort",
      "aborting",       "resetting",       "sync",
      "finish",         "open writes",     "open",
      "failed"};
  return texts[static_cast<size_t>(at)];
}

std::string_view BudgetText(Budget budget) {
  constexpr std::array<std::string_view, kBudgets> texts = {
      "starts",      "stops",          "pauses+resumes",   "recovers",
      "deletes",     "kills",          "elections",        "shard moves",
      "late writes", "source batches", "source elections", "source truncations",
      "outages",     "source losses",  "local errors",     "produces"};
  return texts[budget];
}

std::string World::Text() const {
  auto wish = [](int8_t d) {
    return d < 0 ? "none" : d == 3 ? "MIRRORING" : d == 5 ? "PAUSED" : "STOPPED";
  };
  std::string text = "  wanted " + std::string(wish(desired)) + ", leader " +
                     std::to_string(leader) + " epoch " + std::to_string(leader_epoch) +
                     ", in sync " + std::to_string(in_sync) + "\n  stored " + stored.Text() +
                     (shard_loaded ? "" : " (shard not loaded)") + (late ? ", a late write" : "") +
                     "\n  source " + source.Text() + " epoch " + std::to_string(source_epoch) +
                     (source_up ? "" : " down") + (source_gone ? " gone" : "") + "\n";
  for (int b = 0; b < kMaxBrokers; ++b) {
    const Node& n = node[b];
    text += "  broker " + std::to_string(b) + " log " + log[b].Text();
    if (!n.up) {
      text += " down\n";
      continue;
    }
    text += " sees epoch " + std::to_string(n.epoch) + " wanted " + wish(n.desired);
    if (n.leads) {
      text += n.loaded ? ", " + n.record.Text() + ", at '" + std::string(AtText(n.at)) + "'"
                       : std::string(", reads its state");
      if (n.writing != Writing::kNo) {
        text += ", writes " +
                std::string(EventName(static_cast<statemachine::PartitionEvent>(n.write.event))) +
                " (" + std::to_string(static_cast<int>(n.writing)) + ")";
      }
    }
    if (n.fetcher) text += ", fetches";
    if (n.open) text += ", open";
    text += '\n';
  }
  return text;
}

}  // namespace kmirror::model
