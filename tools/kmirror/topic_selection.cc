#include "tools/kmirror/topic_selection.h"

#include <re2/re2.h>

namespace kmirror::tools {

Result<std::vector<std::string>> SelectTopics(const std::vector<std::string>& wanted,
                                              const std::set<std::string>& present) {
  std::set<std::string> chosen;
  for (const std::string& item : wanted) {
    if (present.contains(item)) {
      chosen.insert(item);
      continue;
    }
    const re2::RE2 pattern(item, re2::RE2::Quiet);
    if (!pattern.ok()) return {ErrorCode::kUsage, "\"" + item + "\": " + pattern.error()};
    bool any = false;
    for (const std::string& name : present) {
      if (!re2::RE2::FullMatch(name, pattern)) continue;
      chosen.insert(name);
      any = true;
    }
    if (!any)
      return {ErrorCode::kUnknownTopicOrPartition, "no topic is or matches \"" + item + "\""};
  }
  return std::vector<std::string>(chosen.begin(), chosen.end());
}

std::vector<std::string> SplitList(const std::string& text) {
  std::vector<std::string> parts(1);
  int depth = 0;
  for (const char c : text) {
    if (c == '{') ++depth;
    if (c == '}' && depth > 0) --depth;
    if (c == ',' && depth == 0) {
      parts.emplace_back();
    } else {
      parts.back() += c;
    }
  }
  std::vector<std::string> kept;
  for (std::string& part : parts) {
    const size_t begin = part.find_first_not_of(' ');
    if (begin == std::string::npos) continue;
    kept.push_back(part.substr(begin, part.find_last_not_of(' ') - begin + 1));
  }
  return kept;
}

}  // namespace kmirror::tools
