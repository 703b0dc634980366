// The in-memory host as a whole: what it tells a listener, and what it does when told to fail.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>

#include "conformance/memory_host/memory_host.h"
#include "conformance/mirrored_batches.h"

namespace kmirror::conformance {
namespace {

using testing::ElementsAre;

Uuid Id(uint8_t last) {
  Uuid id;
  id.bytes[15] = last;
  return id;
}

class MemoryHostTest : public testing::Test {
 protected:
  host::Completion Note(std::optional<Status>* answer) {
    return [answer](Status status) { *answer = std::move(status); };
  }

  ManualRuntime runtime_;
  MemoryHost host_{&runtime_};
};

TEST_F(MemoryHostTest, ADeltaComesBeforeTheAnswerOfTheChangeThatMadeIt) {
  std::vector<std::string> order;
  host_.controller().Listen({
      .snapshot = [&](const host::MetadataSnapshot&) { order.push_back("snapshot"); },
      .delta = [&](const host::MetadataDelta&) { order.push_back("delta"); },
  });
  host_.controller().CreateTopic({.name = "t", .partitions = 2}, [&](Status status) {
    EXPECT_TRUE(status.ok());
    order.push_back("answer");
  });
  runtime_.RunUntilIdle();
  EXPECT_THAT(order, ElementsAre("snapshot", "delta", "answer"));
}

TEST_F(MemoryHostTest, DeltasHeldBackHoldTheAnswersBackToo) {
  std::vector<std::string> order;
  host_.controller().Listen(
      {.delta = [&](const host::MetadataDelta&) { order.push_back("delta"); }});
  host_.controller().PauseDeltas(true);
  host_.controller().CreateTopic({.name = "t"}, [&](Status) { order.push_back("answer"); });
  runtime_.RunUntilIdle();
  EXPECT_TRUE(order.empty());
  host_.controller().PauseDeltas(false);
  runtime_.RunUntilIdle();
  EXPECT_THAT(order, ElementsAre("delta", "answer"));
}

TEST_F(MemoryHostTest, AHiddenLogIsNotFoundAndAnElectionElsewhereFencesIt) {
  ASSERT_TRUE(host_.controller().CreateTopicNow({.name = "t", .id = Id(1)}).ok());
  const TopicIdPartition partition{Id(1), 0};
  EXPECT_NE(host_.logs().Find(partition), nullptr);
  host_.logs().Hide(partition, true);
  EXPECT_EQ(host_.logs().Find(partition), nullptr);
  host_.logs().Hide(partition, false);
  const auto log = host_.logs().Find(partition);
  ASSERT_TRUE(host_.controller().ElectNow(partition, 7).ok());
  EXPECT_EQ(host_.logs().Find(partition), nullptr);
  OwnedSet set({DataBatch({})}, 0, 0);
  EXPECT_EQ(log->AppendMirrored(set.get(), nullptr).code, host::AppendCode::kFenced);
}

TEST_F(MemoryHostTest, AStateShardLostAnswersNotCoordinatorAndKeepsItsRecords) {
  std::vector<std::string> told;
  host_.state_topic().Listen({
      .gained =
          [&](int32_t shard) {
            if (shard == 3) told.push_back("gained");
          },
      .lost = [&](int32_t) { told.push_back("lost"); },
  });
  std::optional<Status> answer;
  host_.state_topic().Ensure(Note(&answer));
  host_.state_topic().Append(3, {{{1}, Bytes{2}}}, Note(&answer));
  runtime_.RunUntilIdle();
  ASSERT_TRUE(answer && answer->ok());
  host_.state_topic().Lose(3);
  host_.state_topic().Append(3, {{{1}, Bytes{3}}}, Note(&answer));
  runtime_.RunUntilIdle();
  EXPECT_EQ(answer->code(), ErrorCode::kNotCoordinator);
  host_.state_topic().Gain(3);
  EXPECT_EQ(host_.state_topic().records(3).size(), 1u);
  EXPECT_THAT(told, ElementsAre("gained", "lost", "gained"));
}

TEST_F(MemoryHostTest, AHeldReplayGivesNoRecordBeforeItIsReleased) {
  std::optional<Status> ensured, loaded;
  host_.state_topic().Ensure(Note(&ensured));
  host_.state_topic().Append(0, {{{1}, Bytes{2}}}, Note(&ensured));
  host_.state_topic().script().Next("Replay:0", Fault::kHold);
  int records = 0;
  host_.state_topic().Replay(
      0, [&](ByteView, std::optional<ByteView>) { ++records; }, Note(&loaded));
  runtime_.RunUntilIdle();
  EXPECT_EQ(records, 0);
  EXPECT_FALSE(loaded);
  host_.state_topic().script().Release();
  runtime_.RunUntilIdle();
  EXPECT_EQ(records, 1);
  EXPECT_TRUE(loaded && loaded->ok());
}

TEST_F(MemoryHostTest, PeersReachHandlersAndNobodyElse) {
  host_.peers().SetHandler(2, [](const RequestContext& context, ByteView body,
                                 std::function<void(std::vector<uint8_t>)> respond) {
    EXPECT_EQ(context.api_key, 100);
    respond({body.begin(), body.end()});
  });
  std::optional<Result<std::vector<uint8_t>>> reached, nobody;
  host_.peers().Send(2, 100, 0, {1, 2, 3}, [&](auto answer) { reached = std::move(answer); });
  host_.peers().Send(4, 100, 0, {1, 2, 3}, [&](auto answer) { nobody = std::move(answer); });
  runtime_.RunUntilIdle();
  ASSERT_TRUE(reached && reached->ok());
  EXPECT_THAT(reached->value(), ElementsAre(1, 2, 3));
  ASSERT_TRUE(nobody && !nobody->ok());
  EXPECT_EQ(nobody->status().code(), ErrorCode::kDisconnected);
}

TEST_F(MemoryHostTest, AfterDetachNoPendingCallIsAnswered) {
  bool answered = false;
  host_.controller().script().Next(MemoryController::kCreateTopic, Fault::kHoldAnswer);
  host_.controller().CreateTopic({.name = "t"}, [&](Status) { answered = true; });
  host_.controller().CreateTopic({.name = "u"}, [&](Status) { answered = true; });
  host_.Detach();
  host_.controller().script().Release();
  runtime_.RunUntilIdle();
  EXPECT_FALSE(answered);
  EXPECT_NE(host_.controller().FindTopic("t"), nullptr);
  EXPECT_NE(host_.controller().FindTopic("u"), nullptr);
}

TEST_F(MemoryHostTest, MirrorNamesSayWhatIsWanted) {
  EXPECT_EQ(ParseMirrorName("m").desired, DesiredState::kMirroring);
  EXPECT_EQ(ParseMirrorName("m.paused").desired, DesiredState::kPaused);
  EXPECT_EQ(ParseMirrorName("a.b.removed").mirror, "a.b");
  EXPECT_EQ(ParseMirrorName("a.b.removed").desired, DesiredState::kStopped);
  EXPECT_EQ(ParseMirrorName(".removed").mirror, ".removed");
  EXPECT_EQ(ParseMirrorName("").desired, DesiredState::kNone);
}

}  // namespace
}  // namespace kmirror::conformance
