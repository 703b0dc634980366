// Kafka's own judgement on files of a partition's folder: its dump tool, run and read.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "kmirror/status.h"

namespace kmirror::test {

struct DumpedBatch {
  int64_t base_offset = 0;
  int64_t last_offset = 0;
  bool valid = false;    // "isvalid"
  bool control = false;  // "isControl"
};

struct LogDump {
  std::vector<DumpedBatch> batches;  // of all .log files, in order of offset
  // "OFFSET MARKER" of each control record, as the tool names it: "10 COMMIT", "71 ABORT", "12 7".
  std::vector<std::string> markers;
  // Sections in which the tool reports what does not fit: mismatches of index and log, of
  // timestamps, offsets that do not follow one another inside a segment. Empty for a sound folder.
  std::vector<std::string> complaints;
  std::string text;  // all it printed
};

// Dumps every .log, .index, .timeindex, .txnindex and .snapshot file in the folder.
Result<LogDump> DumpPartition(const std::filesystem::path& partition_dir);

// The tool's text alone, for tests of this reader.
LogDump ParseDump(const std::string& text);

}  // namespace kmirror::test
