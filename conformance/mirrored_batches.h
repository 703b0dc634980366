// Batches for tests, and a MirroredSet that owns what it points to.
//
//   OwnedSet set({DataBatch({.base_offset = 0, .leader_epoch = 5}, 3)}, /*expected_end=*/0,
//                /*local_leader_epoch=*/16);
//   log->AppendMirrored(set.get(), nullptr);
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "kmirror/host/partition_log.h"
#include "kmirror/log/batch.h"
#include "kmirror/log/control_batch.h"
#include "kmirror/log/record_batch_builder.h"

namespace kmirror::conformance {

using Bytes = std::vector<uint8_t>;

struct BatchSpec {
  int64_t base_offset = 0;
  int32_t leader_epoch = 0;
  int64_t producer_id = -1;
  int16_t producer_epoch = 0;
  int32_t base_sequence = 0;
  bool transactional = false;
  int64_t timestamp_ms = 1'700'000'000'000;
};

// `records` small records at consecutive offsets. Without a producer id the producer fields are -1.
inline Bytes DataBatch(const BatchSpec& spec, int records = 1, size_t value_bytes = 16) {
  log::RecordBatchBuilder builder;
  builder.base_offset = spec.base_offset;
  builder.leader_epoch = spec.leader_epoch;
  builder.producer_id = spec.producer_id;
  builder.producer_epoch = spec.producer_id < 0 ? int16_t{-1} : spec.producer_epoch;
  builder.base_sequence = spec.producer_id < 0 ? -1 : spec.base_sequence;
  builder.transactional = spec.transactional;
  for (int i = 0; i < records; ++i) {
    std::string value = "value " + std::to_string(spec.base_offset + i);
    value.resize(value_bytes, '.');
    builder.Add(spec.timestamp_ms + i, std::nullopt, log::AsBytes(value));
  }
  return builder.Build();
}

inline Bytes Marker(int16_t control_type, const BatchSpec& spec, int32_t coordinator_epoch = 0) {
  const auto bytes =
      log::EndTxnBatch(control_type, spec.base_offset, spec.leader_epoch, spec.timestamp_ms,
                       spec.producer_id, spec.producer_epoch, coordinator_epoch);
  return {bytes.begin(), bytes.end()};
}

inline Bytes Reset(int64_t base_offset, int32_t leader_epoch) {
  const auto bytes = log::PidResetBatch(base_offset, leader_epoch, 1'700'000'000'000);
  return {bytes.begin(), bytes.end()};
}

class OwnedSet {
 public:
  OwnedSet(std::vector<Bytes> batches, int64_t expected_end, int32_t local_leader_epoch)
      : bytes_(std::move(batches)) {
    for (const Bytes& batch : bytes_) {
      log::BatchInfo info;
      (void)log::ParseBatchHeader(batch, &info);
      (void)log::ParseControlRecord(batch, &info);
      infos_.push_back(info);
      pieces_.emplace_back(batch);
      all_.insert(all_.end(), batch.begin(), batch.end());
    }
    set_.bytes = pieces_;
    set_.batches = infos_;
    set_.expected_end_offset = expected_end;
    set_.local_leader_epoch = local_leader_epoch;
  }
  OwnedSet(const OwnedSet&) = delete;
  OwnedSet& operator=(const OwnedSet&) = delete;

  host::MirroredSet& get() { return set_; }
  std::vector<log::BatchInfo>& infos() { return infos_; }
  const Bytes& all() const { return all_; }

  // Cuts the bytes anew into pieces of `size`, as slabs of a network buffer would: borders of
  // pieces and of batches have nothing to do with each other.
  void CutPieces(size_t size) {
    pieces_.clear();
    for (size_t at = 0; at < all_.size(); at += size) {
      pieces_.push_back(ByteView(all_).subspan(at, std::min(size, all_.size() - at)));
    }
    set_.bytes = pieces_;
  }

 private:
  std::vector<Bytes> bytes_;
  std::vector<log::BatchInfo> infos_;
  std::vector<ByteView> pieces_;
  Bytes all_;
  host::MirroredSet set_;
};

}  // namespace kmirror::conformance
