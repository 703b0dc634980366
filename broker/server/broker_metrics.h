// What kmirrord counts of its own work; the library's metrics come from Mirror::Collect.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>

namespace kmirror::broker {

// Any thread. Totals since start.
struct BrokerMetrics {
  static constexpr size_t kKeys = 128;
  std::array<std::atomic<int64_t>, kKeys> requests{};  // by API key
  std::atomic<int64_t> requests_malformed{0};          // that did not decode, or of unknown key
  std::atomic<int64_t> messages_in{0};                 // records appended by producers
  std::atomic<int64_t> bytes_in{0};                    // of batches appended by producers
  std::atomic<int64_t> bytes_out{0};                   // of record batches fetched
  std::atomic<int64_t> produce_refused_read_only{0};   // partitions of produce requests (R23)
  std::atomic<int64_t> fetches_waiting{0};             // long polls now
  std::atomic<int64_t> fetch_session_evictions{0};
};

}  // namespace kmirror::broker
