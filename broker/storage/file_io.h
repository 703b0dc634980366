// The calls by which the logs and the metadata reach files, so that a test can make the n-th one
// fail, or keep the files somewhere else altogether.
//
// One virtual call an append, never one a batch. Functions answer like the system calls they stand
// for: -1 and errno on failure. Thread-safe; not owned by the logs, outlives them.
#pragma once

#include <sys/types.h>
#include <sys/uio.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace kmirror::broker {

class FileIo {
 public:
  virtual ~FileIo() = default;

  // --- What changes files.

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
  // With its parents. 1: made, 0: it was there.
  virtual int MakeDirectories(const std::string& path);
  // A directory and what is in it; 0 also if it does not exist.
  virtual int RemoveTree(const std::string& path);

  // --- What changes nothing.

  virtual ssize_t Read(int fd, void* to, size_t bytes, int64_t position);
  virtual void Close(int fd);
  // Takes the file for this process alone, until it is closed.
  virtual int Lock(int fd);
  // In bytes; -1 if it does not exist.
  virtual int64_t Size(const std::string& path);
  // When it was last written, ms since 1970; -1 if it does not exist.
  virtual int64_t ModifiedMs(const std::string& path);
  virtual bool IsDirectory(const std::string& path);
  // Names without "." and "..", unsorted.
  virtual int List(const std::string& directory, std::vector<std::string>* names);

  // The real thing; has no state.
  static FileIo* Posix();
};

}  // namespace kmirror::broker
