// What the stores of one process share: the map with compare and revisions, and the watches.
// Not thread-safe; the store's mutex guards it.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "broker/controller/metadata_store.h"

namespace kmirror::broker {

class StoreMap {
 public:
  int64_t revision() const { return revision_; }
  const std::map<std::string, StoredValue, std::less<>>& entries() const { return entries_; }

  std::optional<StoredValue> Get(std::string_view key) const;
  StoreRange Range(std::string_view prefix) const;
  // kInvalidUpdateVersion: an expected revision does not match. kInvalidRequest: empty, or a key
  // twice.
  Status Check(const std::vector<StoreChange>& batch) const;
  // REQUIRES: revision is above the present one.
  void Apply(const std::vector<StoreChange>& batch, int64_t revision);
  // For loading a snapshot.
  void Restore(std::map<std::string, StoredValue, std::less<>> entries, int64_t revision);

 private:
  std::map<std::string, StoredValue, std::less<>> entries_;
  int64_t revision_ = 0;
};

class StoreWatchers {
 public:
  StoreWatchers();

  static Status NotKept(int64_t from);
  // `mutex` is the store's; held while watches are told, taken when one ends.
  std::unique_ptr<StoreWatch> Add(StoreWatcher watcher, std::shared_ptr<std::mutex> mutex);
  void Tell(int64_t revision, const std::vector<StoreChange>& batch) const;

 private:
  struct List {
    std::map<uint64_t, StoreWatcher> watchers;
    uint64_t next_id = 1;
  };
  class Watch;
  const std::shared_ptr<List> list_;  // watches may outlive the store
};

}  // namespace kmirror::broker
