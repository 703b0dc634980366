// ListOffsets and OffsetForLeaderEpoch.

#include <map>
#include <optional>
#include <set>
#include <utility>

#include "broker/server/handlers.h"
#include "messages/list_offsets.h"
#include "messages/offset_for_leader_epoch.h"
#include "src/protocol/wire_error.h"

namespace kmirror::broker {
namespace {

using protocol::ListOffsetsRequest;
using protocol::ListOffsetsResponse;

// Timestamps with a meaning of their own, and the first version that knows them.
constexpr int64_t kLatest = -1;
constexpr int64_t kEarliest = -2;
constexpr int64_t kMaxTimestamp = -3;
constexpr int64_t kEarliestLocal = -4;
constexpr int64_t kLatestTiered = -5;
constexpr int64_t kEarliestPendingUpload = -6;

int16_t FirstVersionOf(int64_t timestamp) {
  switch (timestamp) {
    case kLatest:
    case kEarliest: return 1;
    case kMaxTimestamp: return 7;
    case kEarliestLocal: return 8;
    case kLatestTiered: return 9;
    case kEarliestPendingUpload: return 11;
    default: return timestamp >= 0 ? int16_t{1} : INT16_MAX;
  }
}

Result<std::shared_ptr<Replica>> LeaderOf(const Services& services, const std::string& topic,
                                          int32_t partition, int32_t client_epoch) {
  std::shared_ptr<Replica> replica = services.logs->Find(topic, partition);
  if (!replica) {
    return {WhyNotHere(*services.controller->image(), topic, partition), "not here"};
  }
  if (replica->removed()) return {ErrorCode::kNotLeaderOrFollower, "deleted"};
  const int32_t epoch = replica->leader_epoch();
  // -1 is "not known"; what is below it is old like any other (as Kafka).
  if (client_epoch != -1 && client_epoch != epoch) {
    return {client_epoch < epoch ? ErrorCode::kFencedLeaderEpoch : ErrorCode::kUnknownLeaderEpoch,
            "the leader epoch is " + std::to_string(epoch)};
  }
  return replica;
}

Result<OffsetAndTimestamp> LookUp(const Replica& replica, int64_t timestamp, bool follower,
                                  bool committed_only) {
  PartitionLog& log = replica.log();
  const LogPositions positions = log.Positions();
  const ReadBound bound = follower         ? ReadBound::kLogEnd
                          : committed_only ? ReadBound::kLastStable
                                           : ReadBound::kHighWatermark;
  switch (timestamp) {
    case kLatest: {
      if (!follower && positions.high_watermark < positions.leader_epoch_start) {
        // A new leader that does not know yet how much its followers have.
        return {ErrorCode::kOffsetNotAvailable, "the high watermark is not known yet"};
      }
      const int64_t end = follower         ? positions.log_end
                          : committed_only ? positions.last_stable
                                           : positions.high_watermark;
      return OffsetAndTimestamp{end, -1, replica.leader_epoch()};
    }
    case kEarliest:
    case kEarliestLocal: {
      const std::vector<log::EpochStart> epochs = log.EpochHistory();
      // As Kafka: the epoch is told when the history reaches back to the log start.
      const bool known = !epochs.empty() && epochs.front().start_offset <= positions.log_start;
      return OffsetAndTimestamp{positions.log_start, -1, known ? epochs.front().epoch : -1};
    }
    case kMaxTimestamp: return log.MaxTimestamp();
    case kLatestTiered:
    case kEarliestPendingUpload: return OffsetAndTimestamp{};  // nothing is tiered
    default: return log.OffsetForTimestamp(timestamp, bound);
  }
}

}  // namespace

void HandleListOffsets(Services& services, RequestPtr request) {
  ListOffsetsRequest message;
  if (!DecodeRequest(*request, &message)) return;
  ListOffsetsResponse response;
  const bool follower = message.replica_id >= 0;
  std::map<std::pair<std::string, int32_t>, int> uses;
  for (const ListOffsetsRequest::ListOffsetsTopic& topic : message.topics) {
    for (const auto& wanted : topic.partitions) ++uses[{topic.name, wanted.partition_index}];
  }
  std::set<std::pair<std::string, int32_t>> refused;
  for (const ListOffsetsRequest::ListOffsetsTopic& topic : message.topics) {
    ListOffsetsResponse::ListOffsetsTopicResponse& answers = response.topics.emplace_back();
    answers.name = topic.name;
    for (const ListOffsetsRequest::ListOffsetsPartition& wanted : topic.partitions) {
      if (refused.contains({topic.name, wanted.partition_index})) continue;
      ListOffsetsResponse::ListOffsetsPartitionResponse& answer = answers.partitions.emplace_back();
      answer.partition_index = wanted.partition_index;
      const auto fail = [&](ErrorCode code) { answer.error_code = protocol::WireErrorCode(code); };
      if (uses[{topic.name, wanted.partition_index}] > 1) {
        refused.emplace(topic.name, wanted.partition_index);
        fail(ErrorCode::kInvalidRequest);
        continue;
      }
      if (request->version() < FirstVersionOf(wanted.timestamp)) {
        fail(ErrorCode::kUnsupportedVersion);
        continue;
      }
      const Result<std::shared_ptr<Replica>> replica =
          LeaderOf(services, topic.name, wanted.partition_index, wanted.current_leader_epoch);
      if (!replica.ok()) {
        fail(replica.status().code());
        continue;
      }
      const Result<OffsetAndTimestamp> found =
          LookUp(**replica, wanted.timestamp, follower, message.isolation_level == 1);
      if (!found.ok()) {
        const ErrorCode code = found.status().code();
        // Clients before version 5 know the older, as retriable, word for it.
        fail(code == ErrorCode::kOffsetNotAvailable && request->version() < 5
                 ? ErrorCode::kLeaderNotAvailable
                 : code);
        continue;
      }
      answer.offset = found->offset;
      answer.timestamp = found->timestamp;
      if (request->version() >= 4) answer.leader_epoch = found->leader_epoch;
    }
  }
  request->Answer(response);
}

void HandleOffsetForLeaderEpoch(Services& services, RequestPtr request) {
  protocol::OffsetForLeaderEpochRequest message;
  if (!DecodeRequest(*request, &message)) return;
  protocol::OffsetForLeaderEpochResponse response;
  for (const auto& topic : message.topics) {
    auto& answers = response.topics.emplace_back();
    answers.topic = topic.topic;
    for (const auto& wanted : topic.partitions) {
      auto& answer = answers.partitions.emplace_back();
      answer.partition = wanted.partition;
      const Result<std::shared_ptr<Replica>> replica =
          LeaderOf(services, topic.topic, wanted.partition, wanted.current_leader_epoch);
      if (!replica.ok()) {
        answer.error_code = protocol::WireErrorCode(replica.status().code());
        continue;
      }
      const log::EpochEnd end = (*replica)->log().EndOffsetForEpoch(wanted.leader_epoch);
      answer.leader_epoch = end.epoch;
      answer.end_offset = end.end_offset;
    }
  }
  request->Answer(response);
}

}  // namespace kmirror::broker
