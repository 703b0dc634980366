// Memory that fetch answers are received into: slabs of 1 MiB, reused last-in first-out so that the
// next bytes land where the cache is warm. The bound of one fetcher is `fetch.buffer.bytes` (R37).
//
// Confined to one lane: references are counted without atomics.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

namespace kmirror::fetcher {

class SlabPool;

struct Slab {
  static constexpr size_t kBytes = 1 << 20;
  uint8_t* bytes = nullptr;
  SlabPool* pool = nullptr;
  int references = 0;
};

// Shared ownership of a slab; the last reference gives it back to its pool, which must outlive it.
class SlabRef {
 public:
  SlabRef() = default;
  explicit SlabRef(Slab* slab) : slab_(slab) { ++slab_->references; }
  SlabRef(const SlabRef& other) : slab_(other.slab_) {
    if (slab_ != nullptr) ++slab_->references;
  }
  SlabRef(SlabRef&& other) noexcept : slab_(std::exchange(other.slab_, nullptr)) {}
  SlabRef& operator=(SlabRef other) noexcept {
    std::swap(slab_, other.slab_);
    return *this;
  }
  ~SlabRef() { Reset(); }

  inline void Reset();
  explicit operator bool() const { return slab_ != nullptr; }
  uint8_t* bytes() const { return slab_->bytes; }
  bool Unshared() const { return slab_->references == 1; }
  bool operator==(const SlabRef& other) const { return slab_ == other.slab_; }

 private:
  Slab* slab_ = nullptr;
};

class SlabPool {
 public:
  // At least two slabs: a batch may begin at the end of one.
  explicit SlabPool(int64_t bound_bytes);
  ~SlabPool();
  SlabPool(const SlabPool&) = delete;
  SlabPool& operator=(const SlabPool&) = delete;

  // Empty when the bound is reached.
  SlabRef Acquire();
  // For one batch greater than the bound, taken alone. Such slabs are freed, not kept.
  SlabRef AcquireBeyondBound();

  size_t used() const { return used_; }
  size_t bound() const { return bound_; }
  size_t peak() const { return peak_; }

 private:
  friend class SlabRef;
  void Release(Slab* slab);
  SlabRef Take();

  const size_t bound_;
  size_t used_ = 0;
  size_t peak_ = 0;
  std::vector<Slab*> free_;
};

inline void SlabRef::Reset() {
  Slab* slab = std::exchange(slab_, nullptr);
  if (slab != nullptr && --slab->references == 0) slab->pool->Release(slab);
}

}  // namespace kmirror::fetcher
