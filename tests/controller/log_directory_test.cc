#include "broker/controller/log_directory.h"

#include <gtest/gtest.h>

#include <functional>

#include "broker/controller/file_metadata_store.h"
#include "kmirror/log/record_batch_builder.h"
#include "tests/controller/fault_io.h"
#include "tests/support/assert_ok.h"
#include "tests/support/temp_dir.h"

namespace kmirror::broker {
namespace {

class LogDirectoryTest : public ::testing::Test {
 protected:
  void SetUp() override { Start(); }
  void TearDown() override { Stop(); }

  Status TryStart() {
    config_ = *BrokerConfig::Parse("node.id=1\nlisteners=PLAINTEXT://127.0.0.1:9092\nlog.dirs=" +
                                       (dir_ / "logs").string() + "\n",
                                   "test");
    LogManager::Options options;
    options.directory = config_.log_dir;
    options.cluster_id = "cluster-a";
    options.node_id = 1;
    options.io = &io_;
    auto manager = LogManager::Open(options);
    if (!manager.ok()) return manager.status();
    manager_ = std::move(*manager);
    auto store = FileMetadataStore::Open({(dir_ / metadata_).string(), &io_});
    if (!store.ok()) return store.status();
    store_ = std::move(*store);
    auto controller = Controller::Open({store_.get(), config_, "cluster-a"});
    if (!controller.ok()) return controller.status();
    controller_ = std::move(*controller);
    logs_ = std::make_unique<LogDirectory>(manager_.get(), config_, creators_);
    controller_->AddListener(logs_.get());
    return controller_->Start();
  }
  void Start() { ASSERT_OK(TryStart()); }
  // As after a kill: nothing is closed in order.
  void Stop() {
    controller_.reset();
    logs_.reset();
    store_.reset();
    manager_.reset();
  }
  void Restart() {
    Stop();
    Start();
  }

  TopicPtr Create(const std::string& name, ConfigMap configs = {}, int32_t partitions = 1) {
    CreatedTopic created = controller_->CreateTopic({name, {}, partitions, -1, std::move(configs)},
                                                    Controller::Origin::kMirror);
    EXPECT_OK(created.status);
    return created.topic;
  }
  void MakeMirror() {
    ASSERT_OK(controller_->SetMirrorConfigs("m", {{"bootstrap.servers", "a:1"}}, true));
  }
  Status SetName(const std::string& topic, std::optional<std::string> value) {
    const MirrorNameSetting change{controller_->image()->topics.Find(topic)->id, std::move(value)};
    return controller_->SetMirrorNames(std::span(&change, 1), -1);
  }
  ErrorCode Produce(const std::string& topic, int32_t partition = 0) {
    const std::shared_ptr<Replica> replica = logs_->Find(topic, partition);
    if (replica == nullptr) return ErrorCode::kUnknownTopicOrPartition;
    log::RecordBatchBuilder builder;
    builder.Add(0, std::nullopt, ByteView());
    std::vector<uint8_t> batch = builder.Build();
    return replica->log().AppendAsLeader(batch, replica->leader_epoch()).status().code();
  }

  // Carries out `change`, with the world stopping at each of its steps in turn, starts again and
  // calls `check` with what the change had answered.
  void KillAtEveryStep(const std::function<Status()>& change,
                       const std::function<void(int step, bool acknowledged)>& check) {
    bool finished = false;
    for (int step = 0; !finished; ++step) {
      ASSERT_LT(step, 1000);
      io_.FailFrom(io_.calls() + step);
      const int first = io_.calls();
      const Status answer = change();
      finished = io_.calls() - first <= step;
      Stop();
      io_.Heal();
      Start();
      ASSERT_NE(controller_, nullptr);
      check(step, answer.ok());
      if (HasFatalFailure()) return;
    }
  }

  test::TempDir dir_;
  FaultIo io_;
  std::string metadata_ = "metadata";
  int creators_ = 1;  // faults at a given call need one thread
  BrokerConfig config_;
  std::unique_ptr<LogManager> manager_;
  std::unique_ptr<FileMetadataStore> store_;
  std::unique_ptr<LogDirectory> logs_;
  std::unique_ptr<Controller> controller_;
};

TEST_F(LogDirectoryTest, APartitionHasItsLogWhenItsTopicIsVisibleAndAfterAStart) {
  const TopicPtr topic = Create("t", {{"segment.bytes", "1000"}}, 2);
  for (int round = 0; round < 2; ++round) {
    for (int32_t p = 0; p < 2; ++p) {
      const std::shared_ptr<Replica> replica = logs_->Find("t", p);
      ASSERT_NE(replica, nullptr);
      EXPECT_EQ(replica, logs_->Find(TopicIdPartition{topic->id, p}));
      EXPECT_EQ(replica->log().topic_id(), topic->id);
      EXPECT_EQ(replica->log().config().segment_bytes, 1000);
      EXPECT_EQ(replica->leader_epoch(), 0);
    }
    EXPECT_EQ(logs_->Find("t", 2), nullptr);
    EXPECT_EQ(logs_->Find("t", -1), nullptr);
    EXPECT_EQ(logs_->Find("u", 0), nullptr);
    EXPECT_EQ(Produce("t"), ErrorCode::kNone);
    EXPECT_TRUE(logs_->offline().empty());
    Restart();
  }
  EXPECT_EQ(logs_->Find("t", 0)->log().Positions().log_end, 2);
}

TEST_F(LogDirectoryTest, ADeletedTopicsLogsGoAndItsNameStartsEmpty) {
  const TopicPtr topic = Create("t");
  ASSERT_EQ(Produce("t"), ErrorCode::kNone);
  std::shared_ptr<Replica> old = logs_->Find("t", 0);
  ASSERT_OK(controller_->DeleteTopic(topic->id));
  EXPECT_EQ(logs_->Find("t", 0), nullptr);
  EXPECT_TRUE(old->removed());
  EXPECT_EQ(old->SetLocalWrites(LocalWrites::kAllowed, 0, 1000).code(),
            ErrorCode::kNotLeaderOrFollower);
  old.reset();  // logs end before their data folder does
  Create("t");
  EXPECT_EQ(logs_->Find("t", 0)->log().Positions().log_end, 0);
  Restart();
  EXPECT_EQ(logs_->Find("t", 0)->log().Positions().log_end, 0);
}

TEST_F(LogDirectoryTest, ConfigsAndLeaderEpochsReachTheLogs) {
  const TopicPtr topic = Create("t");
  const ConfigChange change{"segment.bytes", ConfigOp::kSet, "5000"};
  ASSERT_OK(controller_->AlterTopicConfigs("t", std::span(&change, 1), false));
  EXPECT_EQ(logs_->Find("t", 0)->log().config().segment_bytes, 5000);
  const LeaderEpochBump bump{{topic->id, 0}, 12};
  ASSERT_OK(controller_->BumpLeaderEpochs(std::span(&bump, 1)));
  EXPECT_EQ(logs_->Find("t", 0)->leader_epoch(), 13);
  EXPECT_EQ(logs_->Find("t", 0)->log().Positions().leader_epoch, 13);
  Restart();
  EXPECT_EQ(logs_->Find("t", 0)->leader_epoch(), 13);
}

TEST_F(LogDirectoryTest, TheBarrierIsClosedWhenAChangeOfMirrorNameIsAcknowledged) {
  MakeMirror();
  Create("t");
  EXPECT_EQ(Produce("t"), ErrorCode::kNone);
  ASSERT_OK(SetName("t", "m"));
  EXPECT_EQ(Produce("t"), ErrorCode::kReadOnly);
  ASSERT_OK(SetName("t", "m.paused"));
  EXPECT_EQ(Produce("t"), ErrorCode::kReadOnly);
  ASSERT_OK(SetName("t", "m.removed"));
  EXPECT_EQ(Produce("t"), ErrorCode::kNotEnoughReplicas);
  ASSERT_OK(SetName("t", std::nullopt));
  EXPECT_EQ(Produce("t"), ErrorCode::kNone);
}

TEST_F(LogDirectoryTest, NobodySeesTheNewMirrorNameWhileTheBarrierIsOpen) {
  // Listens before the log directory would publish: when others are told, the barrier is closed.
  class Watcher final : public MetadataListener {
   public:
    std::function<void()> on_published;
    void Published(const ImageDelta&, const ImagePtr&) noexcept override { on_published(); }
  } watcher;
  MakeMirror();
  Create("t");
  ErrorCode seen = ErrorCode::kNone;
  watcher.on_published = [&] { seen = Produce("t"); };
  ASSERT_OK(controller_->AddListenerNow(&watcher));
  ASSERT_OK(SetName("t", "m"));
  EXPECT_EQ(seen, ErrorCode::kReadOnly);
  controller_->RemoveListener(&watcher);
}

TEST_F(LogDirectoryTest, AMirrorsPartitionStartsClosed) {
  MakeMirror();
  Create("reading", {{"mirror.name", "m"}});
  Create("paused", {{"mirror.name", "m.paused"}});
  Create("stopped", {{"mirror.name", "m.removed"}});
  for (int round = 0; round < 2; ++round) {
    EXPECT_EQ(Produce("reading"), ErrorCode::kReadOnly);
    EXPECT_EQ(Produce("paused"), ErrorCode::kReadOnly);
    EXPECT_EQ(Produce("stopped"), ErrorCode::kNotEnoughReplicas);
    Restart();
  }
  // Grown partitions too.
  ASSERT_OK(controller_->CreatePartitions(controller_->image()->topics.Find("reading")->id, 2,
                                          false, Controller::Origin::kMirror));
  EXPECT_EQ(Produce("reading", 1), ErrorCode::kReadOnly);
}

TEST_F(LogDirectoryTest, AStaleAllowLosesAgainstANewerChange) {
  MakeMirror();
  Create("t", {{"mirror.name", "m.removed"}});
  const std::shared_ptr<Replica> replica = logs_->Find("t", 0);
  const int64_t stop_version = controller_->image()->version;
  // The operator starts it again while the stop's last step is on its way.
  ASSERT_OK(SetName("t", "m"));
  EXPECT_EQ(replica->SetLocalWrites(LocalWrites::kAllowed, 0, stop_version).code(),
            ErrorCode::kFencedStateEpoch);
  EXPECT_EQ(Produce("t"), ErrorCode::kReadOnly);
  ASSERT_OK(SetName("t", "m.removed"));
  EXPECT_EQ(replica->SetLocalWrites(LocalWrites::kAllowed, 7, controller_->image()->version).code(),
            ErrorCode::kFencedLeaderEpoch);
  EXPECT_EQ(Produce("t"), ErrorCode::kNotEnoughReplicas);
  EXPECT_OK(replica->SetLocalWrites(LocalWrites::kAllowed, 0, controller_->image()->version));
  EXPECT_EQ(Produce("t"), ErrorCode::kNone);
}

TEST_F(LogDirectoryTest, APartitionOpenedByItsStopStaysOpenUnderOtherChanges) {
  MakeMirror();
  const TopicPtr topic = Create("t", {{"mirror.name", "m.removed"}});
  ASSERT_OK(
      logs_->Find("t", 0)->SetLocalWrites(LocalWrites::kAllowed, 0, controller_->image()->version));
  ASSERT_OK(SetName("t", "m.removed"));
  const ConfigChange change{"segment.bytes", ConfigOp::kSet, "5000"};
  ASSERT_OK(controller_->AlterTopicConfigs("t", std::span(&change, 1), false));
  const LeaderEpochBump bump{{topic->id, 0}, 12};
  ASSERT_OK(controller_->BumpLeaderEpochs(std::span(&bump, 1)));
  EXPECT_EQ(Produce("t"), ErrorCode::kNone);
}

TEST_F(LogDirectoryTest, DirectoriesTheMetadataDoesNotKnowAreRemoved) {
  Create("kept");
  ASSERT_EQ(Produce("kept"), ErrorCode::kNone);
  Uuid other;
  other.bytes[3] = 1;
  ASSERT_OK(manager_->Create("stray", 0, other, {}).status());
  ASSERT_OK(manager_->Create("kept", 5, other, {}).status());
  Restart();
  EXPECT_EQ(manager_->Find("stray", 0), nullptr);
  EXPECT_EQ(manager_->Find("kept", 5), nullptr);
  EXPECT_EQ(logs_->Find("kept", 0)->log().Positions().log_end, 1);
}

TEST_F(LogDirectoryTest, RecordsBesideANewMetadataFolderAreNotTouched) {
  Create("t");
  ASSERT_EQ(Produce("t"), ErrorCode::kNone);
  Stop();
  metadata_ = "elsewhere";
  EXPECT_EQ(TryStart().code(), ErrorCode::kInconsistentClusterId);
  Stop();
  metadata_ = "metadata";
  Start();
  EXPECT_EQ(logs_->Find("t", 0)->log().Positions().log_end, 1);
}

TEST_F(LogDirectoryTest, ACreationKilledAnywhereIsThereWholeOrNotAtAll) {
  MakeMirror();
  Uuid id;
  id.bytes[0] = 7;
  const NewTopic topic{"t", id, 2, -1, {{"mirror.name", "m"}}};
  int seen = 0;
  KillAtEveryStep(
      [&] { return controller_->CreateTopic(topic, Controller::Origin::kMirror).status; },
      [&](int step, bool acknowledged) {
        const TopicPtr found = controller_->image()->topics.Find("t");
        if (acknowledged) ASSERT_NE(found, nullptr) << step;
        for (int32_t p = 0; p < 2; ++p) {
          ASSERT_EQ(manager_->Find("t", p) != nullptr, found != nullptr) << step;
          if (found != nullptr) ASSERT_EQ(Produce("t", p), ErrorCode::kReadOnly) << step;
        }
        if (found == nullptr) return;
        ++seen;
        ASSERT_EQ(found->id, id);
        ASSERT_OK(controller_->DeleteTopic(id, Controller::Origin::kMirror));
      });
  EXPECT_GT(seen, 0);
}

TEST_F(LogDirectoryTest, ADeletionKilledAnywhereIsDoneOrNotBegun) {
  int kept = 0;
  Create("t", {}, 2);
  ASSERT_EQ(Produce("t"), ErrorCode::kNone);
  KillAtEveryStep(
      [&] { return controller_->DeleteTopic(controller_->image()->topics.Find("t")->id); },
      [&](int step, bool acknowledged) {
        if (controller_->image()->topics.Find("t") != nullptr) {
          ASSERT_FALSE(acknowledged) << step;
          ASSERT_EQ(logs_->Find("t", 0)->log().Positions().log_end, 1) << step;
          ++kept;
          return;
        }
        ASSERT_EQ(manager_->Find("t", 0), nullptr) << step;
        Create("t", {}, 2);
        ASSERT_EQ(Produce("t"), ErrorCode::kNone);
      });
  EXPECT_GT(kept, 0);
}

TEST_F(LogDirectoryTest, AChangeOfMirrorNameKilledAnywhereLeavesTheBarrierOfWhatIsStored) {
  MakeMirror();
  Create("t", {{"mirror.name", "m"}});
  bool stop = true;
  KillAtEveryStep([&] { return SetName("t", stop ? "m.removed" : "m"); },
                  [&](int step, bool acknowledged) {
                    const TopicPtr topic = controller_->image()->topics.Find("t");
                    const std::string& name = topic->configs.at("mirror.name");
                    if (acknowledged) ASSERT_EQ(name, stop ? "m.removed" : "m") << step;
                    ASSERT_EQ(Produce("t"),
                              name == "m" ? ErrorCode::kReadOnly : ErrorCode::kNotEnoughReplicas);
                    stop = name == "m";
                  });
}

TEST_F(LogDirectoryTest, ARefusedCreationLeavesNoDirectory) {
  class Refuser final : public MetadataListener {
   public:
    Status Prepare(const ImageDelta&, const MetadataImage&) override {
      return {ErrorCode::kNoSpace, "full"};
    }
  } refuser;
  ASSERT_OK(controller_->AddListenerNow(&refuser));
  EXPECT_EQ(controller_->CreateTopic({"t", {}, 3}).status.code(), ErrorCode::kKafkaStorageError);
  controller_->RemoveListener(&refuser);
  for (int32_t p = 0; p < 3; ++p) EXPECT_EQ(manager_->Find("t", p), nullptr);
  Create("t");
}

// As kmirrord creates them: several threads beside each other.
class ManyCreatorsTest : public LogDirectoryTest {
 protected:
  static constexpr int32_t kPartitions = 64;

  ManyCreatorsTest() { creators_ = 8; }
};

TEST_F(ManyCreatorsTest, EveryPartitionHasItsLogAndKeepsIt) {
  const TopicPtr topic = Create("t", {}, kPartitions);
  for (int round = 0; round < 2; ++round) {
    for (int32_t p = 0; p < kPartitions; ++p) {
      ASSERT_NE(logs_->Find("t", p), nullptr) << p;
      EXPECT_EQ(logs_->Find("t", p)->log().topic_id(), topic->id);
      EXPECT_EQ(Produce("t", p), ErrorCode::kNone);
    }
    EXPECT_TRUE(logs_->offline().empty());
    Restart();
  }
}

TEST_F(ManyCreatorsTest, OneThatFailsLeavesNoneOfTheTopic) {
  for (int call = 0; call < 400; call += 23) {
    io_.FailOnly(io_.calls() + call);
    const Status status = controller_->CreateTopic({"t", {}, kPartitions}).status;
    io_.Heal();
    for (int32_t p = 0; p < kPartitions; ++p) {
      ASSERT_EQ(manager_->Find("t", p) != nullptr, status.ok()) << p << " after call " << call;
    }
    if (status.ok())
      ASSERT_OK(controller_->DeleteTopic(controller_->image()->topics.Find("t")->id));
  }
  Create("t", {}, kPartitions);
}

}  // namespace
}  // namespace kmirror::broker
