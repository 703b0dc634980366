// A rule or a step is broken on purpose, and the exploration says so, with the shortest way there.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <iostream>

#include "tests/model/explorer.h"
#include "tests/model/scopes.h"

namespace kmirror::model {
namespace {

using ::testing::HasSubstr;
using S = MirrorPartitionState;
using E = statemachine::PartitionEvent;

void ExpectFound(const char* scope, const Rules& rules, const char* invariant) {
  const Exploration found = Explore(Machine(ScopeNamed(scope), rules), 3'000'000);
  EXPECT_NE(found.violation, "") << "not found in " << found.states << " states";
  EXPECT_THAT(found.violation, HasSubstr(invariant)) << found.example;
  std::cout << "found after " << found.example_steps << " steps (" << found.states
            << " states): " << found.violation << "\n"
            << found.example;
}

// --- Rules

TEST(BrokenRule, AStopThatForgetsToStoreThePosition) {
  Rules rules;
  rules.takes_position = [](const statemachine::PartitionRecord&) { return false; };
  ExpectFound("kills between any two steps", rules, "6.1");
}

TEST(BrokenRule, AStopThatTakesThePositionTwice) {
  Rules rules;
  rules.takes_position = [](const statemachine::PartitionRecord& record) {
    return record.progress == statemachine::Progress::kMirrored;
  };
  ExpectFound("kills between any two steps", rules, "9.14");
}

TEST(BrokenRule, ALeaderEpochThatIsNotRaisedAboveTheMirroredOnes) {
  Rules rules;
  rules.stop_floor = [](const statemachine::PartitionRecord&, int32_t, std::optional<int32_t>) {
    return -1;
  };
  rules.position_at_end = [](const statemachine::LogShape& log, int32_t, int32_t leader_epoch) {
    return statemachine::MirrorPosition{leader_epoch, log.end};  // and ours in the position
  };
  ExpectFound("kills between any two steps", rules, "13.3");
}

TEST(BrokenRule, AStopOfAMirroredLogThatIsOnlyAWrite) {
  Rules rules;
  rules.only_a_write = [](const statemachine::PartitionRecord& record) {
    return record.progress != statemachine::Progress::kCutting;
  };
  ExpectFound("kills between any two steps", rules, "6.1");
}

TEST(BrokenRule, AShardThatDoesNotFenceOlderLeaders) {
  Rules rules;
  rules.check = [](const statemachine::PartitionRecord& current,
                   const statemachine::StateWrite& write) -> Status {
    if (write.state != S::kUnknown && !statemachine::CanTransition(current.state, write.state)) {
      return {ErrorCode::kInvalidClusterMirrorState, "not permitted"};
    }
    return Status::Ok();
  };
  ExpectFound("leaders that move", rules, "FAILED without a reason");
}

TEST(BrokenRule, AFailedStopThatIsGivenUp) {
  Rules rules;
  rules.retries = [](const statemachine::PartitionRecord& failed, int max_attempts) {
    return failed.attempt != -1 && failed.attempt < max_attempts;
  };
  ExpectFound("local errors until none is retried", rules, "13.9");
}

TEST(BrokenRule, ASourceThatVanishesAndEndsAHalfFinishedStop) {  // as we had it
  Rules rules;
  rules.source_loss = [](DesiredState desired, const statemachine::PartitionRecord& record) {
    return desired != DesiredState::kStopped && record.state != S::kStopping &&
           (record.state != S::kFailed || record.attempt != -1);
  };
  rules.retries = [](const statemachine::PartitionRecord& failed, int max_attempts) {
    return failed.attempt != -1 &&
           (failed.previous == S::kStopping || failed.attempt < max_attempts);
  };
  ExpectFound("a stop that fails while another broker takes a start", rules, "13.9");
}

TEST(BrokenRule, AStopThatIgnoresFailedPartitions) {  // as the KIP's prototype did
  Rules rules;
  rules.reconcile = [](DesiredState desired, const statemachine::PartitionRecord& record) {
    if (record.state == S::kFailed) return statemachine::Next{std::nullopt, true};
    return statemachine::Reconcile(desired, record);
  };
  ExpectFound("local errors until none is retried", rules, "13.9");
}

TEST(BrokenRule, AnUnknownPositionThatMeansCutEverything) {  // R26
  Rules rules;
  rules.choose_cut = [](statemachine::LogShape log, const statemachine::MirrorPosition& source,
                        const statemachine::PartitionRecord& record) {
    auto cut = statemachine::ChooseStartCut(std::move(log), source, record);
    if (cut.known.IsNone()) {
      cut.next = statemachine::StartCut::Next::kCut;
      cut.cut = 0;
    }
    return cut;
  };
  ExpectFound("records from before the mirror", rules, "R26");
}

TEST(BrokenRule, ARecordThatForgetsThePositionWhenPreparingBegins) {
  Rules rules;
  rules.apply = [](const statemachine::PartitionRecord& current,
                   const statemachine::StateWrite& write) {
    auto next = statemachine::ApplyWrite(current, write);
    if (next.state == S::kPreparing) next.position = {};
    return next;
  };
  ExpectFound("failover and back again", rules, "3.6");
}

TEST(BrokenRule, ANewLeaderThatDoesNotTakeOver) {  // as we had it
  Rules rules;
  rules.must_take_over = [](const statemachine::PartitionRecord&, int32_t) { return false; };
  ExpectFound("failover, clients and back, two brokers", rules, "13.9");
}

// --- Steps of the driver

TEST(BrokenStep, AStateThatIsBelievedBeforeItIsDurable) {
  Rules rules;
  rules.acts_before_answer = true;
  ExpectFound("wishes that change, one broker", rules, "not durable");
}

TEST(BrokenStep, APositionAboveWhatFollowersHold) {
  Rules rules;
  rules.skips_replication = true;
  ExpectFound("leaders that move", rules, "13.4");
}

TEST(BrokenStep, APositionAboveWhatTheDiskHolds) {
  Rules rules;
  rules.skips_sync = true;
  ExpectFound("losses of power", rules, "9.13");
}

TEST(BrokenStep, AStateThatIsReadWhileAWriteIsUnderWay) {  // as we had it
  Rules rules;
  rules.reads_instead_of_resending = true;
  ExpectFound("wishes that change, one broker", rules, "13.1");
}

TEST(BrokenStep, OpenTransactionsThatAreNotAborted) {
  Rules rules;
  rules.skips_abort = true;
  ExpectFound("kills between any two steps", rules, "13.5");
}

TEST(BrokenStep, ACutThatIsNotAnnounced) {
  Rules rules;
  rules.cuts_unannounced = true;
  ExpectFound("failover and back again", rules, "announced");
}

TEST(BrokenStep, AWriteThatIsForcedAfterARefusal) {
  Rules rules;
  rules.resends_without_reading = true;
  ExpectFound("leaders that move", rules, "FAILED without a reason");
}

}  // namespace
}  // namespace kmirror::model
