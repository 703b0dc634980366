// Builds an uncompressed v2 batch from records: for internal topics, tools and tests.
//
//   RecordBatchBuilder builder;
//   builder.Add(now_ms, key, value);
//   std::vector<uint8_t> batch = builder.Build();
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "kmirror/log/batch.h"
#include "kmirror/types.h"

namespace kmirror::log {

class RecordBatchBuilder {
 public:
  struct Header {
    std::string_view key;
    std::optional<ByteView> value;
  };

  // Fields of the header; offsets and epoch are usually set by the log that appends.
  int64_t base_offset = 0;
  int32_t leader_epoch = -1;
  int64_t producer_id = -1;
  int16_t producer_epoch = -1;
  int32_t base_sequence = -1;
  bool transactional = false;
  bool control = false;

  // nullopt is null. The bytes are copied. Offset deltas count up from 0 unless given (they must
  // increase: holes as a cleaner leaves them).
  KMIRROR_API void Add(int64_t timestamp_ms, std::optional<ByteView> key,
                       std::optional<ByteView> value, std::span<const Header> headers = {},
                       std::optional<int32_t> offset_delta = std::nullopt);

  // Bytes the batch will have.
  size_t size() const { return kBatchHeaderBytes + records_.size(); }
  int32_t count() const { return count_; }

  // The whole batch with its checksum. REQUIRES: count() > 0. The builder is empty afterwards; the
  // header fields stay.
  KMIRROR_API std::vector<uint8_t> Build();

 private:
  std::vector<uint8_t> records_;
  int64_t base_timestamp_ = -1;
  int64_t max_timestamp_ = -1;
  int32_t count_ = 0;
  int32_t last_delta_ = -1;
};

inline ByteView AsBytes(std::string_view text) {
  return {reinterpret_cast<const uint8_t*>(text.data()), text.size()};
}

}  // namespace kmirror::log
