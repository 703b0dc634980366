#include "kmirror/log/record_batch_builder.h"

#include <algorithm>

#include "kmirror/log/checksum.h"
#include "src/log/big_endian.h"

namespace kmirror::log {
namespace {

void AppendBytes(std::vector<uint8_t>* to, std::optional<ByteView> bytes) {
  if (!bytes) {
    AppendVarlong(to, -1);
    return;
  }
  AppendVarlong(to, static_cast<int64_t>(bytes->size()));
  to->insert(to->end(), bytes->begin(), bytes->end());
}

}  // namespace

void RecordBatchBuilder::Add(int64_t timestamp_ms, std::optional<ByteView> key,
                             std::optional<ByteView> value, std::span<const Header> headers,
                             std::optional<int32_t> offset_delta) {
  if (count_ == 0) base_timestamp_ = max_timestamp_ = timestamp_ms;
  max_timestamp_ = std::max(max_timestamp_, timestamp_ms);
  last_delta_ = offset_delta.value_or(last_delta_ + 1);
  std::vector<uint8_t> body;
  body.push_back(0);  // attributes
  AppendVarlong(&body, timestamp_ms - base_timestamp_);
  AppendVarlong(&body, last_delta_);
  AppendBytes(&body, key);
  AppendBytes(&body, value);
  AppendVarlong(&body, static_cast<int64_t>(headers.size()));
  for (const Header& header : headers) {
    AppendBytes(&body, AsBytes(header.key));
    AppendBytes(&body, header.value);
  }
  AppendVarlong(&records_, static_cast<int64_t>(body.size()));
  records_.insert(records_.end(), body.begin(), body.end());
  ++count_;
}

std::vector<uint8_t> RecordBatchBuilder::Build() {
  std::vector<uint8_t> batch(kBatchHeaderBytes);
  uint8_t* at = batch.data();
  StoreBig<int64_t>(at, base_offset);
  StoreBig<int32_t>(at + 8, static_cast<int32_t>(size() - kBatchPrefixBytes));
  StoreBig<int32_t>(at + 12, leader_epoch);
  at[kBatchMagicOffset] = 2;
  StoreBig<int16_t>(at + 21, static_cast<int16_t>((transactional ? kTransactionalFlag : 0) |
                                                  (control ? kControlFlag : 0)));
  StoreBig<int32_t>(at + 23, last_delta_);
  StoreBig<int64_t>(at + 27, base_timestamp_);
  StoreBig<int64_t>(at + 35, max_timestamp_);
  StoreBig<int64_t>(at + 43, producer_id);
  StoreBig<int16_t>(at + 51, producer_epoch);
  StoreBig<int32_t>(at + 53, base_sequence);
  StoreBig<int32_t>(at + 57, count_);
  batch.insert(batch.end(), records_.begin(), records_.end());
  StoreBig<uint32_t>(batch.data() + kBatchCrcOffset,
                     Crc32c(0, ByteView(batch).subspan(kBatchCrcStart)));
  records_.clear();
  count_ = 0;
  last_delta_ = -1;
  base_timestamp_ = max_timestamp_ = -1;
  return batch;
}

}  // namespace kmirror::log
