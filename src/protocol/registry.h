// The table of every API this codec knows, generated from the schemas.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "kmirror/status.h"
#include "kmirror/types.h"

namespace kmirror::protocol {

enum class Direction { kRequest, kResponse };

struct ApiInfo {
  int16_t key;
  const char* name;     // "Fetch"
  int16_t min_version;  // inclusive; what the codec knows, which a server may advertise differently
  int16_t max_version;  // inclusive
  int16_t flexible_from;  // kNeverFlexible (message.h) when no version is

  // Decode a whole body and encode what was read.
  Status (*recode_request)(int16_t version, ByteView body, std::vector<uint8_t>* reencoded);
  Status (*recode_response)(int16_t version, ByteView body, std::vector<uint8_t>* reencoded);
};

// In the order of keys.
std::span<const ApiInfo> AllApis();
// Null when there is none with this key.
const ApiInfo* FindApi(int16_t key);

// For tests and tools that know their messages by number: UNSUPPORTED_VERSION for an unknown key or
// version, else what DecodeBody and Encode say.
Status DecodeEncodeAny(int16_t key, int16_t version, Direction direction, ByteView body,
                       std::vector<uint8_t>* reencoded);

}  // namespace kmirror::protocol
