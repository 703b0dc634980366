#include "src/fetcher/source_cluster_client.h"

#include <algorithm>
#include <set>
#include <utility>

#include "messages/describe_cluster_mirrors.h"
#include "messages/list_cluster_mirrors.h"
#include "messages/metadata.h"
#include "messages/offset_for_leader_epoch.h"
#include "src/fetcher/source_connection.h"
#include "src/protocol/body.h"
#include "src/protocol/mirror_numbers.h"

namespace kmirror::fetcher {
namespace {

using std::chrono::milliseconds;
using std::chrono::nanoseconds;

// From v4 on a request can say that no topic is to be created; Kafka 2.1 serves up to v7.
constexpr VersionRange kMetadataVersions{4, 12};
constexpr VersionRange kEpochVersions{2, 4};
constexpr VersionRange kMirrorVersions{0, 0};

SourceMetadata FromWire(const protocol::MetadataResponse& response) {
  SourceMetadata out;
  out.cluster_id = response.cluster_id.value_or("");
  for (const auto& broker : response.brokers) {
    out.brokers[broker.node_id] = {broker.host, broker.port};
  }
  for (const auto& topic : response.topics) {
    SourceTopic& to = out.topics.emplace_back();
    to.name = topic.name.value_or("");
    to.id = topic.topic_id;
    to.error = static_cast<ErrorCode>(topic.error_code);
    for (const auto& partition : topic.partitions) {
      to.partitions.push_back(
          {partition.partition_index, partition.leader_id, partition.leader_epoch});
    }
    std::ranges::sort(to.partitions, {}, &SourcePartition::index);
  }
  return out;
}

}  // namespace

SourceClusterClient::SourceClusterClient(host::Runtime* runtime, host::Lane* lane,
                                         Transport* transport,
                                         std::shared_ptr<const MirrorSourceConfig> config,
                                         int32_t broker_id)
    : runtime_(runtime),
      lane_(lane),
      transport_(transport),
      config_(std::move(config)),
      client_id_("mirror-src-admin-" + config_->mirror + "-" + std::to_string(broker_id)) {}

SourceClusterClient::~SourceClusterClient() {
  for (auto& [id, operation] : operations_) lane_->Cancel(operation.timer);
}

void SourceClusterClient::Close() {
  closed_ = true;
  links_.clear();
  for (auto& [id, operation] : std::exchange(operations_, {})) {
    lane_->Cancel(operation.timer);
    lane_->Post([fail = std::move(operation.fail)] {
      fail({ErrorCode::kCancelled, "the source client was closed"});
    });
  }
}

template <typename T>
std::function<void(Result<T>)> SourceClusterClient::Begin(Answer<T> answer) {
  if (closed_) {
    lane_->Post([answer = std::move(answer)] {
      answer(Status(ErrorCode::kCancelled, "the source client was closed"));
    });
    return nullptr;
  }
  const uint64_t id = ++last_operation_;
  auto shared = std::make_shared<Answer<T>>(std::move(answer));
  Operation& operation = operations_[id];
  operation.fail = [shared](Status status) { (*shared)(std::move(status)); };
  const auto finish = [this, id, shared](Result<T> result) {
    const auto it = operations_.find(id);
    if (it == operations_.end()) return;  // timed out, and told so
    lane_->Cancel(it->second.timer);
    operations_.erase(it);
    (*shared)(std::move(result));
  };
  operation.timer = lane_->RunAfter(milliseconds(config_->request_timeout_ms), [this, finish] {
    finish(Status(ErrorCode::kTimedOut,
                  "no answer from the source within " +
                      std::to_string(config_->request_timeout_ms) + " ms"));
  });
  return finish;
}

// ---- Connections.

SourceClusterClient::Link& SourceClusterClient::LinkTo(const HostPort& address) {
  std::unique_ptr<Link>& link = links_[address];
  if (link == nullptr) {
    link = std::make_unique<Link>(Link{
        .address = address,
        .backoff = Backoff(milliseconds(std::max(1, config_->fetch_backoff_ms)),
                           std::chrono::minutes(5))});
  }
  return *link;
}

void SourceClusterClient::Connect(const HostPort& address, WithConnection then) {
  Link& link = LinkTo(address);
  if (link.open) return then(link.connection.get());
  const nanoseconds now = runtime_->MonotonicNow();
  if (link.connection == nullptr && now < link.retry_at) {
    const auto wait = std::chrono::duration_cast<milliseconds>(link.retry_at - now);
    return then(link.error.WithContext("not tried again for " + std::to_string(wait.count()) +
                                       " ms"));
  }
  link.waiters.push_back([&link, then = std::move(then)](Status status) {
    if (status.ok()) {
      then(link.connection.get());
    } else {
      then(std::move(status));
    }
  });
  if (link.connection != nullptr) return;
  link.connection =
      transport_->NewConnection(lane_, SourceConnection(*config_, address, client_id_));
  link.connection->OnClosed([this, &link](Status status) { OnLink(link, std::move(status)); });
  link.connection->Open([this, &link](Status status) { OnLink(link, std::move(status)); });
}

void SourceClusterClient::OnLink(Link& link, Status status) {
  if (status.ok()) {
    link.open = true;
    link.backoff.Reset();
  } else if (link.connection != nullptr) {
    link.open = false;
    link.connection.reset();
    link.error = status;
    link.retry_at = runtime_->MonotonicNow() + link.backoff.Next(runtime_->Random());
    if (last_good_ == link.address) last_good_.reset();
  }
  // The waiters may close the client, and the link with it.
  std::vector<std::function<void(Status)>> waiters = std::exchange(link.waiters, {});
  for (const auto& waiter : waiters) {
    if (closed_) return;
    waiter(status);
  }
}

std::vector<HostPort> SourceClusterClient::Candidates() const {
  std::vector<HostPort> all;
  const auto add = [&all](const HostPort& address) {
    if (std::ranges::find(all, address) == all.end()) all.push_back(address);
  };
  if (last_good_) add(*last_good_);
  for (const auto& [id, address] : brokers_) add(address);
  for (const HostPort& address : config_->bootstrap) add(address);
  return all;
}

void SourceClusterClient::ConnectAny(WithConnection then) {
  // A little later, so that nothing is answered within the call.
  lane_->Post([this, alive = std::weak_ptr(alive_), then = std::move(then)]() mutable {
    if (alive.expired() || closed_) return;
    TryNext(std::make_shared<std::vector<HostPort>>(Candidates()), 0,
            {ErrorCode::kDisconnected, "no bootstrap server is configured"}, std::move(then));
  });
}

void SourceClusterClient::TryNext(std::shared_ptr<std::vector<HostPort>> candidates, size_t at,
                                  Status last, WithConnection then) {
  if (at == candidates->size()) return then(std::move(last));
  const HostPort address = (*candidates)[at];
  Connect(address, [this, candidates = std::move(candidates), at, address,
                    then = std::move(then)](Result<Connection*> connection) mutable {
    if (connection.ok()) {
      last_good_ = address;
      return then(std::move(connection));
    }
    TryNext(std::move(candidates), at + 1, connection.status(), std::move(then));
  });
}

template <typename Response, typename Request>
void SourceClusterClient::Send(Connection* connection, const Request& request, VersionRange ours,
                               std::function<void(Result<Response>)> answer) {
  const auto version = connection->versions().Pick(Request::kApiKey, ours);
  if (!version) {
    return answer(Status(ErrorCode::kUnsupportedVersion,
                         std::string("the source does not serve a version of ") + Request::kName +
                             " that we speak"));
  }
  protocol::Writer body;
  if (Status status = protocol::Encode(request, *version, body); !status.ok()) {
    return answer(std::move(status));
  }
  connection->Ask({Request::kApiKey, *version, body.Flatten(),
                   milliseconds(config_->request_timeout_ms)},
                  [version = *version, answer = std::move(answer)](
                      Result<std::vector<uint8_t>> bytes) {
                    if (!bytes.ok()) return answer(bytes.status());
                    Response response;
                    Status status = protocol::DecodeBody(*bytes, version, &response);
                    if (!status.ok()) return answer(std::move(status));
                    answer(std::move(response));
                  });
}

// ---- Metadata.

void SourceClusterClient::Metadata(std::optional<std::vector<std::string>> topics,
                                   std::function<void(Result<SourceMetadata>)> answer) {
  ConnectAny([this, topics = std::move(topics),
              answer = std::move(answer)](Result<Connection*> connection) mutable {
    if (!connection.ok()) return answer(connection.status());
    protocol::MetadataRequest request;
    request.allow_auto_topic_creation = false;
    if (topics) {
      request.topics.emplace();
      for (std::string& name : *topics) request.topics->emplace_back().name = std::move(name);
    } else {
      request.topics = std::nullopt;
    }
    Send<protocol::MetadataResponse>(
        *connection, request, kMetadataVersions,
        [this, answer = std::move(answer)](Result<protocol::MetadataResponse> response) {
          if (!response.ok()) return answer(response.status());
          SourceMetadata metadata = FromWire(*response);
          if (!metadata.brokers.empty()) brokers_ = metadata.brokers;
          answer(std::move(metadata));
        });
  });
}

void SourceClusterClient::DescribeTopics(std::vector<std::string> topics,
                                         Answer<SourceMetadata> answer) {
  if (auto finish = Begin(std::move(answer))) Metadata(std::move(topics), std::move(finish));
}

void SourceClusterClient::ListTopics(Answer<std::vector<std::string>> answer) {
  auto finish = Begin(std::move(answer));
  if (!finish) return;
  Metadata(std::nullopt, [finish = std::move(finish)](Result<SourceMetadata> metadata) {
    if (!metadata.ok()) return finish(metadata.status());
    std::vector<std::string> names;
    for (const SourceTopic& topic : metadata->topics) names.push_back(topic.name);
    finish(std::move(names));
  });
}

void SourceClusterClient::Features(Answer<SourceFeatures> answer) {
  auto finish = Begin(std::move(answer));
  if (!finish) return;
  ConnectAny([finish = std::move(finish)](Result<Connection*> connection) {
    if (!connection.ok()) return finish(connection.status());
    const auto& features = (*connection)->versions().finalized_features;
    const auto it = features.find(protocol::kMirrorFeatureName);
    // R17: the feature tells, never the presence of a key.
    finish(SourceFeatures{it != features.end() && it->second >= protocol::kMirrorFeatureLevel});
  });
}

void SourceClusterClient::EndOffsetForEpoch(std::string topic, int32_t partition, int32_t leader_id,
                                            int32_t leader_epoch, int32_t epoch,
                                            Answer<host::EpochEnd> answer) {
  auto finish = Begin(std::move(answer));
  if (!finish) return;
  const auto ask = [this, topic, partition, leader_id, leader_epoch, epoch, finish] {
    const auto it = brokers_.find(leader_id);
    if (it == brokers_.end()) {
      return finish(Status(ErrorCode::kBrokerNotAvailable,
                           "the source has no broker " + std::to_string(leader_id)));
    }
    Connect(it->second, [=, this](Result<Connection*> connection) {
      if (!connection.ok()) return finish(connection.status());
      protocol::OffsetForLeaderEpochRequest request;
      auto& wanted = request.topics.emplace_back();
      wanted.topic = topic;
      wanted.partitions.push_back({partition, leader_epoch, epoch});
      Send<protocol::OffsetForLeaderEpochResponse>(
          *connection, request, kEpochVersions,
          [=](Result<protocol::OffsetForLeaderEpochResponse> response) {
            if (!response.ok()) return finish(response.status());
            if (response->topics.size() != 1 || response->topics[0].topic != topic ||
                response->topics[0].partitions.size() != 1 ||
                response->topics[0].partitions[0].partition != partition) {
              return finish(Status(ErrorCode::kMalformed,
                                   "OffsetForLeaderEpoch answers something else"));
            }
            const auto& end = response->topics[0].partitions[0];
            if (end.error_code != 0) {
              const auto code = static_cast<ErrorCode>(end.error_code);
              return finish(Status(code, "the source answers " + ErrorName(code)));
            }
            finish(host::EpochEnd{end.leader_epoch, end.end_offset});
          });
    });
  };
  if (brokers_.contains(leader_id)) {
    // Not from within the request: a failure would be told inside it.
    lane_->Post([this, alive = std::weak_ptr(alive_), id = last_operation_, ask] {
      if (!alive.expired() && operations_.contains(id)) ask();
    });
    return;
  }
  Metadata(std::vector<std::string>{}, [ask, finish](Result<SourceMetadata> metadata) {
    if (!metadata.ok()) return finish(metadata.status());
    ask();
  });
}

// ---- Mirrors of the source.

void SourceClusterClient::ListMirrors(Answer<std::vector<SourceMirror>> answer) {
  auto finish = Begin(std::move(answer));
  if (!finish) return;
  ConnectAny([this, finish = std::move(finish)](Result<Connection*> connection) {
    if (!connection.ok()) return finish(connection.status());
    const auto& features = (*connection)->versions().finalized_features;
    const auto feature = features.find(protocol::kMirrorFeatureName);
    if (feature == features.end() || feature->second < protocol::kMirrorFeatureLevel) {
      return finish(Status(ErrorCode::kUnsupportedVersion, "the source does not mirror"));
    }
    protocol::ListClusterMirrorsRequest request;
    request.include_topic_names = true;
    Send<protocol::ListClusterMirrorsResponse>(
        *connection, request, kMirrorVersions,
        [finish](Result<protocol::ListClusterMirrorsResponse> response) {
          if (!response.ok()) return finish(response.status());
          if (response->error_code != 0) {
            return finish(Status(static_cast<ErrorCode>(response->error_code),
                                 response->error_message.value_or("")));
          }
          std::vector<SourceMirror> mirrors;
          for (const auto& mirror : response->mirrors) {
            mirrors.push_back({mirror.mirror_name, mirror.source_cluster_id, mirror.topic_names});
          }
          finish(std::move(mirrors));
        });
  });
}

// One look-up of a partition at every broker.
struct SourceClusterClient::PositionQuery {
  std::string own_cluster_id;
  std::string topic;
  TopicIdPartition partition;
  std::vector<std::string> mirrors;     // those of the source that copy from us
  std::function<void(Result<SourceMirrorPosition>)> finish;
  size_t waiting = 0;
  bool failed = false;                  // a broker did not answer, or not for this partition
  bool found = false;                   // a broker answered for this partition
  SourceMirrorPosition position;
};

void SourceClusterClient::MirrorPositions(std::string own_cluster_id, std::string topic,
                                          TopicIdPartition partition,
                                          Answer<SourceMirrorPosition> answer) {
  auto query = std::make_shared<PositionQuery>();
  query->finish = Begin(std::move(answer));
  if (!query->finish) return;
  query->own_cluster_id = std::move(own_cluster_id);
  query->topic = std::move(topic);
  query->partition = partition;
  ListMirrors([this, query](Result<std::vector<SourceMirror>> mirrors) {
    if (!mirrors.ok()) return query->finish(mirrors.status());
    for (SourceMirror& mirror : *mirrors) {
      if (mirror.source_cluster_id != query->own_cluster_id) continue;
      query->mirrors.push_back(mirror.name);
      if (std::ranges::find(mirror.topics, query->topic) != mirror.topics.end()) {
        query->position.active = true;
        query->position.active_state = "listed by mirror " + mirror.name;
      }
    }
    if (query->mirrors.empty()) {
      // The list comes from the source's metadata: no mirror of it ever copied from us, or all of
      // them were deleted with what they remembered.
      query->position.authoritative = true;
      return query->finish(query->position);
    }
    Metadata(std::vector<std::string>{}, [this, query](Result<SourceMetadata> metadata) {
      if (!metadata.ok()) return query->finish(metadata.status());
      AskPosition(query);
    });
  });
}

void SourceClusterClient::AskPosition(std::shared_ptr<PositionQuery> query) {
  const std::map<int32_t, HostPort> brokers = brokers_;
  query->waiting = brokers.size();
  for (const auto& [id, address] : brokers) {
    Connect(address, [this, query](Result<Connection*> connection) {
      const auto failed = [this, query] {
        query->failed = true;
        if (--query->waiting == 0) FinishPosition(*query);
      };
      if (!connection.ok()) return failed();
      protocol::DescribeClusterMirrorsRequest request;
      request.mirror_names = query->mirrors;
      request.cluster_id = query->own_cluster_id;
      auto& lookup = request.last_mirror_epoch_lookups.emplace_back();
      lookup.topic_id = query->partition.topic_id;
      lookup.partitions.push_back(query->partition.partition);
      Send<protocol::DescribeClusterMirrorsResponse>(
          *connection, request, kMirrorVersions,
          [this, query, failed](Result<protocol::DescribeClusterMirrorsResponse> response) {
            if (!response.ok() || response->error_code != 0) return failed();
            SourceMirrorPosition& position = query->position;
            for (const auto& mirror : response->mirrors) {
              for (const auto& topic : mirror.topics) {
                if (topic.topic_name != query->topic) continue;
                for (const auto& described : topic.partitions) {
                  if (described.partition_index != query->partition.partition ||
                      described.state_value == "STOPPED") {
                    continue;
                  }
                  position.active = true;
                  position.active_state = described.state_value;
                }
              }
            }
            for (const auto& result : response->lookup_results) {
              if (result.topic_id != query->partition.topic_id) continue;
              for (const auto& found : result.partitions) {
                if (found.partition_index != query->partition.partition) continue;
                const auto code = static_cast<ErrorCode>(found.error_code);
                if (code == ErrorCode::kNotCoordinator) continue;  // another broker's shard
                if (code != ErrorCode::kNone) {
                  query->failed = true;
                  continue;
                }
                query->found = true;
                if (std::pair(found.last_mirror_epoch, found.last_mirror_offset) >
                    std::pair(position.last_mirror_epoch, position.last_mirror_offset)) {
                  position.last_mirror_epoch = found.last_mirror_epoch;
                  position.last_mirror_offset = found.last_mirror_offset;
                }
              }
            }
            if (--query->waiting == 0) FinishPosition(*query);
          });
    });
  }
  if (brokers.empty()) FinishPosition(*query);
}

void SourceClusterClient::FinishPosition(PositionQuery& query) {
  // R19, R20: silence of the broker that would know is not "never mirrored".
  query.position.authoritative = !query.failed && query.found;
  query.finish(query.position);
}

}  // namespace kmirror::fetcher
