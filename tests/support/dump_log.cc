#include "tests/support/dump_log.h"

#include <algorithm>
#include <cstdlib>
#include <sstream>
#include <system_error>

#include "tests/support/kafka_fixture.h"

namespace kmirror::test {
namespace {

// The tool warns at a segment whose first offset is not 0; only then is a gap no gap.
bool IsStartOfSegment(const std::string& detail) {
  return detail.find("  -1 is followed by ") != std::string::npos;
}

// The word after the first `label`; "" when it is not there. Records' lines end in their payload,
// which may be long: only the part before it is looked at.
std::string WordAfter(const std::string& line, const std::string& label) {
  const std::string head = line.substr(0, 1000);
  const size_t found = head.find(label);
  if (found == std::string::npos) return "";
  const size_t begin = found + label.size();
  return head.substr(begin, head.find(' ', begin) - begin);
}

int64_t NumberAfter(const std::string& line, const std::string& label) {
  return std::strtoll(WordAfter(line, label).c_str(), nullptr, 10);
}

}  // namespace

LogDump ParseDump(const std::string& text) {
  LogDump dump;
  dump.text = text;
  std::istringstream lines(text);
  std::string line;
  std::string section;  // the head of a complaint whose details follow
  while (std::getline(lines, line)) {
    if (!section.empty() && line.starts_with("  ")) {
      if (!IsStartOfSegment(line)) dump.complaints.push_back(section + line);
      continue;
    }
    section.clear();
    if (line.starts_with("baseOffset: ")) {
      dump.batches.push_back({NumberAfter(line, "baseOffset: "), NumberAfter(line, "lastOffset: "),
                              WordAfter(line, " isvalid: ") == "true",
                              WordAfter(line, " isControl: ") == "true"});
    } else if (line.starts_with("| offset: ")) {
      // Before a payload: a record that quotes such a label is no marker.
      const std::string head = line.substr(0, line.find(" payload: "));
      for (const char* label : {" endTxnMarker: ", " controlType: "}) {
        const std::string marker = WordAfter(head, label);
        if (!marker.empty()) dump.markers.push_back(WordAfter(line, "offset: ") + " " + marker);
      }
    } else if (line.starts_with("Dumping ") || line.starts_with("Log starting offset: ") ||
               line.starts_with("offset: ") || line.starts_with("timestamp: ") ||
               line.starts_with("producerId: ") || line.starts_with("version: ")) {
      continue;
    } else if (line.starts_with("Non-consecutive offsets in ")) {
      section = line;
    } else if (!line.empty()) {
      // Mismatches, warnings, exceptions and whatever else the tool has to say: nothing of it
      // belongs to a sound folder.
      dump.complaints.push_back(line);
    }
  }
  std::ranges::sort(dump.batches, {}, &DumpedBatch::base_offset);
  return dump;
}

Result<LogDump> DumpPartition(const std::filesystem::path& partition_dir) {
  std::vector<std::string> files;
  std::error_code error;
  for (std::filesystem::directory_iterator it(partition_dir, error), end; !error && it != end;
       it.increment(error)) {
    const std::string kind = it->path().extension();
    if (kind == ".log" || kind == ".index" || kind == ".timeindex" || kind == ".txnindex" ||
        kind == ".snapshot") {
      files.push_back(it->path());
    }
  }
  if (error) return {ErrorCode::kIo, partition_dir.string() + ": " + error.message()};
  if (files.empty()) return {ErrorCode::kIo, partition_dir.string() + ": no log files"};
  std::sort(files.begin(), files.end());
  std::string list;
  for (const std::string& file : files) list += (list.empty() ? "" : ",") + file;
  const Result<std::string> text =
      KafkaTool("dump-log", {"--deep-iteration", "--print-data-log", "--files", list});
  if (!text.ok()) return text.status();
  return ParseDump(*text);
}

}  // namespace kmirror::test
