// All that can happen next in a world.
#pragma once

#include <functional>
#include <string>

#include "tests/model/step.h"

namespace kmirror::model {

// What happened, for a counter-example.
struct Label {
  const char* what = "";
  int8_t broker = -1;
  std::string Text() const;
};

class Machine {
 public:
  Machine(Scope scope, Rules rules) : scope_(std::move(scope)), rules_(rules) {}

  const Scope& scope() const { return scope_; }
  World Start() const;

  // `helps`: needs no operator, no new trouble: what may be counted on for coordinator.md 13.9.
  using Emit = std::function<void(Step& step, const Label& label, bool helps)>;
  void Successors(const World& world, const Emit& emit) const;

 private:
  void Brokers(const World& world, const Emit& emit) const;
  void Operators(const World& world, const Emit& emit) const;
  void Surroundings(const World& world, const Emit& emit) const;

  const Scope scope_;
  const Rules rules_;
};

}  // namespace kmirror::model
