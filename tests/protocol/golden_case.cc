#include "tests/protocol/golden_case.h"

#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>
#include <stdexcept>

#include "src/protocol/headers.h"
#include "src/protocol/reader.h"

namespace kmirror::protocol {

namespace {

using nlohmann::json;

Direction ParseDirection(const std::string& text) {
  if (text == "request") return Direction::kRequest;
  if (text == "response") return Direction::kResponse;
  throw std::runtime_error("direction " + text);
}

std::vector<std::string> Lines(const std::string& file) {
  std::vector<std::string> out;
  std::istringstream in(ReadGoldenText(file));
  for (std::string line; std::getline(in, line);) out.push_back(line);
  return out;
}

GoldenCase FromLine(const std::string& file, const json& line) {
  GoldenCase out;
  out.file = file;
  out.key = line.at("key");
  out.version = line.at("version");
  out.direction = ParseDirection(line.at("direction"));
  if (line.contains("body_hex")) out.body = FromHex(line.at("body_hex"));
  if (line.contains("frame_hex")) out.frame = FromHex(line.at("frame_hex"));
  if (line.contains("json")) out.json = line.at("json").dump();
  out.expected = line.contains("known_body_hex") ? FromHex(line.at("known_body_hex")) : out.body;
  out.kind = line.value("kind", "");
  out.field = line.value("field", "");
  out.what = line.value("what", "");
  if (line.contains("kafka")) out.kafka_accepts = line.at("kafka").at("stage") == "accepted";
  out.name = file + " " + line.at("api").get<std::string>() + " v" + std::to_string(out.version) +
             " " + line.at("direction").get<std::string>() + " " + line.value("variant", "") +
             out.kind + out.what;
  return out;
}

std::vector<GoldenCase> FromLines(const std::string& file) {
  std::vector<GoldenCase> out;
  for (const std::string& text : Lines(file)) {
    const json line = json::parse(text);
    if (line.value("unstable", false)) continue;
    out.push_back(FromLine(file, line));
  }
  return out;
}

// "name: hex" lines.
std::map<std::string, std::vector<uint8_t>> NamedHex(const std::string& file) {
  std::map<std::string, std::vector<uint8_t>> out;
  for (const std::string& line : Lines(file)) {
    const size_t colon = line.find(": ");
    if (line.starts_with('#') || colon == std::string::npos) continue;
    out[line.substr(0, colon)] = FromHex(line.substr(colon + 2));
  }
  return out;
}

GoldenCase FromPrototype(const std::string& file, const std::string& name, const json& entry,
                         int16_t version, std::vector<uint8_t> frame) {
  GoldenCase out;
  out.file = file;
  out.name = file + " " + name;
  out.key = entry.at("apiKey");
  out.version = version;
  out.direction = name.ends_with(".response") ? Direction::kResponse : Direction::kRequest;
  out.frame = std::move(frame);
  out.json = entry.at("body").dump();
  if (!BodyOfFrame(out.frame, out.key, out.version, out.direction, &out.body).ok()) {
    throw std::runtime_error("header of " + out.name);
  }
  out.expected = out.body;
  return out;
}

GoldenCase FromWire(const std::string& file, size_t index, const json& entry) {
  GoldenCase out;
  out.file = file;
  out.key = entry.at("api_key");
  out.version = entry.at("version");
  out.direction = ParseDirection(entry.at("direction"));
  out.name = file + " [" + std::to_string(index) + "] key " + std::to_string(out.key) + " v" +
             std::to_string(out.version) + " " + entry.at("direction").get<std::string>();
  out.frame = FromHex(entry.at("hex"));
  if (!BodyOfFrame(out.frame, out.key, out.version, out.direction, &out.body).ok()) {
    throw std::runtime_error("header of " + out.name);
  }
  out.expected = out.body;
  return out;
}

std::vector<GoldenCase> FromWireFile(const std::string& file) {
  std::vector<GoldenCase> out;
  const json entries = json::parse(ReadGoldenText(file));
  for (size_t i = 0; i < entries.size(); ++i) out.push_back(FromWire(file, i, entries[i]));
  return out;
}

}  // namespace

std::string GoldenPath(const std::string& file) {
  return std::string(KMIRROR_SOURCE_DIR) + "/tests/golden/codec/" + file;
}

std::string ReadGoldenText(const std::string& file) {
  std::ifstream in(GoldenPath(file), std::ios::binary);
  if (!in) throw std::runtime_error("cannot read " + GoldenPath(file));
  std::ostringstream out;
  out << in.rdbuf();
  return out.str();
}

std::vector<uint8_t> FromHex(const std::string& hex) {
  std::vector<uint8_t> out;
  out.reserve(hex.size() / 2);
  for (size_t i = 0; i + 1 < hex.size(); i += 2) {
    out.push_back(static_cast<uint8_t>(std::stoul(hex.substr(i, 2), nullptr, 16)));
  }
  return out;
}

std::string ToHex(const std::vector<uint8_t>& bytes) {
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string out;
  for (const uint8_t byte : bytes) {
    out += kDigits[byte >> 4];
    out += kDigits[byte & 15];
  }
  return out;
}

Status BodyOfFrame(const std::vector<uint8_t>& frame, int16_t key, int16_t version,
                   Direction direction, std::vector<uint8_t>* body) {
  if (frame.size() < 4) return {ErrorCode::kMalformed, "Frame: size: not there"};
  Reader reader(ByteView(frame).subspan(4));
  if (direction == Direction::kRequest) {
    RequestHeader header;
    if (Status status = DecodeRequestHeader(reader, &header); !status.ok()) return status;
    if (header.api_key != key || header.api_version != version) {
      return {ErrorCode::kMalformed, "RequestHeader: api_key: not the expected one"};
    }
  } else {
    int32_t correlation_id = 0;
    Status status =
        DecodeResponseHeader(reader, ResponseHeaderVersion(key, version), &correlation_id);
    if (!status.ok()) return status;
  }
  const ByteView rest = reader.rest();
  body->assign(rest.begin(), rest.end());
  return {};
}

std::vector<GoldenCase> KafkaCases() {
  std::vector<GoldenCase> out;
  std::set<std::string> files;  // in order, so that runs are alike
  for (const auto& entry : std::filesystem::directory_iterator(GoldenPath("kafka"))) {
    files.insert("kafka/" + entry.path().filename().string());
  }
  for (const std::string& file : files) {
    std::vector<GoldenCase> cases = FromLines(file);
    std::move(cases.begin(), cases.end(), std::back_inserter(out));
  }
  return out;
}

std::vector<GoldenCase> UnknownTagCases() { return FromLines("unknown-tags.jsonl"); }
std::vector<GoldenCase> ApiVersionsCases() { return FromLines("api-versions-special.jsonl"); }
std::vector<GoldenCase> HostileCases() { return FromLines("bad.jsonl"); }
std::vector<GoldenCase> EdgeCases() { return FromLines("edges.jsonl"); }

std::vector<GoldenCase> PrototypeCases() {
  const std::string file = "kip-prototype/wire-golden";
  std::vector<GoldenCase> out;
  const auto frames = NamedHex(file + ".txt");
  const json values = json::parse(ReadGoldenText(file + ".json"));
  for (const auto& [name, entry] : values.items()) {
    if (!entry.contains("apiKey")) continue;  // records, not messages
    out.push_back(FromPrototype(file, name, entry, entry.at("apiVersion"), frames.at(name)));
  }
  return out;
}

std::vector<GoldenCase> PrototypeCaptures() {
  const std::string file = "kip-prototype/wire-captured";
  std::vector<GoldenCase> out;
  const auto frames = NamedHex(file + ".txt");
  const json values = json::parse(ReadGoldenText(file + ".json"));
  for (const json& entry : values) {
    const std::string name = entry.at("name");
    out.push_back(FromPrototype(file, name, entry, entry.at("version"), frames.at(name)));
  }
  return out;
}

std::vector<GoldenCase> RecordedCases() { return FromWireFile("wire/recorded_kafka_4.4.0.json"); }

}  // namespace kmirror::protocol
