#include "broker/mirror_host/mirror_host.h"

#include <gtest/gtest.h>

#include "broker/mirror_host/broker_host.h"
#include "conformance/host_conformance.h"
#include "src/net/epoll_runtime.h"
#include "tests/mirror_host/broker_node.h"
#include "tests/support/assert_ok.h"
#include "tests/support/wait_until.h"

namespace kmirror::broker {
namespace {

constexpr char kFewShards[] = "mirror.state.topic.num.partitions=3\n";

TEST(MirrorHost, StartsAndStopsTheLibraryAndIsGoneAfterwards) {
  BrokerNode node(kFewShards);
  ASSERT_OK(node.Start());
  MirrorHost host(node.controller(), node.logs(), node.config());
  EXPECT_EQ(host.mirror(), nullptr);
  ASSERT_OK(host.Start());
  ASSERT_NE(host.mirror(), nullptr);
  // Changes reach it while it runs, and do nothing after it.
  ASSERT_OK(node.controller().CreateTopic({"t"}).status);
  host.Stop();
  EXPECT_EQ(host.mirror(), nullptr);
  host.Stop();
  ASSERT_OK(node.controller().CreateTopic({"u"}).status);
}

TEST(BrokerHost, TellsTheSnapshotThenEveryChangeOnceInOrder) {
  BrokerNode node(kFewShards);
  ASSERT_OK(node.Start());
  Controller& controller = node.controller();
  ASSERT_OK(controller.SetMirrorConfigs("m", {{"bootstrap.servers", "a:1"}}, true));
  ASSERT_OK(controller.CreateTopic({"before", {}, 2}).status);
  ASSERT_OK(controller.EnsureTopic(kMirrorStateTopic).status);
  net::EpollRuntime runtime(nullptr);
  conformance::RecordingMirror mirror;
  BrokerHost host(controller, node.logs(), node.config(), runtime);
  ASSERT_OK(host.Attach(&mirror));
  EXPECT_EQ(mirror.this_broker(), 1);
  ASSERT_TRUE(mirror.TopicNamed("before"));
  EXPECT_EQ(mirror.TopicNamed("before")->partitions.size(), 2u);
  ASSERT_TRUE(mirror.MirrorNamed("m"));
  EXPECT_EQ(mirror.shards(), (std::set<int32_t>{0, 1, 2}));
  EXPECT_EQ(mirror.version(), controller.image()->version);

  // Ids of producers and configs of brokers concern nobody else.
  ASSERT_OK(controller.AllocateProducerIds(5000).status());
  const ConfigChange rate{"mirror.replication.throttled.rate", ConfigOp::kSet, "7"};
  ASSERT_OK(controller.AlterBrokerConfigs(1, std::span(&rate, 1), false));
  EXPECT_EQ(mirror.deltas(), 0u);

  ASSERT_OK(controller.CreateTopic({"t"}).status);
  ASSERT_OK(controller.UpdateFeature("mirror.version", 0, false));
  EXPECT_EQ(mirror.last_delta().mirror_version, 0);
  ASSERT_OK(controller.DeleteTopic(controller.image()->topics.Find("t")->id));
  EXPECT_FALSE(mirror.TopicNamed("t"));
  ASSERT_OK(controller.DeleteMirror("m", -1));
  EXPECT_FALSE(mirror.MirrorNamed("m"));
  EXPECT_EQ(mirror.deltas(), 4u);
  EXPECT_EQ(mirror.version(), controller.image()->version);
  EXPECT_TRUE(mirror.faults().empty());

  host.Detach();
  ASSERT_OK(controller.CreateTopic({"later"}).status);
  EXPECT_EQ(mirror.deltas(), 4u);
}

TEST(BrokerHost, BumpsThatWaitTogetherAreAnsweredEachByItself) {
  BrokerNode node(kFewShards);
  ASSERT_OK(node.Start());
  const Uuid id = node.controller().CreateTopic({"t", {}, 40}).topic->id;
  net::EpollRuntime runtime(nullptr);
  BrokerHost host(node.controller(), node.logs(), node.config(), runtime);
  std::mutex mutex;
  std::map<int32_t, ErrorCode> answers;
  for (int32_t p = 0; p < 41; ++p) {  // there is no partition 40
    host.AsHost().controller->BumpLeaderEpochs({{{id, p}, p}}, [&, p](Status s) {
      std::lock_guard lock(mutex);
      answers[p] = s.code();
    });
  }
  ASSERT_TRUE(test::WaitUntil([&] {
    std::lock_guard lock(mutex);
    return answers.size() == 41;
  }));
  const TopicPtr topic = node.controller().image()->topics.Find(id);
  for (int32_t p = 0; p < 40; ++p) {
    EXPECT_EQ(answers[p], ErrorCode::kNone);
    EXPECT_EQ(topic->partitions[static_cast<size_t>(p)].leader_epoch, p + 1);
  }
  EXPECT_EQ(answers[40], ErrorCode::kUnknownTopicOrPartition);
}

}  // namespace
}  // namespace kmirror::broker
