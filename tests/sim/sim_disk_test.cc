// The simulated disk itself, and what the logs on it keep through a loss of power.
#include "tests/sim/sim_disk.h"

#include <fcntl.h>
#include <gtest/gtest.h>

#include <cerrno>
#include <string>

#include "broker/controller/file_metadata_store.h"
#include "broker/storage/files.h"
#include "broker/storage/log_manager.h"
#include "conformance/mirrored_batches.h"
#include "tests/support/assert_ok.h"
#include "tests/support/raw_batch.h"

namespace kmirror::sim {
namespace {

using broker::FileHandle;
using broker::LogManager;
using conformance::BatchSpec;
using conformance::Bytes;
using conformance::DataBatch;

constexpr uint64_t kLosses = 40;  // a loss of power has many ends

struct Disk {
  explicit Disk(uint64_t seed) : disk(seed, &trace, [] { return int64_t{1'800'000'000'000}; }) {}
  std::string Text(const std::string& path) {
    const auto* content = disk.Content(path);
    return content == nullptr ? "(none)" : std::string(content->begin(), content->end());
  }
  void Write(const std::string& path, std::string_view text, bool sync) {
    ASSERT_OK(broker::WriteFile(
        &disk, path, {reinterpret_cast<const uint8_t*>(text.data()), text.size()}, sync));
  }
  Trace trace;
  SimDisk disk;
};

TEST(SimDisk, WhatIsSyncedSurvivesAndNothingElseMust) {
  bool lost_content = false, lost_name = false, kept_all = false;
  for (uint64_t seed = 0; seed < kLosses; ++seed) {
    Disk d(seed);
    ASSERT_OK(broker::MakeDirectories(&d.disk, "/d/e"));
    d.Write("/d/e/synced", "one", true);
    ASSERT_OK(broker::SyncDirectory(&d.disk, "/d/e"));
    d.Write("/d/e/named", "two", false);
    ASSERT_OK(broker::SyncDirectory(&d.disk, "/d/e"));
    d.Write("/d/e/synced", "three", false);
    d.Write("/d/e/nameless", "four", true);
    d.disk.Kill();
    d.disk.Restart(true);
    const std::string synced = d.Text("/d/e/synced");
    EXPECT_TRUE(synced.size() <= 5) << synced;
    lost_content = lost_content || d.Text("/d/e/named") != "two";
    lost_name = lost_name || d.Text("/d/e/nameless") == "(none)";
    kept_all = kept_all || (synced == "three" && d.Text("/d/e/nameless") == "four");
  }
  EXPECT_TRUE(lost_content);
  EXPECT_TRUE(lost_name);
  EXPECT_TRUE(kept_all);
}

TEST(SimDisk, AKilledProcessLosesNothing) {
  Disk d(1);
  ASSERT_OK(broker::MakeDirectories(&d.disk, "/d"));
  d.Write("/d/file", "text", false);
  d.disk.Kill();
  EXPECT_FALSE(broker::WriteFile(&d.disk, "/d/other", {}, false).ok());
  d.disk.Restart(false);
  EXPECT_EQ(d.Text("/d/file"), "text");
  EXPECT_EQ(d.Text("/d/other"), "(none)");
}

TEST(SimDisk, AFailedSyncForgetsWhatItShouldHaveWritten) {
  Disk d(1);
  ASSERT_OK(broker::MakeDirectories(&d.disk, "/d"));
  d.Write("/d/file", "", true);
  ASSERT_OK(broker::SyncDirectory(&d.disk, "/d"));
  d.disk.FailNext("sync", 1);
  const std::string text = "text";
  EXPECT_FALSE(broker::WriteFile(&d.disk, "/d/file",
                                 {reinterpret_cast<const uint8_t*>(text.data()), 4}, true)
                   .ok());
  ASSERT_OK(broker::SyncFile(&d.disk, "/d/file"));
  EXPECT_EQ(d.Text("/d/file"), "text");
  d.disk.Kill();
  d.disk.Restart(true);
  EXPECT_EQ(d.Text("/d/file"), "");
}

class PowerLoss : public ::testing::Test {
 protected:
  LogManager::Options Options(SimDisk* disk) {
    LogManager::Options options;
    options.directory = "/new/data";
    options.cluster_id = "cluster-under-test";
    options.io = disk;
    options.defaults.segment_bytes = 400;
    return options;
  }
  static void Append(broker::PartitionLog& log, int64_t offset) {
    Bytes batch = DataBatch(BatchSpec{.base_offset = offset, .leader_epoch = 1}, 1, 40);
    ASSERT_OK(log.AppendAsLeader(batch, 1).status());
  }
  // Each batch begins where the one before it ends.
  static void ExpectNoHole(const broker::PartitionLog& log, int64_t* next) {
    *next = 0;
    for (const int64_t end = log.Positions().log_end; *next < end;) {
      const auto bytes = log.ReadBytes(*next, 1, broker::ReadBound::kLogEnd);
      ASSERT_OK(bytes.status());
      const auto batches = test::SplitBatches(*bytes);
      ASSERT_OK(batches.status());
      ASSERT_EQ(batches->front().base_offset, *next);
      *next = batches->front().last_offset + 1;
    }
  }
};

// What was cut is stored as cut next (coordinator.md 3): it must not come back.
TEST_F(PowerLoss, DoesNotBringBackWhatWasCut) {
  for (const int64_t cut : {0, 2, 5}) {
    for (uint64_t seed = 0; seed < kLosses; ++seed) {
      Disk d(seed);
      auto manager = LogManager::Open(Options(&d.disk));
      ASSERT_OK(manager.status());
      auto log = (*manager)->Create("t", 0, {}, Options(nullptr).defaults);
      ASSERT_OK(log.status());
      ASSERT_OK((*log)->BecomeLeader(1, true));
      for (int64_t offset = 0; offset < 12; ++offset) Append(**log, offset);
      ASSERT_OK((*log)->Sync().status());
      ASSERT_OK((*log)->TruncateTo(cut, 1).status());
      d.disk.Kill();
      log = Status(ErrorCode::kCancelled, "");
      manager = Status(ErrorCode::kCancelled, "");
      d.disk.Restart(true);
      manager = LogManager::Open(Options(&d.disk));
      ASSERT_OK(manager.status());
      EXPECT_EQ((*manager)->Find("t", 0)->Positions().log_end, cut) << "seed " << seed;
    }
  }
}

TEST_F(PowerLoss, LeavesAResetLogEmpty) {
  for (uint64_t seed = 0; seed < kLosses; ++seed) {
    Disk d(seed);
    auto manager = LogManager::Open(Options(&d.disk));
    ASSERT_OK(manager.status());
    auto log = (*manager)->Create("t", 0, {}, Options(nullptr).defaults);
    ASSERT_OK(log.status());
    ASSERT_OK((*log)->BecomeLeader(1, true));
    for (int64_t offset = 0; offset < 12; ++offset) Append(**log, offset);
    ASSERT_OK((*log)->Sync().status());
    ASSERT_OK((*log)->ResetTo(50, 1));
    d.disk.Kill();
    log = Status(ErrorCode::kCancelled, "");
    manager = Status(ErrorCode::kCancelled, "");
    d.disk.Restart(true);
    manager = LogManager::Open(Options(&d.disk));
    ASSERT_OK(manager.status());
    const auto at = (*manager)->Find("t", 0)->Positions();
    EXPECT_EQ(at.log_start, 50) << "seed " << seed;
    EXPECT_EQ(at.log_end, 50) << "seed " << seed;
  }
}

broker::LogConfig Careful() {
  broker::LogConfig config;
  config.segment_bytes = 400;
  config.flush_messages = 1;
  return config;
}

// A killed process left batches in the page cache that it had not synced. What a start shows of
// them must still be there after a loss of power.
TEST_F(PowerLoss, TakesNothingAwayThatAStartHasShown) {
  for (uint64_t seed = 0; seed < kLosses; ++seed) {
    Disk d(seed);
    auto manager = LogManager::Open(Options(&d.disk));
    ASSERT_OK(manager.status());
    auto log = (*manager)->Create("t", 0, {}, Options(nullptr).defaults);
    ASSERT_OK(log.status());
    ASSERT_OK((*log)->BecomeLeader(1, true));
    for (int64_t offset = 0; offset < 9; ++offset) Append(**log, offset);
    int64_t shown = 0;
    for (const bool power_loss : {false, true}) {
      d.disk.Kill();
      log = Status(ErrorCode::kCancelled, "");
      manager = Status(ErrorCode::kCancelled, "");
      d.disk.Restart(power_loss);
      manager = LogManager::Open(Options(&d.disk));
      ASSERT_OK(manager.status());
      const int64_t end = (*manager)->Find("t", 0)->Positions().log_end;
      EXPECT_GE(end, shown) << "seed " << seed;
      shown = end;
    }
    EXPECT_EQ(shown, 9);
  }
}

// Files lose their tails one by one: what stands behind a lost tail is not of the log any more.
TEST_F(PowerLoss, LeavesNoHoleBetweenSegments) {
  bool lost = false;
  for (uint64_t seed = 0; seed < 2 * kLosses; ++seed) {
    Disk d(seed);
    auto manager = LogManager::Open(Options(&d.disk));
    ASSERT_OK(manager.status());
    auto log = (*manager)->Create("t", 0, {}, Options(nullptr).defaults);
    ASSERT_OK(log.status());
    ASSERT_OK((*log)->BecomeLeader(1, true));
    for (int64_t offset = 0; offset < 12; ++offset) Append(**log, offset);
    d.disk.Kill();
    log = Status(ErrorCode::kCancelled, "");
    manager = Status(ErrorCode::kCancelled, "");
    d.disk.Restart(true);
    manager = LogManager::Open(Options(&d.disk));
    ASSERT_OK(manager.status());
    const auto found = (*manager)->Find("t", 0);
    if (found == nullptr) continue;  // the folder itself
    int64_t end = 0;
    ExpectNoHole(*found, &end);
    ASSERT_FALSE(HasFailure()) << "seed " << seed;
    lost = lost || end < 12;
  }
  EXPECT_TRUE(lost);
}

// A cut takes the last segments first, by their names, and then cuts the one before: with the power
// the cut may stay and a name come back, below the recovery point of before.
TEST_F(PowerLoss, ACutOverSegmentsLeavesNoHole) {
  for (uint64_t seed = 0; seed < kLosses; ++seed) {
    for (int death = 1; death <= 30; ++death) {
      Disk d(seed);
      auto manager = LogManager::Open(Options(&d.disk));
      ASSERT_OK(manager.status());
      auto log = (*manager)->Create("t", 0, {}, Options(nullptr).defaults);
      ASSERT_OK(log.status());
      ASSERT_OK((*log)->BecomeLeader(1, true));
      for (int64_t offset = 0; offset < 12; ++offset) Append(**log, offset);
      ASSERT_OK((*manager)->CheckpointAll());
      d.disk.KillAt(death);
      (void)(*log)->TruncateTo(1);
      d.disk.Kill();
      log = Status(ErrorCode::kCancelled, "");
      manager = Status(ErrorCode::kCancelled, "");
      d.disk.Restart(true);
      manager = LogManager::Open(Options(&d.disk));
      ASSERT_OK(manager.status());
      const auto found = (*manager)->Find("t", 0);
      ASSERT_NE(found, nullptr);
      int64_t end = 0;
      ExpectNoHole(*found, &end);
      ASSERT_FALSE(HasFailure()) << "seed " << seed << " death " << death;
    }
  }
}

// After a failed sync the page cache looks whole, and the disk is not.
TEST_F(PowerLoss, AReopenedLogIsOnTheDisk) {
  for (uint64_t seed = 0; seed < kLosses; ++seed) {
    Disk d(seed);
    auto manager = LogManager::Open(Options(&d.disk));
    ASSERT_OK(manager.status());
    auto log = (*manager)->Create("t", 0, {}, Careful());
    ASSERT_OK(log.status());
    ASSERT_OK((*log)->BecomeLeader(1, true));
    for (int64_t offset = 0; offset < 4; ++offset) Append(**log, offset);
    d.disk.FailNext("sync", 1);
    Bytes batch = DataBatch(BatchSpec{.base_offset = 4, .leader_epoch = 1}, 1, 40);
    EXPECT_FALSE((*log)->AppendAsLeader(batch, 1).ok());
    ASSERT_OK((*log)->Reopen());
    const int64_t end = (*log)->Positions().log_end;
    Append(**log, end);
    d.disk.Kill();
    log = Status(ErrorCode::kCancelled, "");
    manager = Status(ErrorCode::kCancelled, "");
    d.disk.Restart(true);
    manager = LogManager::Open(Options(&d.disk));
    ASSERT_OK(manager.status());
    EXPECT_EQ((*manager)->Find("t", 0)->Positions().log_end, end + 1) << "seed " << seed;
  }
}

// A full disk has no room for the epochs' file; the batches are on disk, and that is what was
// promised.
TEST_F(PowerLoss, AFlushNeedsNoRoomForDerivedFiles) {
  Disk d(1);
  auto manager = LogManager::Open(Options(&d.disk));
  ASSERT_OK(manager.status());
  auto log = (*manager)->Create("t", 0, {}, Careful());
  ASSERT_OK(log.status());
  ASSERT_OK((*log)->BecomeLeader(1, true));
  d.disk.FailNext("open", 1);
  Append(**log, 0);
  EXPECT_OK((*log)->offline());
  d.disk.Kill();
  log = Status(ErrorCode::kCancelled, "");
  manager = Status(ErrorCode::kCancelled, "");
  d.disk.Restart(true);
  manager = LogManager::Open(Options(&d.disk));
  ASSERT_OK(manager.status());
  EXPECT_EQ((*manager)->Find("t", 0)->Positions().log_end, 1);
}

TEST_F(PowerLoss, TakesNoMetadataAwayThatAStartHasShown) {
  for (uint64_t seed = 0; seed < kLosses; ++seed) {
    Disk d(seed);
    auto store = broker::FileMetadataStore::Open({.directory = "/meta", .io = &d.disk});
    ASSERT_OK(store.status());
    ASSERT_OK((*store)->Apply({{"a", "1"}}).status());
    d.disk.KillAt(2);  // the write is done, its sync is not
    EXPECT_FALSE((*store)->Apply({{"b", "2"}}).ok());
    int64_t shown = 0;
    for (const bool power_loss : {false, true}) {
      store = Status(ErrorCode::kCancelled, "");
      d.disk.Kill();
      d.disk.Restart(power_loss);
      store = broker::FileMetadataStore::Open({.directory = "/meta", .io = &d.disk});
      ASSERT_OK(store.status());
      const int64_t revision = (*store)->Range("")->revision;
      EXPECT_GE(revision, shown) << "seed " << seed;
      shown = revision;
    }
  }
}

// A process that died as it began a new log had not made its name durable: the next one went on in
// that log, and all of it went with the power.
TEST_F(PowerLoss, KeepsMetadataInALogThatADeadProcessMade) {
  for (uint64_t seed = 0; seed < kLosses; ++seed) {
    for (int death = 1; death <= 12; ++death) {
      Disk d(seed);
      const broker::FileMetadataStore::Options options{
          .directory = "/meta", .io = &d.disk, .snapshot_after_bytes = 1};
      auto store = broker::FileMetadataStore::Open(options);
      ASSERT_OK(store.status());
      d.disk.KillAt(death);
      (void)(*store)->Apply({{"a", "1"}});
      int64_t acknowledged = 0;
      for (const bool power_loss : {false, true}) {
        store = Status(ErrorCode::kCancelled, "");
        d.disk.Kill();
        d.disk.Restart(power_loss);
        store = broker::FileMetadataStore::Open(
            {.directory = "/meta", .io = &d.disk, .snapshot_after_bytes = 1 << 20});
        ASSERT_OK(store.status());
        EXPECT_GE((*store)->Range("")->revision, acknowledged)
            << "seed " << seed << " death " << death;
        const auto applied = (*store)->Apply({{"b", "2"}});
        ASSERT_OK(applied.status());
        acknowledged = *applied;
      }
    }
  }
}

TEST(Metadata, ARefusedWriteThatCouldNotBeCutOffIsCutOffLater) {
  Disk d(1);
  auto store = broker::FileMetadataStore::Open({.directory = "/meta", .io = &d.disk});
  ASSERT_OK(store.status());
  ASSERT_OK((*store)->Apply({{"a", "1"}}).status());
  d.disk.FailNext("write", 1);
  d.disk.FailNext("truncate", 2);
  EXPECT_FALSE((*store)->Apply({{"b", "2"}}).ok());
  EXPECT_FALSE((*store)->Apply({{"b", "2"}}).ok());
  ASSERT_OK((*store)->Apply({{"b", "3"}}).status());
  store = Status(ErrorCode::kCancelled, "");
  store = broker::FileMetadataStore::Open({.directory = "/meta", .io = &d.disk});
  ASSERT_OK(store.status());
  EXPECT_EQ((*(*store)->Get("b"))->value, "3");
}

// The folders above a new data folder had no durable name: all of it went with the power.
TEST_F(PowerLoss, KeepsAFolderThatWasMadeWithItsParents) {
  for (uint64_t seed = 0; seed < kLosses; ++seed) {
    Disk d(seed);
    auto manager = LogManager::Open(Options(&d.disk));
    ASSERT_OK(manager.status());
    const std::string id = (*manager)->meta().directory_id;
    d.disk.Kill();
    manager = Status(ErrorCode::kCancelled, "");
    d.disk.Restart(true);
    const auto meta = LogManager::ReadMetaProperties("/new/data", &d.disk);
    ASSERT_OK(meta.status());
    EXPECT_EQ(meta->directory_id, id);
  }
}

}  // namespace
}  // namespace kmirror::sim
