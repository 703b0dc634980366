#include "src/statemachine/partition_rules.h"

#include <gtest/gtest.h>

#include <map>
#include <set>

#include "src/statemachine/reconcile.h"
#include "src/statemachine/retry_backoff.h"

namespace kmirror::statemachine {
namespace {

using S = MirrorPartitionState;
using E = PartitionEvent;
using A = Action;

constexpr S kAllStates[] = {S::kUnknown,   S::kPreparing, S::kEpochFencing, S::kUleRecovery,
                            S::kMirroring, S::kPausing,   S::kPaused,       S::kStopping,
                            S::kStopped,   S::kFailed};

PartitionRecord In(S state) {
  PartitionRecord record;
  record.state = state;
  return record;
}

TEST(MirrorPartitionState, HasTheNumbersThatAreStored) {
  EXPECT_EQ(static_cast<int>(S::kUnknown), -1);
  EXPECT_EQ(static_cast<int>(S::kPreparing), 0);
  EXPECT_EQ(static_cast<int>(S::kEpochFencing), 1);
  EXPECT_EQ(static_cast<int>(S::kUleRecovery), 2);
  EXPECT_EQ(static_cast<int>(S::kMirroring), 3);
  EXPECT_EQ(static_cast<int>(S::kPausing), 4);
  EXPECT_EQ(static_cast<int>(S::kPaused), 5);
  EXPECT_EQ(static_cast<int>(S::kStopping), 6);
  EXPECT_EQ(static_cast<int>(S::kStopped), 7);
  EXPECT_EQ(static_cast<int>(S::kFailed), 8);
}

// coordinator.md 2.3, written out by target, independently of the code's switch.
TEST(PartitionTransitions, AreExactlyThoseOfTheSpecification) {
  const std::map<S, std::set<S>> allowed = {
      {S::kPreparing, {S::kUnknown, S::kStopped, S::kFailed}},
      {S::kEpochFencing, {S::kMirroring}},
      {S::kUleRecovery, {S::kMirroring}},
      {S::kMirroring, {S::kPreparing, S::kEpochFencing, S::kUleRecovery, S::kPaused, S::kFailed}},
      {S::kPausing, {S::kMirroring, S::kFailed}},
      {S::kPaused, {S::kPausing}},
      {S::kStopping,
       {S::kUnknown, S::kPreparing, S::kEpochFencing, S::kUleRecovery, S::kMirroring, S::kPausing,
        S::kPaused, S::kFailed}},
      {S::kStopped, {S::kStopping}},
      {S::kFailed,
       {S::kUnknown, S::kPreparing, S::kEpochFencing, S::kUleRecovery, S::kMirroring, S::kPausing,
        S::kPaused, S::kStopping, S::kStopped}},
      {S::kUnknown, {}},
  };
  for (S from : kAllStates) {
    for (S to : kAllStates) {
      const bool expected = (from == to && to != S::kUnknown) || allowed.at(to).contains(from);
      EXPECT_EQ(CanTransition(from, to), expected) << StateName(from) << " -> " << StateName(to);
    }
  }
}

TEST(PartitionRules, NeverLeadWhereTheTransitionTableForbids) {
  for (const Rule& rule : PartitionRules()) {
    EXPECT_TRUE(CanTransition(rule.from, rule.to))
        << StateName(rule.from) << " on " << EventName(rule.on) << " to " << StateName(rule.to);
  }
}

TEST(PartitionRules, RefuseEveryPairThatTheTableLacks) {
  int refused = 0;
  for (S from : kAllStates) {
    for (int event = 0; event < kPartitionEventCount; ++event) {
      const auto on = static_cast<E>(event);
      const auto decision = Decide(In(from), on, {});
      EXPECT_EQ(decision.ok(), FindRule(from, on) != nullptr);
      if (!decision.ok()) {
        EXPECT_EQ(decision.status().code(), ErrorCode::kInvalidClusterMirrorState);
        ++refused;
      }
    }
  }
  EXPECT_EQ(refused, 10 * kPartitionEventCount - static_cast<int>(PartitionRules().size()));
}

TEST(PartitionRules, WhoFindsAStateStoredDoesWhatTheOneWhoStoredItDid) {
  EXPECT_EQ(EntryAction(S::kUnknown), A::kNone);
  for (const Rule& rule : PartitionRules()) {
    if (rule.action == A::kContinue) continue;  // goes on inside the state
    EXPECT_EQ(EntryAction(rule.to), rule.action) << StateName(rule.to);
  }
}

TEST(PartitionRules, EveryStateCanFailAndEveryUnstoppedStateCanStop) {
  for (S from : kAllStates) {
    EXPECT_NE(FindRule(from, E::kFailed), nullptr) << StateName(from);
    const bool stoppable = from != S::kStopped && from != S::kStopping;
    EXPECT_EQ(FindRule(from, E::kStopWanted) != nullptr, stoppable) << StateName(from);
  }
}

TEST(Decide, MarksTheLogAsBeingCutBeforeItIsCut) {
  const auto decision = Decide(In(S::kPreparing), E::kCutChosen, {});
  ASSERT_TRUE(decision.ok());
  EXPECT_EQ(decision->write.state, S::kPreparing);
  EXPECT_EQ(decision->write.progress, Progress::kCutting);
}

TEST(Decide, CountsFailuresUpToTheLimitAndNeverBeyond) {
  PartitionRecord record = In(S::kMirroring);
  for (int i = 1; i <= 5; ++i) {
    const auto decision =
        Decide(record, E::kFailed, {.position = {}, .reason = "disk", .max_attempts = 3});
    ASSERT_TRUE(decision.ok());
    record = ApplyWrite(record, decision->write);
    EXPECT_EQ(record.attempt, std::min(i, 3));
    EXPECT_EQ(record.state, S::kFailed);
    EXPECT_EQ(record.previous, S::kMirroring) << "a re-asserted failure keeps where it came from";
    EXPECT_EQ(record.reason, "disk");
  }
}

TEST(Decide, KeepsANonRetryableFailureForGood) {
  const auto decision =
      Decide(In(S::kMirroring), E::kFailed, {.position = {}, .reason = "gone", .retryable = false});
  const PartitionRecord record = ApplyWrite(In(S::kMirroring), decision->write);
  EXPECT_EQ(record.attempt, PartitionRecord::kNotRetryable);
}

TEST(RetryTarget, MapsEveryPreviousStateToOneThatTheTableAccepts) {
  const std::map<S, S> expected = {
      {S::kUnknown, S::kPreparing},     {S::kPreparing, S::kPreparing},
      {S::kMirroring, S::kMirroring},   {S::kEpochFencing, S::kMirroring},
      {S::kUleRecovery, S::kMirroring}, {S::kPausing, S::kPausing},
      {S::kPaused, S::kPausing},        {S::kStopping, S::kStopping},
      {S::kStopped, S::kPreparing},     {S::kFailed, S::kPreparing}};
  for (S previous : kAllStates) {
    PartitionRecord failed = In(S::kFailed);
    failed.previous = previous;
    EXPECT_EQ(RetryTarget(failed), expected.at(previous)) << StateName(previous);
    const auto decision = Decide(failed, E::kRetryDue, {});
    ASSERT_TRUE(decision.ok());
    EXPECT_TRUE(CheckWrite(failed, decision->write).ok());
    EXPECT_NE(decision->action, A::kNone);
  }
}

TEST(MustTakeOver, WhatAnOlderLeaderHasStored) {
  for (S state : kAllStates) {
    PartitionRecord record = In(state);
    record.leader_epoch = 4;
    EXPECT_EQ(MustTakeOver(record, 5), state != S::kUnknown) << StateName(state);
    EXPECT_FALSE(MustTakeOver(record, 4)) << StateName(state);
    if (state == S::kUnknown) continue;
    record.attempt = 2;
    record.reason = state == S::kPaused || state == S::kStopped ? "" : "why";
    if (record.reason.empty()) record.attempt = 0;
    record.previous = S::kMirroring;
    record.position = {3, 10};
    const auto decision = Decide(record, E::kTakenOver, {});
    ASSERT_TRUE(decision.ok());
    EXPECT_TRUE(CheckWrite(record, decision->write).ok());
    PartitionRecord expected = record;
    ++expected.state_epoch;
    EXPECT_EQ(ApplyWrite(record, decision->write), expected) << StateName(state);
  }
}

TEST(RetriesByItself, UpToTheLimitAndForEverWhileAStopIsUnfinished) {  // 2.5, 6.4
  PartitionRecord failed = In(S::kFailed);
  failed.previous = S::kMirroring;
  failed.attempt = 2;
  EXPECT_TRUE(RetriesByItself(failed, 3));
  EXPECT_FALSE(RetriesByItself(failed, 2));
  EXPECT_FALSE(RetriesByItself(failed, 0)) << "0 disables";
  failed.attempt = PartitionRecord::kNotRetryable;
  EXPECT_FALSE(RetriesByItself(failed, 3));
  failed.previous = S::kStopping;
  EXPECT_TRUE(RetriesByItself(failed, 3)) << "nothing may end a stop half-way";
  failed.attempt = 20;
  EXPECT_TRUE(RetriesByItself(failed, 0));
}

TEST(CheckWrite, FencesAnOlderLeaderFirstThenAnOlderStateEpochThenTheTable) {
  PartitionRecord current = In(S::kStopped);
  current.leader_epoch = 7;
  current.state_epoch = 4;
  StateWrite write;
  write.state = S::kMirroring;  // also not permitted from STOPPED
  write.leader_epoch = 6;
  write.expected_state_epoch = 3;
  EXPECT_EQ(CheckWrite(current, write).code(), ErrorCode::kFencedLeaderEpoch);
  write.leader_epoch = 7;
  EXPECT_EQ(CheckWrite(current, write).code(), ErrorCode::kFencedStateEpoch);
  write.expected_state_epoch = 4;
  EXPECT_EQ(CheckWrite(current, write).code(), ErrorCode::kInvalidClusterMirrorState);
  write.state = S::kPreparing;
  EXPECT_TRUE(CheckWrite(current, write).ok());
}

TEST(CheckWrite, AcceptsAWriterThatKnowsMoreThanAShardThatLostItsTail) {
  PartitionRecord current = In(S::kMirroring);
  current.state_epoch = 2;
  StateWrite write;
  write.state = S::kPausing;
  write.expected_state_epoch = 5;
  EXPECT_TRUE(CheckWrite(current, write).ok());
}

TEST(ApplyWrite, RaisesTheStateEpochWithEveryWriteAndKeepsTheHighestLeaderEpoch) {
  PartitionRecord record = In(S::kMirroring);
  record.leader_epoch = 9;
  StateWrite write;
  write.state = S::kMirroring;
  write.leader_epoch = -1;
  const PartitionRecord next = ApplyWrite(record, write);
  EXPECT_EQ(next.state_epoch, 1);
  EXPECT_EQ(next.leader_epoch, 9);
}

TEST(ApplyWrite, KeepsTheAgreedPositionUntilPreparingIsOver) {
  PartitionRecord record = In(S::kStopped);
  record.position = {5, 100};
  StateWrite write;
  write.state = S::kPreparing;
  record = ApplyWrite(record, write);
  EXPECT_EQ(record.position, (MirrorPosition{5, 100}));
  write.state = S::kMirroring;
  record = ApplyWrite(record, write);
  EXPECT_TRUE(record.position.IsNone());
}

TEST(ApplyWrite, ForgetsFailuresOnlyWhereTheSpecificationSaysSo) {
  PartitionRecord failed = In(S::kFailed);
  failed.attempt = 4;
  failed.reason = "why";
  failed.previous = S::kPreparing;
  StateWrite write;
  write.state = S::kPreparing;
  EXPECT_EQ(ApplyWrite(failed, write).attempt, 4) << "a retry keeps the backoff growing";
  PartitionRecord stopped = failed;
  stopped.state = S::kStopped;
  EXPECT_EQ(ApplyWrite(stopped, write).attempt, 0) << "a new start begins afresh";
  PartitionRecord mirroring = failed;
  mirroring.state = S::kMirroring;
  write = Decide(mirroring, E::kDataFlows, {})->write;
  EXPECT_EQ(ApplyWrite(mirroring, write).attempt, 0);
  EXPECT_EQ(ApplyWrite(mirroring, write).reason, "");
}

struct ReconcileCase {
  DesiredState desired;
  S state;
  S previous;
  std::optional<E> event;
  bool reassert;
};

TEST(Reconcile, FollowsTheOrderOfTheSpecificationForEveryPair) {
  const auto n = S::kUnknown;
  const std::vector<ReconcileCase> cases = {
      {DesiredState::kStopped, S::kStopped, n, std::nullopt, true},
      {DesiredState::kStopped, S::kStopping, n, std::nullopt, true},
      {DesiredState::kStopped, S::kMirroring, n, E::kStopWanted, false},
      {DesiredState::kStopped, S::kUnknown, n, E::kStopWanted, false},
      {DesiredState::kStopped, S::kPaused, n, E::kStopWanted, false},
      {DesiredState::kStopped, S::kPausing, n, E::kStopWanted, false},
      {DesiredState::kStopped, S::kPreparing, n, E::kStopWanted, false},
      {DesiredState::kStopped, S::kEpochFencing, n, E::kStopWanted, false},
      {DesiredState::kStopped, S::kUleRecovery, n, E::kStopWanted, false},
      {DesiredState::kStopped, S::kFailed, S::kMirroring, E::kStopWanted, false},
      {DesiredState::kStopped, S::kFailed, S::kStopping, std::nullopt, true},
      {DesiredState::kPaused, S::kPaused, n, std::nullopt, true},
      {DesiredState::kPaused, S::kPausing, n, std::nullopt, true},
      {DesiredState::kPaused, S::kMirroring, n, E::kPauseWanted, false},
      {DesiredState::kPaused, S::kPreparing, n, std::nullopt, true},
      {DesiredState::kPaused, S::kUnknown, n, std::nullopt, false},
      {DesiredState::kPaused, S::kFailed, S::kMirroring, std::nullopt, true},
      {DesiredState::kPaused, S::kEpochFencing, n, std::nullopt, true},
      {DesiredState::kMirroring, S::kUnknown, n, E::kStartWanted, false},
      {DesiredState::kMirroring, S::kStopped, n, E::kStartWanted, false},
      {DesiredState::kMirroring, S::kPaused, n, E::kResumeWanted, false},
      {DesiredState::kMirroring, S::kMirroring, n, std::nullopt, true},
      {DesiredState::kMirroring, S::kStopping, n, std::nullopt, true},
      {DesiredState::kMirroring, S::kPausing, n, std::nullopt, true},
      {DesiredState::kMirroring, S::kFailed, S::kMirroring, std::nullopt, true},
      {DesiredState::kNone, S::kMirroring, n, std::nullopt, false},
  };
  for (const ReconcileCase& c : cases) {
    PartitionRecord record = In(c.state);
    record.previous = c.previous;
    const Next next = Reconcile(c.desired, record);
    EXPECT_EQ(next.event, c.event) << static_cast<int>(c.desired) << ' ' << StateName(c.state);
    EXPECT_EQ(next.reassert, c.reassert)
        << static_cast<int>(c.desired) << ' ' << StateName(c.state);
    if (next.event) {
      EXPECT_NE(FindRule(c.state, *next.event), nullptr);
    }
  }
}

TEST(Reconcile, OnlyAsksForEventsThatTheTablePermits) {
  for (DesiredState desired : {DesiredState::kNone, DesiredState::kMirroring, DesiredState::kPaused,
                               DesiredState::kStopped}) {
    for (S state : kAllStates) {
      for (S previous : kAllStates) {
        PartitionRecord record = In(state);
        record.previous = previous;
        const Next next = Reconcile(desired, record);
        if (next.event) {
          EXPECT_NE(FindRule(state, *next.event), nullptr);
        }
      }
    }
  }
}

TEST(SourceLossFails, WhatStillNeedsASource) {  // 4.4, R11
  for (S state : kAllStates) {
    PartitionRecord record = In(state);
    EXPECT_FALSE(SourceLossFails(DesiredState::kStopped, record)) << StateName(state);
    EXPECT_EQ(SourceLossFails(DesiredState::kMirroring, record), state != S::kStopping)
        << StateName(state);
    EXPECT_EQ(SourceLossFails(DesiredState::kPaused, record), state != S::kStopping)
        << StateName(state);
  }
  PartitionRecord failed = In(S::kFailed);
  failed.previous = S::kMirroring;
  failed.attempt = 3;
  EXPECT_TRUE(SourceLossFails(DesiredState::kMirroring, failed));
  failed.attempt = PartitionRecord::kNotRetryable;
  EXPECT_FALSE(SourceLossFails(DesiredState::kMirroring, failed)) << "the first reason stays";
  failed.attempt = 3;
  failed.previous = S::kStopping;
  EXPECT_FALSE(SourceLossFails(DesiredState::kMirroring, failed)) << "the stop is finished first";
}

TEST(RetryDelay, DoublesFromTheInitialToTheCapWithinTwentyPercent) {
  using std::chrono::milliseconds;
  const milliseconds initial(100), cap(300000);
  EXPECT_EQ(RetryDelay(initial, cap, 1, 0), milliseconds(160));
  EXPECT_NEAR(RetryDelay(initial, cap, 1, UINT64_MAX / 2).count(), 200, 1);
  EXPECT_LE(RetryDelay(initial, cap, 1, UINT64_MAX), milliseconds(240));
  EXPECT_LE(RetryDelay(initial, cap, 60, UINT64_MAX), milliseconds(360000));
  EXPECT_GE(RetryDelay(initial, cap, 60, 0), milliseconds(240000));
  EXPECT_GE(RetryDelay(initial, cap, -3, 0), milliseconds(80));
}

}  // namespace
}  // namespace kmirror::statemachine
