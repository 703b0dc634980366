#include <gtest/gtest.h>

#include <limits>

#include "src/protocol/reader.h"
#include "src/protocol/writer.h"
#include "tests/protocol/golden_case.h"

namespace kmirror::protocol {
namespace {

TEST(Varint, UnsignedOnesAreThoseOfProtocolBuffers) {
  const std::pair<uint32_t, const char*> cases[] = {{0, "00"},
                                                    {1, "01"},
                                                    {127, "7f"},
                                                    {128, "8001"},
                                                    {300, "ac02"},
                                                    {16383, "ff7f"},
                                                    {16384, "808001"},
                                                    {2097151, "ffff7f"},
                                                    {2097152, "80808001"},
                                                    {268435455, "ffffff7f"},
                                                    {4294967295u, "ffffffff0f"}};
  for (const auto& [value, hex] : cases) {
    Writer writer;
    writer.PutUnsignedVarint(value);
    const std::vector<uint8_t> bytes = writer.Flatten();
    EXPECT_EQ(hex, ToHex(bytes));
    Reader reader(bytes);
    uint32_t read = 0;
    ASSERT_TRUE(reader.ReadUnsignedVarint(&read));
    EXPECT_EQ(value, read);
    EXPECT_EQ(0u, reader.remaining());
  }
}

TEST(Varint, SignedOnesAreZigzag) {
  const std::pair<int64_t, const char*> cases[] = {
      {0, "00"},
      {-1, "01"},
      {1, "02"},
      {-2, "03"},
      {63, "7e"},
      {-64, "7f"},
      {64, "8001"},
      {std::numeric_limits<int64_t>::max(), "feffffffffffffffff01"},
      {std::numeric_limits<int64_t>::min(), "ffffffffffffffffff01"}};
  for (const auto& [value, hex] : cases) {
    Writer writer;
    writer.PutVarlong(value);
    const std::vector<uint8_t> bytes = writer.Flatten();
    EXPECT_EQ(hex, ToHex(bytes));
    Reader reader(bytes);
    int64_t read = 0;
    ASSERT_TRUE(reader.ReadVarlong(&read));
    EXPECT_EQ(value, read);
  }
  const std::vector<uint8_t> lowest = FromHex("ffffffff0f");
  Reader reader(lowest);
  int32_t read = 0;
  ASSERT_TRUE(reader.ReadVarint(&read));
  EXPECT_EQ(std::numeric_limits<int32_t>::min(), read);
}

TEST(Varint, TooLongOnesAreRefused) {
  for (const char* hex : {"808080808000", "ffffffff10", "80", ""}) {
    const std::vector<uint8_t> bytes = FromHex(hex);
    Reader reader(bytes);
    uint32_t read = 0;
    EXPECT_FALSE(reader.ReadUnsignedVarint(&read)) << hex;
    EXPECT_TRUE(reader.error().failed());
  }
  for (const char* hex : {"8080808080808080808000", "ffffffffffffffffff02"}) {
    const std::vector<uint8_t> bytes = FromHex(hex);
    Reader reader(bytes);
    int64_t read = 0;
    EXPECT_FALSE(reader.ReadVarlong(&read)) << hex;
  }
}

TEST(Reader, AnArrayIsBoundedByTheBytesLeft) {
  // 16777216 elements of 8 bytes in a frame of 4: refused before anything is allocated.
  const std::vector<uint8_t> bytes = FromHex(
      "01000000"
      "00000000");
  Reader reader(bytes);
  std::optional<size_t> count;
  EXPECT_FALSE(reader.ReadArrayLength(false, true, 8, &count));
  EXPECT_EQ("16777216 elements of at least 8 bytes, 4 bytes left", reader.error().text());
}

TEST(Reader, ATagsValueCannotReachBeyondItsSize) {
  // One tag 0 of one byte, whose field wants four; four bytes follow.
  const std::vector<uint8_t> bytes = FromHex(
      "01"
      "00"
      "01"
      "aabbccdd");
  Reader reader(bytes);
  const bool ok = reader.ReadTags([&](uint32_t) {
    int32_t value = 0;
    return reader.ReadInt32(&value) || reader.At("value");
  });
  EXPECT_FALSE(ok);
  EXPECT_EQ("value: needs 4 bytes, 1 left", reader.error().text());
}

TEST(Reader, RecordsAreAViewIntoTheFrame) {
  const std::vector<uint8_t> bytes = FromHex(
      "00000003"
      "0a0b0c"
      "ffffffff");
  Reader reader(bytes);
  std::optional<RecordsView> records;
  ASSERT_TRUE(reader.ReadRecords(false, true, &records));
  ASSERT_TRUE(records.has_value());
  EXPECT_EQ(bytes.data() + 4, records->bytes().data());
  EXPECT_EQ(3u, records->size());
  ASSERT_TRUE(reader.ReadRecords(false, true, &records));
  EXPECT_FALSE(records.has_value());
}

TEST(Writer, KeepsExternalBytesByReferenceAndInOrder) {
  const std::vector<uint8_t> records = FromHex("0102030405");
  auto owner = std::make_shared<int>(7);
  Writer writer;
  const size_t place = writer.ReserveInt32();
  writer.PutInt16(1);
  writer.WriteExternal(records, owner);
  writer.PutInt8(9);
  writer.WriteExternal({}, owner);  // leaves no chunk
  writer.WriteExternal(records);
  writer.PatchInt32(place, static_cast<int32_t>(writer.size() - 4));

  EXPECT_EQ(17u, writer.size());
  const std::vector<Writer::Chunk> chunks = writer.chunks();
  ASSERT_EQ(4u, chunks.size());
  EXPECT_EQ(6u, chunks[0].size());
  EXPECT_EQ(records.data(), chunks[1].bytes.data());
  EXPECT_EQ(owner, chunks[1].owner);
  EXPECT_EQ(1u, chunks[2].size());
  EXPECT_EQ(records.data(), chunks[3].bytes.data());
  EXPECT_EQ(nullptr, chunks[3].owner);
  EXPECT_EQ(
      "0000000d"
      "0001"
      "0102030405"
      "09"
      "0102030405",
      ToHex(writer.Flatten()));
}

TEST(Writer, KeepsFilesAsRangesThatNobodyRead) {
  auto owner = std::make_shared<int>(0);
  Writer writer;
  ASSERT_TRUE(writer.PutRecords(true, true, RecordsView(FileSlice{5, 4096, 300, owner})));
  writer.PutInt8(1);
  EXPECT_EQ(2u + 300u + 1u, writer.size());  // 301 is a varint of two bytes
  const std::vector<Writer::Chunk> chunks = writer.chunks();
  ASSERT_EQ(3u, chunks.size());
  EXPECT_TRUE(chunks[1].is_file());
  EXPECT_EQ((FileSlice{5, 4096, 300, owner}), chunks[1].file);
  EXPECT_EQ(owner, chunks[1].file.owner);
}

TEST(Writer, ATagsSizeIsFilledInHoweverLongItsValue) {
  Writer writer;
  writer.PutUnsignedVarint(1);
  const size_t begin = writer.BeginTag(10000);
  ASSERT_TRUE(writer.PutString(true, std::string(200, 'x')));
  writer.EndTag(begin);
  const std::vector<uint8_t> bytes = writer.Flatten();
  Reader reader(bytes);
  std::string value;
  ASSERT_TRUE(reader.ReadTags([&](uint32_t tag) {
    EXPECT_EQ(10000u, tag);
    return reader.ReadString(true, &value);
  }));
  EXPECT_EQ(std::string(200, 'x'), value);
}

TEST(Writer, RefusesWhatTheWireCannotSay) {
  Writer writer;
  EXPECT_FALSE(writer.PutString(false, std::string(32768, 'x')));
  EXPECT_EQ("length 32768 is more than 32767", writer.error().text());
  Writer other;
  EXPECT_FALSE(other.PutString(true, false, std::nullopt));
}

}  // namespace
}  // namespace kmirror::protocol
