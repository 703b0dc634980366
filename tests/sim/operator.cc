// What operators and clients of the destination do.
#include <algorithm>

#include "conformance/mirrored_batches.h"
#include "messages/create_cluster_mirror.h"
#include "messages/delete_cluster_mirror.h"
#include "messages/list_cluster_mirrors.h"
#include "messages/pause_mirror_topics.h"
#include "messages/recover_mirror_topics.h"
#include "messages/resume_mirror_topics.h"
#include "messages/start_mirror_topics.h"
#include "messages/stop_mirror_topics.h"
#include "src/protocol/body.h"
#include "tests/sim/simulation.h"

namespace kmirror::sim {
namespace {

constexpr const char* kMirror = "m";

}  // namespace

template <typename Response, typename Request>
void Simulation::Send(const Request& request, std::function<void(const Response&)> answered) {
  if (!broker_.running()) return;
  protocol::Writer out;
  if (!Encode(request, 0, out).ok()) {
    return checker_->Violate(std::string(Request::kName) + " does not encode");
  }
  broker_.Ask(Request::kApiKey, out.Flatten(),
              [this, answered = std::move(answered)](std::vector<uint8_t> body) {
                Response response;
                if (!protocol::DecodeBody(body, 0, &response).ok()) {
                  return checker_->Violate(std::string(Response::kName) + " does not decode");
                }
                trace_.Mix(ByteView(body));
                if (answered) answered(response);
              });
}

template <typename Request, typename Response>
void Simulation::ChangeTopics(std::vector<std::string> topics, bool discard) {
  Request request;
  request.mirror_name = kMirror;
  for (const std::string& topic : topics) {
    request.topics.emplace_back().topic_name = topic;
  }
  if constexpr (requires { request.discard_local; }) request.discard_local = discard;
  trace_.Count(std::string("operator: ") + Request::kName);
  Send<Response>(request, [this](const Response& response) {
    if constexpr (requires { response.topics; }) {
      bool changed = false;
      for (const auto& topic : response.topics) {
        changed |= topic.error_code == 0;
        if (topic.error_code == 0) continue;
        trace_.Line("operator", "  refused: " + std::to_string(topic.error_code) + " " +
                                    topic.error_message.value_or(""));
      }
      if (response.error_code == 0 && changed) checker_->Acknowledged();
    }
    trace_.Line("operator",
                std::string(Response::kName) + " answers " + std::to_string(response.error_code));
  });
}

std::vector<std::string> Simulation::SourceTopics() const {
  std::vector<std::string> names;
  for (const auto& [name, id] : source_.topics()) names.push_back(name);
  return names;
}

broker::TopicPtr Simulation::Topic(const std::string& name) {
  return broker_.running() ? broker_.controller().image()->topics.Find(name) : nullptr;
}

void Simulation::CreateMirror() {
  protocol::CreateClusterMirrorRequest request;
  request.mirror_name = kMirror;
  request.config = {
      {"bootstrap.servers", "broker1:9092,broker2:9092,broker3:9092"},
      {"source.cluster.id", "source-cluster-AAAAAAA"},
      {"request.timeout.ms", "5000"},
      {"socket.timeout.ms", "5000"},
      {"socket.connection.setup.timeout.ms", "2000"},
      {"fetch.backoff.ms", "300"},
      // Small answers, so that a partition needs several.
      {"fetch.max.bytes", options_.seed % 2 == 0 ? "1024" : "65536"},
      {"stop.uncommitted", options_.seed % 5 == 0 ? "truncate" : "abort"},
  };
  trace_.Count("operator: CreateClusterMirror");
  Send<protocol::CreateClusterMirrorResponse>(request, [this](const auto& response) {
    if (response.error_code == 0) checker_->Acknowledged();
    trace_.Line("operator", "create answers " + std::to_string(response.error_code) + " " +
                                response.error_message.value_or(""));
  });
}

void Simulation::Describe() {
  protocol::DescribeClusterMirrorsRequest request;
  trace_.Count("operator: DescribeClusterMirrors");
  Send<protocol::DescribeClusterMirrorsResponse>(
      request, [this](const auto& response) { checker_->Described(response); });
}

void Simulation::OperatorAct() {
  if (!broker_.running()) return;
  std::vector<std::string> topics = SourceTopics();
  if (topics.size() > 1 && Chance(60)) topics = {topics[Pick(topics.size())]};
  switch (Pick(16)) {
    case 0:
    case 1:
    case 2:
    case 3: {
      const bool discard = Chance(40);
      Note(discard ? "start --discard-local" : "start");
      using protocol::StartMirrorTopicsRequest;
      ChangeTopics<StartMirrorTopicsRequest, protocol::StartMirrorTopicsResponse>(topics, discard);
      break;
    }
    case 4:
    case 5:
      Note("stop");
      ChangeTopics<protocol::StopMirrorTopicsRequest, protocol::StopMirrorTopicsResponse>(topics);
      break;
    case 6:
      Note("pause");
      ChangeTopics<protocol::PauseMirrorTopicsRequest, protocol::PauseMirrorTopicsResponse>(topics);
      break;
    case 7:
    case 8:
      Note("resume");
      using protocol::ResumeMirrorTopicsRequest;
      ChangeTopics<ResumeMirrorTopicsRequest, protocol::ResumeMirrorTopicsResponse>(topics);
      break;
    case 9:
      Note("recover");
      using protocol::RecoverMirrorTopicsRequest;
      ChangeTopics<RecoverMirrorTopicsRequest, protocol::RecoverMirrorTopicsResponse>(topics);
      break;
    case 10: {
      // Refused as long as a topic is not stopped.
      if (!Chance(25)) break;
      Note("delete the mirror");
      protocol::DeleteClusterMirrorRequest request;
      request.mirror_name = kMirror;
      trace_.Count("operator: DeleteClusterMirror");
      Send<protocol::DeleteClusterMirrorResponse>(request, [this](const auto& response) {
        if (response.error_code == 0) checker_->Acknowledged();
        trace_.Line("operator", "delete answers " + std::to_string(response.error_code));
      });
      break;
    }
    case 11:
      if (broker_.controller().image()->mirrors.empty()) CreateMirror();
      break;
    case 12: {
      // Follows unclean elections from now on.
      const broker::TopicPtr topic = Topic(topics.front());
      if (topic == nullptr || !profile_.unclean_support) break;
      const broker::ConfigChange change{.name = "mirror.support.unclean.leader.election",
                                        .op = broker::ConfigOp::kSet,
                                        .value = "true"};
      (void)broker_.controller().AlterTopicConfigs(topic->name, {&change, 1}, false);
      break;
    }
    default: Describe(); break;
  }
}

void Simulation::ProduceLocally(const std::string& name, int32_t partition) {
  if (!broker_.running()) return;
  const auto replica = broker_.logs().Find(name, partition);
  if (replica == nullptr) return;
  conformance::BatchSpec spec;
  spec.base_offset = 1'000'000 + 1000 * ++sent_;  // makes the values unlike any others
  spec.timestamp_ms = runtime_.WallMs();
  const int records = 1 + static_cast<int>(Pick(3));
  if (Chance(40)) {
    auto& [id, sequence] = local_producers_[{name, partition}];
    if (id == 0 || Chance(10)) {
      const auto ids = broker_.controller().AllocateProducerIds(1);
      if (!ids.ok()) return;
      id = ids->begin;
      sequence = 0;
    }
    spec.producer_id = id;
    spec.base_sequence = sequence;
    sequence += records;
  }
  std::vector<uint8_t> bytes = conformance::DataBatch(spec, records, 10 + Pick(60));
  checker_->Producing(bytes);
  const auto answer = replica->log().AppendAsLeader(bytes, replica->leader_epoch());
  trace_.Count(answer.ok() ? "client: produce accepted" : "client: produce refused");
  if (!answer.ok() || disk_.dead() || answer->duplicate) return;
  trace_.Line("client", name + "-" + std::to_string(partition) + " got offset " +
                            std::to_string(answer->base_offset));
  checker_->Produced(name, partition, answer->base_offset, bytes);
}

bool Simulation::MetadataIsBroken() {
  if (!broker_.running()) return false;
  const auto ids = broker_.controller().AllocateProducerIds(100'000);
  return !ids.ok() && ids.status().message().find("starts again") != std::string::npos;
}

bool Simulation::Want(DesiredState desired) {
  const std::vector<std::string> topics = SourceTopics();
  const auto is_so = [&] {
    for (const std::string& name : topics) {
      const broker::TopicPtr topic = Topic(name);
      if (topic == nullptr || broker::MirrorLinkOf(*topic).desired != desired) return false;
    }
    return true;
  };
  for (int i = 0; i < 120 && !Failed(); ++i) {
    if (is_so()) return true;
    if (broker_.running() && broker_.controller().image()->mirrors.empty()) {
      CreateMirror();
    } else if (desired == DesiredState::kStopped) {
      ChangeTopics<protocol::StopMirrorTopicsRequest, protocol::StopMirrorTopicsResponse>(topics);
    } else {
      std::vector<std::string> paused, others;
      for (const std::string& name : topics) {
        const broker::TopicPtr topic = Topic(name);
        const bool is_paused =
            topic != nullptr && broker::MirrorLinkOf(*topic).desired == DesiredState::kPaused;
        (is_paused ? paused : others).push_back(name);
      }
      using protocol::ResumeMirrorTopicsRequest;
      using protocol::StartMirrorTopicsRequest;
      if (!paused.empty()) {
        ChangeTopics<ResumeMirrorTopicsRequest, protocol::ResumeMirrorTopicsResponse>(paused);
      }
      if (!others.empty()) {
        ChangeTopics<StartMirrorTopicsRequest, protocol::StartMirrorTopicsResponse>(others, true);
      }
    }
    RunFor(std::chrono::seconds(1));
  }
  return is_so();
}

}  // namespace kmirror::sim
