#include "broker/controller/metadata_store.h"

#include <utility>

#include "broker/controller/store_map.h"

namespace kmirror::broker {

Result<int64_t> MetadataStore::GrantLease(int64_t) {
  return Status(ErrorCode::kUnsupportedVersion, "this metadata store has no leases");
}

Status MetadataStore::KeepAlive(int64_t) {
  return {ErrorCode::kUnsupportedVersion, "this metadata store has no leases"};
}

struct MemoryMetadataStore::State {
  StoreMap map;
  StoreWatchers watchers;
  std::mutex mutex;  // guards all of it
  int failures = 0;
  Status failure;
};

MemoryMetadataStore::MemoryMetadataStore() : state_(std::make_shared<State>()) {}
MemoryMetadataStore::~MemoryMetadataStore() = default;

Result<std::optional<StoredValue>> MemoryMetadataStore::Get(std::string_view key) {
  std::lock_guard lock(state_->mutex);
  return state_->map.Get(key);
}

Result<StoreRange> MemoryMetadataStore::Range(std::string_view prefix) {
  std::lock_guard lock(state_->mutex);
  return state_->map.Range(prefix);
}

Result<int64_t> MemoryMetadataStore::Apply(std::vector<StoreChange> batch) {
  std::lock_guard lock(state_->mutex);
  if (state_->failures > 0) {
    --state_->failures;
    return state_->failure;
  }
  if (Status s = state_->map.Check(batch); !s.ok()) return s;
  state_->map.Apply(batch, state_->map.revision() + 1);
  state_->watchers.Tell(state_->map.revision(), batch);
  return state_->map.revision();
}

Result<std::unique_ptr<StoreWatch>> MemoryMetadataStore::Watch(int64_t from, StoreWatcher watcher) {
  std::lock_guard lock(state_->mutex);
  if (from != state_->map.revision() + 1) return StoreWatchers::NotKept(from);
  // The state outlives the store for as long as a watch does.
  return state_->watchers.Add(std::move(watcher),
                              std::shared_ptr<std::mutex>(state_, &state_->mutex));
}

void MemoryMetadataStore::FailApplies(int count, Status status) {
  std::lock_guard lock(state_->mutex);
  state_->failures = count;
  state_->failure = std::move(status);
}

}  // namespace kmirror::broker
