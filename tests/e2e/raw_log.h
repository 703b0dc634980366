// Batches as bytes: from our segment files on disk and from a real Kafka's Fetch answers.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "kmirror/status.h"
#include "tests/support/raw_batch.h"
#include "tests/support/wire_client.h"

namespace kmirror::test {

// All segments of a partition directory, by base offset.
Result<std::vector<RawBatch>> ReadSegments(const std::filesystem::path& directory);
// The segment files' base offsets.
std::vector<int64_t> SegmentBases(const std::filesystem::path& directory);

// Raw Fetch as an uncommitted consumer, from `from` up to the high watermark.
Result<std::vector<RawBatch>> FetchBatches(const std::string& bootstrap, const std::string& topic,
                                           int32_t partition, int64_t from = 0);
// What a committed reader is told to skip when it fetches everything from `from` on: (first offset,
// producer id) of aborted transactions, in the order of the answer.
using AbortedList = std::vector<std::pair<int64_t, int64_t>>;
Result<AbortedList> FetchAborted(WireClient& client, const std::string& topic, int32_t partition,
                                 int64_t from);
struct RawOffsets {
  int64_t start = 0, stable = 0, high_watermark = 0;
};
Result<RawOffsets> FetchOffsets(const std::string& bootstrap, const std::string& topic,
                                int32_t partition);

// One ListOffsets look-up; special timestamps as in Kafka (-1 latest, -2 earliest, -3 max
// timestamp).
struct ListedOffset {
  int16_t error = 0;
  int64_t offset = -1, timestamp = -1;
  int32_t leader_epoch = -1;
  bool operator==(const ListedOffset&) const = default;
};
Result<ListedOffset> ListOffset(WireClient& client, const std::string& topic, int32_t partition,
                                int64_t timestamp, int8_t isolation = 0, int16_t version = 8);
struct EpochEndAnswer {
  int16_t error = 0;
  int32_t epoch = -1;
  int64_t end_offset = -1;
  bool operator==(const EpochEndAnswer&) const = default;
};
Result<EpochEndAnswer> EpochEnd(WireClient& client, const std::string& topic, int32_t partition,
                                int32_t epoch);

// "" when the two are the same batches, byte for byte; else where they differ first.
std::string Difference(const std::vector<RawBatch>& ours, const std::vector<RawBatch>& theirs);
// Those batches that begin at or after `offset`.
std::vector<RawBatch> From(std::vector<RawBatch> batches, int64_t offset);
// Those that end below `offset`.
std::vector<RawBatch> Below(std::vector<RawBatch> batches, int64_t offset);

}  // namespace kmirror::test
