// The verbs against scripted brokers: what is sent, what is printed, and the exit codes.
#include "tools/kmirror/commands.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <sstream>

#include "messages/create_cluster_mirror.h"
#include "messages/delete_cluster_mirror.h"
#include "messages/describe_cluster_mirrors.h"
#include "messages/describe_configs.h"
#include "messages/list_cluster_mirrors.h"
#include "messages/list_offsets.h"
#include "messages/metadata.h"
#include "messages/recover_mirror_topics.h"
#include "messages/start_mirror_topics.h"
#include "messages/stop_mirror_topics.h"
#include "tests/tools/fake_broker.h"

namespace kmirror::tools {
namespace {

using namespace protocol;  // NOLINT: the test speaks in messages
using test::FakeBroker;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

// Somebody listened there and does no more.
int DeadPort() { return FakeBroker().port(); }

class CommandsTest : public testing::Test {
 protected:
  CommandsTest() {
    ServeMetadata(source_, "source-id",
                  {{"orders", 3}, {"payments", 1}, {"__consumer_offsets", 50}});
    ServeMetadata(destination_, "destination-id", {});
    arguments_.bootstrap = destination_.address();
    arguments_.mirror = "m";
    arguments_.timeout = std::chrono::seconds(10);
    arguments_.poll_interval = std::chrono::milliseconds(2);
    destination_.On<DescribeConfigsRequest, DescribeConfigsResponse>(
        [this](const DescribeConfigsRequest& request, int16_t) {
          DescribeConfigsResponse response;
          auto& result = response.results.emplace_back();
          result.resource_type = request.resources.at(0).resource_type;
          result.resource_name = request.resources.at(0).resource_name;
          result.configs.push_back({.name = "bootstrap.servers", .value = source_bootstrap_});
          return response;
        });
    destination_.On<ListClusterMirrorsRequest, ListClusterMirrorsResponse>(
        [this](const ListClusterMirrorsRequest&, int16_t) {
          ListClusterMirrorsResponse response;
          response.mirrors.push_back({.mirror_name = "m",
                                      .source_bootstrap = source_bootstrap_,
                                      .source_cluster_id = "source-id",
                                      .topic_count = 2,
                                      .topic_names = {"orders", "payments"}});
          return response;
        });
    Describe([](int) { return std::vector<std::pair<std::string, std::vector<std::string>>>{}; });
    destination_.On<StartMirrorTopicsRequest, StartMirrorTopicsResponse>(
        [this](const StartMirrorTopicsRequest& request, int16_t) {
          started_ = request;
          StartMirrorTopicsResponse response;
          for (const auto& topic : request.topics)
            response.topics.push_back({.name = topic.topic_name});
          return response;
        });
    destination_.On<StopMirrorTopicsRequest, StopMirrorTopicsResponse>(
        [this](const StopMirrorTopicsRequest& request, int16_t) {
          stopped_ = request;
          StopMirrorTopicsResponse response;
          for (const auto& topic : request.topics)
            response.topics.push_back({.name = topic.topic_name});
          return response;
        });
  }

  static void ServeMetadata(FakeBroker& broker, const std::string& cluster_id,
                            std::map<std::string, int> topics, int brokers = 1) {
    broker.On<MetadataRequest, MetadataResponse>(
        [&broker, cluster_id, topics, brokers](const MetadataRequest& request, int16_t) {
          MetadataResponse response;
          response.cluster_id = cluster_id;
          response.brokers.push_back({.node_id = 1, .host = "127.0.0.1", .port = broker.port()});
          for (int i = 1; i < brokers; ++i) {  // nobody listens there
            response.brokers.push_back({.node_id = 1 + i, .host = "127.0.0.1", .port = 1});
          }
          auto add = [&](const std::string& name) {
            MetadataResponse::MetadataResponseTopic topic;
            topic.name = name;
            const auto it = topics.find(name);
            if (it == topics.end()) {
              topic.error_code = 3;
            } else {
              topic.topic_id.bytes[0] = static_cast<uint8_t>(name.size());
              for (int i = 0; i < it->second; ++i) {
                topic.partitions.push_back({.partition_index = i, .leader_id = 1});
              }
            }
            response.topics.push_back(std::move(topic));
          };
          if (!request.topics) {
            for (const auto& [name, partitions] : topics) add(name);
          } else {
            for (const auto& topic : *request.topics) add(topic.name.value_or(""));
          }
          return response;
        });
  }

  // `states(n)`: topics with the state of each partition, in the n-th description (from 0).
  void Describe(
      std::function<std::vector<std::pair<std::string, std::vector<std::string>>>(int)> states) {
    destination_.On<DescribeClusterMirrorsRequest, DescribeClusterMirrorsResponse>(
        [this, states](const DescribeClusterMirrorsRequest&, int16_t) {
          DescribeClusterMirrorsResponse response;
          auto& mirror = response.mirrors.emplace_back();
          mirror.mirror_name = "m";
          for (const auto& [name, partitions] : states(descriptions_++)) {
            auto& topic = mirror.topics.emplace_back();
            topic.topic_name = name;
            int32_t index = 0;
            for (const std::string& state : partitions) {
              auto& one = topic.partitions.emplace_back();
              one.partition_index = index++;
              one.state_value = state.substr(0, state.find(' '));
              if (state == "MIRRORING") one.lag = 0;
              if (state == "MIRRORING behind") one.lag = 12;
              if (state == "FAILED for good") one.retry_attempt = -1;
              if (one.state_value == "FAILED") one.error_message = "the disk is full";
              if (state.starts_with("STOPPED at "))
                one.last_mirror_offset = std::stoll(state.substr(11));
            }
          }
          return response;
        });
  }

  // What the destination's partitions hold.
  void HoldOffsets(int64_t first, int64_t end) {
    destination_.On<ListOffsetsRequest, ListOffsetsResponse>(
        [first, end](const ListOffsetsRequest& request, int16_t) {
          EXPECT_EQ(request.replica_id, -1);
          ListOffsetsResponse response;
          auto& topic = response.topics.emplace_back();
          topic.name = request.topics.at(0).name;
          const bool earliest = request.topics[0].partitions.at(0).timestamp == -2;
          topic.partitions.push_back({.partition_index = 0, .offset = earliest ? first : end});
          return response;
        });
  }

  ExitCode RunVerb(Verb verb) {
    out_.str("");
    err_.str("");
    return tools::Run(verb, arguments_, out_, err_);
  }

  FakeBroker source_;
  FakeBroker destination_;
  std::string source_bootstrap_ = source_.address();
  Arguments arguments_;
  StartMirrorTopicsRequest started_;
  StopMirrorTopicsRequest stopped_;
  std::atomic<int> descriptions_{0};
  std::ostringstream out_;
  std::ostringstream err_;
};

TEST_F(CommandsTest, NobodyAtTheAddressIsAFailureThatNamesIt) {
  arguments_.bootstrap = "127.0.0.1:" + std::to_string(DeadPort());
  EXPECT_EQ(RunVerb(Verb::kList), kFailed);
  EXPECT_THAT(err_.str(), HasSubstr(arguments_.bootstrap));
  EXPECT_THAT(err_.str(), HasSubstr("next:"));
}

TEST_F(CommandsTest, AKafkaWithoutMirroringIsRecognisedByItsFeaturesAndNotByItsKeys) {
  destination_.ClearFeatures();
  EXPECT_EQ(RunVerb(Verb::kList), kFailed);
  EXPECT_THAT(err_.str(), HasSubstr("does not mirror"));
  EXPECT_EQ(destination_.count(ListClusterMirrorsRequest::kApiKey), 0);
}

TEST_F(CommandsTest, CreateSendsEveryConfigAndTheIdOfTheSource) {
  CreateClusterMirrorRequest created;
  destination_.On<CreateClusterMirrorRequest, CreateClusterMirrorResponse>(
      [&](const CreateClusterMirrorRequest& request, int16_t) {
        created = request;
        return CreateClusterMirrorResponse{};
      });
  arguments_.source = source_.address();
  arguments_.configs = {"source.gap=fail", "mirror.fetch.min.bytes=1"};
  EXPECT_EQ(RunVerb(Verb::kCreate), kDone) << err_.str();
  std::map<std::string, std::string> configs;
  for (const auto& config : created.config) configs[config.name] = config.value.value_or("");
  EXPECT_EQ(created.mirror_name, "m");
  EXPECT_EQ(configs, (std::map<std::string, std::string>{{"bootstrap.servers", source_.address()},
                                                         {"source.cluster.id", "source-id"},
                                                         {"source.gap", "fail"},
                                                         {"mirror.fetch.min.bytes", "1"}}));
  EXPECT_THAT(out_.str(), HasSubstr("Created mirror m"));
}

TEST_F(CommandsTest, ASourceOverTlsIsTheBrokersToAsk) {
  CreateClusterMirrorRequest created;
  destination_.On<CreateClusterMirrorRequest, CreateClusterMirrorResponse>(
      [&](const CreateClusterMirrorRequest& request, int16_t) {
        created = request;
        return CreateClusterMirrorResponse{};
      });
  arguments_.source = "127.0.0.1:" + std::to_string(DeadPort());
  arguments_.configs = {"mirror.security.protocol=SSL"};
  EXPECT_EQ(RunVerb(Verb::kCreate), kDone) << err_.str();
  EXPECT_THAT(out_.str(), HasSubstr("Created mirror m of cluster source-id at 127.0.0.1:"));
  EXPECT_EQ(created.config.size(), 2u);

  destination_.On<DescribeConfigsRequest, DescribeConfigsResponse>(
      [this](const DescribeConfigsRequest&, int16_t) {
        DescribeConfigsResponse response;
        auto& result = response.results.emplace_back();
        result.configs.push_back({.name = "bootstrap.servers", .value = arguments_.source});
        result.configs.push_back({.name = "security.protocol", .value = "SSL"});
        return response;
      });
  ServeMetadata(destination_, "destination-id", {{"orders", 2}, {"payments", 1}});
  HoldOffsets(0, 0);
  Describe([](int n) {
    return std::vector<std::pair<std::string, std::vector<std::string>>>{
        {"orders", {"MIRRORING", n < 2 ? "MIRRORING behind" : "MIRRORING"}},
        {"payments", {"MIRRORING"}}};
  });
  arguments_.topics = {"payments", "orders"};
  arguments_.wait_seconds = 10;
  EXPECT_EQ(RunVerb(Verb::kStart), kDone) << err_.str();
  ASSERT_EQ(started_.topics.size(), 2u);
  EXPECT_EQ(started_.topics[0].topic_name, "orders");
  EXPECT_TRUE(started_.topics[0].topic_id.IsZero());
  EXPECT_EQ(started_.topics[0].num_partitions, 0);

  // "Done" would be a guess about partitions that nobody has shown.
  ServeMetadata(destination_, "destination-id", {{"payments", 1}});
  EXPECT_EQ(RunVerb(Verb::kStart), kFailed);
  EXPECT_THAT(err_.str(), HasSubstr("orders is started, but the broker does not show"));
  EXPECT_THAT(out_.str(), Not(HasSubstr("Done")));

  started_ = {};
  for (const char* topics : {"", "pay.*"}) {
    arguments_.all = *topics == '\0';
    arguments_.topics = {topics};
    EXPECT_EQ(RunVerb(Verb::kStart), kFailed);
    EXPECT_THAT(err_.str(), HasSubstr("name each topic with --topics"));
    EXPECT_TRUE(started_.topics.empty());
  }
}

TEST_F(CommandsTest, CreateRefusesASourceThatDoesNotAnswerNamingItsAddress) {
  arguments_.source = "127.0.0.1:" + std::to_string(DeadPort());
  EXPECT_EQ(RunVerb(Verb::kCreate), kFailed);
  EXPECT_THAT(err_.str(), HasSubstr(arguments_.source));
  EXPECT_EQ(destination_.count(CreateClusterMirrorRequest::kApiKey), 0);
}

TEST_F(CommandsTest, AClusterCannotMirrorItself) {
  ServeMetadata(destination_, "source-id", {});
  arguments_.source = source_.address();
  EXPECT_EQ(RunVerb(Verb::kCreate), kFailed);
  EXPECT_THAT(err_.str(), HasSubstr("cannot mirror itself"));
}

TEST_F(CommandsTest, CreateWithoutASourceIsUsageAndAsksNobody) {
  EXPECT_EQ(RunVerb(Verb::kCreate), kUsage);
  arguments_.source = "nonsense";
  EXPECT_EQ(RunVerb(Verb::kCreate), kUsage);
  arguments_.source = source_.address();
  arguments_.configs = {"novalue"};
  EXPECT_EQ(RunVerb(Verb::kCreate), kUsage);
  arguments_.configs.clear();
  arguments_.config_file = "/nowhere/mirror.properties";
  EXPECT_EQ(RunVerb(Verb::kCreate), kUsage);
  EXPECT_THAT(err_.str(), HasSubstr("/nowhere/mirror.properties"));
}

TEST_F(CommandsTest, StartTellsIdsAndPartitionCountsOfTheSource) {
  arguments_.topics = {"orders"};
  EXPECT_EQ(RunVerb(Verb::kStart), kDone) << err_.str();
  ASSERT_EQ(started_.topics.size(), 1u);
  EXPECT_EQ(started_.mirror_name, "m");
  EXPECT_EQ(started_.topics[0].topic_name, "orders");
  EXPECT_EQ(started_.topics[0].num_partitions, 3);
  EXPECT_EQ(started_.topics[0].topic_id.bytes[0], 6);
  EXPECT_FALSE(started_.discard_local);
  EXPECT_THAT(out_.str(), HasSubstr("Started 1 topic(s) in mirror m: orders"));
}

TEST_F(CommandsTest, StartAllTakesEveryTopicButInternalOnes) {
  arguments_.all = true;
  EXPECT_EQ(RunVerb(Verb::kStart), kDone) << err_.str();
  std::vector<std::string> names;
  for (const auto& topic : started_.topics) names.push_back(topic.topic_name);
  EXPECT_THAT(names, ElementsAre("orders", "payments"));
}

TEST_F(CommandsTest, AnUnknownTopicOrAnUnreachableSourceStartsNothing) {
  arguments_.topics = {"orders", "order"};
  EXPECT_EQ(RunVerb(Verb::kStart), kFailed);
  EXPECT_THAT(err_.str(), HasSubstr("\"order\""));
  source_bootstrap_ = "127.0.0.1:" + std::to_string(DeadPort());
  arguments_.topics = {"orders"};
  EXPECT_EQ(RunVerb(Verb::kStart), kFailed);
  EXPECT_THAT(err_.str(), HasSubstr(source_bootstrap_));
  EXPECT_EQ(destination_.count(StartMirrorTopicsRequest::kApiKey), 0);
}

// A topic that was failed over and written to follows the source again: those writes go.
TEST_F(CommandsTest, AStartAfterAStopNamesWhatWasWrittenSince) {
  ServeMetadata(destination_, "destination-id", {{"orders", 1}, {"payments", 1}});
  HoldOffsets(10, 100);
  Describe([](int) {
    return std::vector<std::pair<std::string, std::vector<std::string>>>{
        {"orders", {"STOPPED at 60"}}, {"payments", {"STOPPED at 99"}}};
  });
  arguments_.all = true;
  EXPECT_EQ(RunVerb(Verb::kStart), kDone) << err_.str();
  EXPECT_THAT(err_.str(), HasSubstr("since the stop"));
  EXPECT_THAT(err_.str(), HasSubstr("orders-0: offsets 60 to 99"));
  EXPECT_THAT(err_.str(), Not(HasSubstr("payments-0"))) << "nothing but the reset of its stop";
}

TEST_F(CommandsTest, DiscardLocalNamesWhatGoesBeforeItAsks) {
  ServeMetadata(destination_, "destination-id", {{"orders", 1}});
  HoldOffsets(10, 100);
  arguments_.topics = {"orders"};
  arguments_.discard_local = true;
  EXPECT_EQ(RunVerb(Verb::kStart), kDone) << err_.str();
  EXPECT_THAT(err_.str(), HasSubstr("orders-0: offsets 10 to 99"));
  EXPECT_TRUE(started_.discard_local);
}

TEST_F(CommandsTest, WhatOneTopicIsRefusedForDoesNotHideTheOthers) {
  destination_.On<StartMirrorTopicsRequest, StartMirrorTopicsResponse>(
      [](const StartMirrorTopicsRequest&, int16_t) {
        StartMirrorTopicsResponse response;
        response.error_code = 138;
        response.topics.push_back({.name = "orders"});
        response.topics.push_back(
            {.name = "payments", .error_code = 138, .error_message = "it belongs to mirror other"});
        return response;
      });
  arguments_.all = true;
  EXPECT_EQ(RunVerb(Verb::kStart), kFailed);
  EXPECT_THAT(out_.str(), HasSubstr("Started 1 topic(s) in mirror m: orders"));
  EXPECT_THAT(err_.str(), HasSubstr("TOPIC_ALREADY_IN_CLUSTER_MIRROR: payments: it belongs to"));
  EXPECT_THAT(err_.str(), HasSubstr("next:"));
}

TEST_F(CommandsTest, StartWaitsUntilEveryPartitionOfTheSourceIsCaughtUp) {
  Describe([](int n) {
    // Two of three partitions are there at first; the third lags before it is done.
    if (n == 0)
      return std::vector<std::pair<std::string, std::vector<std::string>>>{
          {"orders", {"MIRRORING", "MIRRORING"}}};
    if (n == 1)
      return std::vector<std::pair<std::string, std::vector<std::string>>>{
          {"orders", {"MIRRORING", "MIRRORING", "MIRRORING behind"}}};
    return std::vector<std::pair<std::string, std::vector<std::string>>>{
        {"orders", {"MIRRORING", "MIRRORING", "MIRRORING"}}};
  });
  arguments_.topics = {"orders"};
  arguments_.wait_seconds = 30;
  EXPECT_EQ(RunVerb(Verb::kStart), kDone) << err_.str();
  EXPECT_EQ(descriptions_, 3);
  EXPECT_THAT(out_.str(), HasSubstr("MIRRORING and caught up"));
}

TEST_F(CommandsTest, AWaitThatRunsOutIsCodeThreeAndSaysWhatIsMissing) {
  Describe([](int) {
    return std::vector<std::pair<std::string, std::vector<std::string>>>{
        {"orders", {"MIRRORING", "FAILED", "MIRRORING unknown"}}};
  });
  arguments_.topics = {"orders"};
  arguments_.wait_seconds = 0.01;
  EXPECT_EQ(RunVerb(Verb::kStart), kWaitRanOut);
  EXPECT_THAT(err_.str(), HasSubstr("1 of 3 partitions caught up"));
  EXPECT_THAT(err_.str(), HasSubstr("orders-1 is FAILED: the disk is full"));
}

TEST_F(CommandsTest, APartitionThatWillNotBeRetriedEndsTheWaitAtOnce) {
  Describe([](int) {
    return std::vector<std::pair<std::string, std::vector<std::string>>>{
        {"orders", {"MIRRORING", "FAILED for good", "MIRRORING"}}};
  });
  arguments_.topics = {"orders"};
  arguments_.wait_seconds = 3600;
  EXPECT_EQ(RunVerb(Verb::kStart), kFailed);
  EXPECT_THAT(err_.str(), HasSubstr("kmirror recover m"));
}

TEST_F(CommandsTest, StopAllTakesWhatIsNotStoppedYetAndWaitsForStopped) {
  Describe([](int n) {
    return std::vector<std::pair<std::string, std::vector<std::string>>>{
        {"old", {"STOPPED"}},
        {"orders", {n < 2 ? "STOPPING" : "STOPPED"}},
        {"payments", {n < 2 ? "FAILED for good" : "STOPPED"}}};  // a stop takes it over
  });
  arguments_.all = true;
  arguments_.wait_seconds = 30;
  EXPECT_EQ(RunVerb(Verb::kStop), kDone) << err_.str();
  std::vector<std::string> names;
  for (const auto& topic : stopped_.topics) names.push_back(topic.topic_name);
  EXPECT_THAT(names, ElementsAre("orders", "payments"));
  EXPECT_EQ(descriptions_, 3);
}

TEST_F(CommandsTest, NothingToStopIsDone) {
  Describe([](int) {
    return std::vector<std::pair<std::string, std::vector<std::string>>>{{"orders", {"STOPPED"}},
                                                                         {"payments", {"STOPPED"}}};
  });
  arguments_.all = true;
  EXPECT_EQ(RunVerb(Verb::kStop), kDone);
  EXPECT_THAT(out_.str(), HasSubstr("Nothing to stop"));
  EXPECT_EQ(destination_.count(StopMirrorTopicsRequest::kApiKey), 0);
}

TEST_F(CommandsTest, RecoverAllNamesTheTopicsWithFailedPartitions) {
  RecoverMirrorTopicsRequest recovered;
  destination_.On<RecoverMirrorTopicsRequest, RecoverMirrorTopicsResponse>(
      [&](const RecoverMirrorTopicsRequest& request, int16_t) {
        recovered = request;
        return RecoverMirrorTopicsResponse{};
      });
  Describe([](int) {
    return std::vector<std::pair<std::string, std::vector<std::string>>>{
        {"orders", {"MIRRORING", "FAILED"}}, {"payments", {"MIRRORING"}}};
  });
  arguments_.all = true;
  EXPECT_EQ(RunVerb(Verb::kRecover), kDone) << err_.str();
  ASSERT_EQ(recovered.topics.size(), 1u);
  EXPECT_EQ(recovered.topics[0].topic_name, "orders");
}

TEST_F(CommandsTest, ADeleteThatIsRefusedSaysHowToGetThere) {
  destination_.On<DeleteClusterMirrorRequest, DeleteClusterMirrorResponse>(
      [](const DeleteClusterMirrorRequest&, int16_t) {
        DeleteClusterMirrorResponse response;
        response.error_code = 143;
        response.error_message = "orders is mirrored";
        return response;
      });
  EXPECT_EQ(RunVerb(Verb::kDelete), kFailed);
  EXPECT_THAT(err_.str(), HasSubstr("CLUSTER_MIRROR_NOT_EMPTY: orders is mirrored"));
  EXPECT_THAT(err_.str(), HasSubstr("kmirror stop m --all"));
}

TEST_F(CommandsTest, AMirrorNobodyKnowsIsAFailureEverywhere) {
  arguments_.mirror = "nobody";
  for (const Verb verb : {Verb::kDescribe, Verb::kStatus, Verb::kStop}) {
    arguments_.all = true;
    EXPECT_EQ(RunVerb(verb), kFailed) << VerbName(verb);
    EXPECT_THAT(err_.str(), HasSubstr("UNKNOWN_CLUSTER_MIRROR")) << VerbName(verb);
  }
}

TEST_F(CommandsTest, ABrokerThatDoesNotAnswerIsNamedAndTheRestIsShown) {
  ServeMetadata(destination_, "destination-id", {}, /*brokers=*/2);
  Describe([](int) {
    return std::vector<std::pair<std::string, std::vector<std::string>>>{{"orders", {"MIRRORING"}}};
  });
  arguments_.json = true;
  EXPECT_EQ(RunVerb(Verb::kDescribe), kFailed);
  EXPECT_EQ(nlohmann::json::parse(out_.str()).size(), 1u);
  EXPECT_THAT(err_.str(), HasSubstr("broker 2"));
}

TEST_F(CommandsTest, StatusAndListJsonGroupThePartitionsByMirror) {
  Describe([](int) {
    return std::vector<std::pair<std::string, std::vector<std::string>>>{
        {"orders", {"MIRRORING", "MIRRORING behind"}}};
  });
  arguments_.json = true;
  for (const Verb verb : {Verb::kStatus, Verb::kList}) {
    EXPECT_EQ(RunVerb(verb), kDone) << err_.str();
    const auto json = nlohmann::json::parse(out_.str());
    ASSERT_EQ(json.size(), 1u);
    EXPECT_EQ(json[0]["mirror"], "m");
    EXPECT_EQ(json[0]["states"]["MIRRORING"], 2);
    EXPECT_EQ(json[0]["greatestLag"], 12);
    EXPECT_EQ(json[0]["partitions"].size(), 2u);
  }
}

TEST_F(CommandsTest, AConnectionThatBreaksInTheMiddleIsAFailureAndNotAHang) {
  destination_.HangUpOn(ListClusterMirrorsRequest::kApiKey);
  EXPECT_EQ(RunVerb(Verb::kList), kFailed);
  EXPECT_THAT(err_.str(), HasSubstr("closed the connection"));
}

TEST_F(CommandsTest, ApiVersionsNamesKeysAndFeatures) {
  EXPECT_EQ(PrintApiVersions(destination_.address(), arguments_.timeout, out_, err_), kDone);
  EXPECT_THAT(out_.str(), HasSubstr("3 Metadata 0..13"));
  EXPECT_THAT(out_.str(), HasSubstr("98 ListClusterMirrors 0..0"));
  EXPECT_THAT(out_.str(), HasSubstr("feature mirror.version 1"));
  destination_.ClearFeatures();
  out_.str("");
  EXPECT_EQ(PrintApiVersions(destination_.address(), arguments_.timeout, out_, err_), kDone);
  EXPECT_THAT(out_.str(), Not(HasSubstr("ListClusterMirrors")));
}

}  // namespace
}  // namespace kmirror::tools
