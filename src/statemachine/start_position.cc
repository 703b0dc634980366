#include "src/statemachine/start_position.h"

#include <algorithm>

namespace kmirror::statemachine {
namespace {

// End of `epoch` in the log: the start of the next higher one; nullopt above every local epoch.
std::optional<int64_t> EndOf(const LogShape& log, int32_t epoch) {
  if (log.epochs.empty() || epoch > log.epochs.back().epoch) return std::nullopt;
  if (epoch == log.epochs.back().epoch) return log.end;
  for (const EpochStart& entry : log.epochs) {
    if (entry.epoch > epoch) return entry.start_offset;
  }
  return log.end;
}

}  // namespace

MirrorPosition Later(const MirrorPosition& a, const MirrorPosition& b) {
  if (a.epoch != b.epoch) return a.epoch > b.epoch ? a : b;
  return a.offset > b.offset ? a : b;
}

int64_t CutForPosition(const LogShape& log, const MirrorPosition& position) {
  // An epoch above every local one: all local epochs up to it have one writer, the offset alone
  // cuts.
  int64_t cut = position.epoch < 0 ? log.end : EndOf(log, position.epoch).value_or(log.end);
  if (position.offset >= 0) cut = std::min(cut, position.offset);
  return std::min(cut, log.end);
}

LogShape CutShape(LogShape log, int64_t offset) {
  log.end = std::min(log.end, offset);
  log.log_start = std::min(log.log_start, log.end);
  while (!log.epochs.empty() && log.epochs.back().start_offset >= log.end) log.epochs.pop_back();
  return log;
}

EpochExchange::EpochExchange(LogShape log) : log_(std::move(log)) {
  if (log_.IsEmpty()) {
    cut_ = log_.end;
  } else if (!log_.epochs.empty()) {
    Ask(log_.epochs.back().epoch);
  }
  // Not empty and no epoch (v0 and v1 entries only): nothing to ask with, Cut() stays unknown.
}

void EpochExchange::Ask(int32_t below_or_equal) {
  question_.reset();
  for (auto it = log_.epochs.rbegin(); it != log_.epochs.rend(); ++it) {
    if (it->epoch <= below_or_equal) {
      question_ = it->epoch;
      return;
    }
  }
}

void EpochExchange::Answer(int32_t epoch, int64_t end_offset) {
  const int32_t asked = *question_;
  if (end_offset < 0 || epoch < 0) {
    // The source never had this epoch, or nothing it can place. Data of it is not the source's:
    // try the next lower one (fetcher-and-log.md 1.6 [R]).
    Ask(asked - 1);
    return;
  }
  if (epoch == asked) {
    cut_ = std::min({*EndOf(log_, asked), end_offset, log_.end});
    question_.reset();
    return;
  }
  // The source answers with its largest epoch below ours. Ours of that number, if any, ends at
  // EndOf; everything above is not the source's.
  const EpochStart* local = nullptr;
  for (const EpochStart& entry : log_.epochs) {
    if (entry.epoch <= epoch) local = &entry;
  }
  if (local == nullptr) {
    // The source's epoch lies below all of ours: our first epoch begins after the source's end of
    // it, if at all in common. Only what lies below both can be.
    cut_ = std::min(end_offset, log_.end);
    if (*cut_ > log_.epochs.front().start_offset) cut_ = log_.epochs.front().start_offset;
    question_.reset();
    return;
  }
  if (local->epoch == epoch) {
    cut_ = std::min({*EndOf(log_, epoch), end_offset, log_.end});
    question_.reset();
    return;
  }
  log_ = CutShape(std::move(log_), *EndOf(log_, local->epoch));
  Ask(local->epoch);
}

std::optional<int64_t> EpochExchange::Cut() const {
  if (cut_) return std::max(*cut_, std::min(log_.log_start, log_.end));
  return std::nullopt;
}

StartCut ChooseStartCut(LogShape log, const MirrorPosition& from_source,
                        const PartitionRecord& record) {
  using Next = StartCut::Next;
  if (log.IsEmpty()) return {.next = Next::kCut, .cut = log.end, .shape = {}, .known = {}};
  const MirrorPosition known = Later(from_source, record.position);
  if (known.IsNone()) {
    // Records that no mirror of this topic put here (L7), also when a cut was announced and never
    // made: epochs say nothing about whether the source has them too, since both clusters count
    // from 0.
    if (record.progress != Progress::kMirrored) return {};
    return {.next = Next::kCompareEpochs, .cut = 0, .shape = std::move(log), .known = known};
  }
  const int64_t cut = CutForPosition(log, known);
  if (cut <= log.log_start) return {.next = Next::kCut, .cut = cut, .shape = {}, .known = known};
  return {.next = Next::kCompareEpochs,
          .cut = 0,
          .shape = CutShape(std::move(log), cut),
          .known = known};
}

std::optional<int64_t> CutAfterExchange(const EpochExchange& exchange, const MirrorPosition& known,
                                        int64_t log_start) {
  const std::optional<int64_t> cut = exchange.Cut();
  if (!cut || (known.IsNone() && *cut <= log_start)) return std::nullopt;
  return cut;
}

}  // namespace kmirror::statemachine
