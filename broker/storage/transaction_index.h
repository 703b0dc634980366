// The aborted transactions whose markers are in one segment (`<base>.txnindex`).
//
// 34 bytes an entry: version 0, producer id, first offset, marker offset, stable offset (the one at
// that very batch; a file of Kafka's may hold another value in it, so no search relies on it,
// S109). Always in memory as well. Externally synchronised (Segment's index lock).
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "broker/storage/fd_cache.h"
#include "broker/storage/file_io.h"
#include "kmirror/status.h"

namespace kmirror::broker {

struct AbortedEntry {
  static constexpr int64_t kBytes = 34;
  int64_t producer_id = -1;
  int64_t first_offset = -1;
  int64_t last_offset = -1;  // of the marker
  int64_t last_stable_offset = -1;
  bool operator==(const AbortedEntry&) const = default;
};

class TransactionIndex {
 public:
  TransactionIndex(std::string path, FileIo* io, std::shared_ptr<FdCache> cache);

  // Reads the file; none means no entries. CORRUPT_MESSAGE: wrong size, version or order.
  Status Load();
  // Writes the entries behind those that are there; creates the file with the first. On failure the
  // index is as before, or KAFKA_STORAGE_ERROR if the file could not be cut back.
  Status Append(std::span<const AbortedEntry> entries);
  // Drops entries with a marker at or after `offset`; removes the file when none is left.
  Status TruncateTo(int64_t offset);

  const std::vector<AbortedEntry>& entries() const { return entries_; }
  LogFile& file() { return file_; }
  std::string path() const { return file_.path(); }

 private:
  Status Rewrite();

  FileIo* const io_;
  LogFile file_;
  std::vector<AbortedEntry> entries_;
};

}  // namespace kmirror::broker
