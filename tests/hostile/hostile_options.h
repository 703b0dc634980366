// Command line of the hostile-bytes programs, beside gtest's: what ./check runs is small and fixed,
// what a person runs by hand is as much as there is time for.
//
//   hostile_bytes_test --seeds 500                 seeds 1 to 500
//   hostile_bytes_test --first-seed 77 --seeds 1   one seed again
//   hostile_bytes_test --every-lie                 each lie at each place of each frame
#pragma once

#include <cstdint>

namespace kmirror::test {

struct HostileOptions {
  uint64_t first_seed = 1;
  uint64_t seeds = 2;
  bool every_lie = false;
};

const HostileOptions& Hostile();
// Takes ours out of argv; false: one of them is wrong.
bool ParseHostileOptions(int* argc, char** argv);

}  // namespace kmirror::test
