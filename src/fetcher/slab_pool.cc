#include "src/fetcher/slab_pool.h"

#include <algorithm>
#include <cassert>
#include <cstring>
#include <new>

namespace kmirror::fetcher {
namespace {

constexpr std::align_val_t kPage{4096};

}  // namespace

SlabPool::SlabPool(int64_t bound_bytes)
    : bound_(static_cast<size_t>(
          std::max<int64_t>(2, bound_bytes / static_cast<int64_t>(Slab::kBytes)))) {}

SlabPool::~SlabPool() {
  assert(used_ == 0 && "a SlabRef outlives its pool");
  for (Slab* slab : free_) {
    ::operator delete(slab->bytes, kPage);
    delete slab;
  }
}

SlabRef SlabPool::Take() {
  Slab* slab = nullptr;
  if (!free_.empty()) {
    slab = free_.back();
    free_.pop_back();
  } else {
    slab = new Slab;
    slab->pool = this;
    slab->bytes = static_cast<uint8_t*>(::operator new(Slab::kBytes, kPage));
    // Touched now, not while a sender waits: on a virtual machine the first touch of a page is
    // dear.
    std::memset(slab->bytes, 0, Slab::kBytes);
  }
  ++used_;
  peak_ = std::max(peak_, used_);
  return SlabRef(slab);
}

SlabRef SlabPool::Acquire() {
  if (used_ >= bound_) return {};
  return Take();
}

SlabRef SlabPool::AcquireBeyondBound() { return Take(); }

void SlabPool::Release(Slab* slab) {
  --used_;
  if (free_.size() + used_ >= bound_) {
    ::operator delete(slab->bytes, kPage);
    delete slab;
    return;
  }
  free_.push_back(slab);
}

}  // namespace kmirror::fetcher
