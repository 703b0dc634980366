#include "broker/controller/file_metadata_store.h"

#include <fcntl.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "broker/controller/store_format.h"
#include "broker/controller/store_map.h"
#include "broker/storage/files.h"

namespace kmirror::broker {
namespace {

constexpr std::string_view kLogSuffix = ".log";
constexpr std::string_view kSnapshotSuffix = ".snapshot";

std::string_view Text(const std::vector<uint8_t>& bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}
ByteView Bytes(const std::string& text) {
  return {reinterpret_cast<const uint8_t*>(text.data()), text.size()};
}

}  // namespace

class FileMetadataStore::Impl {
 public:
  explicit Impl(const Options& options)
      : directory_(options.directory),
        io_(options.io != nullptr ? options.io : FileIo::Posix()),
        snapshot_after_bytes_(options.snapshot_after_bytes) {}
  ~Impl() {
    if (fd_ >= 0) io_->Close(fd_);
    if (lock_fd_ >= 0) io_->Close(lock_fd_);
  }

  Status Open();
  Result<int64_t> Apply(std::vector<StoreChange> batch);

  std::mutex mutex;  // guards everything
  StoreMap map;
  StoreWatchers watchers;
  int64_t torn_bytes = 0;
  Status last_snapshot;
  int64_t log_bytes() const { return end_; }

 private:
  Status Lock();
  Status LoadSnapshot(const std::vector<int64_t>& revisions);
  Status Replay(int64_t base);
  Status OpenLog(int64_t base, bool create);
  Status Append(const std::vector<uint8_t>& bytes);
  void MaybeSnapshot();
  Status Roll();
  void RemoveOlder();
  std::string Path(int64_t revision, std::string_view suffix) const {
    return directory_ + "/" + OffsetFileName(revision, suffix);
  }
  Result<std::vector<int64_t>> Files(std::string_view suffix) const;

  const std::string directory_;
  FileIo* const io_;
  const int64_t snapshot_after_bytes_;
  int lock_fd_ = -1;
  int fd_ = -1;                     // the log that is appended to
  int64_t base_ = 0;                // its base revision
  int64_t end_ = 0;                 // its size
  int64_t snapshot_bytes_ = 0;      // size of the newest snapshot
  int64_t next_attempt_bytes_ = 0;  // after a failed snapshot: not before the log is this long
  bool torn_ = false;               // a part of a refused batch stands behind end_
  Status broken_;                   // not OK: nobody knows what is on disk
};

Result<std::vector<int64_t>> FileMetadataStore::Impl::Files(std::string_view suffix) const {
  const Result<std::vector<std::string>> names = ListDirectory(io_, directory_);
  if (!names.ok()) return names.status();
  std::vector<int64_t> revisions;
  for (const std::string& name : *names) {
    if (const auto revision = ParseOffsetFileName(name, suffix)) revisions.push_back(*revision);
  }
  std::sort(revisions.begin(), revisions.end());
  return revisions;
}

Status FileMetadataStore::Impl::Lock() {
  const std::string path = directory_ + "/.lock";
  lock_fd_ = io_->Open(path, O_RDWR | O_CREAT, 0600);
  if (lock_fd_ < 0) return {ErrorCode::kLogDirNotFound, ErrnoStatus("open", path, errno).message()};
  if (io_->Lock(lock_fd_) != 0) {
    return {ErrorCode::kLogDirNotFound, directory_ + ": in use by another process"};
  }
  return {};
}

Status FileMetadataStore::Impl::Open() {
  if (Status s = MakeDirectories(io_, directory_); !s.ok()) {
    return {ErrorCode::kLogDirNotFound, s.message()};
  }
  if (Status s = Lock(); !s.ok()) return s;

  const Result<std::vector<int64_t>> snapshots = Files(kSnapshotSuffix);
  if (!snapshots.ok()) return snapshots.status();
  const Result<std::vector<int64_t>> logs = Files(kLogSuffix);
  if (!logs.ok()) return logs.status();
  if (Status s = LoadSnapshot(*snapshots); !s.ok()) return s;
  // A crash, or a full disk, between a snapshot and its log leaves batches after the snapshot in
  // the older log: every log is read, and gives what is newer than what was read before.
  for (const int64_t base : *logs) {
    if (Status s = Replay(base); !s.ok()) return s;
  }
  if (Status s = logs->empty() ? OpenLog(map.revision(), true) : OpenLog(logs->back(), false);
      !s.ok())
    return s;
  // A process that was killed before its sync left a batch that only the page cache has. From here
  // on it is answered with, so it must be on disk (R29).
  if (io_->Sync(fd_, true) != 0) return ErrnoStatus("sync", Path(base_, kLogSuffix), errno);
  // So must its name: the process may have been killed after it made the file.
  if (Status s = SyncDirectory(io_, directory_); !s.ok()) return s;
  RemoveOlder();
  return {};
}

Status FileMetadataStore::Impl::LoadSnapshot(const std::vector<int64_t>& revisions) {
  if (revisions.empty()) return {};
  const std::string path = Path(revisions.back(), kSnapshotSuffix);
  const Result<std::string> text = ReadFile(io_, path);
  if (!text.ok()) return text.status();
  std::optional<StoreSnapshot> snapshot = DecodeSnapshot(Bytes(*text));
  // It was synced before it got its name: this is no torn write, and an older one would take back
  // what was acknowledged.
  if (!snapshot || snapshot->revision != revisions.back()) {
    return {ErrorCode::kCorruptMessage, path + ": the metadata snapshot is damaged"};
  }
  snapshot_bytes_ = static_cast<int64_t>(text->size());
  map.Restore(std::move(snapshot->entries), snapshot->revision);
  return {};
}

Status FileMetadataStore::Impl::Replay(int64_t base) {
  const std::string path = Path(base, kLogSuffix);
  if (base > map.revision()) {
    return {ErrorCode::kCorruptMessage, path + ": the metadata between revision " +
                                            std::to_string(map.revision()) +
                                            " and this file is missing"};
  }
  const Result<std::string> text = ReadFile(io_, path);
  if (!text.ok()) return text.status();
  const ByteView bytes = Bytes(*text);
  if (DecodeLogHeader(bytes) != base) {
    return {ErrorCode::kCorruptMessage, path + ": not a metadata log"};
  }
  size_t at = kStoreLogHeaderBytes;
  int64_t last = base;  // revision of the batch before `at`
  while (at < bytes.size()) {
    size_t size = 0;
    const std::optional<StoreBatch> batch = DecodeBatch(bytes.subspan(at), &size);
    const std::string place = path + " at " + std::to_string(at) + ": ";
    if (!batch) {
      if (HasLaterBatch(bytes.subspan(at), last)) {
        return {ErrorCode::kCorruptMessage,
                place + "a metadata batch is damaged and whole ones follow it"};
      }
      torn_bytes = static_cast<int64_t>(bytes.size() - at);
      const int fd = io_->Open(path, O_RDWR, 0600);
      if (fd < 0) return ErrnoStatus("open", path, errno);
      Status cut;
      if (io_->Truncate(fd, static_cast<int64_t>(at)) != 0 || io_->Sync(fd, true) != 0) {
        cut = ErrnoStatus("cut the torn end of", path, errno);
      }
      io_->Close(fd);
      return cut;
    }
    // In a log that a failed roll left behind, batches up to the snapshot come once more.
    if (batch->revision > map.revision()) {
      if (batch->revision != map.revision() + 1) {
        return {ErrorCode::kCorruptMessage, place + "revision " + std::to_string(batch->revision) +
                                                " follows " + std::to_string(map.revision())};
      }
      map.Apply(batch->changes, batch->revision);
    }
    last = batch->revision;
    at += size;
  }
  return {};
}

Status FileMetadataStore::Impl::OpenLog(int64_t base, bool create) {
  const std::string path = Path(base, kLogSuffix);
  if (create) {
    if (Status s = ReplaceFile(io_, path, Text(EncodeLogHeader(base))); !s.ok()) return s;
  }
  const int fd = io_->Open(path, O_RDWR, 0600);
  if (fd < 0) return ErrnoStatus("open", path, errno);
  const int64_t bytes = io_->Size(path);
  if (bytes < 0) {
    const Status s = ErrnoStatus("stat", path, errno);
    io_->Close(fd);
    return s;
  }
  if (fd_ >= 0) io_->Close(fd_);
  fd_ = fd;
  base_ = base;
  end_ = bytes;
  return {};
}

Status FileMetadataStore::Impl::Append(const std::vector<uint8_t>& bytes) {
  if (torn_) {
    if (io_->Truncate(fd_, end_) != 0) {
      return {ErrorCode::kKafkaStorageError,
              ErrnoStatus("cut the torn end of", Path(base_, kLogSuffix), errno).message()};
    }
    torn_ = false;
  }
  size_t written = 0;
  while (written < bytes.size()) {
    const iovec piece{const_cast<uint8_t*>(bytes.data()) + written, bytes.size() - written};
    const ssize_t n = io_->Write(fd_, &piece, 1, end_ + static_cast<int64_t>(written));
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) {
      const int error = n == 0 ? EIO : errno;
      const Status why = ErrnoStatus("write", Path(base_, kLogSuffix), error);
      torn_ = io_->Truncate(fd_, end_) != 0;
      return {ErrorCode::kKafkaStorageError, why.message()};
    }
    written += static_cast<size_t>(n);
  }
  if (io_->Sync(fd_, false) != 0) {
    // The pages may be clean now and lost: a second sync that succeeds would prove nothing.
    broken_ = {ErrorCode::kKafkaStorageError,
               ErrnoStatus("sync", Path(base_, kLogSuffix), errno).message() +
                   "; the metadata is read-only until the broker starts again"};
    return broken_;
  }
  end_ += static_cast<int64_t>(bytes.size());
  return {};
}

Result<int64_t> FileMetadataStore::Impl::Apply(std::vector<StoreChange> changes) {
  if (!broken_.ok()) return broken_;
  if (Status s = map.Check(changes); !s.ok()) return s;
  StoreBatch batch{map.revision() + 1, std::move(changes)};
  const std::vector<uint8_t> bytes = EncodeBatch(batch);
  if (bytes.size() > kStoreBatchBytesMax) {
    return Status(ErrorCode::kInvalidRequest,
                  "a metadata change of " + std::to_string(bytes.size()) + " bytes");
  }
  if (Status s = Append(bytes); !s.ok()) return s;
  map.Apply(batch.changes, batch.revision);
  watchers.Tell(batch.revision, batch.changes);
  MaybeSnapshot();
  return batch.revision;
}

void FileMetadataStore::Impl::MaybeSnapshot() {
  const int64_t limit = std::max({snapshot_after_bytes_, snapshot_bytes_, next_attempt_bytes_});
  if (end_ < limit) return;
  last_snapshot = Roll();
  // The batch that led here is durable whatever became of the snapshot; a full disk is tried again
  // when the log has doubled, not at every batch.
  next_attempt_bytes_ = last_snapshot.ok() ? 0 : end_ * 2;
}

Status FileMetadataStore::Impl::Roll() {
  const std::vector<uint8_t> bytes = EncodeSnapshot(map.revision(), map.entries());
  if (Status s = ReplaceFile(io_, Path(map.revision(), kSnapshotSuffix), Text(bytes)); !s.ok())
    return s;
  if (Status s = OpenLog(map.revision(), true); !s.ok()) return s;
  snapshot_bytes_ = static_cast<int64_t>(bytes.size());
  RemoveOlder();
  return {};
}

void FileMetadataStore::Impl::RemoveOlder() {
  // Best effort: what stays is read again, found old and removed at the next opening. A log may
  // only go when a snapshot covers it, and everything in it.
  const Result<std::vector<int64_t>> snapshots = Files(kSnapshotSuffix);
  const Result<std::vector<int64_t>> logs = Files(kLogSuffix);
  if (!snapshots.ok() || !logs.ok() || snapshots->empty()) return;
  const int64_t newest = snapshots->back();
  if (base_ < newest) return;  // the log before the snapshot is still in use
  for (const int64_t revision : *snapshots) {
    if (revision < newest) io_->Remove(Path(revision, kSnapshotSuffix));
  }
  // Opening may have found batches after the snapshot in an older log (a roll that failed half
  // way): then base_ == newest and that log still holds what no snapshot has.
  if (map.revision() != newest && !logs->empty() && logs->front() < newest) return;
  for (const int64_t base : *logs) {
    if (base < newest) io_->Remove(Path(base, kLogSuffix));
  }
}

FileMetadataStore::FileMetadataStore(std::shared_ptr<Impl> impl) : impl_(std::move(impl)) {}
FileMetadataStore::~FileMetadataStore() = default;

Result<std::unique_ptr<FileMetadataStore>> FileMetadataStore::Open(const Options& options) {
  auto impl = std::make_shared<Impl>(options);
  if (Status s = impl->Open(); !s.ok()) return s;
  return std::unique_ptr<FileMetadataStore>(new FileMetadataStore(std::move(impl)));
}

Result<std::optional<StoredValue>> FileMetadataStore::Get(std::string_view key) {
  std::lock_guard lock(impl_->mutex);
  return impl_->map.Get(key);
}

Result<StoreRange> FileMetadataStore::Range(std::string_view prefix) {
  std::lock_guard lock(impl_->mutex);
  return impl_->map.Range(prefix);
}

Result<int64_t> FileMetadataStore::Apply(std::vector<StoreChange> batch) {
  std::lock_guard lock(impl_->mutex);
  return impl_->Apply(std::move(batch));
}

Result<std::unique_ptr<StoreWatch>> FileMetadataStore::Watch(int64_t from, StoreWatcher watcher) {
  std::lock_guard lock(impl_->mutex);
  if (from != impl_->map.revision() + 1) return StoreWatchers::NotKept(from);
  return impl_->watchers.Add(std::move(watcher), std::shared_ptr<std::mutex>(impl_, &impl_->mutex));
}

int64_t FileMetadataStore::torn_bytes() const {
  std::lock_guard lock(impl_->mutex);
  return impl_->torn_bytes;
}

Status FileMetadataStore::last_snapshot() const {
  std::lock_guard lock(impl_->mutex);
  return impl_->last_snapshot;
}

int64_t FileMetadataStore::log_bytes() const {
  std::lock_guard lock(impl_->mutex);
  return impl_->log_bytes();
}

}  // namespace kmirror::broker
