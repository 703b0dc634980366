#include "src/protocol/registry.h"

#include <string>

namespace kmirror::protocol {

Status DecodeEncodeAny(int16_t key, int16_t version, Direction direction, ByteView body,
                       std::vector<uint8_t>* reencoded) {
  const ApiInfo* api = FindApi(key);
  if (api == nullptr) {
    return {ErrorCode::kUnsupportedVersion, "no such API key: " + std::to_string(key)};
  }
  const auto recode = direction == Direction::kRequest ? api->recode_request : api->recode_response;
  return recode(version, body, reencoded);
}

}  // namespace kmirror::protocol
