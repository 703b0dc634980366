// The bytes are those a running prototype of KIP-1279 wrote for the same values, except that our
// reset has the short value of the newest revision (R8).

#include "kmirror/log/control_batch.h"

#include <gtest/gtest.h>

#include "tests/log/hex.h"

namespace kmirror::log {
namespace {

using test::FromHex;
using test::ToHex;

constexpr int64_t kTime = 1700000000000;

TEST(ControlBatch, WritesAnAbortAsThePrototypeDoes) {
  EXPECT_EQ(
      ToHex(EndTxnBatch(kControlAbort, 100, 17, kTime, 4002, 3, 5)),
      "00000000000000640000004200000011025cf074b10030000000000000018bcfe568000000018bcfe568000000"
      "000000000fa20003ffffffff000000012000000008000000000c00000000000500");
  EXPECT_EQ(
      ToHex(EndTxnBatch(kControlAbort, 100, 17, kTime, 4002, 3, -1)),
      "0000000000000064000000420000001102bb5504d00030000000000000018bcfe568000000018bcfe568000000"
      "000000000fa20003ffffffff000000012000000008000000000c0000ffffffff00");
  EXPECT_EQ(
      ToHex(EndTxnBatch(kControlAbort, 100, 17, kTime, 4002, 3, 0)),
      ToHex(FromHex("00 00 00 00 00 00 00 64  00 00 00 42  00 00 00 11  02  01 d8 8d 1a  00 30"
                    "00 00 00 00  00 00 01 8b cf e5 68 00  00 00 01 8b cf e5 68 00"
                    "00 00 00 00 00 00 0f a2  00 03  ff ff ff ff  00 00 00 01"
                    "20 00 00 00 08 00 00 00 00 0c 00 00 00 00 00 00 00")));
}

TEST(ControlBatch, WritesAResetWithTheShortValue) {
  EXPECT_EQ(
      ToHex(PidResetBatch(101, 17, kTime)),
      ToHex(FromHex("00 00 00 00 00 00 00 65  00 00 00 3f  00 00 00 11  02  bb da c3 3c  00 20"
                    "00 00 00 00  00 00 01 8b cf e5 68 00  00 00 01 8b cf e5 68 00"
                    "ff ff ff ff ff ff ff ff  ff ff  ff ff ff ff  00 00 00 01"
                    "1a 00 00 00 08 00 00 00 07 06 00 00 00 00")));
}

TEST(ControlBatch, IsReadBackWhateverTheResetsValueIs) {
  // The prototype's reset carries the source's cluster id; the key alone decides.
  const auto bytes = FromHex(
      "00000000000000650000005600000011025ae44ad80020000000000000018bcfe568000000018bcfe56800ffffff"
      "ff"
      "ffffffffffffffffffff000000014800000008000000073400001741414141414141415141434141414141414141"
      "4141"
      "410000");
  BatchInfo info;
  ByteView batch;
  BatchWalker walker(bytes);
  ASSERT_EQ(walker.Next(&info, &batch), BatchWalker::kBatch);
  EXPECT_TRUE(CheckBatchCrc(batch, info));
  EXPECT_TRUE(info.IsControl());
  EXPECT_FALSE(info.HasProducer());
  EXPECT_EQ(info.control_type, kControlMirrorPidReset);
  EXPECT_EQ(info.base_offset, 101);
  EXPECT_EQ(info.leader_epoch, 17);

  const auto abort = EndTxnBatch(kControlAbort, 7, 2, kTime, 4002, 3, 5);
  ASSERT_EQ(BatchWalker(abort).Next(&info, &batch), BatchWalker::kBatch);
  EXPECT_EQ(info.control_type, kControlAbort);
  EXPECT_EQ(info.coordinator_epoch, 5);
  EXPECT_EQ(info.producer_id, 4002);
  EXPECT_EQ(info.producer_epoch, 3);
  EXPECT_EQ(info.LastSequence(), -1);
}

}  // namespace
}  // namespace kmirror::log
