// How the in-memory host answers: at once, or later on the host's lane, or never until told; and
// which calls fail, before or after their effect. Every asynchronous call of the memory host runs
// through one.
//
// Single-threaded.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "kmirror/host/partition_log.h"
#include "kmirror/host/runtime.h"
#include "kmirror/status.h"

namespace kmirror::conformance {

enum class Fault : uint8_t {
  kRefuse,      // no effect; answered with the given status
  kLoseAnswer,  // the effect happens; answered with the given status all the same
  kHold,        // nothing happens before Release
  kHoldAnswer,  // the effect happens at once; the answer waits for Release
};

class CallScript {
 public:
  // An asynchronous call's work: does it, then calls the completion exactly once.
  using Body = std::function<void(host::Completion)>;

  // `lane` outlives the script. `inline_answers`: completions run before the call returns.
  CallScript(host::Lane* lane, bool inline_answers) : lane_(lane), inline_(inline_answers) {}

  // The next call of `op` (or, with a suffix, "op:detail": that one alone) meets `fault`. Several
  // queue up. A status is needed by kRefuse and kLoseAnswer.
  void Next(const std::string& op, Fault fault, Status status = {}) {
    next_[op].push_back({fault, std::move(status)});
  }
  // Every call from now on, until Heal(op).
  void Always(const std::string& op, Fault fault, Status status = {}) {
    always_.insert_or_assign(op, Planned{fault, std::move(status)});
  }
  void Heal(const std::string& op) {
    next_.erase(op);
    always_.erase(op);
  }

  // Lets held calls of `op` go on, oldest first; returns how many. Empty: of every op.
  size_t Release(const std::string& op = {});
  size_t held(const std::string& op = {}) const;

  // How often `op` was called, refused calls included. With a suffix, that detail alone.
  size_t calls(const std::string& op) const;
  // Every call so far in order, as "op:detail".
  const std::vector<std::string>& history() const { return history_; }

  // Forgets everything held and every answer not delivered yet, as the death of the process does.
  void Drop();

  // For the memory host itself: runs `body` as the script says.
  void Run(std::string_view op, std::string_view detail, Body body, host::Completion done);
  // The plan for a call that answers inline; nullopt: go on as usual.
  Status Inline(std::string_view op);

 private:
  struct Planned {
    Fault fault;
    Status status;
  };
  struct Held {
    std::string op;
    std::function<void()> go_on;
  };

  bool Take(const std::string& op, const std::string& full, Planned* planned);
  host::Completion Deliver(host::Completion done);
  static bool Matches(const std::string& pattern, const std::string& full);

  host::Lane* lane_;
  bool inline_;
  std::shared_ptr<uint64_t> generation_ = std::make_shared<uint64_t>(0);
  std::map<std::string, std::deque<Planned>> next_;
  std::map<std::string, Planned> always_;
  std::deque<Held> held_;
  std::vector<std::string> history_;
};

}  // namespace kmirror::conformance
