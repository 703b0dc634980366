// The metadata of one broker in a folder of its own: an fsynced log of batches, and snapshots.
//
//   <20 digits>.snapshot   everything, as of that revision
//   <20 digits>.log        the batches after that revision, each with its checksum
//
// A batch is on disk before Apply answers. A torn tail (the batch that was being written when the
// power went) is cut at opening; damage anywhere else refuses to open. A snapshot is written when
// the log has grown past `snapshot_after_bytes` and past the size of the last snapshot, so that the
// cost of snapshots stays in proportion to what is written.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "broker/controller/metadata_store.h"
#include "broker/storage/file_io.h"

namespace kmirror::broker {

class FileMetadataStore final : public MetadataStore {
 public:
  struct Options {
    std::string directory;  // created if missing
    FileIo* io = nullptr;   // null: the real one; outlives the store
    int64_t snapshot_after_bytes = 4 << 20;
  };

  // kCorruptMessage: names the file and the position. kLogDirNotFound: not usable, or in use by
  // another process. kIo, kNoSpace as the disk answers.
  static Result<std::unique_ptr<FileMetadataStore>> Open(const Options& options);
  ~FileMetadataStore() override;

  Result<std::optional<StoredValue>> Get(std::string_view key) override;
  Result<StoreRange> Range(std::string_view prefix) override;
  Result<int64_t> Apply(std::vector<StoreChange> batch) override;
  Result<std::unique_ptr<StoreWatch>> Watch(int64_t from, StoreWatcher watcher) override;

  // Bytes of a torn batch that opening cut off; 0: the log was whole.
  int64_t torn_bytes() const;
  // Why the last snapshot was not written; OK if it was. The log grows until one succeeds.
  Status last_snapshot() const;
  int64_t log_bytes() const;

 private:
  class Impl;
  explicit FileMetadataStore(std::shared_ptr<Impl> impl);
  const std::shared_ptr<Impl> impl_;  // shared with watches
};

}  // namespace kmirror::broker
