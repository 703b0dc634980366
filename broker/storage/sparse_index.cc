#include "broker/storage/sparse_index.h"

#include "broker/storage/files.h"
#include "src/log/big_endian.h"

namespace kmirror::broker {

using log::LoadBig;
using log::StoreBig;

void OffsetEntry::Encode(uint8_t* to) const {
  StoreBig<int32_t>(to, relative_offset);
  StoreBig<int32_t>(to + 4, position);
}

OffsetEntry OffsetEntry::Decode(const uint8_t* from) {
  return {LoadBig<int32_t>(from), LoadBig<int32_t>(from + 4)};
}

void TimeEntry::Encode(uint8_t* to) const {
  StoreBig<int64_t>(to, timestamp);
  StoreBig<int32_t>(to + 8, relative_offset);
}

TimeEntry TimeEntry::Decode(const uint8_t* from) {
  return {LoadBig<int64_t>(from), LoadBig<int32_t>(from + 8)};
}

template <typename Entry>
std::string SparseIndex<Entry>::OpenSaved() {
  in_memory_ = false;
  entries_.clear();
  saved_ = 0;
  const int64_t bytes = io_->Size(path());
  if (bytes < 0) return "is missing";
  if (bytes % Entry::kBytes != 0) return "is no multiple of its entry size";
  saved_ = bytes / Entry::kBytes;
  if (saved_ < 2) return {};
  const Result<Entry> last = At(saved_ - 1);
  if (last.ok() && last->Follows(*At(saved_ - 2))) return {};
  // Preallocated and never cut: the used part ends at the first entry that does not increase.
  if (!LoadIntoMemory().ok()) return "cannot be read";
  saved_ = static_cast<int64_t>(entries_.size());
  DropFromMemory();
  return {};
}

template <typename Entry>
void SparseIndex<Entry>::StartEmpty() {
  entries_.clear();
  saved_ = 0;
  in_memory_ = true;
}

template <typename Entry>
Status SparseIndex<Entry>::LoadIntoMemory() {
  if (in_memory_) return Status::Ok();
  const Result<std::string> bytes = ReadFile(io_, path());
  if (!bytes.ok()) return bytes.status();
  const auto* at = reinterpret_cast<const uint8_t*>(bytes->data());
  const int64_t count = static_cast<int64_t>(bytes->size()) / Entry::kBytes;
  entries_.clear();
  for (int64_t i = 0; i < count; ++i) {
    const Entry entry = Entry::Decode(at + i * Entry::kBytes);
    if (!entries_.empty() && !entry.Follows(entries_.back())) break;
    // A single entry of zeros is a preallocated file: offsets of entries are never 0 at position 0.
    if (entries_.empty() && entry.key() == 0 && i + 1 < count) {
      const Entry next = Entry::Decode(at + Entry::kBytes);
      if (next.key() == 0) break;
    }
    entries_.push_back(entry);
  }
  in_memory_ = true;
  return Status::Ok();
}

template <typename Entry>
Status SparseIndex<Entry>::Save() {
  if (!in_memory_) return Status::Ok();
  std::vector<uint8_t> bytes(entries_.size() * Entry::kBytes);
  uint8_t* at = bytes.data();
  for (const Entry& entry : entries_) {
    entry.Encode(at);
    at += Entry::kBytes;
  }
  return WriteFile(io_, path(), bytes);
}

template <typename Entry>
void SparseIndex<Entry>::DropFromMemory() {
  if (!in_memory_) return;
  saved_ = static_cast<int64_t>(entries_.size());
  std::vector<Entry>().swap(entries_);
  in_memory_ = false;
}

template <typename Entry>
void SparseIndex<Entry>::TruncateTo(int64_t limit) {
  while (!entries_.empty() && entries_.back().relative_offset >= limit) entries_.pop_back();
}

template <typename Entry>
Result<Entry> SparseIndex<Entry>::At(int64_t i) const {
  if (in_memory_) return entries_[static_cast<size_t>(i)];
  auto handle = file_.Handle();
  if (!handle.ok()) return handle.status();
  uint8_t bytes[Entry::kBytes];
  Status read = (*handle)->Read(i * Entry::kBytes, bytes);
  if (!read.ok()) return read.WithContext(path());
  return Entry::Decode(bytes);
}

template <typename Entry>
Result<std::optional<Entry>> SparseIndex<Entry>::Last() const {
  if (size() == 0) return std::optional<Entry>();
  Result<Entry> last = At(size() - 1);
  if (!last.ok()) return last.status();
  return std::optional<Entry>(*last);
}

template <typename Entry>
Result<std::optional<Entry>> SparseIndex<Entry>::Floor(int64_t key) const {
  int64_t low = 0;
  int64_t high = size();
  std::optional<Entry> best;
  while (low < high) {
    const int64_t middle = low + (high - low) / 2;
    Result<Entry> entry = At(middle);
    if (!entry.ok()) return entry.status();
    if (entry->key() <= key) {
      best = *entry;
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return best;
}

template class SparseIndex<OffsetEntry>;
template class SparseIndex<TimeEntry>;

}  // namespace kmirror::broker
