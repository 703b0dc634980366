#include "broker/controller/store_map.h"

#include <set>
#include <utility>

namespace kmirror::broker {

std::optional<StoredValue> StoreMap::Get(std::string_view key) const {
  const auto found = entries_.find(key);
  if (found == entries_.end()) return std::nullopt;
  return found->second;
}

StoreRange StoreMap::Range(std::string_view prefix) const {
  StoreRange range;
  range.revision = revision_;
  for (auto it = entries_.lower_bound(prefix);
       it != entries_.end() && it->first.starts_with(prefix); ++it) {
    range.entries.emplace_hint(range.entries.end(), it->first, it->second);
  }
  return range;
}

Status StoreMap::Check(const std::vector<StoreChange>& batch) const {
  if (batch.empty()) return {ErrorCode::kInvalidRequest, "an empty metadata batch"};
  std::set<std::string_view> keys;
  for (const StoreChange& change : batch) {
    if (!keys.insert(change.key).second) {
      return {ErrorCode::kInvalidRequest, "metadata key " + change.key + " twice in one batch"};
    }
    if (change.expected_revision == StoreChange::kAnyRevision) continue;
    const auto found = entries_.find(change.key);
    const int64_t present = found == entries_.end() ? 0 : found->second.revision;
    if (present != change.expected_revision) {
      return {ErrorCode::kInvalidUpdateVersion, "metadata key " + change.key + " has revision " +
                                                    std::to_string(present) + ", not " +
                                                    std::to_string(change.expected_revision)};
    }
  }
  return {};
}

void StoreMap::Apply(const std::vector<StoreChange>& batch, int64_t revision) {
  for (const StoreChange& change : batch) {
    if (change.value) {
      entries_[change.key] = {*change.value, revision};
    } else {
      entries_.erase(change.key);
    }
  }
  revision_ = revision;
}

void StoreMap::Restore(std::map<std::string, StoredValue, std::less<>> entries, int64_t revision) {
  entries_ = std::move(entries);
  revision_ = revision;
}

class StoreWatchers::Watch final : public StoreWatch {
 public:
  Watch(std::shared_ptr<List> list, std::shared_ptr<std::mutex> mutex, uint64_t id)
      : list_(std::move(list)), mutex_(std::move(mutex)), id_(id) {}
  ~Watch() override {
    std::lock_guard lock(*mutex_);
    list_->watchers.erase(id_);
  }

 private:
  const std::shared_ptr<List> list_;
  const std::shared_ptr<std::mutex> mutex_;
  const uint64_t id_;
};

StoreWatchers::StoreWatchers() : list_(std::make_shared<List>()) {}

Status StoreWatchers::NotKept(int64_t from) {
  return {ErrorCode::kOffsetOutOfRange,
          "metadata changes from revision " + std::to_string(from) + " on are not kept"};
}

std::unique_ptr<StoreWatch> StoreWatchers::Add(StoreWatcher watcher,
                                               std::shared_ptr<std::mutex> mutex) {
  const uint64_t id = list_->next_id++;
  list_->watchers.emplace(id, std::move(watcher));
  return std::make_unique<Watch>(list_, std::move(mutex), id);
}

void StoreWatchers::Tell(int64_t revision, const std::vector<StoreChange>& batch) const {
  for (const auto& [id, watcher] : list_->watchers) watcher(revision, batch);
}

}  // namespace kmirror::broker
