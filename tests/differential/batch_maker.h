// Record batches as clients send them, and as no client should.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "kmirror/log/batch.h"
#include "kmirror/types.h"

namespace kmirror::test {

// What is odd about a batch. All but the first three carry the right checksum.
enum class Oddity {
  kNone,
  kWrongChecksum,
  kCut,            // the last byte is missing
  kTwoBatches,     // one after the other
  kNoRecords,      // a header that counts nothing
  kCountTooSmall,  // header and records disagree
  kCountTooGreat,
  kLastDeltaTooGreat,
  kBaseOffsetNotZero,
  kControl,
  kTransactionalWithoutProducer,
  kProducerWithoutSequence,
  kMagicOne,  // a message set of old
  kMagicThree,
  kUnknownCodec,
  kUnknownAttribute,
  kDeleteHorizon,
  kLogAppendTime,
  kMaxTimestampWrong,
  kLeaderEpoch,
  kRecordDamaged,      // of uncompressed ones
  kOffsetDeltasWrong,  // of uncompressed ones
  kGarbageCompressed,  // says gzip and is not
  kBytesAfterRecords,
  kLast = kBytesAfterRecords,
};
const char* NameOf(Oddity oddity);

struct BatchPlan {
  int count = 1;
  size_t value_bytes = 8;
  bool keys = true;
  int64_t timestamp_ms = 1700000000000;
  int64_t timestamp_step_ms = 1;
  log::Compression codec = log::Compression::kNone;
  int64_t producer_id = -1;
  int16_t producer_epoch = -1;
  int32_t base_sequence = -1;
  bool transactional = false;
  Oddity oddity = Oddity::kNone;
};

std::vector<uint8_t> MakeBatch(const BatchPlan& plan);

}  // namespace kmirror::test
