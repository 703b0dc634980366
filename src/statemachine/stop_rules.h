// What a stop decides between its steps (coordinator.md 6): which steps the record still asks for,
// the position to store, the epoch to exceed. Pure; src/coordinator/stop.cc carries it out.
#pragma once

#include <cstdint>
#include <optional>

#include "src/statemachine/partition_record.h"
#include "src/statemachine/start_position.h"

namespace kmirror::statemachine {

// The log was not touched since it was last writable: what is open in it is local, and STOPPED is
// all that is missing.
bool StopIsOnlyAWrite(const PartitionRecord& record);

// The position is taken once by a stop, and only from a log that holds nothing but mirrored data
// (6.3).
bool StopTakesPosition(const PartitionRecord& record);

// The position that ends the log: `last_batch_epoch` is -1 when the log holds no batch.
// `leader_epoch` is ours, which a leader of a stopping topic has entered in the epochs already.
MirrorPosition PositionAtEnd(const LogShape& log, int32_t last_batch_epoch, int32_t leader_epoch);

// What the leader epoch must exceed: all that was mirrored, and what the source may have reached by
// itself meanwhile. `source_epoch`: the last one known.
int32_t StopEpochFloor(const PartitionRecord& record, int32_t last_batch_epoch,
                       std::optional<int32_t> source_epoch);

}  // namespace kmirror::statemachine
