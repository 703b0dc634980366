#include "broker/storage/files.h"

#include <fcntl.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <cstring>
#include <system_error>

#include "broker/storage/log_slice.h"

namespace kmirror::broker {
namespace {

Status WriteAll(FileIo* io, int fd, const std::string& path, ByteView bytes) {
  int64_t position = 0;
  while (!bytes.empty()) {
    const iovec piece{const_cast<uint8_t*>(bytes.data()), bytes.size()};
    const ssize_t written = io->Write(fd, &piece, 1, position);
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return ErrnoStatus("write", path, written < 0 ? errno : EIO);
    bytes = bytes.subspan(static_cast<size_t>(written));
    position += written;
  }
  return Status::Ok();
}

}  // namespace

Status ErrnoStatus(std::string_view operation, const std::string& path, int error) {
  const bool no_space = error == ENOSPC || error == EDQUOT;
  return {no_space ? ErrorCode::kNoSpace : ErrorCode::kIo,
          std::string(operation) + " " + path + ": " + std::generic_category().message(error)};
}

Status ReadExactly(FileIo* io, int fd, int64_t position, std::span<uint8_t> to) {
  while (!to.empty()) {
    const ssize_t got = io->Read(fd, to.data(), to.size(), position);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return ErrnoStatus("read", "segment", errno);
    if (got == 0) return {ErrorCode::kIo, "read past the end of a segment"};
    to = to.subspan(static_cast<size_t>(got));
    position += got;
  }
  return Status::Ok();
}

Result<std::string> ReadFile(FileIo* io, const std::string& path) {
  const int fd = io->Open(path, O_RDONLY, 0);
  if (fd < 0) {
    if (errno == ENOENT) return Status(ErrorCode::kResourceNotFound, path + " does not exist");
    return ErrnoStatus("open", path, errno);
  }
  const FileHandle handle(fd, io);
  std::string text;
  char buffer[16384];
  for (;;) {
    const ssize_t got = io->Read(fd, buffer, sizeof buffer, static_cast<int64_t>(text.size()));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return ErrnoStatus("read", path, errno);
    if (got == 0) return text;
    text.append(buffer, static_cast<size_t>(got));
  }
}

Status WriteFile(FileIo* io, const std::string& path, ByteView bytes, bool sync) {
  const int fd = io->Open(path, O_WRONLY | O_CREAT | O_TRUNC, 0644);
  if (fd < 0) return ErrnoStatus("create", path, errno);
  const FileHandle handle(fd, io);
  Status written = WriteAll(io, fd, path, bytes);
  if (!written.ok()) return written;
  if (sync && io->Sync(fd, true) != 0) return ErrnoStatus("sync", path, errno);
  return Status::Ok();
}

Status ReplaceFile(FileIo* io, const std::string& path, std::string_view text) {
  const std::string temporary = path + ".tmp";
  Status written =
      WriteFile(io, temporary, {reinterpret_cast<const uint8_t*>(text.data()), text.size()}, true);
  if (!written.ok()) {
    io->Remove(temporary);
    return written;
  }
  if (io->Rename(temporary, path) != 0) return ErrnoStatus("rename to", path, errno);
  return SyncDirectory(io, path.substr(0, path.rfind('/')));
}

Status SyncDirectory(FileIo* io, const std::string& directory) {
  const int fd = io->Open(directory, O_RDONLY | O_DIRECTORY, 0);
  if (fd < 0) return ErrnoStatus("open", directory, errno);
  const FileHandle handle(fd, io);
  if (io->Sync(fd, true) != 0) return ErrnoStatus("sync", directory, errno);
  return Status::Ok();
}

Status MakeDirectories(FileIo* io, const std::string& directory) {
  std::vector<std::string> changed;  // parents of what does not exist yet, the deepest first
  std::string missing = directory;
  while (missing.size() > 1 && missing.back() == '/') missing.pop_back();
  while (!missing.empty() && !io->IsDirectory(missing)) {
    const size_t slash = missing.rfind('/');
    changed.push_back(slash == std::string::npos ? "."
                                                 : missing.substr(0, std::max<size_t>(slash, 1)));
    missing = slash == std::string::npos ? "" : missing.substr(0, slash);
  }
  if (io->MakeDirectories(directory) < 0) return ErrnoStatus("create", directory, errno);
  for (const std::string& parent : changed) {
    Status synced = SyncDirectory(io, parent);
    if (!synced.ok()) return synced;
  }
  return Status::Ok();
}

Status SyncFile(FileIo* io, const std::string& path) {
  const int fd = io->Open(path, O_RDONLY, 0);
  if (fd < 0) return errno == ENOENT ? Status::Ok() : ErrnoStatus("open", path, errno);
  const FileHandle handle(fd, io);
  if (io->Sync(fd, true) != 0) return ErrnoStatus("sync", path, errno);
  return Status::Ok();
}

Result<std::vector<std::string>> ListDirectory(FileIo* io, const std::string& directory) {
  std::vector<std::string> names;
  if (io->List(directory, &names) != 0) return ErrnoStatus("list", directory, errno);
  return names;
}

Status RemoveTree(FileIo* io, const std::string& directory) {
  if (io->RemoveTree(directory) != 0) return ErrnoStatus("remove", directory, errno);
  return Status::Ok();
}

std::string OffsetFileName(int64_t offset, std::string_view suffix) {
  char digits[32];
  std::snprintf(digits, sizeof digits, "%020lld", static_cast<long long>(offset));
  return std::string(digits).append(suffix);
}

std::optional<int64_t> ParseOffsetFileName(std::string_view name, std::string_view suffix) {
  if (name.size() != 20 + suffix.size() || name.substr(20) != suffix) return std::nullopt;
  int64_t offset = 0;
  const auto [end, error] = std::from_chars(name.data(), name.data() + 20, offset);
  if (error != std::errc() || end != name.data() + 20 || offset < 0) return std::nullopt;
  return offset;
}

}  // namespace kmirror::broker
