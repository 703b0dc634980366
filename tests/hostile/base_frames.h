// Good request frames of every API and version that a broker serves: what hostile ones are made of.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "kmirror/types.h"

namespace kmirror::test {

struct BaseFrame {
  std::string name;
  int16_t key = 0;
  int16_t version = 0;
  std::vector<uint8_t> bytes;  // with the size prefix
};

struct ServedVersions {
  int16_t key = 0;
  int16_t min = 0;
  int16_t max = 0;
};

// The requests of tests/golden (Kafka's own encodings and the prototype's mirror requests), and
// requests of ours about `topic`, which exists: those reach the logs. A served version that nobody
// has a frame of gets the nearest one of its API, with the version changed.
std::vector<BaseFrame> BaseFrames(const std::vector<ServedVersions>& served,
                                  const std::string& topic, const Uuid& topic_id);

}  // namespace kmirror::test
