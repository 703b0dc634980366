// The fuzzer's corpus as a plain test, with a fixed amount of damage done to each input.
#include <gtest/gtest.h>

#include <random>

#include "tests/fuzz/codec_fuzz_target.h"
#include "tests/protocol/golden_case.h"

namespace kmirror::protocol {
namespace {

std::vector<std::vector<uint8_t>> Corpus() {
  std::vector<std::vector<uint8_t>> out;
  for (const auto& cases : {KafkaCases(), UnknownTagCases(), EdgeCases(), PrototypeCases()}) {
    for (const GoldenCase& golden : cases) {
      out.push_back(CodecFuzzInput(golden.key, golden.version, golden.direction, golden.body));
    }
  }
  return out;
}

TEST(CodecCorpus, EveryGoldenInputHoldsTheProperty) {
  const auto corpus = Corpus();
  ASSERT_GT(corpus.size(), 1000u);
  size_t accepted = 0;
  for (const auto& input : corpus) {
    bool decoded = false;
    ASSERT_EQ("", CheckCodec(input, &decoded));
    accepted += decoded;
  }
  EXPECT_GT(accepted, corpus.size() * 9 / 10);
}

TEST(CodecCorpus, DamagedInputsHoldItToo) {
  std::mt19937 random(20260721);  // fixed: the same damage in every run
  size_t accepted = 0;
  size_t refused = 0;
  for (const auto& input : Corpus()) {
    for (int round = 0; round < 12; ++round) {
      std::vector<uint8_t> damaged = input;
      const size_t changes = 1 + random() % 3;
      for (size_t i = 0; i < changes && damaged.size() > 5; ++i) {
        const size_t at = 5 + random() % (damaged.size() - 5);
        switch (random() % 4) {
          case 0: damaged[at] = static_cast<uint8_t>(random()); break;
          case 1: damaged[at] ^= static_cast<uint8_t>(1u << random() % 8); break;
          case 2: damaged.resize(at); break;
          default: damaged.insert(damaged.begin() + static_cast<std::ptrdiff_t>(at), 0xff);
        }
      }
      bool decoded = false;
      ASSERT_EQ("", CheckCodec(damaged, &decoded)) << ToHex(damaged);
      decoded ? ++accepted : ++refused;
    }
  }
  EXPECT_GT(accepted, 100u);
  EXPECT_GT(refused, 100u);
}

}  // namespace
}  // namespace kmirror::protocol
