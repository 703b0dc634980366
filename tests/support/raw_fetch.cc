#include "tests/support/raw_fetch.h"

#include <iterator>

#include "messages/fetch.h"

namespace kmirror::test {
namespace {

constexpr int16_t kVersion = 12;  // the last one that names topics
constexpr int32_t kBytesMax = 4 << 20;

}  // namespace

Result<std::vector<RawBatch>> FetchBatches(WireClient& client, const std::string& topic,
                                           int32_t partition, int64_t from_offset) {
  const std::string what = "fetch " + topic + "-" + std::to_string(partition);
  std::vector<RawBatch> all;
  for (;;) {
    protocol::FetchRequest request;
    request.max_wait_ms = 100;
    request.min_bytes = 0;
    request.max_bytes = kBytesMax;
    auto& asked = request.topics.emplace_back();
    asked.topic = topic;
    auto& where = asked.partitions.emplace_back();
    where.partition = partition;
    where.fetch_offset = from_offset;
    where.partition_max_bytes = kBytesMax;
    const auto answer = client.Call<protocol::FetchResponse>(request, kVersion);
    if (!answer.ok()) return answer.status().WithContext(what);
    if (answer->error_code != 0) return {static_cast<ErrorCode>(answer->error_code), what};
    if (answer->responses.size() != 1 || answer->responses[0].partitions.size() != 1) {
      return {ErrorCode::kMalformed, what + ": not the one partition that was asked for"};
    }
    const auto& data = answer->responses[0].partitions[0];
    if (data.error_code != 0) return {static_cast<ErrorCode>(data.error_code), what};
    const ByteView bytes = data.records ? data.records->bytes() : ByteView();
    Result<std::vector<RawBatch>> batches = SplitBatches(bytes, Tail::kPartOfABatch);
    if (!batches.ok()) return batches.status().WithContext(what);
    if (batches->empty()) {
      if (from_offset >= data.high_watermark) return all;
      return {ErrorCode::kMalformed, what + ": no whole batch at offset " +
                                         std::to_string(from_offset) + ", high watermark " +
                                         std::to_string(data.high_watermark)};
    }
    from_offset = batches->back().last_offset + 1;
    all.insert(all.end(), std::make_move_iterator(batches->begin()),
               std::make_move_iterator(batches->end()));
    if (from_offset >= data.high_watermark) return all;
  }
}

}  // namespace kmirror::test
