// The published position of one fetched partition: written on the fetcher's lane, read anywhere.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <mutex>
#include <utility>

#include "src/fetcher/fetcher_stats.h"
#include "src/fetcher/mirror_fetching.h"

namespace kmirror::fetcher {

class PositionCell {
 public:
  // Calls change(position) under the lock. `fresh`: from now on every successful fetch of the
  // fetcher is news of this partition too, since an incremental answer leaves out what has not
  // changed. When that ends, what was news until then stays known: the age of the last answer, not
  // that of the last data.
  template <typename F>
  void Update(bool fresh, std::shared_ptr<FetcherStats> fetcher, F change) {
    std::lock_guard lock(mutex_);
    if (!fresh) position_ = Refreshed();
    change(position_);
    fresh_ = fresh;
    if (fetcher_ != fetcher) fetcher_ = std::move(fetcher);
  }

  FetchPosition Get() const {
    std::lock_guard lock(mutex_);
    return Refreshed();
  }

 private:
  FetchPosition Refreshed() const {
    FetchPosition position = position_;
    if (fresh_ && fetcher_ != nullptr) {
      position.learned_ns = std::max(position.learned_ns,
                                     fetcher_->last_answer_ns.load(std::memory_order_relaxed));
      if (position.source_high_watermark >= 0 &&
          position.fetch_offset >= position.source_high_watermark) {
        position.caught_up_ns = position.learned_ns;
      }
    }
    return position;
  }

  mutable std::mutex mutex_;
  FetchPosition position_;
  bool fresh_ = false;
  std::shared_ptr<FetcherStats> fetcher_;
};

}  // namespace kmirror::fetcher
