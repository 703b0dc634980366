#include "tests/model/scopes.h"

#include <cassert>
#include <string_view>
#include <utility>

namespace kmirror::model {
namespace {

using Budgets = std::vector<std::pair<Budget, int>>;

// "D1 O5": kinds as Log::Text writes them, epochs.
Log LogOf(std::string_view text) {
  Log log;
  for (size_t at = 0; at < text.size(); at += 3) {
    const auto kind = std::string_view("DOCLAR").find(text[at]);
    log.Append(static_cast<Kind>(kind), text[at + 1] - '0');
  }
  return log;
}

Scope Make(std::string name, std::string_view source, const Budgets& budgets, int more) {
  Scope scope;
  scope.name = std::move(name);
  scope.source = LogOf(source);
  for (const auto& [budget, count] : budgets) {
    scope.budget[budget] = static_cast<uint8_t>(count + more);
  }
  return scope;
}

}  // namespace

std::vector<Scope> Scopes(int more) {
  std::vector<Scope> all;
  const auto add = [&](std::string name, std::string_view source,
                       const Budgets& budgets) -> Scope& {
    return all.emplace_back(Make(std::move(name), source, budgets, more));
  };

  add("wishes that change, one broker", "D1",
      {{kStarts, 2}, {kStops, 2}, {kPauses, 2}, {kLateWrites, 1}, {kFaults, 1}, {kShardMoves, 1}});
  add("kills between any two steps", "D1 O1",
      {{kStarts, 1}, {kStops, 1}, {kPauses, 2}, {kKills, 2}, {kShardMoves, 1}, {kLateWrites, 1}});
  add("losses of power", "D1 O1",
      {{kStarts, 2}, {kStops, 2}, {kKills, 2}, {kProduces, 1}, {kSourceWrites, 1}})
      .power_loss = true;
  add("failover and back again", "D1 O1",
      {{kStarts, 2},
       {kStops, 2},
       {kProduces, 1},
       {kSourceWrites, 1},
       {kSourceElections, 1},
       {kFaults, 1}});
  add("leaders that move", "D1 O1", {{kStarts, 1}, {kStops, 1}, {kElections, 2}, {kFaults, 1}})
      .brokers = 2;
  add("leaders that move while a write is late", "D1",
      {{kStarts, 1}, {kStops, 1}, {kPauses, 1}, {kElections, 1}, {kLateWrites, 1}})
      .brokers = 2;
  add("brokers that die", "O1",
      {{kStarts, 1}, {kStops, 1}, {kPauses, 1}, {kKills, 1}, {kLateWrites, 1}, {kShardMoves, 1}})
      .brokers = 2;
  add("failover, clients and back, two brokers", "D1",
      {{kStarts, 2}, {kStops, 1}, {kElections, 1}, {kProduces, 1}, {kSourceElections, 1}})
      .brokers = 2;
  add("a source in trouble", "D1",
      {{kStarts, 1},
       {kStops, 1},
       {kSourceWrites, 1},
       {kSourceElections, 1},
       {kSourceTruncations, 1},
       {kSourceOutages, 1},
       {kKills, 1},
       {kRecovers, 1}});
  {
    Scope& scope =
        add("a source that truncates and is followed", "D1 D1",
            {{kStarts, 1}, {kStops, 1}, {kSourceTruncations, 1}, {kElections, 1}, {kKills, 1}});
    scope.brokers = 2;
    scope.follow_truncation = true;
  }
  add("a source topic that is deleted", "D1",
      {{kStarts, 2},
       {kStops, 1},
       {kPauses, 1},
       {kSourceLosses, 1},
       {kFaults, 1},
       {kRecovers, 1},
       {kKills, 1}});
  add("a source topic that is deleted while epochs rise and replicas follow", "D1 D1",
      {{kStarts, 1},
       {kStops, 1},
       {kSourceWrites, 1},
       {kSourceElections, 1},
       {kSourceTruncations, 1},
       {kSourceLosses, 1}})
      .follow_truncation = true;
  add("a stop that fails while another broker takes a start", "O1",
      {{kStarts, 2}, {kStops, 2}, {kFaults, 1}, {kSourceLosses, 1}})
      .brokers = 2;
  add("records from before the mirror", "D1",
      {{kStarts, 2}, {kStops, 2}, {kRecovers, 2}, {kKills, 1}, {kShardMoves, 1}})
      .local = LogOf("L1 L1");
  add("a stop that truncates", "D1 O1 D1",
      {{kStarts, 2}, {kStops, 2}, {kSourceWrites, 1}, {kKills, 1}})
      .stop_truncates = true;
  add("local errors until none is retried", "D1",
      {{kStarts, 1}, {kStops, 1}, {kFaults, 3}, {kRecovers, 1}, {kPauses, 2}});
  add("a mirror that is deleted and made again", "D1",
      {{kStarts, 2}, {kStops, 2}, {kDeletes, 1}, {kProduces, 1}, {kShardMoves, 1}});
  return all;
}

Scope ScopeNamed(const std::string& name) {
  for (Scope& scope : Scopes()) {
    if (scope.name == name) return scope;
  }
  assert(false && "no scope of that name");
  return {};
}

}  // namespace kmirror::model
