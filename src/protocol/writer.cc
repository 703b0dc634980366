#include "src/protocol/writer.h"

#include <cassert>
#include <limits>

namespace kmirror::protocol {

namespace {

size_t EncodeUnsigned(uint64_t value, uint8_t (&out)[10]) {
  size_t size = 0;
  while (value >= 0x80) {
    out[size++] = static_cast<uint8_t>(value | 0x80);
    value >>= 7;
  }
  out[size++] = static_cast<uint8_t>(value);
  return size;
}

ByteView AsBytes(std::string_view text) {
  return {reinterpret_cast<const uint8_t*>(text.data()), text.size()};
}

}  // namespace

void Writer::PutUnsignedVarint(uint64_t value) {
  uint8_t bytes[10];
  PutRaw({bytes, EncodeUnsigned(value, bytes)});
}

bool Writer::PutLength(bool flexible, bool is_string, size_t length) {
  const size_t longest = is_string ? std::numeric_limits<int16_t>::max()
                                   : static_cast<size_t>(std::numeric_limits<int32_t>::max()) - 1;
  if (length > longest) {
    return Fail("length " + std::to_string(length) + " is more than " + std::to_string(longest));
  }
  if (flexible) {
    PutUnsignedVarint(length + 1);
  } else if (is_string) {
    PutInt16(static_cast<int16_t>(length));
  } else {
    PutInt32(static_cast<int32_t>(length));
  }
  return true;
}

bool Writer::PutNull(bool flexible, bool is_string, bool nullable) {
  if (!nullable) return Fail("null, which this field may not be in this version");
  if (flexible) {
    PutUnsignedVarint(0);
  } else if (is_string) {
    PutInt16(-1);
  } else {
    PutInt32(-1);
  }
  return true;
}

bool Writer::PutString(bool flexible, std::string_view value) {
  if (!PutLength(flexible, true, value.size())) return false;
  PutRaw(AsBytes(value));
  return true;
}

bool Writer::PutString(bool flexible, bool nullable, const std::optional<std::string>& value) {
  return value ? PutString(flexible, *value) : PutNull(flexible, true, nullable);
}

bool Writer::PutBytes(bool flexible, ByteView value) {
  if (!PutLength(flexible, false, value.size())) return false;
  PutRaw(value);
  return true;
}

bool Writer::PutBytes(bool flexible, bool nullable,
                      const std::optional<std::vector<uint8_t>>& value) {
  return value ? PutBytes(flexible, *value) : PutNull(flexible, false, nullable);
}

bool Writer::PutRecords(bool flexible, bool nullable, const std::optional<RecordsView>& value) {
  if (!value) return PutNull(flexible, false, nullable);
  if (!PutLength(flexible, false, value->size())) return false;
  if (value->is_file()) {
    WriteFile(value->file());
  } else {
    WriteExternal(value->bytes(), value->owner());
  }
  return true;
}

bool Writer::PutArrayLength(bool flexible, size_t count) {
  return PutLength(flexible, false, count);
}

bool Writer::PutNullArray(bool flexible, bool nullable) {
  return PutNull(flexible, false, nullable);
}

size_t Writer::BeginTag(uint32_t tag) {
  PutUnsignedVarint(tag);
  return buffer_.size();
}

void Writer::EndTag(size_t begin) {
  assert(externals_.empty() || externals_.back().position <= begin);
  uint8_t size[10];
  const size_t size_bytes = EncodeUnsigned(buffer_.size() - begin, size);
  buffer_.insert(buffer_.begin() + static_cast<std::ptrdiff_t>(begin), size, size + size_bytes);
}

void Writer::WriteExternal(ByteView bytes, std::shared_ptr<const void> owner) {
  if (bytes.empty()) return;
  external_bytes_ += bytes.size();
  externals_.push_back({buffer_.size(), {bytes, {}, std::move(owner)}});
}

void Writer::WriteFile(FileSlice file) {
  if (file.size == 0) return;
  external_bytes_ += file.size;
  externals_.push_back({buffer_.size(), {{}, std::move(file), nullptr}});
}

size_t Writer::ReserveInt32() {
  PutInt32(0);
  return buffer_.size() - 4;
}

void Writer::PatchInt32(size_t place, int32_t value) {
  assert(place + 4 <= buffer_.size());
  for (size_t i = 0; i < 4; ++i) {
    buffer_[place + i] = static_cast<uint8_t>(static_cast<uint32_t>(value) >> (8 * (3 - i)));
  }
}

std::vector<Writer::Chunk> Writer::chunks() const {
  std::vector<Chunk> out;
  out.reserve(2 * externals_.size() + 1);
  AppendChunks(&out);
  return out;
}

void Writer::AppendChunks(std::vector<Chunk>* out) const {
  const ByteView own(buffer_);
  size_t from = 0;
  const auto own_until = [&](size_t to) {
    if (to > from) out->push_back({own.subspan(from, to - from), {}, nullptr});
    from = to;
  };
  for (const External& external : externals_) {
    own_until(external.position);
    out->push_back(external.chunk);
  }
  own_until(buffer_.size());
}

std::vector<uint8_t> Writer::Flatten() const {
  std::vector<uint8_t> out;
  out.reserve(size());
  for (const Chunk& chunk : chunks()) {
    assert(!chunk.is_file());
    out.insert(out.end(), chunk.bytes.begin(), chunk.bytes.end());
  }
  return out;
}

bool Writer::NotInVersion(std::string_view field, int16_t version) {
  Fail("set, but version " + std::to_string(version) + " does not have this field");
  return At(field);
}

}  // namespace kmirror::protocol
