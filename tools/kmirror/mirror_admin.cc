#include "tools/kmirror/mirror_admin.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "messages/create_cluster_mirror.h"
#include "messages/delete_cluster_mirror.h"
#include "messages/describe_cluster_mirrors.h"
#include "messages/describe_configs.h"
#include "messages/list_cluster_mirrors.h"
#include "messages/list_offsets.h"
#include "messages/pause_mirror_topics.h"
#include "messages/recover_mirror_topics.h"
#include "messages/resume_mirror_topics.h"
#include "messages/start_mirror_topics.h"
#include "messages/stop_mirror_topics.h"
#include "src/protocol/mirror_numbers.h"

namespace kmirror::tools {
namespace {

Status ToStatus(int16_t code, const std::optional<std::string>& message) {
  if (code == 0) return {};
  return {static_cast<ErrorCode>(code), message.value_or("")};
}

std::string& NameOf(protocol::recover_mirror_topics_response::TopicResult& result) {
  return result.topic_name;
}
template <typename TopicResult>
std::string& NameOf(TopicResult& result) {
  return result.name;
}

// Results of the topics; the request's own error only when no topic tells more.
template <typename Response>
Result<std::vector<TopicOutcome>> Outcomes(Result<Response> answer) {
  if (!answer.ok()) return answer.status();
  std::vector<TopicOutcome> outcomes;
  bool told = false;
  for (auto& result : answer->topics) {
    Status status = ToStatus(result.error_code, result.error_message);
    told = told || !status.ok();
    outcomes.push_back({NameOf(result), std::move(status)});
  }
  if (!told && answer->error_code != 0) return ToStatus(answer->error_code, answer->error_message);
  return outcomes;
}

template <typename Request, typename Response>
Result<std::vector<TopicOutcome>> ChangeTopics(ClusterClient* cluster, const std::string& mirror,
                                               const std::vector<std::string>& topics) {
  const Result<KafkaConnection*> connection = cluster->Any();
  if (!connection.ok()) return connection.status();
  Request request;
  request.mirror_name = mirror;
  for (const std::string& topic : topics) request.topics.push_back({.topic_name = topic});
  return Outcomes((*connection)->template Call<Response>(request));
}

}  // namespace

const char* VerbName(Verb verb) {
  switch (verb) {
    case Verb::kCreate: return "create";
    case Verb::kStart: return "start";
    case Verb::kPause: return "pause";
    case Verb::kResume: return "resume";
    case Verb::kStop: return "stop";
    case Verb::kRecover: return "recover";
    case Verb::kDelete: return "delete";
    case Verb::kList: return "list";
    case Verb::kDescribe: return "describe";
    case Verb::kStatus: return "status";
  }
  return "?";
}

Status MirrorAdmin::Check() {
  const Result<KafkaConnection*> connection = destination_->Any();
  if (!connection.ok()) return connection.status();
  if ((*connection)->served().Feature(protocol::kMirrorFeatureName) < 1) {
    return {ErrorCode::kUnsupportedVersion,
            (*connection)->address().ToString() +
                " is a Kafka broker that does not mirror (no finalized feature mirror.version)"};
  }
  return {};
}

Result<std::string> MirrorAdmin::ClusterId() {
  const auto metadata = destination_->Metadata(std::vector<std::string>{});
  if (!metadata.ok()) return metadata.status();
  return metadata->cluster_id.value_or("");
}

Result<std::vector<ListedMirror>> MirrorAdmin::List() {
  const Result<KafkaConnection*> connection = destination_->Any();
  if (!connection.ok()) return connection.status();
  protocol::ListClusterMirrorsRequest request;
  request.include_topic_names = true;
  auto answer = (*connection)->Call<protocol::ListClusterMirrorsResponse>(request);
  if (!answer.ok()) return answer.status();
  if (answer->error_code != 0) return ToStatus(answer->error_code, answer->error_message);
  std::vector<ListedMirror> mirrors;
  for (auto& mirror : answer->mirrors) {
    mirrors.push_back({mirror.mirror_name, mirror.source_bootstrap, mirror.source_cluster_id,
                       mirror.topic_count, std::move(mirror.topic_names)});
  }
  std::sort(mirrors.begin(), mirrors.end(),
            [](const auto& a, const auto& b) { return a.name < b.name; });
  return mirrors;
}

Result<Description> MirrorAdmin::Describe(const std::string& mirror) {
  const auto brokers = destination_->Brokers();
  if (!brokers.ok()) return brokers.status();
  protocol::DescribeClusterMirrorsRequest request;
  if (!mirror.empty()) request.mirror_names.push_back(mirror);
  Description description;
  Status last;
  size_t answered = 0;
  for (const auto& [id, address] : *brokers) {
    Result<protocol::DescribeClusterMirrorsResponse> answer(
        Status(ErrorCode::kDisconnected, "not asked"));
    if (const Result<KafkaConnection*> connection = destination_->Broker(id); connection.ok()) {
      answer = (*connection)->Call<protocol::DescribeClusterMirrorsResponse>(request);
    } else {
      answer = connection.status();
    }
    if (answer.ok() && answer->error_code != 0) {
      answer = ToStatus(answer->error_code, answer->error_message);
    }
    if (!answer.ok()) {
      last = answer.status();
      description.silent.push_back("broker " + std::to_string(id) + ": " + last.ToString());
      continue;
    }
    ++answered;
    for (auto& described : answer->mirrors) {
      if (described.error_code != 0) {
        description.refused[described.mirror_name] = ToStatus(described.error_code, std::nullopt);
        continue;
      }
      for (auto& topic : described.topics) {
        for (auto& partition : topic.partitions) {
          PartitionRow row;
          row.mirror = described.mirror_name;
          row.topic = topic.topic_name;
          row.partition = partition.partition_index;
          row.state = std::move(partition.state_value);
          row.source_offset = partition.source_offset;
          row.destination_offset = partition.destination_offset;
          row.lag = partition.lag;
          row.lag_age_ms = partition.lag_age_ms;
          row.last_mirror_epoch = partition.last_mirror_epoch;
          row.last_mirror_offset = partition.last_mirror_offset;
          row.retry_attempt = partition.retry_attempt;
          if (partition.error_message && !partition.error_message->empty()) {
            row.error_message = std::move(partition.error_message);
          }
          row.step = std::move(partition.step);
          description.rows.push_back(std::move(row));
        }
      }
    }
  }
  if (answered == 0) {
    return last.ok() ? Status(ErrorCode::kBrokerNotAvailable, "the cluster names no broker") : last;
  }
  std::sort(description.rows.begin(), description.rows.end(), [](const auto& a, const auto& b) {
    return std::tie(a.mirror, a.topic, a.partition) < std::tie(b.mirror, b.topic, b.partition);
  });
  return description;
}

Result<std::map<std::string, std::string>> MirrorAdmin::Configs(const std::string& mirror) {
  const Result<KafkaConnection*> connection = destination_->Any();
  if (!connection.ok()) return connection.status();
  protocol::DescribeConfigsRequest request;
  auto& resource = request.resources.emplace_back();
  resource.resource_type = protocol::kClusterMirrorConfigResource;
  resource.resource_name = mirror;
  resource.configuration_keys.reset();
  const auto answer = (*connection)->Call<protocol::DescribeConfigsResponse>(request);
  if (!answer.ok()) return answer.status();
  std::map<std::string, std::string> configs;
  for (const auto& result : answer->results) {
    if (result.error_code != 0) return ToStatus(result.error_code, result.error_message);
    for (const auto& config : result.configs) {
      if (config.value) configs[config.name] = *config.value;
    }
  }
  return configs;
}

Status MirrorAdmin::Create(const std::string& mirror,
                           const std::map<std::string, std::string>& configs) {
  const Result<KafkaConnection*> connection = destination_->Any();
  if (!connection.ok()) return connection.status();
  protocol::CreateClusterMirrorRequest request;
  request.mirror_name = mirror;
  for (const auto& [name, value] : configs) request.config.push_back({name, value});
  const auto answer = (*connection)->Call<protocol::CreateClusterMirrorResponse>(request);
  if (!answer.ok()) return answer.status();
  return ToStatus(answer->error_code, answer->error_message);
}

Status MirrorAdmin::Delete(const std::string& mirror) {
  const Result<KafkaConnection*> connection = destination_->Any();
  if (!connection.ok()) return connection.status();
  protocol::DeleteClusterMirrorRequest request;
  request.mirror_name = mirror;
  const auto answer = (*connection)->Call<protocol::DeleteClusterMirrorResponse>(request);
  if (!answer.ok()) return answer.status();
  return ToStatus(answer->error_code, answer->error_message);
}

Result<std::vector<TopicOutcome>> MirrorAdmin::Start(const std::string& mirror,
                                                     const std::vector<SourceTopic>& topics,
                                                     bool discard_local) {
  const Result<KafkaConnection*> connection = destination_->Any();
  if (!connection.ok()) return connection.status();
  protocol::StartMirrorTopicsRequest request;
  request.mirror_name = mirror;
  request.discard_local = discard_local;
  for (const SourceTopic& topic : topics) {
    auto& one = request.topics.emplace_back();
    one.topic_id = topic.id;
    one.topic_name = topic.name;
    one.num_partitions = topic.partitions;
  }
  return Outcomes((*connection)->Call<protocol::StartMirrorTopicsResponse>(request));
}

Result<std::vector<TopicOutcome>> MirrorAdmin::Change(Verb verb, const std::string& mirror,
                                                      const std::vector<std::string>& topics) {
  using namespace protocol;  // NOLINT: four pairs of long names
  switch (verb) {
    case Verb::kPause:
      return ChangeTopics<PauseMirrorTopicsRequest, PauseMirrorTopicsResponse>(destination_, mirror,
                                                                               topics);
    case Verb::kResume:
      return ChangeTopics<ResumeMirrorTopicsRequest, ResumeMirrorTopicsResponse>(destination_,
                                                                                 mirror, topics);
    case Verb::kStop:
      return ChangeTopics<StopMirrorTopicsRequest, StopMirrorTopicsResponse>(destination_, mirror,
                                                                             topics);
    case Verb::kRecover:
      return ChangeTopics<RecoverMirrorTopicsRequest, RecoverMirrorTopicsResponse>(destination_,
                                                                                   mirror, topics);
    default: return {ErrorCode::kUsage, "not a change of topics"};
  }
}

Result<std::map<std::string, int32_t>> MirrorAdmin::Partitions(
    const std::vector<std::string>& topics) {
  const auto metadata = destination_->Metadata(topics);
  if (!metadata.ok()) return metadata.status();
  std::map<std::string, int32_t> partitions;
  for (const auto& topic : metadata->topics) {
    if (topic.error_code != 0) continue;
    partitions[topic.name.value_or("")] = static_cast<int32_t>(topic.partitions.size());
  }
  return partitions;
}

Result<std::vector<LocalRange>> MirrorAdmin::LocalData(const std::string& topic) {
  const auto metadata = destination_->Metadata(std::vector<std::string>{topic});
  if (!metadata.ok()) return metadata.status();
  std::vector<LocalRange> found;
  for (const auto& one : metadata->topics) {
    if (one.error_code != 0) continue;  // not there: nothing to lose
    for (const auto& partition : one.partitions) {
      const Result<KafkaConnection*> leader = destination_->Broker(partition.leader_id);
      if (!leader.ok()) return leader.status();
      int64_t bounds[2] = {-1, -1};
      for (const int end : {0, 1}) {
        protocol::ListOffsetsRequest request;
        request.replica_id = -1;
        auto& asked = request.topics.emplace_back();
        asked.name = topic;
        asked.partitions.push_back({.partition_index = partition.partition_index,
                                    .timestamp = end == 0 ? int64_t{-2} : int64_t{-1}});
        const auto answer = (*leader)->Call<protocol::ListOffsetsResponse>(request);
        if (!answer.ok()) return answer.status();
        for (const auto& answered : answer->topics) {
          for (const auto& offset : answered.partitions) {
            if (offset.error_code != 0) return ToStatus(offset.error_code, std::nullopt);
            bounds[end] = offset.offset;
          }
        }
      }
      if (bounds[1] > bounds[0]) {
        found.push_back({partition.partition_index, bounds[0], bounds[1]});
      }
    }
  }
  std::sort(found.begin(), found.end(),
            [](const LocalRange& a, const LocalRange& b) { return a.partition < b.partition; });
  return found;
}

Result<SourceCluster> ReadSource(const std::vector<HostPort>& bootstrap,
                                 std::chrono::milliseconds timeout) {
  ClusterClient source(bootstrap, timeout);
  auto metadata = source.Metadata(std::nullopt);
  if (!metadata.ok()) return metadata.status();
  SourceCluster cluster;
  cluster.cluster_id = metadata->cluster_id.value_or("");
  for (auto& topic : metadata->topics) {
    if (topic.error_code != 0 || !topic.name || topic.is_internal) continue;
    if (topic.name->starts_with("__")) continue;  // brokers differ in what they call internal
    SourceTopic one{*topic.name, topic.topic_id, static_cast<int32_t>(topic.partitions.size())};
    cluster.topics.emplace(*topic.name, std::move(one));
  }
  return cluster;
}

}  // namespace kmirror::tools
