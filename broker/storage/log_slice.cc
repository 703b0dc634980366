#include "broker/storage/log_slice.h"

#include "broker/storage/files.h"

namespace kmirror::broker {

FileHandle::~FileHandle() { io_->Close(fd_); }

Status FileHandle::Read(int64_t position, std::span<uint8_t> to) const {
  return ReadExactly(io_, fd_, position, to);
}

Status LogSlice::ReadInto(std::span<uint8_t> to) const {
  return ReadAt(0, to.first(static_cast<size_t>(bytes)));
}

Status LogSlice::ReadAt(int64_t offset, std::span<uint8_t> to) const {
  return file->Read(position + offset, to);
}

}  // namespace kmirror::broker
