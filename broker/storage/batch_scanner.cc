#include "broker/storage/batch_scanner.h"

#include <algorithm>

#include "broker/storage/files.h"

namespace kmirror::broker {
namespace {

// Headers come in runs of small batches or far apart; one page serves both well.
constexpr int64_t kHeaderReadBytes = 4096;
constexpr int64_t kContentReadBytes = 1048576;

}  // namespace

BatchScanner::BatchScanner(std::shared_ptr<const FileHandle> file, int64_t position, int64_t end,
                           Mode mode)
    : file_(std::move(file)),
      position_(position),
      end_(end),
      mode_(mode),
      buffer_start_(position) {}

bool BatchScanner::Fill(int64_t bytes) {
  const int64_t offset = position_ - buffer_start_;
  if (offset >= 0 && offset + bytes <= static_cast<int64_t>(buffer_.size())) return true;
  const int64_t chunk = mode_ == Mode::kHeaders ? kHeaderReadBytes : kContentReadBytes;
  const int64_t length = std::min(std::max(bytes, chunk), end_ - position_);
  buffer_.resize(static_cast<size_t>(length));
  buffer_start_ = position_;
  status_ = file_->Read(position_, buffer_);
  return status_.ok();
}

BatchScanner::Step BatchScanner::Next(log::BatchInfo* info) {
  if (position_ >= end_) return kEnd;
  const int64_t left = end_ - position_;
  const int64_t header = std::min<int64_t>(left, log::kBatchHeaderBytes);
  if (!Fill(header)) return kFailed;
  const auto view = [&] {
    return ByteView(buffer_).subspan(static_cast<size_t>(position_ - buffer_start_));
  };
  if (log::ParseBatchHeader(view(), info) != log::ParseResult::kOk || info->bytes > left)
    return kTorn;
  if (mode_ == Mode::kContents || (info->IsControl() && info->count > 0)) {
    if (!Fill(info->bytes)) return kFailed;
    const ByteView whole = view().first(static_cast<size_t>(info->bytes));
    if (mode_ == Mode::kContents && !log::CheckBatchCrc(whole, *info)) return kTorn;
    if (log::ParseControlRecord(whole, info) != log::ParseResult::kOk) return kTorn;
    batch_ = whole;
  }
  batch_position_ = position_;
  position_ += info->bytes;
  return kBatch;
}

Status BatchScanner::ReadBatch(const log::BatchInfo& info, std::vector<uint8_t>* bytes) const {
  bytes->resize(static_cast<size_t>(info.bytes));
  return file_->Read(batch_position_, *bytes);
}

}  // namespace kmirror::broker
