// Broker-level options of the library (protocol.md 4.1). Defaults are Kafka's or the R-decisions'.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <string_view>

namespace kmirror {

struct Options {
  // This broker's id, as metadata will name it: part of the client id that the source sees (R7).
  int32_t broker_id = -1;
  // `mirror.num.replica.fetchers`, >= 1: fetcher lanes a source broker and mirror.
  int32_t num_replica_fetchers = 1;
  // `mirror.metadata.refresh.interval.ms` (R15): how often source metadata is read again.
  std::chrono::milliseconds metadata_refresh_interval{30000};
  // `mirror.failed.retry.*` (coordinator.md 2.5): delay = initial * 2^attempt, capped, +-20 %.
  std::chrono::milliseconds failed_retry_initial_backoff{100};
  std::chrono::milliseconds failed_retry_max_backoff{300000};
  int32_t failed_retry_max_attempts = 20;  // 0: FAILED is not retried; a failed stop always is
  // `mirror.coordinator.append.linger.ms`: state writes of a shard are gathered this long.
  std::chrono::milliseconds coordinator_append_linger{10};
  // For tests that kill the process: called on the coordinator's lane before (`after` false) and
  // after each durable step of start, pause, resume and stop; src/coordinator/steps.h lists their
  // names.
  std::function<void(std::string_view step, bool after)> step_hook;
};

}  // namespace kmirror
