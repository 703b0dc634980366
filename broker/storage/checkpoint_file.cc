#include "broker/storage/checkpoint_file.h"

#include <charconv>
#include <iterator>
#include <limits>

#include "broker/storage/files.h"

namespace kmirror::broker {
namespace {

template <typename T>
bool Number(std::string_view text, T* value) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), *value);
  return error == std::errc() && end == text.data() + text.size() && !text.empty();
}

}  // namespace

void AppendCheckpointLine(std::string_view topic, int32_t partition, int64_t offset,
                          std::string* lines) {
  char numbers[2 * std::numeric_limits<int64_t>::digits10 + 8];
  char* at = numbers;
  *at++ = ' ';
  at = std::to_chars(at, std::end(numbers), partition).ptr;
  *at++ = ' ';
  at = std::to_chars(at, std::end(numbers), offset).ptr;
  *at++ = '\n';
  lines->append(topic);
  lines->append(numbers, at);
}

std::string EncodeCheckpoint(size_t lines, std::string_view text) {
  return "0\n" + std::to_string(lines) + "\n" + std::string(text);
}

std::string EncodeCheckpoint(const OffsetCheckpoint& offsets) {
  std::string lines;
  for (const auto& [name, offset] : offsets) {
    AppendCheckpointLine(name.topic, name.partition, offset, &lines);
  }
  return EncodeCheckpoint(offsets.size(), lines);
}

Result<OffsetCheckpoint> DecodeCheckpoint(std::string_view text) {
  OffsetCheckpoint offsets;
  int64_t count = -1;
  int line_number = 0;
  while (!text.empty()) {
    const size_t end = text.find('\n');
    const std::string_view line = text.substr(0, end);
    text = end == std::string_view::npos ? std::string_view() : text.substr(end + 1);
    ++line_number;
    const auto bad = [&](const char* expected) {
      return Status(ErrorCode::kCorruptMessage,
                    "line " + std::to_string(line_number) + ": " + expected + " expected");
    };
    int32_t version = -1;
    if (line_number == 1) {
      if (!Number(line, &version) || version != 0) return bad("version 0");
    } else if (line_number == 2) {
      if (!Number(line, &count) || count < 0) return bad("number of entries");
    } else {
      const size_t first = line.find(' ');
      const size_t second = first == std::string_view::npos ? first : line.find(' ', first + 1);
      TopicPartitionName name;
      int64_t offset = -1;
      if (second == std::string_view::npos ||
          !Number(line.substr(first + 1, second - first - 1), &name.partition) ||
          !Number(line.substr(second + 1), &offset)) {
        return bad("\"topic partition offset\"");
      }
      name.topic = line.substr(0, first);
      offsets[name] = offset;
    }
  }
  if (count != static_cast<int64_t>(offsets.size())) {
    return Status(ErrorCode::kCorruptMessage, "another number of entries than line 2 says");
  }
  return offsets;
}

Result<OffsetCheckpoint> ReadCheckpoint(FileIo* io, const std::string& path) {
  const Result<std::string> text = ReadFile(io, path);
  if (!text.ok()) {
    if (text.status().code() == ErrorCode::kResourceNotFound) return OffsetCheckpoint();
    return text.status();
  }
  Result<OffsetCheckpoint> offsets = DecodeCheckpoint(*text);
  if (!offsets.ok()) return offsets.status().WithContext(path);
  return offsets;
}

std::optional<TopicPartitionName> ParseDirectoryName(std::string_view name) {
  const size_t dash = name.rfind('-');
  if (dash == std::string_view::npos || dash == 0) return std::nullopt;
  TopicPartitionName parsed;
  if (!Number(name.substr(dash + 1), &parsed.partition) || parsed.partition < 0)
    return std::nullopt;
  parsed.topic = name.substr(0, dash);
  return parsed;
}

}  // namespace kmirror::broker
