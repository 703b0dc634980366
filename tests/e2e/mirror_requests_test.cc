// What an operator and clients ask of a mirror topic, state by state (scenarios S37, S44, S96,
// S106).
#include <gtest/gtest.h>

#include <functional>
#include <map>

#include "messages/create_partitions.h"
#include "messages/delete_records.h"
#include "messages/delete_topics.h"
#include "tests/e2e/mirror_fixture.h"

namespace kmirror::test {
namespace {

class MirrorRequests : public MirrorFixture {
 protected:
  void SetUp() override { UseSharedSource(); }

  // The three requests for `topic` and, in the same request, for a plain topic of our own, made
  // anew. Error codes of `topic` by request; those of the plain topic must be none.
  std::map<std::string, int16_t> Change(const std::string& topic) {
    std::map<std::string, int16_t> codes;
    auto ours = AdminClient::Connect(standby_->bootstrap());
    EXPECT_OK(ours.status());
    const std::string plain = UniqueName("plain");
    EXPECT_OK(ours->CreateTopic(plain));
    auto client = WireClient::Connect(standby_->bootstrap());
    EXPECT_OK(client.status());
    protocol::CreatePartitionsRequest grow;
    grow.timeout_ms = 10000;
    protocol::DeleteRecordsRequest cut;
    cut.timeout_ms = 10000;
    protocol::DeleteTopicsRequest remove;
    remove.timeout_ms = 10000;
    for (const std::string& name : {topic, plain}) {
      auto& grown = grow.topics.emplace_back();
      grown.name = name;
      grown.count = 2;
      grown.assignments.reset();
      auto& trimmed = cut.topics.emplace_back();
      trimmed.name = name;
      trimmed.partitions.push_back({0, -1});
      remove.topics.emplace_back().name = name;
    }
    const auto cuts = client->Call<protocol::DeleteRecordsResponse>(cut, 2);
    EXPECT_OK(cuts.status());
    for (const auto& t : cuts->topics) {
      if (t.name == topic) codes["DeleteRecords"] = t.partitions.at(0).error_code;
      if (t.name == plain) EXPECT_EQ(t.partitions.at(0).error_code, 0);
    }
    const auto grown = client->Call<protocol::CreatePartitionsResponse>(grow, 3);
    EXPECT_OK(grown.status());
    for (const auto& t : grown->results) {
      if (t.name == topic) codes["CreatePartitions"] = t.error_code;
      if (t.name == plain) EXPECT_EQ(t.error_code, 0) << t.error_message.value_or("");
      if (t.error_code != 0) {
        EXPECT_TRUE(t.error_message.value_or("").starts_with("MIRROR_TOPIC_NOT_STOPPED:"));
      }
    }
    // A partition that was added to a stopped topic has to be told apart from one whose stop is
    // under way: it comes to STOPPED at once.
    if (codes["CreatePartitions"] == 0) EXPECT_OK(standby_->AwaitState(topic, "STOPPED", 1));
    const auto removed = client->Call<protocol::DeleteTopicsResponse>(remove, 6);
    EXPECT_OK(removed.status());
    for (const auto& t : removed->responses) {
      if (t.name == topic) codes["DeleteTopics"] = t.error_code;
      if (t.name == plain) EXPECT_EQ(t.error_code, 0);
    }
    return codes;
  }
  static std::map<std::string, int16_t> All(int16_t code) {
    return {{"CreatePartitions", code}, {"DeleteRecords", code}, {"DeleteTopics", code}};
  }
};

TEST_F(MirrorRequests, S37AMirrorTopicIsChangedByClientsOnlyAfterItsStop) {
  const std::string topic = UniqueName("s37"), other = UniqueName("s37-other");
  ASSERT_OK(admin_->CreateTopic(topic));
  ASSERT_OK(admin_->CreateTopic(other));
  Send(topic, Numbered(5));
  Mirror({topic, other});
  ASSERT_OK(standby_->AwaitCaughtUp(topic, 5));
  EXPECT_EQ(Change(topic), All(42)) << "MIRRORING";
  ASSERT_OK(standby_->Run({"pause", "m", "--topics", topic, "--wait", "30"}));
  EXPECT_EQ(Change(topic), All(42)) << "PAUSED";
  ASSERT_OK(standby_->Run({"resume", "m", "--topics", topic, "--wait", "30"}));
  ASSERT_OK(admin_->DeleteTopic(topic));
  ASSERT_OK(standby_->AwaitState(topic, "FAILED"));
  EXPECT_EQ(Change(topic), All(42)) << "FAILED";
  EXPECT_EQ(FetchOffsets(standby_->bootstrap(), topic, 0)->high_watermark, 5);
  EXPECT_EQ(FetchOffsets(standby_->bootstrap(), topic, 0)->start, 0);
  ASSERT_OK(standby_->Run({"stop", "m", "--topics", topic, "--wait", "30"}));
  EXPECT_EQ(Change(topic), All(0)) << "STOPPED";
}

TEST_F(MirrorRequests, S44NothingHappensWhilePausedAndAStopFromThereTakesNothingMore) {
  const std::string topic = UniqueName("s44"), taken = UniqueName("s44-stop");
  ASSERT_OK(admin_->CreateTopic(topic));
  ASSERT_OK(admin_->CreateTopic(taken));
  Send(topic, Numbered(5));
  Send(taken, Numbered(5));
  Mirror({topic, taken});
  ASSERT_OK(standby_->AwaitCaughtUp(topic, 5));
  ASSERT_OK(standby_->AwaitCaughtUp(taken, 5));
  ASSERT_OK(standby_->Run({"pause", "m", "--all", "--wait", "30"}));
  Send(topic, Numbered(5, 5));
  Send(taken, Numbered(5, 5));
  ASSERT_OK(standby_->Stop());
  ASSERT_OK(standby_->Restart());
  ASSERT_OK(standby_->AwaitState(topic, "PAUSED"));
  ASSERT_OK(standby_->AwaitRefreshes(3));
  for (const std::string& t : {topic, taken}) {
    EXPECT_EQ(standby_->Row(t)->state, "PAUSED");
    EXPECT_EQ(FetchOffsets(standby_->bootstrap(), t, 0)->high_watermark, 5) << t;
  }
  // No fetch at all since the restart: the counter is not even there, or zero.
  const std::string fetches = "kmirror_fetch_requests_total{mirror=\"m\"}";
  EXPECT_EQ(standby_->Metric(fetches).value_or(0), 0);
  ASSERT_OK(standby_->Run({"resume", "m", "--topics", topic, "--wait", "30"}));
  ExpectBytesEqual(topic);
  EXPECT_GT(standby_->Metric(fetches).value_or(0), 0);
  // Exactly what was missing came, nothing below it a second time.
  EXPECT_EQ(standby_->Metric("kmirror_fetch_records_total{mirror=\"m\"}").value_or(-1), 5);
  ASSERT_OK(standby_->Run({"stop", "m", "--topics", taken, "--wait", "30"}));
  const auto ours = OurBatches(taken);
  const auto tail = From(ours, 5);
  ASSERT_EQ(tail.size(), 1u) << "one reset, and none of the records the source got meanwhile";
  EXPECT_EQ(tail[0].ControlType(), 7);
  std::vector<std::string> states = standby_->States(taken);
  ASSERT_GE(states.size(), 3u);
  EXPECT_EQ(std::vector<std::string>(states.end() - 3, states.end()),
            (std::vector<std::string>{"PAUSED", "STOPPING", "STOPPED"}));
}

// A failed-over topic with local records is mirrored again: PREPARING cuts it. Clients that look
// offsets up then are answered at once (S106).
TEST_F(MirrorRequests, S106LookUpsAfterATruncationAnswerAtOnce) {
  const std::string topic = UniqueName("s106"), empty = UniqueName("s106-empty");
  ASSERT_OK(admin_->CreateTopic(topic));
  ASSERT_OK(admin_->CreateTopic(empty));
  Send(topic, Numbered(10));
  Mirror({topic, empty});
  ASSERT_OK(standby_->AwaitCaughtUp(topic, 10));
  ASSERT_OK(standby_->Run({"stop", "m", "--all", "--wait", "30"}));
  auto local = Producer::Connect(standby_->bootstrap());
  ASSERT_OK(local.status());
  ASSERT_OK(local->SendNumbered(topic, 0, 2).status());
  ASSERT_OK(local->SendNumbered(empty, 0, 13).status());
  EXPECT_EQ(FetchOffsets(standby_->bootstrap(), topic, 0)->high_watermark, 13);
  EXPECT_EQ(FetchOffsets(standby_->bootstrap(), empty, 0)->high_watermark, 14)
      << "a reset, 13 more";
  ASSERT_OK(standby_->Run({"start", "m", "--all", "--wait", "60"}, Seconds(90)));
  auto client = WireClient::Connect(standby_->bootstrap());
  ASSERT_OK(client.status());
  for (const auto& [name, end] : std::map<std::string, int64_t>{{topic, 10}, {empty, 0}}) {
    SCOPED_TRACE(name);
    EXPECT_EQ(ListOffset(*client, name, 0, -1)->error, 0);
    EXPECT_EQ(ListOffset(*client, name, 0, -1)->offset, end);
    EXPECT_EQ(ListOffset(*client, name, 0, -2)->error, 0);
    EXPECT_EQ(ListOffset(*client, name, 0, -2)->offset, 0);
    const auto by_time = ListOffset(*client, name, 0, 1000);
    ASSERT_OK(by_time.status());
    EXPECT_EQ(by_time->error, 0);
    EXPECT_EQ(by_time->offset, end == 0 ? -1 : 0);
    EXPECT_EQ(FetchOffsets(standby_->bootstrap(), name, 0)->high_watermark, end);
  }
  Send(topic, Numbered(3, 10));
  Send(empty, Numbered(3));
  ExpectBytesEqual(topic);
  ExpectBytesEqual(empty);
}

}  // namespace
}  // namespace kmirror::test
