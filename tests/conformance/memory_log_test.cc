// What the in-memory log adds to the seam: replicas moved by hand and planned faults. The rules of
// the seam itself are in the conformance suite.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>

#include "conformance/memory_host/manual_runtime.h"
#include "conformance/memory_host/memory_log.h"
#include "conformance/mirrored_batches.h"

namespace kmirror::conformance {
namespace {

using host::AppendCode;
using std::chrono::seconds;

class MemoryLogTest : public testing::Test {
 protected:
  MemoryLogTest() { log_.Elect(16, /*mirrored=*/true); }

  void Mirror(std::vector<Bytes> batches) {
    OwnedSet set(std::move(batches), log_.View().end, 16);
    ASSERT_EQ(log_.AppendMirrored(set.get(), nullptr).code, AppendCode::kOk);
  }
  host::Completion Note(std::optional<Status>* answer) {
    return [answer](Status status) { *answer = std::move(status); };
  }

  ManualRuntime runtime_;
  std::unique_ptr<host::Lane> lane_ = runtime_.NewLane("host");
  MemoryLog log_{&runtime_, lane_.get(), /*inline_answers=*/false};
};

TEST_F(MemoryLogTest, TheHighWatermarkFollowsTheSlowestInSyncReplica) {
  log_.SetFollowers({{.automatic = false, .end = 0}, {}});
  Mirror({DataBatch({.base_offset = 0, .leader_epoch = 5}, 10)});
  EXPECT_EQ(log_.View().high_watermark, 0);
  log_.SetFollowerEnd(0, 4);
  EXPECT_EQ(log_.View().high_watermark, 4);
  log_.SetInSync(0, false);
  EXPECT_EQ(log_.View().high_watermark, 10);
}

TEST_F(MemoryLogTest, BelowMinInSyncAMarkerIsRefusedAndNothingIsAppended) {
  Mirror(
      {DataBatch({.base_offset = 0, .leader_epoch = 5, .producer_id = 9, .transactional = true})});
  log_.SetMinInSync(2);
  std::optional<Status> answer;
  log_.AppendAbort(log_.OpenTransactions().at(0), 16, Note(&answer));
  runtime_.RunUntilIdle();
  ASSERT_TRUE(answer);
  EXPECT_EQ(answer->code(), ErrorCode::kNotEnoughReplicas);
  EXPECT_EQ(log_.View().end, 1);
}

TEST_F(MemoryLogTest, AMarkerNotReplicatedInTimeIsAnsweredSoAndStandsInTheLog) {
  log_.SetFollowers({{.automatic = false, .end = 1}});
  Mirror(
      {DataBatch({.base_offset = 0, .leader_epoch = 5, .producer_id = 9, .transactional = true})});
  log_.SetFollowerEnd(0, 1);
  std::optional<Status> answer;
  log_.AppendAbort(log_.OpenTransactions().at(0), 16, Note(&answer));
  runtime_.Advance(seconds(4));
  EXPECT_FALSE(answer);
  runtime_.Advance(seconds(1));
  ASSERT_TRUE(answer);
  EXPECT_EQ(answer->code(), ErrorCode::kNotEnoughReplicas);
  EXPECT_TRUE(log_.OpenTransactions().empty());
  EXPECT_EQ(log_.View().last_stable_offset, 0);  // the marker counts once it is replicated
  log_.SetFollowerEnd(0, 2);
  EXPECT_EQ(log_.View().last_stable_offset, 2);
}

TEST_F(MemoryLogTest, AwaitTruncatedWantsAFetchAfterTheCutFromEveryInSyncReplica) {
  log_.SetFollowers({{.automatic = false, .end = 10}});
  Mirror({DataBatch({.base_offset = 0, .leader_epoch = 5}, 5),
          DataBatch({.base_offset = 5, .leader_epoch = 5}, 5)});
  std::optional<Status> cut;
  log_.Truncate(5, 16, Note(&cut));
  std::optional<Status> all_followed;
  log_.AwaitTruncated(false, 16, Note(&all_followed));
  runtime_.Advance(seconds(60));
  ASSERT_TRUE(cut && cut->ok());
  EXPECT_FALSE(all_followed);
  log_.SetFollowerEnd(0, 5);
  runtime_.RunUntilIdle();
  ASSERT_TRUE(all_followed);
  EXPECT_TRUE(all_followed->ok());
}

TEST_F(MemoryLogTest, WithAllReplicasRequiredOneOutsideTheInSyncSetHoldsTheAnswerBack) {
  log_.SetFollowers({{.in_sync = false}});
  std::optional<Status> in_sync_only;
  std::optional<Status> all;
  log_.AwaitTruncated(false, 16, Note(&in_sync_only));
  log_.AwaitTruncated(true, 16, Note(&all));
  runtime_.RunUntilIdle();
  EXPECT_TRUE(in_sync_only);
  EXPECT_FALSE(all);
  log_.SetInSync(0, true);
  runtime_.RunUntilIdle();
  EXPECT_TRUE(all);
}

TEST_F(MemoryLogTest, AnElectionFencesWaitsOfTheOldEpoch) {
  log_.SetFollowers({{.automatic = false}});
  Mirror({DataBatch({.base_offset = 0, .leader_epoch = 5})});
  std::optional<Status> answer;
  log_.AwaitReplicated(16, Note(&answer));
  log_.Elect(17, true);
  runtime_.RunUntilIdle();
  ASSERT_TRUE(answer);
  EXPECT_EQ(answer->code(), ErrorCode::kFencedLeaderEpoch);
}

TEST_F(MemoryLogTest, PlannedAppendFaultsAnswerInOrderAndChangeNothing) {
  log_.FailNextAppend(AppendCode::kNoSpace);
  log_.FailNextAppend(AppendCode::kIo);
  OwnedSet set({DataBatch({.base_offset = 0, .leader_epoch = 5})}, 0, 16);
  EXPECT_EQ(log_.AppendMirrored(set.get(), nullptr).code, AppendCode::kNoSpace);
  EXPECT_EQ(log_.AppendMirrored(set.get(), nullptr).code, AppendCode::kIo);
  EXPECT_EQ(log_.View().end, 0);
  EXPECT_EQ(log_.AppendMirrored(set.get(), nullptr).code, AppendCode::kOk);
  EXPECT_EQ(log_.View().end, 1);
}

TEST_F(MemoryLogTest, AHeldAppendHappensWhenItIsCompletedAndAnotherMutatorMeanwhileIsNoted) {
  struct Noted final : host::AppendDone {
    void Done(host::AppendResult r) noexcept override { result = r; }
    std::optional<host::AppendResult> result;
  } done;
  log_.HoldAppends(true);
  OwnedSet set({DataBatch({.base_offset = 0, .leader_epoch = 5}, 3)}, 0, 16);
  EXPECT_EQ(log_.AppendMirrored(set.get(), &done).code, AppendCode::kPending);
  EXPECT_EQ(log_.View().end, 0);
  EXPECT_TRUE(log_.violations().empty());
  log_.Truncate(0, 16, [](Status) {});
  EXPECT_EQ(log_.violations().size(), 1u);
  log_.CompleteAppend();
  ASSERT_TRUE(done.result);
  EXPECT_EQ(done.result->code, AppendCode::kOk);
  EXPECT_EQ(log_.View().end, 3);
}

TEST_F(MemoryLogTest, ACrashTakesWhatWasNotSyncedAndNothingElse) {
  Mirror({DataBatch({.base_offset = 0, .leader_epoch = 5}, 3)});
  log_.Sync([](Status) {});
  Mirror({DataBatch({.base_offset = 3, .leader_epoch = 5}, 3)});
  log_.LoseTail(0);
  EXPECT_EQ(log_.View().end, 3);
}

TEST_F(MemoryLogTest, ScriptedCallsFailLoseTheirAnswerOrWait) {
  std::optional<Status> refused, lost, held;
  log_.script().Next(MemoryLog::kTruncate, Fault::kRefuse, {ErrorCode::kIo, "planned"});
  log_.script().Next(MemoryLog::kTruncate, Fault::kLoseAnswer, {ErrorCode::kIo, "planned"});
  log_.script().Next(MemoryLog::kTruncate, Fault::kHold);
  Mirror({DataBatch({.base_offset = 0, .leader_epoch = 5}),
          DataBatch({.base_offset = 1, .leader_epoch = 5}),
          DataBatch({.base_offset = 2, .leader_epoch = 5})});
  log_.Truncate(2, 16, Note(&refused));
  EXPECT_EQ(log_.View().end, 3);
  log_.Truncate(2, 16, Note(&lost));
  EXPECT_EQ(log_.View().end, 2);
  log_.Truncate(1, 16, Note(&held));
  runtime_.RunUntilIdle();
  EXPECT_FALSE(held);
  EXPECT_EQ(log_.View().end, 2);
  EXPECT_EQ(refused->code(), ErrorCode::kIo);
  EXPECT_EQ(lost->code(), ErrorCode::kIo);
  EXPECT_EQ(log_.script().Release(), 1u);
  runtime_.RunUntilIdle();
  ASSERT_TRUE(held);
  EXPECT_TRUE(held->ok());
  EXPECT_EQ(log_.View().end, 1);
  EXPECT_EQ(log_.script().calls("Truncate"), 3u);
  EXPECT_EQ(log_.script().calls("Truncate:2"), 2u);
}

}  // namespace
}  // namespace kmirror::conformance
