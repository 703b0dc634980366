#include "src/base/config_value.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <limits>

namespace kmirror {

std::string_view TrimBlanks(std::string_view text) {
  const auto blank = [](char c) {
    return c == ' ' || c == '\t' || c == '\r' || c == '\n' || c == '\f';
  };
  while (!text.empty() && blank(text.front())) text.remove_prefix(1);
  while (!text.empty() && blank(text.back())) text.remove_suffix(1);
  return text;
}

std::optional<int64_t> ParseInt64(std::string_view text) {
  text = TrimBlanks(text);
  if (text.starts_with('+')) text.remove_prefix(1);
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

std::optional<double> ParseDouble(std::string_view text) {
  const std::string copy(TrimBlanks(text));
  if (copy.empty()) return std::nullopt;
  char* end = nullptr;
  const double value = std::strtod(copy.c_str(), &end);
  if (end != copy.c_str() + copy.size() || !std::isfinite(value)) return std::nullopt;
  return value;
}

std::optional<bool> ParseBool(std::string_view text) {
  text = TrimBlanks(text);
  const auto is = [&](std::string_view word) {
    return std::equal(text.begin(), text.end(), word.begin(), word.end(),
                      [](char a, char b) { return (a >= 'A' && a <= 'Z' ? a + 32 : a) == b; });
  };
  if (is("true")) return true;
  if (is("false")) return false;
  return std::nullopt;
}

std::vector<std::string> SplitList(std::string_view text) {
  std::vector<std::string> items;
  while (true) {
    const size_t comma = text.find(',');
    const std::string_view item = TrimBlanks(text.substr(0, comma));
    if (!item.empty()) items.emplace_back(item);
    if (comma == std::string_view::npos) return items;
    text.remove_prefix(comma + 1);
  }
}

std::optional<HostPort> ParseHostPort(std::string_view text, int32_t min_port) {
  text = TrimBlanks(text);
  const size_t colon = text.rfind(':');
  if (colon == std::string_view::npos) return std::nullopt;
  std::string_view host = text.substr(0, colon);
  const std::string_view digits = text.substr(colon + 1);
  const bool all_digits =
      !digits.empty() && digits.size() <= 5 &&
      std::all_of(digits.begin(), digits.end(), [](char c) { return c >= '0' && c <= '9'; });
  if (!all_digits) return std::nullopt;
  const int64_t port = *ParseInt64(digits);
  if (port < min_port || port > 65535) return std::nullopt;
  if (host.starts_with('[')) {
    if (host.size() < 3 || !host.ends_with(']')) return std::nullopt;
    host = host.substr(1, host.size() - 2);
  } else if (host.find(':') != std::string_view::npos) {
    return std::nullopt;  // an address of IPv6 needs brackets, or its last group reads as the port
  }
  if (host.find_first_of(" \t/@[]") != std::string_view::npos) return std::nullopt;
  return HostPort{std::string(host), static_cast<int32_t>(port)};
}

namespace {

bool IsChoice(std::string_view value, std::string_view choices) {
  for (const std::string& choice : SplitList(choices)) {
    if (choice == value) return true;
  }
  return false;
}

}  // namespace

Status CheckTypedValue(std::string_view name, ConfigType type, std::string_view value, int64_t min,
                       int64_t max, std::string_view choices) {
  const auto bad = [&](const std::string& why) {
    std::string text(name);
    text.append(": ");
    if (type != ConfigType::kPassword) text.append("\"").append(value).append("\" ");
    return Status(ErrorCode::kInvalidConfig, text + why);
  };
  switch (type) {
    case ConfigType::kBoolean:
      if (!ParseBool(value)) return bad("is neither true nor false");
      return {};
    case ConfigType::kShort:
    case ConfigType::kInt:
    case ConfigType::kLong: {
      if (type == ConfigType::kInt) {
        min = std::max<int64_t>(min, std::numeric_limits<int32_t>::min());
        max = std::min<int64_t>(max, std::numeric_limits<int32_t>::max());
      } else if (type == ConfigType::kShort) {
        min = std::max<int64_t>(min, std::numeric_limits<int16_t>::min());
        max = std::min<int64_t>(max, std::numeric_limits<int16_t>::max());
      }
      const std::optional<int64_t> number = ParseInt64(value);
      if (!number) return bad("is not a whole number");
      if (*number < min) return bad("is less than " + std::to_string(min));
      if (*number > max) return bad("is greater than " + std::to_string(max));
      return {};
    }
    case ConfigType::kDouble:
      if (!ParseDouble(value)) return bad("is not a number");
      return {};
    case ConfigType::kList:
      if (choices.empty()) return {};
      for (const std::string& item : SplitList(value)) {
        if (!IsChoice(item, choices))
          return bad("has an item that is not one of " + std::string(choices));
      }
      return {};
    default:
      if (!choices.empty() && !IsChoice(value, choices))
        return bad("is not one of " + std::string(choices));
      return {};
  }
}

}  // namespace kmirror
