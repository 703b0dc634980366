#include "broker/storage/segment.h"

#include <fcntl.h>

#include <cerrno>

#include "broker/storage/files.h"

namespace kmirror::broker {

Segment::Segment(const std::string& directory, int64_t base_offset, FileIo* io,
                 std::shared_ptr<FdCache> cache)
    : directory_(directory),
      base_offset_(base_offset),
      io_(io),
      log_(directory + "/" + OffsetFileName(base_offset, ".log"), io, cache),
      offsets_(directory + "/" + OffsetFileName(base_offset, ".index"), io, cache),
      times_(directory + "/" + OffsetFileName(base_offset, ".timeindex"), io, cache),
      aborted_(directory + "/" + OffsetFileName(base_offset, ".txnindex"), io, cache) {}

Status Segment::Create(int64_t now_ms) {
  for (const std::string& stale : {offsets_.path(), times_.path(), aborted_.path()}) {
    if (io_->Remove(stale) != 0 && errno != ENOENT) return ErrnoStatus("remove", stale, errno);
  }
  Status created = WriteFile(io_, log_.path(), {});
  if (!created.ok()) return created;
  std::lock_guard lock(index_mutex_);
  offsets_.StartEmpty();
  times_.StartEmpty();
  created_ms_ = now_ms;
  return Status::Ok();
}

Status Segment::OpenSaved(std::string* reason) {
  reason->clear();
  const int64_t bytes = io_->Size(log_.path());
  if (bytes < 0) return ErrnoStatus("open", log_.path(), ENOENT);
  set_size(bytes);
  std::lock_guard lock(index_mutex_);
  std::string wrong = offsets_.OpenSaved();
  if (!wrong.empty()) *reason = offsets_.path() + " " + wrong;
  wrong = times_.OpenSaved();
  if (!wrong.empty()) *reason = times_.path() + " " + wrong;
  if (Status loaded = aborted_.Load(); !loaded.ok()) {
    if (loaded.code() != ErrorCode::kCorruptMessage) return loaded;
    *reason = loaded.message();
  }
  if (!reason->empty() || bytes == 0) return Status::Ok();
  // A clean segment with data always has a pair in its time index unless no batch has a timestamp.
  Result<std::optional<TimeEntry>> last = times_.Last();
  if (!last.ok()) return last.status();
  if (*last) {
    max_timestamp_ = last_indexed_timestamp_ = (*last)->timestamp;
    max_timestamp_offset_ = base_offset_ + (*last)->relative_offset;
  }
  Result<std::optional<OffsetEntry>> entry = offsets_.Last();
  if (!entry.ok()) return entry.status();
  if (*entry && (*entry)->position >= bytes) *reason = offsets_.path() + " points past the end";
  return Status::Ok();
}

Status Segment::StartScan() {
  std::lock_guard lock(index_mutex_);
  offsets_.StartEmpty();
  times_.StartEmpty();
  Status cut = aborted_.TruncateTo(INT64_MIN);
  if (!cut.ok()) return cut;
  max_timestamp_ = max_timestamp_offset_ = last_indexed_timestamp_ = first_timestamp_ = -1;
  bytes_since_entry_ = 0;
  // A damaged transaction index was not loaded; it must go as well.
  if (io_->Remove(aborted_.path()) != 0 && errno != ENOENT) {
    return ErrnoStatus("remove", aborted_.path(), errno);
  }
  return Status::Ok();
}

Status Segment::Activate() {
  {
    std::lock_guard lock(index_mutex_);
    Status loaded = offsets_.LoadIntoMemory();
    if (loaded.ok()) loaded = times_.LoadIntoMemory();
    if (!loaded.ok()) return loaded;
    offsets_.file().CloseHandle();
    times_.file().CloseHandle();
    for (const std::string& saved : {offsets_.path(), times_.path()}) {
      if (io_->Remove(saved) != 0 && errno != ENOENT) return ErrnoStatus("remove", saved, errno);
    }
  }
  return RecountAfterCut();
}

Status Segment::RecountAfterCut() {
  std::optional<OffsetEntry> last;
  {
    std::lock_guard lock(index_mutex_);
    Result<std::optional<OffsetEntry>> entry = offsets_.Last();
    if (!entry.ok()) return entry.status();
    last = *entry;
    Result<std::optional<TimeEntry>> time = times_.Last();
    if (!time.ok()) return time.status();
    max_timestamp_ = last_indexed_timestamp_ = *time ? (*time)->timestamp : -1;
    max_timestamp_offset_ = *time ? base_offset_ + (*time)->relative_offset : -1;
  }
  // What stands behind the last entry counts towards the next one, and may hold a greater
  // timestamp.
  const int64_t from = last ? last->position : 0;
  bytes_since_entry_ = size() - from;
  first_timestamp_ = -1;
  Result<BatchScanner> tail = ScannerAt(from, size(), BatchScanner::Mode::kHeaders);
  if (!tail.ok()) return tail.status();
  log::BatchInfo batch;
  while (tail->Next(&batch) == BatchScanner::kBatch) {
    std::lock_guard lock(index_mutex_);
    if (batch.max_timestamp > max_timestamp_) {
      max_timestamp_ = batch.max_timestamp;
      max_timestamp_offset_ = batch.last_offset;
    }
  }
  if (!tail->status().ok()) return tail->status();
  if (size() == 0) return Status::Ok();
  Result<BatchScanner> head = ScannerAt(0, size(), BatchScanner::Mode::kHeaders);
  if (!head.ok()) return head.status();
  if (head->Next(&batch) == BatchScanner::kBatch) first_timestamp_ = batch.max_timestamp;
  return head->status();
}

void Segment::Index(std::span<const log::BatchInfo> batches, int64_t position, int64_t interval) {
  std::lock_guard lock(index_mutex_);  // once for all: a lock a batch was an eighth of its price
  for (const log::BatchInfo& batch : batches) {
    if (position == 0) first_timestamp_ = batch.max_timestamp;
    if (batch.max_timestamp > max_timestamp_) {
      max_timestamp_ = batch.max_timestamp;
      max_timestamp_offset_ = batch.last_offset;
    }
    if (bytes_since_entry_ > interval) {
      offsets_.Append(
          {static_cast<int32_t>(batch.last_offset - base_offset_), static_cast<int32_t>(position)});
      if (max_timestamp_ > last_indexed_timestamp_) {
        times_.Append({max_timestamp_, static_cast<int32_t>(max_timestamp_offset_ - base_offset_)});
        last_indexed_timestamp_ = max_timestamp_;
      }
      bytes_since_entry_ = 0;
    }
    bytes_since_entry_ += batch.bytes;
    position += batch.bytes;
  }
}

void Segment::CloseTimeIndex() {
  std::lock_guard lock(index_mutex_);
  if (!times_.in_memory() || max_timestamp_ <= last_indexed_timestamp_) return;
  times_.Append({max_timestamp_, static_cast<int32_t>(max_timestamp_offset_ - base_offset_)});
  last_indexed_timestamp_ = max_timestamp_;
}

Status Segment::SaveIndexes() {
  std::lock_guard lock(index_mutex_);
  Status saved = offsets_.Save();
  return saved.ok() ? times_.Save() : saved;
}

void Segment::DropIndexesFromMemory() {
  std::lock_guard lock(index_mutex_);
  offsets_.DropFromMemory();
  times_.DropFromMemory();
}

Status Segment::AppendAborted(std::span<const AbortedEntry> entries) {
  std::lock_guard lock(index_mutex_);
  return aborted_.Append(entries);
}

std::vector<AbortedEntry> Segment::Aborted() const {
  std::lock_guard lock(index_mutex_);
  return aborted_.entries();
}

bool Segment::IndexFull(int64_t segment_index_bytes) const {
  std::lock_guard lock(index_mutex_);
  return offsets_.size() >= segment_index_bytes / OffsetEntry::kBytes ||
         times_.size() >= segment_index_bytes / TimeEntry::kBytes - 1;
}

int64_t Segment::max_timestamp() const {
  std::lock_guard lock(index_mutex_);
  return max_timestamp_;
}

int64_t Segment::max_timestamp_offset() const {
  std::lock_guard lock(index_mutex_);
  return max_timestamp_offset_;
}

Result<BatchScanner> Segment::ScannerAt(int64_t position, int64_t end,
                                        BatchScanner::Mode mode) const {
  auto handle = log_.Handle();
  if (!handle.ok()) return handle.status();
  return BatchScanner(*handle, position, end, mode);
}

Result<BatchScanner> Segment::ScannerFor(int64_t offset, int64_t end) const {
  int64_t position = 0;
  {
    std::lock_guard lock(index_mutex_);
    Result<std::optional<OffsetEntry>> entry = offsets_.Floor(offset - base_offset_);
    if (!entry.ok()) return entry.status();
    if (*entry) position = (*entry)->position;
  }
  return ScannerAt(std::min(position, end), end, BatchScanner::Mode::kHeaders);
}

Result<BatchScanner> Segment::ScannerForTimestamp(int64_t timestamp, int64_t end) const {
  int64_t offset = base_offset_;
  {
    std::lock_guard lock(index_mutex_);
    // The batches up to this entry hold nothing as late as its timestamp except the one it names.
    Result<std::optional<TimeEntry>> entry = times_.Floor(timestamp);
    if (!entry.ok()) return entry.status();
    if (*entry) offset = base_offset_ + (*entry)->relative_offset;
  }
  return ScannerFor(offset, end);
}

Result<int64_t> Segment::FindEnd(std::optional<log::BatchInfo>* last) const {
  last->reset();
  Result<BatchScanner> scanner = ScannerFor(INT64_MAX, size());
  if (!scanner.ok()) return scanner.status();
  log::BatchInfo batch;
  BatchScanner::Step step = BatchScanner::kEnd;
  while ((step = scanner->Next(&batch)) == BatchScanner::kBatch) *last = batch;
  if (step == BatchScanner::kFailed) return scanner->status();
  if (step == BatchScanner::kTorn) {
    return Status(ErrorCode::kCorruptMessage, log_.path() + ": no whole batch at position " +
                                                  std::to_string(scanner->position()));
  }
  return *last ? (*last)->last_offset + 1 : base_offset_;
}

Status Segment::Cut(int64_t size, int64_t offset) {
  {
    std::lock_guard lock(index_mutex_);
    const int64_t relative = offset - base_offset_;
    offsets_.TruncateTo(relative);
    times_.TruncateTo(relative);
    Status cut = aborted_.TruncateTo(offset);
    if (!cut.ok()) return cut;
  }
  auto handle = log_.Handle();
  if (!handle.ok()) return handle.status();
  if (io_->Truncate((*handle)->fd(), size) != 0) return ErrnoStatus("cut", log_.path(), errno);
  set_size(size);
  allocated = size;
  return RecountAfterCut();
}

Status Segment::MarkDeleted() {
  if (deleted_) return Status::Ok();
  for (LogFile* file : {&log_, &offsets_.file(), &times_.file(), &aborted_.file()}) {
    const std::string from = file->path();
    const std::string to = from + ".deleted";
    if (io_->Rename(from, to) != 0 && errno != ENOENT) return ErrnoStatus("rename", from, errno);
    file->SetPath(to);
  }
  deleted_ = true;
  return Status::Ok();
}

void Segment::RemoveFiles() {
  for (LogFile* file : {&log_, &offsets_.file(), &times_.file(), &aborted_.file()}) {
    file->CloseHandle();
    io_->Remove(file->path());
  }
}

Status Segment::Sync(bool closed) {
  auto handle = log_.Handle();
  if (!handle.ok()) return handle.status();
  if (io_->Sync((*handle)->fd(), false) != 0) return ErrnoStatus("sync", log_.path(), errno);
  Status synced = SyncFile(io_, aborted_.path());
  if (!synced.ok() || !closed) return synced;
  synced = SyncFile(io_, offsets_.path());
  return synced.ok() ? SyncFile(io_, times_.path()) : synced;
}

}  // namespace kmirror::broker
