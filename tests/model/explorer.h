// Breadth first over all reachable worlds of a scope: every invariant in every world, and from
// every world a way to what is wanted that needs nobody's help.
#pragma once

#include <array>
#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "tests/model/machine.h"

namespace kmirror::model {

struct Exploration {
  uint64_t states = 0;
  uint64_t transitions = 0;
  int depth = 0;
  bool complete = true;   // false: the limit was reached
  std::string violation;  // "" none
  std::string example;    // the shortest way to it, and the world it leads to
  int example_steps = 0;
  // (from state, event) of every write that was stored: rows of the state table.
  std::set<std::pair<int8_t, uint8_t>> rules_taken;
};

Exploration Explore(const Machine& machine, uint64_t max_states);

}  // namespace kmirror::model
