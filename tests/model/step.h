// One step of the world: a copy that an event changes, and what the event broke, if anything.
//
// driver.cc moves a broker's memory as src/coordinator's PartitionDriver does, function by
// function, on the production rules. machine.cc is everything around it. invariants.cc says what
// must hold.
#pragma once

#include <string>

#include "tests/model/rules.h"
#include "tests/model/world.h"

namespace kmirror::model {

class Step {
 public:
  Step(const Scope& scope, const Rules& rules, const World& world)
      : w(world), scope_(scope), rules_(rules) {}

  World w;
  std::string broken;  // the invariant that this step broke

  using Event = statemachine::PartitionEvent;

  // --- driver.cc: what a broker's driver does
  void SeeMetadata(int b);
  void ReadState(int b);
  void HearAnswer(int b);
  void EndMutation(int b, bool failed);
  bool Recover(int b);
  void Fail(int b, Reason reason, bool retryable);
  void RetryDue(int b);
  void SourceLost(int b);
  // The next step of the running operation; false: it waits for something.
  bool GoOn(int b);
  // The fetcher's next look at the source; false: nothing to do.
  bool Fetch(int b);
  void LoseFetcherLeader(int b);

  // --- machine.cc: what the world does
  enum class Arrival { kAnswered, kLandedUnanswered, kLate };
  void WriteArrives(int b, Arrival how);
  void LateWriteLands();
  void Replicate(int follower);
  void Kill(int b);
  void DropDriver(int b);

  bool Follows(int f) const;
  bool Replicated(int b) const;          // every in-sync replica holds all of the log
  bool Followed(int b, bool all) const;  // and none holds more
  bool IsLeader(int b) const;            // in truth, and it knows its newest epoch

  // --- invariants.cc
  void Stored(const Packed& before);  // a write landed
  void Mirrored(int b);               // a batch of the source was appended
  void Truncated(int b, const Log& before, bool preparing);
  void CheckAlways();

  void Normalize();

 private:
  void Break(const std::string& what) {
    if (broken.empty()) broken = what;
  }
  void Reconcile(int b);
  void Transition(int b, Event event, const Args& args = {});
  void WriteWithin(int b, Event event, const Args& args = {});
  bool Decide(int b, Event event, const Args& args);
  void Submit(int b);
  void ReadAgain(int b);
  void TakeOver(int b);
  void Enter(int b, statemachine::Action action);
  bool RunDeferred(int b);
  void NewOperation(int b, At at);
  void OnFetching(int b);
  void RaiseEpochAbove(int b, int min, At wait, At then);
  void EpochRaised(int b);
  void ContinueAfterWrite(int b);
  bool PrepareCut(int b);
  bool StopEpoch(int b);
  void AppendMarker(int b, Kind kind);
  statemachine::PartitionRecord Record(int b) const { return w.node[b].record.Record(); }
  DesiredState Wanted(int b) const { return static_cast<DesiredState>(w.node[b].desired); }

  const Scope& scope_;
  const Rules& rules_;
};

// Nothing more happens by itself, and what is wanted is so (coordinator.md 13.9).
bool Arrived(const World& world, const Scope& scope);

}  // namespace kmirror::model
