// A piece of a segment file, handed to a reader without copying it.
#pragma once

#include <atomic>
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

// `bytes` bytes from `position` of a segment, always whole batches unless cut by max_bytes. A cut
// of the log's end changes them under the reader, who therefore asks Intact() after he has read;
// the removal of the segment does not.
struct LogSlice {
  std::shared_ptr<const FileHandle> file;
  int64_t position = 0;
  int64_t bytes = 0;
  std::shared_ptr<const std::atomic<uint64_t>> cuts;  // of the log; null: there are none
  uint64_t cuts_before = 0;                           // when the slice was made

  // No cut has begun since the slice was made: what was read before this was asked is what the log
  // held. Once false, always false.
  bool Intact() const noexcept {
    return cuts == nullptr || cuts->load(std::memory_order_seq_cst) == cuts_before;
  }
  // Reads all of it into `to` (at least `bytes` long). IO_ERROR; also if the file became shorter.
  Status ReadInto(std::span<uint8_t> to) const;
  // Reads `to.size()` bytes from `offset` within the slice.
  Status ReadAt(int64_t offset, std::span<uint8_t> to) const;
};

}  // namespace kmirror::broker
