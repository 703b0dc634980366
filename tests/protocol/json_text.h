// The values of a decoded message as JSON text, the way Kafka's JsonConverter writes them: names in
// lower camel case, fields the version lacks left out, tagged fields left out at their default,
// bytes as base64, records as their size. What the golden files are compared with.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "kmirror/status.h"
#include "kmirror/types.h"
#include "src/protocol/body.h"
#include "src/protocol/records_view.h"
#include "src/protocol/registry.h"

namespace kmirror::protocol {

class JsonText {
 public:
  JsonText(int16_t version, bool all_tags) : version_(version), all_tags_(all_tags) {}

  int16_t version() const { return version_; }
  // Tagged fields are shown at their default too, as some golden files have them.
  bool all_tags() const { return all_tags_; }
  const std::string& text() const { return text_; }

  template <typename T>
  void Field(std::string_view name, const T& value) {
    Key(name);
    Value(value);
  }
  void Field(std::string_view name, const std::optional<RecordsView>& records);

  template <typename Struct>
  void Value(const Struct& value) {
    text_ += '{';
    first_ = true;
    PutFields(*this, value);
    text_ += '}';
    first_ = false;
  }

 private:
  void Key(std::string_view name);
  void Value(bool value) { text_ += value ? "true" : "false"; }
  void Value(int8_t value) { Value(static_cast<int64_t>(value)); }
  void Value(int16_t value) { Value(static_cast<int64_t>(value)); }
  void Value(int32_t value) { Value(static_cast<int64_t>(value)); }
  void Value(int64_t value) { text_ += std::to_string(value); }
  void Value(const Uuid& value) { Value(value.ToString()); }
  void Value(const std::string& value);
  void Value(const std::vector<uint8_t>& value);
  template <typename T>
  void Value(const std::optional<T>& value) {
    if (value) {
      Value(*value);
    } else {
      text_ += "null";
    }
  }
  template <typename T>
  void Value(const std::vector<T>& values) {
    text_ += '[';
    bool first = true;
    for (const T& value : values) {
      if (!first) text_ += ',';
      first = false;
      Value(value);
    }
    text_ += ']';
  }

  int16_t version_;
  bool all_tags_;
  bool first_ = true;
  std::string text_;
};

template <typename Message>
struct JsonRequest {
  int16_t version;
  ByteView body;
  bool all_tags;
};

template <typename Message>
Status MessageToJson(int16_t version, ByteView body, bool all_tags, std::string* out) {
  Message message;
  if (Status status = DecodeBody(body, version, &message); !status.ok()) return status;
  JsonText json(version, all_tags);
  json.Value(message);
  *out = json.text();
  return {};
}

// Decodes a body and gives its JSON. Generated.
Status BodyToJson(int16_t key, int16_t version, Direction direction, ByteView body, bool all_tags,
                  std::string* out);

}  // namespace kmirror::protocol
