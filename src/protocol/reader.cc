#include "src/protocol/reader.h"

namespace kmirror::protocol {

bool Reader::FailShort(size_t needed) {
  return Fail("needs " + std::to_string(needed) + " bytes, " + std::to_string(remaining()) +
              " left");
}

bool Reader::ReadBool(bool* out) {
  int8_t value = 0;
  if (!ReadInt8(&value)) return false;
  *out = value != 0;
  return true;
}

bool Reader::ReadUuid(Uuid* out) {
  ByteView bytes;
  if (!ReadView(out->bytes.size(), &bytes)) return false;
  std::copy(bytes.begin(), bytes.end(), out->bytes.begin());
  return true;
}

bool Reader::ReadUnsigned(int bytes_max, int bits, uint64_t* out) {
  uint64_t value = 0;
  for (int i = 0; i < bytes_max; ++i) {
    if (at_ == end_) return FailShort(1);
    const uint8_t byte = *at_++;
    const uint64_t group = byte & 0x7f;
    const int shift = 7 * i;
    if (shift + 7 > bits && (group >> (bits - shift)) != 0) {
      return Fail("varint of more than " + std::to_string(bits) + " bits");
    }
    value |= group << shift;
    if ((byte & 0x80) == 0) {
      *out = value;
      return true;
    }
  }
  return Fail("varint of more than " + std::to_string(bytes_max) + " bytes");
}

bool Reader::ReadUnsignedVarint(uint32_t* out) {
  if (at_ != end_ && *at_ < 0x80) {
    *out = *at_++;
    return true;
  }
  uint64_t value = 0;
  if (!ReadUnsigned(5, 32, &value)) return false;
  *out = static_cast<uint32_t>(value);
  return true;
}

bool Reader::ReadVarint(int32_t* out) {
  uint32_t value = 0;
  if (!ReadUnsignedVarint(&value)) return false;
  *out = static_cast<int32_t>((value >> 1) ^ (~(value & 1) + 1));
  return true;
}

bool Reader::ReadVarlong(int64_t* out) {
  uint64_t value = 0;
  if (!ReadUnsigned(10, 64, &value)) return false;
  *out = static_cast<int64_t>((value >> 1) ^ (~(value & 1) + 1));
  return true;
}

bool Reader::ReadView(size_t size, ByteView* out) {
  if (remaining() < size) return FailShort(size);
  *out = {at_, size};
  at_ += size;
  return true;
}

bool Reader::ReadLength(bool flexible, bool is_string, bool nullable, int64_t* out) {
  if (flexible) {
    uint32_t value = 0;
    if (!ReadUnsignedVarint(&value)) return false;
    *out = static_cast<int64_t>(value) - 1;
  } else if (is_string) {
    int16_t value = 0;
    if (!ReadInt16(&value)) return false;
    *out = value;
  } else {
    int32_t value = 0;
    if (!ReadInt32(&value)) return false;
    *out = value;
  }
  if (*out < -1) return Fail("length " + std::to_string(*out));
  if (*out == -1 && !nullable) return Fail("null, which this field may not be");
  if (is_string && *out > INT16_MAX) return Fail("string of " + std::to_string(*out) + " bytes");
  return true;
}

bool Reader::ReadBlob(bool flexible, bool is_string, bool nullable, std::optional<ByteView>* out) {
  int64_t length = 0;
  if (!ReadLength(flexible, is_string, nullable, &length)) return false;
  if (length < 0) {
    out->reset();
    return true;
  }
  return ReadView(static_cast<size_t>(length), &out->emplace());
}

bool Reader::ReadString(bool flexible, std::string* out) {
  std::optional<ByteView> bytes;
  if (!ReadBlob(flexible, true, false, &bytes)) return false;
  out->assign(reinterpret_cast<const char*>(bytes->data()), bytes->size());
  return true;
}

bool Reader::ReadString(bool flexible, bool nullable, std::optional<std::string>* out) {
  std::optional<ByteView> bytes;
  if (!ReadBlob(flexible, true, nullable, &bytes)) return false;
  if (bytes) {
    out->emplace(reinterpret_cast<const char*>(bytes->data()), bytes->size());
  } else {
    out->reset();
  }
  return true;
}

bool Reader::ReadBytes(bool flexible, std::vector<uint8_t>* out) {
  std::optional<ByteView> bytes;
  if (!ReadBlob(flexible, false, false, &bytes)) return false;
  out->assign(bytes->begin(), bytes->end());
  return true;
}

bool Reader::ReadBytes(bool flexible, bool nullable, std::optional<std::vector<uint8_t>>* out) {
  std::optional<ByteView> bytes;
  if (!ReadBlob(flexible, false, nullable, &bytes)) return false;
  if (bytes) {
    out->emplace(bytes->begin(), bytes->end());
  } else {
    out->reset();
  }
  return true;
}

bool Reader::ReadRecords(bool flexible, bool nullable, std::optional<RecordsView>* out) {
  std::optional<ByteView> bytes;
  if (!ReadBlob(flexible, false, nullable, &bytes)) return false;
  if (bytes) {
    out->emplace(*bytes);
  } else {
    out->reset();
  }
  return true;
}

bool Reader::ReadArrayLength(bool flexible, bool nullable, size_t element_bytes,
                             std::optional<size_t>* out) {
  int64_t length = 0;
  if (!ReadLength(flexible, false, nullable, &length)) return false;
  if (length < 0) {
    out->reset();
    return true;
  }
  const auto count = static_cast<size_t>(length);
  if (count > remaining() / element_bytes) {
    return Fail(std::to_string(count) + " elements of at least " + std::to_string(element_bytes) +
                " bytes, " + std::to_string(remaining()) + " bytes left");
  }
  *out = count;
  return true;
}

bool Reader::ReadPresence(bool* present) {
  int8_t value = 0;
  if (!ReadInt8(&value)) return false;
  if (value != -1 && value != 1) {
    return Fail("presence byte " + std::to_string(value) + " is neither -1 nor 1");
  }
  *present = value == 1;
  return true;
}

bool Reader::ReadTagStart(int64_t previous, uint32_t* tag, size_t* size) {
  uint32_t length = 0;
  if (!ReadUnsignedVarint(tag) || !ReadUnsignedVarint(&length)) return false;
  if (*tag <= previous) {
    return Fail("tag " + std::to_string(*tag) + " after tag " + std::to_string(previous));
  }
  if (length > remaining()) {
    return Fail("tag " + std::to_string(*tag) + " of " + std::to_string(length) + " bytes, " +
                std::to_string(remaining()) + " left");
  }
  *size = length;
  return true;
}

}  // namespace kmirror::protocol
