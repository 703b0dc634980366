// Java's .properties syntax (java.util.Properties.load), which Kafka's files are written in.
#include <cstdint>

#include "broker/config/broker_config.h"

namespace kmirror::broker {
namespace {

bool IsBlank(char c) { return c == ' ' || c == '\t' || c == '\f'; }

void AppendUtf8(std::string& out, uint32_t c) {
  if (c < 0x80) {
    out.push_back(static_cast<char>(c));
  } else if (c < 0x800) {
    out.push_back(static_cast<char>(0xC0 | c >> 6));
    out.push_back(static_cast<char>(0x80 | (c & 0x3F)));
  } else {
    out.push_back(static_cast<char>(0xE0 | c >> 12));
    out.push_back(static_cast<char>(0x80 | (c >> 6 & 0x3F)));
    out.push_back(static_cast<char>(0x80 | (c & 0x3F)));
  }
}

int HexDigit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

// Resolves the escapes of `raw`. False: a broken \u.
bool Unescape(std::string_view raw, std::string* out) {
  for (size_t i = 0; i < raw.size(); ++i) {
    if (raw[i] != '\\' || i + 1 == raw.size()) {
      if (raw[i] != '\\') out->push_back(raw[i]);
      continue;
    }
    const char c = raw[++i];
    switch (c) {
      case 't': out->push_back('\t'); break;
      case 'n': out->push_back('\n'); break;
      case 'r': out->push_back('\r'); break;
      case 'f': out->push_back('\f'); break;
      case 'u': {
        if (raw.size() - i <= 4) return false;
        uint32_t value = 0;
        for (int n = 0; n < 4; ++n) {
          const int digit = HexDigit(raw[++i]);
          if (digit < 0) return false;
          value = value << 4 | static_cast<uint32_t>(digit);
        }
        AppendUtf8(*out, value);
        break;
      }
      default: out->push_back(c);
    }
  }
  return true;
}

// True when the line ends in an odd number of backslashes: it continues.
bool Continues(std::string_view line) {
  size_t slashes = 0;
  while (slashes < line.size() && line[line.size() - 1 - slashes] == '\\') ++slashes;
  return slashes % 2 == 1;
}

std::string_view SkipBlanks(std::string_view text) {
  while (!text.empty() && IsBlank(text.front())) text.remove_prefix(1);
  return text;
}

}  // namespace

Result<Properties> ParseProperties(std::string_view text, std::string_view file) {
  Properties properties;
  int line_number = 0;
  const auto next_line = [&] {
    const size_t end = text.find('\n');
    std::string_view line = text.substr(0, end);
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
    if (line.ends_with('\r')) line.remove_suffix(1);
    ++line_number;
    return line;
  };
  while (!text.empty()) {
    std::string_view line = SkipBlanks(next_line());
    const int first_line = line_number;
    if (line.empty() || line.front() == '#' || line.front() == '!') continue;
    std::string logical(line);
    while (Continues(logical)) {
      logical.pop_back();
      if (text.empty()) break;
      logical += SkipBlanks(next_line());
    }
    // The key ends at the first blank, '=' or ':' that is not escaped.
    size_t key_end = 0;
    while (key_end < logical.size() && logical[key_end] != '=' && logical[key_end] != ':' &&
           !IsBlank(logical[key_end])) {
      key_end += logical[key_end] == '\\' && key_end + 1 < logical.size() ? 2 : 1;
    }
    std::string_view rest = SkipBlanks(std::string_view(logical).substr(key_end));
    if (!rest.empty() && (rest.front() == '=' || rest.front() == ':')) {
      rest = SkipBlanks(rest.substr(1));
    }
    std::string key;
    Property property;
    property.line = first_line;
    if (!Unescape(std::string_view(logical).substr(0, key_end), &key) ||
        !Unescape(rest, &property.value)) {
      return Status(ErrorCode::kInvalidConfig,
                    std::string(file) + ":" + std::to_string(first_line) + ": broken \\u escape");
    }
    if (key.empty()) {
      return Status(
          ErrorCode::kInvalidConfig,
          std::string(file) + ":" + std::to_string(first_line) + ": a value without a key");
    }
    properties[std::move(key)] = std::move(property);
  }
  return properties;
}

}  // namespace kmirror::broker
