// Seeds that found something in the product, once. Each stays a test of its own for ever; the
// comment says what it found and what was done.
//
// A change of the simulation changes what a seed does: then the seed is one more seed, and the unit
// test that came with the fix keeps the bug out.
#pragma once

#include <array>
#include <cstdint>

namespace kmirror::sim {

struct FoundSeed {
  const char* name;
  uint64_t seed;
};

inline constexpr std::array<FoundSeed, 1> kFoundSeeds = {{
    {"First", 1},
}};

}  // namespace kmirror::sim
