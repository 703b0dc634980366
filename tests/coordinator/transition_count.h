// Which transitions of the state table the tests of the real coordinator take. Counted from the
// structured lines that it logs, so that production pays nothing.
//
// With KMIRROR_TRANSITIONS_FILE set, a process adds its counts to that file when it ends:
//   rule FROM EVENT TO          every transition there is
//   taken FROM EVENT TO COUNT
// ./check lets scripts/coverage add them up; one that no test takes fails the check.
#pragma once

#include <string_view>

namespace kmirror::coordinator {

void CountTransition(std::string_view line);

}  // namespace kmirror::coordinator
