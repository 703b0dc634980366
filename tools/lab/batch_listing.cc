#include "tools/lab/batch_listing.h"

#include <deque>
#include <iomanip>
#include <ostream>
#include <vector>

#include "kmirror/log/batch.h"
#include "messages/fetch.h"
#include "tools/client/cluster_client.h"

namespace kmirror::lab {
namespace {

std::string What(const log::BatchInfo& info) {
  if (info.IsControl()) {
    switch (info.control_type) {
      case log::kControlAbort: return "ABORT of the open transaction";
      case log::kControlCommit: return "COMMIT";
      case log::kControlMirrorPidReset: return "MIRROR_PID_RESET";
      default: return "control batch of type " + std::to_string(info.control_type);
    }
  }
  return std::to_string(info.count) +
         (info.IsTransactional() ? " records of a transaction" : " records");
}

std::string OrDash(int64_t value) { return value < 0 ? "-" : std::to_string(value); }

}  // namespace

Status ListBatches(const std::string& bootstrap, const std::string& topic, int32_t partition,
                   int last, std::ostream& out, int* aborts, int* resets) {
  const auto servers = tools::ParseServers(bootstrap);
  if (!servers.ok()) return servers.status();
  tools::ClusterClient cluster(*servers, std::chrono::seconds(20));
  const auto metadata = cluster.Metadata(std::vector<std::string>{topic});
  if (!metadata.ok()) return metadata.status();
  int32_t leader = -1;
  for (const auto& one : metadata->topics) {
    for (const auto& each : one.partitions) {
      if (each.partition_index == partition) leader = each.leader_id;
    }
  }
  const auto connection = cluster.Broker(leader);
  if (!connection.ok()) return connection.status();

  std::deque<log::BatchInfo> kept;
  int64_t offset = 0;
  for (int64_t end = 1; offset < end;) {
    protocol::FetchRequest request;
    request.max_wait_ms = 100;
    request.min_bytes = 1;
    request.max_bytes = 8 << 20;
    auto& fetched = request.topics.emplace_back();
    fetched.topic = topic;  // version 12 is the last that goes by name
    auto& part = fetched.partitions.emplace_back();
    part.partition = partition;
    part.fetch_offset = offset;
    part.partition_max_bytes = 8 << 20;
    const auto answer = (*connection)->CallVersion<protocol::FetchResponse>(request, 12);
    if (!answer.ok()) return answer.status();
    if (answer->responses.empty() || answer->responses[0].partitions.empty()) {
      return {ErrorCode::kUnknownServerError, "an empty fetch answer"};
    }
    const auto& data = answer->responses[0].partitions[0];
    if (data.error_code == static_cast<int16_t>(ErrorCode::kOffsetOutOfRange) &&
        data.log_start_offset > offset) {
      offset = data.log_start_offset;
      continue;
    }
    if (data.error_code != 0) {
      return {static_cast<ErrorCode>(data.error_code), "fetch of " + topic};
    }
    end = data.high_watermark;
    log::BatchWalker walker(data.records ? data.records->bytes() : ByteView());
    log::BatchInfo info;
    ByteView bytes;
    const int64_t before = offset;
    while (walker.Next(&info, &bytes) == log::BatchWalker::kBatch) {
      offset = info.last_offset + 1;
      kept.push_back(info);
      if (static_cast<int>(kept.size()) > last) kept.pop_front();
    }
    if (offset == before && offset < end) {
      return {ErrorCode::kUnknownServerError, "no whole batch at offset " + std::to_string(offset)};
    }
  }
  out << "  OFFSETS       EPOCH  PRODUCER  P-EPOCH  WHAT\n";
  for (const log::BatchInfo& info : kept) {
    std::string offsets = std::to_string(info.base_offset);
    if (info.last_offset != info.base_offset) offsets += ".." + std::to_string(info.last_offset);
    out << "  " << std::left << std::setw(14) << offsets << std::setw(7)
        << OrDash(info.leader_epoch) << std::setw(10) << OrDash(info.producer_id) << std::setw(9)
        << OrDash(info.producer_epoch) << What(info) << '\n';
    if (aborts != nullptr && info.control_type == log::kControlAbort) ++*aborts;
    if (resets != nullptr && info.control_type == log::kControlMirrorPidReset) ++*resets;
  }
  return {};
}

}  // namespace kmirror::lab
