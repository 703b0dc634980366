#include "tests/fuzz/codec_fuzz_target.h"

#include "src/protocol/reader.h"
#include "src/protocol/writer.h"

namespace kmirror::protocol {

std::vector<uint8_t> CodecFuzzInput(int16_t key, int16_t version, Direction direction,
                                    ByteView body) {
  Writer writer;
  writer.PutInt16(key);
  writer.PutInt16(version);
  writer.PutBool(direction == Direction::kResponse);
  writer.PutRaw(body);
  return writer.Flatten();
}

std::string CheckCodec(ByteView input, bool* accepted) {
  if (accepted != nullptr) *accepted = false;
  Reader reader(input);
  int16_t key = 0;
  int16_t version = 0;
  int8_t direction_byte = 0;
  if (!reader.ReadInt16(&key) || !reader.ReadInt16(&version) || !reader.ReadInt8(&direction_byte)) {
    return {};
  }
  const Direction direction = direction_byte & 1 ? Direction::kResponse : Direction::kRequest;
  // A copy of its exact size, so that a sanitizer sees the first byte read beyond it.
  const std::vector<uint8_t> body(reader.rest().begin(), reader.rest().end());
  std::vector<uint8_t> once;
  const Status first = DecodeEncodeAny(key, version, direction, body, &once);
  if (!first.ok()) {
    if (first.message().empty()) return "an error without a text";
    const bool expected =
        first.code() == ErrorCode::kMalformed || first.code() == ErrorCode::kUnsupportedVersion;
    return expected ? "" : "decoded, but did not encode: " + first.ToString();
  }
  if (accepted != nullptr) *accepted = true;
  std::vector<uint8_t> twice;
  const Status second = DecodeEncodeAny(key, version, direction, once, &twice);
  if (!second.ok()) return "what was encoded does not decode: " + second.ToString();
  if (once != twice) return "what was encoded encodes to other bytes";
  return {};
}

}  // namespace kmirror::protocol
