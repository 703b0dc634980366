// What operators' tools ask: producers, disks, elections, features, markers.

#include <algorithm>
#include <filesystem>
#include <map>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "broker/server/handlers.h"
#include "messages/describe_log_dirs.h"
#include "messages/describe_producers.h"
#include "messages/elect_leaders.h"
#include "messages/update_features.h"
#include "messages/write_txn_markers.h"
#include "src/protocol/wire_error.h"

namespace kmirror::broker {
namespace {

using protocol::UpdateFeaturesRequest;

// Of UpdateFeatures, from version 1.
constexpr int8_t kUpgrade = 1;
constexpr int8_t kSafeDowngrade = 2;
constexpr int8_t kUnsafeDowngrade = 3;

// Of ElectLeaders.
constexpr int8_t kPreferredElection = 0;
constexpr int8_t kUncleanElection = 1;

Status UpdateOne(Services& services, int16_t version, const UpdateFeaturesRequest& message,
                 const UpdateFeaturesRequest::FeatureUpdateKey& update) {
  if (version >= 1 && (update.upgrade_type < kUpgrade || update.upgrade_type > kUnsafeDowngrade)) {
    return {ErrorCode::kInvalidRequest, "unknown upgrade type"};
  }
  const bool may_lower =
      version >= 1 ? update.upgrade_type >= kSafeDowngrade : update.allow_downgrade;
  const int16_t present = services.controller->image()->mirror_feature;
  if (update.max_version_level < present && !may_lower) {
    return {ErrorCode::kInvalidUpdateVersion, update.feature + " is at " + std::to_string(present) +
                                                  "; lowering it must be asked for as a downgrade"};
  }
  const bool validate_only = version >= 1 && message.validate_only;
  return services.controller->UpdateFeature(update.feature, update.max_version_level,
                                            validate_only);
}

ErrorCode WriteMarker(Services& services,
                      const protocol::WriteTxnMarkersRequest::WritableTxnMarker& marker,
                      const std::string& name, int32_t partition) {
  const ImagePtr image = services.controller->image();
  const TopicPtr topic = image->topics.Find(name);
  const std::shared_ptr<Replica> replica = services.logs->Find(name, partition);
  if (!topic || !replica) return WhyNotHere(*image, name, partition);
  PartitionLog& log = replica->log();
  if (log.Positions().local_writes != LocalWrites::kAllowed) return ErrorCode::kNone;
  // There is no coordinator here to have decided a commit. An abort is how an operator ends a
  // transaction that was left hanging (Kafka's transactions tool).
  if (marker.transaction_result) return ErrorCode::kInvalidTxnState;
  return log.AppendAbort(marker.producer_id, replica->leader_epoch()).status().code();
}

}  // namespace

void HandleDescribeProducers(Services& services, RequestPtr request) {
  protocol::DescribeProducersRequest message;
  if (!DecodeRequest(*request, &message)) return;
  protocol::DescribeProducersResponse response;
  for (const auto& topic : message.topics) {
    auto& answers = response.topics.emplace_back();
    answers.name = topic.name;
    for (const int32_t partition : topic.partition_indexes) {
      auto& answer = answers.partitions.emplace_back();
      answer.partition_index = partition;
      const std::shared_ptr<Replica> replica = services.logs->Find(topic.name, partition);
      if (!replica) {
        const ErrorCode why = WhyNotHere(*services.controller->image(), topic.name, partition);
        answer.error_code = protocol::WireErrorCode(why);
        answer.error_message = "the partition is not served here";
        continue;
      }
      for (const log::ProducerInfo& producer : replica->log().Producers()) {
        answer.active_producers.push_back({producer.producer_id, producer.producer_epoch,
                                           producer.last_sequence, producer.last_timestamp,
                                           producer.coordinator_epoch, producer.txn_first_offset});
      }
    }
  }
  request->Answer(response);
}

void HandleDescribeLogDirs(Services& services, RequestPtr request) {
  protocol::DescribeLogDirsRequest message;
  if (!DecodeRequest(*request, &message)) return;
  protocol::DescribeLogDirsResponse response;
  auto& answer = response.results.emplace_back();
  answer.log_dir = services.config->log_dir;
  std::error_code error;
  const std::filesystem::space_info space = std::filesystem::space(services.config->log_dir, error);
  if (!error) {
    answer.total_bytes = static_cast<int64_t>(space.capacity);
    answer.usable_bytes = static_cast<int64_t>(space.available);
  }
  std::map<std::string, std::vector<std::shared_ptr<Replica>>> by_topic;
  if (!message.topics) {
    for (const auto& replica : services.logs->All()) by_topic[replica->topic()].push_back(replica);
  } else {
    for (const auto& topic : *message.topics) {
      for (const int32_t partition : topic.partitions) {
        if (auto replica = services.logs->Find(topic.topic, partition)) {
          auto& found = by_topic[topic.topic];
          if (std::ranges::find(found, replica) == found.end()) found.push_back(std::move(replica));
        }
      }
    }
  }
  for (auto& [name, replicas] : by_topic) {
    auto& topic = answer.topics.emplace_back();
    topic.name = name;
    std::ranges::sort(replicas, {}, [](const auto& each) { return each->id().partition; });
    for (const auto& replica : replicas) {
      auto& partition = topic.partitions.emplace_back();
      partition.partition_index = replica->id().partition;
      partition.partition_size = replica->log().SizeBytes();
    }
  }
  request->Answer(response);
}

void HandleElectLeaders(Services& services, RequestPtr request) {
  protocol::ElectLeadersRequest message;
  if (!DecodeRequest(*request, &message)) return;
  protocol::ElectLeadersResponse response;
  const bool nothing = message.topic_partitions && message.topic_partitions->empty();
  if (!nothing && message.election_type != kPreferredElection &&
      message.election_type != kUncleanElection) {
    response.error_code = protocol::WireErrorCode(ErrorCode::kInvalidRequest);
    if (message.topic_partitions) {
      for (const auto& topic : *message.topic_partitions) {
        auto& answers = response.replica_election_results.emplace_back();
        answers.topic = topic.topic;
        for (const int32_t partition : topic.partitions) {
          answers.partition_result.push_back(
              {partition, response.error_code, "unknown type of election"});
        }
      }
    }
    return request->Answer(response);
  }
  // Every partition has its one replica as leader already. A question about all partitions is
  // answered with those where something happened, which are none; the topics are named all the
  // same (as in Kafka).
  if (!message.topic_partitions) {
    for (const TopicPtr& topic : services.controller->image()->topics.Sorted()) {
      response.replica_election_results.push_back({topic->name, {}});
    }
  } else {
    for (const auto& topic : *message.topic_partitions) {
      auto& answers = response.replica_election_results.emplace_back();
      answers.topic = topic.topic;
      for (const int32_t partition : topic.partitions) {
        auto& answer = answers.partition_result.emplace_back();
        answer.partition_id = partition;
        const bool here = services.logs->Find(topic.topic, partition) != nullptr;
        const ErrorCode code =
            here ? ErrorCode::kElectionNotNeeded
                 : WhyNotHere(*services.controller->image(), topic.topic, partition);
        answer.error_code = protocol::WireErrorCode(code);
        answer.error_message =
            here ? "the preferred replica leads" : "the partition is not served here";
      }
    }
  }
  request->Answer(response);
}

void HandleUpdateFeatures(Services& services, RequestPtr request) {
  auto message = std::make_shared<UpdateFeaturesRequest>();
  if (!DecodeRequest(*request, message.get())) return;
  services.worker->Post([&services, request, message] {
    protocol::UpdateFeaturesResponse response;
    response.error_message.reset();
    for (const auto& update : message->feature_updates) {
      const Status updated = UpdateOne(services, request->version(), *message, update);
      if (request->version() >= 2) {
        // No results any more: the first failure is the answer.
        if (updated.ok()) continue;
        response.error_code = protocol::WireErrorCode(updated.code());
        response.error_message = protocol::WireErrorMessage(updated);
        break;
      }
      auto& answer = response.results.emplace_back();
      answer.feature = update.feature;
      answer.error_code = protocol::WireErrorCode(updated.code());
      answer.error_message = protocol::WireErrorMessage(updated);
    }
    request->Answer(response);
  });
}

void HandleWriteTxnMarkers(Services& services, RequestPtr request) {
  protocol::WriteTxnMarkersRequest message;
  if (!DecodeRequest(*request, &message)) return;
  protocol::WriteTxnMarkersResponse response;
  for (const auto& marker : message.markers) {
    auto& result = response.markers.emplace_back();
    result.producer_id = marker.producer_id;
    for (const auto& topic : marker.topics) {
      auto& answers = result.topics.emplace_back();
      answers.name = topic.name;
      for (const int32_t partition : topic.partition_indexes) {
        const ErrorCode code = WriteMarker(services, marker, topic.name, partition);
        answers.partitions.push_back({partition, protocol::WireErrorCode(code)});
      }
    }
  }
  request->Answer(response);
}

}  // namespace kmirror::broker
