// Bytes of the records in `__mirror_state` (R24): one record a partition, versioned, ours.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "kmirror/status.h"
#include "kmirror/types.h"
#include "src/statemachine/partition_record.h"

namespace kmirror::coordinator {

struct StateKey {
  std::string mirror;
  TopicIdPartition partition;
  auto operator<=>(const StateKey&) const = default;

  // "mirror:topicId:partition", what places the key (coordinator.md 1.2).
  std::string Text() const;
  // The shard of `count` that keeps the key.
  int32_t Shard(int32_t count) const;
};

// int16 record type 2 (the KIP's MirrorPartitionState), then mirror (string), topic id, partition.
std::vector<uint8_t> EncodeStateKey(const StateKey& key);
Result<StateKey> DecodeStateKey(ByteView bytes);

// int16 version 0, then the fields in the order of PartitionRecord.
std::vector<uint8_t> EncodeStateValue(const statemachine::PartitionRecord& record);
Result<statemachine::PartitionRecord> DecodeStateValue(ByteView bytes);

}  // namespace kmirror::coordinator
