// What a partition's log is configured with: Kafka's topic configs, in its units, and what the
// broker hands every log. Names follow Kafka's (`segment.bytes` -> segment_bytes); defaults are
// Kafka's.
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <memory>

#include "broker/storage/file_io.h"
#include "kmirror/status.h"

namespace kmirror::broker {

struct LogConfig {
  int64_t segment_bytes = 1073741824;
  int64_t segment_ms = 604800000;
  int64_t segment_jitter_ms = 0;
  int32_t segment_index_bytes = 10485760;
  int32_t index_interval_bytes = 4096;
  int32_t max_message_bytes = 1048588;
  int64_t retention_ms = 604800000;  // -1: no limit
  int64_t retention_bytes = -1;      // -1: no limit
  bool retention_deletes = true;     // cleanup.policy has `delete`
  int64_t flush_messages = std::numeric_limits<int64_t>::max();
  int64_t flush_ms = std::numeric_limits<int64_t>::max();
  int64_t file_delete_delay_ms = 60000;
  bool log_append_time = false;  // message.timestamp.type
  int64_t timestamp_before_max_ms = std::numeric_limits<int64_t>::max();
  int64_t timestamp_after_max_ms = 3600000;
  bool compacted = false;  // cleanup.policy has `compact`: client records need keys
  int64_t producer_id_expiration_ms = 86400000;
  // Space reserved ahead of the end, where data flows (KEEP_SIZE: the file's size stays the log's
  // end). 0 turns it off.
  int64_t preallocate_ahead_bytes = 16777216;
};

// Wall clock in ms since 1970; for record timestamps, retention and idle producers. Thread-safe.
class LogClock {
 public:
  virtual ~LogClock() = default;
  virtual int64_t NowMs() const;  // the system's, unless overridden
  static LogClock* System();
};

class FdCache;

// Shared by all logs of a broker; io and clock outlive them. Null pointers stand for the defaults
// (real calls, system clock, no cap on open files).
struct LogEnvironment {
  FileIo* io = nullptr;
  const LogClock* clock = nullptr;
  std::shared_ptr<FdCache> files;
  // A checkpoint file of the data directory says something that must not be believed after a crash
  // any more (a recovery point above the end, a log start above a restart), or must be believed
  // from now on (a log start that is about to be acknowledged): write both again. Called with the
  // append lock of the log held. May be empty.
  std::function<Status()> write_checkpoints;
  // The log changed: what is due now and then (PartitionLog::Upkeep) may have to be done for it.
  // Told once, until the next Upkeep. Called with the append lock of the log held. May be empty.
  std::function<void(const std::string& topic, int32_t partition)> changed;
};

}  // namespace kmirror::broker
