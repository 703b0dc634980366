// Walks the batches of a segment file from a position, reading as little as asked.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "broker/storage/log_slice.h"
#include "kmirror/log/batch.h"
#include "kmirror/status.h"

namespace kmirror::broker {

// Not thread-safe; holds the descriptor, so the file may be removed meanwhile.
class BatchScanner {
 public:
  enum class Mode {
    kHeaders,   // headers alone, through a small buffer; control records are parsed
    kContents,  // every byte, with the checksum checked
  };
  enum Step {
    kBatch,
    kEnd,     // position() is the end
    kTorn,    // what stands at position() is no whole and valid batch
    kFailed,  // the file could not be read; status() says why
  };

  // Walks [position, end) of the file.
  BatchScanner(std::shared_ptr<const FileHandle> file, int64_t position, int64_t end, Mode mode);

  Step Next(log::BatchInfo* info);
  // Of the next batch; after kBatch, the end of the one returned.
  int64_t position() const { return position_; }
  // Where the batch last returned starts.
  int64_t batch_position() const { return batch_position_; }
  // The whole batch last returned; kContents only.
  ByteView batch() const { return batch_; }
  // Reads the batch last returned whole; any mode.
  Status ReadBatch(const log::BatchInfo& info, std::vector<uint8_t>* bytes) const;
  const Status& status() const { return status_; }

 private:
  // Makes [position_, position_ + bytes) available in buffer_; false on a failed read.
  bool Fill(int64_t bytes);

  std::shared_ptr<const FileHandle> file_;
  int64_t position_;
  const int64_t end_;
  const Mode mode_;
  int64_t batch_position_ = -1;
  std::vector<uint8_t> buffer_;
  int64_t buffer_start_ = 0;  // file position of buffer_[0]
  ByteView batch_;
  Status status_;
};

}  // namespace kmirror::broker
