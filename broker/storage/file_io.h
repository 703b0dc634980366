// The calls by which the log changes files, so that a test can make the n-th one fail.
//
// One virtual call an append, never one a batch. Reads go straight to pread: a failed read changes
// nothing. Functions answer like the system calls they stand for: -1 and errno on failure.
// Thread-safe; not owned by the logs, outlives them.
#pragma once

#include <sys/types.h>
#include <sys/uio.h>

#include <cstdint>
#include <string>

namespace kmirror::broker {

class FileIo {
 public:
  virtual ~FileIo() = default;

  // May write less than asked, as pwritev does.
  virtual ssize_t Write(int fd, const iovec* pieces, int count, int64_t position);
  virtual int Truncate(int fd, int64_t size);
  // fdatasync of a file, fsync of a directory (`metadata` true).
  virtual int Sync(int fd, bool metadata);
  // Reserves space without changing the size; failure is harmless and ignored by callers.
  virtual int Allocate(int fd, int64_t position, int64_t length);
  virtual int Open(const std::string& path, int flags, int mode);
  virtual int Rename(const std::string& from, const std::string& to);
  virtual int Remove(const std::string& path);

  // The real thing; has no state.
  static FileIo* Posix();
};

}  // namespace kmirror::broker
