#include "broker/storage/snapshot_files.h"

#include <cerrno>

#include "broker/storage/files.h"

namespace kmirror::broker {

std::string SnapshotFiles::PathOf(int64_t offset) const {
  return directory_ + "/" + OffsetFileName(offset, ".snapshot");
}

Status SnapshotFiles::Write(const log::ProducerState& state) {
  const int64_t offset = state.map_end_offset();
  if (offsets_.contains(offset)) return Status::Ok();
  Status written = WriteFile(io_, PathOf(offset), state.EncodeSnapshot());
  if (written.ok()) {
    offsets_.insert(offset);
  } else {
    io_->Remove(PathOf(offset));  // nobody would know of it, and its offset may come again
  }
  return written;
}

Result<std::optional<std::pair<int64_t, std::vector<log::ProducerInfo>>>> SnapshotFiles::Newest(
    int64_t limit) {
  using Found = std::optional<std::pair<int64_t, std::vector<log::ProducerInfo>>>;
  for (;;) {
    auto above = offsets_.upper_bound(limit);
    if (above == offsets_.begin()) return Found();
    const int64_t offset = *std::prev(above);
    const Result<std::string> bytes = ReadFile(io_, PathOf(offset));
    if (!bytes.ok() && bytes.status().code() != ErrorCode::kResourceNotFound) return bytes.status();
    if (bytes.ok()) {
      auto entries = log::ProducerState::DecodeSnapshot(
          {reinterpret_cast<const uint8_t*>(bytes->data()), bytes->size()});
      if (entries.ok()) return Found({offset, std::move(*entries)});
    }
    Status removed = Remove(offset);
    if (!removed.ok()) return removed;
  }
}

Status SnapshotFiles::Remove(int64_t offset) {
  if (io_->Remove(PathOf(offset)) != 0 && errno != ENOENT) {
    return ErrnoStatus("remove", PathOf(offset), errno);
  }
  offsets_.erase(offset);
  return Status::Ok();
}

Status SnapshotFiles::RemoveAbove(int64_t offset) {
  while (!offsets_.empty() && *offsets_.rbegin() > offset) {
    Status removed = Remove(*offsets_.rbegin());
    if (!removed.ok()) return removed;
  }
  return Status::Ok();
}

Status SnapshotFiles::RemoveBelow(int64_t offset) {
  while (!offsets_.empty() && *offsets_.begin() < offset) {
    Status removed = Remove(*offsets_.begin());
    if (!removed.ok()) return removed;
  }
  return Status::Ok();
}

Status SnapshotFiles::RemoveStrays(const std::set<int64_t>& bases) {
  if (offsets_.empty()) return Status::Ok();
  const int64_t newest = *offsets_.rbegin();
  const std::set<int64_t> all = offsets_;
  for (const int64_t offset : all) {
    if (bases.contains(offset)) continue;
    if (offset == newest && (bases.empty() || offset > *bases.rbegin())) continue;
    Status removed = Remove(offset);
    if (!removed.ok()) return removed;
  }
  return Status::Ok();
}

Status SnapshotFiles::Sync() const {
  for (const int64_t offset : offsets_) {
    Status synced = SyncFile(io_, PathOf(offset));
    if (!synced.ok()) return synced;
  }
  return Status::Ok();
}

}  // namespace kmirror::broker
