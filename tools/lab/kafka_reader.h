// Reads topics with librdkafka, a client that is none of ours: what it sees is what users see.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "kmirror/status.h"

namespace kmirror::lab {

struct ReadRecord {
  int32_t partition = 0;
  int64_t offset = 0;
  int64_t timestamp_ms = 0;
  std::string key;
  std::string value;
  bool operator==(const ReadRecord&) const = default;
};

struct Bounds {
  int64_t start = 0;
  int64_t end = 0;  // exclusive: the high watermark
};

// Bounds of every partition of `topic`, by index.
Result<std::vector<Bounds>> TopicBounds(const std::string& bootstrap, const std::string& topic);

struct ReadSummary {
  int64_t records = 0;
  // Where a consumer stands after it has read all it may, by partition.
  std::vector<int64_t> positions;
};

// Reads every partition from its start until the client reports its end, at most to `limits` (end
// offsets by partition; empty: none). `each` gets records in order inside a partition. kTimedOut
// when nothing comes for `patience`.
Result<ReadSummary> ReadTopic(const std::string& bootstrap, const std::string& topic,
                              bool read_committed, const std::vector<int64_t>& limits,
                              std::chrono::seconds patience,
                              const std::function<void(ReadRecord)>& each);

}  // namespace kmirror::lab
