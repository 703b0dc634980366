// The broker's data folder as bytes, read from the simulated disk beside the product: the batches
// of each partition, and the stored states. Keeps what it has parsed and reads on from there.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "tests/sim/naive_log.h"
#include "tests/sim/sim_disk.h"

namespace kmirror::sim {

class DiskReader {
 public:
  explicit DiskReader(SimDisk* disk) : disk_(disk) {}

  // All batches in the segments of `<topic>-<partition>`, in order of the segments. `error` tells
  // what is not whole. The same list while nothing has changed.
  struct Log {
    BatchList batches;
    uint64_t version = 0;  // of the directory when it was read
    std::string error;
  };
  const Log& ReadLog(const std::string& topic, int32_t partition);
  // Its version now; a cheap way to see that nothing has changed.
  uint64_t Version(const std::string& topic, int32_t partition);

  // Every state record of the key, oldest first; nullopt for a tombstone.
  using Rows = std::vector<std::optional<StateRow>>;
  struct States {
    std::map<StateKeyText, Rows> rows;
    std::string error;
  };
  const States& ReadStates(int32_t shards);

 private:
  struct Segment {
    std::vector<uint8_t> bytes;
    BatchList batches;
    bool torn = false;
    std::string error;
  };
  struct Directory {
    uint64_t version = 0;
    std::map<std::string, Segment> segments;
    Log log;
  };

  SimDisk* const disk_;
  std::map<std::string, Directory> directories_;
  std::map<int32_t, uint64_t> state_versions_;
  States states_;
};

}  // namespace kmirror::sim
