#include "src/sync/name_filter.h"

#include <re2/re2.h>

namespace kmirror::sync {
namespace {

re2::RE2::Options Quiet() {
  re2::RE2::Options options;
  options.set_log_errors(false);
  options.set_max_mem(4 << 20);  // a pattern comes from a client
  return options;
}

re2::StringPiece Piece(std::string_view text) { return {text.data(), text.size()}; }

}  // namespace

NameFilter::NameFilter() = default;

Result<NameFilter> NameFilter::Compile(const std::vector<std::string>& patterns) {
  NameFilter filter;
  if (patterns.empty()) return filter;
  std::string joined;
  for (const std::string& pattern : patterns) {
    // Alone first: "a)|(b" is valid only once it is joined, and then means something else.
    const re2::RE2 alone(Piece(pattern), Quiet());
    if (!alone.ok()) {
      return Status(ErrorCode::kInvalidRegularExpression, "\"" + pattern + "\": " + alone.error());
    }
    joined.append(joined.empty() ? "(?:" : "|(?:").append(pattern).append(")");
  }
  auto regex = std::make_shared<const re2::RE2>(Piece(joined), Quiet());
  if (!regex->ok()) return Status(ErrorCode::kInvalidRegularExpression, regex->error());
  filter.regex_ = std::move(regex);
  return filter;
}

bool NameFilter::Matches(std::string_view name) const {
  return regex_ != nullptr && re2::RE2::FullMatch(Piece(name), *regex_);
}

}  // namespace kmirror::sync
