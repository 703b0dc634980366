// What a fetcher knows of one partition it fetches, and the order in which partitions take turns.
// Pure; fetcher-and-log 1.2.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <list>
#include <optional>
#include <unordered_map>
#include <utility>

#include "kmirror/types.h"

namespace kmirror::fetcher {

enum class FetchStage : uint8_t {
  kTruncating,  // epochs are compared with the source first
  kRanging,     // the source said out of range: its limits are being asked
  kFetching,
};

struct PartitionFetchState {
  FetchStage stage = FetchStage::kTruncating;
  int64_t fetch_offset = 0;  // next offset to request; the log's end plus what is queued for it
  int32_t current_leader_epoch = -1;  // the source's, sent along
  int32_t last_fetched_epoch = -1;    // of the last batch in our log; -1 none or unknown
  std::optional<int64_t> lag;         // absent until the first successful fetch
  std::chrono::nanoseconds due{0};    // delayed until then; 0: not delayed

  bool Delayed() const { return due.count() != 0; }
  bool ReadyForFetch() const { return stage == FetchStage::kFetching && !Delayed(); }
  bool MustTruncate() const { return stage == FetchStage::kTruncating && !Delayed(); }
};

// A map that remembers the order of insertion. A fetch lists partitions in this order and the
// source fills its answer in the order of the request: moving a partition to the end after it made
// progress is what shares a limited answer fairly.
template <typename T>
class FetchOrder {
 public:
  using Item = std::pair<const TopicIdPartition, T>;

  // Adds at the end; replaces and moves to the end what was there.
  T& Put(const TopicIdPartition& key, T value) {
    Erase(key);
    items_.emplace_back(key, std::move(value));
    index_[key] = std::prev(items_.end());
    return items_.back().second;
  }
  T* Find(const TopicIdPartition& key) {
    const auto it = index_.find(key);
    return it == index_.end() ? nullptr : &it->second->second;
  }
  bool Erase(const TopicIdPartition& key) {
    const auto it = index_.find(key);
    if (it == index_.end()) return false;
    items_.erase(it->second);
    index_.erase(it);
    return true;
  }
  void MoveToEnd(const TopicIdPartition& key) {
    const auto it = index_.find(key);
    if (it != index_.end()) items_.splice(items_.end(), items_, it->second);
  }
  size_t size() const { return items_.size(); }
  bool empty() const { return items_.empty(); }
  auto begin() { return items_.begin(); }
  auto end() { return items_.end(); }

 private:
  std::list<Item> items_;
  std::unordered_map<TopicIdPartition, typename std::list<Item>::iterator> index_;
};

}  // namespace kmirror::fetcher
