// A file system over a folder, for as long as the object lives. Needs root.
#pragma once

#include <sys/mount.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <string>
#include <utility>

#include "kmirror/status.h"

namespace kmirror::test {

inline bool MayMount() { return geteuid() == 0; }

class Mount {
 public:
  explicit Mount(std::filesystem::path path) : path_(std::move(path)) {}
  ~Mount() { Remove(); }
  Mount(const Mount&) = delete;
  Mount& operator=(const Mount&) = delete;

  // A new tmpfs of this size ("3m") hides what the folder holds.
  Status Tmpfs(const std::string& size) { return Do("tmpfs", "tmpfs", 0, "size=" + size); }
  Status Resize(const std::string& size) {
    return Do("tmpfs", "tmpfs", MS_REMOUNT, "size=" + size);
  }
  // The folder as it is, but nothing in it can be written. What is open for writing through the
  // old path stays so.
  Status ReadOnly() {
    Status bound = Do(path_.c_str(), nullptr, MS_BIND, "");
    if (!bound.ok()) return bound;
    return Do(nullptr, nullptr, MS_REMOUNT | MS_BIND | MS_RDONLY, "");
  }
  void Remove() {
    for (; layers_ > 0; --layers_) umount2(path_.c_str(), MNT_DETACH);
  }

 private:
  Status Do(const char* from, const char* type, unsigned long flags, const std::string& options) {
    if (mount(from, path_.c_str(), type, flags, options.c_str()) != 0) {
      return {ErrorCode::kIo, "mount " + path_.string() + ": " + std::string(strerror(errno))};
    }
    if ((flags & MS_REMOUNT) == 0) ++layers_;
    return Status::Ok();
  }

  std::filesystem::path path_;
  int layers_ = 0;  // one above the other
};

}  // namespace kmirror::test
