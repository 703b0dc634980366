#include "tests/support/temp_dir.h"

#include <cstdio>
#include <cstdlib>
#include <system_error>

namespace kmirror::test {

TempDir::TempDir() {
  const char* base = std::getenv("TMPDIR");
  std::string name =
      std::string(base != nullptr && *base != '\0' ? base : "/tmp") + "/kmirror-XXXXXX";
  if (mkdtemp(name.data()) == nullptr) {
    std::perror(name.c_str());
    std::abort();
  }
  path_ = name;
}

TempDir::~TempDir() {
  if (std::getenv("KMIRROR_KEEP_TEMP") != nullptr) {
    std::printf("kept: %s\n", path_.c_str());
    return;
  }
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

}  // namespace kmirror::test
