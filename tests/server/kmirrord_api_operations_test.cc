// What operators' tools ask, in every version: configs, disks, elections, features.

#include <gtest/gtest.h>

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "messages/alter_configs.h"
#include "messages/alter_partition_reassignments.h"
#include "messages/api_versions.h"
#include "messages/describe_cluster.h"
#include "messages/describe_configs.h"
#include "messages/describe_log_dirs.h"
#include "messages/elect_leaders.h"
#include "messages/incremental_alter_configs.h"
#include "messages/list_config_resources.h"
#include "messages/list_partition_reassignments.h"
#include "messages/update_features.h"
#include "tests/server/kmirrord_api_fixture.h"

namespace kmirror::test {
namespace {

using namespace protocol;  // NOLINT: the messages, all of them

TEST_F(ApiTest, DescribeConfigsInEveryVersion) {
  CreateTopic("t");
  for (int16_t version = 1; version <= 4; ++version) {
    DescribeConfigsRequest request;
    const auto add = [&](int8_t type, const std::string& name) {
      auto& resource = request.resources.emplace_back();
      resource.resource_type = type;
      resource.resource_name = name;
      resource.configuration_keys.reset();
    };
    add(2, "t");
    add(4, "1");
    add(4, "");
    add(2, "unknown");
    add(4, "9");
    add(64, "no-such-mirror");
    add(16, "x");
    request.include_synonyms = true;
    request.include_documentation = version >= 3;
    const auto response = Call<DescribeConfigsResponse>(request, version);
    ASSERT_EQ(response.results.size(), 7u);
    const auto& topic = response.results[0];
    EXPECT_EQ(topic.error_code, 0);
    bool seen = false;
    for (const auto& config : topic.configs) {
      EXPECT_NE(config.name, "mirror.name") << "not set, not shown";
      if (config.name != "retention.ms") continue;
      seen = true;
      EXPECT_EQ(config.value, "604800000");
      EXPECT_EQ(config.config_source, 5);
      if (version >= 3) EXPECT_EQ(config.config_type, 5) << "long";
      if (version >= 3) EXPECT_NE(config.documentation.value_or(""), "");
    }
    EXPECT_TRUE(seen);
    EXPECT_EQ(response.results[1].error_code, 0);
    EXPECT_FALSE(response.results[1].configs.empty());
    EXPECT_EQ(response.results[2].error_code, 0);
    EXPECT_EQ(response.results[3].error_code, 3);
    EXPECT_EQ(response.results[4].error_code, 42);
    EXPECT_EQ(response.results[5].error_code, 137);
    EXPECT_EQ(response.results[6].error_code, 42);
  }
}

TEST_F(ApiTest, AlteredConfigsShowAndMirrorNameStaysShut) {
  CreateTopic("t");
  const auto value_of = [&](const std::string& key) -> std::optional<std::string> {
    DescribeConfigsRequest request;
    auto& resource = request.resources.emplace_back();
    resource.resource_type = 2;
    resource.resource_name = "t";
    resource.configuration_keys = std::vector<std::string>{key};
    const auto response = Call<DescribeConfigsResponse>(request, 4);
    if (response.results.at(0).configs.size() != 1) return std::nullopt;
    return response.results[0].configs[0].value;
  };
  const auto increment = [&](int16_t version, const std::string& key, int8_t operation,
                             std::optional<std::string> value) {
    IncrementalAlterConfigsRequest request;
    auto& resource = request.resources.emplace_back();
    resource.resource_type = 2;
    resource.resource_name = "t";
    resource.configs.push_back({key, operation, std::move(value)});
    return Call<IncrementalAlterConfigsResponse>(request, version).responses.at(0).error_code;
  };
  for (int16_t version = 0; version <= 1; ++version) {
    EXPECT_EQ(increment(version, "retention.ms", 0, "5000"), 0);
    EXPECT_EQ(value_of("retention.ms"), "5000");
    EXPECT_EQ(increment(version, "retention.ms", 1, std::nullopt), 0);
    EXPECT_EQ(value_of("retention.ms"), "604800000");
    EXPECT_EQ(increment(version, "retention.ms", 0, "soon"), 40);
    EXPECT_EQ(increment(version, "no.such.config", 0, "1"), 40);
    EXPECT_EQ(increment(version, "retention.ms", 9, "1"), 42);
    // S16: only the mirror requests may write it.
    EXPECT_EQ(increment(version, "mirror.name", 0, "m"), 40);
    EXPECT_EQ(increment(version, "mirror.name", 1, std::nullopt), 40);
  }
  for (int16_t version = 0; version <= 2; ++version) {
    AlterConfigsRequest request;
    auto& resource = request.resources.emplace_back();
    resource.resource_type = 2;
    resource.resource_name = "t";
    resource.configs.push_back({"segment.ms", "60000"});
    EXPECT_EQ(Call<AlterConfigsResponse>(request, version).responses.at(0).error_code, 0);
    EXPECT_EQ(value_of("segment.ms"), "60000");
    resource.configs[0].name = "mirror.name";
    EXPECT_EQ(Call<AlterConfigsResponse>(request, version).responses.at(0).error_code, 40);
    EXPECT_EQ(value_of("segment.ms"), "60000") << "a refused change leaves everything";
    request.resources.push_back(request.resources[0]);
    EXPECT_EQ(Call<AlterConfigsResponse>(request, version).responses.at(0).error_code, 42);
  }
}

TEST_F(ApiTest, DescribeClusterAndLogDirsAndResources) {
  CreateTopic("t", 2);
  ASSERT_EQ(Produce("t", Batch({})).error_code, 0);
  for (int16_t version = 0; version <= 2; ++version) {
    DescribeClusterRequest request;
    request.include_cluster_authorized_operations = true;
    const auto response = Call<DescribeClusterResponse>(request, version);
    EXPECT_EQ(response.cluster_id, cluster_id());
    ASSERT_EQ(response.brokers.size(), 1u);
    EXPECT_EQ(response.brokers[0].port, address().port);
    EXPECT_EQ(response.cluster_authorized_operations, 8096);
    if (version == 0) continue;
    request.endpoint_type = 2;
    EXPECT_EQ(Call<DescribeClusterResponse>(request, version).error_code, 114);
  }
  for (int16_t version = 1; version <= 5; ++version) {
    DescribeLogDirsRequest request;
    request.topics.reset();
    const auto response = Call<DescribeLogDirsResponse>(request, version);
    ASSERT_EQ(response.results.size(), 1u);
    EXPECT_EQ(response.results[0].log_dir, data().string());
    ASSERT_EQ(response.results[0].topics.size(), 1u);
    EXPECT_EQ(response.results[0].topics[0].partitions.size(), 2u);
  }
  for (int16_t version = 0; version <= 1; ++version) {
    ListConfigResourcesRequest request;
    const auto response = Call<ListConfigResourcesResponse>(request, version);
    EXPECT_EQ(response.error_code, 0);
    EXPECT_EQ(response.config_resources.size(), version == 0 ? 0u : 2u)
        << "the topic and the broker";
  }
}

TEST_F(ApiTest, ElectLeadersFindsNothingToDo) {
  CreateTopic("t");
  for (int16_t version = 0; version <= 2; ++version) {
    ElectLeadersRequest request;
    request.topic_partitions.emplace();
    request.topic_partitions->push_back({"t", {0, 9}});
    const auto response = Call<ElectLeadersResponse>(request, version);
    const auto& results = response.replica_election_results.at(0).partition_result;
    EXPECT_EQ(results.at(0).error_code, 84);
    EXPECT_EQ(results.at(1).error_code, 3);
  }
}

TEST_F(ApiTest, AlterConfigsReplacesEverythingOrJustLooks) {
  CreateTopic("t");
  const auto set = [&](bool validate_only,
                       std::vector<AlterConfigsRequest::AlterableConfig> configs) {
    AlterConfigsRequest request;
    request.validate_only = validate_only;
    auto& resource = request.resources.emplace_back();
    resource.resource_type = 2;
    resource.resource_name = "t";
    resource.configs = std::move(configs);
    return Call<AlterConfigsResponse>(request, 2).responses.at(0).error_code;
  };
  const auto overrides = [&] {
    DescribeConfigsRequest request;
    auto& resource = request.resources.emplace_back();
    resource.resource_type = 2;
    resource.resource_name = "t";
    resource.configuration_keys.reset();
    std::map<std::string, std::string> found;
    const auto response = Call<DescribeConfigsResponse>(request, 4);
    for (const auto& config : response.results.at(0).configs) {
      if (config.config_source == 1) found[config.name] = config.value.value_or("(null)");
    }
    return found;
  };
  using Overrides = std::map<std::string, std::string>;
  EXPECT_EQ(set(false, {{"segment.ms", "60000"}, {"flush.ms", "7"}}), 0);
  EXPECT_EQ(overrides(), (Overrides{{"segment.ms", "60000"}, {"flush.ms", "7"}}));
  EXPECT_EQ(set(true, {{"segment.ms", "1000"}}), 0);
  EXPECT_EQ(set(true, {{"segment.ms", "never"}}), 40);
  EXPECT_EQ(overrides(), (Overrides{{"segment.ms", "60000"}, {"flush.ms", "7"}}));
  EXPECT_EQ(set(false, {{"flush.ms", "8"}}), 0);
  EXPECT_EQ(overrides(), (Overrides{{"flush.ms", "8"}})) << "what is not named goes";
  EXPECT_EQ(set(false, {}), 0);
  EXPECT_EQ(overrides(), Overrides());
}

TEST_F(ApiTest, ReassignmentsAreJudgedAndNoneIsUnderWay) {
  CreateTopic("t", 2);
  for (int16_t version = 0; version <= 1; ++version) {
    AlterPartitionReassignmentsRequest request;
    auto& topic = request.topics.emplace_back();
    topic.name = "t";
    topic.partitions = {{0, std::vector<int32_t>{1}},
                        {1, std::vector<int32_t>{2}},
                        {0, std::nullopt},
                        {0, std::vector<int32_t>{1, 1}},
                        {0, std::vector<int32_t>{}},
                        {2, std::vector<int32_t>{1}}};
    const auto response = Call<AlterPartitionReassignmentsResponse>(request, version);
    EXPECT_EQ(response.error_code, 0);
    std::vector<int> codes;
    for (const auto& partition : response.responses.at(0).partitions) {
      codes.push_back(partition.error_code);
      EXPECT_EQ(partition.error_message.has_value(), partition.error_code != 0);
    }
    EXPECT_EQ(codes, (std::vector<int>{0, 39, 85, 39, 39, 3}));
  }
  const auto listed =
      Call<ListPartitionReassignmentsResponse>(ListPartitionReassignmentsRequest{}, 0);
  EXPECT_EQ(listed.error_code, 0);
  EXPECT_TRUE(listed.topics.empty());
}

TEST_F(ApiTest, UpdateFeaturesLowersAndRaisesMirrorVersion) {
  const auto finalized = [&] {
    ApiVersionsRequest request;
    request.client_software_name = request.client_software_version = "x";
    return Call<ApiVersionsResponse>(request, 4).finalized_features.size();
  };
  const auto update = [&](int16_t version, const std::string& feature, int16_t level, bool lower) {
    UpdateFeaturesRequest request;
    auto& change = request.feature_updates.emplace_back();
    change.feature = feature;
    change.max_version_level = level;
    if (version == 0)
      change.allow_downgrade = lower;
    else
      change.upgrade_type = lower ? 3 : 1;
    const auto response = Call<UpdateFeaturesResponse>(request, version);
    return version >= 2 ? response.error_code : response.results.at(0).error_code;
  };
  for (int16_t version = 0; version <= 2; ++version) {
    EXPECT_EQ(update(version, "mirror.version", 0, false), 95) << "not asked for as a downgrade";
    EXPECT_EQ(finalized(), 1u);
    EXPECT_EQ(update(version, "mirror.version", 0, true), 0);
    EXPECT_EQ(finalized(), 0u);
    EXPECT_EQ(update(version, "mirror.version", 1, false), 0);
    EXPECT_EQ(finalized(), 1u);
    EXPECT_EQ(update(version, "no.such.feature", 1, false), 95);
  }
}

}  // namespace
}  // namespace kmirror::test
