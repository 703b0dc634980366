// Reads, look-ups, and the aborted transactions of a range.

#include <gtest/gtest.h>

#include <set>

#include "broker/storage/fd_cache.h"
#include "tests/storage/log_test_support.h"

namespace kmirror::broker::test {
namespace {

TEST(Read, GivesWholeBatchesFromTheOneThatHoldsTheOffset) {
  LogFixture f;
  f.options.config.index_interval_bytes = 100;
  ASSERT_TRUE(f.Open().ok());
  std::vector<TestBatch> batches;
  for (int i = 0; i < 50; ++i) batches.push_back(MakeBatch({.base_offset = i * 10, .count = 4}));
  ASSERT_TRUE(AppendSet(*f.log, batches).ok());
  for (int64_t offset = 0; offset < 494; ++offset) {
    auto read = f.log->Read(offset, 1, ReadBound::kHighWatermark, true);
    ASSERT_TRUE(read.ok());
    // Offsets in a hole continue at the next batch.
    const int64_t index = offset % 10 < 4 ? offset / 10 : offset / 10 + 1;
    ASSERT_EQ(read->start_offset, index * 10) << offset;
    ASSERT_EQ(read->slice.bytes, batches[static_cast<size_t>(index)].info.bytes);
  }
  EXPECT_EQ(f.log->Positions().log_end, 494);
  EXPECT_EQ(f.log->Read(494, 1000, ReadBound::kLogEnd, true)->slice.bytes, 0);
  EXPECT_EQ(f.log->Read(495, 1000, ReadBound::kLogEnd, true).status().code(),
            ErrorCode::kOffsetOutOfRange);
  EXPECT_EQ(f.log->Read(-1, 1000, ReadBound::kLogEnd, true).status().code(),
            ErrorCode::kOffsetOutOfRange);
  EXPECT_EQ(f.log->Read(0, 0, ReadBound::kLogEnd, false)->slice.bytes, 0);
  EXPECT_EQ(f.log->Read(0, 10, ReadBound::kLogEnd, false)->slice.bytes, 10) << "cut, as Kafka does";
}

TEST(Read, StopsAtItsBound) {
  LogFixture f;
  f.options.high_watermark_follows_end = false;
  ASSERT_TRUE(f.Open().ok());
  const std::vector<TestBatch> set{
      MakeBatch({.base_offset = 0, .count = 2}),
      MakeBatch({.base_offset = 2, .producer_id = 1, .transactional = true}),
      MakeBatch({.base_offset = 3, .count = 2})};
  ASSERT_TRUE(AppendSet(*f.log, set).ok());
  EXPECT_EQ(f.log->Positions().high_watermark, 0);
  EXPECT_TRUE(f.log->ReadBytes(0, 10000, ReadBound::kHighWatermark)->empty());
  f.log->SetHighWatermark(3);
  EXPECT_EQ(f.log->Positions().last_stable, 2);
  EXPECT_EQ(f.log->ReadBytes(0, 10000, ReadBound::kHighWatermark)->size(),
            static_cast<size_t>(set[0].info.bytes + set[1].info.bytes));
  EXPECT_EQ(f.log->ReadBytes(0, 10000, ReadBound::kLastStable)->size(),
            static_cast<size_t>(set[0].info.bytes));
  EXPECT_TRUE(f.log->ReadBytes(2, 10000, ReadBound::kLastStable)->empty());
  f.log->SetHighWatermark(2);
  EXPECT_EQ(f.log->Positions().high_watermark, 3) << "never goes back";
  f.log->SetHighWatermark(99);
  EXPECT_EQ(f.log->Positions().high_watermark, 5) << "never above the end";
  // The marker holds the stable offset back until it is replicated itself.
  ASSERT_TRUE(AppendOne(*f.log, MakeMarker(log::kControlCommit, 5, 1)).ok());
  EXPECT_EQ(f.log->Positions().last_stable, 2);
  f.log->SetHighWatermark(6);
  EXPECT_EQ(f.log->Positions().last_stable, 6);
}

TEST(Read, KeepsASliceReadableAfterItsSegmentIsGone) {
  LogFixture f;
  f.options.config.segment_bytes = 200;
  ASSERT_TRUE(f.Open().ok());
  std::vector<TestBatch> batches;
  for (int i = 0; i < 10; ++i) batches.push_back(MakeBatch({.base_offset = i}));
  ASSERT_TRUE(AppendSet(*f.log, batches).ok());
  auto read = f.log->Read(0, 1, ReadBound::kLogEnd, true);
  ASSERT_TRUE(read.ok());
  ASSERT_TRUE(f.log->RaiseLogStart(9).ok());
  f.log->RemoveDeletedFiles(f.clock.now_ms + 1);
  std::vector<uint8_t> bytes(static_cast<size_t>(read->slice.bytes));
  ASSERT_TRUE(read->slice.ReadInto(bytes).ok());
  EXPECT_EQ(bytes, batches[0].bytes);
}

// A cut puts other bytes where a slice points, or takes the place away: its reader is told.
TEST(Read, TellsAReaderOfASliceThatTheLogWasCut) {
  LogFixture f;
  ASSERT_TRUE(f.Open().ok());
  const std::vector<TestBatch> batches{MakeBatch({.base_offset = 0}),
                                       MakeBatch({.base_offset = 1})};
  ASSERT_TRUE(AppendSet(*f.log, batches).ok());
  const auto slice = [&] {
    auto read = f.log->Read(0, 10000, ReadBound::kLogEnd, true);
    EXPECT_TRUE(read.ok());
    EXPECT_TRUE(read->slice.Intact());
    return read->slice;
  };
  const LogSlice whole = slice();
  ASSERT_TRUE(AppendOne(*f.log, MakeBatch({.base_offset = 2})).ok());
  ASSERT_TRUE(f.log->TruncateTo(3).ok());
  EXPECT_TRUE(whole.Intact()) << "nothing was cut";

  const TestBatch other = MakeBatch({.base_offset = 1, .timestamp = 1800000000000});
  ASSERT_EQ(other.bytes.size(), batches[1].bytes.size()) << "it takes the place of the old one";
  ASSERT_TRUE(f.log->TruncateTo(1).ok());
  EXPECT_FALSE(whole.Intact());
  ASSERT_TRUE(AppendOne(*f.log, other).ok());
  EXPECT_FALSE(whole.Intact());

  const LogSlice before_reset = slice();
  ASSERT_TRUE(f.log->ResetTo(0).ok());
  EXPECT_FALSE(before_reset.Intact());
  ASSERT_TRUE(AppendSet(*f.log, batches).ok());
  const LogSlice before_loss = slice();
  f.io.fail_syncs = true;
  EXPECT_FALSE(f.log->Sync().ok());
  f.io.Heal();
  EXPECT_TRUE(before_loss.Intact());
  ASSERT_TRUE(f.log->Reopen().ok());
  EXPECT_FALSE(before_loss.Intact()) << "a torn tail may have been cut";
  EXPECT_EQ(slice().bytes, whole.bytes);
}

// A set over several segments that fails at any write, while nothing can be cut: what readers were
// shown before stays readable, whether the log goes on or is offline.
TEST(Read, GoesOnBelowACutThatFailed) {
  int offline = 0;
  for (int writes = 0; writes < 12; ++writes) {
    LogFixture f;
    f.options.config.segment_bytes = 200;
    ASSERT_TRUE(f.Open().ok());
    ASSERT_TRUE(AppendOne(*f.log, MakeBatch({.base_offset = 0})).ok());
    std::vector<TestBatch> set;
    for (int i = 1; i < 6; ++i) set.push_back(MakeBatch({.base_offset = i}));
    f.io.FailWrites(writes, ENOSPC);
    f.io.fail_truncates = true;
    const bool appended = AppendSet(*f.log, set).ok();
    if (!f.log->offline().ok()) ++offline;
    f.io.Heal();
    EXPECT_GE(ReadBatches(*f.log, 0).size(), appended ? 6u : 1u) << writes;
  }
  EXPECT_GT(offline, 0);
}

// S109: one producer aborts twice, another's transaction stays open in between; everything arrives
// in one set. Whatever the split and the read, each aborted transaction of the range is named.
TEST(AbortedTransactions, AreCompleteForEveryReadSizeAndAfterEveryRestart) {
  std::vector<TestBatch> log{
      MakeBatch({.base_offset = 0, .producer_id = 1, .transactional = true}),
      MakeMarker(log::kControlAbort, 1, 1),
      MakeBatch({.base_offset = 2, .producer_id = 2, .transactional = true}),
      MakeBatch({.base_offset = 3, .producer_id = 1, .sequence = 1, .transactional = true}),
      MakeBatch({.base_offset = 4}),
      MakeMarker(log::kControlAbort, 5, 1),
      MakeBatch({.base_offset = 6}),
      MakeMarker(log::kControlCommit, 7, 2)};
  for (int variant = 0; variant < 3; ++variant) {
    LogFixture f;
    f.options.config.segment_bytes = 250;  // markers and their data lie in different segments
    ASSERT_TRUE(f.Open().ok());
    ASSERT_TRUE(AppendSet(*f.log, log).ok());
    if (variant == 1) ASSERT_TRUE(f.CloseAndOpen().ok());
    if (variant == 2) ASSERT_TRUE(f.Crash().ok());
    for (int64_t from = 0; from < 8; ++from) {
      for (int64_t size = 80; size < 700; size += 20) {
        auto read = f.log->Read(from, size, ReadBound::kLastStable, true);
        ASSERT_TRUE(read.ok());
        std::vector<uint8_t> bytes(static_cast<size_t>(read->slice.bytes));
        ASSERT_TRUE(read->slice.ReadInto(bytes).ok());
        // A client: skips a transactional batch whose producer's aborted transaction began at or
        // below it; a marker ends it.
        std::set<int64_t> aborted;
        std::vector<AbortedTransaction> list = read->aborted;
        log::BatchWalker walker(bytes);
        log::BatchInfo info;
        ByteView batch;
        while (walker.Next(&info, &batch) == log::BatchWalker::kBatch) {
          while (!list.empty() && list.front().first_offset <= info.last_offset) {
            aborted.insert(list.front().producer_id);
            list.erase(list.begin());
          }
          if (!info.HasProducer()) continue;
          if (info.IsControl()) {
            aborted.erase(info.producer_id);
          } else if (!aborted.contains(info.producer_id)) {
            EXPECT_EQ(info.base_offset, 2)
                << "the one committed record; from " << from << " size " << size;
          }
        }
      }
    }
  }
}

TEST(Timestamps, FindTheFirstRecordAtOrAfter) {
  LogFixture f;
  f.options.config.segment_bytes = 400;
  f.options.config.index_interval_bytes = 100;
  ASSERT_TRUE(f.Open().ok());
  // Out of order, as CreateTime may be.
  const int64_t base = 1700000000000;
  const int64_t times[] = {10, 50, 20, 60, 5, 70, 65, 80, 80, 1};
  std::vector<TestBatch> batches;
  for (int i = 0; i < 10; ++i) {
    batches.push_back(MakeBatch({.base_offset = i, .timestamp = base + times[i]}));
  }
  ASSERT_TRUE(AppendSet(*f.log, batches).ok());
  ASSERT_GT(f.log->SegmentCount(), 2);
  const auto check = [&] {
    for (int64_t wanted = 0; wanted <= 90; ++wanted) {
      int64_t expected = -1;
      for (int i = 0; i < 10 && expected < 0; ++i) {
        if (times[i] >= wanted && i >= f.log->Positions().log_start) expected = i;
      }
      auto found = f.log->OffsetForTimestamp(base + wanted, ReadBound::kLogEnd);
      ASSERT_TRUE(found.ok());
      ASSERT_EQ(found->offset, expected) << wanted;
      if (expected >= 0) ASSERT_EQ(found->timestamp, base + times[expected]);
    }
    auto greatest = f.log->MaxTimestamp();
    ASSERT_TRUE(greatest.ok());
    EXPECT_EQ(greatest->offset, 7);
    EXPECT_EQ(greatest->timestamp, base + 80);
  };
  check();
  ASSERT_TRUE(f.CloseAndOpen().ok());
  check();
  ASSERT_TRUE(f.Crash().ok());
  check();
  ASSERT_TRUE(f.log->RaiseLogStart(3).ok());
  check();
  LogFixture empty;
  ASSERT_TRUE(empty.Open().ok());
  EXPECT_EQ(empty.log->MaxTimestamp()->offset, -1);
  EXPECT_EQ(empty.log->OffsetForTimestamp(0, ReadBound::kLogEnd)->offset, -1);
}

TEST(FdCache, KeepsSegmentsReadableWithFewDescriptors) {
  const auto cache = std::make_shared<FdCache>(16);
  LogFixture f;
  f.options.environment.files = cache;
  f.options.config.segment_bytes = 100;
  ASSERT_TRUE(f.Open().ok());
  std::vector<TestBatch> batches;
  for (int i = 0; i < 60; ++i) batches.push_back(MakeBatch({.base_offset = i}));
  ASSERT_TRUE(AppendSet(*f.log, batches).ok());
  ASSERT_EQ(f.log->SegmentCount(), 60);
  for (int round = 0; round < 3; ++round) {
    EXPECT_EQ(ReadBatches(*f.log, 0).size(), 60u);
    EXPECT_LE(cache->open_files(), 17u);
  }
  f.log.reset();
  EXPECT_EQ(cache->open_files(), 0u);
}

}  // namespace
}  // namespace kmirror::broker::test
