#include "broker/storage/file_io.h"

#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include <cerrno>

namespace kmirror::broker {

ssize_t FileIo::Write(int fd, const iovec* pieces, int count, int64_t position) {
  return ::pwritev(fd, pieces, count, position);
}

int FileIo::Truncate(int fd, int64_t size) { return ::ftruncate(fd, size); }

int FileIo::Sync(int fd, bool metadata) { return metadata ? ::fsync(fd) : ::fdatasync(fd); }

int FileIo::Allocate(int fd, int64_t position, int64_t length) {
  return ::fallocate(fd, FALLOC_FL_KEEP_SIZE, position, length);
}

int FileIo::Open(const std::string& path, int flags, int mode) {
  return ::open(path.c_str(), flags | O_CLOEXEC, mode);
}

int FileIo::Rename(const std::string& from, const std::string& to) {
  return ::rename(from.c_str(), to.c_str());
}

int FileIo::Remove(const std::string& path) { return ::unlink(path.c_str()); }

FileIo* FileIo::Posix() {
  static FileIo real;  // stateless
  return &real;
}

}  // namespace kmirror::broker
