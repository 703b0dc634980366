// codec_corpus DIRECTORY: writes every golden body as an input of codec_fuzz.
#include <cstdio>
#include <filesystem>
#include <fstream>

#include "src/protocol/writer.h"
#include "tests/fuzz/codec_fuzz_target.h"
#include "tests/protocol/golden_case.h"

int main(int argc, char** argv) {
  using namespace kmirror::protocol;
  if (argc != 2) {
    std::fprintf(stderr, "usage: codec_corpus DIRECTORY\n");
    return 2;
  }
  std::filesystem::create_directories(argv[1]);
  size_t number = 0;
  for (const auto& cases : {KafkaCases(), UnknownTagCases(), EdgeCases(), PrototypeCases()}) {
    for (const GoldenCase& golden : cases) {
      const auto input = CodecFuzzInput(golden.key, golden.version, golden.direction, golden.body);
      std::ofstream out(std::filesystem::path(argv[1]) / std::to_string(number++),
                        std::ios::binary);
      out.write(reinterpret_cast<const char*>(input.data()),
                static_cast<std::streamsize>(input.size()));
    }
  }
  std::printf("%zu inputs\n", number);
  return 0;
}
