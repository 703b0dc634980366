#include "tests/protocol/json_text.h"

namespace kmirror::protocol {

void JsonText::Key(std::string_view name) {
  if (!first_) text_ += ',';
  first_ = false;
  text_.append("\"").append(name).append("\":");
}

void JsonText::Field(std::string_view name, const std::optional<RecordsView>& records) {
  if (records) {
    Key(std::string(name) + "SizeInBytes");
    Value(static_cast<int64_t>(records->size()));
  } else {
    Key(name);
    text_ += "null";
  }
}

void JsonText::Value(const std::string& value) {
  static constexpr char kHex[] = "0123456789abcdef";
  text_ += '"';
  for (const char c : value) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      text_ += '\\';
      text_ += c;
    } else if (byte < 0x20) {
      text_.append("\\u00").append(1, kHex[byte >> 4]).append(1, kHex[byte & 15]);
    } else {
      text_ += c;
    }
  }
  text_ += '"';
}

void JsonText::Value(const std::vector<uint8_t>& value) {
  static constexpr char kAlphabet[] =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  text_ += '"';
  for (size_t i = 0; i < value.size(); i += 3) {
    const size_t bytes = std::min<size_t>(3, value.size() - i);
    uint32_t group = 0;
    for (size_t j = 0; j < 3; ++j) group = group << 8 | (j < bytes ? value[i + j] : 0u);
    for (size_t j = 0; j < 4; ++j) {
      text_ += j <= bytes ? kAlphabet[group >> (18 - 6 * j) & 63] : '=';
    }
  }
  text_ += '"';
}

}  // namespace kmirror::protocol
