// Reads Kafka's wire types from bytes in memory. Nothing is read past the end, whatever the bytes
// say.
//
// Externally synchronised; does not own the bytes. Every Read answers false on failure with the
// reason kept here; after a failure the reader is of no further use. What Kafka's reader forgives
// and this one does not (and the other way round) is listed in src/protocol/README.md.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "kmirror/types.h"
#include "src/protocol/field_error.h"
#include "src/protocol/records_view.h"

namespace kmirror::protocol {

class Reader {
 public:
  explicit Reader(ByteView bytes) : at_(bytes.data()), end_(bytes.data() + bytes.size()) {}

  // Bytes not read yet.
  size_t remaining() const { return static_cast<size_t>(end_ - at_); }
  ByteView rest() const { return {at_, remaining()}; }

  // ---- Fixed width, big endian. Any non-zero byte is true, as Kafka documents.
  bool ReadBool(bool* out);
  bool ReadInt8(int8_t* out) { return ReadFixed<uint8_t>(out); }
  bool ReadInt16(int16_t* out) { return ReadFixed<uint16_t>(out); }
  bool ReadInt32(int32_t* out) { return ReadFixed<uint32_t>(out); }
  bool ReadInt64(int64_t* out) { return ReadFixed<uint64_t>(out); }
  bool ReadUuid(Uuid* out);

  // ---- Variable width: at most 5 bytes of 32 bits, or 10 bytes of 64. Needless leading zero
  // groups are accepted within that length. ReadVarint and ReadVarlong are the zigzag forms of
  // records.
  bool ReadUnsignedVarint(uint32_t* out);
  bool ReadVarint(int32_t* out);
  bool ReadVarlong(int64_t* out);

  // ---- Length-prefixed. `flexible` picks the compact form (unsigned varint of length + 1) over
  // the classic one (int16 for strings, int32 for the others). `nullable` says whether -1 is
  // allowed. Strings are taken as they are: Kafka does not insist on UTF-8 and neither do we.
  bool ReadString(bool flexible, std::string* out);
  bool ReadString(bool flexible, bool nullable, std::optional<std::string>* out);
  bool ReadBytes(bool flexible, std::vector<uint8_t>* out);
  bool ReadBytes(bool flexible, bool nullable, std::optional<std::vector<uint8_t>>* out);
  // A view into the bytes of this reader.
  bool ReadRecords(bool flexible, bool nullable, std::optional<RecordsView>* out);

  // The number of elements, refused when elements of at least `element_bytes` bytes (>= 1) each do
  // not fit into what remains. nullopt is null.
  bool ReadArrayLength(bool flexible, bool nullable, size_t element_bytes,
                       std::optional<size_t>* out);

  // A nullable struct's leading byte: -1 null, 1 present, anything else refused.
  bool ReadPresence(bool* present);

  // A tag buffer: known(tag) reads the value of a tag it knows and leaves others alone, answering
  // false only on failure. A value that is not read whole is refused, one not touched is skipped.
  template <typename Known>
  bool ReadTags(Known known);
  // A tag buffer nothing is known of.
  bool SkipTags() {
    return ReadTags([](uint32_t) { return true; });
  }

  // ---- Raw.
  bool ReadView(size_t size, ByteView* out);

  bool Fail(std::string reason) { return error_.Fail(std::move(reason)); }
  bool At(std::string_view field) { return error_.At(field); }
  bool At(std::string_view field, size_t index) { return error_.At(field, index); }
  const FieldError& error() const { return error_; }

 private:
  template <typename Unsigned, typename T>
  bool ReadFixed(T* out) {
    if (remaining() < sizeof(Unsigned)) return FailShort(sizeof(Unsigned));
    Unsigned value = 0;
    for (size_t i = 0; i < sizeof(Unsigned); ++i) {
      value = static_cast<Unsigned>((static_cast<uint64_t>(value) << 8) | at_[i]);
    }
    at_ += sizeof(Unsigned);
    *out = static_cast<T>(value);
    return true;
  }

  // Length of a string, byte field or array; -1 is null where `nullable`.
  bool ReadLength(bool flexible, bool is_string, bool nullable, int64_t* out);
  // ReadLength, and the bytes; nullopt is null.
  bool ReadBlob(bool flexible, bool is_string, bool nullable, std::optional<ByteView>* out);
  bool ReadUnsigned(int bytes_max, int bits, uint64_t* out);

  bool ReadTagStart(int64_t previous, uint32_t* tag, size_t* size);
  bool FailShort(size_t needed);

  const uint8_t* at_;
  const uint8_t* end_;
  FieldError error_;
};

template <typename Known>
bool Reader::ReadTags(Known known) {
  uint32_t count = 0;
  if (!ReadUnsignedVarint(&count)) return At("tags");
  int64_t previous = -1;
  for (uint32_t i = 0; i < count; ++i) {
    uint32_t tag = 0;
    size_t size = 0;
    if (!ReadTagStart(previous, &tag, &size)) return At("tags");
    previous = tag;
    // The value is read as if the bytes ended with it, so that it cannot run into what follows.
    const uint8_t* value = at_;
    const uint8_t* outer_end = end_;
    end_ = at_ + size;
    if (!known(tag)) return false;
    if (at_ != end_ && at_ != value) {
      Fail("tag " + std::to_string(tag) + " of " + std::to_string(size) + " bytes holds " +
           std::to_string(end_ - at_) + " more than its field");
      return At("tags");
    }
    at_ = end_;
    end_ = outer_end;
  }
  return true;
}

}  // namespace kmirror::protocol
