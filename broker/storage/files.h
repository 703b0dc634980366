// Whole small files, directories and the names of segment files.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "broker/storage/file_io.h"
#include "kmirror/status.h"
#include "kmirror/types.h"

namespace kmirror::broker {

// NO_SPACE for ENOSPC and EDQUOT, else IO_ERROR; "<operation> <path>: <reason>".
Status ErrnoStatus(std::string_view operation, const std::string& path, int error);

// Fills `to` from `position`; IO_ERROR if the file ends before.
Status ReadExactly(FileIo* io, int fd, int64_t position, std::span<uint8_t> to);

// The whole file. RESOURCE_NOT_FOUND if there is none.
Result<std::string> ReadFile(FileIo* io, const std::string& path);

// Replaces the file's content in place; a crash may leave a part of it. For what is checked when
// read.
Status WriteFile(FileIo* io, const std::string& path, ByteView bytes, bool sync = false);

// Writes `<path>.tmp`, syncs it, renames it over `path` and syncs the directory: a crash leaves the
// old or the new content.
Status ReplaceFile(FileIo* io, const std::string& path, std::string_view text);

Status SyncDirectory(FileIo* io, const std::string& directory);
// Makes the directory, with its parents, and syncs those that got a new name: it is there after a
// crash.
Status MakeDirectories(FileIo* io, const std::string& directory);
// Syncs one file by its name; OK if it does not exist.
Status SyncFile(FileIo* io, const std::string& path);

// Names in the directory, without "." and "..", unsorted.
Result<std::vector<std::string>> ListDirectory(FileIo* io, const std::string& directory);
// Removes a directory and what is in it. OK if it does not exist.
Status RemoveTree(FileIo* io, const std::string& directory);

// "00000000000000000042" + suffix.
std::string OffsetFileName(int64_t offset, std::string_view suffix);
// The inverse: nullopt unless `name` is 20 digits followed by exactly `suffix`.
std::optional<int64_t> ParseOffsetFileName(std::string_view name, std::string_view suffix);

}  // namespace kmirror::broker
