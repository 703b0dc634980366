// Carries out the calls of tests/clients/README.md with the librdkafka of the system.

#include <openssl/evp.h>

#include <iostream>
#include <sstream>

#include "tests/support/kafka_client.h"
#include "tests/support/rdkafka_call.h"

namespace kmirror::test {
namespace {

using Fields = std::vector<std::string>;
using OwnedMessage = Owned<rd_kafka_message_t, rd_kafka_message_destroy>;
using OwnedTopic = Owned<rd_kafka_topic_t, rd_kafka_topic_destroy>;
using OwnedConfigs = Owned<rd_kafka_ConfigResource_t, rd_kafka_ConfigResource_destroy>;
using OwnedOptions = Owned<rd_kafka_AdminOptions_t, rd_kafka_AdminOptions_destroy>;

constexpr const char* kNull = "~";
// What a call that the library does not have ends with.
constexpr auto kUnsupported = static_cast<ErrorCode>(-9999);

Fields Split(const std::string& text, char at) {
  Fields parts;
  size_t begin = 0;
  for (size_t end; (end = text.find(at, begin)) != std::string::npos; begin = end + 1) {
    parts.push_back(text.substr(begin, end - begin));
  }
  parts.push_back(text.substr(begin));
  return parts;
}

std::string Join(const Fields& parts, const char* between) {
  std::string all;
  for (size_t i = 0; i < parts.size(); ++i) all += (i > 0 ? between : "") + parts[i];
  return all;
}

std::string Encode(const std::optional<std::string>& data) {
  if (!data) return kNull;
  std::string text((data->size() + 2) / 3 * 4 + 1, '\0');
  const int size = EVP_EncodeBlock(reinterpret_cast<uint8_t*>(text.data()),
                                   reinterpret_cast<const uint8_t*>(data->data()),
                                   static_cast<int>(data->size()));
  text.resize(static_cast<size_t>(size));
  return text;
}

std::optional<std::string> Decode(const std::string& text) {
  if (text == kNull) return std::nullopt;
  std::string data(text.size(), '\0');
  const int size =
      EVP_DecodeBlock(reinterpret_cast<uint8_t*>(data.data()),
                      reinterpret_cast<const uint8_t*>(text.data()), static_cast<int>(text.size()));
  size_t padding = 0;
  while (padding < 2 && padding < text.size() && text[text.size() - 1 - padding] == '=') ++padding;
  data.resize(size < 0 ? 0 : static_cast<size_t>(size) - padding);
  return data;
}

ClientRecord DecodeRecord(const std::string& field) {
  const Fields parts = Split(field, ';');
  ClientRecord record{Decode(parts[1]), Decode(parts[2]), {}, 0};
  if (parts[0] != kNull) record.timestamp_ms = std::stoll(parts[0]);
  if (parts[3].empty()) return record;
  for (const std::string& header : Split(parts[3], ',')) {
    const Fields pair = Split(header, ':');
    record.headers.emplace_back(Decode(pair[0]).value_or(""), Decode(pair[1]));
  }
  return record;
}

std::optional<std::string> Bytes(const void* data, size_t size) {
  if (data == nullptr) return std::nullopt;
  return std::string(static_cast<const char*>(data), size);
}

// Offset, timestamp type and record, as one row.
std::string Show(const rd_kafka_message_t& message) {
  Fields shown;
  rd_kafka_headers_t* headers = nullptr;
  const char* name;
  const void* value;
  size_t size;
  if (rd_kafka_message_headers(&message, &headers) == RD_KAFKA_RESP_ERR_NO_ERROR) {
    for (size_t i = 0;
         rd_kafka_header_get_all(headers, i, &name, &value, &size) == RD_KAFKA_RESP_ERR_NO_ERROR;
         ++i) {
      shown.push_back(Encode(name) + ":" + Encode(Bytes(value, size)));
    }
  }
  rd_kafka_timestamp_type_t type;
  const int64_t timestamp = rd_kafka_message_timestamp(&message, &type);
  const Fields record = {std::to_string(timestamp), Encode(Bytes(message.key, message.key_len)),
                         Encode(Bytes(message.payload, message.len)), Join(shown, ",")};
  const int type_number = type == RD_KAFKA_TIMESTAMP_LOG_APPEND_TIME ? 1 : 0;
  return std::to_string(message.offset) + "\t" + std::to_string(type_number) + "\t" +
         Join(record, ";");
}

std::string Ids(const int32_t* ids, int count) {
  Fields parts;
  for (int i = 0; i < count; ++i) parts.push_back(std::to_string(ids[i]));
  return Join(parts, ",");
}

std::map<std::string, std::string> Settings(const Fields& fields, size_t from) {
  std::map<std::string, std::string> all;
  for (size_t i = from; i < fields.size(); ++i) {
    const size_t equals = fields[i].find('=');
    all[fields[i].substr(0, equals)] = fields[i].substr(equals + 1);
  }
  return all;
}

class Driver {
 public:
  // Rows of the answer are left in `rows`.
  Status CarryOut(const Fields& call, Fields& rows);

 private:
  Status Connect(const std::string& bootstrap);
  Status Cluster(Fields& rows);
  Status CreateTopic(const Fields& call);
  Status DescribeTopic(const std::string& name, Fields& rows);
  Status DescribeConfigs(const std::string& type, const std::string& name, Fields& rows);
  Status ReplaceConfigs(const Fields& call);
  Status DeleteRecords(const Fields& call, Fields& rows);
  Status Offset(const Fields& call, Fields& rows);
  Status Produce(const Fields& call, Fields& rows);
  Status Transaction(const Fields& call);
  Status Open(const Fields& call);
  Status Seek(const std::string& where);
  Status Read(size_t count, Seconds patience, bool all, Fields& rows);
  void Close();

  std::string bootstrap_;
  std::optional<AdminClient> admin_;
  ClientHandle client_;  // for what AdminClient does not have
  ClientHandle consumer_;
  std::string topic_;
  int32_t partition_ = 0;
  bool assigned_ = false;
};

Status Driver::CarryOut(const Fields& call, Fields& rows) {
  const std::string& verb = call[0];
  if (verb == "hello") {
    rows.push_back(std::string("librdkafka\t") + rd_kafka_version_str());
    return {};
  }
  if (verb == "connect") return Connect(call[1]);
  if (verb == "cluster") return Cluster(rows);
  if (verb == "list_topics") {
    const auto topics = admin_->Topics();
    if (!topics.ok()) return topics.status();
    for (const auto& topic : *topics) rows.push_back(topic.name);
    return {};
  }
  if (verb == "create_topic") return CreateTopic(call);
  if (verb == "delete_topic") return admin_->DeleteTopic(call[1]);
  if (verb == "describe_topic") return DescribeTopic(call[1], rows);
  if (verb == "describe_configs") return DescribeConfigs(call[1], call[2], rows);
  if (verb == "replace_configs") return ReplaceConfigs(call);
  if (verb == "create_partitions") return admin_->CreatePartitions(call[1], std::stoi(call[2]));
  if (verb == "delete_records") return DeleteRecords(call, rows);
  if (verb == "offset") return Offset(call, rows);
  if (verb == "produce") return Produce(call, rows);
  if (verb == "transaction") return Transaction(call);
  if (verb == "open") return Open(call);
  if (verb == "seek") return Seek(call[1]);
  if (verb == "read") return Read(std::stoul(call[1]), kCallPatience, false, rows);
  if (verb == "poll") return Read(0, Seconds(std::stod(call[1]) / 1000), true, rows);
  if (verb == "close") {
    Close();
    return {};
  }
  return {kUnsupported, verb};
}

Status Driver::Connect(const std::string& bootstrap) {
  bootstrap_ = bootstrap;
  auto admin = AdminClient::Connect(bootstrap);
  if (!admin.ok()) return admin.status();
  admin_ = std::move(*admin);
  auto client = MakeClient(RD_KAFKA_CONSUMER, bootstrap, {});
  if (!client.ok()) return client.status();
  client_ = std::move(*client);
  return {};
}

Status Driver::Cluster(Fields& rows) {
  const auto id = admin_->ClusterId();
  if (!id.ok()) return id.status();
  const int32_t controller = rd_kafka_controllerid(client_.get(), CallPatienceMs());
  rows.push_back(*id + "\t" + std::to_string(controller));
  const struct rd_kafka_metadata* found = nullptr;
  const Status status =
      ToStatus(rd_kafka_metadata(client_.get(), 0, nullptr, &found, CallPatienceMs()), "metadata");
  if (!status.ok()) return status;
  for (int i = 0; i < found->broker_cnt; ++i) {
    const rd_kafka_metadata_broker& broker = found->brokers[i];
    rows.push_back(std::to_string(broker.id) + "\t" + broker.host + "\t" +
                   std::to_string(broker.port));
  }
  rd_kafka_metadata_destroy(found);
  return {};
}

Status Driver::CreateTopic(const Fields& call) {
  return admin_->CreateTopic(call[1], std::stoi(call[2]), Settings(call, 4), std::stoi(call[3]));
}

Status Driver::DescribeTopic(const std::string& name, Fields& rows) {
  const OwnedTopic topic(rd_kafka_topic_new(client_.get(), name.c_str(), nullptr));
  const struct rd_kafka_metadata* found = nullptr;
  Status status = ToStatus(
      rd_kafka_metadata(client_.get(), 0, topic.get(), &found, CallPatienceMs()), "metadata");
  if (!status.ok()) return status;
  for (int i = 0; i < found->topic_cnt; ++i) {
    const rd_kafka_metadata_topic& one = found->topics[i];
    status = ToStatus(one.err, "topic " + name);
    for (int p = 0; p < one.partition_cnt; ++p) {
      const rd_kafka_metadata_partition& part = one.partitions[p];
      rows.push_back(Join({std::to_string(part.id), std::to_string(part.leader),
                           Ids(part.replicas, part.replica_cnt), Ids(part.isrs, part.isr_cnt)},
                          "\t"));
    }
  }
  rd_kafka_metadata_destroy(found);
  return status;
}

Status Driver::DescribeConfigs(const std::string& type, const std::string& name, Fields& rows) {
  const OwnedConfigs resource(rd_kafka_ConfigResource_new(
      type == "topic" ? RD_KAFKA_RESOURCE_TOPIC : RD_KAFKA_RESOURCE_BROKER, name.c_str()));
  rd_kafka_ConfigResource_t* resources[] = {resource.get()};
  const OwnedQueue queue(rd_kafka_queue_new(client_.get()));
  const OwnedOptions options(
      rd_kafka_AdminOptions_new(client_.get(), RD_KAFKA_ADMIN_OP_DESCRIBECONFIGS));
  rd_kafka_DescribeConfigs(client_.get(), resources, 1, options.get(), queue.get());
  const OwnedEvent event(rd_kafka_queue_poll(queue.get(), CallPatienceMs()));
  if (event == nullptr) return {ErrorCode::kTimedOut, "no answer"};
  Status status = ToStatus(rd_kafka_event_error(event.get()), "describe configs");
  if (!status.ok()) return status;
  size_t count = 0;
  const rd_kafka_ConfigResource_t** found = rd_kafka_DescribeConfigs_result_resources(
      rd_kafka_event_DescribeConfigs_result(event.get()), &count);
  if (count != 1) return {ErrorCode::kMalformed, "not one answer"};
  status = ToStatus(rd_kafka_ConfigResource_error(found[0]), "configs of " + name);
  if (!status.ok()) return status;
  const rd_kafka_ConfigEntry_t** entries = rd_kafka_ConfigResource_configs(found[0], &count);
  for (size_t i = 0; i < count; ++i) {
    const char* value = rd_kafka_ConfigEntry_value(entries[i]);
    rows.push_back(
        Join({rd_kafka_ConfigEntry_name(entries[i]),
              Encode(value == nullptr ? std::nullopt : std::optional<std::string>(value)),
              std::to_string(rd_kafka_ConfigEntry_source(entries[i])),
              std::to_string(rd_kafka_ConfigEntry_is_read_only(entries[i]))},
             "\t"));
  }
  return {};
}

Status Driver::ReplaceConfigs(const Fields& call) {
  const OwnedConfigs resource(
      rd_kafka_ConfigResource_new(RD_KAFKA_RESOURCE_TOPIC, call[1].c_str()));
  for (const auto& [key, value] : Settings(call, 2)) {
    rd_kafka_ConfigResource_set_config(resource.get(), key.c_str(), value.c_str());
  }
  rd_kafka_ConfigResource_t* resources[] = {resource.get()};
  const OwnedQueue queue(rd_kafka_queue_new(client_.get()));
  const OwnedOptions options(
      rd_kafka_AdminOptions_new(client_.get(), RD_KAFKA_ADMIN_OP_ALTERCONFIGS));
  rd_kafka_AlterConfigs(client_.get(), resources, 1, options.get(), queue.get());
  const OwnedEvent event(rd_kafka_queue_poll(queue.get(), CallPatienceMs()));
  if (event == nullptr) return {ErrorCode::kTimedOut, "no answer"};
  const Status status = ToStatus(rd_kafka_event_error(event.get()), "alter configs");
  if (!status.ok()) return status;
  size_t count = 0;
  const rd_kafka_ConfigResource_t** found = rd_kafka_AlterConfigs_result_resources(
      rd_kafka_event_AlterConfigs_result(event.get()), &count);
  if (count != 1) return {ErrorCode::kMalformed, "not one answer"};
  return ToStatus(rd_kafka_ConfigResource_error(found[0]), "configs of " + call[1]);
}

Status Driver::DeleteRecords(const Fields& call, Fields& rows) {
  const int32_t partition = std::stoi(call[2]);
  const Status status = admin_->DeleteRecords(call[1], partition, std::stoll(call[3]));
  if (!status.ok()) return status;
  const auto marks = admin_->QueryWatermarks(call[1], partition);
  if (marks.ok()) rows.push_back(std::to_string(marks->low));
  return marks.status();
}

Status Driver::Offset(const Fields& call, Fields& rows) {
  const int32_t partition = std::stoi(call[2]);
  if (call[3] != "earliest" && call[3] != "latest") {
    const auto offset = admin_->OffsetForTime(call[1], partition, std::stoll(call[3]));
    if (offset.ok()) rows.push_back(std::to_string(*offset));
    return offset.status();
  }
  auto asking = AdminClient::Connect(bootstrap_, {{"isolation.level", call[4]}});
  if (!asking.ok()) return asking.status();
  const auto marks = asking->QueryWatermarks(call[1], partition);
  if (marks.ok()) rows.push_back(std::to_string(call[3] == "earliest" ? marks->low : marks->high));
  return marks.status();
}

const ClientConfig kMoreOfProducers = {{"message.timeout.ms", "30000"},
                                       {"topic.metadata.propagation.max.ms", "3000"}};

std::vector<ClientRecord> Records(const Fields& call, size_t from) {
  std::vector<ClientRecord> records;
  for (size_t i = from; i < call.size(); ++i) records.push_back(DecodeRecord(call[i]));
  return records;
}

Status Driver::Produce(const Fields& call, Fields& rows) {
  const auto options = Settings(Split(call[3], ','), 0);
  auto producer = Producer::Connect(bootstrap_, {.codec = options.at("codec"),
                                                 .acks = options.at("acks"),
                                                 .linger_ms = 20,
                                                 .idempotent = options.at("idempotent") == "1",
                                                 .more = kMoreOfProducers});
  if (!producer.ok()) return producer.status();
  const auto offsets = producer->Send(call[1], std::stoi(call[2]), Records(call, 4));
  if (!offsets.ok()) return offsets.status();
  for (const int64_t offset : *offsets) rows.push_back(std::to_string(offset));
  return {};
}

Status Driver::Transaction(const Fields& call) {
  auto producer = Producer::Connect(
      bootstrap_, {.transactional_id = call[3], .more = {{"transaction.timeout.ms", "30000"}}});
  if (!producer.ok()) return producer.status();
  if (Status status = producer->Begin(); !status.ok()) return status;
  const auto sent = producer->Send(call[1], std::stoi(call[2]), Records(call, 5));
  if (!sent.ok()) return sent.status();
  return call[4] == "commit" ? producer->Commit() : producer->Abort();
}

Status Driver::Open(const Fields& call) {
  Close();
  topic_ = call[1];
  partition_ = std::stoi(call[2]);
  auto consumer = MakeClient(RD_KAFKA_CONSUMER, bootstrap_,
                             {{"group.id", "not-a-group"},  // it wants one; nothing is joined
                              {"enable.auto.commit", "false"},
                              {"auto.offset.reset", call[4] == "none" ? "error" : call[4]},
                              {"isolation.level", call[3]},
                              {"check.crcs", "true"}});
  if (!consumer.ok()) return consumer.status();
  consumer_ = std::move(*consumer);
  rd_kafka_poll_set_consumer(consumer_.get());
  return {};
}

Status Driver::Seek(const std::string& where) {
  const OwnedPartitions partitions(rd_kafka_topic_partition_list_new(1));
  rd_kafka_topic_partition_list_add(partitions.get(), topic_.c_str(), partition_)->offset =
      where == "begin" ? RD_KAFKA_OFFSET_BEGINNING
      : where == "end" ? RD_KAFKA_OFFSET_END
                       : std::stoll(where);
  if (!assigned_) {
    assigned_ = true;
    return ToStatus(rd_kafka_assign(consumer_.get(), partitions.get()), "assign");
  }
  return ToStatus(rd_kafka_seek_partitions(consumer_.get(), partitions.get(), CallPatienceMs()),
                  "seek");
}

// `count` records, or with `all` what comes within the time.
Status Driver::Read(size_t count, Seconds patience, bool all, Fields& rows) {
  const Deadline deadline(patience);
  while (all || rows.size() < count) {
    if (deadline.Passed()) {
      if (all) return {};
      return {ErrorCode::kTimedOut, std::to_string(rows.size()) + " records came"};
    }
    const OwnedMessage message(rd_kafka_consumer_poll(consumer_.get(), 20));
    if (message == nullptr) continue;
    if (message->err == RD_KAFKA_RESP_ERR__AUTO_OFFSET_RESET) {
      // What it makes of OFFSET_OUT_OF_RANGE when it may not choose another offset.
      return {ErrorCode::kOffsetOutOfRange, rd_kafka_message_errstr(message.get())};
    }
    if (message->err != RD_KAFKA_RESP_ERR_NO_ERROR) return ToStatus(message->err, "read");
    rows.push_back(Show(*message));
  }
  return {};
}

void Driver::Close() {
  if (consumer_.get() != nullptr) rd_kafka_consumer_close(consumer_.get());
  consumer_ = ClientHandle();
  assigned_ = false;
}

std::string OneLine(std::string text) {
  for (char& c : text) {
    if (c == '\n' || c == '\t' || c == '\r') c = ' ';
  }
  return text;
}

}  // namespace
}  // namespace kmirror::test

int main() {
  using namespace kmirror::test;
  std::ios::sync_with_stdio(false);
  Driver driver;
  for (std::string line; std::getline(std::cin, line);) {
    Fields rows;
    const kmirror::Status status = driver.CarryOut(Split(line, '\t'), rows);
    if (status.ok()) {
      for (const std::string& row : rows) std::cout << "row\t" << row << "\n";
      std::cout << "ok" << std::endl;
    } else if (status.code() == kUnsupported) {
      std::cout << "unsupported" << std::endl;
    } else {
      std::cout << "error\t" << static_cast<int>(status.code()) << "\t"
                << OneLine(status.ToString()) << std::endl;
    }
  }
  return 0;
}
