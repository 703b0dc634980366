#include "tools/kmirror/mirror_config_file.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <sstream>
#include <utility>

namespace kmirror::tools {
namespace {

std::string Trim(std::string_view text) {
  constexpr std::string_view kSpace = " \t\r\f";
  const size_t begin = text.find_first_not_of(kSpace);
  if (begin == std::string_view::npos) return {};
  return std::string(text.substr(begin, text.find_last_not_of(kSpace) - begin + 1));
}

}  // namespace

Result<Configs> ParseProperties(std::string_view text, const std::string& name) {
  Configs configs;
  int number = 0;
  while (!text.empty()) {
    const int first = number + 1;
    std::string line;
    // A line that ends in "\\" goes on in the next one: certificates are written like that.
    for (bool more = true; more && !text.empty();) {
      ++number;
      const size_t end = std::min(text.find('\n'), text.size());
      std::string part = Trim(text.substr(0, end));
      text.remove_prefix(std::min(end + 1, text.size()));
      const bool comment = line.empty() && !part.empty() && (part[0] == '#' || part[0] == '!');
      const size_t last = part.find_last_not_of('\\');
      more = !comment && (part.size() - (last == std::string::npos ? 0 : last + 1)) % 2 == 1;
      if (more) part.pop_back();
      line += part;
    }
    if (line.empty() || line[0] == '#' || line[0] == '!') continue;
    const size_t separator = line.find_first_of("=:");
    const std::string key = separator == std::string::npos ? "" : Trim(line.substr(0, separator));
    if (key.empty()) {
      // Not with the line itself: it may be a piece of a key.
      return {ErrorCode::kUsage, name + ":" + std::to_string(first) + ": is not KEY=VALUE"};
    }
    configs[key] = Trim(line.substr(separator + 1));
  }
  return configs;
}

Result<Configs> ReadProperties(const std::string& path) {
  std::ifstream file(path);
  if (!file) return {ErrorCode::kUsage, path + ": " + std::strerror(errno)};
  std::ostringstream text;
  text << file.rdbuf();
  if (file.bad()) return {ErrorCode::kUsage, path + ": cannot be read"};
  return ParseProperties(text.str(), path);
}

Result<std::pair<std::string, std::string>> ParseConfig(const std::string& text) {
  const size_t separator = text.find('=');
  if (separator == std::string::npos || Trim(text.substr(0, separator)).empty()) {
    return {ErrorCode::kUsage, "--config \"" + text + "\" is not KEY=VALUE"};
  }
  return std::pair(Trim(text.substr(0, separator)), Trim(text.substr(separator + 1)));
}

}  // namespace kmirror::tools
