#include "broker/controller/controller.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

#include "broker/controller/metadata_records.h"
#include "broker/controller/producer_id_range.h"
#include "tests/support/assert_ok.h"

namespace kmirror::broker {
namespace {

BrokerConfig Config(const std::string& more = "") {
  return *BrokerConfig::Parse(
      "node.id=1\nlisteners=PLAINTEXT://127.0.0.1:9092\nlog.dirs=/unused\n" + more, "test");
}

Uuid Id(uint8_t last) {
  Uuid id;
  id.bytes[0] = 9;
  id.bytes[15] = last;
  return id;
}

// Notes the order of calls; can refuse.
class Recorder final : public MetadataListener {
 public:
  explicit Recorder(std::string name, std::vector<std::string>* log)
      : name_(std::move(name)), log_(log) {}
  Status Load(const ImagePtr& image) override {
    log_->push_back(name_ + " load " + std::to_string(image->version));
    return {};
  }
  Status Prepare(const ImageDelta& delta, const MetadataImage& next) override {
    EXPECT_EQ(delta.version, next.version);
    log_->push_back(name_ + " prepare");
    return refuse;
  }
  void Undo(const ImageDelta&) noexcept override { log_->push_back(name_ + " undo"); }
  void Apply(const ImageDelta& delta, const MetadataImage&) noexcept override {
    log_->push_back(name_ + " apply");
    if (on_apply) on_apply(delta);
  }
  void Published(const ImageDelta& delta, const ImagePtr& image) noexcept override {
    log_->push_back(name_ + " published");
    EXPECT_GT(delta.version, last_version);
    EXPECT_EQ(image->version, delta.version);
    last_version = delta.version;
  }
  Status refuse;
  std::function<void(const ImageDelta&)> on_apply;
  int64_t last_version = 0;

 private:
  const std::string name_;
  std::vector<std::string>* const log_;
};

class ControllerTest : public ::testing::Test {
 protected:
  void SetUp() override { Open(); }
  void Open(const std::string& more = "") {
    controller_.reset();
    auto opened = Controller::Open({&store_, Config(more), "cluster-a"});
    ASSERT_OK(opened.status());
    controller_ = std::move(*opened);
    ASSERT_OK(controller_->Start());
  }
  TopicPtr Create(const std::string& name, ConfigMap configs = {}, int32_t partitions = 2) {
    CreatedTopic created = controller_->CreateTopic({name, {}, partitions, -1, std::move(configs)},
                                                    Controller::Origin::kMirror);
    EXPECT_OK(created.status);
    return created.topic;
  }
  void MakeMirror(const std::string& name) {
    ASSERT_OK(controller_->SetMirrorConfigs(name, {{"bootstrap.servers", "a:1"}}, true));
  }
  TopicPtr Topic(const std::string& name) { return controller_->image()->topics.Find(name); }
  std::string MirrorNameOf(const std::string& name) {
    const TopicPtr topic = Topic(name);
    const auto found = topic->configs.find("mirror.name");
    return found == topic->configs.end() ? "" : found->second;
  }
  Status SetName(const std::string& topic, std::optional<std::string> value, int64_t version = -1) {
    const MirrorNameSetting change{Topic(topic)->id, std::move(value)};
    return controller_->SetMirrorNames(std::span(&change, 1), version);
  }
  Status Bump(const std::string& topic, int32_t partition, int32_t minimum) {
    const LeaderEpochBump bump{{Topic(topic)->id, partition}, minimum};
    return controller_->BumpLeaderEpochs(std::span(&bump, 1));
  }
  int32_t EpochOf(const std::string& topic, int32_t partition) {
    return Topic(topic)->partitions[static_cast<size_t>(partition)].leader_epoch;
  }

  MemoryMetadataStore store_;
  std::unique_ptr<Controller> controller_;
};

TEST_F(ControllerTest, FormattingFinalizesTheMirrorFeature) {
  EXPECT_EQ(controller_->image()->mirror_feature, 1);
  EXPECT_EQ(controller_->image()->cluster_id, "cluster-a");
  ASSERT_NE(controller_->image()->FindBroker(1), nullptr);
}

TEST_F(ControllerTest, TheStoreOfAnotherClusterIsRefused) {
  EXPECT_EQ(Controller::Open({&store_, Config(), "cluster-b"}).status().code(),
            ErrorCode::kInconsistentClusterId);
}

TEST_F(ControllerTest, ADamagedValueIsRefusedByItsKey) {
  Create("t");
  ASSERT_OK(store_.Apply({{"topic/t", "\x01nonsense"}}).status());
  const Status s = Controller::Open({&store_, Config(), "cluster-a"}).status();
  EXPECT_EQ(s.code(), ErrorCode::kCorruptMessage);
  EXPECT_THAT(s.message(), ::testing::HasSubstr("topic/t"));
}

TEST_F(ControllerTest, EverythingIsThereAfterAStart) {
  MakeMirror("m");
  const TopicPtr topic = Create("t", {{"mirror.name", "m.paused"}, {"retention.ms", "5"}}, 3);
  ASSERT_OK(Bump("t", 2, 40));
  const ConfigChange rate{"mirror.replication.throttled.rate", ConfigOp::kSet, "7"};
  ASSERT_OK(controller_->AlterBrokerConfigs(1, std::span(&rate, 1), false));
  ASSERT_OK(controller_->AlterBrokerConfigs(-1, std::span(&rate, 1), false));
  ASSERT_OK(controller_->UpdateFeature("mirror.version", 0, false));
  const ImagePtr before = controller_->image();
  Open();
  const ImagePtr after = controller_->image();
  EXPECT_GE(after->version, before->version);
  EXPECT_EQ(after->mirrors, before->mirrors);
  EXPECT_EQ(after->broker_configs, before->broker_configs);
  EXPECT_EQ(after->mirror_feature, 0);
  const TopicPtr again = Topic("t");
  ASSERT_NE(again, nullptr);
  EXPECT_EQ(again->id, topic->id);
  EXPECT_EQ(again->configs, topic->configs);
  EXPECT_EQ(again->partitions, before->topics.Find("t")->partitions);
  EXPECT_EQ(again->partitions[2].leader_epoch, 41);
  EXPECT_EQ(controller_->image()->topics.Find(topic->id), again);
}

TEST_F(ControllerTest, LeaderEpochsStayAcrossARestart) {
  Create("t");
  ASSERT_OK(Bump("t", 0, 4));
  Open();
  EXPECT_EQ(EpochOf("t", 0), 5);
  EXPECT_EQ(EpochOf("t", 1), 0);
}

// --- Topics

TEST_F(ControllerTest, TopicNamesFollowKafkasRules) {
  for (const std::string& bad :
       {std::string(), std::string("."), std::string(".."), std::string("a/b"), std::string("a b"),
        std::string(250, 'x'), std::string("\xC3\xA4")}) {
    EXPECT_EQ(controller_->CreateTopic({bad}).status.code(), ErrorCode::kInvalidTopic) << bad;
  }
  EXPECT_OK(controller_->CreateTopic({std::string(249, 'x')}).status);
  EXPECT_OK(controller_->CreateTopic({"a.b"}).status);
  EXPECT_EQ(controller_->CreateTopic({"a_b"}).status.code(), ErrorCode::kInvalidTopic);
  EXPECT_EQ(controller_->CreateTopic({"a.b"}).status.code(), ErrorCode::kTopicAlreadyExists);
  ASSERT_OK(controller_->DeleteTopic(Topic("a.b")->id));
  EXPECT_OK(controller_->CreateTopic({"a_b"}).status);
}

TEST_F(ControllerTest, ANewTopicMayBringItsId) {
  CreatedTopic created = controller_->CreateTopic({"t", Id(1), 3});
  ASSERT_OK(created.status);
  EXPECT_EQ(created.topic->id, Id(1));
  EXPECT_EQ(created.topic->partition_count(), 3);
  EXPECT_EQ(created.topic->partitions[0], (PartitionImage{1, 0}));
  EXPECT_EQ(controller_->CreateTopic({"u", Id(1)}).status.code(), ErrorCode::kTopicAlreadyExists);
  const TopicPtr chosen = controller_->CreateTopic({"v"}).topic;
  EXPECT_FALSE(chosen->id.IsZero());
  EXPECT_NE(chosen->id, Id(1));
}

TEST_F(ControllerTest, BadPartitionsReplicasAndConfigsAreRefusedAndOthersOfTheRequestProceed) {
  std::vector<NewTopic> topics = {{"zero", {}, 0},
                                  {"many", {}, 100001},
                                  {"rf", {}, 1, 3},
                                  {"bad", {}, 1, 1, {{"retention.ms", "x"}}},
                                  {"good", {}, 1, 1, {{"retention.ms", "1"}}},
                                  {"mirrored", {}, 1, 1, {{"mirror.name", "m"}}}};
  const auto created = controller_->CreateTopics(topics, false);
  ASSERT_EQ(created.size(), 6u);
  EXPECT_EQ(created[0].status.code(), ErrorCode::kInvalidPartitions);
  EXPECT_EQ(created[1].status.code(), ErrorCode::kInvalidPartitions);
  EXPECT_EQ(created[2].status.code(), ErrorCode::kInvalidReplicationFactor);
  EXPECT_EQ(created[3].status.code(), ErrorCode::kInvalidConfig);
  EXPECT_OK(created[4].status);
  EXPECT_EQ(created[5].status.code(), ErrorCode::kInvalidConfig);
  EXPECT_EQ(controller_->image()->topics.size(), 1u);
}

TEST_F(ControllerTest, ValidateOnlyChangesNothing) {
  const int64_t version = controller_->image()->version;
  EXPECT_OK(controller_->CreateTopics({{"t"}}, true)[0].status);
  EXPECT_EQ(Topic("t"), nullptr);
  EXPECT_EQ(controller_->image()->version, version);
}

TEST_F(ControllerTest, MissingTopicsAreMadeAsTheBrokersFileSays) {
  Open("num.partitions=4\n");
  CreatedTopic made = controller_->EnsureTopic("auto");
  ASSERT_OK(made.status);
  EXPECT_EQ(made.topic->partition_count(), 4);
  EXPECT_EQ(controller_->EnsureTopic("auto").topic->id, made.topic->id);
  EXPECT_EQ(controller_->EnsureTopic("__mirror_state").topic->partition_count(), 50);
  EXPECT_EQ(controller_->EnsureTopic("__mirror_state").topic->configs.at("cleanup.policy"),
            "compact");
  EXPECT_EQ(controller_->EnsureTopic("__mirror_state").topic->configs.at("retention.ms"), "-1");
  EXPECT_EQ(controller_->EnsureTopic("bad name").status.code(), ErrorCode::kInvalidTopic);
  Open("auto.create.topics.enable=false\n");
  EXPECT_EQ(controller_->EnsureTopic("other").status.code(), ErrorCode::kUnknownTopicOrPartition);
  EXPECT_OK(controller_->EnsureTopic("__consumer_offsets").status);
}

TEST_F(ControllerTest, PartitionsOnlyGrow) {
  const TopicPtr topic = Create("t", {}, 2);
  ASSERT_OK(Bump("t", 0, 6));
  EXPECT_EQ(controller_->CreatePartitions(topic->id, 2, false).code(),
            ErrorCode::kInvalidPartitions);
  EXPECT_EQ(controller_->CreatePartitions(Id(5), 3, false).code(), ErrorCode::kUnknownTopicId);
  EXPECT_OK(controller_->CreatePartitions(topic->id, 3, true));
  EXPECT_EQ(Topic("t")->partition_count(), 2);
  EXPECT_OK(controller_->CreatePartitions(topic->id, 3, false));
  EXPECT_EQ(Topic("t")->partition_count(), 3);
  EXPECT_EQ(EpochOf("t", 0), 7);
  EXPECT_EQ(EpochOf("t", 2), 0);
}

TEST_F(ControllerTest, ClientsDoNotChangeATopicThatAMirrorOwns) {
  MakeMirror("m");
  const Uuid id = Create("t", {{"mirror.name", "m"}})->id;
  EXPECT_EQ(controller_->DeleteTopic(id).code(), ErrorCode::kMirrorTopicNotStopped);
  EXPECT_EQ(controller_->CreatePartitions(id, 9, false).code(), ErrorCode::kMirrorTopicNotStopped);
  EXPECT_OK(controller_->CreatePartitions(id, 9, false, Controller::Origin::kMirror));
  ASSERT_OK(SetName("t", "m.paused"));
  EXPECT_EQ(controller_->DeleteTopic(id).code(), ErrorCode::kMirrorTopicNotStopped);
  ASSERT_OK(SetName("t", "m.removed"));
  EXPECT_OK(controller_->CreatePartitions(id, 10, false));
  EXPECT_OK(controller_->DeleteTopic(id));
  EXPECT_EQ(Topic("t"), nullptr);
}

TEST_F(ControllerTest, TheStateTopicIsTheLibrarysOwn) {
  EXPECT_EQ(controller_->CreateTopic({"__mirror_state", {}, 3}).status.code(),
            ErrorCode::kInvalidRequest);
  const Uuid id = controller_->EnsureTopic("__mirror_state").topic->id;
  EXPECT_EQ(controller_->DeleteTopic(id).code(), ErrorCode::kInvalidRequest);
  EXPECT_EQ(controller_->CreatePartitions(id, 60, false).code(), ErrorCode::kInvalidRequest);
}

// --- Configs

TEST_F(ControllerTest, MirrorNameIsNotForOrdinaryRequests) {
  MakeMirror("m");
  Create("t", {{"mirror.name", "m"}});
  for (const ConfigOp op :
       {ConfigOp::kSet, ConfigOp::kDelete, ConfigOp::kAppend, ConfigOp::kSubtract}) {
    const ConfigChange change{"mirror.name", op, "other"};
    EXPECT_EQ(controller_->AlterTopicConfigs("t", std::span(&change, 1), false).code(),
              ErrorCode::kInvalidConfig);
    EXPECT_EQ(controller_->AlterTopicConfigs("t", std::span(&change, 1), true).code(),
              ErrorCode::kInvalidConfig);
  }
  EXPECT_EQ(controller_->ReplaceTopicConfigs("t", {{"mirror.name", "m"}}, false).code(),
            ErrorCode::kInvalidConfig);
  // A replacement of all other configs leaves it.
  EXPECT_OK(controller_->ReplaceTopicConfigs("t", {{"retention.ms", "9"}}, false));
  EXPECT_EQ(Topic("t")->configs, (ConfigMap{{"mirror.name", "m"}, {"retention.ms", "9"}}));
  const ConfigChange other{"retention.ms", ConfigOp::kSet, "8"};
  EXPECT_OK(controller_->AlterTopicConfigs("t", std::span(&other, 1), false));
  EXPECT_EQ(MirrorNameOf("t"), "m");
}

TEST_F(ControllerTest, OneBadConfigRefusesAllOfThem) {
  Create("t");
  const ConfigChange changes[] = {{"retention.ms", ConfigOp::kSet, "8"},
                                  {"segment.ms", ConfigOp::kSet, "0"}};
  EXPECT_EQ(controller_->AlterTopicConfigs("t", changes, false).code(), ErrorCode::kInvalidConfig);
  EXPECT_TRUE(Topic("t")->configs.empty());
  EXPECT_EQ(controller_->AlterTopicConfigs("none", changes, false).code(),
            ErrorCode::kUnknownTopicOrPartition);
}

TEST_F(ControllerTest, OnlyDynamicBrokerConfigsChange) {
  const ConfigChange fixed{"num.partitions", ConfigOp::kSet, "8"};
  EXPECT_EQ(controller_->AlterBrokerConfigs(1, std::span(&fixed, 1), false).code(),
            ErrorCode::kInvalidRequest);
  const ConfigChange bad{"mirror.replication.throttled.rate", ConfigOp::kSet, "-8"};
  EXPECT_EQ(controller_->AlterBrokerConfigs(1, std::span(&bad, 1), false).code(),
            ErrorCode::kInvalidConfig);
  const ConfigChange all{"mirror.replication.throttled.rate", ConfigOp::kSet, "8"};
  const ConfigChange own{"mirror.replication.throttled.rate", ConfigOp::kSet, "9"};
  ASSERT_OK(controller_->AlterBrokerConfigs(-1, std::span(&all, 1), false));
  EXPECT_EQ(controller_->image()->DynamicConfigs(1).at("mirror.replication.throttled.rate"), "8");
  ASSERT_OK(controller_->AlterBrokerConfigs(1, std::span(&own, 1), false));
  EXPECT_EQ(controller_->image()->DynamicConfigs(1).at("mirror.replication.throttled.rate"), "9");
  const ConfigChange gone{"mirror.replication.throttled.rate", ConfigOp::kDelete, {}};
  ASSERT_OK(controller_->AlterBrokerConfigs(1, std::span(&gone, 1), false));
  EXPECT_EQ(controller_->image()->DynamicConfigs(1).at("mirror.replication.throttled.rate"), "8");
  EXPECT_EQ(controller_->AlterBrokerConfigs(5, std::span(&own, 1), false).code(),
            ErrorCode::kInvalidRequest);
}

// --- Mirrors

TEST_F(ControllerTest, MirrorsAreMadeOnceWithGoodNamesAndConfigs) {
  MakeMirror("m");
  EXPECT_EQ(controller_->SetMirrorConfigs("m", {{"bootstrap.servers", "a:1"}}, true).code(),
            ErrorCode::kClusterMirrorAlreadyExists);
  EXPECT_EQ(controller_->SetMirrorConfigs("x.paused", {{"bootstrap.servers", "a:1"}}, true).code(),
            ErrorCode::kInvalidRequest);
  EXPECT_EQ(controller_->SetMirrorConfigs("y", {{"topics.include", "a"}}, true).code(),
            ErrorCode::kInvalidConfig);
  EXPECT_EQ(controller_->SetMirrorConfigs("y", {{"bootstrap.servers", "a:1"}}, false).code(),
            ErrorCode::kUnknownClusterMirror);
  ASSERT_OK(controller_->SetMirrorConfigs(
      "m", {{"mirror.topics.include", "a"}, {"source.cluster.id", "A"}}, false));
  EXPECT_EQ(controller_->image()->mirrors.at("m"), (ConfigMap{{"bootstrap.servers", "a:1"},
                                                              {"topics.include", "a"},
                                                              {"source.cluster.id", "A"}}));
  ASSERT_OK(controller_->SetMirrorConfigs("m", {{"topics.include", std::nullopt}}, false));
  EXPECT_FALSE(controller_->image()->mirrors.at("m").contains("topics.include"));
  EXPECT_EQ(controller_->SetMirrorConfigs("m", {{"bootstrap.servers", std::nullopt}}, false).code(),
            ErrorCode::kInvalidConfig);
  EXPECT_EQ(controller_->SetMirrorConfigs("m", {{"source.cluster.id", "B"}}, false).code(),
            ErrorCode::kInvalidConfig);
}

TEST_F(ControllerTest, MirrorConfigsChangeByOrdinaryRequestsInEitherSpelling) {
  MakeMirror("m");
  const ConfigChange changes[] = {{"mirror.fetch.min.bytes", ConfigOp::kSet, "5"},
                                  {"topics.include", ConfigOp::kAppend, "a"}};
  ASSERT_OK(controller_->AlterMirrorConfigs("m", changes, false));
  EXPECT_EQ(controller_->image()->mirrors.at("m").at("fetch.min.bytes"), "5");
  EXPECT_EQ(controller_->image()->mirrors.at("m").at("topics.include"), "a");
  const ConfigChange bad{"no.such", ConfigOp::kSet, "5"};
  EXPECT_EQ(controller_->AlterMirrorConfigs("m", std::span(&bad, 1), false).code(),
            ErrorCode::kInvalidConfig);
  EXPECT_EQ(controller_->AlterMirrorConfigs("n", changes, false).code(),
            ErrorCode::kUnknownClusterMirror);
}

TEST_F(ControllerTest, MirrorNamesChangeTogetherOrNotAtAll) {
  MakeMirror("m");
  Create("a", {{"mirror.name", "m"}});
  Create("b", {{"mirror.name", "m"}});
  std::vector<MirrorNameSetting> both = {{Topic("a")->id, "m.paused"}, {Id(77), "m.paused"}};
  EXPECT_EQ(controller_->SetMirrorNames(both, -1).code(), ErrorCode::kUnknownTopicId);
  both[1] = {Topic("b")->id, "bad name"};
  EXPECT_EQ(controller_->SetMirrorNames(both, -1).code(), ErrorCode::kInvalidRequest);
  EXPECT_EQ(MirrorNameOf("a"), "m");
  const int64_t version = controller_->image()->version;
  both[1] = {Topic("b")->id, std::nullopt};
  EXPECT_OK(controller_->SetMirrorNames(both, -1));
  EXPECT_EQ(controller_->image()->version, version + 1);
  EXPECT_EQ(MirrorNameOf("a"), "m.paused");
  EXPECT_EQ(MirrorNameOf("b"), "");
}

TEST_F(ControllerTest, AStaleDecisionAboutMirrorNameIsRefused) {
  MakeMirror("m");
  Create("a", {{"mirror.name", "m"}});
  const int64_t seen = controller_->image()->version;
  // Other changes of the topic do not count.
  ASSERT_OK(Bump("a", 0, 5));
  EXPECT_OK(SetName("a", "m.paused", seen));
  EXPECT_EQ(SetName("a", "m", seen).code(), ErrorCode::kInvalidClusterMirrorState);
  EXPECT_EQ(controller_->DeleteMirror("m", seen).code(), ErrorCode::kInvalidClusterMirrorState);
  EXPECT_OK(SetName("a", "m", controller_->image()->version));
  // The same value again is no change.
  const int64_t version = controller_->image()->version;
  EXPECT_OK(SetName("a", "m"));
  EXPECT_EQ(controller_->image()->version, version);
}

TEST_F(ControllerTest, DeletingAMirrorFreesItsTopicsInTheSameStep) {
  MakeMirror("m");
  MakeMirror("n");
  Create("a", {{"mirror.name", "m"}});
  Create("b", {{"mirror.name", "m.removed"}});
  Create("c", {{"mirror.name", "n.removed"}});
  EXPECT_EQ(controller_->DeleteMirror("x", -1).code(), ErrorCode::kUnknownClusterMirror);
  ASSERT_OK(SetName("a", "m.removed"));
  const int64_t version = controller_->image()->version;
  EXPECT_OK(controller_->DeleteMirror("m", version));
  EXPECT_EQ(controller_->image()->version, version + 1);
  EXPECT_FALSE(controller_->image()->mirrors.contains("m"));
  EXPECT_EQ(MirrorNameOf("a"), "");
  EXPECT_EQ(MirrorNameOf("b"), "");
  EXPECT_EQ(MirrorNameOf("c"), "n.removed");
  Open();
  EXPECT_FALSE(controller_->image()->mirrors.contains("m"));
  EXPECT_EQ(MirrorNameOf("a"), "");
}

TEST_F(ControllerTest, AMirrorTopicIsCreatedWholeOrNotAtAll) {
  MakeMirror("m");
  store_.FailApplies(1, {ErrorCode::kKafkaStorageError, "disk"});
  EXPECT_EQ(
      controller_
          ->CreateTopic({"t", Id(1), 1, -1, {{"mirror.name", "m"}}}, Controller::Origin::kMirror)
          .status.code(),
      ErrorCode::kKafkaStorageError);
  EXPECT_EQ(Topic("t"), nullptr);
  EXPECT_OK(
      controller_
          ->CreateTopic({"t", Id(1), 1, -1, {{"mirror.name", "m"}}}, Controller::Origin::kMirror)
          .status);
  EXPECT_EQ(MirrorNameOf("t"), "m");
}

// --- Leader epochs (coordinator.md 3.5)

TEST_F(ControllerTest, ABumpGoesOneAboveTheMinimumAndNeverDown) {
  Create("t");
  ASSERT_OK(Bump("t", 0, 12));
  EXPECT_EQ(EpochOf("t", 0), 13);
  ASSERT_OK(Bump("t", 0, 23));
  EXPECT_EQ(EpochOf("t", 0), 24);
  const int64_t version = controller_->image()->version;
  ASSERT_OK(Bump("t", 0, 23));
  ASSERT_OK(Bump("t", 0, 5));
  EXPECT_EQ(EpochOf("t", 0), 24);
  EXPECT_EQ(controller_->image()->version, version);
  ASSERT_OK(Bump("t", 0, 24));
  EXPECT_EQ(EpochOf("t", 0), 25);
  EXPECT_EQ(EpochOf("t", 1), 0);
}

TEST_F(ControllerTest, ABumpOfSomethingUnknownChangesNothing) {
  Create("t");
  const std::vector<LeaderEpochBump> bumps = {{{Topic("t")->id, 0}, 12}, {{Id(7), 0}, 12}};
  EXPECT_EQ(controller_->BumpLeaderEpochs(bumps).code(), ErrorCode::kUnknownTopicId);
  EXPECT_EQ(Bump("t", 2, 1).code(), ErrorCode::kUnknownTopicOrPartition);
  EXPECT_EQ(Bump("t", -1, 1).code(), ErrorCode::kUnknownTopicOrPartition);
  EXPECT_EQ(Bump("t", 0, INT32_MAX).code(), ErrorCode::kInvalidRequest);
  EXPECT_EQ(EpochOf("t", 0), 0);
  EXPECT_OK(Bump("t", 0, INT32_MAX - 1));
  EXPECT_EQ(EpochOf("t", 0), INT32_MAX);
}

TEST_F(ControllerTest, BumpsOfOnePartitionInOneRequestAddUpToTheGreatest) {
  Create("t");
  const Uuid id = Topic("t")->id;
  const std::vector<LeaderEpochBump> bumps = {
      {{id, 0}, 12}, {{id, 0}, 30}, {{id, 0}, 3}, {{id, 1}, 0}};
  ASSERT_OK(controller_->BumpLeaderEpochs(bumps));
  EXPECT_EQ(EpochOf("t", 0), 31);
  EXPECT_EQ(EpochOf("t", 1), 1);
}

// --- Producer ids (R9)

TEST_F(ControllerTest, ProducerIdsComeFromTheClustersRangeAndNeverTwice) {
  const ProducerIdSpan range = ProducerIdRangeOf("cluster-a", 0);
  std::vector<ProducerIdRange> given;
  for (int i = 0; i < 30; ++i) {
    if (i % 10 == 9) Open();
    const auto ids = controller_->AllocateProducerIds(i % 3 == 0 ? 700 : 1);
    ASSERT_OK(ids.status());
    ASSERT_TRUE(range.Contains(ids->begin) && range.Contains(ids->end - 1));
    if (!given.empty()) ASSERT_GE(ids->begin, given.back().end);
    given.push_back(*ids);
  }
  EXPECT_EQ(controller_->AllocateProducerIds(0).status().code(), ErrorCode::kInvalidRequest);
}

TEST_F(ControllerTest, AFailedReservationGivesNothing) {
  store_.FailApplies(1, {ErrorCode::kKafkaStorageError, "disk"});
  EXPECT_EQ(controller_->AllocateProducerIds(5).status().code(), ErrorCode::kKafkaStorageError);
  const auto ids = controller_->AllocateProducerIds(5);
  ASSERT_OK(ids.status());
  Open();
  EXPECT_GE(controller_->AllocateProducerIds(1)->begin, ids->end);
}

TEST_F(ControllerTest, TheFloorRisesAboveAMirroredIdInTheRangeAlsoAfterAStart) {
  const ProducerIdSpan range = ProducerIdRangeOf("cluster-a", 0);
  const auto first = controller_->AllocateProducerIds(1);
  // Inside what is reserved: ids still in hand must not be given out.
  ASSERT_OK(controller_->RaiseProducerIdFloor(first->begin + 500));
  EXPECT_EQ(controller_->AllocateProducerIds(1)->begin, first->begin + 501);
  ASSERT_OK(controller_->RaiseProducerIdFloor(range.begin + 1000000));
  Open();
  EXPECT_EQ(controller_->AllocateProducerIds(1)->begin, range.begin + 1000001);
  // Lower, or somebody else's.
  const auto before = controller_->AllocateProducerIds(1);
  for (const int64_t id :
       {int64_t{-1}, int64_t{0}, range.begin - 1, range.begin, range.end, INT64_MAX}) {
    ASSERT_OK(controller_->RaiseProducerIdFloor(id));
    const auto next = controller_->AllocateProducerIds(1);
    EXPECT_LT(next->begin - before->begin, 100) << id;
  }
}

TEST_F(ControllerTest, TheGreatestIdOfTheRangeDoesNotExhaustTheAllocator) {
  for (int32_t generation = 0; generation < 5; ++generation) {
    const ProducerIdSpan range = ProducerIdRangeOf("cluster-a", generation);
    ASSERT_OK(controller_->RaiseProducerIdFloor(range.end - 1));
    const auto ids = controller_->AllocateProducerIds(10);
    ASSERT_OK(ids.status());
    EXPECT_FALSE(range.Contains(ids->begin));
    EXPECT_TRUE(ProducerIdRangeOf("cluster-a", generation + 1).Contains(ids->begin));
    Open();
  }
}

TEST(ProducerIdRange, LiesInsideInt63AndOutsideOfKafkasIds) {
  for (const char* cluster : {"", "a", "b", "MkU3OEVBNTcwNTJENDM2Qk", "4L6g3nShT-eMCtK--X86sw"}) {
    for (const int32_t generation : {0, 1, 2, 1000000, INT32_MAX}) {
      const ProducerIdSpan range = ProducerIdRangeOf(cluster, generation);
      EXPECT_GE(range.begin, kProducerIdRangeSize) << cluster << generation;
      EXPECT_EQ(range.end - range.begin, kProducerIdRangeSize);
      EXPECT_LE(range.end, INT64_MAX - kProducerIdRangeSize + 1);
    }
  }
  EXPECT_NE(ProducerIdRangeOf("a", 0).begin, ProducerIdRangeOf("b", 0).begin);
  EXPECT_NE(ProducerIdRangeOf("a", 0).begin, ProducerIdRangeOf("a", 1).begin);
  // Never stored, so it must never move.
  EXPECT_EQ(ProducerIdRangeOf("4L6g3nShT-eMCtK--X86sw", 0).begin / kProducerIdRangeSize, 7134302);
}

// --- Listeners

TEST_F(ControllerTest, ListenersPrepareBeforeTheStoreAndApplyBeforeAnyoneSeesIt) {
  std::vector<std::string> log;
  Recorder first("first", &log);
  Recorder second("second", &log);
  ASSERT_OK(controller_->AddListenerNow(&first));
  ASSERT_OK(controller_->AddListenerNow(&second));
  log.clear();
  second.on_apply = [&](const ImageDelta& delta) {
    EXPECT_EQ(delta.topics.size(), 1u);
    EXPECT_EQ(Topic("t"), nullptr) << "visible before it is applied";
    EXPECT_TRUE(store_.Get("topic/t")->has_value()) << "applied before it is durable";
  };
  Create("t");
  EXPECT_EQ(log, (std::vector<std::string>{"first prepare", "second prepare", "first apply",
                                           "second apply", "first published", "second published"}));
  controller_->RemoveListener(&first);
  controller_->RemoveListener(&second);
}

TEST_F(ControllerTest, ARefusalOrAFullDiskUndoesWhatWasPrepared) {
  std::vector<std::string> log;
  Recorder first("first", &log);
  Recorder second("second", &log);
  Recorder third("third", &log);
  for (Recorder* recorder : {&first, &second, &third})
    ASSERT_OK(controller_->AddListenerNow(recorder));
  log.clear();
  second.refuse = {ErrorCode::kNoSpace, "full"};
  EXPECT_EQ(controller_->CreateTopic({"t"}).status.code(), ErrorCode::kKafkaStorageError);
  EXPECT_EQ(log, (std::vector<std::string>{"first prepare", "second prepare", "second undo",
                                           "first undo"}));
  EXPECT_FALSE(store_.Get("topic/t")->has_value());
  log.clear();
  second.refuse = {};
  store_.FailApplies(1, {ErrorCode::kKafkaStorageError, "disk"});
  EXPECT_EQ(controller_->CreateTopic({"t"}).status.code(), ErrorCode::kKafkaStorageError);
  EXPECT_EQ(log, (std::vector<std::string>{"first prepare", "second prepare", "third prepare",
                                           "third undo", "second undo", "first undo"}));
  EXPECT_EQ(Topic("t"), nullptr);
  EXPECT_OK(controller_->CreateTopic({"t"}).status);
  for (Recorder* recorder : {&first, &second, &third}) controller_->RemoveListener(recorder);
}

TEST_F(ControllerTest, OldImagesStayAsTheyWere) {
  Create("t");
  const ImagePtr before = controller_->image();
  ASSERT_OK(Bump("t", 0, 3));
  Create("u");
  EXPECT_EQ(before->topics.Find("t")->partitions[0].leader_epoch, 0);
  EXPECT_EQ(before->topics.Find("u"), nullptr);
  EXPECT_EQ(before->topics.size(), 1u);
  EXPECT_EQ(controller_->image()->topics.Sorted().size(), 2u);
}

TEST_F(ControllerTest, FeaturesHaveTwoLevels) {
  EXPECT_EQ(controller_->UpdateFeature("mirror.version", 2, false).code(),
            ErrorCode::kInvalidUpdateVersion);
  EXPECT_EQ(controller_->UpdateFeature("metadata.version", 1, false).code(),
            ErrorCode::kInvalidUpdateVersion);
  EXPECT_OK(controller_->UpdateFeature("mirror.version", 0, true));
  EXPECT_EQ(controller_->image()->mirror_feature, 1);
  EXPECT_OK(controller_->UpdateFeature("mirror.version", 0, false));
  EXPECT_EQ(controller_->image()->mirror_feature, 0);
  // Producer ids share the record.
  ASSERT_OK(controller_->AllocateProducerIds(1).status());
  Open();
  EXPECT_EQ(controller_->image()->mirror_feature, 0);
}

TEST(MirrorLink, IsTakenApartAtItsSuffix) {
  EXPECT_EQ(ParseMirrorLink("").desired, DesiredState::kNone);
  EXPECT_EQ(ParseMirrorLink("m").mirror, "m");
  EXPECT_EQ(ParseMirrorLink("m").desired, DesiredState::kMirroring);
  EXPECT_EQ(ParseMirrorLink("a.b.paused").mirror, "a.b");
  EXPECT_EQ(ParseMirrorLink("a.b.paused").desired, DesiredState::kPaused);
  EXPECT_EQ(ParseMirrorLink("m.removed").mirror, "m");
  EXPECT_EQ(ParseMirrorLink("m.removed").desired, DesiredState::kStopped);
}

TEST(MetadataRecords, RefuseEveryTruncationAndTrailingByte) {
  TopicImage topic;
  topic.name = "t";
  topic.id = Id(1);
  topic.partitions = {{1, 2}, {1, 3}};
  topic.configs = {{"a", "b"}, {"c", ""}};
  const std::string value = EncodeTopic(topic);
  for (size_t size = 0; size < value.size(); ++size)
    EXPECT_FALSE(DecodeTopic("t", value.substr(0, size))) << size;
  EXPECT_FALSE(DecodeTopic("t", value + "x"));
  const auto decoded = DecodeTopic("t", value);
  ASSERT_TRUE(decoded);
  EXPECT_EQ(decoded->partitions, topic.partitions);
  EXPECT_EQ(decoded->configs, topic.configs);
  const ClusterRecord cluster{"id", 1, 7, 1234567890123};
  const std::string record = EncodeCluster(cluster);
  EXPECT_EQ(DecodeCluster(record), cluster);
  for (size_t size = 0; size < record.size(); ++size)
    EXPECT_FALSE(DecodeCluster(record.substr(0, size)));
}

}  // namespace
}  // namespace kmirror::broker
