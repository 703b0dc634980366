#include "tests/e2e/raw_log.h"

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <iterator>

#include "messages/fetch.h"
#include "messages/list_offsets.h"
#include "messages/offset_for_leader_epoch.h"
#include "tests/support/wire_client.h"

namespace kmirror::test {
namespace {

std::vector<std::filesystem::path> Segments(const std::filesystem::path& directory) {
  std::vector<std::filesystem::path> files;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(directory, error)) {
    if (entry.path().extension() == ".log") files.push_back(entry.path());
  }
  std::sort(files.begin(), files.end());
  return files;
}

Result<protocol::FetchResponse> Fetch(WireClient& client, const std::string& topic,
                                      int32_t partition, int64_t from, int32_t max_bytes,
                                      int8_t isolation = 0) {
  protocol::FetchRequest request;
  request.max_wait_ms = 0;
  request.min_bytes = 0;
  request.max_bytes = max_bytes;
  request.isolation_level = isolation;
  auto& t = request.topics.emplace_back();
  t.topic = topic;
  auto& p = t.partitions.emplace_back();
  p.partition = partition;
  p.fetch_offset = from;
  p.partition_max_bytes = max_bytes;
  return client.Call<protocol::FetchResponse>(request, 12);
}

}  // namespace

Result<std::vector<RawBatch>> ReadSegments(const std::filesystem::path& directory) {
  std::vector<RawBatch> all;
  const auto files = Segments(directory);
  if (files.empty()) return Status(ErrorCode::kIo, "no segment in " + directory.string());
  for (const auto& file : files) {
    std::ifstream in(file, std::ios::binary);
    const std::vector<uint8_t> bytes{std::istreambuf_iterator<char>(in), {}};
    auto batches = SplitBatches(bytes);
    if (!batches.ok()) return batches.status().WithContext(file.string());
    std::move(batches->begin(), batches->end(), std::back_inserter(all));
  }
  return all;
}

std::vector<int64_t> SegmentBases(const std::filesystem::path& directory) {
  std::vector<int64_t> bases;
  for (const auto& file : Segments(directory)) bases.push_back(std::stoll(file.stem().string()));
  return bases;
}

Result<std::vector<RawBatch>> FetchBatches(const std::string& bootstrap, const std::string& topic,
                                           int32_t partition, int64_t from) {
  auto client = WireClient::Connect(bootstrap);
  if (!client.ok()) return client.status();
  std::vector<RawBatch> all;
  int64_t next = from;
  for (;;) {
    auto response = Fetch(*client, topic, partition, next, 16 << 20);
    if (!response.ok()) return response.status();
    if (response->error_code != 0 || response->responses.size() != 1) {
      return Status(static_cast<ErrorCode>(response->error_code), "Fetch of " + topic);
    }
    const auto& p = response->responses[0].partitions[0];
    if (p.error_code != 0) {
      return Status(static_cast<ErrorCode>(p.error_code),
                    "Fetch of " + topic + " at " + std::to_string(next));
    }
    std::vector<uint8_t> bytes;
    if (p.records) {
      const ByteView view = p.records->bytes();
      bytes.assign(view.begin(), view.end());
    }
    auto batches = SplitBatches(bytes);
    if (!batches.ok()) return batches.status();
    if (batches->empty()) return all;
    for (RawBatch& batch : *batches) {
      next = batch.last_offset + 1;
      all.push_back(std::move(batch));
    }
    if (next >= p.high_watermark) return all;
  }
}

Result<AbortedList> FetchAborted(WireClient& client, const std::string& topic, int32_t partition,
                                 int64_t from) {
  auto response = Fetch(client, topic, partition, from, 16 << 20, 1);
  if (!response.ok()) return response.status();
  if (response->responses.size() != 1) return Status(ErrorCode::kMalformed, "Fetch of " + topic);
  const auto& p = response->responses[0].partitions[0];
  if (p.error_code != 0) return Status(static_cast<ErrorCode>(p.error_code), "Fetch of " + topic);
  AbortedList aborted;
  if (p.aborted_transactions) {
    for (const auto& txn : *p.aborted_transactions) {
      aborted.emplace_back(txn.first_offset, txn.producer_id);
    }
  }
  return aborted;
}

Result<RawOffsets> FetchOffsets(const std::string& bootstrap, const std::string& topic,
                                int32_t partition) {
  auto client = WireClient::Connect(bootstrap);
  if (!client.ok()) return client.status();
  Status last;
  // The start may move between the two requests: then the first answer is old, and nothing else.
  for (int attempt = 0; attempt < 10; ++attempt) {
    auto start = ListOffset(*client, topic, partition, -2);
    if (!start.ok()) return start.status();
    auto response = Fetch(*client, topic, partition, start->offset, 1);
    if (!response.ok()) return response.status();
    if (response->responses.size() != 1)
      return Status(ErrorCode::kMalformed, "no answer for " + topic);
    const auto& p = response->responses[0].partitions[0];
    if (p.error_code == 0) {
      return RawOffsets{p.log_start_offset, p.last_stable_offset, p.high_watermark};
    }
    last = Status(static_cast<ErrorCode>(p.error_code), "Fetch of " + topic);
    if (last.code() != ErrorCode::kOffsetOutOfRange) return last;
  }
  return last;
}

Result<ListedOffset> ListOffset(WireClient& client, const std::string& topic, int32_t partition,
                                int64_t timestamp, int8_t isolation, int16_t version) {
  protocol::ListOffsetsRequest request;
  request.replica_id = -1;
  request.isolation_level = isolation;
  auto& t = request.topics.emplace_back();
  t.name = topic;
  auto& p = t.partitions.emplace_back();
  p.partition_index = partition;
  p.timestamp = timestamp;
  auto response = client.Call<protocol::ListOffsetsResponse>(request, version);
  if (!response.ok()) return response.status();
  if (response->topics.size() != 1 || response->topics[0].partitions.size() != 1) {
    return Status(ErrorCode::kMalformed, "ListOffsets answered something else");
  }
  const auto& out = response->topics[0].partitions[0];
  return ListedOffset{out.error_code, out.offset, out.timestamp, out.leader_epoch};
}

Result<EpochEndAnswer> EpochEnd(WireClient& client, const std::string& topic, int32_t partition,
                                int32_t epoch) {
  protocol::OffsetForLeaderEpochRequest request;
  request.replica_id = -1;
  auto& t = request.topics.emplace_back();
  t.topic = topic;
  auto& p = t.partitions.emplace_back();
  p.partition = partition;
  p.leader_epoch = epoch;
  auto response = client.Call<protocol::OffsetForLeaderEpochResponse>(request, 4);
  if (!response.ok()) return response.status();
  if (response->topics.size() != 1 || response->topics[0].partitions.size() != 1) {
    return Status(ErrorCode::kMalformed, "OffsetForLeaderEpoch answered something else");
  }
  const auto& out = response->topics[0].partitions[0];
  return EpochEndAnswer{out.error_code, out.leader_epoch, out.end_offset};
}

std::string Difference(const std::vector<RawBatch>& ours, const std::vector<RawBatch>& theirs) {
  const size_t both = std::min(ours.size(), theirs.size());
  for (size_t i = 0; i < both; ++i) {
    if (ours[i].bytes == theirs[i].bytes) continue;
    return "batch " + std::to_string(i) + ": ours is [" + std::to_string(ours[i].base_offset) +
           ".." + std::to_string(ours[i].last_offset) + "] epoch " +
           std::to_string(ours[i].leader_epoch) + ", " + std::to_string(ours[i].bytes.size()) +
           " bytes; theirs [" + std::to_string(theirs[i].base_offset) + ".." +
           std::to_string(theirs[i].last_offset) + "] epoch " +
           std::to_string(theirs[i].leader_epoch) + ", " + std::to_string(theirs[i].bytes.size()) +
           " bytes";
  }
  if (ours.size() != theirs.size()) {
    return "ours has " + std::to_string(ours.size()) + " batches, theirs " +
           std::to_string(theirs.size());
  }
  return "";
}

std::vector<RawBatch> From(std::vector<RawBatch> batches, int64_t offset) {
  std::erase_if(batches, [&](const RawBatch& b) { return b.base_offset < offset; });
  return batches;
}

std::vector<RawBatch> Below(std::vector<RawBatch> batches, int64_t offset) {
  std::erase_if(batches, [&](const RawBatch& b) { return b.last_offset >= offset; });
  return batches;
}

}  // namespace kmirror::test
