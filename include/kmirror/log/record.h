// The records inside an uncompressed v2 batch, read in place.
//
// Only what must look inside uses this: control records, internal topics, look-ups by time.
// Mirrored data is never read record by record. Pure and thread-safe; every length is checked.
#pragma once

#include <cstdint>
#include <optional>

#include "kmirror/log/batch.h"
#include "kmirror/types.h"

namespace kmirror::log {

// Views into the batch; valid as long as its bytes are.
struct RecordView {
  int64_t offset = -1;
  int64_t timestamp = -1;
  std::optional<ByteView> key;    // nullopt: null
  std::optional<ByteView> value;  // nullopt: null (a tombstone)
  int32_t header_count = 0;
  ByteView headers;  // encoded: header_count times key and value
};

// Reads the records of a v2 batch. `records` are the bytes after the 61 of the header, decompressed
// if the batch was compressed; `info` is the batch's header.
class RecordReader {
 public:
  enum Step { kRecord, kEnd, kCorrupt };

  RecordReader(const BatchInfo& info, ByteView records) : info_(info), rest_(records) {}

  // info.count records, then kEnd. kCorrupt: a length that does not fit, or bytes missing.
  KMIRROR_API Step Next(RecordView* record) noexcept;
  // Bytes not read: after kEnd those behind the last record, of which a good batch has none.
  size_t remaining() const { return rest_.size(); }

 private:
  BatchInfo info_;
  ByteView rest_;
  int32_t read_ = 0;
};

}  // namespace kmirror::log
