// Moves of partitions between brokers. With one broker none is ever under way; a request for one
// is judged as Kafka judges it, so that tools learn what is wrong with theirs.

#include <algorithm>
#include <set>
#include <string>

#include "broker/server/handlers.h"
#include "messages/alter_partition_reassignments.h"
#include "messages/list_partition_reassignments.h"
#include "src/protocol/wire_error.h"

namespace kmirror::broker {
namespace {

// Not in ErrorCode: nobody else needs it.
constexpr int16_t kNoReassignmentInProgress = 85;

Status CheckTarget(const std::vector<int32_t>& replicas, int32_t node_id) {
  const auto bad = [](const std::string& why) {
    return Status(ErrorCode::kInvalidReplicaAssignment, why);
  };
  if (replicas.empty()) return bad("a partition needs at least one replica");
  if (std::set<int32_t>(replicas.begin(), replicas.end()).size() != replicas.size()) {
    return bad("a broker is named twice");
  }
  if (std::ranges::any_of(replicas, [&](int32_t id) { return id != node_id; })) {
    return bad("broker " + std::to_string(node_id) + " is the only one there is");
  }
  return {};
}

}  // namespace

void HandleAlterPartitionReassignments(Services& services, RequestPtr request) {
  protocol::AlterPartitionReassignmentsRequest message;
  if (!DecodeRequest(*request, &message)) return;
  protocol::AlterPartitionReassignmentsResponse response;
  if (message.topics.empty()) return request->Answer(response);
  response.allow_replication_factor_change = message.allow_replication_factor_change;
  response.error_message.reset();
  const ImagePtr image = services.controller->image();
  for (const auto& topic : message.topics) {
    auto& answers = response.responses.emplace_back();
    answers.name = topic.name;
    const TopicPtr found = image->topics.Find(topic.name);
    for (const auto& wanted : topic.partitions) {
      auto& answer = answers.partitions.emplace_back();
      answer.partition_index = wanted.partition_index;
      answer.error_message.reset();
      const auto fail = [&](int16_t code, std::string why) {
        answer.error_code = code;
        answer.error_message = std::move(why);
      };
      if (!found || wanted.partition_index < 0 ||
          wanted.partition_index >= found->partition_count()) {
        fail(protocol::WireErrorCode(ErrorCode::kUnknownTopicOrPartition), "no such partition");
      } else if (!wanted.replicas) {
        fail(kNoReassignmentInProgress, "nothing is under way that could be cancelled");
      } else if (const Status checked = CheckTarget(*wanted.replicas, services.config->node_id);
                 !checked.ok()) {
        fail(protocol::WireErrorCode(checked.code()), checked.message());
      }
    }
  }
  request->Answer(response);
}

void HandleListPartitionReassignments(Services&, RequestPtr request) {
  protocol::ListPartitionReassignmentsRequest message;
  if (!DecodeRequest(*request, &message)) return;
  protocol::ListPartitionReassignmentsResponse response;
  response.error_message.reset();
  request->Answer(response);
}

}  // namespace kmirror::broker
