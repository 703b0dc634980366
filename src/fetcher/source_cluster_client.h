// SourceCluster over connections of its own to the brokers of the source.
//
// One connection a broker, opened when first needed and kept; a broker that failed is not tried
// again before its backoff is over, and requests that any broker can answer go to the next one
// meanwhile. Lane rule: the coordinator's lane.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "src/fetcher/backoff.h"
#include "src/fetcher/source_cluster.h"
#include "src/fetcher/transport.h"

namespace kmirror::fetcher {

class SourceClusterClient : public SourceCluster {
 public:
  // All outlive the client. broker_id: ours, for the client id.
  SourceClusterClient(host::Runtime* runtime, host::Lane* lane, Transport* transport,
                      std::shared_ptr<const MirrorSourceConfig> config, int32_t broker_id);
  // Requests that are not answered by then never are, unless Close was called before.
  ~SourceClusterClient() override;

  void DescribeTopics(std::vector<std::string> topics, Answer<SourceMetadata> answer) override;
  void ListTopics(Answer<std::vector<std::string>> answer) override;
  void Features(Answer<SourceFeatures> answer) override;
  void ListMirrors(Answer<std::vector<SourceMirror>> answer) override;
  void MirrorPositions(std::string own_cluster_id, std::string topic, TopicIdPartition partition,
                       Answer<SourceMirrorPosition> answer) override;
  void EndOffsetForEpoch(std::string topic, int32_t partition, int32_t leader_id,
                         int32_t leader_epoch, int32_t epoch,
                         Answer<host::EpochEnd> answer) override;
  void Close() override;

 private:
  struct Link {
    HostPort address;
    std::unique_ptr<Connection> connection;
    bool open = false;
    Backoff backoff;
    std::chrono::nanoseconds retry_at{0};
    Status error;
    std::vector<std::function<void(Status)>> waiters;
  };
  using WithConnection = std::function<void(Result<Connection*>)>;
  struct Operation {
    std::function<void(Status)> fail;
    host::Lane::TimerId timer = 0;
  };
  struct PositionQuery;

  // Registers an answer that is to be given once; Finish gives it. 0: closed, and it will be told
  // so.
  template <typename T>
  std::function<void(Result<T>)> Begin(Answer<T> answer);

  Link& LinkTo(const HostPort& address);
  void Connect(const HostPort& address, WithConnection then);
  void OnLink(Link& link, Status status);
  // Tries the brokers one after another until one connects.
  void ConnectAny(WithConnection then);
  void TryNext(std::shared_ptr<std::vector<HostPort>> candidates, size_t at, Status last,
               WithConnection then);
  std::vector<HostPort> Candidates() const;

  // Encodes, asks, decodes. kUnsupportedVersion when the broker's range does not meet `ours`.
  template <typename Response, typename Request>
  void Send(Connection* connection, const Request& request, VersionRange ours,
            std::function<void(Result<Response>)> answer);
  void Metadata(std::optional<std::vector<std::string>> topics,
                std::function<void(Result<SourceMetadata>)> answer);
  void AskPosition(std::shared_ptr<PositionQuery> query);
  void FinishPosition(PositionQuery& query);

  host::Runtime* const runtime_;
  host::Lane* const lane_;
  Transport* const transport_;
  const std::shared_ptr<const MirrorSourceConfig> config_;
  const std::string client_id_;
  bool closed_ = false;
  std::shared_ptr<const bool> alive_ = std::make_shared<const bool>(true);  // for what is posted
  std::map<HostPort, std::unique_ptr<Link>> links_;
  std::map<int32_t, HostPort> brokers_;          // as last told
  std::optional<HostPort> last_good_;
  std::unordered_map<uint64_t, Operation> operations_;
  uint64_t last_operation_ = 0;
};

class SourceClusterClientFactory : public SourceClusterFactory {
 public:
  SourceClusterClientFactory(host::Runtime* runtime, Transport* transport, int32_t broker_id)
      : runtime_(runtime), transport_(transport), broker_id_(broker_id) {}

  std::unique_ptr<SourceCluster> Open(std::shared_ptr<const MirrorSourceConfig> config,
                                      host::Lane* lane) override {
    return std::make_unique<SourceClusterClient>(runtime_, lane, transport_, std::move(config),
                                                 broker_id_);
  }

 private:
  host::Runtime* const runtime_;
  Transport* const transport_;
  const int32_t broker_id_;
};

}  // namespace kmirror::fetcher
