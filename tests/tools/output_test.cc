#include "tools/kmirror/output.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <sstream>

namespace kmirror::tools {
namespace {

PartitionRow Row(std::string topic, int32_t partition, std::string state, int64_t lag = -1) {
  PartitionRow row;
  row.mirror = "m";
  row.topic = std::move(topic);
  row.partition = partition;
  row.state = std::move(state);
  row.lag = lag;
  row.lag_age_ms = lag < 0 ? -1 : 120;
  row.source_offset = lag < 0 ? -1 : 100 + lag;
  row.destination_offset = lag < 0 ? -1 : 100;
  return row;
}

TEST(Output, LongNamesKeepTheirEnds) {
  EXPECT_EQ(Fit("short", 10), "short");
  EXPECT_EQ(Fit("a-very-long-topic-name", 12), "...opic-name");
  EXPECT_EQ(Fit("abcdef", 2), "ef");
}

TEST(Output, AgesReadLikeTime) {
  EXPECT_EQ(AgeText(-1), "-");
  EXPECT_EQ(AgeText(0), "0 ms");
  EXPECT_EQ(AgeText(999), "999 ms");
  EXPECT_EQ(AgeText(12'400), "12.4 s");
  EXPECT_EQ(AgeText(200'000), "3 min 20 s");
}

TEST(Output, StatesComeInTheOrderOfAPartitionsLife) {
  EXPECT_EQ(StatesText({{"FAILED", 2}, {"MIRRORING", 10}, {"ODD", 1}}),
            "MIRRORING 10, FAILED 2, ODD 1");
  EXPECT_EQ(StatesText({}), "-");
}

TEST(Output, TheDescriptionHasTheColumnsOfKafkasTool) {
  std::ostringstream out;
  PrintDescription({Row("orders", 0, "MIRRORING", 5), Row("orders", 1, "PREPARING")}, out);
  EXPECT_EQ(out.str(),
            "MIRROR                         TOPIC                                    PARTITION  "
            "SOURCE-OFFSET   DESTINATION-OFFSET LAG        STATE\n"
            "m                              orders                                   0          "
            "105             100                5          MIRRORING\n"
            "m                              orders                                   1          "
            "-               -                  -          PREPARING\n");
}

TEST(Output, NothingToShowIsSaid) {
  std::ostringstream out;
  PrintDescription({}, out);
  PrintFailed({Row("t", 0, "MIRRORING", 0)}, out);
  PrintList({}, out);
  EXPECT_EQ(out.str(),
            "No mirror partitions found\nNo failed partitions found\nNo mirrors found\n");
  EXPECT_EQ(DescriptionJson({}), "[]\n");
}

TEST(Output, AFailedPartitionShowsItsReasonUnderTheTable) {
  PartitionRow row = Row("orders", 3, "FAILED");
  row.retry_attempt = -1;
  row.error_message = "the source topic was deleted";
  std::ostringstream out;
  PrintDescription({row}, out);
  EXPECT_NE(out.str().find("m orders-3 FAILED, not retried: the source topic was deleted"),
            std::string::npos)
      << out.str();
}

TEST(Output, DescribeJsonHasExactlyTheFieldsScriptsReadInThatOrder) {
  PartitionRow row = Row("orders", 2, "MIRRORING", 7);
  row.last_mirror_epoch = 4;
  row.last_mirror_offset = 90;
  row.step = "FETCHING";
  const auto json = nlohmann::ordered_json::parse(DescriptionJson({row}));
  ASSERT_EQ(json.size(), 1u);
  std::vector<std::string> keys;
  for (const auto& [key, value] : json[0].items()) keys.push_back(key);
  EXPECT_EQ(keys,
            (std::vector<std::string>{"mirror", "topic", "partition", "state", "sourceOffset",
                                      "destinationOffset", "lag", "lagAgeMs", "lastMirrorEpoch",
                                      "lastMirrorOffset", "retryAttempt", "errorMessage", "step"}));
  EXPECT_EQ(json[0]["lag"], 7);
  EXPECT_EQ(json[0]["lagAgeMs"], 120);
  EXPECT_TRUE(json[0]["errorMessage"].is_null());
}

TEST(Output, ReasonsThatAreNotUtf8StillMakeJson) {
  PartitionRow row = Row("orders", 2, "FAILED");
  row.error_message = "bad \xff byte";
  EXPECT_NO_THROW((void)nlohmann::json::parse(DescriptionJson({row})));
}

TEST(Output, SummariesCountStatesAndFindTheGreatestLagWithItsAge) {
  std::vector<PartitionRow> rows = {Row("a", 0, "MIRRORING", 5), Row("a", 1, "MIRRORING", 9),
                                    Row("a", 2, "MIRRORING"), Row("b", 0, "STOPPED")};
  rows[1].lag_age_ms = 3000;
  ListedMirror listed{.name = "m", .source_bootstrap = "h:1", .source_cluster_id = "id"};
  ListedMirror empty{.name = "empty"};
  const auto summaries = Summarise({empty, listed}, rows);
  ASSERT_EQ(summaries.size(), 2u);
  EXPECT_EQ(summaries[0].greatest_lag, -1);
  EXPECT_EQ(summaries[1].states.at("MIRRORING"), 3);
  EXPECT_EQ(summaries[1].greatest_lag, 9);
  EXPECT_EQ(summaries[1].greatest_lag_age_ms, 3000);
  EXPECT_EQ(summaries[1].unknown_lags, 1);
  std::ostringstream out;
  PrintStatus(summaries, out);
  EXPECT_NE(out.str().find("MIRRORING 3, STOPPED 1; lag unknown 1"), std::string::npos)
      << out.str();
  EXPECT_NE(out.str().find("3.0 s"), std::string::npos) << out.str();
  const auto json = nlohmann::json::parse(SummaryJson(summaries));
  EXPECT_EQ(json[1]["states"]["MIRRORING"], 3);
  EXPECT_EQ(json[1]["partitions"].size(), 4u);
  EXPECT_EQ(json[1]["greatestLagAgeMs"], 3000);
  EXPECT_EQ(json[0]["partitionCount"], 0);
}

}  // namespace
}  // namespace kmirror::tools
