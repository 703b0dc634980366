#include "tools/lab/kafka_reader.h"

#include <librdkafka/rdkafka.h>

#include <algorithm>
#include <map>
#include <memory>

namespace kmirror::lab {
namespace {

template <auto Destroy>
struct Deleter {
  template <typename T>
  void operator()(T* value) const {
    Destroy(value);
  }
};
using Handle = std::unique_ptr<rd_kafka_t, Deleter<rd_kafka_destroy>>;
using Topic = std::unique_ptr<rd_kafka_topic_t, Deleter<rd_kafka_topic_destroy>>;
using Queue = std::unique_ptr<rd_kafka_queue_t, Deleter<rd_kafka_queue_destroy>>;
using Message = std::unique_ptr<rd_kafka_message_t, Deleter<rd_kafka_message_destroy>>;

constexpr int kTimeoutMs = 20'000;

Result<Handle> Consumer(const std::string& bootstrap, bool read_committed) {
  rd_kafka_conf_t* conf = rd_kafka_conf_new();
  char error[512];
  for (const auto& [name, value] : std::map<std::string, std::string>{
           {"bootstrap.servers", bootstrap},
           {"client.id", "kmirror-lab"},
           {"enable.partition.eof", "true"},
           {"check.crcs", "true"},
           {"fetch.wait.max.ms", "50"},
           {"log_level", "2"},
           {"isolation.level", read_committed ? "read_committed" : "read_uncommitted"}}) {
    if (rd_kafka_conf_set(conf, name.c_str(), value.c_str(), error, sizeof error) !=
        RD_KAFKA_CONF_OK) {
      rd_kafka_conf_destroy(conf);
      return {ErrorCode::kInvalidConfig, error};
    }
  }
  rd_kafka_t* handle = rd_kafka_new(RD_KAFKA_CONSUMER, conf, error, sizeof error);
  if (handle == nullptr) {
    rd_kafka_conf_destroy(conf);
    return {ErrorCode::kUnknownServerError, error};
  }
  return Handle(handle);
}

Status Failed(const std::string& what, rd_kafka_resp_err_t error) {
  return {
      error == RD_KAFKA_RESP_ERR__TIMED_OUT ? ErrorCode::kTimedOut : ErrorCode::kUnknownServerError,
      what + ": " + rd_kafka_err2str(error)};
}

Result<std::vector<Bounds>> BoundsOf(rd_kafka_t* handle, const std::string& topic) {
  const Topic named(rd_kafka_topic_new(handle, topic.c_str(), nullptr));
  const struct rd_kafka_metadata* metadata = nullptr;
  rd_kafka_resp_err_t error = rd_kafka_metadata(handle, 0, named.get(), &metadata, kTimeoutMs);
  if (error != RD_KAFKA_RESP_ERR_NO_ERROR) return Failed("metadata of " + topic, error);
  const std::unique_ptr<const struct rd_kafka_metadata, Deleter<rd_kafka_metadata_destroy>> owner(
      metadata);
  if (metadata->topic_cnt != 1 || metadata->topics[0].err != RD_KAFKA_RESP_ERR_NO_ERROR ||
      metadata->topics[0].partition_cnt == 0) {
    return {ErrorCode::kUnknownTopicOrPartition, "there is no topic " + topic};
  }
  std::vector<Bounds> bounds(static_cast<size_t>(metadata->topics[0].partition_cnt));
  for (size_t i = 0; i < bounds.size(); ++i) {
    error = rd_kafka_query_watermark_offsets(handle, topic.c_str(), static_cast<int32_t>(i),
                                             &bounds[i].start, &bounds[i].end, kTimeoutMs);
    if (error != RD_KAFKA_RESP_ERR_NO_ERROR) return Failed("offsets of " + topic, error);
  }
  return bounds;
}

}  // namespace

Result<std::vector<Bounds>> TopicBounds(const std::string& bootstrap, const std::string& topic) {
  const Result<Handle> handle = Consumer(bootstrap, false);
  if (!handle.ok()) return handle.status();
  return BoundsOf(handle->get(), topic);
}

Result<ReadSummary> ReadTopic(const std::string& bootstrap, const std::string& topic,
                              bool read_committed, const std::vector<int64_t>& limits,
                              std::chrono::seconds patience,
                              const std::function<void(ReadRecord)>& each) {
  const Result<Handle> handle = Consumer(bootstrap, read_committed);
  if (!handle.ok()) return handle.status();
  const Result<std::vector<Bounds>> bounds = BoundsOf(handle->get(), topic);
  if (!bounds.ok()) return bounds.status();

  const Topic named(rd_kafka_topic_new(handle->get(), topic.c_str(), nullptr));
  const Queue queue(rd_kafka_queue_new(handle->get()));
  ReadSummary summary;
  summary.positions.resize(bounds->size());
  std::vector<bool> done(bounds->size(), false);
  size_t left = 0;
  for (size_t i = 0; i < bounds->size(); ++i) {
    summary.positions[i] = (*bounds)[i].start;
    const bool wanted = i >= limits.size() || limits[i] > (*bounds)[i].start;
    if ((*bounds)[i].end <= (*bounds)[i].start || !wanted) {
      done[i] = true;
      continue;
    }
    if (rd_kafka_consume_start_queue(named.get(), static_cast<int32_t>(i), (*bounds)[i].start,
                                     queue.get()) != 0) {
      return Failed("read " + topic, rd_kafka_last_error());
    }
    ++left;
  }
  Status status;
  while (left > 0 && status.ok()) {
    const Message message(rd_kafka_consume_queue(
        queue.get(),
        static_cast<int>(std::chrono::duration_cast<std::chrono::milliseconds>(patience).count())));
    if (message == nullptr) {
      status = {ErrorCode::kTimedOut,
                topic + ": nothing came for " + std::to_string(patience.count()) + " s"};
      break;
    }
    const auto index = static_cast<size_t>(message->partition);
    if (message->err != RD_KAFKA_RESP_ERR_NO_ERROR) {
      if (message->err != RD_KAFKA_RESP_ERR__PARTITION_EOF) {
        status = Failed("read " + topic, message->err);
      } else if (index < done.size() && !done[index]) {
        summary.positions[index] = std::max(summary.positions[index], message->offset);
        done[index] = true;
        --left;
      }
      continue;
    }
    if (index >= done.size() || done[index]) continue;
    if (index < limits.size() && message->offset >= limits[index]) {
      done[index] = true;
      --left;
      continue;
    }
    rd_kafka_timestamp_type_t type;
    ReadRecord record;
    record.partition = message->partition;
    record.offset = message->offset;
    record.timestamp_ms = rd_kafka_message_timestamp(message.get(), &type);
    record.key.assign(static_cast<const char*>(message->key), message->key_len);
    record.value.assign(static_cast<const char*>(message->payload), message->len);
    summary.positions[index] = message->offset + 1;
    ++summary.records;
    each(std::move(record));
  }
  for (size_t i = 0; i < bounds->size(); ++i) {
    rd_kafka_consume_stop(named.get(), static_cast<int32_t>(i));
  }
  if (!status.ok()) return status;
  return summary;
}

}  // namespace kmirror::lab
