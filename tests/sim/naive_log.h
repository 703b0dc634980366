// What a log says, by rules written down a second time: open transactions, resets, epochs. Knows
// batches as bytes alone; nothing of the product.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "kmirror/types.h"
#include "tests/support/raw_batch.h"

namespace kmirror::sim {

using test::RawBatch;
using BatchPtr = std::shared_ptr<const RawBatch>;
using BatchList = std::vector<BatchPtr>;

// Transactions that are open after the batches: producer id to first offset.
class OpenTransactions {
 public:
  void Apply(const RawBatch& batch);
  const std::map<int64_t, int64_t>& open() const { return open_; }
  // Where a reader of committed data must stop; `end` if nowhere.
  int64_t Stable(int64_t end) const;

 private:
  std::map<int64_t, int64_t> open_;
};

// "0-2@5 T9:3-3@5 A9@16 R@16": data, transactional data of a producer, markers, reset.
std::string Shape(const BatchList& batches);

// One stored state of a partition, by a reader of the record format of its own.
struct StateRow {
  int8_t state = -1;
  int8_t previous = -1;
  int32_t leader_epoch = -1;
  int32_t state_epoch = 0;
  int32_t position_epoch = -1;
  int64_t position_offset = -1;
  int8_t progress = 0;
  int16_t attempt = 0;
  std::string reason;
  bool HasPosition() const { return position_epoch >= 0 || position_offset >= 0; }
  bool operator==(const StateRow&) const = default;
};

struct StateKeyText {
  std::string mirror;
  Uuid topic_id;
  int32_t partition = 0;
  auto operator<=>(const StateKeyText&) const = default;
};

// The records of a batch of `__mirror_state`; a row is nullopt for a tombstone. nullopt: the bytes
// are no such records.
using StateRows = std::vector<std::pair<StateKeyText, std::optional<StateRow>>>;
std::optional<StateRows> ParseStateBatch(const RawBatch& batch);

const char* StateText(int8_t state);

}  // namespace kmirror::sim
