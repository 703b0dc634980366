// The producer snapshots of a partition directory (`<offset>.snapshot`).
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "broker/storage/file_io.h"
#include "kmirror/log/producer_state.h"
#include "kmirror/status.h"

namespace kmirror::broker {

// Externally synchronised (the log's append lock).
class SnapshotFiles {
 public:
  SnapshotFiles(std::string directory, FileIo* io) : directory_(std::move(directory)), io_(io) {}

  // Takes note of what is there.
  void Note(int64_t offset) { offsets_.insert(offset); }
  void Forget() { offsets_.clear(); }

  // Writes one at the state's map end offset unless it exists. Not synced: it is checked when read.
  Status Write(const log::ProducerState& state);
  // The newest readable one at or below `limit`; unreadable ones are removed. nullopt: none.
  Result<std::optional<std::pair<int64_t, std::vector<log::ProducerInfo>>>> Newest(int64_t limit);
  Status RemoveAbove(int64_t offset);
  Status RemoveBelow(int64_t offset);
  // Keeps those named in `bases` (sorted), and the newest if it lies above all of them.
  Status RemoveStrays(const std::set<int64_t>& bases);
  Status Sync() const;

  const std::set<int64_t>& offsets() const { return offsets_; }

 private:
  std::string PathOf(int64_t offset) const;
  Status Remove(int64_t offset);

  const std::string directory_;
  FileIo* const io_;
  std::set<int64_t> offsets_;
};

}  // namespace kmirror::broker
