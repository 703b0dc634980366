// Segment files are opened when used and closed again when too many are open.
//
// FdCache holds the cap; LogFile is one file. Both thread-safe. A handle in use stays valid when
// the cache drops it; the cap counts what the cache holds.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "broker/storage/file_io.h"
#include "broker/storage/log_slice.h"
#include "kmirror/status.h"

namespace kmirror::broker {

class LogFile;

class FdCache {
 public:
  // cap: how many files are kept open; at least 16.
  explicit FdCache(size_t cap) : cap_(cap < 16 ? 16 : cap) {}
  size_t open_files() const;

 private:
  friend class LogFile;
  void Add(LogFile* file);
  void Drop(LogFile* file);

  const size_t cap_;
  mutable std::mutex mutex_;
  std::vector<LogFile*> open_;
  size_t hand_ = 0;  // of a clock: a file used since the hand came by last is spared once
};

// One file that exists already. The cache may be null (then it stays open once used).
class LogFile {
 public:
  LogFile(std::string path, FileIo* io, std::shared_ptr<FdCache> cache);
  ~LogFile();
  LogFile(const LogFile&) = delete;
  LogFile& operator=(const LogFile&) = delete;

  // Opens if needed, for reading and writing. IO_ERROR with path and reason.
  Result<std::shared_ptr<const FileHandle>> Handle();
  std::string path() const;
  // After a rename, or before one: the descriptor follows the file by itself.
  void SetPath(std::string path);
  void CloseHandle();

 private:
  friend class FdCache;
  FileIo* const io_;
  const std::shared_ptr<FdCache> cache_;
  mutable std::mutex mutex_;
  std::string path_;
  std::shared_ptr<const FileHandle> handle_;
  std::atomic<bool> used_{false};
};

}  // namespace kmirror::broker
