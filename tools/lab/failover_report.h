// What a failover lost and what it kept, counted by reading both clusters with librdkafka.
#pragma once

#include <cstdint>
#include <iosfwd>
#include <map>
#include <string>
#include <vector>

#include "kmirror/status.h"
#include "tools/lab/kafka_reader.h"

namespace kmirror::lab {

struct Journal {
  // Acknowledged by the first cluster, by the second: number -> (partition, offset).
  std::map<int64_t, std::pair<int32_t, int64_t>> acked[2];
  std::vector<int64_t> again;  // sent again after the change-over
};
Result<Journal> ReadJournal(const std::string& path);

struct FailoverCounts {
  int64_t source_records = 0;
  int64_t destination_records = 0;
  int64_t mirrored = 0;       // below the last mirror offset, on the source
  int64_t identical = 0;      // of those, found with the same offset, key, value and time here
  int64_t after = 0;          // acknowledged by the destination after the failover
  int64_t after_missing = 0;  // of those, not found (must be 0)
  std::vector<int64_t> lost;  // acknowledged by the source, not here at all
  int64_t again = 0;
  int64_t twice = 0;  // sent again although mirroring had brought them already
  bool sound() const { return identical == mirrored && after_missing == 0; }
};

// Pure: compares what was read. `mirror_ends`: last mirror offsets by partition.
FailoverCounts CountFailover(const std::vector<ReadRecord>& source,
                             const std::vector<ReadRecord>& destination,
                             const std::vector<int64_t>& mirror_ends, const Journal& journal);

// Reads `topic` on both sides, counts and prints. False: something that mirroring promises is not
// so.
Result<bool> ReportFailover(const std::string& source, const std::string& destination,
                            const std::string& mirror, const std::string& topic,
                            const std::string& journal_path, std::ostream& out);

// Without a journal (somebody's own Kafka, possibly still written to): compares record by record
// below the last mirror offset, or below the destination's end while it is still mirrored; at most
// about `max_records`.
Result<bool> ReportEquality(const std::string& source, const std::string& destination,
                            const std::string& mirror, const std::string& topic,
                            int64_t max_records, std::ostream& out);

}  // namespace kmirror::lab
