// Create, delete, list, describe.
#include <algorithm>
#include <memory>
#include <utility>

#include "messages/create_cluster_mirror.h"
#include "messages/delete_cluster_mirror.h"
#include "messages/describe_cluster_mirrors.h"
#include "messages/list_cluster_mirrors.h"
#include "src/coordinator/admin_requests.h"
#include "src/coordinator/mirror_impl.h"
#include "src/statemachine/desired_state.h"

namespace kmirror::coordinator {
namespace {

using protocol::CreateClusterMirrorRequest;
using protocol::CreateClusterMirrorResponse;
using protocol::DeleteClusterMirrorRequest;
using protocol::DeleteClusterMirrorResponse;
using protocol::DescribeClusterMirrorsRequest;
using protocol::DescribeClusterMirrorsResponse;
using protocol::ListClusterMirrorsRequest;
using protocol::ListClusterMirrorsResponse;

constexpr char kSourceClusterId[] = "source.cluster.id";
constexpr char kBootstrapServers[] = "bootstrap.servers";

template <typename Response>
void Fail(const Respond& respond, const Status& status) {
  respond(ErrorResponse<Response>({static_cast<ErrorCode>(WireCode(status)), status.message()}));
}

std::string ConfigOr(const std::map<std::string, std::string>& configs, const char* key) {
  const auto it = configs.find(key);
  return it == configs.end() ? std::string() : it->second;
}

void StoreMirror(MirrorImpl& mirror, const std::string& name,
                 const std::map<std::string, std::string>& configs, const Respond& respond) {
  std::map<std::string, std::optional<std::string>> changes(configs.begin(), configs.end());
  // The state topic first: a mirror that exists can be started at once.
  mirror.host().state_topic->Ensure(
      [&mirror, lane = mirror.lane(), name, changes, respond](Status status) {
        lane->Post([&mirror, name, changes, respond, status = std::move(status)] {
          if (!status.ok()) return Fail<CreateClusterMirrorResponse>(respond, status);
          mirror.host().controller->SetMirrorConfigs(name, changes, true, [respond](Status status) {
            if (!status.ok()) return Fail<CreateClusterMirrorResponse>(respond, status);
            CreateClusterMirrorResponse response;
            response.error_message = "";  // as the prototype: empty, not null
            respond(EncodeResponse(response));
          });
        });
      });
}

}  // namespace

void ServeCreate(MirrorImpl& mirror, const std::vector<uint8_t>& body, const Respond& respond) {
  CreateClusterMirrorRequest request;
  if (Status status = protocol::DecodeBody(body, 0, &request); !status.ok()) {
    return Fail<CreateClusterMirrorResponse>(respond, status);
  }
  if (Status status = statemachine::CheckMirrorName(request.mirror_name); !status.ok()) {
    return Fail<CreateClusterMirrorResponse>(respond, status);
  }
  if (mirror.metadata().Mirror(request.mirror_name) != nullptr) {
    return Fail<CreateClusterMirrorResponse>(respond,
                                             {ErrorCode::kClusterMirrorAlreadyExists,
                                              "mirror " + request.mirror_name + " already exists"});
  }
  std::map<std::string, std::string> configs;
  for (const auto& config : request.config) {
    if (config.value) configs[config.name] = *config.value;
  }
  configs = sync::NormalizeKeys(configs);
  if (Status status = sync::ValidateMirrorConfig(configs); !status.ok()) {
    return Fail<CreateClusterMirrorResponse>(respond, status);
  }
  const std::string given = ConfigOr(configs, kSourceClusterId);
  if (!given.empty()) {
    if (given == mirror.metadata().cluster_id()) {
      return Fail<CreateClusterMirrorResponse>(
          respond,
          {ErrorCode::kInvalidRequest, "source.cluster.id " + given + " is this cluster itself"});
    }
    return StoreMirror(mirror, request.mirror_name, configs, respond);
  }
  // The id is what later tells a replaced source from the one that was meant: it is read now, or
  // the mirror is not made (S10).
  auto config = sync::ParseMirrorConfig(request.mirror_name, configs);
  if (!config.ok()) return Fail<CreateClusterMirrorResponse>(respond, config.status());
  fetcher::SourceCluster* source =
      mirror.OpenSource(std::make_shared<const fetcher::MirrorSourceConfig>(*config));
  source->DescribeTopics({}, [&mirror, source, name = request.mirror_name, configs,
                              respond](Result<fetcher::SourceMetadata> answer) mutable {
    mirror.CloseSource(source);
    if (!answer.ok()) {
      return Fail<CreateClusterMirrorResponse>(
          respond, {ErrorCode::kInvalidRequest,
                    "the source at " + ConfigOr(configs, kBootstrapServers) +
                        " cannot be asked for its cluster id: " + answer.status().ToString() +
                        "; set source.cluster.id to create the mirror without asking"});
    }
    if (answer->cluster_id.empty()) {
      return Fail<CreateClusterMirrorResponse>(
          respond, {ErrorCode::kInvalidRequest, "the source names no cluster id"});
    }
    if (answer->cluster_id == mirror.metadata().cluster_id()) {
      return Fail<CreateClusterMirrorResponse>(
          respond,
          {ErrorCode::kInvalidRequest,
           "the source at " + ConfigOr(configs, kBootstrapServers) + " is this cluster itself"});
    }
    configs[kSourceClusterId] = answer->cluster_id;
    StoreMirror(mirror, name, configs, respond);
  });
}

void ServeDelete(MirrorImpl& mirror, const std::vector<uint8_t>& body, const Respond& respond) {
  DeleteClusterMirrorRequest request;
  if (Status status = protocol::DecodeBody(body, 0, &request); !status.ok()) {
    return Fail<DeleteClusterMirrorResponse>(respond, status);
  }
  if (mirror.metadata().Mirror(request.mirror_name) == nullptr) {
    return Fail<DeleteClusterMirrorResponse>(
        respond, {ErrorCode::kUnknownClusterMirror, "no mirror is named " + request.mirror_name});
  }
  for (const TopicView* topic : mirror.metadata().TopicsOf(request.mirror_name)) {
    if (topic->desired.state != DesiredState::kStopped) {
      return Fail<DeleteClusterMirrorResponse>(
          respond, {ErrorCode::kClusterMirrorNotEmpty,
                    "topic " + topic->info.name + " is not stopped; stop it first"});
    }
    if (Status status = mirror.CheckTopicChange(topic->info.id); !status.ok()) {
      return Fail<DeleteClusterMirrorResponse>(
          respond, {ErrorCode::kInvalidClusterMirrorState, status.message()});
    }
  }
  const int64_t version =
      request.state_validation_offset >= 0
          ? std::min(request.state_validation_offset, mirror.metadata().version())
          : mirror.metadata().version();
  if (!mirror.BeginDeleting(request.mirror_name)) {
    return Fail<DeleteClusterMirrorResponse>(
        respond, {ErrorCode::kInvalidClusterMirrorState,
                  "mirror " + request.mirror_name + " is being changed at the same time"});
  }
  mirror.host().controller->DeleteMirror(
      request.mirror_name, version,
      [&mirror, lane = mirror.lane(), name = request.mirror_name, respond](Status status) {
        lane->Post([&mirror, name, respond, status = std::move(status)] {
          mirror.EndDeleting(name);
          if (!status.ok()) return Fail<DeleteClusterMirrorResponse>(respond, status);
          respond(EncodeResponse(DeleteClusterMirrorResponse{}));
        });
      });
}

void ServeList(MirrorImpl& mirror, const std::vector<uint8_t>& body, const Respond& respond) {
  ListClusterMirrorsRequest request;
  if (Status status = protocol::DecodeBody(body, 0, &request); !status.ok()) {
    return Fail<ListClusterMirrorsResponse>(respond, status);
  }
  ListClusterMirrorsResponse response;
  for (const auto& [name, configs] : mirror.metadata().mirrors()) {
    auto& listed = response.mirrors.emplace_back();
    listed.mirror_name = name;
    listed.source_bootstrap = ConfigOr(configs, kBootstrapServers);
    listed.source_cluster_id = ConfigOr(configs, kSourceClusterId);
    for (const TopicView* topic : mirror.metadata().TopicsOf(name)) {
      if (topic->desired.state == DesiredState::kStopped) continue;
      ++listed.topic_count;
      if (request.include_topic_names) listed.topic_names.push_back(topic->info.name);
    }
  }
  respond(EncodeResponse(response));
}

namespace {

protocol::DescribeClusterMirrorsResponse::DescribedPartition DescribePartition(
    MirrorImpl& mirror, const PartitionDriver& driver) {
  DescribeClusterMirrorsResponse::DescribedPartition out;
  const DriverReport report = driver.Report();
  out.partition_index = driver.key().partition.partition;
  out.state_value = StateName(report.state);
  out.retry_attempt = report.attempt;
  if (!report.message.empty()) out.error_message = report.message;
  out.step = report.step;
  out.progress = report.progress;
  out.last_mirror_epoch = report.position.epoch;
  out.last_mirror_offset = report.position.offset;
  if (report.state != MirrorPartitionState::kMirroring) return out;

  const auto log = mirror.host().logs->Find(driver.key().partition);
  if (log == nullptr) return out;
  out.destination_offset = log->View().high_watermark;
  const auto position = mirror.Position(driver.key().partition);
  if (!position || position->source_high_watermark < 0)
    return out;  // nothing is known, so no lag is
  out.source_offset = position->source_high_watermark;
  out.lag = std::max<int64_t>(position->source_high_watermark - out.destination_offset, 0);
  const int64_t now = mirror.host().runtime->MonotonicNow().count();
  out.lag_age_ms = std::max<int64_t>(now - position->learned_ns, 0) / 1000000;
  if (!out.error_message && position->unreachable_since_ns != 0) {
    out.error_message = "source unreachable for " +
                        std::to_string((now - position->unreachable_since_ns) / 1000000000) +
                        " s: " + position->trouble;
  }
  return out;
}

// What a source answers to a cluster that wants to mirror back (3.2): per partition the latest
// position over all mirrors that copied from there, and an error wherever this broker cannot say.
void AnswerLookups(MirrorImpl& mirror, const DescribeClusterMirrorsRequest& request,
                   DescribeClusterMirrorsResponse* response) {
  std::vector<std::string> mirrors;
  for (const auto& [name, configs] : mirror.metadata().mirrors()) {
    if (ConfigOr(configs, kSourceClusterId) == *request.cluster_id) mirrors.push_back(name);
  }
  for (const auto& lookup : request.last_mirror_epoch_lookups) {
    auto& result = response->lookup_results.emplace_back();
    result.topic_id = lookup.topic_id;
    const TopicView* topic = mirror.metadata().Topic(lookup.topic_id);
    for (int32_t index : lookup.partitions) {
      auto& out = result.partitions.emplace_back();
      out.partition_index = index;
      statemachine::MirrorPosition latest;
      for (const std::string& name : mirrors) {
        const StateKey key{name, {lookup.topic_id, index}};
        int32_t leader = -1;
        const int32_t count = mirror.host().state_topic->partition_count();
        if (!mirror.metadata().StateLeader(key.Shard(count), &leader))
          continue;  // nothing was stored
        const StateShard* shard = mirror.states().ShardOf(key);
        const auto record = shard == nullptr ? Result<statemachine::PartitionRecord>(
                                                   leader == mirror.metadata().this_broker()
                                                       ? ErrorCode::kCoordinatorLoadInProgress
                                                       : ErrorCode::kNotCoordinator,
                                                   "")
                                             : shard->Read(key);
        if (!record.ok()) {
          out.error_code = static_cast<int16_t>(record.status().code());
          continue;
        }
        // The mirror the topic is linked to wins over the stale record of an older one.
        if (topic != nullptr && topic->desired.mirror == name && !record->position.IsNone()) {
          latest = record->position;
          break;
        }
        latest = statemachine::Later(latest, record->position);
      }
      out.last_mirror_epoch = latest.epoch;
      out.last_mirror_offset = latest.offset;
    }
  }
}

}  // namespace

void ServeDescribe(MirrorImpl& mirror, const std::vector<uint8_t>& body, const Respond& respond) {
  DescribeClusterMirrorsRequest request;
  if (Status status = protocol::DecodeBody(body, 0, &request); !status.ok()) {
    return Fail<DescribeClusterMirrorsResponse>(respond, status);
  }
  DescribeClusterMirrorsResponse response;
  std::vector<std::string> names = request.mirror_names;
  if (names.empty()) {
    for (const auto& [name, configs] : mirror.metadata().mirrors()) names.push_back(name);
  }
  for (const std::string& name : names) {
    auto& described = response.mirrors.emplace_back();
    described.mirror_name = name;
    if (mirror.metadata().Mirror(name) == nullptr) {
      described.error_code = static_cast<int16_t>(ErrorCode::kUnknownClusterMirror);
      continue;
    }
    for (const TopicView* topic : mirror.metadata().TopicsOf(name)) {
      auto& out = described.topics.emplace_back();
      out.topic_name = topic->info.name;
      for (PartitionDriver* driver : mirror.DriversOf(topic->info.id)) {
        out.partitions.push_back(DescribePartition(mirror, *driver));
      }
    }
  }
  if (request.cluster_id) AnswerLookups(mirror, request, &response);
  respond(EncodeResponse(response));
}

}  // namespace kmirror::coordinator
