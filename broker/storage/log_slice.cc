#include "broker/storage/log_slice.h"

#include <unistd.h>

#include "broker/storage/files.h"

namespace kmirror::broker {

FileHandle::~FileHandle() { ::close(fd_); }

Status LogSlice::ReadInto(std::span<uint8_t> to) const {
  return ReadAt(0, to.first(static_cast<size_t>(bytes)));
}

Status LogSlice::ReadAt(int64_t offset, std::span<uint8_t> to) const {
  return ReadExactly(file->fd(), position + offset, to);
}

}  // namespace kmirror::broker
