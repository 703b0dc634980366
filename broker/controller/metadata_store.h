// Where the cluster's metadata is kept: a small ordered key-value store with revisions.
//
// A batch is atomic and durable before Apply answers OK (R29). Every applied batch gets the next
// revision, from 1. Thread-safe. Shaped after etcd, which several brokers would share; one node
// uses the file store, tests the one in memory.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "kmirror/status.h"

namespace kmirror::broker {

struct StoredValue {
  std::string value;
  int64_t revision = 0;  // of the batch that wrote it
  bool operator==(const StoredValue&) const = default;
};

struct StoreChange {
  static constexpr int64_t kAnyRevision = -1;

  std::string key;
  std::optional<std::string> value;  // nullopt deletes
  // The key's present revision must be this one; 0: the key must not exist.
  int64_t expected_revision = kAnyRevision;
};

struct StoreRange {
  int64_t revision = 0;  // of the store when it was read
  std::map<std::string, StoredValue> entries;
};

// Told of each batch after it is durable, in order of revision, once each. Called under the store's
// lock: must not call the store.
using StoreWatcher = std::function<void(int64_t revision, const std::vector<StoreChange>& batch)>;

// A watch ends when this is destroyed; no call is in flight or follows after that.
class StoreWatch {
 public:
  virtual ~StoreWatch() = default;
};

class MetadataStore {
 public:
  virtual ~MetadataStore() = default;

  virtual Result<std::optional<StoredValue>> Get(std::string_view key) = 0;
  // Every key that begins with `prefix`, as one consistent picture.
  virtual Result<StoreRange> Range(std::string_view prefix) = 0;
  // The new revision. kInvalidUpdateVersion: an expected revision did not match, nothing changed.
  // kKafkaStorageError: the disk refused; nothing changed, or (after a failed sync) nobody can
  // know: then every later Apply fails too and only a new Open says what is there.
  virtual Result<int64_t> Apply(std::vector<StoreChange> batch) = 0;
  // Batches with a revision >= `from`. kOffsetOutOfRange when those are no longer kept (the file
  // and memory stores keep none: `from` must be the next revision): Range again.
  virtual Result<std::unique_ptr<StoreWatch>> Watch(int64_t from, StoreWatcher watcher) = 0;
  // Leases make a broker's presence vanish with it. Only stores that several brokers share have
  // them; others answer kUnsupportedVersion.
  virtual Result<int64_t> GrantLease(int64_t ttl_ms);
  virtual Status KeepAlive(int64_t lease);
};

// Keeps everything in memory and loses it with the process: for tests.
class MemoryMetadataStore final : public MetadataStore {
 public:
  MemoryMetadataStore();
  ~MemoryMetadataStore() override;
  Result<std::optional<StoredValue>> Get(std::string_view key) override;
  Result<StoreRange> Range(std::string_view prefix) override;
  Result<int64_t> Apply(std::vector<StoreChange> batch) override;
  Result<std::unique_ptr<StoreWatch>> Watch(int64_t from, StoreWatcher watcher) override;

  // Tests: the next `count` applies answer `status` and change nothing.
  void FailApplies(int count, Status status);

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace kmirror::broker
