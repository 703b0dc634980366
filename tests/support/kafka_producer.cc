#include "tests/support/kafka_client.h"
#include "tests/support/rdkafka_call.h"

namespace kmirror::test {
namespace {

// What became of one record; the message's opaque points to it.
struct Delivery {
  bool done = false;
  rd_kafka_resp_err_t error = RD_KAFKA_RESP_ERR_NO_ERROR;
  int64_t offset = -1;
};

void OnDelivery(rd_kafka_t*, const rd_kafka_message_t* message, void*) {
  auto* delivery = static_cast<Delivery*>(message->_private);
  if (delivery == nullptr) return;
  delivery->done = true;
  delivery->error = message->err;
  delivery->offset = message->offset;
}

// Null and empty are told apart by the pointer.
void* Bytes(const std::optional<std::string>& text) {
  return text ? const_cast<char*>(text->data()) : nullptr;
}
size_t Size(const std::optional<std::string>& text) { return text ? text->size() : 0; }

rd_kafka_resp_err_t Enqueue(rd_kafka_t* client, const std::string& topic, int32_t partition,
                            const ClientRecord& record, Delivery* delivery) {
  rd_kafka_headers_t* headers = rd_kafka_headers_new(record.headers.size());
  for (const auto& [name, value] : record.headers) {
    rd_kafka_header_add(headers, name.data(), static_cast<ssize_t>(name.size()), Bytes(value),
                        static_cast<ssize_t>(Size(value)));
  }
  const rd_kafka_resp_err_t code = rd_kafka_producev(
      client, RD_KAFKA_V_TOPIC(topic.c_str()), RD_KAFKA_V_PARTITION(partition),
      RD_KAFKA_V_MSGFLAGS(RD_KAFKA_MSG_F_COPY), RD_KAFKA_V_KEY(Bytes(record.key), Size(record.key)),
      RD_KAFKA_V_VALUE(Bytes(record.value), Size(record.value)),
      RD_KAFKA_V_TIMESTAMP(record.timestamp_ms), RD_KAFKA_V_HEADERS(headers),
      RD_KAFKA_V_OPAQUE(delivery), RD_KAFKA_V_END);
  if (code != RD_KAFKA_RESP_ERR_NO_ERROR) rd_kafka_headers_destroy(headers);
  return code;
}

}  // namespace

Result<Producer> Producer::Connect(const std::string& bootstrap, const Options& options) {
  ClientConfig config = {
      {"compression.codec", options.codec},
      {"acks", options.acks},
      {"linger.ms", std::to_string(options.linger_ms)},
      {"enable.idempotence", options.idempotent ? "true" : "false"},
      {"message.max.bytes", "20000000"},
  };
  if (options.batch_records_max > 0) {
    config["batch.num.messages"] = std::to_string(options.batch_records_max);
  }
  if (options.batch_bytes_max > 0) config["batch.size"] = std::to_string(options.batch_bytes_max);
  if (!options.transactional_id.empty()) {
    config["transactional.id"] = options.transactional_id;
    config["enable.idempotence"] = "true";
  }
  for (const auto& [name, value] : options.more) config[name] = value;

  Result<ClientHandle> handle = MakeClient(RD_KAFKA_PRODUCER, bootstrap, config, OnDelivery);
  if (!handle.ok()) return handle.status();
  Producer producer;
  producer.handle_ = std::move(handle).value();
  if (config.contains("transactional.id")) {
    const Status status = ToStatus(
        rd_kafka_init_transactions(producer.handle_.get(), CallPatienceMs()), "init transactions");
    if (!status.ok()) return status;
  }
  return producer;
}

Result<std::vector<int64_t>> Producer::Send(const std::string& topic, int32_t partition,
                                            std::span<const ClientRecord> records) {
  const std::string what = "produce to " + topic + "-" + std::to_string(partition);
  std::vector<Delivery> deliveries(records.size());
  const Deadline deadline(kCallPatience * 2);
  for (size_t i = 0; i < records.size(); ++i) {
    rd_kafka_resp_err_t code;
    while ((code = Enqueue(handle_.get(), topic, partition, records[i], &deliveries[i])) ==
               RD_KAFKA_RESP_ERR__QUEUE_FULL &&
           !deadline.Passed()) {
      rd_kafka_poll(handle_.get(), 10);
    }
    if (code != RD_KAFKA_RESP_ERR_NO_ERROR) {
      deliveries[i].done = true;
      deliveries[i].error = code;
    }
    rd_kafka_poll(handle_.get(), 0);
  }
  if (rd_kafka_flush(handle_.get(), static_cast<int>(deadline.Left().count())) !=
      RD_KAFKA_RESP_ERR_NO_ERROR) {
    // The reports point into `deliveries`: call them all back before it goes.
    rd_kafka_purge(handle_.get(), RD_KAFKA_PURGE_F_QUEUE | RD_KAFKA_PURGE_F_INFLIGHT);
    rd_kafka_flush(handle_.get(), CallPatienceMs());
  }
  std::vector<int64_t> offsets;
  offsets.reserve(deliveries.size());
  for (const Delivery& delivery : deliveries) {
    if (!delivery.done) return {ErrorCode::kTimedOut, what + ": no report"};
    if (delivery.error != RD_KAFKA_RESP_ERR_NO_ERROR) return ToStatus(delivery.error, what);
    offsets.push_back(delivery.offset >= 0 ? delivery.offset : -1);
  }
  return offsets;
}

Result<std::vector<int64_t>> Producer::SendNumbered(const std::string& topic, int32_t partition,
                                                    int count, int first) {
  std::vector<ClientRecord> records(static_cast<size_t>(count));
  for (int i = 0; i < count; ++i) {
    records[static_cast<size_t>(i)].key = "k" + std::to_string(first + i);
    records[static_cast<size_t>(i)].value = "v" + std::to_string(first + i);
  }
  return Send(topic, partition, records);
}

Status Producer::Begin() {
  return ToStatus(rd_kafka_begin_transaction(handle_.get()), "begin transaction");
}

Status Producer::Commit() {
  return ToStatus(rd_kafka_commit_transaction(handle_.get(), CallPatienceMs()),
                  "commit transaction");
}

Status Producer::Abort() {
  return ToStatus(rd_kafka_abort_transaction(handle_.get(), CallPatienceMs()), "abort transaction");
}

}  // namespace kmirror::test
