// Every world that a few troubles can lead to, explored: the production rules of src/statemachine,
// moved by a model of the driver, keep every invariant, and whatever happened, what is wanted comes
// true once the trouble ends (coordinator.md 13).
//
//   model_test --depth N   N more of every trouble in each scope, up to eight million worlds each
#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iostream>
#include <string>

#include "tests/model/explorer.h"
#include "tests/model/scopes.h"

namespace kmirror::model {
namespace {

int depth = 0;
// Of a scope. A deeper exploration may end there: then it has seen the worlds that are nearest.
constexpr uint64_t kMaxStates = 8'000'000;

TEST(Model, EveryReachableWorldIsSoundAndEndsAsWanted) {
  uint64_t states = 0;
  uint64_t transitions = 0;
  std::set<std::pair<int8_t, uint8_t>> taken;
  for (const Scope& scope : Scopes(depth)) {
    SCOPED_TRACE(scope.name);
    const Exploration found = Explore(Machine(scope, {}), kMaxStates);
    EXPECT_TRUE(found.complete || depth > 0) << "more than " << kMaxStates << " states";
    EXPECT_EQ(found.violation, "") << "after " << found.example_steps << " steps:\n"
                                   << found.example;
    std::cout << "model: " << found.states << " states, " << found.transitions
              << " transitions, depth " << found.depth << (found.complete ? ": " : " (not all): ")
              << scope.name << std::endl;
    states += found.states;
    transitions += found.transitions;
    taken.insert(found.rules_taken.begin(), found.rules_taken.end());
  }
  const std::string sum = "model: " + std::to_string(states) + " states, " +
                          std::to_string(transitions) + " transitions, all sound";
  std::cout << sum << std::endl;
  // ctest hides what a test that passes prints; ./check shows this line at its end.
  const char* file = std::getenv("KMIRROR_MODEL_FILE");
  if (file != nullptr && !HasFailure()) std::ofstream(file) << sum << "\n";
  // A rule that is never used is one whose consequences nobody has explored.
  for (const statemachine::Rule& rule : statemachine::PartitionRules()) {
    EXPECT_TRUE(taken.contains({static_cast<int8_t>(rule.from), static_cast<uint8_t>(rule.on)}))
        << StateName(rule.from) << " on " << EventName(rule.on) << " is not explored";
  }
}

}  // namespace
}  // namespace kmirror::model

int main(int argc, char** argv) {
  ::testing::InitGoogleTest(&argc, argv);
  if (argc == 3 && std::strcmp(argv[1], "--depth") == 0) {
    kmirror::model::depth = std::atoi(argv[2]);
  } else if (argc != 1) {
    std::cerr << "usage: model_test [--depth N] [--gtest_...]\n";
    return 2;
  }
  return RUN_ALL_TESTS();
}
