// One run: a source cluster, a destination broker, their clients, network, disk and clock, all on
// one thread and from one seed. Bad times alternate with good ones; in good times everything that
// is wanted must come true.
//
//   SimResult result = Simulation({.seed = 7}).Run();
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "conformance/memory_host/manual_runtime.h"
#include "tests/sim/broken_host.h"
#include "tests/sim/checker.h"
#include "tests/sim/sim_broker.h"
#include "tests/sim/sim_disk.h"
#include "tests/sim/sim_network.h"
#include "tests/sim/source_world.h"
#include "tests/sim/trace.h"

namespace kmirror::sim {

struct SimOptions {
  uint64_t seed = 1;
  bool echo = false;  // every line of the trace to stderr, as it comes
  // Something of the destination is broken on purpose: the checks must see it.
  Breakage breakage = Breakage::kNone;
};

struct SimResult {
  uint64_t seed = 0;
  std::string violation;  // empty: none
  uint64_t trace_hash = 0;
  Span simulated{0};
  std::string last_lines;
  std::map<std::string, int64_t> counts;  // faults and other events
  std::map<std::string, int64_t> states;  // partition states that were entered
};

class Simulation {
 public:
  explicit Simulation(SimOptions options);
  ~Simulation();
  SimResult Run();

 private:
  // What kind of life this seed has.
  struct Profile {
    int topics = 1;
    int partitions = 1;
    bool unclean_support = false;    // the topics follow unclean elections
    bool unclean_elections = false;  // the source has some
    int power_loss_percent = 50;     // of the deaths
    int eras = 2;
    Span era{0};
    int trouble = 1;  // 0: only clients and operators; higher: more faults
    bool shuffle = false;
  };

  // --- simulation.cc
  bool Failed() const { return !checker_->violation().empty(); }
  Span Now() const { return runtime_.MonotonicNow(); }
  uint64_t Pick(uint64_t n) { return random_() % n; }
  bool Chance(int percent) { return Pick(100) < static_cast<uint64_t>(percent); }
  Span Between(Span least, Span most);
  void Note(const std::string& what) { trace_.Line("world", what); }
  void Fault(const std::string& what);
  static BrokerSetup SetupOf(uint64_t seed);
  static Profile ProfileOf(uint64_t seed);
  void StartBroker();
  void Reap();
  void StopInOrder();
  void StartLater(Span delay);
  void Upkeep();
  // Lets time pass; with a condition, until it holds (false: it never did).
  bool RunFor(Span span, const std::function<bool()>& condition = nullptr);

  // --- operator.cc: requests to the destination
  template <typename Response, typename Request>
  void Send(const Request& request, std::function<void(const Response&)> answered = nullptr);
  template <typename Request, typename Response>
  void ChangeTopics(std::vector<std::string> topics, bool discard = false);
  void CreateMirror();
  void Describe();
  void OperatorAct();
  void ProduceLocally(const std::string& topic, int32_t partition);
  std::vector<std::string> SourceTopics() const;
  // Of the destination's metadata; nullptr: none.
  broker::TopicPtr Topic(const std::string& name);

  // --- faults.cc
  void ScheduleNext();
  void Act();
  void SourceAct();
  void NetworkAct();
  void DiskAct();
  void ProcessAct();
  void ChangeWeather();
  void Calm();

  // --- good_times.cc
  void GoodTimes();
  bool Settled(const std::string& topic, std::string* why);
  bool AllIn(int8_t state, std::string* why);
  bool CaughtUp(const SourcePartition& partition, std::string* why);
  // Asks until the topics' desired state is so.
  bool Want(DesiredState desired);
  std::string Everything();
  // The metadata store took no more after a failed sync: only a restart helps, as its text says.
  bool MetadataIsBroken();

  const SimOptions options_;
  const Profile profile_;
  std::mt19937_64 random_;
  Trace trace_;
  conformance::ManualRuntime runtime_;
  SimDisk disk_;
  SourceWorld source_;
  SimNetwork network_;
  const BrokerSetup setup_;
  SimBroker broker_;
  std::unique_ptr<Checker> checker_;
  std::unique_ptr<host::Lane> world_;
  bool bad_times_ = false;
  bool starting_ = false;      // a start of the broker is on its way
  bool disk_trouble_ = false;  // a start may fail
  bool orderly_ = false;       // the process is to be stopped in order
  bool slow_disk_ = false;
  std::optional<std::pair<std::string, bool>> kill_at_step_;
  int64_t sent_ = 0;
  std::map<std::pair<std::string, int32_t>, std::pair<int64_t, int32_t>> local_producers_;
  Span last_tick_{0};
};

}  // namespace kmirror::sim
