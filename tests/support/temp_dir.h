// A folder of its own for one test, gone when the object is.
#pragma once

#include <filesystem>
#include <string>

namespace kmirror::test {

// Lies in TMPDIR (or /tmp). With KMIRROR_KEEP_TEMP set in the environment it stays and its path is
// printed. Aborts the process when the folder cannot be made: nothing could be tested then.
class TempDir {
 public:
  TempDir();
  ~TempDir();
  TempDir(const TempDir&) = delete;
  TempDir& operator=(const TempDir&) = delete;

  const std::filesystem::path& path() const { return path_; }
  std::filesystem::path operator/(const std::string& name) const { return path_ / name; }

 private:
  std::filesystem::path path_;
};

}  // namespace kmirror::test
