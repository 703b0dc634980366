// Prints the last batches of a partition as they lie in the log: offsets, epochs, producers, and
// which are markers. Fetched raw with our own codec, since no client shows control batches.
#pragma once

#include <iosfwd>
#include <string>

#include "kmirror/status.h"

namespace kmirror::lab {

// `last` batches at most. `aborts` and `resets` (may be null) get how many of the printed are such.
Status ListBatches(const std::string& bootstrap, const std::string& topic, int32_t partition,
                   int last, std::ostream& out, int* aborts, int* resets);

}  // namespace kmirror::lab
