#include "kmirror/log/batch.h"

#include <gtest/gtest.h>

#include "kmirror/log/checksum.h"
#include "kmirror/log/record_batch_builder.h"
#include "src/log/big_endian.h"
#include "tests/log/hex.h"

namespace kmirror::log {
namespace {

using test::FromHex;

std::vector<uint8_t> OneBatch(int64_t base_offset, int records) {
  RecordBatchBuilder builder;
  builder.base_offset = base_offset;
  builder.leader_epoch = 3;
  builder.producer_id = 9;
  builder.producer_epoch = 1;
  builder.base_sequence = 40;
  for (int i = 0; i < records; ++i) builder.Add(1000 + i, AsBytes("key"), AsBytes("value"));
  return builder.Build();
}

TEST(Checksum, HasTheCheckValuesOfBothPolynomials) {
  EXPECT_EQ(Crc32c(0, AsBytes("123456789")), 0xE3069283u);
  EXPECT_EQ(Crc32Ieee(0, AsBytes("123456789")), 0xCBF43926u);
}

TEST(Checksum, IsTheSameInPieces) {
  const std::string text(1000, 'x');
  for (size_t cut = 0; cut <= text.size(); cut += 37) {
    const auto first = AsBytes(std::string_view(text).substr(0, cut));
    const auto rest = AsBytes(std::string_view(text).substr(cut));
    ASSERT_EQ(Crc32c(Crc32c(0, first), rest), Crc32c(0, AsBytes(text)));
    ASSERT_EQ(Crc32Ieee(Crc32Ieee(0, first), rest), Crc32Ieee(0, AsBytes(text)));
  }
}

TEST(BatchHeader, GivesEveryField) {
  const auto bytes = OneBatch(77, 4);
  BatchInfo info;
  ASSERT_EQ(ParseBatchHeader(bytes, &info), ParseResult::kOk);
  EXPECT_EQ(info.base_offset, 77);
  EXPECT_EQ(info.last_offset, 80);
  EXPECT_EQ(info.count, 4);
  EXPECT_EQ(info.leader_epoch, 3);
  EXPECT_EQ(info.producer_id, 9);
  EXPECT_EQ(info.producer_epoch, 1);
  EXPECT_EQ(info.base_sequence, 40);
  EXPECT_EQ(info.LastSequence(), 43);
  EXPECT_EQ(info.base_timestamp, 1000);
  EXPECT_EQ(info.max_timestamp, 1003);
  EXPECT_EQ(info.bytes, static_cast<int32_t>(bytes.size()));
  EXPECT_TRUE(CheckBatchCrc(bytes, info));
}

TEST(BatchHeader, WrapsTheLastSequenceToZero) {
  BatchInfo info;
  info.base_offset = 0;
  info.last_offset = 2;
  info.base_sequence = INT32_MAX - 1;
  EXPECT_EQ(info.LastSequence(), 0);
  info.last_offset = 1;
  EXPECT_EQ(info.LastSequence(), INT32_MAX);
}

TEST(BatchHeader, AsksForMoreBytesUntilTheHeaderIsThere) {
  const auto bytes = OneBatch(0, 1);
  BatchInfo info;
  for (size_t n = 0; n < kBatchHeaderBytes; ++n) {
    ASSERT_EQ(ParseBatchHeader(ByteView(bytes).first(n), &info), ParseResult::kIncomplete) << n;
  }
  EXPECT_EQ(ParseBatchHeader(ByteView(bytes).first(kBatchHeaderBytes), &info), ParseResult::kOk);
}

TEST(BatchHeader, RefusesImpossibleFields) {
  BatchInfo info;
  const auto expect_corrupt = [&](size_t at, std::vector<uint8_t> patch) {
    auto bytes = OneBatch(0, 1);
    std::copy(patch.begin(), patch.end(), bytes.begin() + static_cast<std::ptrdiff_t>(at));
    EXPECT_EQ(ParseBatchHeader(bytes, &info), ParseResult::kCorrupt) << "patch at " << at;
  };
  expect_corrupt(8, {0xff, 0xff, 0xff, 0xff});  // negative length
  expect_corrupt(8, {0, 0, 0, 13});             // below the smallest entry
  expect_corrupt(8, {0, 0, 0, 48});             // below a v2 header
  expect_corrupt(8, {0x7f, 0xff, 0xff, 0xff});  // would overflow
  expect_corrupt(16, {3});                      // unknown magic
  expect_corrupt(16, {0x82});
  expect_corrupt(0, {0x80});                                            // negative offset
  expect_corrupt(0, {0x7f, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff});  // no offset after it
  expect_corrupt(23, {0xff, 0xff, 0xff, 0xff});                         // negative delta
  expect_corrupt(57, {0xff, 0xff, 0xff, 0xff});                         // negative count
}

TEST(BatchWalker, StopsQuietlyAtAnIncompleteBatch) {
  auto bytes = OneBatch(0, 2);
  const auto second = OneBatch(2, 1);
  bytes.insert(bytes.end(), second.begin(), second.end());
  for (size_t cut = 0; cut < second.size(); ++cut) {
    BatchWalker walker(ByteView(bytes).first(bytes.size() - second.size() + cut));
    BatchInfo info;
    ByteView batch;
    ASSERT_EQ(walker.Next(&info, &batch), BatchWalker::kBatch);
    ASSERT_EQ(info.last_offset, 1);
    ASSERT_EQ(walker.Next(&info, &batch), BatchWalker::kEnd) << cut;
    ASSERT_EQ(walker.remaining(), cut);
  }
}

// Written by hand from the format: an uncompressed v1 entry with key "k", value "v", and a v0 one.
TEST(BatchHeader, ReadsLegacyEntries) {
  std::vector<uint8_t> v1 = FromHex(
      "0000000000000005 00000018 00000000 01 00 0000018bcfe56800"
      "00000001 6b 00000001 76");
  StoreBig<uint32_t>(v1.data() + 12, Crc32Ieee(0, ByteView(v1).subspan(16)));
  BatchInfo info;
  ASSERT_EQ(ParseBatchHeader(v1, &info), ParseResult::kOk);
  EXPECT_EQ(info.magic, 1);
  EXPECT_EQ(info.base_offset, 5);
  EXPECT_EQ(info.last_offset, 5);
  EXPECT_EQ(info.leader_epoch, -1);
  EXPECT_EQ(info.producer_id, -1);
  EXPECT_EQ(info.max_timestamp, 1700000000000);
  EXPECT_TRUE(CheckBatchCrc(v1, info));
  v1.back() ^= 1;
  EXPECT_FALSE(CheckBatchCrc(v1, info));

  std::vector<uint8_t> v0 =
      FromHex("0000000000000006 00000010 00000000 00 38 00000001 6b 00000001 76");
  StoreBig<uint32_t>(v0.data() + 12, Crc32Ieee(0, ByteView(v0).subspan(16)));
  ASSERT_EQ(v0.size(), 28u);
  ASSERT_EQ(ParseBatchHeader(v0, &info), ParseResult::kOk);
  EXPECT_EQ(info.magic, 0);
  EXPECT_EQ(info.last_offset, 6);
  EXPECT_FALSE(info.IsControl()) << "bits of v2 mean nothing here";
  EXPECT_FALSE(info.IsTransactional());
  EXPECT_TRUE(CheckBatchCrc(v0, info));
}

TEST(BatchWriters, ChangeNothingTheChecksumCoversExceptLogAppendTime) {
  auto bytes = OneBatch(0, 2);
  BatchInfo info;
  SetBaseOffset(bytes, 500);
  SetLeaderEpoch(bytes, 12);
  ASSERT_EQ(ParseBatchHeader(bytes, &info), ParseResult::kOk);
  EXPECT_EQ(info.base_offset, 500);
  EXPECT_EQ(info.leader_epoch, 12);
  EXPECT_TRUE(CheckBatchCrc(bytes, info));
  SetLogAppendTime(bytes, 123456);
  ASSERT_EQ(ParseBatchHeader(bytes, &info), ParseResult::kOk);
  EXPECT_TRUE(info.IsLogAppendTime());
  EXPECT_EQ(info.max_timestamp, 123456);
  EXPECT_TRUE(CheckBatchCrc(bytes, info));
}

}  // namespace
}  // namespace kmirror::log
