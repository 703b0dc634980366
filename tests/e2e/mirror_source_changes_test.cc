// A source that changes under the mirror: compacted, quiet, its topic deleted, made again, alien,
// or the whole cluster replaced (scenarios S34, S38, S99, S102, S104, S107, S108).
#include <gtest/gtest.h>

#include <set>

#include "tests/e2e/mirror_fixture.h"

namespace kmirror::test {
namespace {

class MirrorSourceChanges : public MirrorFixture {
 protected:
  void SetUp() override { UseSharedSource(); }

  void ExpectReadOnly(const std::string& topic) {
    Producer::Options quick;
    quick.more = {{"message.timeout.ms", "5000"}};
    auto producer = Producer::Connect(standby_->bootstrap(), quick);
    ASSERT_OK(producer.status());
    EXPECT_FALSE(producer->SendNumbered(topic, 0, 1).ok()) << topic;
  }
  void ExpectWritable(const std::string& topic) {
    auto producer = Producer::Connect(standby_->bootstrap());
    ASSERT_OK(producer.status());
    ASSERT_OK(producer->SendNumbered(topic, 0, 1).status());
  }
  // FAILED for good: no retry is due. The reason holds every one of `words`.
  void ExpectFailedForGood(const std::string& topic, const std::vector<std::string>& words) {
    ASSERT_OK(standby_->AwaitState(topic, "FAILED"));
    const auto row = standby_->Row(topic);
    ASSERT_OK(row.status());
    EXPECT_EQ(row->retry_attempt, -1);
    for (const std::string& word : words) {
      EXPECT_NE(row->error_message.find(word), std::string::npos) << row->error_message;
    }
  }
};

TEST_F(MirrorSourceChanges, S34GapsOfCompactionAreKept) {
  const std::string topic = UniqueName("s34");
  ASSERT_OK(admin_->CreateTopic(topic, 1,
                                {{"cleanup.policy", "compact"},
                                 {"segment.ms", "100"},
                                 {"min.cleanable.dirty.ratio", "0.01"},
                                 {"min.compaction.lag.ms", "0"},
                                 {"delete.retention.ms", "100"}}));
  Producer::Options batches;
  batches.batch_records_max = 25;
  for (int round = 0; round < 10; ++round) {
    std::vector<ClientRecord> records;
    for (int i = 0; i < 100; ++i) {
      records.push_back({"key" + std::to_string(i % 10),
                         "round " + std::to_string(round) + " " + std::to_string(i),
                         {}});
    }
    Send(topic, records, batches);
  }
  // The active segment is never cleaned: another record a little later makes the next one.
  int extra = 0;
  ASSERT_TRUE(WaitUntil(
      [&] {
        Send(topic, {{"key" + std::to_string(extra++ % 10), "more", {}}});
        auto read = ReadPartition(source_, topic, 0);
        return read.ok() && read->records.size() < 500;
      },
      Seconds(90)))
      << "the source's cleaner did not run";
  Mirror({topic});
  ExpectBytesEqual(topic);
  const auto theirs = ReadPartition(source_, topic, 0);
  const auto ours = ReadPartition(standby_->bootstrap(), topic, 0);
  ASSERT_OK(theirs.status());
  ASSERT_OK(ours.status());
  EXPECT_EQ(ours->records, theirs->records);
  EXPECT_EQ(ours->next_offset, theirs->next_offset);
  EXPECT_LT(static_cast<int64_t>(ours->records.size()), ours->next_offset) << "no gap was tested";
  std::set<std::string> keys;
  for (const ClientRecord& record : ours->records) keys.insert(record.key.value_or(""));
  EXPECT_EQ(keys.size(), 10u);
}

TEST_F(MirrorSourceChanges, S38AndS108ADeletedSourceTopicIsFailedForGoodAndCanBeTakenOver) {
  const std::string topic = UniqueName("s38"), other = UniqueName("s38-other");
  ASSERT_OK(admin_->CreateTopic(topic));
  ASSERT_OK(admin_->CreateTopic(other));
  Send(topic, Numbered(5));
  Mirror({topic, other});
  ASSERT_OK(standby_->AwaitCaughtUp(topic, 5));
  ASSERT_OK(admin_->DeleteTopic(topic));
  ExpectFailedForGood(topic, {"deleted"});
  const std::string reason = standby_->Row(topic)->error_message;
  ASSERT_OK(standby_->AwaitRefreshes(3));
  ASSERT_OK(standby_->Stop());
  ASSERT_OK(standby_->Restart());
  ASSERT_OK(standby_->AwaitRefreshes(3));
  ExpectFailedForGood(topic, {"deleted"});
  auto read = ReadPartition(standby_->bootstrap(), topic, 0);
  ASSERT_OK(read.status());
  EXPECT_EQ(read->records.size(), 5u);
  ExpectReadOnly(topic);
  Send(other, Numbered(3));
  ExpectBytesEqual(other);
  ASSERT_OK(standby_->Run({"stop", "m", "--topics", topic, "--wait", "30"}));
  EXPECT_EQ(OurBatches(topic).back().ControlType(), 7);
  ExpectWritable(topic);
  EXPECT_NE(standby_->Log().find("deleted"), std::string::npos) << "the reason stays in the log";
}

TEST_F(MirrorSourceChanges, S102ASourceTopicMadeAgainIsAnotherTopic) {
  const std::string topic = UniqueName("s102");
  ASSERT_OK(admin_->CreateTopic(topic));
  Send(topic, Numbered(5));
  Mirror({topic});
  ASSERT_OK(standby_->AwaitCaughtUp(topic, 5));
  ASSERT_OK(admin_->DeleteTopic(topic));
  Status made;
  ASSERT_TRUE(WaitUntil([&] {
    made = admin_->CreateTopic(topic);
    return made.ok();
  })) << made.ToString();
  Send(topic, Numbered(20, 700));
  ExpectFailedForGood(topic, {"id"});
  // Both ids: two words of 22 characters, as Kafka writes ids.
  const std::string reason = standby_->Row(topic)->error_message;
  size_t ids = 0, run = 0;
  for (const char c : reason + " ") {
    if (isalnum(static_cast<unsigned char>(c)) || c == '-' || c == '_') {
      ++run;
    } else {
      ids += run == 22 ? 1 : 0;
      run = 0;
    }
  }
  EXPECT_EQ(ids, 2u) << reason;
  ASSERT_OK(standby_->AwaitRefreshes(3));
  auto read = ReadPartition(standby_->bootstrap(), topic, 0);
  ASSERT_OK(read.status());
  ASSERT_EQ(read->records.size(), 5u) << "nothing of the new topic";
  EXPECT_EQ(read->records.back().value, "v4");
  ASSERT_OK(standby_->Run({"stop", "m", "--topics", topic, "--wait", "30"}));
  ExpectWritable(topic);
}

TEST_F(MirrorSourceChanges, S104ATopicOfOurOwnIsNeverTakenForAMirror) {
  const std::string topic = UniqueName("s104"), good = UniqueName("s104-good");
  ASSERT_OK(admin_->CreateTopic(topic));
  ASSERT_OK(admin_->CreateTopic(good));
  Send(topic, Numbered(7, 100));
  Send(good, Numbered(2));
  StartStandby();
  auto ours = AdminClient::Connect(standby_->bootstrap());
  ASSERT_OK(ours.status());
  ASSERT_OK(ours->CreateTopic(topic));
  auto local = Producer::Connect(standby_->bootstrap());
  ASSERT_OK(local.status());
  ASSERT_OK(local->SendNumbered(topic, 0, 3).status());
  const auto before = OurBatches(topic);
  Mirror({good});
  for (int i = 0; i < 10; ++i) {
    const RunResult refused = standby_->Cli({"start", "m", "--topics", topic});
    EXPECT_FALSE(refused.Success()) << refused.out;
    EXPECT_NE(refused.err.find(topic), std::string::npos) << refused.err;
    if (i % 4 != 3) continue;
    standby_->Kill();
    ASSERT_OK(standby_->Restart());
  }
  EXPECT_EQ(Difference(OurBatches(topic), before), "");
  ASSERT_OK(standby_->AwaitRefreshes(2));
  EXPECT_EQ(Difference(OurBatches(topic), before), "");
  ExpectWritable(topic);
  Send(good, Numbered(2, 2));
  ExpectBytesEqual(good);
}

TEST_F(MirrorSourceChanges, S99AQuietSourceIsShownAsSuchAlsoRightAfterARestart) {
  const std::string topic = UniqueName("s99");
  ASSERT_OK(admin_->CreateTopic(topic));
  Send(topic, Numbered(5));
  Mirror({topic});
  ASSERT_OK(standby_->AwaitCaughtUp(topic, 5));
  for (bool restarted : {false, true}) {
    if (restarted) {
      standby_->Kill();
      ASSERT_OK(standby_->Restart());
      ASSERT_OK(standby_->AwaitState(topic, "MIRRORING"));
    }
    ASSERT_OK(standby_->AwaitRefreshes(2));
    const auto row = standby_->Row(topic);
    ASSERT_OK(row.status());
    EXPECT_EQ(row->source_offset, 5);
    EXPECT_EQ(row->destination_offset, 5);
    EXPECT_EQ(row->lag, 0);
    EXPECT_GE(row->lag_age_ms, 0);
    // The knowledge is renewed although nothing happens: no older than some polls.
    EXPECT_LT(row->lag_age_ms, 60000);
  }
}

TEST_F(MirrorSourceChanges, S107NoRequestConjuresAMirror) {
  const std::string topic = UniqueName("s107");
  ASSERT_OK(admin_->CreateTopic(topic));
  StartStandby();
  for (const char* verb : {"start", "stop", "pause", "resume"}) {
    const RunResult refused = standby_->Cli({verb, "ghost", "--topics", topic});
    ASSERT_TRUE(refused.status.has_value());
    EXPECT_EQ(refused.status->code, 1) << verb;
    EXPECT_NE(refused.err.find("ghost"), std::string::npos) << refused.err;
  }
  auto altered = KafkaTool("configs", {"--bootstrap-server", standby_->bootstrap(), "--alter",
                                       "--entity-type", "cluster-mirrors", "--entity-name", "ghost",
                                       "--add-config", "fetch.min.bytes=2"});
  EXPECT_FALSE(altered.ok()) << *altered;
  const RunResult list = standby_->Cli({"list"});
  EXPECT_EQ(list.out.find("ghost"), std::string::npos) << list.out;
  ASSERT_OK(standby_->Run({"create", "ghost", "--source", source_}));
  auto rows = standby_->Describe("ghost");
  ASSERT_OK(rows.status());
  EXPECT_TRUE(rows->empty());
}

// The source is a kmirrord here: another cluster answers at its address.
TEST(MirrorReplacedSource, S108AReplacedSourceIsFailedForGoodAndCanBeTakenOver) {
  auto source = Standby::Start();
  ASSERT_OK(source.status());
  auto admin = AdminClient::Connect((*source)->bootstrap());
  ASSERT_OK(admin.status());
  ASSERT_OK(admin->CreateTopic("t"));
  auto fill = Producer::Connect((*source)->bootstrap());
  ASSERT_OK(fill.status());
  ASSERT_OK(fill->SendNumbered("t", 0, 5).status());
  auto standby = Standby::Start();
  ASSERT_OK(standby.status());
  const std::string first_id = (*source)->cluster_id();
  ASSERT_OK((*standby)->Run({"create", "m", "--source", (*source)->bootstrap()}));
  ASSERT_OK((*standby)->Run({"start", "m", "--topics", "t", "--wait", "60"}, Seconds(90)));
  (*source)->Kill();
  std::filesystem::remove_all((*source)->data_dir());
  ASSERT_OK((*source)->Restart());
  ASSERT_NE((*source)->cluster_id(), first_id);
  ASSERT_OK((*standby)->AwaitState("t", "FAILED"));
  const auto row = (*standby)->Row("t");
  ASSERT_OK(row.status());
  EXPECT_EQ(row->retry_attempt, -1);
  EXPECT_NE(row->error_message.find(first_id), std::string::npos) << row->error_message;
  EXPECT_NE(row->error_message.find((*source)->cluster_id()), std::string::npos);
  ASSERT_OK((*standby)->Run({"stop", "m", "--topics", "t", "--wait", "30"}));
  auto producer = Producer::Connect((*standby)->bootstrap());
  ASSERT_OK(producer.status());
  auto offsets = producer->SendNumbered("t", 0, 1);
  ASSERT_OK(offsets.status());
  EXPECT_EQ((*offsets)[0], 6) << "five records and the reset";
}

}  // namespace
}  // namespace kmirror::test
