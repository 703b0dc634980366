// Where the producer ids of a cluster come from (R9). Pure.
//
// Kafka clusters count from 0. Ours take a range of 2^40 ids whose place is derived from the
// cluster id, so that ids in mirrored data practically never meet ids of the own cluster. When a
// range is used up (or a hostile batch has claimed its last id) the cluster moves to the next of
// its sequence of ranges; all ranges of the sequence are different.
#pragma once

#include <cstdint>
#include <string_view>

namespace kmirror::broker {

inline constexpr int64_t kProducerIdRangeSize = int64_t{1} << 40;

struct ProducerIdSpan {
  int64_t begin = 0;
  int64_t end = 0;  // exclusive
  bool Contains(int64_t id) const { return id >= begin && id < end; }
};

// Never the first range (where Kafka clusters are) and never the last (the greatest possible ids).
ProducerIdSpan ProducerIdRangeOf(std::string_view cluster_id, int32_t generation);

}  // namespace kmirror::broker
