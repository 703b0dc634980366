// A cluster as a command-line tool sees it: found through any of its bootstrap servers, then asked
// broker by broker. Connections are opened when first needed and again after they broke.
//
// Confined to one thread.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "kmirror/status.h"
#include "kmirror/types.h"
#include "messages/metadata.h"
#include "tools/client/kafka_connection.h"

namespace kmirror::tools {

class ClusterClient {
 public:
  ClusterClient(std::vector<HostPort> bootstrap, std::chrono::milliseconds timeout)
      : bootstrap_(std::move(bootstrap)), timeout_(timeout) {}

  // A connection to any bootstrap server that answers. kDisconnected lists each address with its
  // reason.
  Result<KafkaConnection*> Any();

  // Asks any broker for metadata: of all topics (nullopt), or of those named (an empty list:
  // brokers and cluster id alone). Never creates topics.
  Result<protocol::MetadataResponse> Metadata(std::optional<std::vector<std::string>> topics);

  // Brokers by id, as the last Metadata call told; asks once when there was none.
  Result<std::map<int32_t, HostPort>> Brokers();
  // A connection to one broker.
  Result<KafkaConnection*> Broker(int32_t id);

  std::string BootstrapText() const;

 private:
  std::vector<HostPort> bootstrap_;
  std::chrono::milliseconds timeout_;
  std::unique_ptr<KafkaConnection> any_;
  std::map<int32_t, HostPort> brokers_;
  std::map<int32_t, std::unique_ptr<KafkaConnection>> by_id_;
};

}  // namespace kmirror::tools
