// Fixed seeds for ./check, the seeds that ever found something, and proof that the checks can fail.
#include <gtest/gtest.h>
#include <spdlog/spdlog.h>

#include "tests/sim/found_seeds.h"
#include "tests/sim/simulation.h"

namespace kmirror::sim {
namespace {

class Quiet : public ::testing::Test {
 protected:
  void SetUp() override { spdlog::set_level(spdlog::level::off); }
};

void RunSeeds(uint64_t first, uint64_t count) {
  for (uint64_t seed = first; seed < first + count; ++seed) {
    const SimResult result = Simulation({.seed = seed}).Run();
    ASSERT_EQ(result.violation, "")
        << result.last_lines << "\nseed " << seed << ": bin/sim --first " << seed << " --verbose";
  }
}

constexpr uint64_t kSeedsATest = 8;

class Seeds : public ::testing::TestWithParam<uint64_t> {
 protected:
  void SetUp() override { spdlog::set_level(spdlog::level::off); }
};

TEST_P(Seeds, NothingIsViolated) { RunSeeds(1 + GetParam() * kSeedsATest, kSeedsATest); }

INSTANTIATE_TEST_SUITE_P(Fixed, Seeds, ::testing::Range(uint64_t{0}, uint64_t{36}));

class Found : public ::testing::TestWithParam<FoundSeed> {
 protected:
  void SetUp() override { spdlog::set_level(spdlog::level::off); }
};

TEST_P(Found, StaysFixed) { RunSeeds(GetParam().seed, 1); }

INSTANTIATE_TEST_SUITE_P(Seeds, Found, ::testing::ValuesIn(kFoundSeeds),
                         [](const auto& info) { return std::string(info.param.name); });

using Replay = Quiet;

TEST_F(Replay, OneSeedIsOneRun) {
  for (const uint64_t seed : {3, 4, 5}) {
    const SimResult once = Simulation({.seed = seed}).Run();
    const SimResult again = Simulation({.seed = seed}).Run();
    EXPECT_EQ(once.trace_hash, again.trace_hash) << seed;
    EXPECT_EQ(once.counts, again.counts) << seed;
  }
  EXPECT_NE(Simulation({.seed = 3}).Run().trace_hash, Simulation({.seed = 4}).Run().trace_hash);
}

// A run of many seeds that never fails says something only if a broken part makes it fail.
class Broken : public ::testing::TestWithParam<Breakage> {
 protected:
  void SetUp() override { spdlog::set_level(spdlog::level::off); }
};

TEST_P(Broken, IsFoundWithinAFewSeeds) {
  for (uint64_t seed = 1; seed <= 30; ++seed) {
    const SimResult result = Simulation({.seed = seed, .breakage = GetParam()}).Run();
    if (result.violation.empty()) continue;
    RecordProperty("seed", std::to_string(seed));
    RecordProperty("violation", result.violation);
    return;
  }
  FAIL() << "nobody noticed";
}

INSTANTIATE_TEST_SUITE_P(Parts, Broken,
                         ::testing::Values(Breakage::kLyingSync, Breakage::kForgetsTruncate,
                                           Breakage::kForgetsReset, Breakage::kForgetsAbort,
                                           Breakage::kOpensEarly, Breakage::kChangesByte,
                                           Breakage::kDropsBatch, Breakage::kClaimsEnd));

}  // namespace
}  // namespace kmirror::sim
