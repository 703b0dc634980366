// A piece of a segment file, handed to a reader without copying it.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "broker/storage/file_io.h"
#include "kmirror/status.h"

namespace kmirror::broker {

// An open descriptor, closed when the last holder lets go: a reader may hold it past the removal of
// its segment. Immutable, thread-safe.
class FileHandle {
 public:
  // `io` outlives this.
  FileHandle(int fd, FileIo* io) : fd_(fd), io_(io) {}
  ~FileHandle();
  FileHandle(const FileHandle&) = delete;
  FileHandle& operator=(const FileHandle&) = delete;
  int fd() const { return fd_; }
  // Fills `to` from `position`; IO_ERROR if the file ends before.
  Status Read(int64_t position, std::span<uint8_t> to) const;

 private:
  const int fd_;
  FileIo* const io_;
};

// `bytes` bytes from `position` of a segment, always whole batches unless cut by max_bytes. They
// stay as they are unless the log is truncated below them.
struct LogSlice {
  std::shared_ptr<const FileHandle> file;
  int64_t position = 0;
  int64_t bytes = 0;

  // Reads all of it into `to` (at least `bytes` long). IO_ERROR; also if the file became shorter.
  Status ReadInto(std::span<uint8_t> to) const;
  // Reads `to.size()` bytes from `offset` within the slice.
  Status ReadAt(int64_t offset, std::span<uint8_t> to) const;
};

}  // namespace kmirror::broker
