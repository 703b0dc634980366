// Control requests to the source: what they ask, whom they ask, and how they fail.
#include "src/fetcher/source_cluster_client.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "conformance/memory_host/manual_runtime.h"
#include "messages/describe_cluster_mirrors.h"
#include "messages/list_cluster_mirrors.h"
#include "messages/metadata.h"
#include "src/protocol/body.h"
#include "tests/fetcher/scripted_source.h"

namespace kmirror::fetcher::testing {
namespace {

using namespace std::chrono_literals;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

Uuid Id(uint8_t seed) {
  Uuid id;
  id.bytes.fill(seed);
  return id;
}

class SourceClientTest : public ::testing::Test {
 protected:
  SourceClientTest() : source(&runtime), lane(runtime.NewLane("coordinator")) {
    config.mirror = "m";
    config.bootstrap = {{"nowhere", 1}, ScriptedSource::Address(1)};
    source.brokers = {1, 2, 3};
    source.AddPartition("t", Id(1), 0);
    source.AddPartition("t", Id(1), 1).leader = 2;
    source.AddPartition("u", Id(2), 0).leader_epoch = 9;
    SourceClusterClientFactory factory(&runtime, &source, 7);
    client = factory.Open(std::make_shared<MirrorSourceConfig>(config), lane.get());
  }

  template <typename T, typename F>
  Result<T> Call(F call) {
    std::optional<Result<T>> result;
    call([&result](Result<T> got) {
      EXPECT_FALSE(result.has_value()) << "answered twice";
      result = std::move(got);
    });
    EXPECT_FALSE(result.has_value()) << "answered within the call";
    EXPECT_TRUE(runtime.RunUntil([&] { return result.has_value(); }, 2min));
    return result ? *result : Result<T>(ErrorCode::kTimedOut, "test");
  }
  Result<SourceMetadata> Describe(std::vector<std::string> topics) {
    return Call<SourceMetadata>([&](auto answer) { client->DescribeTopics(topics, answer); });
  }
  Result<host::EpochEnd> Epoch(int32_t leader, int32_t leader_epoch, int32_t epoch) {
    return Call<host::EpochEnd>([&](auto answer) {
      client->EndOffsetForEpoch("t", 0, leader, leader_epoch, epoch, answer);
    });
  }
  Result<SourceMirrorPosition> Positions() {
    return Call<SourceMirrorPosition>([&](auto answer) {
      client->MirrorPositions("us", "t", {Id(1), 0}, answer);
    });
  }

  // What each broker answers to a look-up of t-0: epoch, offset, error; absent: nothing.
  struct LookUp {
    int32_t epoch;
    int64_t offset;
    int16_t error;
  };
  void ServeMirrors(std::vector<std::string> listed_topics, std::map<int32_t, LookUp> lookups,
                    std::string state = "STOPPED") {
    source.features = {{"mirror.version", 1}};
    source.answer = [=](const ScriptedSource::Asked& asked)
        -> std::optional<std::vector<uint8_t>> {
      protocol::Writer out;
      if (asked.api_key == protocol::ListClusterMirrorsRequest::kApiKey) {
        protocol::ListClusterMirrorsResponse response;
        auto& mirror = response.mirrors.emplace_back();
        mirror.mirror_name = "back";
        mirror.source_cluster_id = "us";
        mirror.topic_names = listed_topics;
        (void)protocol::Encode(response, asked.version, out);
        return out.Flatten();
      }
      if (asked.api_key != protocol::DescribeClusterMirrorsRequest::kApiKey) return std::nullopt;
      protocol::DescribeClusterMirrorsRequest request;
      EXPECT_TRUE(protocol::DecodeBody(asked.body, asked.version, &request).ok());
      EXPECT_EQ(request.cluster_id, "us");
      EXPECT_EQ(request.last_mirror_epoch_lookups.at(0).topic_id, Id(1));
      protocol::DescribeClusterMirrorsResponse response;
      if (asked.broker == 1) {
        auto& mirror = response.mirrors.emplace_back();
        mirror.mirror_name = "back";
        auto& topic = mirror.topics.emplace_back();
        topic.topic_name = "t";
        topic.partitions.emplace_back().state_value = state;
      }
      if (const auto it = lookups.find(asked.broker); it != lookups.end()) {
        auto& result = response.lookup_results.emplace_back();
        result.topic_id = Id(1);
        auto& partition = result.partitions.emplace_back();
        partition.partition_index = 0;
        partition.last_mirror_epoch = it->second.epoch;
        partition.last_mirror_offset = it->second.offset;
        partition.error_code = it->second.error;
      }
      (void)protocol::Encode(response, asked.version, out);
      return out.Flatten();
    };
  }

  conformance::ManualRuntime runtime;
  ScriptedSource source;
  std::unique_ptr<host::Lane> lane;
  MirrorSourceConfig config;
  std::unique_ptr<SourceCluster> client;
};

TEST_F(SourceClientTest, DescribesTopicsThroughTheFirstBrokerThatAnswers) {
  const auto metadata = Describe({"t", "gone"});
  ASSERT_TRUE(metadata.ok()) << metadata.status().ToString();
  EXPECT_EQ(metadata->cluster_id, "source-cluster");
  EXPECT_EQ(metadata->brokers.at(2), ScriptedSource::Address(2));
  ASSERT_EQ(metadata->topics.size(), 2u);
  EXPECT_EQ(metadata->topics[0].error, ErrorCode::kUnknownTopicOrPartition);
  EXPECT_EQ(metadata->topics[1].id, Id(1));
  EXPECT_EQ(metadata->topics[1].partitions.at(1).leader_id, 2);
  protocol::MetadataRequest request;
  ASSERT_TRUE(
      protocol::DecodeBody(source.asked[0].body, source.asked[0].version, &request).ok());
  EXPECT_FALSE(request.allow_auto_topic_creation);
  EXPECT_EQ(source.asked[0].client_id, "mirror-src-admin-m-7");
}

TEST_F(SourceClientTest, EveryConnectionIsMadeWithTheTlsOfTheMirror) {
  client->Close();
  config.tls = std::make_shared<const TlsOptions>();
  SourceClusterClientFactory factory(&runtime, &source, 7);
  client = factory.Open(std::make_shared<MirrorSourceConfig>(config), lane.get());
  ASSERT_TRUE(Describe({"t"}).ok());
  source.down = {1};  // then another that metadata named
  source.Cut(1);
  ASSERT_TRUE(Describe({"t"}).ok());
  std::set<HostPort> endpoints;
  for (const ConnectionOptions& options : source.connections_asked) {
    EXPECT_EQ(options.tls, config.tls) << options.endpoint.ToString();
    endpoints.insert(options.endpoint);
  }
  EXPECT_GE(endpoints.size(), 2u);
}

TEST_F(SourceClientTest, NoTopicsMeansNoneAndAllIsAskedForByListing) {
  EXPECT_TRUE(Describe({})->topics.empty());
  const auto names =
      Call<std::vector<std::string>>([&](auto answer) { client->ListTopics(answer); });
  ASSERT_TRUE(names.ok());
  EXPECT_THAT(*names, ElementsAre("t", "u"));
}

TEST_F(SourceClientTest, AnUnreachableSourceIsToldAtOnceWithAddressAndReason) {
  source.down = {1, 2, 3};
  auto metadata = Describe({"t"});
  EXPECT_EQ(metadata.status().code(), ErrorCode::kDisconnected);
  EXPECT_THAT(metadata.status().message(), HasSubstr("broker1:9092"));
  // Within the backoff no new attempt is made.
  const size_t connects = source.connects;
  metadata = Describe({"t"});
  EXPECT_FALSE(metadata.ok());
  EXPECT_EQ(source.connects, connects);
  source.down.clear();
  runtime.Advance(2s);
  EXPECT_TRUE(Describe({"t"}).ok());
}

TEST_F(SourceClientTest, AnotherBrokerAnswersWhenTheUsualOneIsGone) {
  ASSERT_TRUE(Describe({"t"}).ok());
  source.down = {1};
  source.Cut(1);
  const auto metadata = Describe({"t"});
  ASSERT_TRUE(metadata.ok()) << metadata.status().ToString();
  EXPECT_NE(source.asked.back().broker, 1);
}

TEST_F(SourceClientTest, EpochsAreAskedOfTheLeader) {
  source.Append("t", 0, 5);
  source.At("t", 0).leader = 3;
  const auto end = Epoch(3, 0, 0);
  ASSERT_TRUE(end.ok()) << end.status().ToString();
  EXPECT_EQ(end->end_offset, 5);
  EXPECT_EQ(source.asked.back().broker, 3);
  EXPECT_EQ(Epoch(2, 0, 0).status().code(), ErrorCode::kNotLeaderOrFollower);
  EXPECT_EQ(Epoch(3, 4, 0).status().code(), ErrorCode::kUnknownLeaderEpoch);
  EXPECT_EQ(Epoch(55, 0, 0).status().code(), ErrorCode::kBrokerNotAvailable);
}

TEST_F(SourceClientTest, TheFeatureTellsWhoCanMirror) {
  auto features = Call<SourceFeatures>([&](auto answer) { client->Features(answer); });
  ASSERT_TRUE(features.ok());
  EXPECT_FALSE(features->mirrors) << "the keys alone do not tell (R17)";
  const auto mirrors =
      Call<std::vector<SourceMirror>>([&](auto answer) { client->ListMirrors(answer); });
  EXPECT_EQ(mirrors.status().code(), ErrorCode::kUnsupportedVersion);
}

TEST_F(SourceClientTest, TheGreatestPositionOfAllBrokersCounts) {
  ServeMirrors({}, {{1, {4, 70, 0}}, {2, {6, 50, 0}}, {3, {-1, -1, 16}}});
  const auto position = Positions();
  ASSERT_TRUE(position.ok()) << position.status().ToString();
  EXPECT_TRUE(position->authoritative);
  EXPECT_FALSE(position->active);
  EXPECT_EQ(position->last_mirror_epoch, 6);
  EXPECT_EQ(position->last_mirror_offset, 50);
}

TEST_F(SourceClientTest, ABrokerThatHasNotLoadedMakesTheAnswerWorthless) {
  ServeMirrors({}, {{1, {4, 70, 0}}, {2, {-1, -1, 14}}});
  EXPECT_FALSE(Positions()->authoritative);
}

TEST_F(SourceClientTest, SilenceIsNotNeverMirrored) {
  ServeMirrors({}, {{1, {-1, -1, 16}}, {2, {-1, -1, 16}}, {3, {-1, -1, 16}}});
  EXPECT_FALSE(Positions()->authoritative);
  ServeMirrors({}, {});
  EXPECT_FALSE(Positions()->authoritative);
}

TEST_F(SourceClientTest, ABrokerThatCannotBeReachedMakesTheAnswerWorthless) {
  ServeMirrors({}, {{1, {4, 70, 0}}});
  source.down = {3};
  const auto position = Positions();
  ASSERT_TRUE(position.ok());
  EXPECT_FALSE(position->authoritative);
}

TEST_F(SourceClientTest, AMirrorThatStillCopiesFromUsIsActive) {
  ServeMirrors({}, {{1, {4, 70, 0}}}, "STOPPING");
  EXPECT_TRUE(Positions()->active);
  EXPECT_EQ(Positions()->active_state, "STOPPING");
  ServeMirrors({"t"}, {{1, {4, 70, 0}}});
  EXPECT_TRUE(Positions()->active);
}

TEST_F(SourceClientTest, CloseCancelsWhatIsOpenAndWhatComesLater) {
  std::vector<ErrorCode> codes;
  client->DescribeTopics({"t"},
                         [&](Result<SourceMetadata> r) { codes.push_back(r.status().code()); });
  client->Close();
  client->DescribeTopics({"t"},
                         [&](Result<SourceMetadata> r) { codes.push_back(r.status().code()); });
  runtime.RunUntilIdle();
  EXPECT_THAT(codes, ElementsAre(ErrorCode::kCancelled, ErrorCode::kCancelled));
}

TEST_F(SourceClientTest, ARequestWithoutAnAnswerTimesOut) {
  bool hung = false;
  client->Close();
  config.request_timeout_ms = 100;
  SourceClusterClientFactory factory(&runtime, &source, 7);
  client = factory.Open(std::make_shared<MirrorSourceConfig>(config), lane.get());
  source.hang = true;
  client->DescribeTopics({"t"}, [&](Result<SourceMetadata> r) {
    hung = r.status().code() == ErrorCode::kTimedOut;
  });
  runtime.Advance(1s);
  EXPECT_TRUE(hung);
}

TEST_F(SourceClientTest, MayBeDestroyedWithRequestsOpen) {
  client->DescribeTopics({"t"}, [](Result<SourceMetadata>) { ADD_FAILURE() << "answered"; });
  client.reset();
  runtime.Advance(1min);
}

}  // namespace
}  // namespace kmirror::fetcher::testing
