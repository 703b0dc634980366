// Writes Kafka's wire types. Small values go into one buffer of the writer's own; records are kept
// by reference, as views of memory or ranges of a file, so that nothing on the way to a socket
// copies them.
//
// Externally synchronised. Puts that can fail answer false with the reason kept here.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "kmirror/types.h"
#include "src/protocol/field_error.h"
#include "src/protocol/records_view.h"

namespace kmirror::protocol {

class Writer {
 public:
  // A piece of the output, in order. Bytes of the writer's own buffer are valid until the next Put
  // and as long as the writer lives.
  struct Chunk {
    ByteView bytes;                     // empty when file.fd >= 0
    FileSlice file;                     // fd -1 for bytes
    std::shared_ptr<const void> owner;  // keeps `bytes` alive; null for the writer's own

    bool is_file() const { return file.fd >= 0; }
    size_t size() const { return is_file() ? file.size : bytes.size(); }
  };

  Writer() = default;
  Writer(Writer&&) = default;
  Writer& operator=(Writer&&) = default;
  Writer(const Writer&) = delete;
  Writer& operator=(const Writer&) = delete;

  // Room for so many bytes of its own.
  void Reserve(size_t bytes) { buffer_.reserve(bytes); }

  // ---- Fixed width, big endian.
  void PutBool(bool value) { buffer_.push_back(value ? 1 : 0); }
  void PutInt8(int8_t value) { buffer_.push_back(static_cast<uint8_t>(value)); }
  void PutInt16(int16_t value) { PutFixed(static_cast<uint16_t>(value)); }
  void PutInt32(int32_t value) { PutFixed(static_cast<uint32_t>(value)); }
  void PutInt64(int64_t value) { PutFixed(static_cast<uint64_t>(value)); }
  void PutUuid(const Uuid& value) { PutRaw(value.bytes); }

  // ---- Variable width, in the fewest bytes. PutVarint and PutVarlong are the zigzag forms.
  void PutUnsignedVarint(uint64_t value);
  void PutVarint(int32_t value) { PutVarlong(value); }
  void PutVarlong(int64_t value) {
    PutUnsignedVarint((static_cast<uint64_t>(value) << 1) ^ static_cast<uint64_t>(value >> 63));
  }

  // ---- Length-prefixed; `flexible` and `nullable` as in Reader. False: null where the version has
  // no null, or longer than the wire can say (strings: 32767 bytes in both forms, as in Kafka).
  [[nodiscard]] bool PutString(bool flexible, std::string_view value);
  [[nodiscard]] bool PutString(bool flexible, bool nullable,
                               const std::optional<std::string>& value);
  [[nodiscard]] bool PutBytes(bool flexible, ByteView value);
  [[nodiscard]] bool PutBytes(bool flexible, bool nullable,
                              const std::optional<std::vector<uint8_t>>& value);
  [[nodiscard]] bool PutRecords(bool flexible, bool nullable,
                                const std::optional<RecordsView>& value);
  [[nodiscard]] bool PutArrayLength(bool flexible, size_t count);
  [[nodiscard]] bool PutNullArray(bool flexible, bool nullable);
  void PutPresence(bool present) { PutInt8(present ? 1 : -1); }

  // ---- Tagged fields: PutUnsignedVarint(count), then for each tag in ascending order BeginTag,
  // the value, EndTag with what BeginTag gave. No external chunk in between.
  size_t BeginTag(uint32_t tag);
  void EndTag(size_t begin);

  // ---- Raw and by reference.
  void PutRaw(ByteView bytes) { buffer_.insert(buffer_.end(), bytes.begin(), bytes.end()); }
  // Without `owner` the bytes must outlive the writer and whoever got its chunks.
  void WriteExternal(ByteView bytes, std::shared_ptr<const void> owner = nullptr);
  void WriteFile(FileSlice file);

  // An int32 to be filled in later: its place, then its value. Only in the writer's own bytes.
  size_t ReserveInt32();
  void PatchInt32(size_t place, int32_t value);

  // Bytes written, external ones included.
  size_t size() const { return buffer_.size() + external_bytes_; }
  // All pieces in order; empty ones are left out.
  std::vector<Chunk> chunks() const;
  void AppendChunks(std::vector<Chunk>* out) const;  // the same, behind others
  // Everything in one piece. REQUIRES: no file among the chunks.
  std::vector<uint8_t> Flatten() const;

  bool Fail(std::string reason) { return error_.Fail(std::move(reason)); }
  bool At(std::string_view field) { return error_.At(field); }
  bool At(std::string_view field, size_t index) { return error_.At(field, index); }
  // A field that the version does not have holds a value that would be lost.
  bool NotInVersion(std::string_view field, int16_t version);
  const FieldError& error() const { return error_; }

 private:
  struct External {
    size_t position;  // of buffer_ before which it comes
    Chunk chunk;
  };

  template <typename Unsigned>
  void PutFixed(Unsigned value) {
    uint8_t bytes[sizeof value];
    for (size_t i = 0; i < sizeof value; ++i) {
      bytes[i] = static_cast<uint8_t>(value >> (8 * (sizeof value - 1 - i)));
    }
    PutRaw(bytes);
  }
  bool PutLength(bool flexible, bool is_string, size_t length);
  bool PutNull(bool flexible, bool is_string, bool nullable);

  std::vector<uint8_t> buffer_;
  std::vector<External> externals_;
  size_t external_bytes_ = 0;
  FieldError error_;
};

}  // namespace kmirror::protocol
