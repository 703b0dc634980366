#include "broker/storage/file_io.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <system_error>

namespace kmirror::broker {
namespace {

int Fail(const std::error_code& error) {
  errno = error.value();
  return -1;
}

}  // namespace

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

int FileIo::Remove(const std::string& path) {
  if (::unlink(path.c_str()) == 0) return 0;
  // A read-only file system says so before it says that there is nothing to remove.
  if (errno == EROFS) errno = ::access(path.c_str(), F_OK) != 0 && errno == ENOENT ? ENOENT : EROFS;
  return -1;
}

int FileIo::MakeDirectories(const std::string& path) {
  std::error_code error;
  const bool made = std::filesystem::create_directories(path, error);
  return error ? Fail(error) : (made ? 1 : 0);
}

int FileIo::RemoveTree(const std::string& path) {
  std::error_code error;
  std::filesystem::remove_all(path, error);
  return error ? Fail(error) : 0;
}

ssize_t FileIo::Read(int fd, void* to, size_t bytes, int64_t position) {
  return ::pread(fd, to, bytes, position);
}

void FileIo::Close(int fd) { ::close(fd); }

int FileIo::Lock(int fd) { return ::flock(fd, LOCK_EX | LOCK_NB); }

int64_t FileIo::Size(const std::string& path) {
  struct stat info{};
  return ::stat(path.c_str(), &info) == 0 ? info.st_size : -1;
}

int64_t FileIo::ModifiedMs(const std::string& path) {
  struct stat info{};
  if (::stat(path.c_str(), &info) != 0) return -1;
  return int64_t{info.st_mtim.tv_sec} * 1000 + info.st_mtim.tv_nsec / 1000000;
}

bool FileIo::IsDirectory(const std::string& path) {
  struct stat info{};
  return ::stat(path.c_str(), &info) == 0 && S_ISDIR(info.st_mode);
}

int FileIo::List(const std::string& directory, std::vector<std::string>* names) {
  std::error_code error;
  names->clear();
  for (std::filesystem::directory_iterator it(directory, error), end; !error && it != end;
       it.increment(error)) {
    names->push_back(it->path().filename().string());
  }
  return error ? Fail(error) : 0;
}

FileIo* FileIo::Posix() {
  static FileIo real;  // stateless
  return &real;
}

}  // namespace kmirror::broker
