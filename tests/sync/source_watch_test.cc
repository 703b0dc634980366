// What is believed of a source: only what it said, never what a failure suggests.
#include "src/sync/source_watch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/coordinator/fake_source.h"

namespace kmirror::sync {
namespace {

using conformance::Fault;
using coordinator::SourceModel;
using std::chrono::milliseconds;
using std::chrono::minutes;
using std::chrono::seconds;

class SourceWatchTest : public ::testing::Test, public SourceWatchObserver {
 protected:
  SourceWatchTest()
      : source_(&runtime_), factory_(&source_), lane_(runtime_.NewLane("coordinator")) {
    source_.AddTopic("t", 2);
    source_.Elect("t", 5, 0);
    auto config = std::make_shared<fetcher::MirrorSourceConfig>();
    config->mirror = "m";
    config->source_cluster_id = source_.cluster_id;
    watch_ =
        std::make_unique<SourceWatch>(config, &factory_, &runtime_, lane_.get(), seconds(30), this);
  }
  ~SourceWatchTest() override {
    watch_.reset();
    EXPECT_EQ(source_.open_clients, 0);
  }

  void OnSourceRefreshed(const std::string&) override { ++refreshed_; }
  void OnSourceReachability(const std::string&, bool reachable) override {
    reachable_.push_back(reachable);
  }
  void OnSourceTopicDeleted(const std::string&, const std::string& topic) override {
    deleted_.push_back(topic);
  }
  void OnSourceReplaced(const std::string&, const std::string& expected,
                        const std::string& found) override {
    replaced_.push_back(expected + " " + found);
  }
  size_t Describes() const { return source_.script.calls(SourceModel::kDescribe); }

  conformance::ManualRuntime runtime_;
  SourceModel source_;
  coordinator::FakeSourceFactory factory_;
  std::unique_ptr<host::Lane> lane_;
  std::unique_ptr<SourceWatch> watch_;
  int refreshed_ = 0;
  std::vector<bool> reachable_;
  std::vector<std::string> deleted_;
  std::vector<std::string> replaced_;
};

TEST_F(SourceWatchTest, ANewTopicIsAskedForAtOnceAndThenAtEveryInterval) {
  EXPECT_EQ(watch_->Topic("t"), nullptr);
  watch_->Follow("t");
  runtime_.RunUntilIdle();
  ASSERT_NE(watch_->Topic("t"), nullptr);
  EXPECT_EQ(watch_->Topic("t")->id, source_.topics.at("t").id);
  const auto leader = watch_->LeaderOf("t", 0);
  ASSERT_TRUE(leader.has_value());
  EXPECT_EQ(leader->id, 1);
  EXPECT_EQ(leader->epoch, 5);
  EXPECT_EQ(leader->address.host, "source");
  EXPECT_EQ(Describes(), 1u);
  runtime_.Advance(minutes(5));
  EXPECT_EQ(Describes(), 11u);
  EXPECT_EQ(refreshed_, 11);
}

TEST_F(SourceWatchTest, AskedRefreshesAreGathered) {
  watch_->Follow("t");
  for (int i = 0; i < 20; ++i) watch_->RefreshSoon();
  runtime_.RunUntilIdle();
  for (int i = 0; i < 20; ++i) watch_->RefreshSoon();
  runtime_.Advance(seconds(1));
  EXPECT_LE(Describes(), 3u);
  EXPECT_GE(Describes(), 2u);
}

TEST_F(SourceWatchTest,
       AnUnreachableSourceKeepsItsViewsAndIsAskedMoreAndMoreSlowly) {  // R10, invariant 8
  watch_->Follow("t");
  runtime_.RunUntilIdle();
  source_.reachable = false;
  runtime_.Advance(minutes(1));
  EXPECT_NE(watch_->unreachable_since_ns(), 0);
  EXPECT_THAT(watch_->trouble(), ::testing::HasSubstr("connection refused"));
  EXPECT_EQ(reachable_, std::vector<bool>{false});
  ASSERT_TRUE(watch_->LeaderOf("t", 0).has_value());
  EXPECT_TRUE(deleted_.empty());
  const size_t before = Describes();
  for (int i = 0; i < 600; ++i) {
    watch_->RefreshSoon();  // somebody is impatient all the time
    runtime_.Advance(seconds(1));
  }
  EXPECT_LT(Describes() - before, 30u);
  EXPECT_GT(Describes() - before, 10u);
  const int refreshed = refreshed_;
  source_.reachable = true;
  runtime_.Advance(minutes(1));
  EXPECT_EQ(reachable_, (std::vector<bool>{false, true}));
  EXPECT_EQ(watch_->unreachable_since_ns(), 0);
  EXPECT_GT(refreshed_, refreshed);
}

TEST_F(SourceWatchTest, AnEpochNeverGoesBackAndAnElectionKeepsTheLastLeader) {
  watch_->Follow("t");
  runtime_.RunUntilIdle();
  watch_->LearnEpoch("t", 0, 9);
  source_.At("t").leader_epoch = 7;  // a broker whose metadata lags
  source_.At("t").leader_id = -1;
  runtime_.Advance(seconds(31));
  EXPECT_EQ(watch_->LeaderOf("t", 0)->epoch, 9);
  EXPECT_EQ(watch_->LeaderOf("t", 0)->id, 1);
  watch_->LearnEpoch("t", 0, 3);
  EXPECT_EQ(watch_->LeaderOf("t", 0)->epoch, 9);
  source_.brokers[2] = {"source2", 9092};
  source_.At("t").leader_id = 2;
  source_.At("t").leader_epoch = 10;
  runtime_.Advance(seconds(31));
  EXPECT_EQ(watch_->LeaderOf("t", 0)->epoch, 10);
  EXPECT_EQ(watch_->LeaderOf("t", 0)->address.host, "source2");
}

TEST_F(SourceWatchTest, ATopicMadeAgainStartsItsEpochsAfresh) {
  watch_->Follow("t");
  runtime_.RunUntilIdle();
  source_.topics.erase("t");
  source_.AddTopic("t", 1, 0x77);
  runtime_.Advance(seconds(31));
  EXPECT_EQ(watch_->Topic("t")->id, source_.topics.at("t").id);
  EXPECT_EQ(watch_->LeaderOf("t", 0)->epoch, 0);
  EXPECT_EQ(watch_->Topic("t")->partitions.size(), 1u);
}

TEST_F(SourceWatchTest, TwoObservationsWithAListingEachMakeADeletion) {  // 4.4
  watch_->Follow("t");
  runtime_.RunUntilIdle();
  const SourceModel::Topic kept = source_.topics.at("t");
  source_.topics.erase("t");
  runtime_.Advance(seconds(31));
  EXPECT_TRUE(deleted_.empty());
  EXPECT_NE(watch_->Topic("t"), nullptr) << "one look is not enough";
  source_.topics["t"] = kept;  // it was a broker that lagged
  runtime_.Advance(seconds(31));
  source_.topics.erase("t");
  runtime_.Advance(seconds(31));
  EXPECT_TRUE(deleted_.empty());
  runtime_.Advance(seconds(31));
  EXPECT_EQ(deleted_, std::vector<std::string>{"t"});
  EXPECT_EQ(watch_->Topic("t"), nullptr);
}

TEST_F(SourceWatchTest, ImpatientRefreshesDoNotMakeTwoObservationsOfOneMoment) {
  watch_->Follow("t");
  runtime_.RunUntilIdle();
  source_.topics.erase("t");
  for (int i = 0; i < 50; ++i) {
    watch_->RefreshSoon();
    runtime_.Advance(milliseconds(100));
  }
  EXPECT_GT(Describes(), 20u);
  EXPECT_TRUE(deleted_.empty());
  runtime_.Advance(minutes(1));
  EXPECT_FALSE(deleted_.empty());
}

TEST_F(SourceWatchTest, AListingThatShowsTheTopicOrFailsIsNoObservation) {
  watch_->Follow("t");
  runtime_.RunUntilIdle();
  source_.topics.erase("t");
  source_.listed_only.insert("t");
  runtime_.Advance(minutes(5));
  EXPECT_TRUE(deleted_.empty());
  source_.listed_only.clear();
  source_.script.Always(SourceModel::kList, Fault::kRefuse, {ErrorCode::kTimedOut, "late"});
  runtime_.Advance(minutes(5));
  EXPECT_TRUE(deleted_.empty());
  source_.script.Heal(SourceModel::kList);
  runtime_.Advance(minutes(2));
  EXPECT_FALSE(deleted_.empty());
}

TEST_F(SourceWatchTest, AnErrorOfATopicTeachesNothing) {
  watch_->Follow("t");
  runtime_.RunUntilIdle();
  source_.topics.at("t").error = ErrorCode::kLeaderNotAvailable;
  source_.At("t").leader_epoch = 99;
  runtime_.Advance(minutes(5));
  EXPECT_TRUE(deleted_.empty());
  EXPECT_EQ(watch_->LeaderOf("t", 0)->epoch, 5);
}

TEST_F(SourceWatchTest, OfAnotherClusterNothingIsBelieved) {  // 4.2 step 1
  watch_->Follow("t");
  runtime_.RunUntilIdle();
  const std::string right = source_.cluster_id;
  source_.cluster_id = "another";
  const SourceModel::Topic kept = source_.topics.at("t");
  source_.topics.clear();
  runtime_.Advance(seconds(31));
  EXPECT_EQ(replaced_, std::vector<std::string>{right + " another"});
  EXPECT_TRUE(watch_->replaced());
  EXPECT_FALSE(watch_->LeaderOf("t", 0).has_value());
  runtime_.Advance(minutes(5));
  EXPECT_TRUE(deleted_.empty()) << "its topics say nothing about ours";
  source_.cluster_id = right;
  source_.topics["t"] = kept;
  runtime_.Advance(seconds(31));
  EXPECT_FALSE(watch_->replaced());
  EXPECT_TRUE(watch_->LeaderOf("t", 0).has_value());
}

TEST_F(SourceWatchTest, GrowthShows) {
  watch_->Follow("t");
  runtime_.RunUntilIdle();
  source_.topics.at("t").partitions.push_back(source_.At("t"));
  runtime_.Advance(seconds(31));
  EXPECT_EQ(watch_->Topic("t")->partitions.size(), 3u);
  EXPECT_TRUE(watch_->LeaderOf("t", 2).has_value());
}

TEST_F(SourceWatchTest, AnAnswerToAWatchThatIsGoneIsNobodys) {
  source_.script.Next(SourceModel::kDescribe, Fault::kHold);
  watch_->Follow("t");
  runtime_.RunUntilIdle();
  watch_.reset();
  source_.script.Release();
  runtime_.RunUntilIdle();
  EXPECT_EQ(refreshed_, 0);
  EXPECT_TRUE(reachable_.empty());
}

TEST_F(SourceWatchTest, TopicsThatAreNotFollowedAnyMoreAreForgotten) {
  watch_->Follow("t");
  runtime_.RunUntilIdle();
  watch_->Unfollow("t");
  EXPECT_EQ(watch_->Topic("t"), nullptr);
  EXPECT_FALSE(watch_->LeaderOf("t", 0).has_value());
}

}  // namespace
}  // namespace kmirror::sync
