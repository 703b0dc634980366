// The bytes of `__mirror_state`: written by hand from the layout, never by the encoder.
#include "src/coordinator/state_codec.h"

#include <gtest/gtest.h>

#include <random>

namespace kmirror::coordinator {
namespace {

using Bytes = std::vector<uint8_t>;
using S = MirrorPartitionState;
using statemachine::PartitionRecord;
using statemachine::Progress;

Uuid CountingId() {
  Uuid id;
  for (size_t i = 0; i < 16; ++i) id.bytes[i] = static_cast<uint8_t>(i);
  return id;
}

const Bytes kKey = {0x00, 0x02,                                                   // record type
                    0x00, 0x06, 'a',  '-',  't',  'o',  '-',  'b',                // mirror
                    0x00, 0x01, 0x02, 0x03, 0x04, 0x05, 0x06, 0x07, 0x08, 0x09,   // topic id
                    0x0a, 0x0b, 0x0c, 0x0d, 0x0e, 0x0f, 0x00, 0x00, 0x01, 0x02};  // partition 258

const Bytes kValue = {0x00, 0x00,              // version
                      0x08, 0x03,              // FAILED, before it MIRRORING
                      0x00, 0x00, 0x00, 0x10,  // leader epoch 16
                      0x00, 0x00, 0x00, 0x07,  // state epoch 7
                      0x00, 0x00, 0x00, 0x05,  // LME 5
                      0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x64,  // LMO 100
                      0x02,                                            // mirrored
                      0x00, 0x03,                                      // attempt 3
                      0x03, 'n',  'o',                                 // reason
                      0x00};                                           // no tagged fields

PartitionRecord Record() {
  PartitionRecord record;
  record.state = S::kFailed;
  record.previous = S::kMirroring;
  record.leader_epoch = 16;
  record.state_epoch = 7;
  record.position = {5, 100};
  record.progress = Progress::kMirrored;
  record.attempt = 3;
  record.reason = "no";
  return record;
}

TEST(StateCodec, KeyHasItsBytes) {
  const StateKey key{"a-to-b", {CountingId(), 258}};
  EXPECT_EQ(EncodeStateKey(key), kKey);
  const auto back = DecodeStateKey(kKey);
  ASSERT_TRUE(back.ok());
  EXPECT_EQ(*back, key);
}

TEST(StateCodec, ValueHasItsBytes) {
  EXPECT_EQ(EncodeStateValue(Record()), kValue);
  const auto back = DecodeStateValue(kValue);
  ASSERT_TRUE(back.ok());
  EXPECT_EQ(*back, Record());
}

TEST(StateCodec, ValueWithNothingKnownHasItsBytes) {
  PartitionRecord record;
  record.state = S::kPreparing;
  record.attempt = PartitionRecord::kNotRetryable;
  const Bytes bytes = {0x00, 0x00, 0x00, 0xff, 0xff, 0xff, 0xff, 0xff, 0x00, 0x00,
                       0x00, 0x00, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff,
                       0xff, 0xff, 0xff, 0xff, 0x00, 0xff, 0xff, 0x01, 0x00};
  EXPECT_EQ(EncodeStateValue(record), bytes);
  const auto back = DecodeStateValue(bytes);
  ASSERT_TRUE(back.ok());
  EXPECT_EQ(*back, record);
}

TEST(StateCodec, EveryTruncationIsRefused) {
  for (size_t size = 0; size < kKey.size(); ++size) {
    EXPECT_EQ(DecodeStateKey(ByteView(kKey).first(size)).status().code(), ErrorCode::kMalformed)
        << size;
  }
  // Without its last byte a value lacks only the tagged fields, which nothing reads yet.
  for (size_t size = 0; size + 1 < kValue.size(); ++size) {
    EXPECT_EQ(DecodeStateValue(ByteView(kValue).first(size)).status().code(), ErrorCode::kMalformed)
        << size;
  }
  Bytes longer = kKey;
  longer.push_back(0);
  EXPECT_FALSE(DecodeStateKey(longer).ok());
}

TEST(StateCodec, WhatIsOutOfRangeIsRefused) {
  auto with = [](Bytes bytes, size_t at, uint8_t value) {
    bytes.at(at) = value;
    return bytes;
  };
  EXPECT_FALSE(DecodeStateKey(with(kKey, 1, 0x03)).ok()) << "record type";
  EXPECT_FALSE(DecodeStateKey(with(kKey, 2, 0x7f)).ok()) << "length of the name";
  EXPECT_FALSE(DecodeStateKey(with(kKey, 2, 0xff)).ok()) << "negative length";
  EXPECT_FALSE(DecodeStateValue(with(kValue, 1, 0x01)).ok()) << "version";
  EXPECT_FALSE(DecodeStateValue(with(kValue, 2, 0x09)).ok()) << "state";
  EXPECT_FALSE(DecodeStateValue(with(kValue, 2, 0xff)).ok()) << "UNKNOWN is never stored";
  EXPECT_FALSE(DecodeStateValue(with(kValue, 3, 0x09)).ok()) << "previous state";
  EXPECT_FALSE(DecodeStateValue(with(kValue, 24, 0x03)).ok()) << "progress";
  EXPECT_FALSE(DecodeStateValue(with(kValue, 27, 0xff)).ok()) << "length of the reason";
}

TEST(StateCodec, RandomBytesNeverDecodeIntoAnInvalidRecord) {
  std::mt19937 random(7);
  for (int i = 0; i < 20000; ++i) {
    Bytes bytes = i % 2 == 0 ? kValue : kKey;
    for (int flips = 0; flips < 3; ++flips)
      bytes[random() % bytes.size()] = static_cast<uint8_t>(random());
    if (const auto record = DecodeStateValue(bytes); record.ok()) {
      EXPECT_NE(StateName(record->state), "INVALID");
      EXPECT_NE(record->state, S::kUnknown);
    }
    (void)DecodeStateKey(bytes);
  }
}

TEST(StateCodec, ALongReasonIsCut) {
  PartitionRecord record = Record();
  record.reason.assign(100000, 'x');
  const auto back = DecodeStateValue(EncodeStateValue(record));
  ASSERT_TRUE(back.ok());
  EXPECT_EQ(back->reason, std::string(4096, 'x'));
}

TEST(StateCodec, KeysArePlacedAsTheKipDoes) {  // coordinator.md 1.2, recomputed vectors
  const StateKey first{"a-to-b", {*Uuid::Parse("ASNFZ4mrze_-3LqYdlQyEA"), 0}};
  EXPECT_EQ(first.Text(), "a-to-b:ASNFZ4mrze_-3LqYdlQyEA:0");
  EXPECT_EQ(first.Shard(50), 25);
  EXPECT_EQ((StateKey{"a-to-b", {first.partition.topic_id, 1}}).Shard(50), 26);
  EXPECT_EQ((StateKey{"my-mirror", {*Uuid::Parse("AAAAAAAAAAAAAAAAAAAAAQ"), 7}}).Shard(50), 29);
}

}  // namespace
}  // namespace kmirror::coordinator
