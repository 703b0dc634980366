#include "broker/storage/transaction_index.h"

#include <fcntl.h>

#include <cerrno>

#include "broker/storage/files.h"
#include "src/log/big_endian.h"

namespace kmirror::broker {
namespace {

using log::LoadBig;
using log::StoreBig;

void Encode(const AbortedEntry& entry, uint8_t* to) {
  StoreBig<int16_t>(to, 0);
  StoreBig<int64_t>(to + 2, entry.producer_id);
  StoreBig<int64_t>(to + 10, entry.first_offset);
  StoreBig<int64_t>(to + 18, entry.last_offset);
  StoreBig<int64_t>(to + 26, entry.last_stable_offset);
}

}  // namespace

TransactionIndex::TransactionIndex(std::string path, FileIo* io, std::shared_ptr<FdCache> cache)
    : io_(io), file_(std::move(path), io, cache) {}

Status TransactionIndex::Load() {
  entries_.clear();
  const Result<std::string> bytes = ReadFile(io_, path());
  if (!bytes.ok()) {
    return bytes.status().code() == ErrorCode::kResourceNotFound ? Status::Ok() : bytes.status();
  }
  const auto bad = [&](const char* what) {
    entries_.clear();
    return Status(ErrorCode::kCorruptMessage, path() + ": " + what);
  };
  if (bytes->size() % AbortedEntry::kBytes != 0) return bad("no multiple of its entry size");
  const auto* at = reinterpret_cast<const uint8_t*>(bytes->data());
  for (size_t i = 0; i < bytes->size() / AbortedEntry::kBytes; ++i, at += AbortedEntry::kBytes) {
    if (LoadBig<int16_t>(at) != 0) return bad("version 0 expected");
    const AbortedEntry entry{LoadBig<int64_t>(at + 2), LoadBig<int64_t>(at + 10),
                             LoadBig<int64_t>(at + 18), LoadBig<int64_t>(at + 26)};
    if (entry.first_offset > entry.last_offset ||
        (!entries_.empty() && entry.last_offset <= entries_.back().last_offset)) {
      return bad("markers do not increase");
    }
    entries_.push_back(entry);
  }
  return Status::Ok();
}

Status TransactionIndex::Append(std::span<const AbortedEntry> entries) {
  if (entries.empty()) return Status::Ok();
  const int64_t old_bytes = static_cast<int64_t>(entries_.size()) * AbortedEntry::kBytes;
  if (entries_.empty()) {
    Status created = WriteFile(io_, path(), {});
    if (!created.ok()) return created;
  }
  auto handle = file_.Handle();
  if (!handle.ok()) return handle.status();
  std::vector<uint8_t> bytes(entries.size() * AbortedEntry::kBytes);
  for (size_t i = 0; i < entries.size(); ++i) {
    Encode(entries[i], bytes.data() + i * AbortedEntry::kBytes);
  }
  size_t done = 0;
  while (done < bytes.size()) {
    const iovec piece{bytes.data() + done, bytes.size() - done};
    const ssize_t written =
        io_->Write((*handle)->fd(), &piece, 1, old_bytes + static_cast<int64_t>(done));
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) {
      Status failed = ErrnoStatus("write", path(), written < 0 ? errno : EIO);
      if (io_->Truncate((*handle)->fd(), old_bytes) != 0) {
        return {ErrorCode::kKafkaStorageError, failed.message() + "; it could not be cut back"};
      }
      return failed;
    }
    done += static_cast<size_t>(written);
  }
  entries_.insert(entries_.end(), entries.begin(), entries.end());
  return Status::Ok();
}

Status TransactionIndex::TruncateTo(int64_t offset) {
  const size_t before = entries_.size();
  while (!entries_.empty() && entries_.back().last_offset >= offset) entries_.pop_back();
  return entries_.size() == before ? Status::Ok() : Rewrite();
}

Status TransactionIndex::Rewrite() {
  if (entries_.empty()) {
    file_.CloseHandle();
    if (io_->Remove(path()) != 0 && errno != ENOENT) return ErrnoStatus("remove", path(), errno);
    return Status::Ok();
  }
  auto handle = file_.Handle();
  if (!handle.ok()) return handle.status();
  if (io_->Truncate((*handle)->fd(),
                    static_cast<int64_t>(entries_.size()) * AbortedEntry::kBytes) != 0) {
    return ErrnoStatus("cut", path(), errno);
  }
  return Status::Ok();
}

}  // namespace kmirror::broker
