// Kafka's offset checkpoints of a data directory: one offset a partition.
//
// Text: "0" (version), the number of lines, then "topic partition offset" a line.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "broker/storage/file_io.h"
#include "kmirror/status.h"

namespace kmirror::broker {

struct TopicPartitionName {
  std::string topic;
  int32_t partition = 0;
  // "<topic>-<partition>", the name of the partition's directory.
  std::string DirectoryName() const { return topic + "-" + std::to_string(partition); }
  auto operator<=>(const TopicPartitionName&) const = default;
};

using OffsetCheckpoint = std::map<TopicPartitionName, int64_t>;

std::string EncodeCheckpoint(const OffsetCheckpoint& offsets);
// One from lines made by AppendCheckpointLine, of different partitions.
std::string EncodeCheckpoint(size_t lines, std::string_view text);
void AppendCheckpointLine(std::string_view topic, int32_t partition, int64_t offset,
                          std::string* lines);
// CORRUPT_MESSAGE names the line.
Result<OffsetCheckpoint> DecodeCheckpoint(std::string_view text);

// Reads the file; none is an empty checkpoint.
Result<OffsetCheckpoint> ReadCheckpoint(FileIo* io, const std::string& path);

// Splits at the last '-'; nullopt unless a topic and a partition number stand around it.
std::optional<TopicPartitionName> ParseDirectoryName(std::string_view name);

}  // namespace kmirror::broker
