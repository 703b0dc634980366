#include "tests/sim/simulation.h"

#include <algorithm>

namespace kmirror::sim {

using std::chrono::microseconds;
using std::chrono::milliseconds;
using std::chrono::minutes;
using std::chrono::seconds;

BrokerSetup Simulation::SetupOf(uint64_t seed) {
  std::mt19937_64 random(seed * 31 + 1);
  BrokerSetup setup;
  setup.flush_every_message = random() % 3 != 0;
  setup.segment_bytes = int64_t{4096} << (random() % 4);
  setup.index_interval_bytes = random() % 2 == 0 ? 200 : 4096;
  setup.state_partitions = 1 + static_cast<int32_t>(random() % 4);
  setup.replica_fetchers = 1 + static_cast<int32_t>(random() % 2);
  setup.refresh_interval = seconds(2 + random() % 29);
  setup.retry_max_backoff = seconds(2 + random() % 30);
  return setup;
}

Simulation::Profile Simulation::ProfileOf(uint64_t seed) {
  std::mt19937_64 random(seed * 37 + 5);
  Profile profile;
  profile.topics = 1 + static_cast<int>(random() % 2);
  profile.partitions = 1 + static_cast<int>(random() % 3);
  profile.unclean_support = random() % 2 == 0;
  profile.unclean_elections = random() % 2 == 0;
  profile.power_loss_percent = random() % 3 == 0 ? 0 : 60;
  profile.eras = 2 + static_cast<int>(random() % 2);
  profile.era = seconds(30 + random() % 120);
  profile.trouble = static_cast<int>(random() % 8 == 0 ? 0 : 1 + random() % 2);
  profile.shuffle = random() % 2 == 0;
  return profile;
}

Simulation::Simulation(SimOptions options)
    : options_(options),
      profile_(ProfileOf(options.seed)),
      random_(options.seed),
      runtime_(options.seed),
      disk_(options.seed + 1, &trace_, [this] { return runtime_.WallMs(); }),
      source_(options.seed + 2, &runtime_, &trace_),
      network_(options.seed + 3, &runtime_, &source_.scripted(), &trace_),
      setup_([&] {
        BrokerSetup setup = SetupOf(options.seed);
        setup.breakage = options.breakage;
        return setup;
      }()),
      broker_(options.seed + 4, setup_, &runtime_, &disk_, &network_, &trace_) {
  trace_.SetClock([this] { return runtime_.MonotonicNow(); });
  trace_.Echo(options.echo);
  runtime_.ShuffleLanes(profile_.shuffle);
  runtime_.SetLineSink([this](host::LogLevel, std::string_view area, std::string_view line) {
    trace_.Line(area, line);
  });
  source_.SetNetwork(&network_);
  disk_.lying_syncs = options.breakage == Breakage::kLyingSync;
  disk_.on_change = [this](bool sync) {
    if (slow_disk_ && sync) runtime_.Stall(Between(Span(0), milliseconds(30)));
  };
  broker_.worker_delay = [this] {
    if (slow_disk_ && Chance(30)) return Between(milliseconds(1), seconds(4));
    return Between(microseconds(50), milliseconds(2));
  };
  broker_.on_step = [this](std::string_view step, bool after) {
    trace_.Count("step: " + std::string(step));
    if (!kill_at_step_ || disk_.dead() || kill_at_step_->second != after) return;
    if (!kill_at_step_->first.empty() && kill_at_step_->first != step) return;
    Fault(std::string("process: killed ") + (after ? "after" : "before") + " a durable step");
    kill_at_step_.reset();
    disk_.Kill();
  };
  checker_ = std::make_unique<Checker>(&runtime_, &disk_, &broker_, &source_, &network_, &trace_,
                                       setup_.state_partitions, setup_.flush_every_message,
                                       options.seed % 5 == 0);
  world_ = runtime_.NewLane("world");
}

Simulation::~Simulation() = default;

Span Simulation::Between(Span least, Span most) {
  const auto range = static_cast<uint64_t>((most - least).count());
  return least + Span(static_cast<int64_t>(random_() % (range + 1)));
}

void Simulation::Fault(const std::string& what) {
  trace_.Count(what);
  Note(what);
}

void Simulation::StartBroker() {
  starting_ = false;
  const Status started = broker_.Start();
  if (disk_.dead()) return;  // killed while it came up; reaped like any other
  if (!started.ok()) {
    Note("the broker does not start: " + started.ToString());
    disk_.Restart(false);  // that process has ended
    if (!disk_trouble_ && !disk_.full()) {
      return checker_->Violate("the broker does not start: " + started.ToString());
    }
    trace_.Count("process: start failed for want of a disk");
    return StartLater(seconds(1));
  }
  Note("the broker is up");
  const bool trouble = disk_trouble_ || disk_.full();
  checker_->ProcessStarted(trouble);
  if (!trouble || broker_.logs().offline().empty()) return;
  // A partition that could not be opened stays away until somebody starts the broker again.
  trace_.Count("process: started again for partitions that were offline");
  orderly_ = true;
}

void Simulation::Reap() {
  const bool power_loss = Chance(profile_.power_loss_percent);
  Fault(power_loss ? "process: power lost" : "process: killed");
  kill_at_step_.reset();
  checker_->ProcessDied(power_loss);
  broker_.Bury();
  disk_.Restart(power_loss);
  StartLater(Between(milliseconds(1), seconds(bad_times_ ? 8 : 1)));
}

void Simulation::StartLater(Span delay) {
  if (starting_) return;
  starting_ = true;
  world_->RunAfter(delay, [this] { StartBroker(); });
}

void Simulation::StopInOrder() {
  orderly_ = false;
  if (!broker_.running()) return;
  const bool in_order = broker_.StopInOrder();
  Note(in_order ? "stopped" : "not stopped in order");
  if (disk_.dead()) return;  // killed on the way
  checker_->ProcessDied(false);
  disk_.Restart(false);
  StartLater(Between(milliseconds(1), seconds(2)));
}

// Once a second, as kmirrord's own thread does it.
void Simulation::Upkeep() {
  world_->RunAfter(seconds(1), [this] { Upkeep(); });
  if (broker_.running()) (void)broker_.Tick();
}

bool Simulation::RunFor(Span span, const std::function<bool()>& condition) {
  const Span end = Now() + span;
  while (!Failed()) {
    if (disk_.dead()) {
      Reap();
      continue;
    }
    if (orderly_) StopInOrder();
    if (condition && condition()) return true;
    if (Now() >= end) return !condition;
    runtime_.RunUntil(
        [&] {
          if (disk_.dead() || orderly_) return true;
          checker_->AfterTask();
          return Failed() || (condition && condition());
        },
        end - Now());
    if (runtime_.livelocked()) checker_->Violate("tasks follow tasks without end");
  }
  return false;
}

SimResult Simulation::Run() {
  const Span begin = Now();
  for (int i = 0; i < profile_.topics; ++i) {
    source_.AddTopic("t" + std::to_string(i), profile_.partitions);
  }
  StartBroker();
  Upkeep();
  ScheduleNext();
  for (int era = 0; era < profile_.eras && !Failed(); ++era) {
    bad_times_ = true;
    if (era == 0) CreateMirror();
    RunFor(profile_.era);
    bad_times_ = false;
    if (!Failed()) GoodTimes();
  }
  SimResult result;
  result.seed = options_.seed;
  result.violation = checker_->violation();
  if (!result.violation.empty()) Note(Everything());
  result.trace_hash = trace_.hash();
  result.simulated = Now() - begin;
  result.last_lines = trace_.LastLines();
  result.counts = trace_.counts();
  result.states = checker_->states();
  return result;
}

}  // namespace kmirror::sim
