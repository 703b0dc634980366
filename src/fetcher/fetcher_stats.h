// Counters of one fetcher. Written on its lane, read on any thread.
#pragma once

#include <cstdint>

#include "src/fetcher/transport.h"

namespace kmirror::fetcher {

struct FetcherStats : ConnectionCounters {
  Counter bytes{0};  // appended
  Counter batches{0};
  Counter records{0};   // sum of the batches' counts
  Counter appends{0};   // sets handed to logs and taken: one write each
  Counter requests{0};  // fetches sent
  Counter failed_requests{0};
  Counter connects{0};
  Counter crc_failures{0};   // corrupt batches of any kind
  Counter partial_bytes{0};  // trimmed off the end of partitions
  Counter session_resets{0};
  Counter gaps{0};          // R12
  Counter throttle_ms{0};   // asked for by the source
  Counter dropped_sets{0};  // answers that came too late (1.7 step 4)
  Counter preferred_replica{0};
  Counter partition_errors{0};
  Counter epoch_requests{0};
  Counter buffer_peak_bytes{0};  // the most that answers have held at once
  Counter last_answer_ns{0};     // monotonic time of the last fetch that told something; 0 none
  // When the source answers the fetch under way at the latest; 0 none.
  Counter fetch_ends_ns{0};
};

}  // namespace kmirror::fetcher
