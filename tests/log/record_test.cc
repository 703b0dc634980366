#include "kmirror/log/record.h"

#include <gtest/gtest.h>

#include "kmirror/log/record_batch_builder.h"

namespace kmirror::log {
namespace {

std::string_view Text(ByteView bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

TEST(RecordReader, ReadsBackWhatTheBuilderWrote) {
  RecordBatchBuilder builder;
  builder.base_offset = 10;
  const RecordBatchBuilder::Header headers[] = {
      {"h", AsBytes("1")}, {"null", std::nullopt}, {"", AsBytes("")}};
  const std::string long_value(70000, 'v');
  builder.Add(5000, AsBytes("k"), AsBytes(long_value), headers);
  builder.Add(4000, std::nullopt, AsBytes(""));
  builder.Add(9000, AsBytes(""), std::nullopt, {}, 7);
  const auto batch = builder.Build();
  BatchInfo info;
  ASSERT_EQ(ParseBatchHeader(batch, &info), ParseResult::kOk);
  EXPECT_EQ(info.last_offset, 17);
  EXPECT_EQ(info.max_timestamp, 9000);
  RecordReader reader(info, ByteView(batch).subspan(kBatchHeaderBytes));
  RecordView record;
  ASSERT_EQ(reader.Next(&record), RecordReader::kRecord);
  EXPECT_EQ(record.offset, 10);
  EXPECT_EQ(record.timestamp, 5000);
  EXPECT_EQ(Text(*record.key), "k");
  EXPECT_EQ(Text(*record.value), long_value);
  EXPECT_EQ(record.header_count, 3);
  ASSERT_EQ(reader.Next(&record), RecordReader::kRecord);
  EXPECT_EQ(record.timestamp, 4000);
  EXPECT_FALSE(record.key);
  EXPECT_EQ(record.value->size(), 0u);
  ASSERT_EQ(reader.Next(&record), RecordReader::kRecord);
  EXPECT_EQ(record.offset, 17);
  EXPECT_EQ(record.key->size(), 0u);
  EXPECT_FALSE(record.value);
  EXPECT_EQ(reader.Next(&record), RecordReader::kEnd);
}

TEST(RecordReader, NeverReadsPastTheBytesItWasGiven) {
  RecordBatchBuilder builder;
  builder.Add(1, AsBytes("key"), AsBytes("value"));
  const auto batch = builder.Build();
  BatchInfo info;
  ASSERT_EQ(ParseBatchHeader(batch, &info), ParseResult::kOk);
  const ByteView records = ByteView(batch).subspan(kBatchHeaderBytes);
  RecordView record;
  for (size_t cut = 0; cut < records.size(); ++cut) {
    RecordReader reader(info, records.first(cut));
    EXPECT_EQ(reader.Next(&record), RecordReader::kCorrupt) << cut;
  }
  // Every byte, every value: no crash, no read outside (the sanitizers watch).
  std::vector<uint8_t> copy(records.begin(), records.end());
  for (size_t at = 0; at < copy.size(); ++at) {
    const uint8_t before = copy[at];
    for (int value = 0; value < 256; ++value) {
      copy[at] = static_cast<uint8_t>(value);
      RecordReader reader(info, copy);
      while (reader.Next(&record) == RecordReader::kRecord) {
      }
    }
    copy[at] = before;
  }
}

}  // namespace
}  // namespace kmirror::log
