// The data directory: whose it is, what it remembers over stops and kills, what it refuses.

#include "broker/storage/log_manager.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <limits>

#include "broker/storage/files.h"
#include "tests/storage/log_test_support.h"

namespace kmirror::broker::test {
namespace {

Uuid Id(uint8_t n) {
  Uuid id;
  id.bytes[15] = n;
  return id;
}

struct DataDirectory {
  TempDir dir;
  FakeClock clock;
  FaultyIo io;
  LogManager::Options options;
  std::unique_ptr<LogManager> manager;

  DataDirectory() {
    options.directory = dir.path() + "/data";
    options.cluster_id = "AAAAAAAAQACAAAAAAAAAAA";
    options.node_id = 1;
    options.io = &io;
    options.clock = &clock;
    options.defaults.file_delete_delay_ms = 1000;
  }
  Status Open() {
    manager.reset();
    auto opened = LogManager::Open(options);
    if (!opened.ok()) return opened.status();
    manager = std::move(*opened);
    return Status::Ok();
  }
  std::shared_ptr<PartitionLog> Create(const std::string& topic, int32_t partition, uint8_t id) {
    auto log = manager->Create(topic, partition, Id(id), options.defaults);
    EXPECT_TRUE(log.ok()) << log.status().ToString();
    if (!log.ok()) return nullptr;
    EXPECT_TRUE((*log)->BecomeLeader(100, false).ok());
    return *log;
  }
  std::string File(const std::string& name) const {
    return ReadAll(options.directory + "/" + name);
  }
  bool Has(const std::string& name) const {
    return std::filesystem::exists(options.directory + "/" + name);
  }
};

TEST(LogManager, FormatsANewDirectoryAndKnowsItAgain) {
  DataDirectory data;
  ASSERT_TRUE(data.Open().ok());
  EXPECT_FALSE(data.manager->was_clean());
  const std::string directory_id = data.manager->meta().directory_id;
  EXPECT_TRUE(Uuid::Parse(directory_id));
  EXPECT_EQ(data.File("meta.properties"),
            "version=1\nnode.id=1\ncluster.id=AAAAAAAAQACAAAAAAAAAAA\n"
            "directory.id=" +
                directory_id + "\n");
  data.options.cluster_id.clear();
  ASSERT_TRUE(data.Open().ok());
  EXPECT_EQ(data.manager->meta().cluster_id, "AAAAAAAAQACAAAAAAAAAAA");
  EXPECT_EQ(data.manager->meta().directory_id, directory_id);
}

TEST(LogManager, RefusesADirectoryThatIsNotItsOwn) {
  DataDirectory data;
  ASSERT_TRUE(data.Open().ok());
  // Another process.
  auto second = LogManager::Open(data.options);
  EXPECT_EQ(second.status().code(), ErrorCode::kLogDirNotFound);
  EXPECT_NE(second.status().message().find("in use"), std::string::npos);
  data.manager.reset();

  data.options.cluster_id = "BBBBBBBBQBCBBBBBBBBBBA";
  Status refused = data.Open();
  EXPECT_EQ(refused.code(), ErrorCode::kInconsistentClusterId);
  EXPECT_NE(refused.message().find("AAAAAAAAQACAAAAAAAAAAA"), std::string::npos);
  data.options.cluster_id = "AAAAAAAAQACAAAAAAAAAAA";
  data.options.node_id = 2;
  EXPECT_EQ(data.Open().code(), ErrorCode::kInvalidConfig);
  data.options.node_id = 1;

  const std::string meta = data.options.directory + "/meta.properties";
  for (const char* text :
       {"version=2\nnode.id=1\ncluster.id=AAAAAAAAQACAAAAAAAAAAA\n",
        "node.id=1\ncluster.id=AAAAAAAAQACAAAAAAAAAAA\n", "version=1\nnode.id=1\n",
        "version=1\nnode.id=x\ncluster.id=AAAAAAAAQACAAAAAAAAAAA\n",
        "version=1\ncluster.id=AAAAAAAAQACAAAAAAAAAAA\n"}) {
    WriteAll(meta, text);
    refused = data.Open();
    EXPECT_EQ(refused.code(), ErrorCode::kInvalidConfig) << text;
    EXPECT_NE(refused.message().find("meta.properties"), std::string::npos);
  }
}

TEST(LogManager, KeepsEverythingOverAStopWithoutScanning) {
  DataDirectory data;
  ASSERT_TRUE(data.Open().ok());
  auto log = data.Create("orders", 0, 1);
  ASSERT_TRUE(AppendOne(*log, MakeBatch({.base_offset = 0, .count = 5, .producer_id = 3})).ok());
  ASSERT_TRUE(AppendOne(*data.Create("with-dash", 12, 2), MakeBatch({.base_offset = 0})).ok());
  ASSERT_TRUE(log->RaiseLogStart(2).ok());
  log.reset();
  ASSERT_TRUE(data.manager->Shutdown().ok());
  EXPECT_EQ(data.File(".kafka_cleanshutdown"), "{\"version\":0,\"brokerEpoch\":-1}");
  EXPECT_EQ(data.File("recovery-point-offset-checkpoint"), "0\n2\norders 0 5\nwith-dash 12 1\n");
  EXPECT_EQ(data.File("replication-offset-checkpoint"), "0\n2\norders 0 5\nwith-dash 12 1\n");
  EXPECT_EQ(data.File("log-start-offset-checkpoint"), "0\n1\norders 0 2\n");
  EXPECT_EQ(data.File("orders-0/partition.metadata"),
            "version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAQ");
  ASSERT_TRUE(data.Open().ok());
  EXPECT_TRUE(data.manager->was_clean());
  EXPECT_FALSE(data.Has(".kafka_cleanshutdown"));
  log = data.manager->Find("orders", 0);
  ASSERT_NE(log, nullptr);
  EXPECT_EQ(log->load_report().scanned_segments, 0) << log->load_report().reason;
  EXPECT_EQ(log->topic_id(), Id(1));
  EXPECT_EQ(log->Positions().log_start, 2);
  EXPECT_EQ(log->Positions().log_end, 5);
  EXPECT_EQ(log->Producers().size(), 1u);
  EXPECT_EQ(data.manager->All().size(), 2u);
  EXPECT_EQ(data.manager->Find("orders", 1), nullptr);
}

TEST(LogManager, ScansAfterAKillAndKeepsAnAcknowledgedLogStart) {
  DataDirectory data;
  ASSERT_TRUE(data.Open().ok());
  auto log = data.Create("orders", 0, 1);
  ASSERT_TRUE(AppendOne(*log, MakeBatch({.base_offset = 0, .count = 5})).ok());
  ASSERT_TRUE(log->RaiseLogStart(3).ok());  // no checkpoint was due yet
  log.reset();
  ASSERT_TRUE(data.Open().ok());
  log = data.manager->Find("orders", 0);
  EXPECT_EQ(log->load_report().scanned_segments, 1);
  EXPECT_EQ(log->Positions().log_start, 3);
  EXPECT_EQ(log->Positions().log_end, 5);
}

TEST(LogManager, CreatesOnceAndRefusesAnotherIdOrName) {
  DataDirectory data;
  ASSERT_TRUE(data.Open().ok());
  auto log = data.Create("orders", 0, 1);
  EXPECT_EQ(data.Create("orders", 0, 1), log);
  EXPECT_EQ(data.manager->Create("orders", 0, Id(2), {}).status().code(),
            ErrorCode::kInconsistentTopicId);
  for (const char* name : {"", ".", "..", "a/b", "a b"}) {
    EXPECT_EQ(data.manager->Create(name, 0, Id(2), {}).status().code(), ErrorCode::kInvalidTopic)
        << name;
  }
}

TEST(LogManager, RenamesADeletedPartitionAndRemovesItLater) {
  DataDirectory data;
  ASSERT_TRUE(data.Open().ok());
  auto log = data.Create("orders", 0, 1);
  ASSERT_TRUE(AppendOne(*log, MakeBatch({.base_offset = 0, .count = 5})).ok());
  ASSERT_TRUE(log->RaiseLogStart(4).ok());
  ASSERT_TRUE(data.manager->Delete("orders", 0).ok());
  ASSERT_TRUE(data.manager->Delete("orders", 0).ok()) << "again";
  EXPECT_EQ(data.manager->Find("orders", 0), nullptr);
  EXPECT_EQ(AppendOne(*log, MakeBatch({.base_offset = 5})).code(), ErrorCode::kNotLeaderOrFollower);
  EXPECT_EQ(data.File("log-start-offset-checkpoint"), "0\n0\n") << "a namesake must not inherit it";
  const auto count = [&] {
    int waiting = 0;
    for (const auto& each : std::filesystem::directory_iterator(data.options.directory)) {
      const std::string name = each.path().filename();
      waiting +=
          name.starts_with("orders-0.") && name.ends_with("-delete") && name.size() == 9 + 32 + 7;
    }
    return waiting;
  };
  EXPECT_EQ(count(), 1);
  auto fresh = data.Create("orders", 0, 2);
  EXPECT_EQ(fresh->Positions().log_start, 0);
  ASSERT_TRUE(data.manager->Tick(data.clock.now_ms + 999).ok());
  EXPECT_EQ(count(), 1);
  ASSERT_TRUE(data.manager->Tick(data.clock.now_ms + 1000).ok());
  EXPECT_EQ(count(), 0);
  // One that was renamed before a kill goes after the start.
  ASSERT_TRUE(data.manager->Delete("orders", 0).ok());
  ASSERT_TRUE(data.Open().ok());
  EXPECT_EQ(data.manager->Find("orders", 0), nullptr);
  ASSERT_TRUE(data.manager->Tick(data.clock.now_ms).ok());
  EXPECT_EQ(count(), 0);
}

TEST(LogManager, ServesTheOthersWhenOnePartitionCannotBeOpened) {
  DataDirectory data;
  ASSERT_TRUE(data.Open().ok());
  ASSERT_TRUE(AppendOne(*data.Create("bad", 0, 1), MakeBatch({.base_offset = 0, .count = 5})).ok());
  ASSERT_TRUE(AppendOne(*data.Create("good", 0, 2), MakeBatch({.base_offset = 0})).ok());
  ASSERT_TRUE(data.manager->Shutdown().ok());
  WriteAll(data.options.directory + "/bad-0/partition.metadata", "damaged");
  ASSERT_TRUE(data.Open().ok());
  ASSERT_EQ(data.manager->unopened().size(), 1u);
  EXPECT_EQ(data.manager->unopened()[0].name, "bad-0");
  EXPECT_NE(data.manager->unopened()[0].why.message().find("partition.metadata"),
            std::string::npos);
  EXPECT_NE(data.manager->Find("good", 0), nullptr);
}

TEST(LogManager, ChecksPointsAndRetentionWhenTheyAreDue) {
  DataDirectory data;
  data.options.defaults.retention_ms = 1000;
  data.options.retention_check_interval_ms = 50000;
  data.options.checkpoint_interval_ms = 20000;
  ASSERT_TRUE(data.Open().ok());
  auto log = data.Create("orders", 0, 1);
  ASSERT_TRUE(
      AppendOne(*log, MakeBatch({.base_offset = 0, .count = 5, .timestamp = data.clock.now_ms}))
          .ok());
  ASSERT_TRUE(data.manager->Tick(data.clock.now_ms + 5000).ok());
  EXPECT_EQ(data.File("replication-offset-checkpoint"), "0\n1\norders 0 5\n");
  EXPECT_EQ(log->RecoveryPoint(), 0) << "nobody asked for a sync";
  ASSERT_TRUE(data.manager->CheckpointAll().ok());
  EXPECT_EQ(log->RecoveryPoint(), 5);
  EXPECT_EQ(data.File("recovery-point-offset-checkpoint"), "0\n1\norders 0 5\n");
  EXPECT_EQ(log->Positions().log_start, 0);
  ASSERT_TRUE(data.manager->Tick(data.clock.now_ms + 50000).ok());
  EXPECT_EQ(log->Positions().log_start, 5);
}

TEST(LogManager, WritesHighWatermarksOnlyAfterChanges) {
  DataDirectory data;
  ASSERT_TRUE(data.Open().ok());
  auto log = data.Create("orders", 0, 1);
  const std::string path = data.options.directory + "/replication-offset-checkpoint";
  int64_t now = data.clock.now_ms;
  const auto tick = [&] { return data.manager->Tick(now += 5000).ok(); };
  ASSERT_TRUE(tick());
  EXPECT_EQ(data.File("replication-offset-checkpoint"), "0\n1\norders 0 0\n");
  std::filesystem::remove(path);
  ASSERT_TRUE(tick());
  EXPECT_FALSE(std::filesystem::exists(path)) << "nothing has changed";
  ASSERT_TRUE(AppendOne(*log, MakeBatch({.base_offset = 0, .count = 5})).ok());
  ASSERT_TRUE(tick());
  EXPECT_EQ(data.File("replication-offset-checkpoint"), "0\n1\norders 0 5\n");
  // A log nobody wrote to since: its place in the file does not get lost.
  ASSERT_TRUE(AppendOne(*data.Create("orders", 1, 1), MakeBatch({.base_offset = 0})).ok());
  ASSERT_TRUE(tick());
  EXPECT_EQ(data.File("replication-offset-checkpoint"), "0\n2\norders 0 5\norders 1 1\n");
}

// Ticks look at logs that changed; what is due later than the next one must not be forgotten.
TEST(LogManager, RemembersLogsThatHaveSomethingDue) {
  DataDirectory data;
  ASSERT_TRUE(data.Open().ok());
  auto log = data.Create("orders", 0, 1);
  LogConfig config = log->config();
  config.flush_ms = 3000;
  log->SetConfig(config);
  ASSERT_TRUE(AppendOne(*log, MakeBatch({.base_offset = 0, .count = 5})).ok());
  for (int i = 1; i <= 2; ++i) ASSERT_TRUE(data.manager->Tick(data.clock.now_ms + i * 1000).ok());
  EXPECT_EQ(log->RecoveryPoint(), 0);
  ASSERT_TRUE(data.manager->Tick(data.clock.now_ms + 3000).ok());
  EXPECT_EQ(log->RecoveryPoint(), 5);
  // Without flush.ms nothing is due, until the config asks for it.
  config.flush_ms = std::numeric_limits<int64_t>::max();
  log->SetConfig(config);
  ASSERT_TRUE(AppendOne(*log, MakeBatch({.base_offset = 5, .count = 5})).ok());
  for (int i = 4; i <= 6; ++i) ASSERT_TRUE(data.manager->Tick(data.clock.now_ms + i * 1000).ok());
  EXPECT_EQ(log->RecoveryPoint(), 5);
  config.flush_ms = 10;
  log->SetConfig(config);
  ASSERT_TRUE(data.manager->Tick(data.clock.now_ms + 7000).ok());
  EXPECT_EQ(log->RecoveryPoint(), 10);
}

TEST(LogManager, LooksForIdleProducersSeldomerThanForOldRecords) {
  DataDirectory data;
  data.options.retention_check_interval_ms = 1000;
  data.options.defaults.producer_id_expiration_ms = 60000;
  ASSERT_TRUE(data.Open().ok());
  auto log = data.Create("orders", 0, 1);
  // Age is that of the records, and these are old when they come.
  ASSERT_TRUE(
      AppendOne(*log, MakeBatch({.producer_id = 7, .timestamp = data.clock.now_ms - 3600000}))
          .ok());
  for (int i = 1; i <= 10; ++i) {
    ASSERT_TRUE(data.manager->Tick(data.clock.now_ms + i * 59999).ok());
    EXPECT_EQ(log->Producers().size(), 1u) << i;
  }
  ASSERT_TRUE(data.manager->Tick(data.clock.now_ms + 600000).ok());
  EXPECT_TRUE(log->Producers().empty());
}

TEST(LogManager, LeavesLogsThatOutliveItReadableAndClosed) {
  DataDirectory data;
  ASSERT_TRUE(data.Open().ok());
  auto log = data.Create("orders", 0, 1);
  ASSERT_TRUE(AppendOne(*log, MakeBatch({.base_offset = 0, .count = 5})).ok());
  data.manager.reset();
  EXPECT_EQ(ReadBatches(*log, 0).size(), 1u);
  EXPECT_EQ(log->RaiseLogStart(2).status().code(), ErrorCode::kNotLeaderOrFollower);
  ASSERT_TRUE(data.Open().ok()) << "the lock is free";
}

TEST(LogManager, LeavesNoCleanMarkWhenAStopFails) {
  DataDirectory data;
  ASSERT_TRUE(data.Open().ok());
  ASSERT_TRUE(
      AppendOne(*data.Create("orders", 0, 1), MakeBatch({.base_offset = 0, .count = 5})).ok());
  data.io.FailWrites(0, ENOSPC);
  EXPECT_EQ(data.manager->Shutdown().code(), ErrorCode::kNoSpace);
  data.io.Heal();
  EXPECT_FALSE(data.Has(".kafka_cleanshutdown"));
  ASSERT_TRUE(data.Open().ok());
  EXPECT_EQ(data.manager->Find("orders", 0)->Positions().log_end, 5);
}

// The whole data directory of a stopped Apache Kafka 4.4, taken over as it is.
TEST(LogManager, OpensTheDataDirectoryOfAStoppedKafka) {
  DataDirectory data;
  std::filesystem::copy(std::string(KMIRROR_SOURCE_DIR) + "/tests/golden/kafka-4.4/clean",
                        data.options.directory, std::filesystem::copy_options::recursive);
  WriteAll(data.options.directory + "/.kafka_cleanshutdown", "{\"version\":0,\"brokerEpoch\":15}");
  auto meta = LogManager::ReadMetaProperties(data.options.directory);
  ASSERT_TRUE(meta.ok()) << meta.status().ToString();
  data.options.cluster_id = meta->cluster_id;
  data.options.node_id = meta->node_id;
  ASSERT_TRUE(data.Open().ok());
  EXPECT_TRUE(data.manager->was_clean());
  EXPECT_TRUE(data.manager->unopened().empty());
  EXPECT_EQ(data.manager->All().size(), 12u);
  for (const auto& log : data.manager->All()) {
    EXPECT_EQ(log->load_report().scanned_segments, 0)
        << log->topic() << " " << log->load_report().reason;
  }
  EXPECT_EQ(data.manager->Find("__consumer_offsets", 0)->Positions().log_end, 19);
  EXPECT_EQ(data.manager->Find("txn", 0)->Positions().last_stable, 60);
  ASSERT_TRUE(data.manager->Shutdown().ok());
}

TEST(Checkpoint, ReadsWhatKafkaWrote) {
  auto read = ReadCheckpoint(FileIo::Posix(), std::string(KMIRROR_SOURCE_DIR) +
                             "/tests/golden/kafka-4.4/clean/replication-offset-checkpoint");
  ASSERT_TRUE(read.ok());
  EXPECT_EQ(read->size(), 12u);
  EXPECT_EQ((read->at({"__transaction_state", 0})), 35);
  EXPECT_EQ(DecodeCheckpoint(EncodeCheckpoint(*read)).value(), *read);
  for (const char* bad :
       {"", "1\n0\n", "0\n1\n", "0\n1\nt 0\n", "0\n1\nt x 5\n", "0\n1\nt 0 x\n", "0\n2\nt 0 5\n"}) {
    EXPECT_FALSE(DecodeCheckpoint(bad).ok()) << bad;
  }
  EXPECT_EQ(ParseDirectoryName("a-b-3"), (TopicPartitionName{"a-b", 3}));
  for (const char* bad : {"a", "a-", "-1", "a-x", "a--1x"})
    EXPECT_FALSE(ParseDirectoryName(bad)) << bad;
}

}  // namespace
}  // namespace kmirror::broker::test
