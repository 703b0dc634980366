// What happens in bad times. Every kind of fault is one case here; Trace::Count names it for the
// report of the runner.
#include "tests/sim/simulation.h"

namespace kmirror::sim {

using std::chrono::microseconds;
using std::chrono::milliseconds;
using std::chrono::minutes;
using std::chrono::seconds;

void Simulation::ScheduleNext() {
  // Bursts and pauses.
  const Span pause =
      Chance(10) ? Between(Span(0), seconds(3)) : Between(Span(0), milliseconds(150));
  world_->RunAfter(pause, [this] {
    if (bad_times_ && !Failed()) Act();
    ScheduleNext();
  });
}

void Simulation::Act() {
  const uint64_t kind = Pick(100);
  if (kind < 48) return SourceAct();
  if (kind < 60) {
    SourcePartition& partition = source_.partitions()[Pick(source_.partitions().size())];
    return ProduceLocally(partition.topic, partition.index);
  }
  if (kind < 76) return OperatorAct();
  if (profile_.trouble == 0) return Describe();
  if (kind < 86) return NetworkAct();
  if (Chance(profile_.trouble == 1 ? 45 : 75)) return kind < 93 ? DiskAct() : ProcessAct();
}

void Simulation::SourceAct() {
  SourcePartition& partition = source_.partitions()[Pick(source_.partitions().size())];
  switch (Pick(profile_.trouble == 0 ? 20 : 32)) {
    default: source_.Produce(partition); break;
    case 10:
    case 11:
    case 12:
    case 13:
    case 14: source_.EndTransaction(partition); break;
    case 15:
    case 16:
    case 17:
    case 18: source_.CatchUp(partition); break;
    case 19: source_.Elect(partition); break;
    case 20:
      if (Chance(40)) source_.Elect(partition);
      break;
    case 21:
      if (profile_.unclean_elections && Chance(40)) source_.ElectUnclean(partition);
      break;
    case 22:
      if (Chance(30)) source_.DeleteRecords(partition);
      break;
    case 23:
      if (Chance(50)) source_.SetDown(source_.SomeBroker(), true);
      break;
    case 24:
    case 25: source_.SetDown(source_.SomeBroker(), false); break;
    case 26:
      if (Chance(20)) {
        trace_.Count("source: all brokers died");
        for (const int32_t broker : {1, 2, 3}) source_.SetDown(broker, true);
      } else if (Chance(50)) {
        for (const int32_t broker : {1, 2, 3}) source_.SetDown(broker, false);
      }
      break;
    case 27:
      if (Chance(6) && source_.partitions().size() < 8) {
        Fault("source: partition added");
        source_.Grow(partition.topic);
      }
      break;
    case 28:
      if (!Chance(60)) break;
      Fault("source: a fetch is throttled");
      source_.ThrottleNextFetch(static_cast<int32_t>(1 + Pick(Chance(50) ? 15000 : 500)));
      break;
  }
}

void Simulation::ChangeWeather() {
  Weather weather;
  switch (Pick(7)) {
    case 0: break;
    case 1:
      weather.latency_min = milliseconds(20);
      weather.latency_max = milliseconds(300);
      break;
    case 2:
      weather.lose_answer = weather.lose_request = 30;
      weather.cut_answer = 60;
      break;
    case 3: weather.late_answer = 200; break;
    case 4: weather.repeat_answer = 100; break;
    case 5:
      weather.pieces = 500;
      weather.cut_answer = 30;
      weather.latency_max = milliseconds(50);
      break;
    default:
      weather.refuse = 500;
      weather.cut_answer = 100;
      weather.late_answer = 50;
      weather.late_max = seconds(3);
      weather.pieces = 200;
      break;
  }
  network_.weather = weather;
  Fault("network: the weather changes");
}

void Simulation::NetworkAct() {
  switch (Pick(6)) {
    case 0:
    case 1: ChangeWeather(); break;
    case 2:
      Fault("network: connections cut");
      network_.Cut(Chance(50) ? -1 : source_.SomeBroker());
      break;
    case 3:
      if (!Chance(40)) break;
      Fault("network: a broker takes requests and answers none");
      network_.hung.insert(source_.SomeBroker());
      break;
    default:
      network_.hung.clear();
      network_.Wake();
      break;
  }
}

void Simulation::DiskAct() {
  switch (Pick(6)) {
    case 0:
      Fault("disk: full");
      disk_.SetFull(true);
      world_->RunAfter(Between(milliseconds(50), seconds(10)), [this] { disk_.SetFull(false); });
      break;
    case 1: {
      if (!Chance(50)) break;
      static constexpr const char* kKinds[] = {"write", "sync", "rename", "truncate", "open"};
      disk_.FailNext(kKinds[Pick(5)], 1 + static_cast<int>(Pick(3)));
      disk_trouble_ = true;
      break;
    }
    case 2:
      Fault("disk: slow");
      slow_disk_ = true;
      world_->RunAfter(Between(seconds(1), seconds(10)), [this] { slow_disk_ = false; });
      break;
    case 3: {
      const auto by = milliseconds(static_cast<int64_t>(Pick(7'200'000)) - 3'600'000);
      Fault("clock: wall clock jumps");
      runtime_.JumpWallClock(by);
      break;
    }
    default:
      Fault("clock: everything stands still for a while");
      runtime_.Stall(Between(milliseconds(10), seconds(15)));
      break;
  }
}

void Simulation::ProcessAct() {
  if (!broker_.running()) return;
  switch (Pick(6)) {
    case 0:
    case 1:
      trace_.Count("process: death armed at a change of a file");
      disk_.KillAt(1 + static_cast<int64_t>(Pick(Chance(50) ? 12 : 150)));
      break;
    case 2:
      Note("kill");
      disk_.Kill();
      break;
    case 3:
    case 4:
      trace_.Count("process: death armed at a durable step");
      kill_at_step_ = {std::string(), Chance(50)};
      break;
    default: {
      Fault("process: stopped in order");
      // Not from within a task of a lane that goes with it: the main loop does it.
      orderly_ = true;
      break;
    }
  }
}

void Simulation::Calm() {
  network_.weather = {};
  network_.hung.clear();
  disk_.Heal();
  disk_trouble_ = false;
  slow_disk_ = false;
  kill_at_step_.reset();
  source_.Heal();
  network_.Wake();
}

}  // namespace kmirror::sim
