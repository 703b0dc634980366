// One shard: which writes it accepts, what it appends, what it believes after a failure.
#include "src/coordinator/state_shard.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "conformance/memory_host/memory_host.h"

namespace kmirror::coordinator {
namespace {

using S = MirrorPartitionState;
using conformance::Fault;
using statemachine::PartitionRecord;
using statemachine::StateWrite;

class StateShardTest : public ::testing::Test {
 protected:
  StateShardTest() : host_(&runtime_), lane_(runtime_.NewLane("coordinator")) {
    host_.state_topic().Ensure([](Status) {});
    runtime_.RunUntilIdle();
    Open();
    runtime_.RunUntilIdle();
  }
  ~StateShardTest() override { shard_.reset(); }

  void Open() {
    shard_ = std::make_unique<StateShard>(0, &host_.state_topic(), &runtime_, lane_.get(),
                                          &options_, [this](int32_t) { ++loads_; });
    shard_->Load();
  }
  StateKey Key(int32_t partition) const { return {"m", {Uuid{{1, 2, 3}}, partition}}; }
  StateWrite To(S state, int32_t leader_epoch = -1, int32_t expected = -1) const {
    StateWrite write;
    write.state = state;
    write.leader_epoch = leader_epoch;
    write.expected_state_epoch = expected;
    return write;
  }
  // Queues a write; its answer appears in the place given back.
  std::shared_ptr<std::optional<Result<PartitionRecord>>> Send(int32_t partition,
                                                               const StateWrite& write) {
    auto answer = std::make_shared<std::optional<Result<PartitionRecord>>>();
    shard_->Write(Key(partition), write,
                  [answer](Result<PartitionRecord> result) { *answer = std::move(result); });
    return answer;
  }
  ErrorCode Write(int32_t partition, const StateWrite& write) {
    auto answer = Send(partition, write);
    runtime_.RunUntil([&] { return answer->has_value(); }, std::chrono::seconds(1));
    EXPECT_TRUE(answer->has_value());
    return (*answer)->status().code();
  }
  size_t Appends() { return host_.state_topic().appends(); }

  conformance::ManualRuntime runtime_;
  conformance::MemoryHost host_;
  std::unique_ptr<host::Lane> lane_;
  Options options_;
  std::unique_ptr<StateShard> shard_;
  int loads_ = 0;
};

TEST_F(StateShardTest, AKeyWithoutARecordIsUnknownOnceLoaded) {
  EXPECT_EQ(loads_, 1);
  ASSERT_TRUE(shard_->Read(Key(0)).ok());
  EXPECT_EQ(shard_->Read(Key(0))->state, S::kUnknown);
}

TEST_F(StateShardTest, ChecksComeInTheirOrder) {  // 1.4
  ASSERT_EQ(Write(0, To(S::kPreparing, 7)), ErrorCode::kNone);
  ASSERT_EQ(Write(0, To(S::kMirroring, 9)), ErrorCode::kNone);
  // Older leader, older state and a transition that does not exist: the leader decides.
  EXPECT_EQ(Write(0, To(S::kPreparing, 8, 0)), ErrorCode::kFencedLeaderEpoch);
  EXPECT_EQ(Write(0, To(S::kPreparing, 9, 1)), ErrorCode::kFencedStateEpoch);
  EXPECT_EQ(Write(0, To(S::kPreparing, 9, 2)), ErrorCode::kInvalidClusterMirrorState);
  EXPECT_EQ(shard_->Read(Key(0))->state_epoch, 2);
  EXPECT_EQ(shard_->Read(Key(0))->leader_epoch, 9);
  EXPECT_EQ(Appends(), 2u) << "a refused write leaves no record";
  // A writer without a leader epoch (recover) does not lower the stored one.
  ASSERT_EQ(Write(0, To(S::kPausing)), ErrorCode::kNone);
  EXPECT_EQ(shard_->Read(Key(0))->leader_epoch, 9);
  // A writer that knows a higher state epoch than is stored is accepted, and the loss is logged.
  ASSERT_EQ(Write(0, To(S::kPaused, 9, 40)), ErrorCode::kNone);
  EXPECT_EQ(shard_->Read(Key(0))->state_epoch, 4);
  EXPECT_EQ(runtime_.CountLines("state-lost"), 1u);
}

TEST_F(StateShardTest, SameStateWritesRaiseTheEpochToo) {
  ASSERT_EQ(Write(0, To(S::kPreparing, 1)), ErrorCode::kNone);
  ASSERT_EQ(Write(0, To(S::kPreparing, 1, 1)), ErrorCode::kNone);
  EXPECT_EQ(shard_->Read(Key(0))->state_epoch, 2);
}

TEST_F(StateShardTest, WritesOfManyKeysShareOneAppendAndOfOneKeyNever) {
  auto a = Send(0, To(S::kPreparing, 1, 0));
  auto b = Send(1, To(S::kPreparing, 1, 0));
  auto c = Send(0, To(S::kMirroring, 1, 1));
  auto d = Send(0, To(S::kPausing, 1, 1));  // decided on the state before c
  auto e = Send(2, To(S::kStopping, 1, 0));
  runtime_.Advance(std::chrono::seconds(1));
  for (const auto& answer : {a, b, c, d, e}) ASSERT_TRUE(answer->has_value());
  EXPECT_TRUE((*a)->ok());
  EXPECT_TRUE((*b)->ok());
  EXPECT_TRUE((*c)->ok());
  EXPECT_EQ((*d)->status().code(), ErrorCode::kFencedStateEpoch);
  EXPECT_TRUE((*e)->ok());
  EXPECT_EQ((**c)->state_epoch, 2);
  EXPECT_EQ(Appends(), 2u);
  EXPECT_EQ(host_.state_topic().records(0).size(), 4u);
  EXPECT_EQ(host_.violations(), std::vector<std::string>());
}

TEST_F(StateShardTest, NothingIsBelievedBeforeTheAppendIsAcknowledged) {
  host_.state_topic().script().Next("Append", Fault::kHoldAnswer);
  auto answer = Send(0, To(S::kPreparing, 1));
  runtime_.Advance(std::chrono::seconds(1));
  EXPECT_FALSE(answer->has_value());
  EXPECT_EQ(shard_->Read(Key(0)).status().code(), ErrorCode::kCoordinatorLoadInProgress)
      << "neither the old record nor the new one is the truth";
  EXPECT_TRUE(shard_->Read(Key(1)).ok());
  EXPECT_EQ(shard_->records().size(), 0u);
  host_.state_topic().script().Release();
  runtime_.RunUntilIdle();
  ASSERT_TRUE(answer->has_value());
  EXPECT_EQ(shard_->Read(Key(0))->state, S::kPreparing);
}

TEST_F(StateShardTest, AFailedAppendMeansNotLoadedUntilTheLogIsReadAgain) {  // R19, R29
  for (const Fault fault : {Fault::kRefuse, Fault::kLoseAnswer}) {
    SCOPED_TRACE(static_cast<int>(fault));
    const int32_t partition = fault == Fault::kRefuse ? 0 : 1;
    host_.state_topic().script().Next("Append", fault, {ErrorCode::kNoSpace, "full"});
    host_.state_topic().script().Always("Replay", Fault::kHold);
    auto answer = Send(partition, To(S::kPreparing, 1));
    auto other = Send(2, To(S::kPreparing, 1));
    runtime_.Advance(std::chrono::milliseconds(11));
    // Decided while the first was in flight or already refused: not loaded either way.
    auto late = Send(3, To(S::kPreparing, 1));
    runtime_.Advance(std::chrono::seconds(10));
    for (const auto& one : {answer, other}) {
      ASSERT_TRUE(one->has_value());
      EXPECT_EQ((*one)->status().code(), ErrorCode::kNoSpace);
    }
    ASSERT_TRUE(late->has_value());
    EXPECT_EQ((*late)->status().code(), ErrorCode::kCoordinatorLoadInProgress);
    EXPECT_FALSE(shard_->loaded());
    EXPECT_EQ(shard_->Read(Key(partition)).status().code(), ErrorCode::kCoordinatorLoadInProgress);
    host_.state_topic().script().Heal("Replay");
    host_.state_topic().script().Release();
    runtime_.RunUntilIdle();
    ASSERT_TRUE(shard_->loaded());
    EXPECT_EQ(shard_->Read(Key(partition))->state,
              fault == Fault::kRefuse ? S::kUnknown : S::kPreparing)
        << "what the log holds is what counts";
  }
}

TEST_F(StateShardTest, AFailingReplayIsTriedAgainAndReadsNothingMeanwhile) {
  ASSERT_EQ(Write(0, To(S::kPreparing, 3)), ErrorCode::kNone);
  host_.state_topic().script().Always("Replay", Fault::kLoseAnswer, {ErrorCode::kIo, "disk"});
  loads_ = 0;
  Open();
  runtime_.Advance(std::chrono::seconds(30));
  EXPECT_EQ(loads_, 0);
  EXPECT_FALSE(shard_->Read(Key(0)).ok());
  EXPECT_EQ(Write(0, To(S::kMirroring, 3)), ErrorCode::kCoordinatorLoadInProgress);
  EXPECT_LT(host_.state_topic().script().calls("Replay"), 30u) << "a backoff lies between";
  host_.state_topic().script().Heal("Replay");
  runtime_.Advance(std::chrono::seconds(10));
  EXPECT_EQ(loads_, 1);
  EXPECT_EQ(shard_->Read(Key(0))->state, S::kPreparing);
}

TEST_F(StateShardTest, ARecordThatDoesNotDecodeKeepsTheShardFromLoading) {
  host_.state_topic().Append(0, {{{1, 2, 3}, std::vector<uint8_t>{4}}}, [](Status) {});
  runtime_.RunUntilIdle();
  loads_ = 0;
  Open();
  runtime_.Advance(std::chrono::seconds(10));
  EXPECT_EQ(loads_, 0);
  EXPECT_GE(runtime_.CountLines("shard-load-failed"), 2u);
}

TEST_F(StateShardTest, TombstonesForgetAndReplayAgrees) {
  ASSERT_EQ(Write(0, To(S::kPreparing, 3)), ErrorCode::kNone);
  ASSERT_EQ(Write(1, To(S::kPreparing, 3)), ErrorCode::kNone);
  int done = 0;
  shard_->Tombstone(Key(0), [&](Status status) { done += status.ok(); });
  shard_->Tombstone(Key(5), [&](Status status) { done += status.ok(); });
  runtime_.Advance(std::chrono::seconds(1));
  EXPECT_EQ(done, 2);
  EXPECT_EQ(shard_->records().size(), 1u);
  EXPECT_FALSE(host_.state_topic().records(0).back().value.has_value());
  const auto before = shard_->records();
  Open();
  runtime_.RunUntilIdle();
  EXPECT_EQ(shard_->records(), before);
  host_.state_topic().Compact(0);
  Open();
  runtime_.RunUntilIdle();
  EXPECT_EQ(shard_->records(), before);
  // A key that was forgotten starts anew.
  ASSERT_EQ(Write(0, To(S::kPreparing, 1, 0)), ErrorCode::kNone);
  EXPECT_EQ(shard_->Read(Key(0))->state_epoch, 1);
}

TEST_F(StateShardTest, AShardThatMovesAwayAnswersEveryWriter) {
  host_.state_topic().script().Next("Append", Fault::kHold);
  auto flying = Send(0, To(S::kPreparing, 1));
  runtime_.Advance(std::chrono::seconds(1));
  auto queued = Send(1, To(S::kPreparing, 1));
  shard_.reset();
  runtime_.RunUntilIdle();
  for (const auto& answer : {flying, queued}) {
    ASSERT_TRUE(answer->has_value());
    EXPECT_EQ((*answer)->status().code(), ErrorCode::kNotCoordinator);
  }
  host_.state_topic().script().Release();
  runtime_.RunUntilIdle();
}

TEST_F(StateShardTest, MoreWritesThanOneAppendTakesGoOnInTheNext) {
  std::vector<std::shared_ptr<std::optional<Result<PartitionRecord>>>> answers;
  for (int32_t i = 0; i < 1203; ++i) answers.push_back(Send(i, To(S::kPreparing, 1)));
  runtime_.Advance(std::chrono::seconds(1));
  for (const auto& answer : answers) {
    ASSERT_TRUE(answer->has_value());
    EXPECT_TRUE((*answer)->ok());
  }
  EXPECT_EQ(Appends(), 3u);
}

}  // namespace
}  // namespace kmirror::coordinator
