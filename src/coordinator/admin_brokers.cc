// Requests between the brokers of one cluster: states, leader epochs, offsets.
#include <map>
#include <memory>
#include <utility>

#include "messages/bump_leader_epochs.h"
#include "messages/read_mirror_offsets.h"
#include "messages/read_mirror_states.h"
#include "messages/write_mirror_states.h"
#include "src/coordinator/admin_requests.h"
#include "src/coordinator/mirror_impl.h"

namespace kmirror::coordinator {
namespace {

template <typename Response>
void Fail(const Respond& respond, const Status& status) {
  respond(ErrorResponse<Response>({static_cast<ErrorCode>(WireCode(status)), status.message()}));
}

}  // namespace

void ServeReadStates(MirrorImpl& mirror, const std::vector<uint8_t>& body, const Respond& respond) {
  protocol::ReadMirrorStatesRequest request;
  if (Status status = protocol::DecodeBody(body, 0, &request); !status.ok()) {
    return Fail<protocol::ReadMirrorStatesResponse>(respond, status);
  }
  mirror.states().Serve(request, [respond](protocol::ReadMirrorStatesResponse response) {
    respond(EncodeResponse(response));
  });
}

void ServeWriteStates(MirrorImpl& mirror, const std::vector<uint8_t>& body,
                      const Respond& respond) {
  protocol::WriteMirrorStatesRequest request;
  if (Status status = protocol::DecodeBody(body, 0, &request); !status.ok()) {
    return Fail<protocol::WriteMirrorStatesResponse>(respond, status);
  }
  mirror.states().Serve(request, [respond](protocol::WriteMirrorStatesResponse response) {
    for (auto& topic : response.topics) {
      for (auto& p : topic.partitions) {
        p.error_code = WireCode({static_cast<ErrorCode>(p.error_code), ""});
      }
    }
    respond(EncodeResponse(response));
  });
}

void ServeBumpEpochs(MirrorImpl& mirror, const std::vector<uint8_t>& body, const Respond& respond) {
  using protocol::BumpLeaderEpochsResponse;
  protocol::BumpLeaderEpochsRequest request;
  if (Status status = protocol::DecodeBody(body, 0, &request); !status.ok()) {
    return Fail<BumpLeaderEpochsResponse>(respond, status);
  }
  BumpLeaderEpochsResponse refused;
  std::vector<host::EpochBump> bumps;
  for (const auto& wanted : request.topics) {
    const TopicView* topic = mirror.metadata().Topic(wanted.topic_id);
    BumpLeaderEpochsResponse::BumpedTopic out;
    out.topic_name = topic == nullptr ? std::string() : topic->info.name;
    for (const auto& p : wanted.partitions) {
      const bool known = topic != nullptr && p.partition_index >= 0 &&
                         p.partition_index < static_cast<int32_t>(topic->info.partitions.size());
      if (known) {
        bumps.push_back({{wanted.topic_id, p.partition_index}, p.min_leader_epoch});
        continue;
      }
      auto& bad = out.partitions.emplace_back();
      bad.partition_index = p.partition_index;
      bad.error_code = static_cast<int16_t>(topic == nullptr ? ErrorCode::kUnknownTopicId
                                                             : ErrorCode::kUnknownTopicOrPartition);
    }
    if (!out.partitions.empty()) refused.topics.push_back(std::move(out));
  }
  // As the prototype: a success is not listed, the metadata is what confirms it.
  if (bumps.empty()) return respond(EncodeResponse(refused));
  mirror.host().controller->BumpLeaderEpochs(std::move(bumps),
                                             [respond, refused](Status status) mutable {
                                               if (!status.ok()) {
                                                 refused.error_code = WireCode(status);
                                                 refused.error_message = status.message();
                                               }
                                               respond(EncodeResponse(refused));
                                             });
}

void ServeReadOffsets(MirrorImpl& mirror, const std::vector<uint8_t>& body,
                      const Respond& respond) {
  using protocol::ReadMirrorOffsetsResponse;
  protocol::ReadMirrorOffsetsRequest request;
  if (Status status = protocol::DecodeBody(body, 0, &request); !status.ok()) {
    return Fail<ReadMirrorOffsetsResponse>(respond, status);
  }
  ReadMirrorOffsetsResponse response;
  for (const auto& wanted : request.topics) {
    auto& out = response.topics.emplace_back();
    out.topic_name = wanted.topic_name;
    const TopicView* topic = mirror.metadata().TopicByName(wanted.topic_name);
    for (int32_t index : wanted.partitions) {
      auto& p = out.partitions.emplace_back();
      p.partition_index = index;
      if (topic == nullptr) continue;
      const TopicIdPartition partition{topic->info.id, index};
      const PartitionDriver* driver = mirror.Driver(partition);
      if (driver == nullptr || driver->key().mirror != request.mirror_name) continue;
      if (const auto log = mirror.host().logs->Find(partition))
        p.destination_offset = log->View().end;
      if (const auto position = mirror.Position(partition))
        p.source_offset = position->source_high_watermark;
    }
  }
  respond(EncodeResponse(response));
}

}  // namespace kmirror::coordinator
