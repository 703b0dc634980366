#include "tests/support/raw_batch.h"

#include <algorithm>
#include <array>
#include <fstream>
#include <iterator>

namespace kmirror::test {
namespace {

constexpr size_t kHeaderBytes = 61;
constexpr size_t kCrcStart = 21;  // the CRC covers what follows it, from the attributes on

uint32_t Crc32c(ByteView bytes) {
  static const auto table = [] {
    std::array<uint32_t, 256> made{};
    for (uint32_t i = 0; i < 256; ++i) {
      uint32_t value = i;
      for (int bit = 0; bit < 8; ++bit) value = value >> 1 ^ ((value & 1) != 0 ? 0x82F63B78u : 0);
      made[i] = value;
    }
    return made;
  }();
  uint32_t crc = ~0u;
  for (const uint8_t byte : bytes) crc = crc >> 8 ^ table[(crc ^ byte) & 0xff];
  return ~crc;
}

// Reads big-endian numbers; the caller has made sure that they are there.
class Cursor {
 public:
  explicit Cursor(ByteView bytes) : bytes_(bytes) {}
  template <typename Int>
  Int Take() {
    uint64_t value = 0;
    for (size_t i = 0; i < sizeof(Int); ++i) value = value << 8 | bytes_[at_++];
    return static_cast<Int>(value);
  }
  // Zigzag; nullopt when the bytes end inside.
  std::optional<int64_t> TakeVarint() {
    uint64_t value = 0;
    for (int shift = 0; shift < 64 && at_ < bytes_.size(); shift += 7) {
      const uint8_t byte = bytes_[at_++];
      value |= static_cast<uint64_t>(byte & 0x7f) << shift;
      if (byte < 0x80) return static_cast<int64_t>(value >> 1) ^ -static_cast<int64_t>(value & 1);
    }
    return std::nullopt;
  }
  size_t left() const { return bytes_.size() - at_; }

 private:
  ByteView bytes_;
  size_t at_ = 0;
};

// The type in the key of the first record: int16 version, int16 type.
std::optional<int16_t> ControlType(ByteView records) {
  Cursor cursor(records);
  if (!cursor.TakeVarint() || cursor.left() < 1) return std::nullopt;     // length
  cursor.Take<int8_t>();                                                  // attributes
  if (!cursor.TakeVarint() || !cursor.TakeVarint()) return std::nullopt;  // deltas
  const std::optional<int64_t> key_size = cursor.TakeVarint();
  if (!key_size || *key_size < 4 || cursor.left() < 4) return std::nullopt;
  cursor.Take<int16_t>();
  return cursor.Take<int16_t>();
}

Status Damaged(size_t position, const std::string& what) {
  return {ErrorCode::kCorruptMessage, "position " + std::to_string(position) + ": " + what};
}

}  // namespace

Result<std::vector<RawBatch>> SplitBatches(ByteView bytes, Tail tail) {
  std::vector<RawBatch> batches;
  size_t at = 0;
  while (at < bytes.size()) {
    const size_t left = bytes.size() - at;
    int64_t size = 0;
    if (left >= 12) size = int64_t{12} + Cursor(bytes.subspan(at + 8)).Take<int32_t>();
    if (left < 12 || (size > 0 && left < static_cast<size_t>(size))) {
      if (tail == Tail::kPartOfABatch) break;
      return Damaged(at, std::to_string(left) + " bytes are no whole batch");
    }
    if (size < static_cast<int64_t>(kHeaderBytes)) {
      return Damaged(at, "batch of " + std::to_string(size) + " bytes");
    }
    const ByteView whole = bytes.subspan(at, static_cast<size_t>(size));
    RawBatch batch;
    Cursor cursor(whole);
    batch.base_offset = cursor.Take<int64_t>();
    cursor.Take<int32_t>();
    batch.leader_epoch = cursor.Take<int32_t>();
    const auto magic = cursor.Take<int8_t>();
    if (magic != 2) return Damaged(at, "magic " + std::to_string(magic));
    batch.crc = cursor.Take<uint32_t>();
    batch.attributes = cursor.Take<int16_t>();
    batch.last_offset = batch.base_offset + cursor.Take<int32_t>();
    batch.base_timestamp = cursor.Take<int64_t>();
    batch.max_timestamp = cursor.Take<int64_t>();
    batch.producer_id = cursor.Take<int64_t>();
    batch.producer_epoch = cursor.Take<int16_t>();
    batch.base_sequence = cursor.Take<int32_t>();
    batch.record_count = cursor.Take<int32_t>();
    if (batch.control()) batch.control_type = ControlType(whole.subspan(kHeaderBytes));
    batch.bytes.assign(whole.begin(), whole.end());
    if (Crc32c(whole.subspan(kCrcStart)) != batch.crc) {
      return Damaged(at, "wrong CRC at offset " + std::to_string(batch.base_offset));
    }
    if (batch.last_offset < batch.base_offset ||
        (!batches.empty() && batch.base_offset <= batches.back().last_offset)) {
      return Damaged(at, "offset " + std::to_string(batch.base_offset) + " does not rise");
    }
    batches.push_back(std::move(batch));
    at += static_cast<size_t>(size);
  }
  return batches;
}

Result<std::vector<uint8_t>> ReadFile(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return {ErrorCode::kIo, "cannot read " + path.string()};
  return std::vector<uint8_t>{std::istreambuf_iterator<char>(file), {}};
}

Result<std::vector<RawBatch>> ReadLogFiles(const std::filesystem::path& partition_dir) {
  std::vector<std::filesystem::path> files;
  std::error_code error;
  for (std::filesystem::directory_iterator it(partition_dir, error), end; !error && it != end;
       it.increment(error)) {
    if (it->path().extension() == ".log") files.push_back(it->path());
  }
  if (error) return {ErrorCode::kIo, partition_dir.string() + ": " + error.message()};
  std::sort(files.begin(), files.end());  // the names are offsets of one length
  std::vector<RawBatch> all;
  for (const std::filesystem::path& path : files) {
    const Result<std::vector<uint8_t>> bytes = ReadFile(path);
    if (!bytes.ok()) return bytes.status();
    Result<std::vector<RawBatch>> batches = SplitBatches(*bytes);
    if (!batches.ok()) return batches.status().WithContext(path.string());
    const int64_t named = std::strtoll(path.stem().c_str(), nullptr, 10);
    for (RawBatch& batch : *batches) {
      if (batch.base_offset < named ||
          (!all.empty() && batch.base_offset <= all.back().last_offset)) {
        return {ErrorCode::kCorruptMessage,
                path.string() + ": holds offset " + std::to_string(batch.base_offset)};
      }
      all.push_back(std::move(batch));
    }
  }
  return all;
}

std::string FirstDifference(const std::vector<RawBatch>& expected,
                            const std::vector<RawBatch>& actual) {
  const size_t common = std::min(expected.size(), actual.size());
  for (size_t i = 0; i < common; ++i) {
    const RawBatch &want = expected[i], &have = actual[i];
    if (want.bytes == have.bytes) continue;
    const size_t shorter = std::min(want.bytes.size(), have.bytes.size());
    size_t at = 0;
    while (at < shorter && want.bytes[at] == have.bytes[at]) ++at;
    return "batch " + std::to_string(i) + ": expected offsets " + std::to_string(want.base_offset) +
           ".." + std::to_string(want.last_offset) + " in " + std::to_string(want.bytes.size()) +
           " bytes, there are " + std::to_string(have.base_offset) + ".." +
           std::to_string(have.last_offset) + " in " + std::to_string(have.bytes.size()) +
           "; first other byte at " + std::to_string(at);
  }
  if (expected.size() == actual.size()) return "";
  const RawBatch& next = expected.size() > common ? expected[common] : actual[common];
  return "expected " + std::to_string(expected.size()) + " batches, there are " +
         std::to_string(actual.size()) + "; the first without a partner begins at offset " +
         std::to_string(next.base_offset);
}

}  // namespace kmirror::test
