// A list of regular expressions that names are matched against (protocol.md 4.3): the items are
// joined as ^(a|b|c)$ and must match the whole name. RE2 syntax. Immutable, thread-safe.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "kmirror/status.h"

namespace re2 {
class RE2;
}

namespace kmirror::sync {

class NameFilter {
 public:
  // Matches nothing.
  NameFilter();
  // kInvalidRegularExpression: the text names the item and the reason. An empty list matches
  // nothing.
  static Result<NameFilter> Compile(const std::vector<std::string>& patterns);

  bool Matches(std::string_view name) const;
  bool empty() const { return regex_ == nullptr; }

 private:
  std::shared_ptr<const re2::RE2> regex_;
};

}  // namespace kmirror::sync
