#include "broker/mirror_host/host_state_topic.h"

#include <gtest/gtest.h>

#include <future>

#include "broker/mirror_host/broker_host.h"
#include "src/net/epoll_runtime.h"
#include "tests/mirror_host/broker_node.h"
#include "tests/support/assert_ok.h"

namespace kmirror::broker {
namespace {

std::vector<uint8_t> Bytes(std::string_view text) { return {text.begin(), text.end()}; }

class HostStateTopicTest : public ::testing::Test {
 protected:
  void SetUp() override { Start(); }
  void Start() {
    ASSERT_OK(node_.Start());
    host_ =
        std::make_unique<BrokerHost>(node_.controller(), node_.logs(), node_.config(), runtime_);
  }
  void KillAndStart() {
    host_.reset();
    node_.Kill();
    Start();
  }
  host::StateTopic& states() { return *host_->AsHost().state_topic; }

  Status Wait(const std::function<void(host::Completion)>& call) {
    std::promise<Status> answer;
    call([&](Status s) { answer.set_value(std::move(s)); });
    return answer.get_future().get();
  }
  Status Ensure() {
    return Wait([&](host::Completion done) { states().Ensure(std::move(done)); });
  }
  Status Append(int32_t shard, std::vector<host::StateRecord> records) {
    return Wait([&](host::Completion done) {
      states().Append(shard, std::move(records), std::move(done));
    });
  }
  std::vector<std::string> Replay(int32_t shard, ErrorCode expected = ErrorCode::kNone) {
    std::vector<std::string> read;
    const Status s = Wait([&](host::Completion done) {
      states().Replay(
          shard,
          [&](ByteView key, std::optional<ByteView> value) {
            read.push_back(std::string(key.begin(), key.end()) + "=" +
                           (value ? std::string(value->begin(), value->end()) : "(gone)"));
          },
          std::move(done));
    });
    EXPECT_EQ(s.code(), expected) << s.ToString();
    return read;
  }

  net::EpollRuntime runtime_{nullptr};
  BrokerNode node_{"mirror.state.topic.num.partitions=3\n"};
  std::unique_ptr<BrokerHost> host_;
};

TEST_F(HostStateTopicTest, TheTopicIsMadeOnceCompactedAndNeverRetired) {
  EXPECT_EQ(states().partition_count(), 3);
  ASSERT_OK(Ensure());
  ASSERT_OK(Ensure());
  const TopicPtr topic = node_.controller().image()->topics.Find(kMirrorStateTopic);
  ASSERT_NE(topic, nullptr);
  EXPECT_EQ(topic->partition_count(), 3);
  EXPECT_EQ(topic->configs.at("cleanup.policy"), "compact");
  EXPECT_EQ(topic->configs.at("retention.ms"), "-1");
  EXPECT_EQ(states().partition_count(), 3);
}

TEST_F(HostStateTopicTest, WithoutTheTopicNothingIsLedAndNothingReadsAsEmpty) {
  EXPECT_EQ(Append(0, {{Bytes("k"), Bytes("v")}}).code(), ErrorCode::kNotCoordinator);
  EXPECT_TRUE(Replay(0, ErrorCode::kNotCoordinator).empty());
  ASSERT_OK(Ensure());
  EXPECT_EQ(Append(3, {{Bytes("k"), Bytes("v")}}).code(), ErrorCode::kNotCoordinator);
  EXPECT_TRUE(Replay(0).empty());
}

TEST_F(HostStateTopicTest, ReplayEqualsWhatWasAppendedAlsoAfterAKill) {
  ASSERT_OK(Ensure());
  std::map<int32_t, std::vector<std::string>> expected;
  for (int i = 0; i < 60; ++i) {
    const int32_t shard = i % 3;
    const std::string key = "key" + std::to_string(i % 7);
    std::vector<host::StateRecord> records;
    if (i % 5 == 0) {
      records.push_back({Bytes(key), std::nullopt});
      expected[shard].push_back(key + "=(gone)");
    }
    const std::string value(static_cast<size_t>(i) * 100, 'v');
    records.push_back({Bytes(key), Bytes(value)});
    expected[shard].push_back(key + "=" + value);
    ASSERT_OK(Append(shard, std::move(records)));
    if (i % 20 == 19) {
      for (int32_t s = 0; s < 3; ++s) EXPECT_EQ(Replay(s), expected[s]);
      KillAndStart();
    }
  }
  for (int32_t s = 0; s < 3; ++s) EXPECT_EQ(Replay(s), expected[s]);
}

TEST_F(HostStateTopicTest, AppendsThatWaitTogetherKeepTheirOrderAndAreEachAnswered) {
  ASSERT_OK(Ensure());
  constexpr int kAppends = 300;
  std::mutex mutex;
  std::vector<std::string> expected[3];
  int answered = 0;
  std::promise<void> all;
  for (int i = 0; i < kAppends; ++i) {
    expected[i % 3].push_back("k=" + std::to_string(i));
    states().Append(i % 3, {{Bytes("k"), Bytes(std::to_string(i))}}, [&](Status s) {
      EXPECT_OK(s);
      std::lock_guard lock(mutex);
      if (++answered == kAppends) all.set_value();
    });
  }
  all.get_future().wait();
  for (int32_t shard = 0; shard < 3; ++shard) EXPECT_EQ(Replay(shard), expected[shard]);
}

TEST_F(HostStateTopicTest, OneBadShardDoesNotFailTheOthersOfItsGroup) {
  ASSERT_OK(Ensure());
  std::promise<Status> good;
  std::promise<Status> bad;
  states().Append(9, {{Bytes("k"), Bytes("v")}}, [&](Status s) { bad.set_value(std::move(s)); });
  states().Append(1, {{Bytes("k"), Bytes("v")}}, [&](Status s) { good.set_value(std::move(s)); });
  EXPECT_EQ(bad.get_future().get().code(), ErrorCode::kNotCoordinator);
  EXPECT_OK(good.get_future().get());
}

TEST_F(HostStateTopicTest, AnAnsweredAppendIsSyncedNotInThePageCacheAlone) {
  ASSERT_OK(Ensure());
  ASSERT_OK(Append(2, {{Bytes("k"), Bytes("v")}}));
  PartitionLog& log = node_.logs().Find(kMirrorStateTopic, 2)->log();
  EXPECT_EQ(log.RecoveryPoint(), log.Positions().log_end);
}

}  // namespace
}  // namespace kmirror::broker
