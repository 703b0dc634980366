// The records of a Produce or a Fetch: bytes that belong to somebody else. Never copied by the
// codec.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "kmirror/types.h"

namespace kmirror::protocol {

// A range of an open file, to be sent from there. `owner` keeps `fd` open.
struct FileSlice {
  int fd = -1;
  int64_t offset = 0;  // bytes from the start of the file
  size_t size = 0;     // bytes
  std::shared_ptr<const void> owner;
  // The file's bytes may change when this counts up; null: they never do.
  std::shared_ptr<const std::atomic<uint64_t>> changes;
  uint64_t changes_before = 0;  // when the range was found

  // What was read before this was asked is what the range held when it was found.
  bool Intact() const noexcept { return changes == nullptr || *changes == changes_before; }

  bool operator==(const FileSlice& other) const {
    return fd == other.fd && offset == other.offset && size == other.size;
  }
};

// Either bytes in memory or a FileSlice.
//
// After a decode: in memory, pointing into the frame, without owner; the frame must outlive it.
// For an encode: without owner the bytes must outlive the Writer; an owner is kept by the Writer.
class RecordsView {
 public:
  RecordsView() = default;
  RecordsView(ByteView bytes) : bytes_(bytes) {}  // NOLINT: implicit by design
  RecordsView(ByteView bytes, std::shared_ptr<const void> owner)
      : bytes_(bytes), owner_(std::move(owner)) {}
  explicit RecordsView(FileSlice file) : file_(std::move(file)) {}

  bool is_file() const { return file_.fd >= 0; }
  size_t size() const { return is_file() ? file_.size : bytes_.size(); }
  bool empty() const { return size() == 0; }

  // The bytes in memory; empty for a file.
  ByteView bytes() const { return bytes_; }
  const std::shared_ptr<const void>& owner() const { return owner_; }
  // REQUIRES: is_file().
  const FileSlice& file() const { return file_; }

  // Same content for bytes, same range for files.
  bool operator==(const RecordsView& other) const {
    return file_ == other.file_ && std::ranges::equal(bytes_, other.bytes_);
  }

 private:
  ByteView bytes_;
  std::shared_ptr<const void> owner_;
  FileSlice file_;
};

}  // namespace kmirror::protocol
