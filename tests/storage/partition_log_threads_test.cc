// Readers beside a writer that appends, cuts, restarts and syncs: for the thread sanitizer, and for
// what every reader must see at every moment.

#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "broker/storage/fd_cache.h"
#include "tests/storage/log_test_support.h"

namespace kmirror::broker::test {
namespace {

TEST(Threads, ReadersSeeWholeBatchesInOrderWhateverTheWriterDoes) {
  LogFixture f;
  f.options.environment.files = std::make_shared<FdCache>(16);
  f.options.config.segment_bytes = 1000;
  f.options.config.index_interval_bytes = 100;
  ASSERT_TRUE(f.Open().ok());
  std::atomic<bool> stop{false};
  std::atomic<int> failures{0};
  std::atomic<int64_t> read_batches{0};
  std::vector<std::thread> readers;
  for (int i = 0; i < 3; ++i) {
    readers.emplace_back([&, i] {
      const ReadBound bound = i == 0   ? ReadBound::kLogEnd
                              : i == 1 ? ReadBound::kHighWatermark
                                       : ReadBound::kLastStable;
      int64_t offset = 0;
      while (!stop) {
        const LogPositions positions = f.log->Positions();
        if (positions.log_start > positions.last_stable ||
            positions.last_stable > positions.high_watermark ||
            positions.high_watermark > positions.log_end) {
          ++failures;
        }
        auto bytes = f.log->ReadBytes(offset, 500, bound);
        if (!bytes.ok() || bytes->empty()) {
          // Cut below the reader, or at the end: start again.
          offset = f.log->Positions().log_start;
          (void)f.log->OffsetForTimestamp(1700000000000, bound);
          (void)f.log->AbortedTransactions(0, offset + 100);
          continue;
        }
        log::BatchWalker walker(*bytes);
        log::BatchInfo info;
        ByteView batch;
        int64_t last = -1;
        while (walker.Next(&info, &batch) == log::BatchWalker::kBatch) {
          if (info.base_offset <= last) ++failures;
          last = info.last_offset;
          ++read_batches;
        }
        offset = last + 1;
      }
    });
  }
  std::thread syncer([&] {
    while (!stop) (void)f.log->Sync();
  });
  uint32_t dice = 12345;
  for (int i = 0; i < 600 || (read_batches < 1000 && i < 20000); ++i) {
    dice = dice * 1664525 + 1013904223;
    const int64_t end = f.log->Positions().log_end;
    switch ((dice >> 16) % 12) {
      case 0: ASSERT_TRUE(f.log->TruncateTo(std::max<int64_t>(end - 5, 0)).ok()); break;
      case 1: ASSERT_TRUE(f.log->RaiseLogStart(std::max<int64_t>(end - 20, 0)).ok()); break;
      case 2: f.log->RemoveDeletedFiles(f.clock.now_ms); break;
      case 3:
        if ((dice >> 8) % 8 == 0) ASSERT_TRUE(f.log->ResetTo(end + 3).ok());
        break;
      case 4: {
        const std::vector<TestBatch> set{
            MakeBatch({.base_offset = end, .producer_id = 5, .transactional = true}),
            MakeMarker(log::kControlAbort, end + 1, 5)};
        ASSERT_TRUE(AppendSet(*f.log, set).ok());
        break;
      }
      default: {
        const std::vector<TestBatch> set{MakeBatch({.base_offset = end, .count = 2}),
                                         MakeBatch({.base_offset = end + 3})};
        ASSERT_TRUE(AppendSet(*f.log, set).ok());
      }
    }
  }
  stop = true;
  for (std::thread& reader : readers) reader.join();
  syncer.join();
  EXPECT_EQ(failures, 0);
  EXPECT_GT(read_batches, 0);
}

// Callers at the same time share a sync: far fewer reach the disk than were asked for.
TEST(Threads, ShareASync) {
  LogFixture f;
  ASSERT_TRUE(f.Open().ok());
  std::atomic<int> failures{0};
  std::vector<std::thread> writers;
  for (int i = 0; i < 4; ++i) {
    writers.emplace_back([&] {
      for (int n = 0; n < 50; ++n) {
        TestBatch batch = MakeBatch({});
        auto appended = f.log->AppendAsLeader(batch.bytes, 100);
        if (!appended.ok()) {
          ++failures;
          continue;
        }
        auto synced = f.log->Sync();
        if (!synced.ok() || *synced <= appended->last_offset) ++failures;
      }
    });
  }
  for (std::thread& writer : writers) writer.join();
  EXPECT_EQ(failures, 0);
  EXPECT_EQ(f.log->Positions().log_end, 200);
  EXPECT_EQ(f.log->RecoveryPoint(), 200);
}

}  // namespace
}  // namespace kmirror::broker::test
