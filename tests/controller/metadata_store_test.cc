#include "broker/controller/metadata_store.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "broker/controller/file_metadata_store.h"
#include "tests/controller/fault_io.h"
#include "tests/support/assert_ok.h"
#include "tests/support/temp_dir.h"

namespace kmirror::broker {
namespace {

namespace fs = std::filesystem;
using Content = std::map<std::string, StoredValue>;

std::unique_ptr<FileMetadataStore> OpenFile(const fs::path& directory, FileIo* io = nullptr,
                                            int64_t snapshot_after = 4 << 20) {
  auto store = FileMetadataStore::Open({directory.string(), io, snapshot_after});
  EXPECT_OK(store.status());
  return store.ok() ? std::move(*store) : nullptr;
}

Content ContentOf(MetadataStore& store) { return store.Range("")->entries; }

std::string ReadAll(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}
void WriteAll(const fs::path& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary | std::ios::trunc) << bytes;
}
std::vector<std::string> Names(const fs::path& directory) {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(directory))
    names.push_back(entry.path().filename().string());
  std::sort(names.begin(), names.end());
  return names;
}
fs::path NewestLog(const fs::path& directory) {
  fs::path newest;
  for (const std::string& name : Names(directory)) {
    if (name.ends_with(".log")) newest = directory / name;
  }
  return newest;
}

// Both stores follow the same contract.
class AnyStore : public ::testing::TestWithParam<bool> {
 protected:
  void SetUp() override {
    if (GetParam()) {
      store_ = OpenFile(dir_ / "meta");
    } else {
      store_ = std::make_unique<MemoryMetadataStore>();
    }
  }
  test::TempDir dir_;
  std::unique_ptr<MetadataStore> store_;
};
INSTANTIATE_TEST_SUITE_P(Stores, AnyStore, ::testing::Bool(),
                         [](const auto& which) { return which.param ? "File" : "Memory"; });

TEST_P(AnyStore, ABatchIsAppliedWholeAndCountsOneRevision) {
  EXPECT_EQ(*store_->Apply({{"a", "1"}, {"b", "2"}}), 1);
  EXPECT_EQ(*store_->Apply({{"a", std::nullopt}, {"c", ""}}), 2);
  EXPECT_EQ(*store_->Get("a"), std::nullopt);
  EXPECT_EQ(*store_->Get("b"), (StoredValue{"2", 1}));
  EXPECT_EQ(*store_->Get("c"), (StoredValue{"", 2}));
  EXPECT_EQ(store_->Range("")->revision, 2);
}

TEST_P(AnyStore, RangeGivesTheKeysOfAPrefixAndNoOthers) {
  ASSERT_OK(
      store_->Apply({{"t/", "0"}, {"t/a", "1"}, {"t/b", "2"}, {"t", "3"}, {"t0", "4"}, {"s", "5"}})
          .status());
  const auto range = store_->Range("t/");
  ASSERT_TRUE(range.ok());
  EXPECT_EQ(range->entries.size(), 3u);
  EXPECT_TRUE(range->entries.contains("t/a"));
  EXPECT_FALSE(range->entries.contains("t0"));
}

TEST_P(AnyStore, AMismatchAnywhereRefusesTheWholeBatch) {
  ASSERT_EQ(*store_->Apply({{"a", "1"}}), 1);
  const Content before = ContentOf(*store_);
  EXPECT_EQ(store_->Apply({{"b", "2"}, {"a", "2", 0}}).status().code(),
            ErrorCode::kInvalidUpdateVersion);
  EXPECT_EQ(store_->Apply({{"b", "2"}, {"a", "2", 5}}).status().code(),
            ErrorCode::kInvalidUpdateVersion);
  EXPECT_EQ(store_->Apply({{"a", "2"}, {"x", "2", 1}}).status().code(),
            ErrorCode::kInvalidUpdateVersion);
  EXPECT_EQ(store_->Apply({{"a", "2"}, {"a", "3"}}).status().code(), ErrorCode::kInvalidRequest);
  EXPECT_EQ(ContentOf(*store_), before);
  EXPECT_EQ(*store_->Apply({{"b", "2", 0}, {"a", "2", 1}}), 2);
}

TEST_P(AnyStore, AWatchTellsEveryBatchFromItsRevisionOnUntilItEnds) {
  ASSERT_OK(store_->Apply({{"a", "1"}}).status());
  EXPECT_EQ(store_->Watch(1, [](int64_t, const auto&) {}).status().code(),
            ErrorCode::kOffsetOutOfRange);
  std::vector<int64_t> told;
  auto watch = store_->Watch(2, [&](int64_t revision, const std::vector<StoreChange>& batch) {
    told.push_back(revision);
    EXPECT_EQ(batch.size(), 1u);
  });
  ASSERT_OK(watch.status());
  ASSERT_OK(store_->Apply({{"a", "2"}}).status());
  EXPECT_FALSE(store_->Apply({{"a", "2", 77}}).ok());
  ASSERT_OK(store_->Apply({{"a", std::nullopt}}).status());
  EXPECT_EQ(told, (std::vector<int64_t>{2, 3}));
  watch->reset();
  ASSERT_OK(store_->Apply({{"a", "4"}}).status());
  EXPECT_EQ(told.size(), 2u);
}

TEST_P(AnyStore, AWatchMayOutliveItsStore) {
  auto watch = store_->Watch(1, [](int64_t, const auto&) {});
  ASSERT_OK(watch.status());
  store_.reset();
  watch->reset();
}

TEST_P(AnyStore, LeasesAreForSharedStores) {
  EXPECT_EQ(store_->GrantLease(1000).status().code(), ErrorCode::kUnsupportedVersion);
}

TEST(FileStore, ReopeningGivesWhatWasAppliedWithItsRevisions) {
  test::TempDir dir;
  Content before;
  {
    auto store = OpenFile(dir / "meta");
    ASSERT_EQ(*store->Apply({{"a", std::string("\0binary\xFF", 8)}, {"b", "2"}}), 1);
    ASSERT_EQ(*store->Apply({{"b", std::nullopt}}), 2);
    ASSERT_EQ(*store->Apply({{"c", std::string(100000, 'x')}}), 3);
    before = ContentOf(*store);
  }
  auto store = OpenFile(dir / "meta");
  EXPECT_EQ(ContentOf(*store), before);
  EXPECT_EQ(store->torn_bytes(), 0);
  EXPECT_EQ(*store->Apply({{"d", "1"}}), 4);
}

TEST(FileStore, IsHeldByOneProcessAtATime) {
  test::TempDir dir;
  auto store = OpenFile(dir / "meta");
  EXPECT_EQ(FileMetadataStore::Open({(dir / "meta").string()}).status().code(),
            ErrorCode::kLogDirNotFound);
  store.reset();
  EXPECT_NE(OpenFile(dir / "meta"), nullptr);
}

TEST(FileStore, ATornLastBatchIsCutWhereverItTears) {
  test::TempDir dir;
  FaultIo io;
  Content whole;
  size_t cut_from = 0;
  {
    auto store = OpenFile(dir / "meta", &io);
    ASSERT_OK(store->Apply({{"a", "1"}, {"b", "2"}}).status());
    whole = ContentOf(*store);
    cut_from = static_cast<size_t>(store->log_bytes());
    ASSERT_OK(store->Apply({{"a", "torn"}, {"c", "torn as well"}}).status());
  }
  const fs::path log = NewestLog(dir / "meta");
  const std::string bytes = ReadAll(log);
  ASSERT_GT(bytes.size(), cut_from);
  for (size_t size = cut_from; size < bytes.size(); ++size) {
    // Short, or at full length with the missing rest as zeros or as garbage.
    std::string garbage = bytes.substr(0, size);
    while (garbage.size() < bytes.size())
      garbage.push_back(static_cast<char>(~bytes[garbage.size()]));
    for (const std::string& torn :
         {bytes.substr(0, size), bytes.substr(0, size) + std::string(bytes.size() - size, '\0'),
          garbage}) {
      if (torn == bytes) continue;  // the last bytes were zeros anyway
      WriteAll(log, torn);
      auto store = OpenFile(dir / "meta", &io);
      ASSERT_NE(store, nullptr) << size;
      ASSERT_EQ(ContentOf(*store), whole) << size;
      ASSERT_EQ(store->torn_bytes(), static_cast<int64_t>(torn.size() - cut_from));
      // The next batch takes the place, and is there after the next start.
      ASSERT_EQ(*store->Apply({{"z", "z"}}), 2);
      store.reset();
      store = OpenFile(dir / "meta", &io);
      ASSERT_EQ(*store->Get("z"), (StoredValue{"z", 2}));
    }
  }
}

TEST(FileStore, DamageBeforeTheLastBatchRefusesToOpen) {
  test::TempDir dir;
  {
    auto store = OpenFile(dir / "meta");
    for (int i = 0; i < 4; ++i)
      ASSERT_OK(store->Apply({{"key", "value" + std::to_string(i)}}).status());
  }
  const fs::path log = NewestLog(dir / "meta");
  const std::string bytes = ReadAll(log);
  const size_t batch = (bytes.size() - 24) / 4;
  for (size_t at = 0; at < 24 + 3 * batch; ++at) {
    std::string damaged = bytes;
    damaged[at] = static_cast<char>(damaged[at] ^ 0x41);
    WriteAll(log, damaged);
    const auto store = FileMetadataStore::Open({(dir / "meta").string()});
    ASSERT_EQ(store.status().code(), ErrorCode::kCorruptMessage) << at;
    ASSERT_NE(store.status().message().find(log.filename().string()), std::string::npos);
    // Refusing changes nothing.
    ASSERT_EQ(ReadAll(log), damaged);
  }
}

TEST(FileStore, ADamagedSnapshotRefusesToOpen) {
  test::TempDir dir;
  {
    auto store = OpenFile(dir / "meta", nullptr, 200);
    for (int i = 0; i < 20; ++i)
      ASSERT_OK(store->Apply({{"key" + std::to_string(i % 3), "value"}}).status());
  }
  for (const std::string& name : Names(dir / "meta")) {
    if (!name.ends_with(".snapshot")) continue;
    std::string bytes = ReadAll((dir / "meta") / name);
    bytes[bytes.size() / 2] ^= 1;
    WriteAll((dir / "meta") / name, bytes);
    EXPECT_EQ(FileMetadataStore::Open({(dir / "meta").string()}).status().code(),
              ErrorCode::kCorruptMessage);
    return;
  }
  FAIL() << "no snapshot was written";
}

TEST(FileStore, ALargeLogBecomesASnapshotAndItsPredecessorsGo) {
  test::TempDir dir;
  FaultIo io;
  Content before;
  {
    auto store = OpenFile(dir / "meta", &io, 1000);
    for (int i = 0; i < 500; ++i) {
      ASSERT_EQ(*store->Apply({{"key" + std::to_string(i % 7), "value" + std::to_string(i)}}),
                i + 1);
      ASSERT_OK(store->last_snapshot());
      ASSERT_LT(store->log_bytes(), 1100);
    }
    before = ContentOf(*store);
    // .lock, one snapshot, one log.
    EXPECT_EQ(Names(dir / "meta").size(), 3u);
  }
  auto store = OpenFile(dir / "meta", nullptr, 1000);
  EXPECT_EQ(ContentOf(*store), before);
  EXPECT_EQ(store->Range("")->revision, 500);
}

// Applies batches until the world stops; answers what was acknowledged.
struct Acknowledged {
  std::vector<int64_t> values;  // batch i was OK
  bool opened = false;
};
Acknowledged RunUntilDead(const fs::path& directory, FileIo* io, int batches) {
  Acknowledged result;
  auto store = FileMetadataStore::Open({directory.string(), io, 300});
  if (!store.ok()) return result;
  result.opened = true;
  for (int i = 0; i < batches; ++i) {
    if ((*store)
            ->Apply(
                {{"key" + std::to_string(i % 5), std::to_string(i)}, {"last", std::to_string(i)}})
            .ok()) {
      result.values.push_back(i);
    }
  }
  return result;
}

TEST(FileStore, KilledBetweenAnyTwoStepsItKeepsEveryAcknowledgedBatch) {
  int total = 0;
  {
    test::TempDir dir;
    FaultIo io;
    RunUntilDead(dir / "meta", &io, 40);
    total = io.calls();
  }
  ASSERT_GT(total, 80);
  for (int step = 0; step < total; ++step) {
    for (const bool half_write : {false, true}) {
      test::TempDir dir;
      FaultIo io(step, half_write);
      const Acknowledged acknowledged = RunUntilDead(dir / "meta", &io, 40);
      FaultIo healthy;
      auto store = OpenFile(dir / "meta", &healthy, 300);
      ASSERT_NE(store, nullptr) << "killed at step " << step;
      const auto last = store->Get("last");
      ASSERT_TRUE(last.ok());
      const int64_t found = last->has_value() ? std::stoll((*last)->value) : -1;
      const int64_t expected = acknowledged.values.empty() ? -1 : acknowledged.values.back();
      // The batch in flight may be there; nothing acknowledged is missing.
      ASSERT_TRUE(found == expected || found == expected + 1)
          << step << ": " << found << " after " << expected;
      for (int64_t key = 0; key < 5; ++key) {
        int64_t newest = -1;
        for (int64_t i = 0; i <= found; ++i) newest = i % 5 == key ? i : newest;
        const auto value = store->Get("key" + std::to_string(key));
        ASSERT_EQ(value->has_value() ? std::stoll((*value)->value) : -1, newest) << step;
      }
      // And it goes on from there.
      ASSERT_EQ(*store->Apply({{"after", "1"}}), found + 2);
    }
  }
}

TEST(FileStore, OneFailedStepLosesNothingWhetherTheStoreGoesOnOrStartsAgain) {
  int total = 0;
  {
    test::TempDir dir;
    FaultIo io;
    RunUntilDead(dir / "meta", &io, 40);
    total = io.calls();
  }
  for (int step = 0; step < total; ++step) {
    test::TempDir dir;
    FaultIo io;
    io.FailOnly(step);
    const Acknowledged acknowledged = RunUntilDead(dir / "meta", &io, 40);
    FaultIo healthy;
    auto store = OpenFile(dir / "meta", &healthy, 300);
    ASSERT_NE(store, nullptr) << step;
    for (int64_t key = 0; key < 5; ++key) {
      int64_t newest = -1;
      for (const int64_t i : acknowledged.values) newest = i % 5 == key ? i : newest;
      if (newest < 0) continue;
      const auto value = store->Get("key" + std::to_string(key));
      ASSERT_TRUE(value.ok() && value->has_value()) << step;
      // A batch whose sync failed was not acknowledged and may be there.
      ASSERT_GE(std::stoll((*value)->value), newest) << step;
    }
  }
}

TEST(FileStore, AfterAFailedSyncNothingIsTakenAnyMore) {
  test::TempDir dir;
  FaultIo io;
  auto store = OpenFile(dir / "meta", &io);
  ASSERT_OK(store->Apply({{"a", "1"}}).status());
  io.FailSyncs(true);
  EXPECT_EQ(store->Apply({{"a", "2"}}).status().code(), ErrorCode::kKafkaStorageError);
  io.FailSyncs(false);
  EXPECT_EQ(store->Apply({{"a", "3"}}).status().code(), ErrorCode::kKafkaStorageError);
  // Nothing that was not durable is shown.
  EXPECT_EQ(*store->Get("a"), (StoredValue{"1", 1}));
}

TEST(FileStore, ARefusedWriteLeavesTheStoreUsable) {
  test::TempDir dir;
  FaultIo io(-1, true);
  auto store = OpenFile(dir / "meta", &io);
  ASSERT_OK(store->Apply({{"a", "1"}}).status());
  io.FailOnly(io.calls());
  EXPECT_EQ(store->Apply({{"a", "2"}}).status().code(), ErrorCode::kKafkaStorageError);
  EXPECT_EQ(*store->Apply({{"a", "3"}}), 2);
  store.reset();
  store = OpenFile(dir / "meta");
  EXPECT_EQ(*store->Get("a"), (StoredValue{"3", 2}));
}

}  // namespace
}  // namespace kmirror::broker
