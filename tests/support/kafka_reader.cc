#include "tests/support/kafka_client.h"
#include "tests/support/rdkafka_call.h"

namespace kmirror::test {
namespace {

using OwnedMessage = Owned<rd_kafka_message_t, rd_kafka_message_destroy>;

std::optional<std::string> Text(const void* bytes, size_t size) {
  if (bytes == nullptr) return std::nullopt;
  return std::string(static_cast<const char*>(bytes), size);
}

ClientRecord ToRecord(const rd_kafka_message_t& message) {
  ClientRecord record;
  record.key = Text(message.key, message.key_len);
  record.value = Text(message.payload, message.len);
  rd_kafka_timestamp_type_t type;
  record.timestamp_ms = rd_kafka_message_timestamp(&message, &type);
  record.offset = message.offset;
  rd_kafka_headers_t* headers = nullptr;
  if (rd_kafka_message_headers(&message, &headers) == RD_KAFKA_RESP_ERR_NO_ERROR) {
    const char* name;
    const void* value;
    size_t size;
    for (size_t i = 0;
         rd_kafka_header_get_all(headers, i, &name, &value, &size) == RD_KAFKA_RESP_ERR_NO_ERROR;
         ++i) {
      record.headers.emplace_back(name, Text(value, size));
    }
  }
  return record;
}

}  // namespace

Result<ReadResult> ReadPartition(const std::string& bootstrap, const std::string& topic,
                                 int32_t partition, const ReadOptions& options) {
  const std::string what = "read " + topic + "-" + std::to_string(partition);
  ClientConfig config = {
      {"group.id", "kmirror-test"},  // librdkafka wants one; nothing is joined or committed
      {"enable.auto.commit", "false"},
      {"enable.partition.eof", "true"},
      {"auto.offset.reset", "error"},
      {"check.crcs", "true"},
      {"isolation.level", options.read_committed ? "read_committed" : "read_uncommitted"},
      {"fetch.wait.max.ms", "100"},
      {"fetch.error.backoff.ms", "20"},
      {"receive.message.max.bytes", "200000000"},
  };
  for (const auto& [name, value] : options.more) config[name] = value;
  const Result<ClientHandle> client = MakeClient(RD_KAFKA_CONSUMER, bootstrap, config);
  if (!client.ok()) return client.status();
  rd_kafka_t* const handle = client->get();
  rd_kafka_poll_set_consumer(handle);

  const OwnedPartitions partitions(rd_kafka_topic_partition_list_new(1));
  rd_kafka_topic_partition_list_add(partitions.get(), topic.c_str(), partition)->offset =
      options.from_offset;
  Status status = ToStatus(rd_kafka_assign(handle, partitions.get()), what);
  if (!status.ok()) return status;

  ReadResult result;
  result.next_offset = options.from_offset;
  const Deadline deadline(options.patience);
  bool at_end = false;
  while (options.count > 0 ? result.records.size() < options.count : !at_end) {
    const OwnedMessage message(rd_kafka_consumer_poll(handle, 50));
    if (message != nullptr && message->err == RD_KAFKA_RESP_ERR_NO_ERROR) {
      result.records.push_back(ToRecord(*message));
      result.next_offset = message->offset + 1;
    } else if (message != nullptr && message->err == RD_KAFKA_RESP_ERR__PARTITION_EOF) {
      at_end = true;
      result.next_offset = message->offset;  // control batches and aborted records are behind it
    } else if (message != nullptr && message->err == RD_KAFKA_RESP_ERR__AUTO_OFFSET_RESET) {
      // What librdkafka makes of OFFSET_OUT_OF_RANGE when it may not choose another offset.
      status = {ErrorCode::kOffsetOutOfRange, what + ": " + rd_kafka_message_errstr(message.get())};
      break;
    } else if (message != nullptr && message->err == RD_KAFKA_RESP_ERR__BAD_MSG) {
      status = {ErrorCode::kCorruptMessage, what + ": " + rd_kafka_message_errstr(message.get())};
      break;
    } else if (message != nullptr) {
      status = ToStatus(message->err, what);  // passing trouble: shown if the deadline passes
    }
    if (deadline.Passed()) {
      status = {ErrorCode::kTimedOut, what + ": " + std::to_string(result.records.size()) +
                                          " records by the deadline, " + status.ToString()};
      break;
    }
    if (message != nullptr && message->err == RD_KAFKA_RESP_ERR_NO_ERROR) status = {};
  }
  rd_kafka_consumer_close(handle);
  const bool complete = options.count > 0 ? result.records.size() >= options.count : at_end;
  if (!complete) return status;
  return result;
}

}  // namespace kmirror::test
