#include "tests/hostile/hostile_options.h"

#include <cstdio>
#include <cstdlib>
#include <string_view>

namespace kmirror::test {
namespace {

HostileOptions options;  // set once, before the tests

bool Number(const char* text, uint64_t* out) {
  char* end = nullptr;
  *out = std::strtoull(text, &end, 10);
  return end != text && *end == '\0';
}

}  // namespace

const HostileOptions& Hostile() { return options; }

bool ParseHostileOptions(int* argc, char** argv) {
  int kept = 1;
  for (int i = 1; i < *argc; ++i) {
    const std::string_view argument = argv[i];
    uint64_t* number = argument == "--seeds"        ? &options.seeds
                       : argument == "--first-seed" ? &options.first_seed
                                                    : nullptr;
    if (number != nullptr) {
      if (i + 1 >= *argc || !Number(argv[++i], number)) {
        std::fprintf(stderr, "%s needs a number\n", argv[i - 1]);
        return false;
      }
    } else if (argument == "--every-lie") {
      options.every_lie = true;
    } else {
      argv[kept++] = argv[i];
    }
  }
  *argc = kept;
  argv[kept] = nullptr;
  return true;
}

}  // namespace kmirror::test
