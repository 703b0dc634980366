// The network between the broker and its source: connections whose requests and answers take time,
// come late, come twice, are cut or get lost. What is asked is answered by a ScriptedSource, in
// real bytes.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "src/fetcher/transport.h"
#include "tests/fetcher/scripted_source.h"
#include "tests/sim/trace.h"

namespace kmirror::sim {

using Span = std::chrono::nanoseconds;

// How bad it is just now. Chances in thousandths, each of one exchange.
struct Weather {
  Span latency_min = std::chrono::microseconds(200);
  Span latency_max = std::chrono::milliseconds(3);
  int lose_request = 0;
  int lose_answer = 0;
  int late_answer = 0;  // up to late_max later than usual
  Span late_max = std::chrono::seconds(20);
  int repeat_answer = 0;  // a fetch gets the answer of the fetch before it
  int cut_answer = 0;     // the connection breaks within the answer
  int pieces = 0;         // the answer arrives in pieces, with pauses
  int refuse = 0;         // a connection attempt
};

class SimNetwork final : public fetcher::Transport {
 public:
  // All outlive the network.
  SimNetwork(uint64_t seed, const host::Runtime* runtime, fetcher::testing::ScriptedSource* source,
             Trace* trace);
  ~SimNetwork() override;

  Weather weather;
  std::set<int32_t> hung;  // brokers that take requests and never answer
  // The process that uses the network is dead: nothing it does reaches anybody.
  bool dead = false;
  // How old the high watermark in an answer may be that was delivered lately.
  Span WorstAge() const;
  // An answer was repeated lately: what it said of the source is older than that.
  bool LiedLately() const {
    return repeated_at_ >= Span(0) &&
           runtime_->MonotonicNow() - repeated_at_ < std::chrono::minutes(1);
  }

  // Something changed at the source: waiting fetches look again.
  void Wake();
  // Breaks the open connections of one broker; -1: all.
  void Cut(int32_t broker = -1);
  size_t connections() const { return open_.size(); }

  std::unique_ptr<fetcher::Connection> NewConnection(host::Lane* lane,
                                                     fetcher::ConnectionOptions options) override;

 private:
  class SimConnection;
  bool Chance(int thousandths) {
    return thousandths > 0 && random_() % 1000 < static_cast<uint64_t>(thousandths);
  }
  Span Latency();
  int32_t BrokerAt(const HostPort& address) const;

  std::mt19937_64 random_;
  const host::Runtime* const runtime_;
  fetcher::testing::ScriptedSource* const source_;
  Trace* const trace_;
  std::map<uint64_t, SimConnection*> open_;  // by number, so that the order is the same every time
  uint64_t last_number_ = 0;
  Span worst_age_{0};
  Span worst_age_at_{0};
  Span repeated_at_{-1};
};

}  // namespace kmirror::sim
