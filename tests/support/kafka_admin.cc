#include <algorithm>
#include <array>

#include "tests/support/kafka_client.h"
#include "tests/support/rdkafka_call.h"

namespace kmirror::test {
namespace {

using OwnedNewTopic = Owned<rd_kafka_NewTopic_t, rd_kafka_NewTopic_destroy>;
using OwnedDeleteTopic = Owned<rd_kafka_DeleteTopic_t, rd_kafka_DeleteTopic_destroy>;
using OwnedNewPartitions = Owned<rd_kafka_NewPartitions_t, rd_kafka_NewPartitions_destroy>;
using OwnedDeleteRecords = Owned<rd_kafka_DeleteRecords_t, rd_kafka_DeleteRecords_destroy>;
using OwnedAdminOptions = Owned<rd_kafka_AdminOptions_t, rd_kafka_AdminOptions_destroy>;

OwnedAdminOptions MakeOptions(rd_kafka_t* client, rd_kafka_admin_op_t op) {
  OwnedAdminOptions options(rd_kafka_AdminOptions_new(client, op));
  char error[256];
  rd_kafka_AdminOptions_set_request_timeout(options.get(), CallPatienceMs(), error, sizeof error);
  if (op != RD_KAFKA_ADMIN_OP_ANY) {
    rd_kafka_AdminOptions_set_operation_timeout(options.get(), CallPatienceMs(), error,
                                                sizeof error);
  }
  return options;
}

// Waits for the one answer of an admin call.
Result<OwnedEvent> Answer(rd_kafka_queue_t* queue, const std::string& what) {
  OwnedEvent event(rd_kafka_queue_poll(queue, CallPatienceMs() + 1000));
  if (event == nullptr) return {ErrorCode::kTimedOut, what + ": no answer"};
  if (rd_kafka_event_error(event.get()) != RD_KAFKA_RESP_ERR_NO_ERROR) {
    const char* text = rd_kafka_event_error_string(event.get());
    return ToStatus(rd_kafka_event_error(event.get()), what).WithContext(text);
  }
  return event;
}

Status TopicStatus(const rd_kafka_topic_result_t** results, size_t count, const std::string& what) {
  if (count != 1) return {ErrorCode::kUnknownServerError, what + ": not one answer"};
  const char* text = rd_kafka_topic_result_error_string(results[0]);
  const Status status = ToStatus(rd_kafka_topic_result_error(results[0]), what);
  return text != nullptr ? status.WithContext(text) : status;
}

}  // namespace

Result<AdminClient> AdminClient::Connect(const std::string& bootstrap, ClientConfig config) {
  Result<ClientHandle> handle = MakeClient(RD_KAFKA_CONSUMER, bootstrap, config);
  if (!handle.ok()) return handle.status();
  AdminClient admin;
  admin.handle_ = std::move(handle).value();
  return admin;
}

Status AdminClient::CreateTopic(const std::string& topic, int partitions,
                                const ClientConfig& configs, int replication) {
  const std::string what = "create topic " + topic;
  char error[256];
  OwnedNewTopic request(
      rd_kafka_NewTopic_new(topic.c_str(), partitions, replication, error, sizeof error));
  if (request == nullptr) return {ErrorCode::kInvalidTopic, what + ": " + error};
  for (const auto& [name, value] : configs) {
    rd_kafka_NewTopic_set_config(request.get(), name.c_str(), value.c_str());
  }
  const OwnedQueue queue(rd_kafka_queue_new(handle_.get()));
  rd_kafka_NewTopic_t* requests[] = {request.get()};
  rd_kafka_CreateTopics(handle_.get(), requests, 1,
                        MakeOptions(handle_.get(), RD_KAFKA_ADMIN_OP_CREATETOPICS).get(),
                        queue.get());
  const Result<OwnedEvent> event = Answer(queue.get(), what);
  if (!event.ok()) return event.status();
  size_t count = 0;
  const rd_kafka_topic_result_t** results =
      rd_kafka_CreateTopics_result_topics(rd_kafka_event_CreateTopics_result(event->get()), &count);
  if (Status status = TopicStatus(results, count, what); !status.ok()) return status;

  Status last;
  const bool shown = WaitUntil([&] {
    const Result<std::vector<Topic>> topics = Topics();
    last = topics.status();
    return topics.ok() && std::ranges::any_of(*topics, [&](const Topic& found) {
             return found.name == topic &&
                    found.leaders.size() == static_cast<size_t>(partitions) &&
                    std::ranges::find(found.leaders, -1) == found.leaders.end();
           });
  });
  if (shown) return {};
  return {ErrorCode::kTimedOut, what + ": not all partitions have a leader " + last.ToString()};
}

Status AdminClient::DeleteTopic(const std::string& topic) {
  const std::string what = "delete topic " + topic;
  const OwnedDeleteTopic request(rd_kafka_DeleteTopic_new(topic.c_str()));
  const OwnedQueue queue(rd_kafka_queue_new(handle_.get()));
  rd_kafka_DeleteTopic_t* requests[] = {request.get()};
  rd_kafka_DeleteTopics(handle_.get(), requests, 1,
                        MakeOptions(handle_.get(), RD_KAFKA_ADMIN_OP_DELETETOPICS).get(),
                        queue.get());
  const Result<OwnedEvent> event = Answer(queue.get(), what);
  if (!event.ok()) return event.status();
  size_t count = 0;
  const rd_kafka_topic_result_t** results =
      rd_kafka_DeleteTopics_result_topics(rd_kafka_event_DeleteTopics_result(event->get()), &count);
  return TopicStatus(results, count, what);
}

Status AdminClient::CreatePartitions(const std::string& topic, int total) {
  const std::string what = "create partitions of " + topic;
  char error[256];
  const OwnedNewPartitions request(
      rd_kafka_NewPartitions_new(topic.c_str(), static_cast<size_t>(total), error, sizeof error));
  if (request == nullptr) return {ErrorCode::kInvalidPartitions, what + ": " + error};
  const OwnedQueue queue(rd_kafka_queue_new(handle_.get()));
  rd_kafka_NewPartitions_t* requests[] = {request.get()};
  rd_kafka_CreatePartitions(handle_.get(), requests, 1,
                            MakeOptions(handle_.get(), RD_KAFKA_ADMIN_OP_CREATEPARTITIONS).get(),
                            queue.get());
  const Result<OwnedEvent> event = Answer(queue.get(), what);
  if (!event.ok()) return event.status();
  size_t count = 0;
  const rd_kafka_topic_result_t** results = rd_kafka_CreatePartitions_result_topics(
      rd_kafka_event_CreatePartitions_result(event->get()), &count);
  return TopicStatus(results, count, what);
}

Status AdminClient::DeleteRecords(const std::string& topic, int32_t partition, int64_t offset) {
  const std::string what = "delete records of " + topic;
  const OwnedPartitions partitions(rd_kafka_topic_partition_list_new(1));
  rd_kafka_topic_partition_list_add(partitions.get(), topic.c_str(), partition)->offset =
      offset == -1 ? RD_KAFKA_OFFSET_END : offset;
  const OwnedDeleteRecords request(rd_kafka_DeleteRecords_new(partitions.get()));
  const OwnedQueue queue(rd_kafka_queue_new(handle_.get()));
  rd_kafka_DeleteRecords_t* requests[] = {request.get()};
  rd_kafka_DeleteRecords(handle_.get(), requests, 1,
                         MakeOptions(handle_.get(), RD_KAFKA_ADMIN_OP_DELETERECORDS).get(),
                         queue.get());
  const Result<OwnedEvent> event = Answer(queue.get(), what);
  if (!event.ok()) return event.status();
  const rd_kafka_topic_partition_list_t* answers =
      rd_kafka_DeleteRecords_result_offsets(rd_kafka_event_DeleteRecords_result(event->get()));
  if (answers->cnt != 1) return {ErrorCode::kUnknownServerError, what + ": not one answer"};
  return ToStatus(answers->elems[0].err, what);
}

Result<std::vector<AdminClient::Topic>> AdminClient::Topics() {
  const rd_kafka_metadata_t* raw = nullptr;
  const rd_kafka_resp_err_t code =
      rd_kafka_metadata(handle_.get(), 1, nullptr, &raw, CallPatienceMs());
  if (code != RD_KAFKA_RESP_ERR_NO_ERROR) return ToStatus(code, "metadata");
  const Owned<const rd_kafka_metadata_t, rd_kafka_metadata_destroy> metadata(raw);
  std::vector<Topic> topics;
  for (int i = 0; i < metadata->topic_cnt; ++i) {
    const rd_kafka_metadata_topic_t& from = metadata->topics[i];
    Topic& topic = topics.emplace_back();
    topic.name = from.topic;
    topic.leaders.assign(static_cast<size_t>(from.partition_cnt), -1);
    for (int p = 0; p < from.partition_cnt; ++p) {
      const rd_kafka_metadata_partition_t& partition = from.partitions[p];
      if (partition.id >= 0 && partition.id < from.partition_cnt) {
        topic.leaders[static_cast<size_t>(partition.id)] = partition.leader;
      }
    }
  }
  return topics;
}

Result<std::string> AdminClient::ClusterId() {
  char* id = rd_kafka_clusterid(handle_.get(), CallPatienceMs());
  if (id == nullptr) return {ErrorCode::kTimedOut, "cluster id: no answer"};
  std::string text = id;
  rd_kafka_mem_free(handle_.get(), id);
  return text;
}

Result<AdminClient::Watermarks> AdminClient::QueryWatermarks(const std::string& topic,
                                                             int32_t partition) {
  Watermarks marks;
  const rd_kafka_resp_err_t code = rd_kafka_query_watermark_offsets(
      handle_.get(), topic.c_str(), partition, &marks.low, &marks.high, CallPatienceMs());
  if (code != RD_KAFKA_RESP_ERR_NO_ERROR) return ToStatus(code, "watermarks of " + topic);
  return marks;
}

Result<int64_t> AdminClient::OffsetForTime(const std::string& topic, int32_t partition,
                                           int64_t timestamp_ms) {
  const OwnedPartitions partitions(rd_kafka_topic_partition_list_new(1));
  rd_kafka_topic_partition_t* entry =
      rd_kafka_topic_partition_list_add(partitions.get(), topic.c_str(), partition);
  entry->offset = timestamp_ms;
  rd_kafka_resp_err_t code =
      rd_kafka_offsets_for_times(handle_.get(), partitions.get(), CallPatienceMs());
  if (code == RD_KAFKA_RESP_ERR_NO_ERROR) code = entry->err;
  if (code != RD_KAFKA_RESP_ERR_NO_ERROR) return ToStatus(code, "offset for time of " + topic);
  return entry->offset == RD_KAFKA_OFFSET_END ? -1 : entry->offset;
}

}  // namespace kmirror::test
