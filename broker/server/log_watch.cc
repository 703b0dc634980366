#include "broker/server/log_watch.h"

#include <algorithm>

namespace kmirror::broker {

void LogWatch::Add(PartitionLog& log, Waiter* waiter, size_t index) {
  Shard& shard = ShardOf(log);
  {
    const std::lock_guard lock(shard.mutex);
    shard.waiting[&log].push_back({waiter, index});
  }
  log.SetListener(this);
}

void LogWatch::Remove(PartitionLog& log, Waiter* waiter) {
  Shard& shard = ShardOf(log);
  const std::lock_guard lock(shard.mutex);
  const auto found = shard.waiting.find(&log);
  if (found == shard.waiting.end()) return;
  std::erase_if(found->second, [&](const Entry& entry) { return entry.waiter == waiter; });
  if (found->second.empty()) shard.waiting.erase(found);
}

void LogWatch::OnLogChanged(PartitionLog& log) noexcept {
  Shard& shard = ShardOf(log);
  const std::lock_guard lock(shard.mutex);
  if (shard.waiting.empty()) return;
  const auto found = shard.waiting.find(&log);
  if (found == shard.waiting.end()) return;
  for (const Entry& entry : found->second) entry.waiter->Wake(entry.index);
}

void LogWatch::OnLogOffline(PartitionLog& log, const Status&) noexcept { OnLogChanged(log); }

}  // namespace kmirror::broker
