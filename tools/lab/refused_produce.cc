#include "tools/lab/refused_produce.h"

#include <ostream>
#include <vector>

#include "kmirror/log/record_batch_builder.h"
#include "messages/produce.h"
#include "tools/client/cluster_client.h"

namespace kmirror::lab {

Status ExpectRefusedProduce(const std::string& bootstrap, const std::string& topic,
                            std::ostream& out) {
  const auto servers = tools::ParseServers(bootstrap);
  if (!servers.ok()) return servers.status();
  tools::ClusterClient cluster(*servers, std::chrono::seconds(20));
  const auto metadata = cluster.Metadata(std::vector<std::string>{topic});
  if (!metadata.ok()) return metadata.status();
  if (metadata->topics.empty() || metadata->topics[0].partitions.empty()) {
    return {ErrorCode::kUnknownTopicOrPartition, topic};
  }
  const auto connection = cluster.Broker(metadata->topics[0].partitions[0].leader_id);
  if (!connection.ok()) return connection.status();

  log::RecordBatchBuilder builder;
  builder.Add(1'700'000'000'000, std::nullopt, log::AsBytes("written by somebody who must not"));
  const std::vector<uint8_t> batch = builder.Build();
  protocol::ProduceRequest request;
  request.acks = -1;
  request.timeout_ms = 10'000;
  auto& data = request.topic_data.emplace_back();
  data.name = topic;
  auto& partition = data.partition_data.emplace_back();
  partition.index = 0;
  partition.records = protocol::RecordsView(ByteView(batch));
  // Version 9 has room for the broker's words and still goes by name.
  const auto answer = (*connection)->CallVersion<protocol::ProduceResponse>(request, 9);
  if (!answer.ok()) return answer.status();
  if (answer->responses.empty() || answer->responses[0].partition_responses.empty()) {
    return {ErrorCode::kUnknownServerError, "an empty produce answer"};
  }
  const auto& result = answer->responses[0].partition_responses[0];
  if (result.error_code == 0) {
    return {ErrorCode::kUnknownServerError, topic + " took a record that it must refuse"};
  }
  out << "  " << ErrorName(static_cast<ErrorCode>(result.error_code)) << " (" << result.error_code
      << "): " << result.error_message.value_or("") << '\n';
  return {};
}

}  // namespace kmirror::lab
