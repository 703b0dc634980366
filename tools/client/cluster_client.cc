#include "tools/client/cluster_client.h"

#include <utility>

namespace kmirror::tools {

std::string ClusterClient::BootstrapText() const {
  std::string text;
  for (const HostPort& server : bootstrap_) text += (text.empty() ? "" : ",") + server.ToString();
  return text;
}

Result<KafkaConnection*> ClusterClient::Any() {
  if (any_ != nullptr && !any_->broken()) return any_.get();
  std::string reasons;
  for (const HostPort& server : bootstrap_) {
    Result<KafkaConnection> connection = KafkaConnection::Open(server, timeout_);
    if (connection.ok()) {
      any_ = std::make_unique<KafkaConnection>(std::move(connection).value());
      return any_.get();
    }
    reasons += (reasons.empty() ? "" : "; ") + connection.status().message();
  }
  return {ErrorCode::kDisconnected, reasons};
}

Result<protocol::MetadataResponse> ClusterClient::Metadata(
    std::optional<std::vector<std::string>> topics) {
  const Result<KafkaConnection*> connection = Any();
  if (!connection.ok()) return connection.status();
  protocol::MetadataRequest request;
  request.allow_auto_topic_creation = false;
  if (topics) {
    for (std::string& name : *topics) request.topics->push_back({.name = std::move(name)});
  } else {
    request.topics.reset();
  }
  auto answer = (*connection)->Call<protocol::MetadataResponse>(request);
  if (!answer.ok()) return answer.status();
  if (answer->error_code != 0) {
    return {static_cast<ErrorCode>(answer->error_code),
            (*connection)->address().ToString() + " refused Metadata"};
  }
  brokers_.clear();
  for (const auto& broker : answer->brokers) {
    brokers_[broker.node_id] = {broker.host, broker.port};
  }
  return answer;
}

Result<std::map<int32_t, HostPort>> ClusterClient::Brokers() {
  if (brokers_.empty()) {
    const auto metadata = Metadata(std::vector<std::string>{});
    if (!metadata.ok()) return metadata.status();
  }
  return brokers_;
}

Result<KafkaConnection*> ClusterClient::Broker(int32_t id) {
  const auto it = brokers_.find(id);
  if (it == brokers_.end()) {
    return {ErrorCode::kBrokerNotAvailable, "no broker " + std::to_string(id)};
  }
  std::unique_ptr<KafkaConnection>& known = by_id_[id];
  if (known == nullptr || known->broken() || known->address() != it->second) {
    Result<KafkaConnection> connection = KafkaConnection::Open(it->second, timeout_);
    if (!connection.ok()) return connection.status();
    known = std::make_unique<KafkaConnection>(std::move(connection).value());
  }
  return known.get();
}

}  // namespace kmirror::tools
