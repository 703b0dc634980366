// Every call of the host and of the source fails once, answers late, or loses its answer, at every
// place of a start and of a stop; wishes change faster than they can be fulfilled. The end is what
// was wanted, and on the way nothing is opened, cut or written that must not be.
#include <set>

#include "tests/coordinator/coordinator_fixture.h"
#include "tests/coordinator/invariants.h"

namespace kmirror::coordinator {
namespace {

using S = MirrorPartitionState;
using conformance::CallScript;
using conformance::Fault;
using conformance::MemoryController;
using conformance::MemoryLog;
using conformance::MemoryStateTopic;
using std::chrono::milliseconds;
using std::chrono::minutes;
using std::chrono::seconds;

enum class Where { kController, kState, kLog, kSource };

struct Target {
  Where where;
  const char* op;
  std::vector<ErrorCode> errors;
};

const std::vector<Target>& Targets() {
  using enum ErrorCode;
  static const std::vector<Target> all = {
      {Where::kController, MemoryController::kSetMirrorNames, {kNotController, kTimedOut}},
      {Where::kController, MemoryController::kBumpLeaderEpochs, {kNotController, kTimedOut, kIo}},
      {Where::kController,
       MemoryController::kRaiseProducerIdFloor,
       {kNotController, kTimedOut, kIo}},
      {Where::kState, MemoryStateTopic::kAppend, {kNoSpace, kIo, kTimedOut, kNotCoordinator}},
      {Where::kLog, MemoryLog::kTruncate, {kIo, kNoSpace, kFencedLeaderEpoch}},
      {Where::kLog, MemoryLog::kAwaitTruncated, {kFencedLeaderEpoch, kNotEnoughReplicas}},
      {Where::kLog, MemoryLog::kAwaitReplicated, {kNotEnoughReplicas, kFencedLeaderEpoch, kIo}},
      {Where::kLog,
       MemoryLog::kAppendAbort,
       {kNotEnoughReplicas, kIo, kNoSpace, kTimedOut, kFencedLeaderEpoch}},
      {Where::kLog,
       MemoryLog::kAppendReset,
       {kNotEnoughReplicas, kIo, kNoSpace, kTimedOut, kFencedLeaderEpoch}},
      {Where::kLog, MemoryLog::kSync, {kIo, kNoSpace}},
      {Where::kSource, SourceModel::kDescribe, {kDisconnected, kTimedOut}},
      {Where::kSource, SourceModel::kFeatures, {kDisconnected, kTimedOut}},
      {Where::kSource, SourceModel::kListMirrors, {kDisconnected, kTimedOut, kUnsupportedVersion}},
      {Where::kSource,
       SourceModel::kPositions,
       {kDisconnected, kCoordinatorLoadInProgress, kUnsupportedVersion}},
      {Where::kSource,
       SourceModel::kEpochEnd,
       {kDisconnected, kTimedOut, kNotLeaderOrFollower, kFencedLeaderEpoch, kUnknownLeaderEpoch,
        kUnknownServerError}},
  };
  return all;
}

// A second life of the topic: own position 3, local records above it; then a start that must cut
// and raise the epoch, and a stop with two open transactions that must raise it again.
class Story {
 public:
  Story() {
    c.Boot();
    c.source.AddTopic("t");
    c.source.Elect("t", 5);
    c.source.Append("t", 3);
    EXPECT_EQ(c.CreateMirror(), ErrorCode::kNone);
    EXPECT_EQ(c.Start(), ErrorCode::kNone);
    EXPECT_TRUE(c.RunUntilCaughtUp());
    EXPECT_EQ(c.Stop(), ErrorCode::kNone);
    EXPECT_TRUE(c.RunUntilState(S::kStopped));
    EXPECT_EQ(c.Produce(), ErrorCode::kNone);
    c.source.Elect("t", 14);
    c.source.AppendTransactional("t", 71, 4, 0);
    c.source.AppendTransactional("t", 72, 0, 0);
    c.source.Append("t");
  }

  CallScript& Script(Where where) {
    switch (where) {
      case Where::kController: return c.host.controller().script();
      case Where::kState: return c.host.state_topic().script();
      case Where::kLog: return c.Log().script();
      case Where::kSource: break;
    }
    return c.source.script;
  }

  // Runs with the invariants checked after every task; `each` runs there too.
  bool Watch(const std::function<bool()>& condition, std::chrono::nanoseconds span = minutes(5)) {
    return c.RunUntil(
        [&] {
          CheckAlways(c, "t");
          if (each) each();
          return condition();
        },
        span);
  }
  // The operator asks until the answer is good; requests run inside Watch's checks too.
  void Want(const std::function<ErrorCode()>& ask) {
    for (int i = 0; i < 20; ++i) {
      if (each) each();
      if (ask() == ErrorCode::kNone) return;
      Watch([] { return false; }, milliseconds(500));
    }
    ADD_FAILURE() << "never accepted";
  }
  bool CaughtUp() {
    return Watch([&] {
      return c.State() == S::kMirroring && c.fetching->Assigned(c.Id()) &&
             c.Log().View().end == c.source.Log("t").View().end;
    });
  }
  void StartAndStop() {
    Want([&] { return c.Start(); });
    EXPECT_TRUE(CaughtUp()) << Where_();
    c.source.Elect("t", 17);
    Watch([] { return false; }, seconds(31));
    Want([&] { return c.Stop(); });
    EXPECT_TRUE(Watch([&] { return c.State() == S::kStopped; })) << Where_();
    Watch([] { return false; }, minutes(2));
    EXPECT_EQ(c.State(), S::kStopped);
    CheckStopped(c, "t", 0, {71, 72});
    EXPECT_EQ(c.Produce(), ErrorCode::kNone);
    EXPECT_EQ(c.host.violations(), std::vector<std::string>());
  }
  std::string Where_() {
    return c.Path() + " | " + c.Shape() + " | " + c.Describe().step + " | " +
           c.Describe().error_message.value_or("");
  }

  Cluster c;
  std::function<void()> each;
};

// How often the undisturbed story makes the call, from its start on.
size_t CallsOf(const Target& target) {
  Story story;
  const size_t before = story.Script(target.where).calls(target.op);
  story.StartAndStop();
  return story.Script(target.where).calls(target.op) - before;
}

// Arms `fault` for the `nth` call from now on.
std::function<void()> Arm(Story& story, const Target& target, size_t nth, Fault fault,
                          ErrorCode error) {
  const size_t before = story.Script(target.where).calls(target.op);
  auto armed = std::make_shared<bool>(false);
  return [&story, &target, nth, fault, error, before, armed] {
    if (*armed || story.Script(target.where).calls(target.op) + 1 < before + nth) return;
    *armed = true;
    story.Script(target.where).Next(target.op, fault, {error, "injected"});
  };
}

TEST(CoordinatorFaults, EveryCallMayFailOnceOrLoseItsAnswer) {
  for (const Target& target : Targets()) {
    const size_t calls = CallsOf(target);
    EXPECT_GE(calls, 1u) << target.op << " is never called";
    for (size_t nth = 1; nth <= std::min<size_t>(calls, 7); ++nth) {
      for (const ErrorCode error : target.errors) {
        for (const Fault fault : {Fault::kRefuse, Fault::kLoseAnswer}) {
          SCOPED_TRACE(std::string(target.op) + " call " + std::to_string(nth) + " " +
                       ErrorName(error) + (fault == Fault::kRefuse ? " refused" : " answer lost"));
          Story story;
          story.each = Arm(story, target, nth, fault, error);
          story.StartAndStop();
          if (::testing::Test::HasFailure()) return;
        }
      }
    }
  }
}

TEST(CoordinatorFaults, EveryCallMayAnswerLateAfterTheEpochRose) {
  for (const Target& target : Targets()) {
    const size_t calls = std::min<size_t>(CallsOf(target), 7);
    for (size_t nth = 1; nth <= calls; ++nth) {
      for (const Fault fault : {Fault::kHold, Fault::kHoldAnswer}) {
        SCOPED_TRACE(std::string(target.op) + " call " + std::to_string(nth) +
                     (fault == Fault::kHold ? " held" : " answer held"));
        Story story;
        auto arm = Arm(story, target, nth, fault, ErrorCode::kNone);
        bool raised = false;
        auto released_at = std::chrono::nanoseconds::max();
        story.each = [&] {
          arm();
          CallScript& script = story.Script(target.where);
          if (script.held(target.op) == 0) return;
          if (!raised) {
            raised = true;
            released_at = story.c.runtime.MonotonicNow() + seconds(7);
            EXPECT_TRUE(story.c.host.controller().ElectNow(story.c.Id(), 0).ok());
          } else if (story.c.runtime.MonotonicNow() >= released_at) {
            script.Release(target.op);
          }
        };
        // Requests are held as well: time must pass while one is waited for.
        auto lane = story.c.runtime.NewLane("ticker");
        std::function<void()> tick = [&] {
          story.each();
          lane->RunAfter(seconds(1), tick);
        };
        tick();
        story.StartAndStop();
        EXPECT_TRUE(raised);
        if (::testing::Test::HasFailure()) return;
      }
    }
  }
}

TEST(CoordinatorFaults, EveryCallOfAStartMayAnswerAfterAStopWasWanted) {
  for (const Target& target : Targets()) {
    if (target.op == std::string(MemoryController::kSetMirrorNames)) continue;
    for (size_t nth = 1; nth <= 4; ++nth) {
      for (const Fault fault : {Fault::kHold, Fault::kHoldAnswer}) {
        SCOPED_TRACE(std::string(target.op) + " call " + std::to_string(nth) +
                     (fault == Fault::kHold ? " held" : " answer held"));
        Story story;
        auto arm = Arm(story, target, nth, fault, ErrorCode::kNone);
        story.each = arm;
        // The start's own question to the source must not be the one that is held for good.
        std::optional<std::vector<uint8_t>> answer;
        protocol::StartMirrorTopicsRequest start;
        start.mirror_name = "m";
        start.topics.push_back({.topic_id = {}, .topic_name = "t", .num_partitions = 0});
        arm();
        story.c.Send(start, &answer);
        story.Watch([&] { return story.Script(target.where).held(target.op) != 0; }, seconds(40));
        story.Want([&] { return story.c.Stop(); });
        story.Watch([] { return false; }, seconds(20));
        story.Script(target.where).Heal(target.op);
        story.each = nullptr;
        story.Script(target.where).Release();
        EXPECT_TRUE(story.Watch([&] { return answer.has_value(); }, minutes(1)));
        if (story.c.MirrorName() != "m.removed") {
          // The start was decided after the stop; the operator sees that and stops again.
          story.Want([&] { return story.c.Stop(); });
        }
        EXPECT_TRUE(story.Watch([&] { return story.c.State() == S::kStopped; })) << story.Where_();
        story.Watch([] { return false; }, minutes(2));
        EXPECT_EQ(story.c.State(), S::kStopped) << story.Where_();
        EXPECT_TRUE(story.c.Log().OpenTransactions().empty());
        EXPECT_EQ(story.c.Produce(), ErrorCode::kNone);
        EXPECT_EQ(story.c.host.violations(), std::vector<std::string>());
        if (::testing::Test::HasFailure()) return;
      }
    }
  }
}

TEST(CoordinatorFaults, AFullStateTopicShowsTheLastStoredStateAndTheReason) {
  for (const S from : {S::kStopped, S::kMirroring, S::kPaused}) {
    SCOPED_TRACE(StateName(from));
    Story story;
    Cluster& c = story.c;
    if (from != S::kStopped) {
      story.Want([&] { return c.Start(); });
      ASSERT_TRUE(story.CaughtUp());
    }
    if (from == S::kPaused) {
      story.Want([&] { return c.Pause(); });
      ASSERT_TRUE(story.Watch([&] { return c.State() == S::kPaused; }));
    }
    c.host.state_topic().script().Always("Append", Fault::kRefuse,
                                         {ErrorCode::kNoSpace, "disk full"});
    story.Want([&] { return from == S::kStopped ? c.Start() : c.Stop(); });
    for (int i = 0; i < 60; ++i) {
      story.Watch([] { return false; }, seconds(1));
      EXPECT_EQ(c.Describe().state_value, StateName(from));
      EXPECT_THAT(c.Describe().error_message.value_or(""), ::testing::HasSubstr("disk full"));
      EXPECT_NE(c.Produce(), ErrorCode::kNone);
    }
    c.host.state_topic().script().Heal("Append");
    const S wanted = from == S::kStopped ? S::kMirroring : S::kStopped;
    EXPECT_TRUE(story.Watch([&] { return c.State() == wanted; }));
    EXPECT_EQ(c.runtime.CountLines("to=FAILED"), 0u);
  }
}

TEST(CoordinatorFaults, TheLeaderEpochMayRiseAtAnyMoment) {
  // One more task a run, until the run is over before the epoch rises.
  for (int at = 1; at < 400; at += 3) {
    SCOPED_TRACE(at);
    Story story;
    int tasks = 0;
    bool raised = false;
    story.each = [&] {
      if (raised || ++tasks < at) return;
      raised = true;
      EXPECT_TRUE(story.c.host.controller().ElectNow(story.c.Id(), 0).ok());
    };
    story.StartAndStop();
    if (!raised || ::testing::Test::HasFailure()) break;
  }
}

TEST(CoordinatorFaults, LeadershipMayGoAndComeBackAtAnyMoment) {
  for (int at = 1; at < 400; at += 5) {
    SCOPED_TRACE(at);
    Story story;
    int tasks = 0;
    story.each = [&] {
      ++tasks;
      if (tasks == at) EXPECT_TRUE(story.c.host.controller().ElectNow(story.c.Id(), 9).ok());
      if (tasks == at + 7) EXPECT_TRUE(story.c.host.controller().ElectNow(story.c.Id(), 0).ok());
    };
    story.StartAndStop();
    if (tasks < at || ::testing::Test::HasFailure()) break;
  }
}

TEST(CoordinatorFaults, TheNewestWishWinsHoweverFastWishesChange) {  // invariant 9
  const std::vector<std::string> wishes = {"m", "m.removed", "m", "m.paused", "m", "m.removed"};
  for (int gap = 0; gap < 60; ++gap) {
    for (size_t last = 0; last < wishes.size(); ++last) {
      SCOPED_TRACE("gap " + std::to_string(gap) + ", last " + wishes[last] + " of " +
                   std::to_string(last));
      Story story;
      for (size_t i = 0; i <= last; ++i) {
        story.c.host.controller().SetMirrorNames({{story.c.Id().topic_id, wishes[i]}}, -1,
                                                 [](Status) {});
        for (int task = 0; task < gap; ++task) {
          if (!story.c.runtime.RunOne()) story.c.Advance(milliseconds(5));
          CheckAlways(story.c, "t");
        }
      }
      const S wanted = wishes[last] == "m"
                           ? S::kMirroring
                           : (wishes[last] == "m.paused" ? S::kPaused : S::kStopped);
      const bool reached = story.Watch([&] { return story.c.State() == wanted; }, minutes(1));
      // Paused before it was started again: there is nothing to pause yet (1.5 rule 4).
      EXPECT_TRUE(reached || (wanted == S::kPaused && story.c.State() == S::kStopped))
          << story.Where_();
      story.Watch([] { return false; }, seconds(20));
      if (reached) EXPECT_EQ(story.c.State(), wanted);
      EXPECT_EQ(story.c.Produce() == ErrorCode::kNone, wanted == S::kStopped);
      EXPECT_EQ(story.c.host.violations(), std::vector<std::string>());
      if (::testing::Test::HasFailure()) return;
    }
  }
}

}  // namespace
}  // namespace kmirror::coordinator
