// Cutting a log at either end, retention, and kills in the middle of all of it.

#include <gtest/gtest.h>

#include "broker/storage/files.h"
#include "tests/storage/log_test_support.h"

namespace kmirror::broker::test {
namespace {

std::vector<TestBatch> Batches(int count, int64_t base = 0, int32_t epoch = 0) {
  std::vector<TestBatch> batches;
  for (int i = 0; i < count; ++i) {
    batches.push_back(MakeBatch({.base_offset = base + i * 2, .count = 2, .leader_epoch = epoch}));
  }
  return batches;
}

TEST(Truncate, CutsWholeBatchesAndRoundsDown) {
  LogFixture f;
  f.options.config.segment_bytes = 300;
  ASSERT_TRUE(f.Open().ok());
  ASSERT_TRUE(AppendSet(*f.log, Batches(10)).ok());
  ASSERT_GT(f.log->SegmentCount(), 3);
  EXPECT_EQ(*f.log->TruncateTo(25), 20) << "above the end: nothing";
  EXPECT_EQ(*f.log->TruncateTo(13), 12);
  EXPECT_EQ(*f.log->TruncateTo(13), 12) << "twice is once";
  EXPECT_EQ(f.log->Positions().log_end, 12);
  EXPECT_EQ(f.log->Positions().high_watermark, 12);
  ASSERT_TRUE(AppendSet(*f.log, Batches(2, 12, 3)).ok());
  EXPECT_EQ(ReadBatches(*f.log, 0).size(), 8u);
  EXPECT_EQ(f.log->EpochHistory(), (std::vector<log::EpochStart>{{0, 0}, {3, 12}}));
  ASSERT_TRUE(f.CloseAndOpen().ok());
  EXPECT_EQ(ReadBatches(*f.log, 0).size(), 8u);
  EXPECT_EQ(*f.log->TruncateTo(0), 0);
  EXPECT_EQ(f.log->Positions().latest_epoch, -1);
}

TEST(Truncate, BringsBackATransactionWhoseMarkerIsCut) {
  LogFixture f;
  ASSERT_TRUE(f.Open().ok());
  const std::vector<TestBatch> set{
      MakeBatch({.base_offset = 0, .producer_id = 1, .transactional = true}),
      MakeMarker(log::kControlAbort, 1, 1)};
  ASSERT_TRUE(AppendSet(*f.log, set).ok());
  EXPECT_EQ(f.log->Positions().last_stable, 2);
  ASSERT_TRUE(f.log->TruncateTo(1).ok());
  EXPECT_EQ(f.log->OpenTransactions().size(), 1u);
  EXPECT_EQ(f.log->Positions().last_stable, 0);
  EXPECT_TRUE(f.log->AbortedTransactions(0, 9)->empty());
  EXPECT_FALSE(std::filesystem::exists(f.options.directory + "/00000000000000000000.txnindex"));
}

TEST(Truncate, LowersTheRecoveryPointBeforeAnythingIsAppended) {
  LogFixture f;
  int written = 0;
  f.options.environment.write_checkpoints = [&] {
    ++written;
    return Status::Ok();
  };
  ASSERT_TRUE(f.Open().ok());
  ASSERT_TRUE(AppendSet(*f.log, Batches(10)).ok());
  ASSERT_EQ(*f.log->Sync(), 20);
  ASSERT_TRUE(f.log->TruncateTo(6).ok());
  EXPECT_EQ(written, 1);
  EXPECT_EQ(f.log->RecoveryPoint(), 6);
}

TEST(Reset, StartsEmptyAnywhere) {
  for (const int64_t to : {0, 7, 20, 1000}) {
    LogFixture f;
    f.options.config.segment_bytes = 300;
    ASSERT_TRUE(f.Open().ok());
    ASSERT_TRUE(AppendSet(*f.log, Batches(10)).ok());
    ASSERT_TRUE(f.log->ResetTo(to).ok());
    EXPECT_EQ(f.log->Positions().log_start, to);
    EXPECT_EQ(f.log->Positions().log_end, to);
    EXPECT_TRUE(f.log->EpochHistory().empty());
    ASSERT_TRUE(AppendSet(*f.log, Batches(2, to, 4)).ok());
    ASSERT_TRUE(f.Crash().ok());
    EXPECT_EQ(f.log->Positions().log_start, to);
    EXPECT_EQ(ReadBatches(*f.log, to).size(), 2u);
  }
}

TEST(Reset, TakesAHigherLogStartOutOfTheCheckpointFirst) {
  LogFixture f;
  std::optional<int64_t> checkpoint;
  f.options.environment.write_checkpoints = [&] {
    if (f.log != nullptr) checkpoint = f.log->LogStartToCheckpoint();
    return Status::Ok();
  };
  ASSERT_TRUE(f.Open().ok());
  ASSERT_TRUE(AppendSet(*f.log, Batches(10)).ok());
  ASSERT_TRUE(f.log->RaiseLogStart(15).ok());
  EXPECT_EQ(checkpoint, 15);
  ASSERT_TRUE(f.log->ResetTo(4).ok());
  EXPECT_EQ(checkpoint, std::nullopt);
}

TEST(RaiseLogStart, DropsWholeSegmentsAndIsRefusedAboveTheHighWatermark) {
  LogFixture f;
  f.options.config.segment_bytes = 300;
  f.options.high_watermark_follows_end = false;
  ASSERT_TRUE(f.Open().ok());
  ASSERT_TRUE(AppendSet(*f.log, Batches(10)).ok());
  f.log->SetHighWatermark(14);
  const int64_t before = f.log->SegmentCount();
  EXPECT_EQ(f.log->RaiseLogStart(15).status().code(), ErrorCode::kOffsetOutOfRange);
  auto raised = f.log->RaiseLogStart(13);
  ASSERT_TRUE(raised.ok());
  EXPECT_EQ(raised->log_start, 13);
  EXPECT_GT(raised->segments, 0);
  EXPECT_EQ(f.log->SegmentCount(), before - raised->segments);
  EXPECT_EQ(f.log->Read(12, 100, ReadBound::kLogEnd, true).status().code(),
            ErrorCode::kOffsetOutOfRange);
  EXPECT_EQ(f.log->Read(13, 100, ReadBound::kLogEnd, true)->start_offset, 12) << "inside a batch";
  EXPECT_EQ(f.log->RaiseLogStart(2)->log_start, 13) << "never lowered";
  EXPECT_EQ(f.log->LogStartToCheckpoint(), 13);
  ASSERT_TRUE(f.CloseAndOpen().ok());
  EXPECT_EQ(f.log->Positions().log_start, 13);
}

TEST(RaiseLogStart, KeepsFilesUntilTheCheckpointIsWrittenAndIsAskedForAgain) {
  LogFixture f;
  f.options.config.segment_bytes = 300;
  bool full = false;
  int written = 0;
  f.options.environment.write_checkpoints = [&] {
    if (full) return Status(ErrorCode::kNoSpace, "full");
    ++written;
    return Status::Ok();
  };
  ASSERT_TRUE(f.Open().ok());
  ASSERT_TRUE(AppendSet(*f.log, Batches(10)).ok());
  const int64_t before = f.log->SegmentCount();
  full = true;
  EXPECT_EQ(f.log->RaiseLogStart(13).status().code(), ErrorCode::kNoSpace);
  EXPECT_EQ(f.log->SegmentCount(), before);
  EXPECT_EQ(f.log->RaiseLogStart(13).status().code(), ErrorCode::kNoSpace) << "still not durable";
  full = false;
  written = 0;
  auto raised = f.log->RaiseLogStart(13);
  ASSERT_TRUE(raised.ok());
  EXPECT_EQ(raised->log_start, 13);
  EXPECT_EQ(written, 1);
  EXPECT_EQ(f.log->SegmentCount(), before - raised->segments);
  EXPECT_GT(raised->segments, 0);
}

TEST(Retention, RemovesSegmentsByAge) {
  LogFixture f;
  f.options.config.segment_bytes = 300;
  f.options.config.retention_ms = 1000;
  ASSERT_TRUE(f.Open().ok());
  std::vector<TestBatch> batches;
  for (int i = 0; i < 12; ++i) {
    batches.push_back(MakeBatch({.base_offset = i, .timestamp = f.clock.now_ms + i * 1000}));
  }
  ASSERT_TRUE(AppendSet(*f.log, batches).ok());
  EXPECT_EQ(f.log->ApplyRetention(f.clock.now_ms)->segments, 0);
  auto deleted = f.log->ApplyRetention(f.clock.now_ms + 6500);
  ASSERT_TRUE(deleted.ok());
  EXPECT_GT(deleted->segments, 0);
  EXPECT_GT(f.log->Positions().log_start, 0);
  EXPECT_LE(f.log->Positions().log_start, 6);
  // Everything too old: the active segment goes too, and the offsets go on.
  ASSERT_TRUE(f.log->ApplyRetention(f.clock.now_ms + 100000).ok());
  EXPECT_EQ(f.log->Positions().log_start, 12);
  EXPECT_EQ(f.log->Positions().log_end, 12);
  EXPECT_EQ(f.log->SizeBytes(), 0);
  ASSERT_TRUE(f.Crash().ok());
  EXPECT_EQ(f.log->Positions().log_end, 12);
}

TEST(Retention, RemovesSegmentsBySizeButNotWithoutThePolicy) {
  LogFixture f;
  f.options.config.segment_bytes = 300;
  f.options.config.retention_ms = -1;
  f.options.config.retention_bytes = 700;
  f.options.config.retention_deletes = false;
  ASSERT_TRUE(f.Open().ok());
  ASSERT_TRUE(AppendSet(*f.log, Batches(20)).ok());
  EXPECT_EQ(f.log->ApplyRetention(f.clock.now_ms)->segments, 0);
  f.options.config.retention_deletes = true;
  f.log->SetConfig(f.options.config);
  ASSERT_GT(f.log->ApplyRetention(f.clock.now_ms)->segments, 0);
  EXPECT_GE(f.log->SizeBytes(), 700);
  EXPECT_LT(f.log->SizeBytes(), 700 + 300);
  // Their files wait for readers, then go.
  int waiting = 0;
  for (const auto& file : std::filesystem::directory_iterator(f.options.directory)) {
    waiting += file.path().extension() == ".deleted";
  }
  EXPECT_GT(waiting, 0);
  f.log->RemoveDeletedFiles(f.clock.now_ms);
  for (const auto& file : std::filesystem::directory_iterator(f.options.directory)) {
    EXPECT_NE(file.path().extension(), ".deleted");
  }
}

TEST(SegmentMs, RollsByTheBatchesTimestamps) {
  LogFixture f;
  f.options.config.segment_ms = 1000;
  ASSERT_TRUE(f.Open().ok());
  const int64_t base = 1700000000000;
  for (const auto& [offset, time] :
       std::vector<std::pair<int64_t, int64_t>>{{0, 0}, {1, 1000}, {2, 1001}, {3, 5}}) {
    ASSERT_TRUE(
        AppendOne(*f.log, MakeBatch({.base_offset = offset, .timestamp = base + time})).ok());
  }
  EXPECT_EQ(f.log->SegmentCount(), 2);
  EXPECT_TRUE(std::filesystem::exists(f.options.directory + "/00000000000000000002.log"));
  EXPECT_TRUE(std::filesystem::exists(f.options.directory + "/00000000000000000002.snapshot"));
}

// --- Kills ---

// Everything after the n-th change of a file never happens.
class KilledIo : public FileIo {
 public:
  explicit KilledIo(int calls) : left_(calls) {}
  ssize_t Write(int fd, const iovec* pieces, int count, int64_t position) override {
    if (Dead()) return -1;
    return FileIo::Write(fd, pieces, count, position);
  }
  int Truncate(int fd, int64_t size) override { return Dead() ? -1 : FileIo::Truncate(fd, size); }
  int Sync(int fd, bool metadata) override { return Dead() ? -1 : FileIo::Sync(fd, metadata); }
  int Open(const std::string& path, int flags, int mode) override {
    if ((flags & (O_CREAT | O_TRUNC)) != 0 && Dead()) return -1;
    return FileIo::Open(path, flags, mode);
  }
  int Rename(const std::string& from, const std::string& to) override {
    return Dead() ? -1 : FileIo::Rename(from, to);
  }
  int Remove(const std::string& path) override { return Dead() ? -1 : FileIo::Remove(path); }
  void Arm() { armed_ = true; }
  bool killed() const { return killed_; }

 private:
  bool Dead() {
    if (!armed_) return false;
    if (left_-- > 0) return false;
    killed_ = true;
    errno = EIO;
    return true;
  }
  bool armed_ = false;
  bool killed_ = false;
  int left_;
};

// Runs `change` on a log of 12 batches (two a segment, synced to 10), kills it at every call in
// turn, and starts again. `check` sees what came back.
void KillAtEveryCall(const std::function<void(PartitionLog&)>& change,
                     const std::function<void(const PartitionLog&, int call)>& check) {
  for (int call = 0;; ++call) {
    ASSERT_LT(call, 300);
    LogFixture f;
    KilledIo io(call);
    f.options.environment.io = &io;
    f.options.config.segment_bytes = 250;
    f.options.config.index_interval_bytes = 50;
    ASSERT_TRUE(f.Open().ok());
    ASSERT_TRUE(AppendSet(*f.log, Batches(5)).ok());
    ASSERT_TRUE(f.log->Sync().ok());
    ASSERT_TRUE(AppendSet(*f.log, Batches(7, 10, 2)).ok());
    io.Arm();
    change(*f.log);
    const int64_t recovery_point = f.log->RecoveryPoint();
    f.options.log_start = f.log->LogStartToCheckpoint().value_or(-1);
    f.log.reset();
    f.options.environment.io = &f.io;
    ASSERT_TRUE(f.Open(false, recovery_point).ok()) << call;
    check(*f.log, call);
    const LogPositions positions = f.log->Positions();
    ASSERT_LE(positions.log_start, positions.last_stable);
    ASSERT_LE(positions.last_stable, positions.log_end);
    // What came back is a log like any other: it goes on, and closes.
    ASSERT_TRUE(AppendSet(*f.log, Batches(3, positions.log_end, 9)).ok()) << call;
    ASSERT_TRUE(f.CloseAndOpen().ok());
    ASSERT_EQ(f.log->load_report().scanned_segments, 0) << f.log->load_report().reason;
    ASSERT_EQ(f.log->Positions().log_end, positions.log_end + 6);
    if (!io.killed()) return;  // it ran to its end
  }
}

std::string AllBytes(const PartitionLog& log) {
  std::string bytes;
  for (const TestBatch& batch : ReadBatches(log, log.Positions().log_start)) {
    bytes.append(batch.bytes.begin(), batch.bytes.end());
  }
  return bytes;
}

std::string FirstBatches(int count) {
  std::string bytes;
  for (const TestBatch& batch : Batches(5)) {
    if (count-- > 0) bytes.append(batch.bytes.begin(), batch.bytes.end());
  }
  for (const TestBatch& batch : Batches(7, 10, 2)) {
    if (count-- > 0) bytes.append(batch.bytes.begin(), batch.bytes.end());
  }
  return bytes;
}

TEST(KilledAtEveryCall, AnAppendLeavesAPrefixWithEverythingThatWasThere) {
  KillAtEveryCall([](PartitionLog& log) { (void)AppendSet(log, Batches(6, 24, 2)); },
                  [](const PartitionLog& log, int call) {
                    const std::string bytes = AllBytes(log);
                    ASSERT_GE(log.Positions().log_end, 24) << call;
                    ASSERT_TRUE(bytes.rfind(FirstBatches(12), 0) == 0);
                  });
}

TEST(KilledAtEveryCall, ATruncationLeavesAPrefixThatIsLongEnough) {
  for (const int64_t to : {5, 12, 21}) {
    KillAtEveryCall([&](PartitionLog& log) { (void)log.TruncateTo(to); },
                    [&](const PartitionLog& log, int call) {
                      const int64_t end = log.Positions().log_end;
                      ASSERT_EQ(end % 2, 0);
                      ASSERT_GE(end, to / 2 * 2) << call;
                      ASSERT_TRUE(AllBytes(log) == FirstBatches(static_cast<int>(end / 2)));
                      ASSERT_EQ(log.EndOffsetForEpoch(0).end_offset, std::min<int64_t>(end, 10));
                    });
  }
}

TEST(KilledAtEveryCall, ARestartLeavesAPrefixOrTheEmptyLog) {
  for (const int64_t to : {0, 9, 1000}) {
    KillAtEveryCall(
        [&](PartitionLog& log) { (void)log.ResetTo(to); },
        [&](const PartitionLog& log, int call) {
          const LogPositions positions = log.Positions();
          if (positions.log_start == positions.log_end) return;  // empty, here or there
          ASSERT_EQ(positions.log_start, 0) << call;
          ASSERT_TRUE(AllBytes(log) == FirstBatches(static_cast<int>(positions.log_end / 2)));
        });
  }
}

TEST(KilledAtEveryCall, ARaisedLogStartLosesNothingAboveIt) {
  KillAtEveryCall([](PartitionLog& log) { (void)log.RaiseLogStart(13); },
                  [](const PartitionLog& log, int call) {
                    ASSERT_EQ(log.Positions().log_end, 24) << call;
                    ASSERT_LE(log.Positions().log_start, 13);
                    const auto batches = ReadBatches(log, 13);
                    ASSERT_EQ(batches.size(), 6u);
                  });
}

TEST(KilledAtEveryCall, AStopLosesNothing) {
  KillAtEveryCall(
      [](PartitionLog& log) { (void)log.Close(); },
      [](const PartitionLog& log, int) { ASSERT_TRUE(AllBytes(log) == FirstBatches(12)); });
}

// --- What lies about after Kafka's cleaner was interrupted ---

TEST(CleanerLeftovers, AreFinishedOrRemoved) {
  LogFixture f;
  f.options.config.segment_bytes = 250;
  ASSERT_TRUE(f.Open().ok());
  ASSERT_TRUE(AppendSet(*f.log, Batches(6)).ok());
  ASSERT_TRUE(f.log->Close().ok());
  f.log.reset();
  const std::string dir = f.options.directory + "/";
  // The first two segments were cleaned into one that lacks the second batch.
  const std::string first = ReadAll(dir + "00000000000000000000.log");
  ASSERT_EQ(FileIo::Posix()->Size(dir + "00000000000000000004.log"),
            static_cast<int64_t>(first.size()));
  const std::string cleaned =
      first.substr(0, first.size() / 2) + ReadAll(dir + "00000000000000000004.log");
  WriteAll(dir + "00000000000000000000.log.swap", cleaned);
  WriteAll(dir + "00000000000000000008.log.cleaned", "half");
  WriteAll(dir + "00000000000000000010.log.swap", "not finished");
  WriteAll(dir + "00000000000000000099.log.deleted", "x");
  WriteAll(dir + "00000000000000000077.timeindex", "index without a log");
  WriteAll(dir + "unknown", "left alone");
  ASSERT_TRUE(f.Open(true, 12).ok());
  std::vector<int64_t> bases;
  for (const TestBatch& batch : ReadBatches(*f.log, 0)) bases.push_back(batch.info.base_offset);
  EXPECT_EQ(bases, (std::vector<int64_t>{0, 4, 6, 8, 10}));
  EXPECT_FALSE(std::filesystem::exists(dir + "00000000000000000008.log.cleaned"));
  EXPECT_FALSE(std::filesystem::exists(dir + "00000000000000000010.log.swap"));
  EXPECT_FALSE(std::filesystem::exists(dir + "00000000000000000099.log.deleted"));
  EXPECT_FALSE(std::filesystem::exists(dir + "00000000000000000077.timeindex"));
  EXPECT_TRUE(std::filesystem::exists(dir + "unknown"));
}

TEST(DamagedFiles, AreScannedOrRefusedWithAReason) {
  LogFixture f;
  f.options.config.segment_bytes = 250;
  f.options.topic_id.bytes[3] = 9;
  ASSERT_TRUE(f.Open().ok());
  ASSERT_TRUE(AppendSet(*f.log, Batches(6)).ok());
  ASSERT_TRUE(f.log->Close().ok());
  const std::string dir = f.options.directory + "/";
  const auto reopen = [&] { return f.Open(true, 12); };
  for (const char* file : {"00000000000000000000.index", "00000000000000000004.timeindex"}) {
    std::filesystem::remove(dir + file);
    ASSERT_TRUE(reopen().ok());
    EXPECT_EQ(f.log->load_report().scanned_segments, 1) << file;
    EXPECT_NE(f.log->load_report().reason.find(file), std::string::npos);
    EXPECT_EQ(f.log->Positions().log_end, 12);
    ASSERT_TRUE(f.log->Close().ok());
  }
  WriteAll(dir + "00000000000000000004.txnindex", "no multiple of an entry");
  ASSERT_TRUE(reopen().ok());
  EXPECT_EQ(f.log->load_report().scanned_segments, 1);
  ASSERT_TRUE(f.log->Close().ok());
  WriteAll(dir + "leader-epoch-checkpoint", "nonsense");
  ASSERT_TRUE(reopen().ok());
  EXPECT_EQ(f.log->EpochHistory(), (std::vector<log::EpochStart>{{0, 0}}));
  ASSERT_TRUE(f.log->Close().ok());
  for (const auto& file : std::filesystem::directory_iterator(f.options.directory)) {
    if (file.path().extension() == ".snapshot") WriteAll(file.path(), "damaged");
  }
  ASSERT_TRUE(reopen().ok());
  ASSERT_TRUE(f.log->Close().ok());
  f.options.topic_id.bytes[3] = 10;
  EXPECT_EQ(reopen().code(), ErrorCode::kInconsistentTopicId);
  f.options.topic_id = Uuid();
  ASSERT_TRUE(reopen().ok());
  EXPECT_EQ(f.log->topic_id().bytes[3], 9) << "taken from the file";
  WriteAll(dir + "partition.metadata", "version: 1\n");
  EXPECT_EQ(reopen().code(), ErrorCode::kCorruptMessage);
}

// A damaged batch in the middle of what is scanned ends the log there.
TEST(DamagedFiles, EndTheLogAtTheFirstBadBatchOfAScan) {
  LogFixture f;
  f.options.config.segment_bytes = 250;
  ASSERT_TRUE(f.Open().ok());
  ASSERT_TRUE(AppendSet(*f.log, Batches(8)).ok());
  const std::string path = f.options.directory + "/00000000000000000004.log";
  std::string bytes = ReadAll(path);
  bytes[bytes.size() - 3] ^= 1;
  WriteAll(path, bytes);
  ASSERT_TRUE(f.Crash().ok());
  EXPECT_EQ(f.log->Positions().log_end, 6);
  EXPECT_EQ(f.log->load_report().removed_segments, 2);
  EXPECT_GT(f.log->load_report().torn_bytes, 0);
}

}  // namespace
}  // namespace kmirror::broker::test
