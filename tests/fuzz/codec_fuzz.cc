// libFuzzer's entry: one binary for every message. `codec_corpus DIR` writes a corpus to start
// from.
#include <cstdio>
#include <cstdlib>

#include "tests/fuzz/codec_fuzz_target.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string wrong = kmirror::protocol::CheckCodec({data, size}, nullptr);
  if (!wrong.empty()) {
    std::fprintf(stderr, "%s\n", wrong.c_str());
    std::abort();
  }
  return 0;
}
