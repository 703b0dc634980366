// A seeded walk over everything that can happen to one broker's mirrors: requests, source events,
// faults, late answers, elections, deaths. The invariants hold after every task; when all is
// healed, what is wanted comes true. A failure prints the seed and the last steps;
// KMIRROR_WALK_SEED repeats it.
#include <algorithm>
#include <cstdlib>
#include <deque>
#include <random>

#include "kmirror/log/control_batch.h"
#include "tests/coordinator/coordinator_fixture.h"
#include "tests/coordinator/invariants.h"

namespace kmirror::coordinator {
namespace {

using S = MirrorPartitionState;
using conformance::Fault;
using conformance::MemoryLog;
using std::chrono::milliseconds;
using std::chrono::minutes;
using std::chrono::seconds;

constexpr int kPartitions = 2;

class Walk {
 public:
  explicit Walk(uint64_t seed) : random_(seed), c_(seed) {
    c_.runtime.ShuffleLanes(seed % 2 == 1);
    Boot();
    c_.source.AddTopic("t", kPartitions);
    for (int p = 0; p < kPartitions; ++p) {
      c_.source.Elect("t", 3, p);
      c_.source.Append("t", 2, p);
    }
    EXPECT_EQ(c_.CreateMirror(), ErrorCode::kNone);
    EXPECT_EQ(c_.Start(), ErrorCode::kNone);
  }

  void Go(int eras, int steps) {
    for (int era = 0; era < eras && !Failed(); ++era) {
      for (int i = 0; i < steps && !Failed(); ++i) Step();
      if (!Failed()) Heal();
    }
    if (Failed()) {
      std::string last;
      for (const std::string& step : steps_) last += "\n  " + step;
      for (int p = 0; p < kPartitions; ++p) {
        last += "\n" + c_.Path("t", p) + "\n" + c_.Shape("t", p) + "\nsource " +
                Cluster::ShapeOf(c_.source.Log("t", p));
      }
      ADD_FAILURE() << "last steps:" << last;
    }
  }
  int64_t steps_taken() const { return taken_; }

 private:
  void Boot() {
    c_.Boot();
    c_.fetching->poll = milliseconds(700);
  }
  static bool Failed() { return ::testing::Test::HasFailure(); }
  uint64_t Pick(uint64_t n) { return random_() % n; }
  bool Chance(int percent) { return Pick(100) < static_cast<uint64_t>(percent); }
  int SomePartition() { return static_cast<int>(Pick(kPartitions)); }
  void Note(std::string what) {
    steps_.push_back(std::move(what));
    if (steps_.size() > 40) steps_.pop_front();
    ++taken_;
  }

  // Nothing that the checks look at has changed since they last ran.
  bool Unchanged() {
    std::vector<int64_t> now = {c_.host.controller().version(),
                                static_cast<int64_t>(c_.host.state_topic().appends())};
    for (int p = 0; p < kPartitions; ++p) {
      MemoryLog& log = c_.Log("t", p);
      now.insert(now.end(),
                 {log.View().end, log.View().log_start, static_cast<int64_t>(log.local_writes()),
                  static_cast<int64_t>(log.script().history().size())});
    }
    if (now == checked_) return true;
    checked_ = std::move(now);
    return false;
  }

  void Check() {
    if (Unchanged()) return;
    CheckAlways(c_, "t");
    for (int p = 0; p < kPartitions; ++p) {
      const auto stored = c_.Stored("t", p);
      if (!stored) continue;
      const MemoryLog& log = c_.Log("t", p);
      if (stored->progress == statemachine::Progress::kMirrored && stored->position.IsNone()) {
        // Nothing but the source's bytes (9.1).
        const auto mine = log.batches();
        const auto theirs = c_.source.Log("t", p).batches();
        const bool prefix =
            mine.size() <= theirs.size() &&
            std::equal(mine.begin(), mine.end(), theirs.begin(),
                       [](const auto& a, const auto& b) { return a.bytes == b.bytes; });
        EXPECT_TRUE(prefix) << "partition " << p
                            << " holds what the source does not: " << c_.Shape("t", p);
      }
      if (stored->state == S::kStopped) {
        for (const MemoryLog::Batch& batch : log.batches()) {
          if (batch.info.base_offset >= stored->position.offset) continue;
          EXPECT_LE(batch.info.leader_epoch, stored->position.epoch) << c_.Shape("t", p);
        }
        EXPECT_TRUE(log.OpenTransactions().empty()) << c_.Shape("t", p);
      }
    }
  }

  void Run(milliseconds span, const std::function<bool()>& enough = nullptr) {
    c_.RunUntil(
        [&] {
          Check();
          return Failed() || (enough && enough());
        },
        span);
  }
  bool All(S state) {
    for (int p = 0; p < kPartitions; ++p) {
      if (c_.State("t", p) != state) return false;
      if (state == S::kMirroring && c_.Log("t", p).View().end != c_.source.Log("t", p).View().end)
        return false;
    }
    return true;
  }

  template <typename Request>
  void Ask() {
    Request request;
    request.mirror_name = "m";
    request.topics.push_back({"t"});
    c_.Send(request);
  }

  void Step() {
    const int p = SomePartition();
    switch (Pick(26)) {
      case 0:
      case 1: {
        protocol::StartMirrorTopicsRequest request;
        request.mirror_name = "m";
        request.topics.push_back({.topic_id = {}, .topic_name = "t", .num_partitions = 0});
        request.discard_local = Chance(30);
        Note(request.discard_local ? "start --discard-local" : "start");
        c_.Send(request);
        break;
      }
      case 2:
      case 3:
        Note("stop");
        Ask<protocol::StopMirrorTopicsRequest>();
        break;
      case 4:
        Note("pause");
        Ask<protocol::PauseMirrorTopicsRequest>();
        break;
      case 5:
        Note("resume");
        Ask<protocol::ResumeMirrorTopicsRequest>();
        break;
      case 6:
        Note("recover");
        Ask<protocol::RecoverMirrorTopicsRequest>();
        break;
      case 7:
      case 8:
      case 9: {
        if (c_.source.Log("t", p).batches().size() > 80) break;
        Note("source appends to " + std::to_string(p));
        if (Chance(50)) {
          c_.source.Append("t", 1 + static_cast<int>(Pick(3)), p);
        } else {
          const auto id = static_cast<int64_t>(100 + Pick(3));
          auto& sequence = sequences_[{p, id}];
          c_.source.AppendTransactional("t", id, 1, sequence++, p);
        }
        break;
      }
      case 10: {
        const auto open = c_.source.Log("t", p).OpenTransactions();
        if (open.empty()) break;
        Note("source ends a transaction on " + std::to_string(p));
        c_.source.AppendMarker("t", Chance(50) ? log::kControlCommit : log::kControlAbort,
                               open.front().producer_id, open.front().producer_epoch, 1, p);
        break;
      }
      case 11: {
        const int32_t epoch =
            c_.source.At("t", p).leader_epoch + 1 + static_cast<int32_t>(Pick(Chance(20) ? 30 : 3));
        Note("source elects epoch " + std::to_string(epoch) + " on " + std::to_string(p));
        c_.source.Elect("t", epoch, p);
        break;
      }
      case 12: {
        c_.source.reachable = !c_.source.reachable;
        Note(c_.source.reachable ? "source up" : "source down");
        break;
      }
      case 13: {
        const bool lose = Chance(40);
        Note(lose ? "kill, page cache lost" : "kill");
        c_.Kill(lose);
        Boot();
        break;
      }
      case 14: {
        static constexpr ErrorCode kErrors[] = {ErrorCode::kNoSpace, ErrorCode::kTimedOut,
                                                ErrorCode::kIo};
        const Fault fault =
            Chance(50) ? Fault::kRefuse : (Chance(60) ? Fault::kLoseAnswer : Fault::kHold);
        const char* op = Chance(85) ? "Append" : "Replay";
        Note(std::string("state topic fault ") + op + " " +
             std::to_string(static_cast<int>(fault)));
        c_.host.state_topic().script().Next(op, fault, {kErrors[Pick(3)], "walk"});
        break;
      }
      case 15:
      case 16: {
        static constexpr const char* kOps[] = {
            MemoryLog::kAppendAbort,     MemoryLog::kAppendReset,    MemoryLog::kTruncate,
            MemoryLog::kAwaitReplicated, MemoryLog::kAwaitTruncated, MemoryLog::kSync,
            MemoryLog::kRestartAt};
        static constexpr ErrorCode kErrors[] = {ErrorCode::kIo, ErrorCode::kNotEnoughReplicas,
                                                ErrorCode::kNoSpace, ErrorCode::kTimedOut};
        static constexpr Fault kFaults[] = {Fault::kRefuse, Fault::kLoseAnswer, Fault::kHold,
                                            Fault::kHoldAnswer};
        const char* op = kOps[Pick(7)];
        const Fault fault = kFaults[Pick(4)];
        Note(std::string("log fault ") + op + " " + std::to_string(static_cast<int>(fault)));
        c_.Log("t", p).script().Next(op, fault, {kErrors[Pick(4)], "walk"});
        break;
      }
      case 17:
        Note("append fault");
        c_.Log("t", p).FailNextAppend(host::AppendCode::kIo);
        break;
      case 18: {
        static constexpr const char* kOps[] = {"SetMirrorNames", "BumpLeaderEpochs",
                                               "RaiseProducerIdFloor"};
        static constexpr Fault kFaults[] = {Fault::kRefuse, Fault::kLoseAnswer, Fault::kHold,
                                            Fault::kHoldAnswer};
        const char* op = kOps[Pick(3)];
        Note(std::string("controller fault ") + op);
        c_.host.controller().script().Next(op, kFaults[Pick(4)], {ErrorCode::kTimedOut, "walk"});
        break;
      }
      case 19: {
        static constexpr const char* kOps[] = {SourceModel::kDescribe, SourceModel::kFeatures,
                                               SourceModel::kListMirrors, SourceModel::kPositions,
                                               SourceModel::kEpochEnd};
        static constexpr Fault kFaults[] = {Fault::kRefuse, Fault::kHold, Fault::kHoldAnswer};
        const char* op = kOps[Pick(5)];
        Note(std::string("source fault ") + op);
        c_.source.script.Next(op, kFaults[Pick(3)], {ErrorCode::kTimedOut, "walk"});
        break;
      }
      case 20:
        Note("release");
        Release();
        break;
      case 21: {
        const int32_t leader = Chance(70) ? 0 : 9;
        Note("elect " + std::to_string(leader) + " for " + std::to_string(p));
        EXPECT_TRUE(c_.host.controller().ElectNow(c_.Id("t", p), leader).ok());
        break;
      }
      case 22: {
        const auto shard = static_cast<int32_t>(Pick(5));
        if (c_.host.state_topic().Leads(shard)) {
          Note("shard " + std::to_string(shard) + " goes");
          c_.host.state_topic().Lose(shard);
        } else {
          Note("shard " + std::to_string(shard) + " comes");
          // A host hands a shard out again when its appends of the last time have come to an end.
          c_.host.state_topic().script().Release("Append");
          c_.host.state_topic().Gain(shard);
        }
        break;
      }
      case 23: {
        const ErrorCode code = c_.Produce("t", p);
        Note("produce: " + ErrorName(code));
        break;
      }
      case 24: {
        // Fetcher events out of the blue, the stale ones included.
        fetcher::FetchStopped stopped;
        stopped.partition = c_.Id("t", p);
        stopped.why =
            Chance(50) ? fetcher::FetchStop::kLeaderUnknown : fetcher::FetchStop::kLocalError;
        stopped.message = "walk";
        if (Chance(50)) {
          Note("fetcher stops");
          c_.fetching->Stop(stopped.partition, stopped.why, -1, -1, "walk");
        } else {
          Note("stale fetcher event");
          stopped.generation = 1;
          c_.fetching->Deliver(stopped);
        }
        break;
      }
      default: {
        static constexpr int kSpans[] = {1, 15, 200, 3000, 40000};
        const milliseconds span(kSpans[Pick(5)]);
        Note("time passes, " + std::to_string(span.count()) + " ms");
        Run(span);
        return;
      }
    }
    // A few tasks, so that what comes next meets the middle of things.
    for (uint64_t n = Pick(12); n > 0 && c_.runtime.RunOne(); --n) Check();
  }

  void Release() {
    c_.source.script.Release();
    c_.host.state_topic().script().Release();
    c_.host.controller().script().Release();
    for (int p = 0; p < kPartitions; ++p) c_.Log("t", p).script().Release();
  }

  // Everything works again, and what is wanted last comes true.
  void Heal() {
    Note("heal");
    c_.source.reachable = true;
    for (const char* op :
         {SourceModel::kDescribe, SourceModel::kFeatures, SourceModel::kListMirrors,
          SourceModel::kPositions, SourceModel::kEpochEnd}) {
      c_.source.script.Heal(op);
    }
    for (const char* op : {"Append", "Replay"}) c_.host.state_topic().script().Heal(op);
    for (const char* op : {"SetMirrorNames", "BumpLeaderEpochs", "RaiseProducerIdFloor"}) {
      c_.host.controller().script().Heal(op);
    }
    for (int p = 0; p < kPartitions; ++p) {
      for (const char* op : {MemoryLog::kAppendAbort, MemoryLog::kAppendReset, MemoryLog::kTruncate,
                             MemoryLog::kAwaitReplicated, MemoryLog::kAwaitTruncated,
                             MemoryLog::kSync, MemoryLog::kRestartAt}) {
        c_.Log("t", p).script().Heal(op);
      }
    }
    Release();
    for (int32_t shard = 0; shard < 5; ++shard) {
      if (!c_.host.state_topic().Leads(shard)) c_.host.state_topic().Gain(shard);
    }
    for (int p = 0; p < kPartitions; ++p) {
      if (c_.host.controller().FindTopic("t")->partitions[static_cast<size_t>(p)].leader != 0) {
        EXPECT_TRUE(c_.host.controller().ElectNow(c_.Id("t", p), 0).ok());
      }
    }
    Run(seconds(10));
    Release();
    Want(&Cluster::Stop);
    Run(minutes(30), [&] { return All(S::kStopped); });
    for (int p = 0; p < kPartitions; ++p) {
      EXPECT_EQ(c_.State("t", p), S::kStopped) << p << " " << c_.Describe("t", p).step << ": "
                                               << c_.Describe("t", p).error_message.value_or("");
    }
    if (Failed()) return;
    for (int p = 0; p < kPartitions; ++p) EXPECT_EQ(c_.Produce("t", p), ErrorCode::kNone);
    // Again, and all of the source arrives. What was written before the first alignment needs
    // leave.
    const ErrorCode started = c_.Start("t", "m", true);
    EXPECT_EQ(started, ErrorCode::kNone);
    Run(minutes(30), [&] { return All(S::kMirroring); });
    for (int p = 0; p < kPartitions; ++p) {
      EXPECT_EQ(c_.State("t", p), S::kMirroring) << p << " " << c_.Describe("t", p).step << ": "
                                                 << c_.Describe("t", p).error_message.value_or("");
      EXPECT_EQ(c_.Log("t", p).Bytes(), c_.source.Log("t", p).Bytes()) << c_.Shape("t", p);
    }
    EXPECT_EQ(c_.host.violations(), std::vector<std::string>());
    EXPECT_FALSE(c_.runtime.livelocked());
    c_.runtime.ClearLines();
  }

  void Want(ErrorCode (Cluster::*ask)(const std::string&, const std::string&)) {
    for (int i = 0; i < 10; ++i) {
      if ((c_.*ask)("t", "m") == ErrorCode::kNone) return;
      Run(milliseconds(500));
    }
    ADD_FAILURE() << "a request was never accepted";
  }

  std::mt19937_64 random_;
  Cluster c_;
  std::map<std::pair<int, int64_t>, int32_t> sequences_;
  std::deque<std::string> steps_;
  std::vector<int64_t> checked_;
  int64_t taken_ = 0;
};

TEST(CoordinatorWalk, InvariantsHoldWhateverHappens) {
  const char* only = std::getenv("KMIRROR_WALK_SEED");
  const uint64_t first = only != nullptr ? std::strtoull(only, nullptr, 10) : 1;
  const uint64_t last = only != nullptr ? first : 10;
  int64_t steps = 0;
  for (uint64_t seed = first; seed <= last; ++seed) {
    SCOPED_TRACE("KMIRROR_WALK_SEED=" + std::to_string(seed));
    Walk walk(seed);
    walk.Go(4, 120);
    steps += walk.steps_taken();
    if (::testing::Test::HasFailure()) return;
  }
  if (only == nullptr) EXPECT_GT(steps, 3000);
}

}  // namespace
}  // namespace kmirror::coordinator
