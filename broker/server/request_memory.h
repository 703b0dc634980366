// How many bytes of requests the broker holds at once (`queued.max.request.bytes`).
//
// A request reserves memory as its bytes arrive, never by the size it claims. At the limit further
// reservations are refused and their connections stop reading, so TCP pushes back; one request at a
// time may go past the limit, or requests that arrive in parallel could all wait for each other.
// Thread-safe; outlives its reservations.
#pragma once

#include <cstdint>
#include <functional>
#include <mutex>
#include <vector>

namespace kmirror::broker {

class RequestMemory {
 public:
  // What one request holds; released when destroyed. Externally synchronised.
  class Reservation {
   public:
    explicit Reservation(RequestMemory* memory) : memory_(memory) {}
    ~Reservation() { memory_->Release(this); }
    Reservation(const Reservation&) = delete;
    Reservation& operator=(const Reservation&) = delete;
    RequestMemory* memory() const { return memory_; }

   private:
    friend class RequestMemory;
    RequestMemory* memory_;
    int64_t bytes_ = 0;
    bool past_limit_ = false;  // the one that may exceed the limit
  };

  // limit: bytes; 0 or less means none.
  explicit RequestMemory(int64_t limit) : limit_(limit) {}

  // Adds `bytes` to the reservation. False: no room now; `retry` runs once, on any thread and
  // without locks, when there may be.
  bool Reserve(Reservation* reservation, int64_t bytes, std::function<void()> retry);
  int64_t used() const;

 private:
  void Release(Reservation* reservation);

  const int64_t limit_;
  mutable std::mutex mutex_;
  int64_t used_ = 0;
  bool past_limit_taken_ = false;
  std::vector<std::function<void()>> waiting_;
};

}  // namespace kmirror::broker
