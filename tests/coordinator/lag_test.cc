// What describe and the metrics say about lag (S17): a number that is right, or that none is known.
#include "tests/coordinator/coordinator_fixture.h"

namespace kmirror::coordinator {
namespace {

using S = MirrorPartitionState;
using conformance::MemoryLog;
using std::chrono::minutes;

using Lag = CoordinatorTest;

// Metrics of one collection: "name{label=value,...}" and the value.
class Metrics : public MetricSink {
 public:
  explicit Metrics(const Mirror& mirror) { mirror.Collect(this); }
  void Add(std::string_view name, Kind, std::string_view help, std::span<const Label> labels,
           double value) override {
    EXPECT_FALSE(help.empty()) << name;
    std::string key(name);
    for (const Label& label : labels) {
      key += ' ';
      key.append(label.name).append("=").append(label.value);
    }
    EXPECT_TRUE(values_.emplace(key, value).second) << key << " twice";
  }
  // Fails the test when there is none.
  double At(const std::string& key) const {
    const auto it = values_.find(key);
    if (it == values_.end()) {
      ADD_FAILURE() << "no metric " << key;
      return -12345;
    }
    return it->second;
  }
  bool Has(const std::string& key) const { return values_.contains(key); }

 private:
  std::map<std::string, double> values_;
};

TEST_F(Lag, IsWhatIsMissingUntilTheReplicasConfirmTheLastRecord) {  // S17
  c.host.logs().OnCreate([](const TopicIdPartition&, MemoryLog& log) {
    log.SetFollowers({MemoryLog::Follower{.automatic = false}});
  });
  c.source.AddTopic("t");
  c.source.Elect("t", 5);
  for (int i = 0; i < 100; ++i) c.source.Append("t");
  c.fetching->Limit(40);
  ASSERT_EQ(c.CreateMirror(), ErrorCode::kNone);
  ASSERT_EQ(c.Start(), ErrorCode::kNone);
  ASSERT_TRUE(c.RunUntil([&] { return c.Log().View().end == 40; }));
  c.Log().SetFollowerEnd(0, 40);
  ASSERT_TRUE(c.RunUntilState(S::kMirroring));
  EXPECT_EQ(c.Describe().source_offset, 100);
  EXPECT_EQ(c.Describe().destination_offset, 40);
  EXPECT_EQ(c.Describe().lag, 60);
  EXPECT_EQ(Metrics(*c.mirror).At("kmirror_fetcher_lag_records mirror=m topic=t partition=0"), 60);
  EXPECT_EQ(Metrics(*c.mirror).At("kmirror_fetcher_max_lag_records"), 60);
  // Everything is here, but on the leader alone: a failover would not be sure to keep it.
  c.fetching->Limit(-1);
  ASSERT_TRUE(c.RunUntil([&] { return c.Log().View().end == 100; }));
  EXPECT_EQ(c.Describe().lag, 60);
  c.Log().SetFollowerEnd(0, 99);
  EXPECT_EQ(c.Describe().lag, 1);
  c.Log().SetFollowerEnd(0, 100);
  EXPECT_EQ(c.Describe().lag, 0);
  EXPECT_EQ(c.Describe().destination_offset, 100);
  EXPECT_EQ(c.Describe().state_value, "MIRRORING");
  EXPECT_EQ(c.Describe().retry_attempt, 0);
  EXPECT_EQ(c.Describe().error_message, std::nullopt);
  EXPECT_EQ(Metrics(*c.mirror).At("kmirror_fetcher_max_lag_records"), 0);
}

TEST_F(Lag, IsUnknownBeforeTheFirstAnswerAndOfAPartitionThatDoesNotMirror) {  // S17
  StartCaughtUp(3, 5, 2);
  c.Log("t", 1).FailNextAppend(host::AppendCode::kIo);
  c.source.Append("t", 1, 1);
  ASSERT_TRUE(c.RunUntilState(S::kFailed, minutes(1), "t", 1));
  const DescribedPartition failed = c.Describe("t", 1);
  EXPECT_EQ(failed.state_value, "FAILED");
  EXPECT_EQ(failed.retry_attempt, 1);
  EXPECT_NE(failed.error_message.value_or(""), "");
  EXPECT_EQ(failed.lag, -1) << "no news comes in: a number would be a guess";
  EXPECT_EQ(failed.source_offset, -1);
  EXPECT_EQ(c.Describe("t", 0).lag, 0) << "the other one is not concerned";
  const Metrics metrics(*c.mirror);
  EXPECT_FALSE(metrics.Has("kmirror_fetcher_lag_records mirror=m topic=t partition=1"));
  EXPECT_EQ(metrics.At("kmirror_partitions state=FAILED"), 1);
  EXPECT_EQ(metrics.At("kmirror_partitions state=MIRRORING"), 1);
  EXPECT_EQ(metrics.At("kmirror_mirror_topics mirror=m"), 1);
  // It heals, and the number is back.
  ASSERT_TRUE(c.RunUntil([&] { return c.Describe("t", 1).lag == 0; }));
  EXPECT_EQ(c.Describe("t", 1).destination_offset, 4);
}

TEST_F(Lag, TheSourceIsShownReachableOrNotAndItsRefreshesAreCounted) {
  StartCaughtUp(3, 5);
  const double refreshes = Metrics(*c.mirror).At("kmirror_source_refreshes_total mirror=m");
  EXPECT_GE(refreshes, 1);
  c.Advance(2 * c.options.metadata_refresh_interval);
  const double more = Metrics(*c.mirror).At("kmirror_source_refreshes_total mirror=m");
  EXPECT_GE(more, refreshes + 1);
  EXPECT_EQ(Metrics(*c.mirror).At("kmirror_source_reachable mirror=m"), 1);
  c.source.reachable = false;
  ASSERT_TRUE(
      c.RunUntil([&] { return Metrics(*c.mirror).At("kmirror_source_reachable mirror=m") == 0; }));
  const double frozen = Metrics(*c.mirror).At("kmirror_source_refreshes_total mirror=m");
  c.Advance(5 * c.options.metadata_refresh_interval);
  EXPECT_EQ(Metrics(*c.mirror).At("kmirror_source_refreshes_total mirror=m"), frozen);
  c.source.reachable = true;
  ASSERT_TRUE(
      c.RunUntil([&] { return Metrics(*c.mirror).At("kmirror_source_reachable mirror=m") == 1; }));
}

}  // namespace
}  // namespace kmirror::coordinator
