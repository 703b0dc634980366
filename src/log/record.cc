#include "kmirror/log/record.h"

#include "src/log/big_endian.h"

namespace kmirror::log {
namespace {

// A length and that many bytes; -1 is null where allowed.
bool TakeBytes(ByteView* from, bool nullable, std::optional<ByteView>* bytes) noexcept {
  int32_t length = 0;
  if (!TakeVarint(from, &length)) return false;
  if (length < 0) {
    if (!nullable || length != -1) return false;
    bytes->reset();
    return true;
  }
  if (static_cast<size_t>(length) > from->size()) return false;
  *bytes = from->first(length);
  *from = from->subspan(length);
  return true;
}

}  // namespace

RecordReader::Step RecordReader::Next(RecordView* record) noexcept {
  if (read_ >= info_.count) return kEnd;
  int32_t length = 0;
  if (!TakeVarint(&rest_, &length) || length < 0 || static_cast<size_t>(length) > rest_.size()) {
    return kCorrupt;
  }
  ByteView body = rest_.first(length);
  rest_ = rest_.subspan(length);
  if (body.empty()) return kCorrupt;
  body = body.subspan(1);  // attributes: unused
  int64_t timestamp_delta = 0;
  int32_t offset_delta = 0;
  if (!TakeVarlong(&body, 10, &timestamp_delta) || !TakeVarint(&body, &offset_delta) ||
      offset_delta < 0) {
    return kCorrupt;
  }
  RecordView out;
  out.offset = info_.base_offset + offset_delta;
  // Unsigned: hostile deltas may wrap, and must not be undefined.
  out.timestamp = info_.IsLogAppendTime()
                      ? info_.max_timestamp
                      : static_cast<int64_t>(static_cast<uint64_t>(info_.base_timestamp) +
                                             static_cast<uint64_t>(timestamp_delta));
  if (!TakeBytes(&body, true, &out.key) || !TakeBytes(&body, true, &out.value) ||
      !TakeVarint(&body, &out.header_count) || out.header_count < 0) {
    return kCorrupt;
  }
  out.headers = body;
  for (int32_t i = 0; i < out.header_count; ++i) {
    std::optional<ByteView> part;
    if (!TakeBytes(&body, false, &part) || !TakeBytes(&body, true, &part)) return kCorrupt;
  }
  if (!body.empty()) return kCorrupt;
  *record = out;
  ++read_;
  return kRecord;
}

}  // namespace kmirror::log
