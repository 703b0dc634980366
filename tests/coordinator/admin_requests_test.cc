// Every admin request in every wrong situation: the answer per topic, and nothing changed by it.
#include "conformance/mirrored_batches.h"
#include "messages/delete_cluster_mirror.h"
#include "messages/list_cluster_mirrors.h"
#include "messages/read_mirror_states.h"
#include "messages/write_mirror_states.h"
#include "tests/coordinator/coordinator_fixture.h"

namespace kmirror::coordinator {
namespace {

using S = MirrorPartitionState;
using conformance::Fault;
using std::chrono::minutes;
using std::chrono::seconds;

class Admin : public CoordinatorTest {
 protected:
  ErrorCode Delete(const std::string& mirror = "m") {
    protocol::DeleteClusterMirrorRequest request;
    request.mirror_name = mirror;
    return static_cast<ErrorCode>(c.Ask<protocol::DeleteClusterMirrorResponse>(request).error_code);
  }
  std::vector<std::string> List() {
    std::vector<std::string> names;
    for (const auto& mirror :
         c.Ask<protocol::ListClusterMirrorsResponse>(protocol::ListClusterMirrorsRequest{})
             .mirrors) {
      names.push_back(mirror.mirror_name);
    }
    return names;
  }
  void OwnTopic(uint8_t seed) {
    host::NewTopic topic;
    topic.name = "t";
    topic.id.bytes.fill(seed);
    ASSERT_TRUE(c.host.controller().CreateTopicNow(topic).ok());
    for (int i = 0; i < 5; ++i) ASSERT_EQ(c.Produce(), ErrorCode::kNone);
  }
};

TEST_F(Admin, RequestsInTheWrongStateChangeNothing) {  // S14
  StartCaughtUp(3, 5);
  const auto unchanged = [&](ErrorCode code, ErrorCode expected, const char* what) {
    EXPECT_EQ(code, expected) << what;
  };
  auto before = std::make_pair(c.State(), c.Log().View().end);
  unchanged(c.Resume(), ErrorCode::kNone, "resume of MIRRORING");
  unchanged(c.Start(), ErrorCode::kNone, "start of MIRRORING");
  c.Advance(seconds(5));
  EXPECT_EQ(before, std::make_pair(c.State(), c.Log().View().end));
  EXPECT_EQ(c.fetching->adds, 1) << "nothing was fetched anew";

  ASSERT_EQ(c.Pause(), ErrorCode::kNone);
  ASSERT_TRUE(c.RunUntilState(S::kPaused));
  unchanged(c.Pause(), ErrorCode::kNone, "pause of PAUSED");
  unchanged(c.Start(), ErrorCode::kMirrorTopicNotStopped, "start of PAUSED");
  c.Advance(seconds(5));
  EXPECT_EQ(c.State(), S::kPaused);

  ASSERT_EQ(c.Stop(), ErrorCode::kNone);
  ASSERT_TRUE(c.RunUntilState(S::kStopped));
  before = std::make_pair(c.State(), c.Log().View().end);
  unchanged(c.Pause(), ErrorCode::kMirrorTopicAlreadyStopped, "pause of STOPPED");
  unchanged(c.Resume(), ErrorCode::kMirrorTopicNotPaused, "resume of STOPPED");
  unchanged(c.Stop(), ErrorCode::kNone, "stop of STOPPED");
  c.Advance(seconds(5));
  EXPECT_EQ(before, std::make_pair(c.State(), c.Log().View().end));
}

TEST_F(Admin, AStartBeforeTheStopIsCompleteIsRefused) {
  StartCaughtUp(3, 5);
  c.Log().script().Next(conformance::MemoryLog::kAppendReset, Fault::kHold);
  ASSERT_EQ(c.Stop(), ErrorCode::kNone);
  ASSERT_TRUE(c.RunUntilState(S::kStopping));
  EXPECT_EQ(c.Start(), ErrorCode::kInvalidClusterMirrorState);
  c.Advance(seconds(1));
  c.Log().script().Release();
  EXPECT_TRUE(c.RunUntilState(S::kStopped));
}

TEST_F(Admin, StartErrorsArePerTopic) {  // S11
  c.source.AddTopic("t");
  c.source.Append("t", 3);
  ASSERT_EQ(c.CreateMirror(), ErrorCode::kNone);
  protocol::StartMirrorTopicsRequest request;
  request.mirror_name = "m";
  request.topics.push_back({.topic_id = {}, .topic_name = "t", .num_partitions = 0});
  request.topics.push_back({.topic_id = {}, .topic_name = "missing", .num_partitions = 0});
  request.topics.push_back({.topic_id = {}, .topic_name = "__internal", .num_partitions = 0});
  c.source.AddTopic("__internal", 1, 0x33);
  const auto response = c.Ask<protocol::StartMirrorTopicsResponse>(request);
  ASSERT_EQ(response.topics.size(), 3u);
  EXPECT_EQ(response.topics[0].error_code, 0);
  EXPECT_EQ(response.topics[1].error_code,
            static_cast<int16_t>(ErrorCode::kUnknownTopicOrPartition));
  EXPECT_EQ(response.topics[2].error_code, static_cast<int16_t>(ErrorCode::kInvalidRequest));
  EXPECT_EQ(response.error_code, response.topics[1].error_code) << "the first failure is on top";
  EXPECT_TRUE(c.RunUntilCaughtUp());
  EXPECT_EQ(c.host.controller().FindTopic("missing"), nullptr);
  EXPECT_EQ(c.host.controller().FindTopic("__internal"), nullptr);
}

TEST_F(Admin, ATopicHasOneMirror) {  // S12
  StartCaughtUp(3, 5);
  ASSERT_EQ(c.CreateMirror("m2"), ErrorCode::kNone);
  EXPECT_EQ(c.Start("t", "m2"), ErrorCode::kTopicAlreadyInClusterMirror);
  EXPECT_EQ(c.Stop("t", "m2"), ErrorCode::kTopicNotInClusterMirror);
  EXPECT_EQ(c.Pause("t", "m2"), ErrorCode::kTopicNotInClusterMirror);
  EXPECT_EQ(c.Start("t", "m"), ErrorCode::kNone);
  c.Advance(minutes(1));
  EXPECT_EQ(c.Path(), "PREPARING MIRRORING");
  EXPECT_EQ(c.fetching->adds, 1);
}

TEST_F(Admin, ANameThatIsTakenHereIsRefusedAndUntouched) {  // S13, S104
  OwnTopic(0x22);
  c.source.AddTopic("t");
  c.source.Append("t", 3);
  ASSERT_EQ(c.CreateMirror(), ErrorCode::kNone);
  const auto before = c.Log().Bytes();
  for (int i = 0; i < 10; ++i) {
    EXPECT_EQ(c.Start(), ErrorCode::kInconsistentTopicId);
    if (i % 3 == 0) {
      c.Kill();
      c.Boot();
      c.runtime.RunUntilIdle();
    }
  }
  EXPECT_EQ(c.Log().Bytes(), before);
  EXPECT_EQ(c.MirrorName(), "");
  EXPECT_EQ(c.Produce(), ErrorCode::kNone);
  // After the operator has deleted it, the name is free.
  ASSERT_TRUE(c.host.controller().DeleteTopicNow(c.Id().topic_id).ok());
  ASSERT_EQ(c.Start(), ErrorCode::kNone);
  EXPECT_TRUE(c.RunUntilCaughtUp());
  EXPECT_EQ(c.Id().topic_id, c.source.topics.at("t").id);
}

TEST_F(Admin, AnIdThatIsTakenHereIsRefused) {
  OwnTopic(0x51);
  c.source.topics["other"] = c.source.AddTopic("t");
  ASSERT_EQ(c.CreateMirror(), ErrorCode::kNone);
  EXPECT_EQ(c.Start("other"), ErrorCode::kTopicAlreadyExists);
  EXPECT_EQ(c.host.controller().FindTopic("other"), nullptr);
}

TEST_F(Admin, NoRequestConjuresAMirror) {  // S107
  c.source.AddTopic("t");
  OwnTopic(0x51);
  EXPECT_EQ(c.Start("t", "ghost"), ErrorCode::kUnknownClusterMirror);
  EXPECT_EQ(c.Stop("t", "ghost"), ErrorCode::kUnknownClusterMirror);
  EXPECT_EQ(c.Pause("t", "ghost"), ErrorCode::kUnknownClusterMirror);
  EXPECT_EQ(c.Resume("t", "ghost"), ErrorCode::kUnknownClusterMirror);
  EXPECT_EQ(Delete("ghost"), ErrorCode::kUnknownClusterMirror);
  EXPECT_EQ(List(), std::vector<std::string>());
  EXPECT_EQ(c.CreateMirror("ghost"), ErrorCode::kNone);
  EXPECT_EQ(List(), std::vector<std::string>{"ghost"});
}

TEST_F(Admin, CreateErrors) {  // S09, S10
  ASSERT_EQ(c.CreateMirror(), ErrorCode::kNone);
  EXPECT_EQ(c.CreateMirror(), ErrorCode::kClusterMirrorAlreadyExists);
  for (const char* name : {"", "a/b", ".", "..", "x.paused", "x.removed"}) {
    EXPECT_EQ(c.CreateMirror(name), ErrorCode::kInvalidRequest) << name;
  }
  EXPECT_EQ(c.CreateMirror(std::string(250, 'a')), ErrorCode::kInvalidRequest);
  EXPECT_EQ(c.CreateMirror("x", {{"no.such.key", "1"}}), ErrorCode::kInvalidConfig);
  EXPECT_EQ(c.CreateMirror("x", {{"source.cluster.id", "memory-cluster-BBBBBBB"}}),
            ErrorCode::kInvalidRequest);
  c.source.reachable = false;
  EXPECT_EQ(c.CreateMirror("x"), ErrorCode::kInvalidRequest) << "the id must be learned, or given";
  EXPECT_EQ(c.CreateMirror("y", {{"source.cluster.id", "later"}}), ErrorCode::kNone);
  EXPECT_EQ(List(), (std::vector<std::string>{"m", "y"}));
  EXPECT_EQ(c.host.controller().FindMirror("m")->configs.at("source.cluster.id"),
            c.source.cluster_id);
}

TEST_F(Admin, SwitchedOffEveryRequestIsUnsupported) {  // S09
  c.host.controller().SetMirrorVersionNow(0);
  c.runtime.RunUntilIdle();
  EXPECT_EQ(c.CreateMirror(), ErrorCode::kUnsupportedVersion);
  EXPECT_EQ(c.Start(), ErrorCode::kUnsupportedVersion);
  EXPECT_EQ(Delete(), ErrorCode::kUnsupportedVersion);
  EXPECT_FALSE(c.host.state_topic().exists());
}

TEST_F(Admin, BytesThatDoNotDecodeAreInvalidForEveryKey) {  // R17
  ASSERT_EQ(c.CreateMirror(), ErrorCode::kNone);
  for (const ServedApi& api : Mirror::Apis()) {
    for (const std::vector<uint8_t>& body :
         {std::vector<uint8_t>{}, std::vector<uint8_t>(3, 0xff), std::vector<uint8_t>(300, 0x01)}) {
      RequestContext context;
      context.api_key = api.key;
      int answers = 0;
      c.mirror->HandleRequest(context, body, [&](std::vector<uint8_t>) { ++answers; });
      c.Advance(seconds(1));
      EXPECT_EQ(answers, 1) << "key " << api.key;
    }
  }
}

TEST_F(Admin, DeleteWaitsForTheStopAndLeavesAnOrdinaryTopic) {  // S07
  StartCaughtUp(3, 5);
  EXPECT_EQ(Delete(), ErrorCode::kClusterMirrorNotEmpty);
  EXPECT_EQ(c.mirror->CheckTopicChange(c.Id().topic_id).code(), ErrorCode::kMirrorTopicNotStopped);
  c.Log().script().Next(conformance::MemoryLog::kAppendReset, Fault::kHold);
  ASSERT_EQ(c.Stop(), ErrorCode::kNone);
  ASSERT_TRUE(c.RunUntilState(S::kStopping));
  EXPECT_EQ(Delete(), ErrorCode::kInvalidClusterMirrorState);
  EXPECT_EQ(c.mirror->CheckTopicChange(c.Id().topic_id).code(), ErrorCode::kMirrorTopicNotStopped);
  c.Advance(seconds(1));
  c.Log().script().Release();
  ASSERT_TRUE(c.RunUntilState(S::kStopped));
  EXPECT_TRUE(c.mirror->CheckTopicChange(c.Id().topic_id).ok());
  EXPECT_EQ(Delete(), ErrorCode::kNone);
  c.Advance(seconds(1));
  EXPECT_EQ(List(), std::vector<std::string>());
  EXPECT_FALSE(c.Stored().has_value()) << "the newest record of the key is a tombstone";
  EXPECT_EQ(c.MirrorName(), "");
  EXPECT_EQ(c.Produce(), ErrorCode::kNone);
}

// The controller does not look whether a mirror exists: a deletion between a start's question and
// its change would leave a topic linked to nothing.
TEST_F(Admin, AStartAndADeletionOfTheMirrorExcludeEachOther) {
  c.source.AddTopic("t");
  ASSERT_EQ(c.CreateMirror(), ErrorCode::kNone);
  auto& script = c.host.controller().script();
  script.Next(conformance::MemoryController::kDeleteMirror, conformance::Fault::kHold);
  protocol::DeleteClusterMirrorRequest deletion;
  deletion.mirror_name = "m";
  c.Send(deletion);
  c.Advance(std::chrono::seconds(1));
  EXPECT_EQ(c.Start(), ErrorCode::kUnknownClusterMirror);
  script.Release();
  ASSERT_TRUE(c.RunUntil([&] { return List().empty(); }));
  EXPECT_EQ(c.host.controller().FindTopic("t"), nullptr);

  ASSERT_EQ(c.CreateMirror(), ErrorCode::kNone);
  script.Next(conformance::MemoryController::kCreateTopic, conformance::Fault::kHold);
  protocol::StartMirrorTopicsRequest start;
  start.mirror_name = "m";
  start.topics.push_back({.topic_id = {}, .topic_name = "t", .num_partitions = 0});
  c.Send(start);
  c.Advance(std::chrono::seconds(1));
  EXPECT_EQ(Delete(), ErrorCode::kInvalidClusterMirrorState);
  script.Release();
  EXPECT_TRUE(c.RunUntilCaughtUp());
}

TEST_F(Admin, TombstonesThatWereNotWrittenAtOnceAreWrittenLater) {  // S08, L27
  StartCaughtUp(3, 5);
  ASSERT_EQ(c.Stop(), ErrorCode::kNone);
  ASSERT_TRUE(c.RunUntilState(S::kStopped));
  c.host.state_topic().script().Next("Append", Fault::kRefuse, {ErrorCode::kNoSpace, "full"});
  ASSERT_EQ(Delete(), ErrorCode::kNone);
  c.Advance(minutes(1));
  EXPECT_FALSE(c.Stored().has_value()) << "after the shard was read again";

  // And when the process dies right after the deletion.
  ASSERT_EQ(c.CreateMirror("m3"), ErrorCode::kNone);
  ASSERT_EQ(c.Start("t", "m3", true), ErrorCode::kNone);
  ASSERT_TRUE(c.RunUntilCaughtUp());
  ASSERT_EQ(c.Stop("t", "m3"), ErrorCode::kNone);
  ASSERT_TRUE(c.RunUntilState(S::kStopped));
  c.host.state_topic().script().Next("Append", Fault::kHold);
  ASSERT_EQ(Delete("m3"), ErrorCode::kNone);
  c.Advance(seconds(1));
  ASSERT_TRUE(c.Stored("t", 0, "m3").has_value());
  c.Kill();
  c.Boot();
  c.Advance(seconds(1));
  EXPECT_FALSE(c.Stored("t", 0, "m3").has_value());
  // The name can be used again, with nothing left over.
  ASSERT_EQ(c.CreateMirror("m3"), ErrorCode::kNone);
  EXPECT_EQ(c.Stored("t", 0, "m3"), std::nullopt);
}

// What this cluster answers as a source: 3.2, R19, R20.
TEST_F(Admin, PositionsAreToldOnlyWhenTheyAreKnown) {
  StartCaughtUp(10, 5);
  ASSERT_EQ(c.Stop(), ErrorCode::kNone);
  ASSERT_TRUE(c.RunUntilState(S::kStopped));
  protocol::DescribeClusterMirrorsRequest request;
  request.cluster_id = c.source.cluster_id;
  request.last_mirror_epoch_lookups.push_back({c.Id().topic_id, {0}});
  auto lookup = [&] {
    return c.Ask<protocol::DescribeClusterMirrorsResponse>(request)
        .lookup_results.at(0)
        .partitions.at(0);
  };
  EXPECT_EQ(lookup().error_code, 0);
  EXPECT_EQ(lookup().last_mirror_epoch, 5);
  EXPECT_EQ(lookup().last_mirror_offset, 10);
  request.cluster_id = "somebody-else";
  EXPECT_EQ(lookup().last_mirror_epoch, -1);
  request.cluster_id = c.source.cluster_id;
  c.Kill();
  c.host.state_topic().script().Always("Replay", Fault::kHold);
  c.Boot();
  c.Advance(seconds(1));
  EXPECT_EQ(lookup().error_code, static_cast<int16_t>(ErrorCode::kCoordinatorLoadInProgress));
  EXPECT_EQ(lookup().last_mirror_epoch, -1);
}

// Broker 1 leads every shard of the state; broker 0 leads the partition. With the same rules (1.4),
// also when requests between them fail, get lost, or were carried out although their answer did not
// come.
TEST(RemoteShards, AStateElsewhereIsReadAndWrittenByTheSameRules) {
  for (const Fault fault : {Fault::kRefuse, Fault::kLoseAnswer}) {
    SCOPED_TRACE(static_cast<int>(fault));
    Cluster keeper(2, 1);
    keeper.Boot();
    ASSERT_EQ(keeper.CreateMirror("m", {{"source.cluster.id", "source-cluster-AAAAAAA"}}),
              ErrorCode::kNone);
    host::NewTopic topic;
    topic.name = "t";
    topic.id.bytes.fill(0x51);
    topic.configs["mirror.name"] = "m";
    ASSERT_TRUE(keeper.host.controller().CreateTopicNow(topic).ok());
    ASSERT_TRUE(keeper.host.controller().ElectNow(keeper.Id(), 0).ok());
    keeper.runtime.RunUntilIdle();

    Cluster c;
    c.host.peers().SetHandler(1, [&](const RequestContext& context, ByteView body,
                                     std::function<void(std::vector<uint8_t>)> respond) {
      std::optional<std::vector<uint8_t>> answer;
      keeper.mirror->HandleRequest(context, body,
                                   [&](std::vector<uint8_t> bytes) { answer = std::move(bytes); });
      ASSERT_TRUE(keeper.RunUntil([&] { return answer.has_value(); }));
      respond(*std::move(answer));
    });
    c.Boot();
    for (int32_t shard = 0; shard < 5; ++shard) c.host.state_topic().Lose(shard);
    ASSERT_EQ(c.CreateMirror(), ErrorCode::kNone);
    const Uuid state = c.host.controller().FindTopic("__mirror_state")->id;
    for (int32_t shard = 0; shard < 5; ++shard) {
      ASSERT_TRUE(c.host.controller().ElectNow({state, shard}, 1).ok());
    }
    c.source.AddTopic("t");
    c.source.Elect("t", 5);
    c.source.AppendTransactional("t", 7, 0, 0);
    auto hurt = [&] {
      for (int i = 0; i < 3; ++i) {
        c.host.peers().script().Next("Send", fault,
                                     {ErrorCode::kDisconnected, "broker 1 went away"});
      }
    };
    hurt();
    ASSERT_EQ(c.Start(), ErrorCode::kNone);
    ASSERT_TRUE(c.RunUntilCaughtUp()) << keeper.Path();
    c.fetching->Stop(c.Id(), fetcher::FetchStop::kLocalError, -1, -1, "disk");
    ASSERT_TRUE(c.RunUntil([&] { return keeper.Stored()->state == S::kFailed; }));
    EXPECT_EQ(keeper.Stored()->attempt, 1);
    EXPECT_EQ(keeper.Stored()->reason, "disk");
    ASSERT_TRUE(c.RunUntilCaughtUp());
    c.fetching->Stop(c.Id(), fetcher::FetchStop::kDiverged, 0, 5);
    ASSERT_TRUE(c.RunUntilState(S::kFailed));
    EXPECT_EQ(keeper.Stored()->attempt, -1) << "not retryable, over the wire as well";
    hurt();
    ASSERT_EQ(c.Stop(), ErrorCode::kNone);
    ASSERT_TRUE(c.RunUntilState(S::kStopped)) << keeper.Path();
    EXPECT_TRUE(keeper.Path().ends_with("FAILED STOPPING STOPPED")) << keeper.Path();
    EXPECT_EQ(keeper.Stored()->position, (statemachine::MirrorPosition{5, 1}));
    EXPECT_EQ(keeper.Stored()->progress, statemachine::Progress::kUntouched);
    EXPECT_EQ(c.Shape(), "0@5 A1@16 R2@16");
    EXPECT_EQ(c.Produce(), ErrorCode::kNone);
    EXPECT_EQ(c.host.state_topic().appends(), 0u);
    // The keeper is gone for a while: nothing is known, so nothing happens.
    c.Kill();
    c.host.peers().script().Always("Send", Fault::kRefuse, {ErrorCode::kDisconnected, "down"});
    c.Boot();
    c.Advance(minutes(1));
    EXPECT_EQ(c.Produce(), ErrorCode::kNotEnoughReplicas);
    c.host.peers().script().Heal("Send");
    EXPECT_TRUE(c.RunUntilState(S::kStopped));
    EXPECT_EQ(c.Produce(), ErrorCode::kNone);
  }
}

}  // namespace
}  // namespace kmirror::coordinator
