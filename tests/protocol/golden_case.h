// The golden bodies and frames of tests/golden/codec, whoever made them, in one shape.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "src/protocol/registry.h"

namespace kmirror::protocol {

struct GoldenCase {
  std::string name;  // file, API, version, direction, variant: for messages of a failing test
  std::string file;
  int16_t key = 0;
  int16_t version = 0;
  Direction direction = Direction::kRequest;
  std::vector<uint8_t> body;
  std::vector<uint8_t> frame;  // size, header, body; empty when the origin gives bodies alone
  std::string json;            // the values Kafka saw; empty when not known
  std::vector<uint8_t>
      expected;  // what encoding what was decoded gives: `body`, unless tags are lost
  // Of hostile frames:
  std::string kind;   // truncated, huge_array, ...
  std::string field;  // whose length was changed; empty for none
  // Of edge cases:
  std::string what;
  bool kafka_accepts = false;
};

// Every good body made by Kafka's own classes: one file an API. Versions the release calls unstable
// and this codec does not know are left out.
std::vector<GoldenCase> KafkaCases();
std::vector<GoldenCase> UnknownTagCases();
std::vector<GoldenCase> ApiVersionsCases();
std::vector<GoldenCase> HostileCases();
std::vector<GoldenCase> EdgeCases();
// Frames of the running KIP-1279 prototype: serialised from chosen values, and captured.
std::vector<GoldenCase> PrototypeCases();
std::vector<GoldenCase> PrototypeCaptures();
// Frames between real clients and a real Kafka.
std::vector<GoldenCase> RecordedCases();

std::string GoldenPath(const std::string& file);
std::string ReadGoldenText(const std::string& file);
std::vector<uint8_t> FromHex(const std::string& hex);
std::string ToHex(const std::vector<uint8_t>& bytes);

// The body of a complete frame; the header is decoded and refused as a server or a client would.
Status BodyOfFrame(const std::vector<uint8_t>& frame, int16_t key, int16_t version,
                   Direction direction, std::vector<uint8_t>* body);

}  // namespace kmirror::protocol
