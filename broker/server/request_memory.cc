#include "broker/server/request_memory.h"

#include <utility>

namespace kmirror::broker {

bool RequestMemory::Reserve(Reservation* reservation, int64_t bytes, std::function<void()> retry) {
  const std::lock_guard lock(mutex_);
  if (limit_ > 0 && used_ + bytes > limit_ && !reservation->past_limit_) {
    if (past_limit_taken_) {
      waiting_.push_back(std::move(retry));
      return false;
    }
    past_limit_taken_ = true;
    reservation->past_limit_ = true;
  }
  used_ += bytes;
  reservation->bytes_ += bytes;
  return true;
}

int64_t RequestMemory::used() const {
  const std::lock_guard lock(mutex_);
  return used_;
}

void RequestMemory::Release(Reservation* reservation) {
  std::vector<std::function<void()>> retries;
  {
    const std::lock_guard lock(mutex_);
    used_ -= reservation->bytes_;
    if (reservation->past_limit_) past_limit_taken_ = false;
    retries.swap(waiting_);
  }
  for (const std::function<void()>& retry : retries) retry();
}

}  // namespace kmirror::broker
