#include "src/statemachine/stop_rules.h"

#include <algorithm>

#include "src/statemachine/epoch_rules.h"

namespace kmirror::statemachine {

bool StopIsOnlyAWrite(const PartitionRecord& record) {
  return record.progress == Progress::kUntouched;
}

bool StopTakesPosition(const PartitionRecord& record) {
  return record.progress == Progress::kMirrored && record.position.IsNone();
}

MirrorPosition PositionAtEnd(const LogShape& log, int32_t last_batch_epoch, int32_t leader_epoch) {
  if (last_batch_epoch >= 0) return {last_batch_epoch, log.end};
  // Retention emptied the log, or nothing was ever in it: the newest epoch that is not our own. Our
  // own in the position would name an epoch that the source never had.
  for (auto it = log.epochs.rbegin(); it != log.epochs.rend(); ++it) {
    if (it->epoch < leader_epoch) return {it->epoch, log.end};
  }
  return {-1, log.end};
}

int32_t StopEpochFloor(const PartitionRecord& record, int32_t last_batch_epoch,
                       std::optional<int32_t> source_epoch) {
  int32_t floor = record.position.IsNone() ? last_batch_epoch : record.position.epoch;
  if (source_epoch && *source_epoch >= 0)
    floor = std::max(floor, EpochFloor(*source_epoch).value_or(floor));
  return floor;
}

}  // namespace kmirror::statemachine
