// The property the codec is fuzzed for, on inputs that say which message they are.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "kmirror/types.h"
#include "src/protocol/registry.h"

namespace kmirror::protocol {

// An input is: int16 key, int16 version, a byte whose lowest bit says response, the body.
std::vector<uint8_t> CodecFuzzInput(int16_t key, int16_t version, Direction direction,
                                    ByteView body);

// Decodes the input's body. Whatever it holds, nothing outside of it is read, and what was accepted
// encodes to bytes that decode and encode to themselves. Empty when so, else what is wrong.
// `accepted` (may be null) says whether the body decoded.
std::string CheckCodec(ByteView input, bool* accepted);

}  // namespace kmirror::protocol
