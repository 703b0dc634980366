#include "tools/lab/failover_report.h"

#include <algorithm>
#include <fstream>
#include <ostream>
#include <set>
#include <sstream>
#include <tuple>

#include "tools/client/cluster_client.h"
#include "tools/kmirror/mirror_admin.h"
#include "tools/lab/steady_producer.h"

namespace kmirror::lab {
namespace {

constexpr std::chrono::seconds kPatience{30};

// Where the mirrored part of each partition ends: the last mirror offset, or, while it is mirrored
// still, the end of the destination.
Result<std::vector<int64_t>> MirrorEnds(const std::string& destination, const std::string& mirror,
                                        const std::string& topic) {
  const auto servers = tools::ParseServers(destination);
  if (!servers.ok()) return servers.status();
  tools::ClusterClient cluster(*servers, std::chrono::seconds(20));
  tools::MirrorAdmin admin(&cluster);
  const auto description = admin.Describe(mirror);
  if (!description.ok()) return description.status();
  const auto bounds = TopicBounds(destination, topic);
  if (!bounds.ok()) return bounds.status();
  std::vector<int64_t> ends(bounds->size(), -1);
  for (const tools::PartitionRow& row : description->rows) {
    if (row.topic != topic || row.partition < 0) continue;
    const auto index = static_cast<size_t>(row.partition);
    if (index >= ends.size()) continue;
    ends[index] = row.state == "STOPPED" ? row.last_mirror_offset : (*bounds)[index].end;
  }
  for (size_t i = 0; i < ends.size(); ++i) {
    // Stopped with nothing ever mirrored: no position was stored.
    if (ends[i] < 0) ends[i] = 0;
  }
  return ends;
}

Result<std::vector<ReadRecord>> ReadAll(const std::string& bootstrap, const std::string& topic,
                                        const std::vector<int64_t>& limits) {
  std::vector<ReadRecord> records;
  const auto summary = ReadTopic(bootstrap, topic, false, limits, kPatience,
                                 [&](ReadRecord record) { records.push_back(std::move(record)); });
  if (!summary.ok()) return summary.status().WithContext(bootstrap);
  return records;
}

// "3 of orders-0 (offsets 4113 to 4115)".
void PrintLost(const FailoverCounts& counts, const Journal& journal, const std::string& topic,
               std::ostream& out) {
  std::map<int32_t, std::vector<int64_t>> offsets;
  for (const int64_t number : counts.lost) {
    const auto& [partition, offset] = journal.acked[0].at(number);
    offsets[partition].push_back(offset);
  }
  for (auto& [partition, list] : offsets) {
    const auto [low, high] = std::minmax_element(list.begin(), list.end());
    out << "      " << list.size() << " of " << topic << '-' << partition << ", source offsets "
        << *low << " to " << *high << '\n';
  }
}

}  // namespace

Result<Journal> ReadJournal(const std::string& path) {
  std::ifstream file(path);
  if (!file) return {ErrorCode::kIo, path + " cannot be read"};
  Journal journal;
  std::string line;
  for (int number = 1; std::getline(file, line); ++number) {
    std::istringstream words(line);
    std::string what;
    size_t cluster = 0;
    int64_t record = -1;
    int32_t partition = -1;
    int64_t offset = -1;
    words >> what;
    if (what == "again" && words >> record) {
      journal.again.push_back(record);
    } else if (what == "ack" && words >> cluster >> record >> partition >> offset && cluster < 2) {
      journal.acked[cluster][record] = {partition, offset};
    } else {
      return {ErrorCode::kMalformed, path + ":" + std::to_string(number) + ": " + line};
    }
  }
  return journal;
}

FailoverCounts CountFailover(const std::vector<ReadRecord>& source,
                             const std::vector<ReadRecord>& destination,
                             const std::vector<int64_t>& mirror_ends, const Journal& journal) {
  FailoverCounts counts;
  counts.source_records = static_cast<int64_t>(source.size());
  counts.destination_records = static_cast<int64_t>(destination.size());
  auto mirrored = [&](const ReadRecord& record) {
    const auto index = static_cast<size_t>(record.partition);
    return index < mirror_ends.size() && record.offset < mirror_ends[index];
  };
  std::map<std::pair<int32_t, int64_t>, const ReadRecord*> here;
  std::map<int64_t, int> times;  // number -> how often it is here
  std::set<int64_t> came_by_mirror;
  for (const ReadRecord& record : destination) {
    here[{record.partition, record.offset}] = &record;
    const int64_t number = NumberOf(record.value);
    if (number < 0) continue;
    ++times[number];
    if (mirrored(record)) came_by_mirror.insert(number);
  }
  for (const ReadRecord& record : source) {
    if (!mirrored(record)) continue;
    ++counts.mirrored;
    const auto it = here.find({record.partition, record.offset});
    if (it != here.end() && *it->second == record) ++counts.identical;
  }
  for (const auto& [number, where] : journal.acked[0]) {
    if (!times.contains(number)) counts.lost.push_back(number);
  }
  counts.after = static_cast<int64_t>(journal.acked[1].size());
  for (const auto& [number, where] : journal.acked[1]) {
    const auto it = here.find(where);
    if (it == here.end() || NumberOf(it->second->value) != number) ++counts.after_missing;
  }
  counts.again = static_cast<int64_t>(journal.again.size());
  for (const int64_t number : journal.again) {
    if (came_by_mirror.contains(number) && journal.acked[1].contains(number)) ++counts.twice;
  }
  return counts;
}

Result<bool> ReportFailover(const std::string& source, const std::string& destination,
                            const std::string& mirror, const std::string& topic,
                            const std::string& journal_path, std::ostream& out) {
  const auto journal = ReadJournal(journal_path);
  if (!journal.ok()) return journal.status();
  const auto ends = MirrorEnds(destination, mirror, topic);
  if (!ends.ok()) return ends.status();
  const auto there = ReadAll(source, topic, {});
  if (!there.ok()) return there.status();
  const auto here = ReadAll(destination, topic, {});
  if (!here.ok()) return here.status();
  const FailoverCounts counts = CountFailover(*there, *here, *ends, *journal);

  out << "  " << topic << ", read back from both clusters with librdkafka:\n"
      << "    source holds " << counts.source_records << " records, destination "
      << counts.destination_records << '\n'
      << "    mirrored before the failover: " << counts.mirrored << ", of these "
      << counts.identical << " with the same offset, key, value and time\n"
      << "    LOST: " << counts.lost.size()
      << " records that the source had acknowledged and that had not been mirrored when it died\n";
  PrintLost(counts, *journal, topic, out);
  out << "    not acknowledged by the source, sent again here: " << counts.again << ", of these "
      << counts.twice << " had been mirrored already and are here twice\n"
      << "    acknowledged here after the failover: " << counts.after << ", of these "
      << counts.after - counts.after_missing << " found\n";
  if (!counts.sound()) out << "    THIS IS WRONG: see the lines above\n";
  return counts.sound();
}

Result<bool> ReportEquality(const std::string& source, const std::string& destination,
                            const std::string& mirror, const std::string& topic,
                            int64_t max_records, std::ostream& out) {
  auto ends = MirrorEnds(destination, mirror, topic);
  if (!ends.ok()) return ends.status();
  const auto bounds = TopicBounds(source, topic);
  if (!bounds.ok()) return bounds.status();
  const auto here_bounds = TopicBounds(destination, topic);
  if (!here_bounds.ok()) return here_bounds.status();
  const size_t partitions = std::max<size_t>(1, bounds->size());
  const int64_t share = std::max<int64_t>(1, max_records / static_cast<int64_t>(partitions));
  bool whole = true;
  for (size_t i = 0; i < ends->size() && i < bounds->size(); ++i) {
    const int64_t limit = (*bounds)[i].start + share;
    if (limit < (*ends)[i]) {
      (*ends)[i] = limit;
      whole = false;
    }
  }
  const auto there = ReadAll(source, topic, *ends);
  if (!there.ok()) return there.status();
  const auto here = ReadAll(destination, topic, *ends);
  if (!here.ok()) return here.status();
  const FailoverCounts counts = CountFailover(*there, *here, *ends, {});
  // Retention of the source may have moved on between the two reads; what it has must be here.
  int64_t not_mirrored = 0;
  for (size_t i = 0; i < bounds->size(); ++i) {
    const int64_t end =
        i < here_bounds->size() && i < ends->size() && whole ? (*ends)[i] : (*bounds)[i].end;
    not_mirrored += std::max<int64_t>(0, (*bounds)[i].end - std::max(end, (*bounds)[i].start));
  }
  out << "  " << topic << ", read from both clusters with librdkafka"
      << (whole ? "" : " (the first part of each partition only)") << ":\n"
      << "    compared " << counts.mirrored
      << " records, identical in offset, key, value and time: " << counts.identical << '\n';
  if (whole) {
    out << "    written to the source since, and not here: " << not_mirrored << " offsets\n";
  }
  if (counts.mirrored != counts.identical)
    out << "    THIS IS WRONG: some records differ or are missing\n";
  return counts.mirrored == counts.identical;
}

}  // namespace kmirror::lab
