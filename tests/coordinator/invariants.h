// What must hold of a mirrored partition at any moment, and of a stopped one at rest
// (coordinator.md 13, fetcher-and-log.md 9.11 to 9.15).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tests/coordinator/coordinator_fixture.h"

namespace kmirror::coordinator {

// Of every partition of the topic. Cheap enough to run after every task.
void CheckAlways(Cluster& c, const std::string& topic);

// `open`: producer ids whose transactions were open at the stop, each of which has exactly one
// ABORT. Local records after the reset are fine.
void CheckStopped(Cluster& c, const std::string& topic, int partition,
                  const std::vector<int64_t>& open);

}  // namespace kmirror::coordinator
