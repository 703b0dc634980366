// Whole batches of one partition as they came from the source, with the slabs they lie in.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "kmirror/log/batch.h"
#include "kmirror/types.h"
#include "src/fetcher/slab_pool.h"

namespace kmirror::fetcher {

struct FetchedSet {
  std::vector<ByteView> bytes;          // pieces in order, together exactly the batches
  std::vector<log::BatchInfo> batches;  // never empty when handed out
  std::vector<SlabRef> slabs;           // keep `bytes` alive
  size_t size = 0;                      // bytes in all

  int64_t last_offset() const { return batches.back().last_offset; }
  // The greatest batch epoch; -1 when all are older formats.
  int32_t max_epoch() const {
    int32_t epoch = -1;
    for (const log::BatchInfo& batch : batches) {
      if (batch.leader_epoch > epoch) epoch = batch.leader_epoch;
    }
    return epoch;
  }
  int32_t last_epoch() const { return batches.back().leader_epoch; }
  // Keeps the capacity, for the next set.
  void Clear() {
    bytes.clear();
    batches.clear();
    slabs.clear();
    size = 0;
  }
};

}  // namespace kmirror::fetcher
