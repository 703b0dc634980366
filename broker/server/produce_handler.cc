// Produce and InitProducerId.

#include <utility>

#include "broker/server/handlers.h"
#include "kmirror/log/batch.h"
#include "messages/init_producer_id.h"
#include "messages/produce.h"
#include "src/protocol/mirror_numbers.h"
#include "src/protocol/wire_error.h"

namespace kmirror::broker {
namespace {

using protocol::ProduceRequest;
using protocol::ProduceResponse;
using PartitionAnswer = ProduceResponse::PartitionProduceResponse;

constexpr int16_t kZstdVersion = 7;     // the first whose clients know zstd
constexpr int16_t kLeaderVersion = 10;  // the first that tells who leads now (KIP-951)
// min.insync.replicas is not looked at: Kafka asks for no more replicas than a partition has
// (KIP-966), and here that is one.
constexpr int16_t kAcksAll = -1;

class ProduceOperation {
 public:
  ProduceOperation(Services& services, ServedRequest& request, const ProduceRequest& message)
      : services_(services),
        request_(request),
        message_(message),
        image_(services.controller->image()) {}

  ProduceResponse Run() {
    ProduceResponse response;
    JudgeWhole();
    for (const ProduceRequest::TopicProduceData& topic : message_.topic_data) {
      ProduceResponse::TopicProduceResponse& answer = response.responses.emplace_back();
      answer.name = topic.name;
      answer.topic_id = topic.topic_id;
      const TopicPtr found = request_.version() >= 13 ? image_->topics.Find(topic.topic_id)
                                                      : image_->topics.Find(topic.name);
      for (const ProduceRequest::PartitionProduceData& partition : topic.partition_data) {
        answer.partition_responses.push_back(AnswerFor(found.get(), partition));
      }
    }
    if (moved_) AddEndpoint(&response);
    return response;
  }

  bool failed() const { return failed_; }

 private:
  // What Kafka finds before it looks at any partition, and answers for all of them.
  void JudgeWhole() {
    for (const ProduceRequest::TopicProduceData& topic : message_.topic_data) {
      for (const ProduceRequest::PartitionProduceData& partition : topic.partition_data) {
        const ByteView records = partition.records ? partition.records->bytes() : ByteView{};
        if (records.size() < log::kBatchPrefixBytes ||
            log::BatchBytes(records) > static_cast<int64_t>(records.size())) {
          continue;
        }
        if (log::BatchBytes(records) < 0 || records[log::kBatchMagicOffset] > 2) {
          whole_ = {ErrorCode::kCorruptMessage, "a batch of an impossible size or format"};
          return;
        }
        log::BatchInfo info;
        if (records[log::kBatchMagicOffset] < 2 ||
            log::ParseBatchHeader(records, &info) != log::ParseResult::kOk) {
          continue;
        }
        if (!message_.transactional_id && info.IsTransactional()) {
          whole_ = {ErrorCode::kTransactionalIdAuthorizationFailed,
                    "transactional records without a transactional id"};
          return;
        }
      }
    }
  }

  PartitionAnswer AnswerFor(const TopicImage* topic,
                            const ProduceRequest::PartitionProduceData& partition) {
    PartitionAnswer answer;
    answer.index = partition.index;
    answer.base_offset = -1;
    std::shared_ptr<Replica> replica;
    bool judged_by_log = false;
    Result<AppendedBatch> appended = Append(topic, partition, &replica, &judged_by_log);
    if (appended.ok()) {
      answer.base_offset = appended->base_offset;
      answer.log_append_time_ms = appended->log_append_time;
      answer.log_start_offset = appended->log_start;
      return answer;
    }
    failed_ = true;
    const ErrorCode code = appended.status().code();
    answer.error_code = protocol::WireErrorCode(code);
    if (judged_by_log && TellsLogStart(code)) {
      answer.log_start_offset = replica->log().Positions().log_start;
    }
    if (code == ErrorCode::kReadOnly) {
      ++services_.metrics->produce_refused_read_only;
      answer.error_message = ReadOnlyText(*topic);
    } else {
      answer.error_message = protocol::WireErrorMessage(appended.status());
    }
    if (replica && request_.version() >= kLeaderVersion &&
        (code == ErrorCode::kNotLeaderOrFollower || code == ErrorCode::kFencedLeaderEpoch)) {
      answer.current_leader = {services_.config->node_id, replica->leader_epoch()};
      moved_ = true;
    }
    return answer;
  }

  // Kafka leaves the log start out of answers to what it calls known failures.
  static bool TellsLogStart(ErrorCode code) {
    switch (code) {
      case ErrorCode::kCorruptMessage:
      case ErrorCode::kNotLeaderOrFollower:
      case ErrorCode::kMessageTooLarge:
      case ErrorCode::kRecordListTooLarge:
      case ErrorCode::kKafkaStorageError: return false;
      default: return true;
    }
  }

  Result<AppendedBatch> Append(const TopicImage* topic,
                               const ProduceRequest::PartitionProduceData& partition,
                               std::shared_ptr<Replica>* replica, bool* judged_by_log) {
    if (topic != nullptr) {
      *replica = services_.logs->Find(TopicIdPartition{topic->id, partition.index});
    }
    // The log decides on read-only topics first of all (R22); what only the server can judge comes
    // after that.
    const bool writable =
        *replica == nullptr || (*replica)->log().Positions().local_writes == LocalWrites::kAllowed;
    if (!whole_.ok() && writable) return whole_;
    if (topic == nullptr) {
      return {request_.version() >= 13 ? ErrorCode::kUnknownTopicId
                                       : ErrorCode::kUnknownTopicOrPartition,
              "no such topic"};
    }
    if (*replica == nullptr) {
      const ErrorCode why = WhyNotHere(*image_, topic->name, partition.index);
      return {why, why == ErrorCode::kKafkaStorageError ? "the log of the partition is offline"
                                                        : "no such partition"};
    }
    PartitionLog& log = (*replica)->log();
    const ByteView records = partition.records ? partition.records->bytes() : ByteView{};
    if (writable) {
      if (Status checked = CheckRecords(records); !checked.ok()) return checked;
      if (message_.acks < kAcksAll || message_.acks > 1) {
        return {ErrorCode::kInvalidRequiredAcks, "acks must be 0, 1 or -1"};
      }
    }
    if (topic->internal()) {
      return {ErrorCode::kInvalidTopic,
              "clients may not write to the internal topic " + topic->name};
    }
    *judged_by_log = true;
    log::BatchInfo info;
    if (writable && log::ParseBatchHeader(records, &info) == log::ParseResult::kOk &&
        info.base_offset != 0) {
      return {ErrorCode::kInvalidRecord,
              "a client's batch begins at offset 0, not at " + std::to_string(info.base_offset)};
    }
    Result<AppendedBatch> appended =
        log.AppendAsLeader(request_.Mutable(records), (*replica)->leader_epoch());
    if (appended.ok() && !appended->duplicate) {
      services_.metrics->messages_in += appended->last_offset - appended->base_offset + 1;
      services_.metrics->bytes_in += static_cast<int64_t>(records.size());
    }
    return appended;
  }

  // One whole batch of the present format, whatever is in it.
  Status CheckRecords(ByteView records) const {
    if (records.size() < log::kBatchPrefixBytes ||
        log::BatchBytes(records) > static_cast<int64_t>(records.size())) {
      return {ErrorCode::kInvalidRecord, "a produce needs one record batch a partition"};
    }
    if (records[log::kBatchMagicOffset] < 2) {
      return {ErrorCode::kInvalidRecord, "a produce needs batches of message format v2"};
    }
    log::BatchInfo info;
    if (request_.version() < kZstdVersion &&
        log::ParseBatchHeader(records, &info) == log::ParseResult::kOk &&
        info.CompressionId() == static_cast<int>(log::Compression::kZstd)) {
      return {ErrorCode::kUnsupportedCompressionType, "zstd needs a produce of version 7"};
    }
    // What cannot even begin a batch is not counted (as in Kafka).
    if (static_cast<int64_t>(records.size()) - log::BatchBytes(records) >=
        static_cast<int64_t>(log::kBatchPrefixBytes)) {
      return {ErrorCode::kInvalidRecord, "a produce may hold only one record batch a partition"};
    }
    return {};
  }

  // R23: begins READ_ONLY_TOPIC: and names topic, mirror and source.
  std::string ReadOnlyText(const TopicImage& topic) const {
    const MirrorLink link = MirrorLinkOf(topic);
    std::string source = "its source";
    if (const auto mirror = image_->mirrors.find(link.mirror); mirror != image_->mirrors.end()) {
      const auto servers = mirror->second.find("bootstrap.servers");
      if (servers != mirror->second.end()) source = servers->second;
    }
    return std::string(protocol::kReadOnlyTopicMessagePrefix) + " topic '" + topic.name +
           "' is a copy kept by mirror '" + link.mirror + "' of " + source +
           "; write to the source, or stop the mirror of this topic first";
  }

  void AddEndpoint(ProduceResponse* response) const {
    const BrokerImage* broker = image_->FindBroker(services_.config->node_id);
    if (broker == nullptr) return;
    const HostPort address = EndpointFor(*broker, request_.connection());
    response->node_endpoints.push_back(
        {broker->id, address.host, address.port,
         broker->rack.empty() ? std::nullopt : std::optional(broker->rack)});
  }

  Services& services_;
  ServedRequest& request_;
  const ProduceRequest& message_;
  const ImagePtr image_;
  Status whole_;  // what is wrong with all of it
  bool failed_ = false;
  bool moved_ = false;  // an answer says where the leader is
};

}  // namespace

void HandleProduce(Services& services, RequestPtr request) {
  ProduceRequest message;
  if (!DecodeRequest(*request, &message)) return;
  ProduceOperation operation(services, *request, message);
  const ProduceResponse response = operation.Run();
  if (message.acks != 0) return request->Answer(response);
  // Nobody waits for an answer; a closed connection is the one way to tell of a failure, as in
  // Kafka.
  if (operation.failed())
    request->Close("a produce with acks 0 failed");
  else
    request->AnswerNothing();
}

void HandleInitProducerId(Services& services, RequestPtr request) {
  protocol::InitProducerIdRequest message;
  if (!DecodeRequest(*request, &message)) return;
  protocol::InitProducerIdResponse response;
  response.producer_epoch = -1;
  if ((message.producer_id == -1) != (message.producer_epoch == -1)) {
    response.error_code = protocol::WireErrorCode(ErrorCode::kInvalidRequest);
    return request->Answer(response);
  }
  if (message.transactional_id) {
    response.error_code = protocol::WireErrorCode(message.transactional_id->empty()
                                                      ? ErrorCode::kInvalidRequest
                                                      : ErrorCode::kCoordinatorNotAvailable);
    return request->Answer(response);
  }
  // One at a time: ids kept back here would not rise with the floor that a stopped mirror sets
  // (R9). The controller reserves them on disk in blocks.
  services.worker->Post([&services, request, response]() mutable {
    const Result<ProducerIdRange> ids = services.controller->AllocateProducerIds(1);
    if (ids.ok()) {
      response.producer_id = ids->begin;
      response.producer_epoch = 0;
    } else {
      // Retriable, unlike the storage error behind it.
      response.error_code = protocol::WireErrorCode(ErrorCode::kCoordinatorLoadInProgress);
      services.log("warn", "no producer ids reason=\"" + ids.status().ToString() +
                               "\" next=\"the client retries\"");
    }
    request->Answer(response);
  });
}

}  // namespace kmirror::broker
