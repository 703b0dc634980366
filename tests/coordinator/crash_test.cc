// The process dies before or after each durable step of start, pause, resume and stop, with and
// without the page cache, and a new one carries on (coordinator.md 13.6, fetcher-and-log.md 9.11 to
// 9.14): the end is the one of an undisturbed run, whatever was killed.
#include <algorithm>
#include <set>

#include "kmirror/log/control_batch.h"
#include "src/coordinator/steps.h"
#include "tests/coordinator/coordinator_fixture.h"
#include "tests/coordinator/invariants.h"

namespace kmirror::coordinator {
namespace {

using S = MirrorPartitionState;
using std::chrono::milliseconds;
using std::chrono::minutes;
using std::chrono::seconds;

struct Death {
  std::string_view step;  // "" never
  bool after = false;
  int occurrence = 1;
  bool lose_unsynced = false;
};

struct End {
  std::string shape;
  statemachine::PartitionRecord record;
  int deaths = 0;
  std::set<std::string> steps;
};

// The shape with every local epoch alike: a process that was killed may not know any more how far
// the source's epoch has come, and then raises its own less (6.1 step 5 "last known").
std::string Mirrored(std::string shape) {
  for (const char* local : {"@25", "@28"}) {
    for (size_t at = shape.find(local); at != std::string::npos; at = shape.find(local)) {
      shape.replace(at, 3, "@local");
    }
  }
  return shape;
}

class Story {
 public:
  explicit Story(const Death& death) : death_(death) {
    c_.options.step_hook = [this](std::string_view name, bool after) { OnStep(name, after); };
    c_.Boot();
  }

  End Go() {
    // A life before: a position of our own, and local records above it.
    c_.source.AddTopic("t");
    c_.source.Elect("t", 5);
    c_.source.Append("t", 3);
    Drive([&] { return c_.CreateMirror(); }, [] { return true; },
          ErrorCode::kClusterMirrorAlreadyExists);
    Drive([&] { return c_.Start(); }, [&] { return c_.RunUntilCaughtUp(); });
    Drive([&] { return c_.Stop(); }, [&] { return Reached(S::kStopped); });
    EXPECT_EQ(c_.Produce(), ErrorCode::kNone);
    EXPECT_EQ(c_.Produce(), ErrorCode::kNone);
    c_.source.Elect("t", 14);  // near enough to our 16 that the start must raise it
    c_.source.AppendTransactional("t", 71, 4, 0);
    c_.source.AppendTransactional("t", 72, 0, 0);
    c_.source.Append("t");

    armed_ = true;
    Drive([&] { return c_.Start(); }, [&] { return CaughtUp(); });
    Drive([&] { return c_.Pause(); }, [&] { return Reached(S::kPaused); });
    Drive([&] { return c_.Resume(); }, [&] { return CaughtUp(); });
    c_.source.Elect("t", 17);  // nothing written under it: the stop must go above 27
    Watch([] { return false; }, seconds(31));
    if (c_.frozen()) Revive();
    Drive([&] { return c_.Stop(); }, [&] { return Reached(S::kStopped); });
    armed_ = false;
    Watch([] { return false; }, minutes(1));

    EXPECT_EQ(c_.Produce(), ErrorCode::kNone);
    EXPECT_EQ(c_.host.violations(), std::vector<std::string>());
    End end;
    end.shape = c_.Shape();
    end.record = *c_.Stored();
    end.deaths = deaths_;
    end.steps = steps_;
    const bool whole = c_.Stored()->position.offset == 6;
    CheckStopped(c_, "t", 0, whole ? std::vector<int64_t>{71, 72} : std::vector<int64_t>{});
    return end;
  }

 private:
  void OnStep(std::string_view name, bool after) {
    if (!armed_ || c_.frozen()) return;
    steps_.insert(std::string(name) + (after ? " after" : " before"));
    if (deaths_ != 0 || name != death_.step || after != death_.after) return;
    if (++seen_ != death_.occurrence) return;
    ++deaths_;
    c_.Freeze();
  }

  bool Watch(const std::function<bool()>& condition, std::chrono::nanoseconds span) {
    bool reached = false;
    c_.RunUntil(
        [&] {
          CheckAlways(c_, "t");
          if (c_.frozen()) return true;
          reached = condition();
          return reached;
        },
        span);
    return reached && !c_.frozen();
  }
  bool Reached(S state) {
    return Watch([&] { return c_.State() == state; }, minutes(2));
  }
  bool CaughtUp() {
    return Watch(
        [&] {
          return c_.State() == S::kMirroring && c_.fetching->Assigned(c_.Id()) &&
                 c_.Log().View().end == c_.source.Log("t").View().end;
        },
        minutes(2));
  }

  void Revive() {
    c_.Kill(death_.lose_unsynced);
    c_.Boot();
  }

  // The operator asks until he is answered, and again after every death.
  void Drive(const std::function<ErrorCode()>& ask, const std::function<bool()>& reached,
             ErrorCode also_fine = ErrorCode::kNone) {
    ErrorCode code = ErrorCode::kNone;
    for (int i = 0; i < 20; ++i) {
      code = ask();
      if (c_.frozen()) {
        Revive();
        continue;
      }
      if (code != ErrorCode::kNone && code != also_fine) {
        c_.Advance(milliseconds(200));
        if (c_.frozen()) Revive();
        continue;
      }
      if (reached()) return;
      if (!c_.frozen()) break;
      Revive();
    }
    ADD_FAILURE() << "died at " << death_.step << (death_.after ? " (after)" : " (before)")
                  << ", answer " << ErrorName(code) << ", path " << c_.Path() << ", log "
                  << c_.Shape() << ", step '" << c_.Describe().step << "' "
                  << c_.Describe().error_message.value_or("");
  }

  const Death death_;
  Cluster c_;
  bool armed_ = false;
  int seen_ = 0;
  int deaths_ = 0;
  std::set<std::string> steps_;
};

TEST(CoordinatorCrash, TheUndisturbedRunPassesEveryDurableStep) {
  const End end = Story({}).Go();
  for (const std::string_view step : kDurableSteps) {
    EXPECT_TRUE(end.steps.contains(std::string(step) + " before")) << step;
    EXPECT_TRUE(end.steps.contains(std::string(step) + " after")) << step;
  }
  EXPECT_EQ(end.steps.size(), kDurableSteps.size() * 2);
  EXPECT_EQ(end.shape, "0-2@5 3@14 4@14 5@14 A6@28 A7@28 R8@28 9@28");
  EXPECT_EQ(end.record.position, (statemachine::MirrorPosition{14, 6}));
}

class CoordinatorCrashAt : public ::testing::TestWithParam<bool> {};

TEST_P(CoordinatorCrashAt, EveryDurableStepEndsAsTheUndisturbedRun) {
  const bool lose_unsynced = GetParam();
  const End whole = Story({}).Go();
  for (const std::string_view step : kDurableSteps) {
    for (const bool after : {false, true}) {
      for (int occurrence = 1; occurrence <= (step == kStepStopAbort ? 2 : 1); ++occurrence) {
        SCOPED_TRACE(std::string(step) + (after ? " after " : " before ") +
                     std::to_string(occurrence));
        const End end = Story({step, after, occurrence, lose_unsynced}).Go();
        EXPECT_EQ(end.deaths, 1) << "the step was not hit";
        EXPECT_EQ(end.record.state, S::kStopped);
        // Mirroring is asynchronous: what the page cache lost and the source was not asked for
        // again is not here. Once a position is about to be stored, nothing below it can be lost
        // any more.
        const bool tail_lost =
            lose_unsynced && (step == kStepStopDesired || step == kStepStopStopping);
        if (tail_lost) {
          EXPECT_EQ(Mirrored(end.shape), "0-2@5 R3@local 4@local");
          EXPECT_EQ(end.record.position, (statemachine::MirrorPosition{5, 3}));
        } else {
          EXPECT_EQ(Mirrored(end.shape), Mirrored(whole.shape));
          EXPECT_EQ(end.record.position, whole.record.position);
        }
        EXPECT_EQ(end.record.progress, whole.record.progress);
        EXPECT_EQ(end.record.attempt, 0);
        EXPECT_EQ(end.record.reason, "");
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(PageCache, CoordinatorCrashAt, ::testing::Bool(), [](const auto& info) {
  return info.param ? "LosesWhatWasNotSynced" : "KeepsEverything";
});

}  // namespace
}  // namespace kmirror::coordinator
