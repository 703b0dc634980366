// What clients ask first: which APIs, which brokers, which topics.

#include <algorithm>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "broker/server/api_table.h"
#include "broker/server/handlers.h"
#include "messages/api_versions.h"
#include "messages/describe_cluster.h"
#include "messages/describe_topic_partitions.h"
#include "messages/find_coordinator.h"
#include "messages/metadata.h"
#include "src/protocol/mirror_numbers.h"
#include "src/protocol/wire_error.h"

namespace kmirror::broker {
namespace {

using protocol::ApiVersionsResponse;
using protocol::MetadataRequest;
using protocol::MetadataResponse;

// Not in ErrorCode: nobody else needs them.
constexpr int16_t kMismatchedEndpointType = 114;
constexpr int16_t kUnsupportedEndpointType = 115;
constexpr int16_t kRebootstrapRequired = 129;

// KIP-511: letters and digits, with dashes and dots between them.
bool IsSoftwareName(const std::string& text) {
  const auto alphanumeric = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
  };
  if (text.empty() || !alphanumeric(text.front()) || !alphanumeric(text.back())) return false;
  return std::all_of(text.begin(), text.end(),
                     [&](char c) { return alphanumeric(c) || c == '-' || c == '.'; });
}

// librdkafka from 2.3 on asks for all topics with four zero bytes where the null array of a
// flexible version is one (issue 5049 of its repository). Kafka has never noticed: it ignores what
// is left behind a message. The three that are too many are taken out; everything else that is left
// over is refused as always.
Status DecodeMetadata(const ServedRequest& request, MetadataRequest* message) {
  const ByteView body = request.body();
  const Status decoded = protocol::DecodeBody(body, request.version(), message);
  if (decoded.ok() || request.version() < 9) return decoded;
  constexpr size_t kTooMany = 3;
  const size_t flags = request.version() <= 10 ? 3 : 2;
  const bool doubtful = body.size() == kTooMany + 1 + flags + 1 &&
                        std::ranges::all_of(body.first(kTooMany + 1), [](uint8_t b) { return !b; });
  if (!doubtful) return decoded;
  *message = {};
  return protocol::DecodeBody(body.subspan(kTooMany), request.version(), message);
}

std::optional<std::string> RackOf(const BrokerImage& broker) {
  return broker.rack.empty() ? std::nullopt : std::optional(broker.rack);
}

// One partition in the words of Metadata and DescribeTopicPartitions, which share their field
// names.
template <typename Answer>
void FillPartition(const Services& services, const TopicImage& topic, int32_t index,
                   Answer* answer) {
  const PartitionImage& partition = topic.partitions[static_cast<size_t>(index)];
  const int32_t replica = partition.leader >= 0 ? partition.leader : services.config->node_id;
  answer->partition_index = index;
  answer->leader_epoch = partition.leader_epoch;
  answer->replica_nodes = {replica};
  if (services.logs->Find(TopicIdPartition{topic.id, index})) {
    answer->leader_id = partition.leader;
    answer->isr_nodes = {replica};
  } else {
    answer->error_code = protocol::WireErrorCode(ErrorCode::kLeaderNotAvailable);
    answer->leader_id = -1;
    answer->offline_replicas = {replica};
  }
}

class MetadataOperation {
 public:
  MetadataOperation(Services& services, RequestPtr request, MetadataRequest message)
      : services_(services), request_(std::move(request)), message_(std::move(message)) {}

  // Names that are to be created first.
  std::vector<std::string> Missing() const {
    std::vector<std::string> names;
    const bool may_create = services_.config->auto_create_topics_enable &&
                            (request_->version() < 4 || message_.allow_auto_topic_creation);
    if (!may_create || AllWanted() || AsksForIdsTooEarly()) return names;
    const ImagePtr image = services_.controller->image();
    for (const auto& topic : *message_.topics) {
      if (topic.name && topic.topic_id.IsZero() && !image->topics.Find(*topic.name)) {
        names.push_back(*topic.name);
      }
    }
    return names;
  }

  void Answer(const std::map<std::string, Status>& creations) {
    image_ = services_.controller->image();
    MetadataResponse response;
    if (AsksForIdsTooEarly()) {
      for (const auto& wanted : *message_.topics) {
        auto& answer = response.topics.emplace_back();
        answer.name = wanted.name.value_or("");
        answer.topic_id = wanted.topic_id;
        answer.error_code = protocol::WireErrorCode(ErrorCode::kInvalidRequest);
      }
      response.cluster_id.reset();
      return request_->Answer(response);
    }
    for (const BrokerImage& broker : image_->brokers) {
      const HostPort address = EndpointFor(broker, request_->connection());
      response.brokers.push_back({broker.id, address.host, address.port, RackOf(broker)});
    }
    response.cluster_id = image_->cluster_id;
    response.controller_id = image_->controller_id;
    if (request_->version() >= 8 && request_->version() <= 10 &&
        message_.include_cluster_authorized_operations) {
      response.cluster_authorized_operations = kClusterOperations;
    }
    if (AllWanted()) {
      for (const TopicPtr& topic : image_->topics.Sorted())
        response.topics.push_back(Known(*topic));
    } else {
      // A topic is told once, whether it is asked for by name or by id.
      std::set<std::pair<std::optional<std::string>, Uuid>> told;
      for (const auto& wanted : *message_.topics) {
        auto answer = One(wanted, creations);
        if (told.emplace(answer.name, answer.topic_id).second) {
          response.topics.push_back(std::move(answer));
        }
      }
    }
    request_->Answer(response);
  }

 private:
  bool AllWanted() const {
    return !message_.topics || (request_->version() == 0 && message_.topics->empty());
  }

  // Before 12 an answer cannot leave the name out, so ids are no question: as in Kafka the whole
  // request is refused.
  bool AsksForIdsTooEarly() const {
    return request_->version() >= 10 && request_->version() < 12 && message_.topics &&
           std::ranges::any_of(
               *message_.topics,
               [](const auto& wanted) { return !wanted.name || !wanted.topic_id.IsZero(); });
  }

  MetadataResponse::MetadataResponseTopic One(
      const MetadataRequest::MetadataRequestTopic& wanted,
      const std::map<std::string, Status>& creations) const {
    MetadataResponse::MetadataResponseTopic answer;
    answer.name = wanted.name;
    answer.topic_id = wanted.topic_id;
    if (request_->version() >= 8 && message_.include_topic_authorized_operations &&
        wanted.topic_id.IsZero()) {
      answer.topic_authorized_operations = kTopicOperations;
    }
    const auto fail = [&](ErrorCode code) {
      answer.error_code = protocol::WireErrorCode(code);
      return answer;
    };
    if (!wanted.topic_id.IsZero() || !wanted.name) {
      const TopicPtr topic = image_->topics.Find(wanted.topic_id);
      if (topic) return Known(*topic);
      answer.name.reset();
      return fail(ErrorCode::kUnknownTopicId);
    }
    if (const TopicPtr topic = image_->topics.Find(*wanted.name)) return Known(*topic);
    if (const auto created = creations.find(*wanted.name); created != creations.end()) {
      return fail(created->second.code());
    }
    return fail(CheckTopicName(*wanted.name).ok() ? ErrorCode::kUnknownTopicOrPartition
                                                  : ErrorCode::kInvalidTopic);
  }

  MetadataResponse::MetadataResponseTopic Known(const TopicImage& topic) const {
    MetadataResponse::MetadataResponseTopic answer;
    answer.name = topic.name;
    answer.topic_id = topic.id;
    answer.is_internal = topic.internal();
    for (int32_t i = 0; i < topic.partition_count(); ++i) {
      FillPartition(services_, topic, i, &answer.partitions.emplace_back());
    }
    if (request_->version() >= 8 && message_.include_topic_authorized_operations) {
      answer.topic_authorized_operations = kTopicOperations;
    }
    return answer;
  }

  Services& services_;
  const RequestPtr request_;
  const MetadataRequest message_;
  ImagePtr image_;
};

}  // namespace

void HandleApiVersions(Services& services, RequestPtr request) {
  protocol::ApiVersionsRequest message;
  if (!DecodeRequest(*request, &message)) return;
  ApiVersionsResponse response;
  if (request->version() >= 3 && (!IsSoftwareName(message.client_software_name) ||
                                  !IsSoftwareName(message.client_software_version))) {
    response.error_code = protocol::WireErrorCode(ErrorCode::kInvalidRequest);
    return request->Answer(response);
  }
  const ImagePtr image = services.controller->image();
  // One without the other says nothing.
  if (message.cluster_id.has_value() != (message.node_id >= 0)) {
    response.error_code = protocol::WireErrorCode(ErrorCode::kInvalidRequest);
    return request->Answer(response);
  }
  // KIP-1242: the client came to an address that now belongs to somebody else.
  if ((message.cluster_id && *message.cluster_id != image->cluster_id) ||
      (message.node_id >= 0 && message.node_id != services.config->node_id)) {
    response.error_code = kRebootstrapRequired;
    return request->Answer(response);
  }
  for (const ServedApi& api : AdvertisedApis()) {
    response.api_keys.push_back({api.key, api.min_version, api.max_version});
  }
  // Clients up to version 3 cannot read a least level of 0 (KAFKA-17011).
  const int16_t least = request->version() >= 4 ? 0 : 1;
  response.supported_features.push_back(
      {protocol::kMirrorFeatureName, least, protocol::kMirrorFeatureLevel});
  response.finalized_features_epoch = image->version;
  if (image->mirror_feature > 0) {
    response.finalized_features.push_back(
        {protocol::kMirrorFeatureName, image->mirror_feature, image->mirror_feature});
  }
  request->Answer(response);
}

void AnswerUnknownApiVersions(ServedRequest& request) {
  ApiVersionsResponse response;
  response.error_code = protocol::WireErrorCode(ErrorCode::kUnsupportedVersion);
  for (const ServedApi& api : AdvertisedApis()) {
    if (api.key == protocol::ApiVersionsRequest::kApiKey) {
      response.api_keys.push_back({api.key, api.min_version, api.max_version});
    }
  }
  request.AnswerAs(response, 0);
}

void HandleMetadata(Services& services, RequestPtr request) {
  MetadataRequest message;
  const Status decoded = DecodeMetadata(*request, &message);
  if (!decoded.ok()) return request->Close(decoded.message());
  const auto operation =
      std::make_shared<MetadataOperation>(services, std::move(request), std::move(message));
  std::vector<std::string> missing = operation->Missing();
  if (missing.empty()) return operation->Answer({});
  services.worker->Post([&services, operation, missing = std::move(missing)] {
    std::map<std::string, Status> creations;
    for (const std::string& name : missing) {
      creations[name] = services.controller->EnsureTopic(name).status;
    }
    operation->Answer(creations);
  });
}

void HandleDescribeCluster(Services& services, RequestPtr request) {
  protocol::DescribeClusterRequest message;
  if (!DecodeRequest(*request, &message)) return;
  protocol::DescribeClusterResponse response;
  const ImagePtr image = services.controller->image();
  if (request->version() >= 1 && message.endpoint_type != 1) {
    response.error_code =
        message.endpoint_type == 2 ? kMismatchedEndpointType : kUnsupportedEndpointType;
    response.error_message = "this is a broker: ask for endpoint type 1";
    return request->Answer(response);
  }
  response.cluster_id = image->cluster_id;
  response.controller_id = image->controller_id;
  for (const BrokerImage& broker : image->brokers) {
    const HostPort address = EndpointFor(broker, request->connection());
    auto& answer = response.brokers.emplace_back();
    answer.broker_id = broker.id;
    answer.host = address.host;
    answer.port = address.port;
    answer.rack = RackOf(broker);
  }
  if (message.include_cluster_authorized_operations) {
    response.cluster_authorized_operations = kClusterOperations;
  }
  request->Answer(response);
}

void HandleDescribeTopicPartitions(Services& services, RequestPtr request) {
  protocol::DescribeTopicPartitionsRequest message;
  if (!DecodeRequest(*request, &message)) return;
  constexpr int32_t kPartitionsMax = 2000;  // max.request.partition.size.limit of Kafka
  protocol::DescribeTopicPartitionsResponse response;
  const ImagePtr image = services.controller->image();
  std::vector<std::string> names;
  if (message.topics.empty()) {
    for (const TopicPtr& topic : image->topics.Sorted()) names.push_back(topic->name);
  } else {
    for (const auto& topic : message.topics) names.push_back(topic.name);
    std::sort(names.begin(), names.end());
    names.erase(std::unique(names.begin(), names.end()), names.end());
  }
  if (message.cursor && message.cursor->partition_index < 0) {
    for (const auto& topic : message.topics) {
      auto& answer = response.topics.emplace_back();
      answer.name = topic.name;
      answer.error_code = protocol::WireErrorCode(ErrorCode::kInvalidRequest);
    }
    return request->Answer(response);
  }
  int32_t left = std::clamp(message.response_partition_limit, 1, kPartitionsMax);
  for (const std::string& name : names) {
    int32_t first = 0;
    if (message.cursor) {
      if (name < message.cursor->topic_name) continue;
      if (name == message.cursor->topic_name) first = message.cursor->partition_index;
    }
    if (left == 0) {
      response.next_cursor.emplace();
      response.next_cursor->topic_name = name;
      break;
    }
    auto& answer = response.topics.emplace_back();
    answer.name = name;
    answer.topic_authorized_operations = kTopicOperations;
    const TopicPtr topic = image->topics.Find(name);
    if (!topic) {
      answer.error_code =
          protocol::WireErrorCode(CheckTopicName(name).ok() ? ErrorCode::kUnknownTopicOrPartition
                                                            : ErrorCode::kInvalidTopic);
      continue;
    }
    answer.topic_id = topic->id;
    answer.is_internal = topic->internal();
    int32_t index = first;
    for (; index < topic->partition_count() && left > 0; ++index, --left) {
      auto& partition = answer.partitions.emplace_back();
      FillPartition(services, *topic, index, &partition);
      // Nullable in the schema, and yet Kafka's admin client cannot live with null.
      partition.eligible_leader_replicas.emplace();
      partition.last_known_elr.emplace();
    }
    if (index < topic->partition_count()) {
      response.next_cursor.emplace();
      response.next_cursor->topic_name = name;
      response.next_cursor->partition_index = index;
      break;
    }
  }
  request->Answer(response);
}

void HandleFindCoordinator(Services&, RequestPtr request) {
  protocol::FindCoordinatorRequest message;
  if (!DecodeRequest(*request, &message)) return;
  protocol::FindCoordinatorResponse response;
  // Who asks in the batched form wants a group: an error that is not retried, or it would wait for
  // good. librdkafka asks in an older one also for consumers that assign their partitions, and
  // would tell them an error that does not concern them: it may ask again and again.
  const int16_t error =
      protocol::WireErrorCode(request->version() < 4 ? ErrorCode::kCoordinatorNotAvailable
                                                     : ErrorCode::kUnsupportedVersion);
  const std::string text =
      "this broker coordinates no groups and no transactions yet: assign partitions";
  if (request->version() < 4) {
    response.error_code = error;
    response.error_message = text;
    response.node_id = -1;
    response.port = -1;
  } else {
    for (const std::string& key : message.coordinator_keys) {
      auto& answer = response.coordinators.emplace_back();
      answer.key = key;
      answer.node_id = -1;
      answer.port = -1;
      answer.error_code = error;
      answer.error_message = text;
    }
  }
  request->Answer(response);
}

}  // namespace kmirror::broker
