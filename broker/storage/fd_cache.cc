#include "broker/storage/fd_cache.h"

#include <fcntl.h>

#include <algorithm>
#include <cerrno>

#include "broker/storage/files.h"

namespace kmirror::broker {

size_t FdCache::open_files() const {
  std::lock_guard lock(mutex_);
  return open_.size();
}

// Called without the file's own lock: a victim's lock is taken under ours, never the other way
// round.
void FdCache::Add(LogFile* file) {
  std::lock_guard lock(mutex_);
  if (std::find(open_.begin(), open_.end(), file) == open_.end()) open_.push_back(file);
  // Two rounds at most: the first clears the marks of files used lately.
  for (size_t steps = 2 * open_.size(); open_.size() > cap_ && steps > 0; --steps) {
    if (hand_ >= open_.size()) hand_ = 0;
    LogFile* candidate = open_[hand_];
    if (candidate == file || candidate->used_.exchange(false, std::memory_order_relaxed)) {
      ++hand_;
      continue;
    }
    {
      std::lock_guard file_lock(candidate->mutex_);
      candidate->handle_.reset();
    }
    open_[hand_] = open_.back();
    open_.pop_back();
  }
}

void FdCache::Drop(LogFile* file) {
  std::lock_guard lock(mutex_);
  const auto found = std::find(open_.begin(), open_.end(), file);
  if (found == open_.end()) return;
  *found = open_.back();
  open_.pop_back();
}

LogFile::LogFile(std::string path, FileIo* io, std::shared_ptr<FdCache> cache)
    : io_(io), cache_(std::move(cache)), path_(std::move(path)) {}

LogFile::~LogFile() {
  if (cache_ != nullptr) cache_->Drop(this);
}

Result<std::shared_ptr<const FileHandle>> LogFile::Handle() {
  std::shared_ptr<const FileHandle> handle;
  {
    std::lock_guard lock(mutex_);
    used_.store(true, std::memory_order_relaxed);
    if (handle_ != nullptr) return handle_;
    const int fd = io_->Open(path_, O_RDWR, 0);
    if (fd < 0) return ErrnoStatus("open", path_, errno);
    handle_ = handle = std::make_shared<const FileHandle>(fd, io_);
  }
  if (cache_ != nullptr) cache_->Add(this);
  return handle;
}

std::string LogFile::path() const {
  std::lock_guard lock(mutex_);
  return path_;
}

void LogFile::SetPath(std::string path) {
  std::lock_guard lock(mutex_);
  path_ = std::move(path);
}

void LogFile::CloseHandle() {
  if (cache_ != nullptr) cache_->Drop(this);
  std::lock_guard lock(mutex_);
  handle_.reset();
}

}  // namespace kmirror::broker
