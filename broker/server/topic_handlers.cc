// Topics made, grown, emptied and deleted. Changes run on the worker thread: they wait for the
// disk.

#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "broker/config/config_table.h"
#include "broker/server/handlers.h"
#include "messages/create_partitions.h"
#include "messages/create_topics.h"
#include "messages/delete_records.h"
#include "messages/delete_topics.h"
#include "src/protocol/wire_error.h"

namespace kmirror::broker {
namespace {

using protocol::CreatePartitionsRequest;
using protocol::CreateTopicsRequest;
using protocol::CreateTopicsResponse;
using protocol::DeleteTopicsRequest;
using protocol::DeleteTopicsResponse;

template <typename Answer>
void Fail(const Status& status, Answer* answer) {
  answer->error_code = protocol::WireErrorCode(status.code());
  answer->error_message = protocol::WireErrorMessage(status);
}

// Manual placement names every partition once, from 0 on, and this broker alone for each.
template <typename Assignments, typename BrokersOf>
Status CheckReplicas(const Assignments& assignments, int32_t node_id, BrokersOf brokers_of) {
  for (const auto& assignment : assignments) {
    const std::vector<int32_t>& brokers = brokers_of(assignment);
    if (brokers != std::vector<int32_t>{node_id}) {
      return {ErrorCode::kInvalidReplicaAssignment,
              "broker " + std::to_string(node_id) + " is the only one there is"};
    }
  }
  return {};
}

Status CheckPlacement(const CreateTopicsRequest::CreatableTopic& wanted, int32_t node_id) {
  if (wanted.assignments.empty()) return {};
  if (wanted.num_partitions != -1 || wanted.replication_factor != -1) {
    return {ErrorCode::kInvalidRequest,
            "a topic has either an assignment or a number of partitions and replicas"};
  }
  std::set<int32_t> indexes;
  for (const auto& assignment : wanted.assignments) indexes.insert(assignment.partition_index);
  if (indexes.size() != wanted.assignments.size() || *indexes.begin() != 0 ||
      *indexes.rbegin() != static_cast<int32_t>(indexes.size()) - 1) {
    return {ErrorCode::kInvalidReplicaAssignment, "partitions must count up from 0"};
  }
  return CheckReplicas(
      wanted.assignments, node_id,
      [](const auto& assignment) -> const std::vector<int32_t>& { return assignment.broker_ids; });
}

Result<NewTopic> NewTopicOf(const CreateTopicsRequest::CreatableTopic& wanted, int32_t node_id) {
  NewTopic topic;
  topic.name = wanted.name;
  topic.partitions = wanted.num_partitions;
  topic.replication_factor = wanted.replication_factor;
  topic.bad_placement = CheckPlacement(wanted, node_id);
  if (!wanted.assignments.empty()) {
    topic.partitions = static_cast<int32_t>(wanted.assignments.size());
    topic.replication_factor = 1;
  }
  for (const auto& config : wanted.configs) {
    if (!config.value) {
      topic.bad_configs = {ErrorCode::kInvalidConfig,
                           config.name + ": a config of a new topic needs a value"};
    } else {
      topic.configs[config.name] = *config.value;  // the last one counts, as in Kafka
    }
  }
  if (wanted.mirror_info) {
    if (wanted.mirror_info->mirror_name) {
      return {ErrorCode::kInvalidRequest,
              "topics of a mirror are made by StartMirrorTopics, which also starts them"};
    }
    topic.id = wanted.mirror_info->topic_id;
  }
  return topic;
}

void Describe(const Services& services, const TopicImage& topic,
              CreateTopicsResponse::CreatableTopicResult* answer) {
  answer->topic_id = topic.id;
  answer->num_partitions = topic.partition_count();
  answer->replication_factor = 1;
  answer->configs.emplace();
  const ImagePtr image = services.controller->image();
  for (DescribedConfig& config : DescribeTopicConfigs(
           topic.configs, *services.config, image->DynamicConfigs(services.config->node_id))) {
    auto& line = answer->configs->emplace_back();
    line.name = std::move(config.name);
    // What was just set is told as it was said.
    const auto set = topic.configs.find(line.name);
    line.value = set != topic.configs.end() ? set->second : std::move(config.value);
    line.read_only = config.read_only;
    line.config_source = static_cast<int8_t>(config.source);
    line.is_sensitive = config.sensitive;
  }
}

CreateTopicsResponse CreateAll(Services& services, const CreateTopicsRequest& message) {
  CreateTopicsResponse response;
  std::map<std::string, int> uses;
  for (const auto& topic : message.topics) ++uses[topic.name];
  std::set<std::string> refused;
  for (const auto& wanted : message.topics) {
    if (uses[wanted.name] > 1 && !refused.insert(wanted.name).second) continue;
    auto& answer = response.topics.emplace_back();
    answer.name = wanted.name;
    answer.error_message.reset();
    if (uses[wanted.name] > 1) {
      Fail({ErrorCode::kInvalidRequest, "the topic is in the request more than once"}, &answer);
      continue;
    }
    Result<NewTopic> topic = NewTopicOf(wanted, services.config->node_id);
    if (!topic.ok()) {
      Fail(topic.status(), &answer);
      continue;
    }
    std::vector<NewTopic> one;
    one.push_back(std::move(*topic));
    const std::vector<CreatedTopic> created =
        services.controller->CreateTopics(std::move(one), message.validate_only);
    if (!created.front().status.ok())
      Fail(created.front().status, &answer);
    else
      Describe(services, *created.front().topic, &answer);
  }
  return response;
}

DeleteTopicsResponse DeleteAll(Services& services, int16_t version,
                               const DeleteTopicsRequest& message) {
  std::vector<DeleteTopicsRequest::DeleteTopicState> wanted = message.topics;
  if (version < 6) {
    for (const std::string& name : message.topic_names) wanted.emplace_back().name = name;
  }
  // A topic that is named twice, be it once by name and once by id, is refused once.
  const ImagePtr before = services.controller->image();
  const auto key_of = [&](const DeleteTopicsRequest::DeleteTopicState& topic) {
    const TopicPtr found =
        topic.name ? before->topics.Find(*topic.name) : before->topics.Find(topic.topic_id);
    return std::pair(found ? found->name : topic.name.value_or(""),
                     found ? found->id : topic.topic_id);
  };
  struct Uses {
    int by_name = 0;
    int by_id = 0;
  };
  std::map<std::pair<std::string, Uuid>, Uses> uses;
  for (const auto& topic : wanted) {
    if (topic.name.has_value() != topic.topic_id.IsZero()) continue;  // refused for that
    ++(topic.name ? uses[key_of(topic)].by_name : uses[key_of(topic)].by_id);
  }
  DeleteTopicsResponse response;
  std::set<std::pair<std::string, Uuid>> refused;
  for (const auto& topic : wanted) {
    const std::pair<std::string, Uuid> key = key_of(topic);
    const bool odd = topic.name.has_value() != topic.topic_id.IsZero();
    const Uses use = odd ? Uses{} : uses[key];
    const bool again = use.by_name + use.by_id > 1;
    if (again && !refused.insert(key).second) continue;
    auto& answer = response.responses.emplace_back();
    answer.name = topic.name;
    answer.topic_id = topic.topic_id;
    if (odd) {
      Fail({ErrorCode::kInvalidRequest, "a topic goes by name or by id, not by both or neither"},
           &answer);
      continue;
    }
    if (again) {
      // Told by what it was named by.
      if (use.by_name > 0) answer.name = key.first;
      if (use.by_id > 0) answer.topic_id = key.second;
      Fail({ErrorCode::kInvalidRequest, "the topic is in the request more than once"}, &answer);
      continue;
    }
    const ImagePtr image = services.controller->image();
    const TopicPtr found =
        topic.name ? image->topics.Find(*topic.name) : image->topics.Find(topic.topic_id);
    if (!found) {
      Fail({topic.name ? ErrorCode::kUnknownTopicOrPartition : ErrorCode::kUnknownTopicId,
            "no such topic"},
           &answer);
      continue;
    }
    answer.topic_id = found->id;
    answer.name = found->name;
    Status deleted = CheckMirrorTopicChange(services, *found);
    if (deleted.ok()) deleted = PublicTopicChange(services.controller->DeleteTopic(found->id));
    if (!deleted.ok()) Fail(deleted, &answer);
  }
  return response;
}

Status Grow(Services& services, const CreatePartitionsRequest::CreatePartitionsTopic& wanted,
            bool validate_only) {
  const TopicPtr topic = services.controller->image()->topics.Find(wanted.name);
  if (!topic) return {ErrorCode::kUnknownTopicOrPartition, "no such topic"};
  if (Status allowed = CheckMirrorTopicChange(services, *topic); !allowed.ok()) return allowed;
  // The number is judged first, as in Kafka.
  const Status counted = services.controller->CreatePartitions(topic->id, wanted.count, true);
  if (!counted.ok()) return PublicTopicChange(counted);
  if (wanted.assignments) {
    const Status replicas =
        CheckReplicas(*wanted.assignments, services.config->node_id,
                      [](const auto& assignment) -> const std::vector<int32_t>& {
                        return assignment.broker_ids;
                      });
    if (!replicas.ok()) return replicas;
    const int64_t added = int64_t{wanted.count} - topic->partition_count();
    if (added != static_cast<int64_t>(wanted.assignments->size())) {
      return {ErrorCode::kInvalidReplicaAssignment,
              "one assignment for each new partition is needed"};
    }
  }
  return PublicTopicChange(
      services.controller->CreatePartitions(topic->id, wanted.count, validate_only));
}

Result<int64_t> DeleteBelow(const Services& services, const TopicImage& topic, int32_t partition,
                            int64_t offset) {
  const std::shared_ptr<Replica> replica =
      services.logs->Find(TopicIdPartition{topic.id, partition});
  if (!replica) {
    return {WhyNotHere(*services.controller->image(), topic.name, partition), "not here"};
  }
  PartitionLog& log = replica->log();
  // A topic that is compacted and nothing else; one without any policy may be emptied by hand.
  if (log.config().compacted && !log.config().retention_deletes) {
    return {ErrorCode::kPolicyViolation, "the topic's cleanup.policy has no delete"};
  }
  constexpr int64_t kToHighWatermark = -1;
  if (offset == kToHighWatermark) offset = log.Positions().high_watermark;
  if (offset < 0) return {ErrorCode::kOffsetOutOfRange, "a negative offset"};
  const Result<DeletedRange> raised = log.RaiseLogStart(offset);
  if (!raised.ok()) return raised.status();
  return log.Positions().log_start;
}

}  // namespace

void HandleCreateTopics(Services& services, RequestPtr request) {
  auto message = std::make_shared<CreateTopicsRequest>();
  if (!DecodeRequest(*request, message.get())) return;
  services.worker->Post(
      [&services, request, message] { request->Answer(CreateAll(services, *message)); });
}

void HandleDeleteTopics(Services& services, RequestPtr request) {
  auto message = std::make_shared<DeleteTopicsRequest>();
  if (!DecodeRequest(*request, message.get())) return;
  services.worker->Post([&services, request, message] {
    request->Answer(DeleteAll(services, request->version(), *message));
  });
}

void HandleCreatePartitions(Services& services, RequestPtr request) {
  auto message = std::make_shared<CreatePartitionsRequest>();
  if (!DecodeRequest(*request, message.get())) return;
  services.worker->Post([&services, request, message] {
    protocol::CreatePartitionsResponse response;
    std::map<std::string, int> uses;
    for (const auto& topic : message->topics) ++uses[topic.name];
    std::set<std::string> refused;
    for (const auto& topic : message->topics) {
      if (uses[topic.name] > 1 && !refused.insert(topic.name).second) continue;
      auto& answer = response.results.emplace_back();
      answer.name = topic.name;
      const Status grown =
          uses[topic.name] > 1
              ? Status(ErrorCode::kInvalidRequest, "the topic is in the request more than once")
              : Grow(services, topic, message->validate_only);
      Fail(grown, &answer);
    }
    request->Answer(response);
  });
}

void HandleDeleteRecords(Services& services, RequestPtr request) {
  auto message = std::make_shared<protocol::DeleteRecordsRequest>();
  if (!DecodeRequest(*request, message.get())) return;
  services.worker->Post([&services, request, message] {
    protocol::DeleteRecordsResponse response;
    const ImagePtr image = services.controller->image();
    for (const auto& topic : message->topics) {
      auto& answers = response.topics.emplace_back();
      answers.name = topic.name;
      const TopicPtr found = image->topics.Find(topic.name);
      const Status allowed = found ? CheckMirrorTopicChange(services, *found)
                                   : Status(ErrorCode::kUnknownTopicOrPartition, "no such topic");
      for (const auto& partition : topic.partitions) {
        auto& answer = answers.partitions.emplace_back();
        answer.partition_index = partition.partition_index;
        answer.low_watermark = -1;
        const Result<int64_t> start =
            allowed.ok()
                ? DeleteBelow(services, *found, partition.partition_index, partition.offset)
                : Result<int64_t>(allowed);
        if (start.ok())
          answer.low_watermark = *start;
        else
          answer.error_code = protocol::WireErrorCode(start.status().code());
      }
    }
    request->Answer(response);
  });
}

}  // namespace kmirror::broker
