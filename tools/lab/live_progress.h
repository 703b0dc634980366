// Shows mirroring as it happens: one line, rewritten.
#pragma once

#include <chrono>
#include <iosfwd>
#include <string>

#include "kmirror/status.h"

namespace kmirror::lab {

// For `seconds`, or, with `until_caught_up`, until every partition of `topic` is MIRRORING with lag
// 0. kTimedOut when it is not by then.
Status WatchMirror(const std::string& source, const std::string& destination,
                   const std::string& mirror, const std::string& topic,
                   std::chrono::seconds seconds, bool until_caught_up, bool terminal,
                   std::ostream& out);

}  // namespace kmirror::lab
