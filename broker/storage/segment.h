// One segment of a log: the file with the batches, its two sparse indexes and its transaction
// index.
//
// Changed only under the log's append lock. Readers use the base offset, size() and the look-ups,
// which take the index lock of the segment.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "broker/storage/batch_scanner.h"
#include "broker/storage/fd_cache.h"
#include "broker/storage/log_config.h"
#include "broker/storage/sparse_index.h"
#include "broker/storage/transaction_index.h"
#include "kmirror/log/batch.h"
#include "kmirror/status.h"

namespace kmirror::broker {

class Segment {
 public:
  // The files need not exist; nothing is opened.
  Segment(const std::string& directory, int64_t base_offset, FileIo* io,
          std::shared_ptr<FdCache> cache);

  // Creates an empty `.log`, removing index files of the same name that may lie about. The indexes
  // start in memory.
  Status Create(int64_t now_ms);
  // Takes the files as they are. A non-empty answer in *reason: an index is missing or damaged, and
  // the segment must be scanned.
  Status OpenSaved(std::string* reason);
  // Forgets what the indexes say, to be filled again by a scan with Index().
  Status StartScan();
  // Makes the segment writable again: indexes in memory, their files gone (they are written when
  // the segment is closed).
  Status Activate();

  int64_t base_offset() const { return base_offset_; }
  int64_t size() const { return size_.load(std::memory_order_acquire); }
  void set_size(int64_t bytes) { size_.store(bytes, std::memory_order_release); }
  LogFile& log_file() { return log_; }

  // Accounts for batches that were written one behind the other from `position` on; entries go to
  // the indexes as Kafka's do (2.6): before a batch is counted, if more than `interval` bytes lie
  // behind the last entry.
  void Index(std::span<const log::BatchInfo> batches, int64_t position, int64_t interval);
  // Adds the pair of the greatest timestamp to the time index if it is missing.
  void CloseTimeIndex();
  Status SaveIndexes();
  void DropIndexesFromMemory();
  Status AppendAborted(std::span<const AbortedEntry> entries);
  std::vector<AbortedEntry> Aborted() const;
  bool IndexFull(int64_t segment_index_bytes) const;
  // -1 if the segment has no batch with a timestamp.
  int64_t max_timestamp() const;
  int64_t max_timestamp_offset() const;  // last offset of the batch that has it
  int64_t first_timestamp() const { return first_timestamp_; }
  void set_first_timestamp(int64_t timestamp) { first_timestamp_ = timestamp; }
  int64_t created_ms() const { return created_ms_; }
  void set_created_ms(int64_t now_ms) { created_ms_ = now_ms; }

  // A scanner that stands at or before the batch that holds `offset`; `end` bounds it.
  Result<BatchScanner> ScannerFor(int64_t offset, int64_t end) const;
  // Position from which a search for timestamps >= `timestamp` starts.
  Result<BatchScanner> ScannerForTimestamp(int64_t timestamp, int64_t end) const;
  Result<BatchScanner> ScannerAt(int64_t position, int64_t end, BatchScanner::Mode mode) const;
  // The end offset of the batches, found from the last index entry on; base_offset if there is
  // none. *last: the last batch, if any. CORRUPT_MESSAGE: the file does not end with a whole batch.
  Result<int64_t> FindEnd(std::optional<log::BatchInfo>* last) const;

  // Cuts the segment to `size` bytes and its indexes to below `offset`. REQUIRES: Activate()d.
  Status Cut(int64_t size, int64_t offset);

  // Renames every file of the segment to "<name>.deleted".
  Status MarkDeleted();
  // Removes the files, deleted or not.
  void RemoveFiles();
  // Syncs the log; `closed`: and its indexes, which nothing changes any more.
  Status Sync(bool closed);

  // Space reserved beyond the size so far; see preallocate_ahead_bytes.
  int64_t allocated = 0;

 private:
  // Recomputes the greatest timestamp and the distance to the last entry after a cut or opening.
  Status RecountAfterCut();

  const std::string directory_;
  const int64_t base_offset_;
  FileIo* const io_;
  mutable LogFile log_;
  std::atomic<int64_t> size_{0};
  int64_t created_ms_ = 0;
  int64_t first_timestamp_ = -1;
  int64_t bytes_since_entry_ = 0;
  bool deleted_ = false;

  mutable std::mutex index_mutex_;  // guards what follows
  OffsetIndex offsets_;
  TimeIndex times_;
  TransactionIndex aborted_;
  int64_t max_timestamp_ = -1;
  int64_t max_timestamp_offset_ = -1;
  int64_t last_indexed_timestamp_ = -1;
};

}  // namespace kmirror::broker
