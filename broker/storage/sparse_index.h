// The two sparse indexes of a segment: offset to file position, and timestamp to offset.
//
// While the segment is written to, entries are in memory; when it is rolled or the log is closed
// they are saved to the file as Kafka lays it out (big endian, nothing else) and dropped. Look-ups
// then read the file. Externally synchronised (Segment's index lock).
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "broker/storage/fd_cache.h"
#include "broker/storage/file_io.h"
#include "kmirror/status.h"

namespace kmirror::broker {

struct OffsetEntry {
  static constexpr int64_t kBytes = 8;
  int32_t relative_offset = 0;  // of a batch's last record, from the segment's base
  int32_t position = 0;         // of that batch's first byte
  int64_t key() const { return relative_offset; }
  // Whether an entry may follow `before`; also tells the zeros of a preallocated file from entries.
  bool Follows(const OffsetEntry& before) const {
    return relative_offset > before.relative_offset && position > before.position;
  }
  void Encode(uint8_t* to) const;
  static OffsetEntry Decode(const uint8_t* from);
};

struct TimeEntry {
  static constexpr int64_t kBytes = 12;
  int64_t timestamp = -1;       // greatest one in the segment so far
  int32_t relative_offset = 0;  // last offset of the batch that has it
  int64_t key() const { return timestamp; }
  bool Follows(const TimeEntry& before) const {
    return timestamp > before.timestamp && relative_offset >= before.relative_offset;
  }
  void Encode(uint8_t* to) const;
  static TimeEntry Decode(const uint8_t* from);
};

template <typename Entry>
class SparseIndex {
 public:
  SparseIndex(std::string path, FileIo* io, std::shared_ptr<FdCache> cache)
      : io_(io), file_(std::move(path), io, cache) {}

  // Why the file cannot be trusted ("missing", "no multiple of an entry"), empty if it can. Sets
  // the number of entries; the zeros of a preallocated tail are not counted.
  std::string OpenSaved();
  // Starts empty, in memory.
  void StartEmpty();
  // Takes the saved entries into memory, to be appended to again.
  Status LoadIntoMemory();
  // Writes the entries to the file; they stay in memory until DropFromMemory.
  Status Save();
  void DropFromMemory();
  bool in_memory() const { return in_memory_; }

  // REQUIRES: in memory.
  void Append(const Entry& entry) { entries_.push_back(entry); }
  // Drops entries for which `relative_offset` >= limit. REQUIRES: in memory.
  void TruncateTo(int64_t limit);

  int64_t size() const { return in_memory_ ? static_cast<int64_t>(entries_.size()) : saved_; }
  Result<std::optional<Entry>> Last() const;
  // The last entry whose key is at most `key`.
  Result<std::optional<Entry>> Floor(int64_t key) const;
  // REQUIRES: 0 <= i < size().
  Result<Entry> At(int64_t i) const;

  LogFile& file() { return file_; }
  std::string path() const { return file_.path(); }

 private:
  FileIo* const io_;
  mutable LogFile file_;
  std::vector<Entry> entries_;
  int64_t saved_ = 0;
  bool in_memory_ = false;
};

using OffsetIndex = SparseIndex<OffsetEntry>;
using TimeIndex = SparseIndex<TimeEntry>;

}  // namespace kmirror::broker
