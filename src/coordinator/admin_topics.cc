// Start, stop, pause, resume, recover: what an operator wants of topics.
//
// Each request is checked topic by topic against the metadata; what passes becomes one atomic
// change of `mirror.name` values, refused if one of them changed meanwhile. Drivers follow the
// metadata.
#include <algorithm>
#include <memory>
#include <utility>

#include "messages/pause_mirror_topics.h"
#include "messages/recover_mirror_topics.h"
#include "messages/resume_mirror_topics.h"
#include "messages/start_mirror_topics.h"
#include "messages/stop_mirror_topics.h"
#include "src/coordinator/admin_requests.h"
#include "src/coordinator/mirror_impl.h"
#include "src/coordinator/steps.h"
#include "src/statemachine/desired_state.h"

namespace kmirror::coordinator {
namespace {

using protocol::PauseMirrorTopicsRequest;
using protocol::PauseMirrorTopicsResponse;
using protocol::RecoverMirrorTopicsRequest;
using protocol::RecoverMirrorTopicsResponse;
using protocol::ResumeMirrorTopicsRequest;
using protocol::ResumeMirrorTopicsResponse;
using protocol::StartMirrorTopicsRequest;
using protocol::StartMirrorTopicsResponse;
using protocol::StopMirrorTopicsRequest;
using protocol::StopMirrorTopicsResponse;

template <typename Response>
void Fail(const Respond& respond, const Status& status) {
  respond(ErrorResponse<Response>({static_cast<ErrorCode>(WireCode(status)), status.message()}));
}

// Per-topic results in the order they were asked for.
struct Results {
  std::vector<std::pair<std::string, Status>> topics;

  template <typename Response>
  Response Make() const {
    Response response;
    for (const auto& [name, status] : topics) {
      auto& out = response.topics.emplace_back();
      out.name = name;
      out.error_code = WireCode(status);
      if (!status.ok()) out.error_message = status.message();
    }
    return response;
  }
};

// What a request for one linked topic leads to: nothing, an error, or a new desired state.
using Judge = Status (*)(const TopicView& topic, bool* change);

Status JudgeStop(const TopicView& topic, bool* change) {
  // From any partition state, also FAILED or PREPARING, also PAUSED: otherwise there is no failover
  // exactly when it is needed (coordinator.md 10, L17).
  *change = topic.desired.state != DesiredState::kStopped;
  return Status::Ok();
}

Status JudgePause(const TopicView& topic, bool* change) {
  if (topic.desired.state == DesiredState::kStopped) {
    return {ErrorCode::kMirrorTopicAlreadyStopped, "topic " + topic.info.name + " is stopped"};
  }
  *change = topic.desired.state != DesiredState::kPaused;
  return Status::Ok();
}

Status JudgeResume(const TopicView& topic, bool* change) {
  if (topic.desired.state == DesiredState::kStopped) {
    return {ErrorCode::kMirrorTopicNotPaused,
            "topic " + topic.info.name + " is stopped, not paused"};
  }
  *change = topic.desired.state != DesiredState::kMirroring;
  return Status::Ok();
}

Status JudgeLinked(MirrorImpl& mirror, const std::string& name, const std::string& topic_name,
                   const TopicView** found) {
  const TopicView* topic = mirror.metadata().TopicByName(topic_name);
  if (topic == nullptr) {
    return {ErrorCode::kUnknownTopicOrPartition, "no topic is named " + topic_name};
  }
  if (topic->desired.state == DesiredState::kNone) {
    return {ErrorCode::kUnknownClusterMirror, "topic " + topic_name + " belongs to no mirror"};
  }
  if (topic->desired.mirror != name) {
    return {ErrorCode::kTopicNotInClusterMirror,
            "topic " + topic_name + " belongs to mirror " + topic->desired.mirror};
  }
  *found = topic;
  return Status::Ok();
}

template <typename Request, typename Response>
void ServeChange(MirrorImpl& mirror, const std::vector<uint8_t>& body, const Respond& respond,
                 Judge judge, DesiredState target, std::string_view step) {
  Request request;
  if (Status status = protocol::DecodeBody(body, 0, &request); !status.ok()) {
    return Fail<Response>(respond, status);
  }
  if (mirror.metadata().Mirror(request.mirror_name) == nullptr) {
    return Fail<Response>(
        respond, {ErrorCode::kUnknownClusterMirror, "no mirror is named " + request.mirror_name});
  }
  auto results = std::make_shared<Results>();
  std::vector<host::MirrorNameChange> changes;
  auto changed = std::make_shared<std::vector<size_t>>();
  for (const auto& wanted : request.topics) {
    const TopicView* topic = nullptr;
    bool change = false;
    Status status = JudgeLinked(mirror, request.mirror_name, wanted.topic_name, &topic);
    if (status.ok()) status = judge(*topic, &change);
    if (status.ok() && change) {
      changes.push_back(
          {topic->info.id, statemachine::FormatMirrorName(request.mirror_name, target)});
      changed->push_back(results->topics.size());
    }
    results->topics.emplace_back(wanted.topic_name, std::move(status));
  }
  if (changes.empty()) return respond(EncodeResponse(results->Make<Response>()));
  mirror.Step(step, false);
  mirror.host().controller->SetMirrorNames(
      std::move(changes), mirror.metadata().version(),
      [&mirror, lane = mirror.lane(), respond, results, changed, step](Status status) {
        lane->Post([&mirror, respond, results, changed, step, status = std::move(status)] {
          if (status.ok()) mirror.Step(step, true);
          // The change is one: it was made for all of these topics or for none.
          if (!status.ok()) {
            for (size_t at : *changed) results->topics[at].second = status;
          }
          respond(EncodeResponse(results->Make<Response>()));
        });
      });
}

// --- Start
// -----------------------------------------------------------------------------------------

struct StartPlan {
  std::string mirror;
  bool discard_local = false;
  StartMirrorTopicsRequest request;
  Results results;
  std::map<std::string, fetcher::SourceTopic> source_topics;
  Status source_status;
  std::vector<host::MirrorNameChange> changes;
  std::vector<size_t> changed;  // places in results
  std::vector<std::pair<host::NewTopic, size_t>> created;
  size_t missing = 1;
  Respond respond;
};

// The state of a topic that exists here and is wanted again in this mirror.
Status JudgeRestart(MirrorImpl& mirror, const TopicView& topic, const StartPlan& plan, bool* change,
                    std::vector<PartitionDriver*>* recover) {
  switch (topic.desired.state) {
    case DesiredState::kMirroring:
      // Asked for already: nothing changes, except that R31 may let failed partitions try once
      // more.
      if (plan.discard_local) {
        for (PartitionDriver* driver : mirror.DriversOf(topic.info.id)) {
          if (driver->loaded() && driver->record().state == MirrorPartitionState::kFailed) {
            recover->push_back(driver);
          }
        }
      }
      return Status::Ok();
    case DesiredState::kPaused:
      return {ErrorCode::kMirrorTopicNotStopped,
              "topic " + topic.info.name + " is paused in this mirror; resume it"};
    case DesiredState::kStopped:
      for (PartitionDriver* driver : mirror.DriversOf(topic.info.id)) {
        if (!driver->loaded()) {
          return {ErrorCode::kCoordinatorLoadInProgress,
                  "the state of topic " + topic.info.name + " is loading"};
        }
        const auto state = driver->record().state;
        if (state != MirrorPartitionState::kStopped && state != MirrorPartitionState::kUnknown) {
          return {ErrorCode::kInvalidClusterMirrorState,
                  "partition " + std::to_string(driver->key().partition.partition) + " of topic " +
                      topic.info.name + " is " + std::string(StateName(state)) +
                      ", not STOPPED yet"};
        }
      }
      *change = true;
      return Status::Ok();
    case DesiredState::kNone: *change = true; return Status::Ok();
  }
  return Status::Ok();
}

void StartTopic(MirrorImpl& mirror, StartPlan& plan,
                const StartMirrorTopicsRequest::MirrorTopic& wanted) {
  Status status;
  const size_t place = plan.results.topics.size();
  const std::string& name = wanted.topic_name;
  Uuid id = wanted.topic_id;
  int32_t partitions = wanted.num_partitions;
  const auto at_source = plan.source_topics.find(name);
  if (at_source != plan.source_topics.end() && at_source->second.error == ErrorCode::kNone) {
    // What the source says now wins over what the caller read a moment ago.
    id = at_source->second.id;
    partitions = static_cast<int32_t>(at_source->second.partitions.size());
  } else if (at_source != plan.source_topics.end()) {
    status = {ErrorCode::kUnknownTopicOrPartition, "the source has no topic named " + name};
  } else if (id.IsZero() || partitions <= 0) {
    status = {plan.source_status.code(), "the source cannot be asked about topic " + name + ": " +
                                             plan.source_status.ToString()};
  }
  const TopicView* topic = mirror.metadata().TopicByName(name);
  if (status.ok() && name.starts_with("__")) {
    status = {ErrorCode::kInvalidRequest, "internal topics are not mirrored"};
  }
  if (status.ok() && topic == nullptr && !id.IsZero()) {
    if (const TopicView* other = mirror.metadata().Topic(id)) {
      status = {ErrorCode::kTopicAlreadyExists,
                "topic id " + id.ToString() + " belongs to topic " + other->info.name + " here"};
    }
  }
  bool change = false;
  std::vector<PartitionDriver*> recover;
  if (status.ok() && topic != nullptr) {
    if (!id.IsZero() && topic->info.id != id) {
      status = {ErrorCode::kInconsistentTopicId, "topic " + name + " exists here with id " +
                                                     topic->info.id.ToString() +
                                                     ", the source's has " + id.ToString()};
    } else if (topic->desired.state != DesiredState::kNone &&
               topic->desired.mirror != plan.mirror &&
               topic->desired.state != DesiredState::kStopped) {
      status = {ErrorCode::kTopicAlreadyInClusterMirror,
                "topic " + name + " is mirrored by " + topic->desired.mirror};
    } else {
      status = JudgeRestart(mirror, *topic, plan, &change, &recover);
    }
  }
  if (status.ok() && topic == nullptr) {
    host::NewTopic created;
    created.name = name;
    created.id = id;
    created.partitions = partitions;
    created.configs[std::string(kMirrorNameConfig)] = plan.mirror;
    plan.created.emplace_back(std::move(created), place);
  } else if (status.ok() && change) {
    plan.changes.push_back(
        {topic->info.id, statemachine::FormatMirrorName(plan.mirror, DesiredState::kMirroring)});
    plan.changed.push_back(place);
    mirror.AllowDiscard(topic->info.id, plan.discard_local);
  }
  for (PartitionDriver* driver : recover) {
    driver->AllowDiscard(true);
    driver->Recover();
  }
  plan.results.topics.emplace_back(name, std::move(status));
}

void FinishStart(MirrorImpl& mirror, StartPlan& plan) {
  if (--plan.missing != 0) return;
  mirror.EndLinking(plan.mirror);
  auto response = plan.results.Make<StartMirrorTopicsResponse>();
  for (const auto& topic : response.topics) {
    if (topic.error_code == 0) continue;
    // The first failing topic is copied to the top level.
    response.error_code = topic.error_code;
    response.error_message = topic.error_message;
    break;
  }
  plan.respond(EncodeResponse(response));
}

void ExecuteStart(MirrorImpl& mirror, std::shared_ptr<StartPlan> plan) {
  for (const auto& wanted : plan->request.topics) StartTopic(mirror, *plan, wanted);
  const bool anything = !plan->changes.empty() || !plan->created.empty();
  if (anything) mirror.Step(kStepStartDesired, false);
  plan->missing += plan->created.size() + (plan->changes.empty() ? 0 : 1);
  auto settle = [&mirror, lane = mirror.lane(), plan](std::vector<size_t> places) {
    return [&mirror, lane, plan, places = std::move(places)](Status status) {
      lane->Post([&mirror, plan, places, status = std::move(status)] {
        if (status.ok()) mirror.Step(kStepStartDesired, true);
        for (size_t at : places) plan->results.topics[at].second = status;
        FinishStart(mirror, *plan);
      });
    };
  };
  for (auto& [topic, place] : plan->created) {
    mirror.host().controller->CreateTopic(std::move(topic), settle({place}));
  }
  if (!plan->changes.empty()) {
    std::vector<Uuid> topics;
    for (const host::MirrorNameChange& change : plan->changes) topics.push_back(change.topic_id);
    auto settled = settle(plan->changed);
    mirror.host().controller->SetMirrorNames(
        std::move(plan->changes), mirror.metadata().version(),
        [&mirror, lane = mirror.lane(), topics = std::move(topics),
         settled = std::move(settled)](Status status) {
          lane->Post([&mirror, topics, failed = !status.ok()] {
            // A permission does not outlive the start it was given for.
            for (const Uuid& id : topics) {
              if (failed) mirror.AllowDiscard(id, false);
            }
          });
          settled(std::move(status));
        });
  }
  FinishStart(mirror, *plan);
}

}  // namespace

void ServeStop(MirrorImpl& mirror, const std::vector<uint8_t>& body, const Respond& respond) {
  ServeChange<StopMirrorTopicsRequest, StopMirrorTopicsResponse>(
      mirror, body, respond, JudgeStop, DesiredState::kStopped, kStepStopDesired);
}

void ServePause(MirrorImpl& mirror, const std::vector<uint8_t>& body, const Respond& respond) {
  ServeChange<PauseMirrorTopicsRequest, PauseMirrorTopicsResponse>(
      mirror, body, respond, JudgePause, DesiredState::kPaused, kStepPauseDesired);
}

void ServeResume(MirrorImpl& mirror, const std::vector<uint8_t>& body, const Respond& respond) {
  ServeChange<ResumeMirrorTopicsRequest, ResumeMirrorTopicsResponse>(
      mirror, body, respond, JudgeResume, DesiredState::kMirroring, kStepResumeDesired);
}

void ServeStart(MirrorImpl& mirror, const std::vector<uint8_t>& body, const Respond& respond) {
  auto plan = std::make_shared<StartPlan>();
  if (Status status = protocol::DecodeBody(body, 0, &plan->request); !status.ok()) {
    return Fail<StartMirrorTopicsResponse>(respond, status);
  }
  plan->mirror = plan->request.mirror_name;
  plan->discard_local = plan->request.discard_local;
  plan->respond = respond;
  if (mirror.metadata().Mirror(plan->mirror) == nullptr) {
    return Fail<StartMirrorTopicsResponse>(
        respond, {ErrorCode::kUnknownClusterMirror, "no mirror is named " + plan->mirror});
  }
  // The prototype's tool repeats the names as patterns; patterns that are more than that ask for
  // discovery, which is not served yet and must not look as if it were.
  for (const std::string& pattern : plan->request.include_patterns) {
    const bool named = std::any_of(plan->request.topics.begin(), plan->request.topics.end(),
                                   [&](const auto& topic) { return topic.topic_name == pattern; });
    if (!named) {
      return Fail<StartMirrorTopicsResponse>(
          respond,
          {ErrorCode::kInvalidRequest,
           "topic patterns are not supported yet; name the topics (got '" + pattern + "')"});
    }
  }
  if (!plan->request.exclude_patterns.empty()) {
    return Fail<StartMirrorTopicsResponse>(
        respond, {ErrorCode::kInvalidRequest, "topic patterns are not supported yet"});
  }
  sync::SourceWatch* source = mirror.Source(plan->mirror);
  if (source == nullptr) {
    return Fail<StartMirrorTopicsResponse>(
        respond,
        {ErrorCode::kInvalidConfig, "mirror " + plan->mirror + " has no usable configuration"});
  }
  std::vector<std::string> names;
  for (const auto& topic : plan->request.topics) names.push_back(topic.topic_name);
  source->cluster().DescribeTopics(std::move(names), [&mirror, plan](
                                                         Result<fetcher::SourceMetadata> answer) {
    if (answer.ok()) {
      for (auto& topic : answer->topics) plan->source_topics[topic.name] = std::move(topic);
    } else {
      plan->source_status = answer.status();
    }
    if (mirror.down()) {
      return Fail<StartMirrorTopicsResponse>(
          plan->respond, {ErrorCode::kCoordinatorNotAvailable, "the broker is shutting down"});
    }
    // The mirror may have gone while the source was asked, or be on its way.
    if (mirror.metadata().Mirror(plan->mirror) == nullptr || !mirror.BeginLinking(plan->mirror)) {
      return Fail<StartMirrorTopicsResponse>(
          plan->respond, {ErrorCode::kUnknownClusterMirror, "no mirror is named " + plan->mirror});
    }
    ExecuteStart(mirror, plan);
  });
}

void ServeRecover(MirrorImpl& mirror, const std::vector<uint8_t>& body, const Respond& respond) {
  RecoverMirrorTopicsRequest request;
  if (Status status = protocol::DecodeBody(body, 0, &request); !status.ok()) {
    return Fail<RecoverMirrorTopicsResponse>(respond, status);
  }
  if (mirror.metadata().Mirror(request.mirror_name) == nullptr) {
    return Fail<RecoverMirrorTopicsResponse>(
        respond, {ErrorCode::kUnknownClusterMirror, "no mirror is named " + request.mirror_name});
  }
  RecoverMirrorTopicsResponse response;
  for (const auto& wanted : request.topics) {
    const TopicView* topic = nullptr;
    Status status = JudgeLinked(mirror, request.mirror_name, wanted.topic_name, &topic);
    int failed = 0;
    if (status.ok()) {
      for (PartitionDriver* driver : mirror.DriversOf(topic->info.id)) failed += driver->Recover();
      // Healthy topics are left out of the answer (2.7).
      if (failed == 0) continue;
    }
    auto& out = response.topics.emplace_back();
    out.topic_name = wanted.topic_name;
    out.error_code = WireCode(status);
    if (!status.ok()) out.error_message = status.message();
  }
  respond(EncodeResponse(response));
}

}  // namespace kmirror::coordinator
