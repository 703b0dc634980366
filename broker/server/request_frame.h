// The bytes of one request, as they arrive.
//
// Memory follows what was received: it starts small and doubles, whatever the size prefix claims.
// Externally synchronised.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <new>
#include <span>

#include "broker/server/request_memory.h"
#include "kmirror/types.h"

namespace kmirror::broker {

class RequestFrame {
 public:
  static constexpr size_t kFirstBytes = 64 * 1024;

  // size: what the prefix says, already checked against the limit.
  RequestFrame(size_t size, RequestMemory* memory) : size_(size), reservation_(memory) {}
  ~RequestFrame() { std::free(data_); }
  RequestFrame(const RequestFrame&) = delete;
  RequestFrame& operator=(const RequestFrame&) = delete;

  size_t size() const { return size_; }
  size_t received() const { return received_; }
  size_t missing() const { return size_ - received_; }

  // Where the next bytes go; empty when memory is refused, and `retry` runs later then (see
  // RequestMemory). REQUIRES: missing() > 0.
  template <typename Retry>
  std::span<uint8_t> Space(const Retry& retry) {
    if (received_ == capacity_) {
      const size_t grown = std::min(size_, std::max(kFirstBytes, capacity_ * 2));
      const auto more = static_cast<int64_t>(grown - capacity_);
      if (!reservation_.memory()->Reserve(&reservation_, more, retry)) return {};
      auto* moved = static_cast<uint8_t*>(std::realloc(data_, grown));
      if (moved == nullptr) throw std::bad_alloc();
      data_ = moved;
      capacity_ = grown;
    }
    return {data_ + received_, capacity_ - received_};
  }
  void Advance(size_t bytes) { received_ += bytes; }

  ByteView bytes() const { return {data_, received_}; }
  // The same memory, for a handler that rewrites record batches in place.
  std::span<uint8_t> Mutable(ByteView part) { return {data_ + (part.data() - data_), part.size()}; }

 private:
  const size_t size_;
  size_t received_ = 0;
  size_t capacity_ = 0;
  uint8_t* data_ = nullptr;
  RequestMemory::Reservation reservation_;
};

}  // namespace kmirror::broker
