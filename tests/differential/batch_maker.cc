#include "tests/differential/batch_maker.h"

#include <lz4frame.h>
#include <snappy.h>
#include <zlib.h>
#include <zstd.h>

#include <cstring>

#include "kmirror/log/checksum.h"
#include "kmirror/log/record_batch_builder.h"

namespace kmirror::test {
namespace {

using Bytes = std::vector<uint8_t>;

// Places in the header of a v2 batch.
constexpr size_t kLengthAt = 8;
constexpr size_t kLeaderEpochAt = 12;
constexpr size_t kAttributesAt = 21;
constexpr size_t kLastDeltaAt = 23;
constexpr size_t kMaxTimestampAt = 35;
constexpr size_t kProducerIdAt = 43;
constexpr size_t kProducerEpochAt = 51;
constexpr size_t kCountAt = 57;

template <typename T>
void Put(Bytes* bytes, size_t at, T value) {
  for (size_t i = 0; i < sizeof value; ++i) {
    (*bytes)[at + i] =
        static_cast<uint8_t>(static_cast<uint64_t>(value) >> (8 * (sizeof value - 1 - i)));
  }
}

void PutSum(Bytes* batch) {
  Put(batch, log::kBatchCrcOffset, log::Crc32c(0, ByteView(*batch).subspan(log::kBatchCrcStart)));
}

Bytes Gzip(ByteView in) {
  z_stream stream{};
  if (deflateInit2(&stream, 6, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY) != Z_OK) return {};
  Bytes out(deflateBound(&stream, in.size()));
  stream.next_in = const_cast<Bytef*>(in.data());
  stream.avail_in = static_cast<uInt>(in.size());
  stream.next_out = out.data();
  stream.avail_out = static_cast<uInt>(out.size());
  deflate(&stream, Z_FINISH);
  out.resize(stream.total_out);
  deflateEnd(&stream);
  return out;
}

// Java's framing: magic, two versions, then length and block.
Bytes Snappy(ByteView in) {
  std::string block;
  snappy::Compress(reinterpret_cast<const char*>(in.data()), in.size(), &block);
  Bytes out = {0x82, 'S', 'N', 'A', 'P', 'P', 'Y', 0, 0, 0, 0, 1, 0, 0, 0, 1};
  const size_t at = out.size();
  out.resize(at + 4);
  Put(&out, at, static_cast<int32_t>(block.size()));
  out.insert(out.end(), block.begin(), block.end());
  return out;
}

Bytes Lz4(ByteView in) {
  LZ4F_preferences_t preferences{};
  preferences.frameInfo.blockMode = LZ4F_blockIndependent;  // all that Java reads
  Bytes out(LZ4F_compressFrameBound(in.size(), &preferences));
  out.resize(LZ4F_compressFrame(out.data(), out.size(), in.data(), in.size(), &preferences));
  return out;
}

Bytes Zstd(ByteView in) {
  Bytes out(ZSTD_compressBound(in.size()));
  out.resize(ZSTD_compress(out.data(), out.size(), in.data(), in.size(), 3));
  return out;
}

Bytes Compressed(log::Compression codec, ByteView in) {
  switch (codec) {
    case log::Compression::kNone: break;
    case log::Compression::kGzip: return Gzip(in);
    case log::Compression::kSnappy: return Snappy(in);
    case log::Compression::kLz4: return Lz4(in);
    case log::Compression::kZstd: return Zstd(in);
  }
  return {in.begin(), in.end()};
}

void SetPayload(Bytes* batch, const Bytes& payload) {
  batch->resize(log::kBatchHeaderBytes);
  batch->insert(batch->end(), payload.begin(), payload.end());
  Put(batch, kLengthAt, static_cast<int32_t>(batch->size() - log::kBatchPrefixBytes));
}

Bytes Payload(const Bytes& batch) {
  return {batch.begin() + static_cast<std::ptrdiff_t>(log::kBatchHeaderBytes), batch.end()};
}

Bytes LegacyMessage(int64_t timestamp_ms) {
  Bytes out(34 + 2);
  Put(&out, 8, static_cast<int32_t>(out.size() - 12));
  out[16] = 1;
  Put(&out, 18, timestamp_ms);
  Put(&out, 26, int32_t{-1});  // no key
  Put(&out, 30, int32_t{2});
  out[34] = 'o';
  out[35] = 'k';
  Put(&out, log::kLegacyCrcOffset, log::Crc32Ieee(0, ByteView(out).subspan(log::kLegacyCrcStart)));
  return out;
}

void AddAttribute(Bytes* batch, int16_t bits) {
  Put(batch, kAttributesAt,
      static_cast<int16_t>(((*batch)[kAttributesAt] << 8 | (*batch)[kAttributesAt + 1]) | bits));
}

void MakeOdd(const BatchPlan& plan, Bytes* batch) {
  switch (plan.oddity) {
    case Oddity::kNone:
    case Oddity::kWrongChecksum:
    case Oddity::kCut:
    case Oddity::kTwoBatches:
    case Oddity::kMagicOne: break;
    case Oddity::kNoRecords:
      SetPayload(batch, {});
      Put(batch, kCountAt, int32_t{0});
      break;
    case Oddity::kCountTooSmall: Put(batch, kCountAt, int32_t{plan.count - 1}); break;
    case Oddity::kCountTooGreat: Put(batch, kCountAt, int32_t{plan.count + 1}); break;
    case Oddity::kLastDeltaTooGreat: Put(batch, kLastDeltaAt, int32_t{plan.count}); break;
    case Oddity::kBaseOffsetNotZero: Put(batch, 0, int64_t{1000}); break;
    case Oddity::kControl: AddAttribute(batch, log::kControlFlag); break;
    case Oddity::kTransactionalWithoutProducer: AddAttribute(batch, log::kTransactionalFlag); break;
    case Oddity::kProducerWithoutSequence:
      Put(batch, kProducerIdAt, int64_t{4711});
      Put(batch, kProducerEpochAt, int16_t{0});
      break;
    case Oddity::kMagicThree: (*batch)[log::kBatchMagicOffset] = 3; break;
    case Oddity::kUnknownCodec: AddAttribute(batch, 5); break;
    case Oddity::kUnknownAttribute: AddAttribute(batch, 0x0200); break;
    case Oddity::kDeleteHorizon: AddAttribute(batch, log::kDeleteHorizonFlag); break;
    case Oddity::kLogAppendTime: AddAttribute(batch, log::kLogAppendTimeFlag); break;
    case Oddity::kMaxTimestampWrong: Put(batch, kMaxTimestampAt, plan.timestamp_ms + 5000); break;
    case Oddity::kLeaderEpoch: Put(batch, kLeaderEpochAt, int32_t{9}); break;
    case Oddity::kRecordDamaged: (*batch)[log::kBatchHeaderBytes] ^= 0x02; break;
    case Oddity::kOffsetDeltasWrong: {
      // length, attributes, timestamp delta (all of one byte here), offset delta.
      (*batch)[log::kBatchHeaderBytes + 3] = 6;
      break;
    }
    case Oddity::kGarbageCompressed:
      AddAttribute(batch, static_cast<int16_t>(log::Compression::kGzip));
      break;
    case Oddity::kBytesAfterRecords: {
      Bytes payload = Payload(*batch);
      payload.insert(payload.end(), {1, 2, 3});
      SetPayload(batch, payload);
      break;
    }
  }
}

}  // namespace

const char* NameOf(Oddity oddity) {
  switch (oddity) {
    case Oddity::kNone: return "good";
    case Oddity::kWrongChecksum: return "wrong checksum";
    case Oddity::kCut: return "cut";
    case Oddity::kTwoBatches: return "two batches";
    case Oddity::kNoRecords: return "no records";
    case Oddity::kCountTooSmall: return "count too small";
    case Oddity::kCountTooGreat: return "count too great";
    case Oddity::kLastDeltaTooGreat: return "last delta too great";
    case Oddity::kBaseOffsetNotZero: return "base offset not zero";
    case Oddity::kControl: return "control";
    case Oddity::kTransactionalWithoutProducer: return "transactional without producer";
    case Oddity::kProducerWithoutSequence: return "producer without sequence";
    case Oddity::kMagicOne: return "magic one";
    case Oddity::kMagicThree: return "magic three";
    case Oddity::kUnknownCodec: return "unknown codec";
    case Oddity::kUnknownAttribute: return "unknown attribute";
    case Oddity::kDeleteHorizon: return "delete horizon";
    case Oddity::kLogAppendTime: return "log append time";
    case Oddity::kMaxTimestampWrong: return "max timestamp wrong";
    case Oddity::kLeaderEpoch: return "leader epoch";
    case Oddity::kRecordDamaged: return "record damaged";
    case Oddity::kOffsetDeltasWrong: return "offset deltas wrong";
    case Oddity::kGarbageCompressed: return "garbage compressed";
    case Oddity::kBytesAfterRecords: return "bytes after records";
  }
  return "?";
}

std::vector<uint8_t> MakeBatch(const BatchPlan& plan) {
  if (plan.oddity == Oddity::kMagicOne) return LegacyMessage(plan.timestamp_ms);
  log::RecordBatchBuilder builder;
  builder.producer_id = plan.producer_id;
  builder.producer_epoch = plan.producer_epoch;
  builder.base_sequence = plan.base_sequence;
  builder.transactional = plan.transactional;
  for (int i = 0; i < plan.count; ++i) {
    const std::string key = "k" + std::to_string(i % 5);
    const std::string value(plan.value_bytes, static_cast<char>('a' + i % 26));
    builder.Add(plan.timestamp_ms + i * plan.timestamp_step_ms,
                plan.keys ? std::optional(log::AsBytes(key)) : std::nullopt, log::AsBytes(value));
  }
  Bytes batch = builder.Build();
  if (plan.codec != log::Compression::kNone) {
    SetPayload(&batch, Compressed(plan.codec, Payload(batch)));
    AddAttribute(&batch, static_cast<int16_t>(plan.codec));
  }
  MakeOdd(plan, &batch);
  PutSum(&batch);
  if (plan.oddity == Oddity::kWrongChecksum) batch[log::kBatchCrcOffset] ^= 0x40;
  if (plan.oddity == Oddity::kCut) batch.pop_back();
  if (plan.oddity == Oddity::kTwoBatches) {
    const Bytes second = batch;
    batch.insert(batch.end(), second.begin(), second.end());
  }
  return batch;
}

}  // namespace kmirror::test
