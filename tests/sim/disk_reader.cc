#include "tests/sim/disk_reader.h"

#include <algorithm>

#include "tests/sim/sim_broker.h"

namespace kmirror::sim {
namespace {

std::string PathOf(const std::string& topic, int32_t partition) {
  return std::string(kDataFolder) + "/" + topic + "-" + std::to_string(partition);
}

}  // namespace

uint64_t DiskReader::Version(const std::string& topic, int32_t partition) {
  return disk_->Version(PathOf(topic, partition));
}

const DiskReader::Log& DiskReader::ReadLog(const std::string& topic, int32_t partition) {
  const std::string path = PathOf(topic, partition);
  Directory& directory = directories_[path];
  const uint64_t version = disk_->Version(path);
  if (version == directory.version) return directory.log;
  directory.version = version;
  std::map<std::string, Segment> segments;
  directory.log = {};
  directory.log.version = version;
  for (const std::string& name : disk_->Names(path)) {
    if (!name.ends_with(".log")) continue;
    Segment& segment = segments[name];
    if (const auto known = directory.segments.find(name); known != directory.segments.end()) {
      segment = std::move(known->second);
    }
    const std::vector<uint8_t>& now = *disk_->Content(path + "/" + name);
    if (now != segment.bytes) {
      const bool grown = now.size() > segment.bytes.size() && !segment.torn &&
                         std::equal(segment.bytes.begin(), segment.bytes.end(), now.begin());
      const size_t from = grown ? segment.bytes.size() : 0;
      if (!grown) segment.batches.clear();
      const std::vector<uint8_t> rest(now.begin() + static_cast<std::ptrdiff_t>(from), now.end());
      auto batches = test::SplitBatches(rest, &segment.torn);
      segment.error = batches.ok() ? "" : batches.status().ToString();
      if (batches.ok()) {
        for (RawBatch& batch : *batches) {
          segment.batches.push_back(std::make_shared<const RawBatch>(std::move(batch)));
        }
      }
      segment.bytes = now;
    }
    if (!segment.error.empty()) directory.log.error = name + ": " + segment.error;
    if (segment.torn) directory.log.error = name + " ends within a batch";
    directory.log.batches.insert(directory.log.batches.end(), segment.batches.begin(),
                                 segment.batches.end());
  }
  directory.segments = std::move(segments);
  return directory.log;
}

const DiskReader::States& DiskReader::ReadStates(int32_t shards) {
  bool changed = false;
  for (int32_t shard = 0; shard < shards; ++shard) {
    uint64_t& known = state_versions_[shard];
    const uint64_t version = Version("__mirror_state", shard);
    changed = changed || version != known;
    known = version;
  }
  if (!changed) return states_;
  states_ = {};
  for (int32_t shard = 0; shard < shards; ++shard) {
    const Log& log = ReadLog("__mirror_state", shard);
    if (!log.error.empty()) states_.error = log.error;
    for (const BatchPtr& batch : log.batches) {
      const auto rows = ParseStateBatch(*batch);
      if (!rows) {
        states_.error = "a record that does not decode";
        continue;
      }
      for (const auto& [key, row] : *rows) states_.rows[key].push_back(row);
    }
  }
  return states_;
}

}  // namespace kmirror::sim
