#include "tools/lab/steady_producer.h"

#include <librdkafka/rdkafka.h>
#include <poll.h>
#include <unistd.h>

#include <charconv>
#include <chrono>
#include <fstream>
#include <map>
#include <memory>
#include <optional>
#include <ostream>
#include <set>
#include <vector>

namespace kmirror::lab {
namespace {

using Clock = std::chrono::steady_clock;

class Producer {
 public:
  Producer(const ProduceOptions& options, std::ostream& out)
      : options_(options), out_(out), journal_(options.journal, std::ios::trunc) {}

  ~Producer() { Close(); }

  bool journal_good() const { return journal_.good(); }

  Status Connect(const std::string& bootstrap) {
    rd_kafka_conf_t* conf = rd_kafka_conf_new();
    rd_kafka_conf_set_opaque(conf, this);
    rd_kafka_conf_set_dr_msg_cb(conf, &Producer::OnDelivery);
    char error[512];
    for (const auto& [name, value] :
         std::map<std::string, std::string>{{"bootstrap.servers", bootstrap},
                                            {"client.id", "kmirror-lab-producer"},
                                            {"enable.idempotence", "true"},
                                            {"acks", "all"},
                                            {"linger.ms", "5"},
                                            {"reconnect.backoff.ms", "50"},
                                            {"reconnect.backoff.max.ms", "500"},
                                            {"message.timeout.ms", "300000"},
                                            {"log_level", "0"}}) {
      if (rd_kafka_conf_set(conf, name.c_str(), value.c_str(), error, sizeof error) !=
          RD_KAFKA_CONF_OK) {
        rd_kafka_conf_destroy(conf);
        return {ErrorCode::kInvalidConfig, error};
      }
    }
    handle_ = rd_kafka_new(RD_KAFKA_PRODUCER, conf, error, sizeof error);
    if (handle_ == nullptr) {
      rd_kafka_conf_destroy(conf);
      return {ErrorCode::kUnknownServerError, error};
    }
    topic_ = rd_kafka_topic_new(handle_, options_.topic.c_str(), nullptr);
    connected_at_ = Clock::now();
    first_ack_.reset();
    return {};
  }

  // One record; false when the queue is full (the cluster does not keep up): try later.
  bool SendNext() {
    if (!Send(next_)) return false;
    ++next_;
    return true;
  }

  void Poll(int ms) { rd_kafka_poll(handle_, ms); }

  // Leaves the cluster. What it has not acknowledged is not known to be anywhere.
  void Leave() {
    rd_kafka_purge(handle_, RD_KAFKA_PURGE_F_QUEUE | RD_KAFKA_PURGE_F_INFLIGHT);
    Close();
    ++cluster_;
  }

  void SendAgain() {
    const std::set<int64_t> again = open_;
    open_.clear();
    for (const int64_t number : again) {
      journal_ << "again " << number << '\n';
      while (!Send(number)) Poll(10);
    }
    out_ << "sent again, never acknowledged by the first cluster: " << again.size() << std::endl;
  }

  Status Finish() {
    const auto deadline = Clock::now() + std::chrono::seconds(30);
    while (!open_.empty() && Clock::now() < deadline) Poll(50);
    journal_.flush();
    for (size_t i = 0; i < acked_.size(); ++i) {
      out_ << "cluster " << i << " acknowledged " << acked_[i] << '\n';
    }
    out_ << "not acknowledged at the end: " << open_.size() << std::endl;
    if (!journal_) return {ErrorCode::kIo, options_.journal + " cannot be written"};
    return {};
  }

 private:
  bool Send(int64_t number) {
    std::string value = ValueOf(number, options_.value_bytes);
    const std::string key = "key-" + std::to_string(number % 997);
    const auto opaque = reinterpret_cast<void*>(static_cast<intptr_t>(number));
    if (rd_kafka_produce(topic_, RD_KAFKA_PARTITION_UA, RD_KAFKA_MSG_F_COPY, value.data(),
                         value.size(), key.data(), key.size(), opaque) != 0) {
      return false;
    }
    open_.insert(number);
    return true;
  }

  void Close() {
    if (handle_ == nullptr) return;
    rd_kafka_flush(handle_, 0);
    rd_kafka_poll(handle_, 0);
    rd_kafka_topic_destroy(topic_);
    rd_kafka_destroy(handle_);
    handle_ = nullptr;
  }

  static void OnDelivery(rd_kafka_t*, const rd_kafka_message_t* message, void* opaque) {
    static_cast<Producer*>(opaque)->Delivered(*message);
  }

  void Delivered(const rd_kafka_message_t& message) {
    const auto number = static_cast<int64_t>(reinterpret_cast<intptr_t>(message._private));
    if (message.err != RD_KAFKA_RESP_ERR_NO_ERROR) {
      // Purged or timed out: it stays open, so that it is sent again after the change-over.
      if (message.err != RD_KAFKA_RESP_ERR__PURGE_QUEUE &&
          message.err != RD_KAFKA_RESP_ERR__PURGE_INFLIGHT && !complained_) {
        out_ << "refused: " << rd_kafka_err2str(message.err) << std::endl;
        complained_ = true;
      }
      return;
    }
    open_.erase(number);
    while (acked_.size() <= cluster_) acked_.push_back(0);
    ++acked_[cluster_];
    journal_ << "ack " << cluster_ << ' ' << number << ' ' << message.partition << ' '
             << message.offset << '\n';
    if (!first_ack_) {
      first_ack_ = Clock::now();
      const auto ms =
          std::chrono::duration_cast<std::chrono::milliseconds>(*first_ack_ - connected_at_);
      out_ << "first record acknowledged " << ms.count() << " ms after connecting" << std::endl;
    }
  }

  const ProduceOptions& options_;
  std::ostream& out_;
  std::ofstream journal_;
  rd_kafka_t* handle_ = nullptr;
  rd_kafka_topic_t* topic_ = nullptr;
  int64_t next_ = 0;
  size_t cluster_ = 0;
  std::set<int64_t> open_;  // sent and not acknowledged
  std::vector<int64_t> acked_;
  Clock::time_point connected_at_;
  std::optional<Clock::time_point> first_ack_;
  bool complained_ = false;
};

// Lines of a descriptor as they come.
class Commands {
 public:
  explicit Commands(int fd) : fd_(fd) {}

  // The next whole line, if there is one. ended(): no more will come.
  std::optional<std::string> Next() {
    pollfd ready{fd_, POLLIN, 0};
    if (!ended_ && poll(&ready, 1, 0) > 0) {
      char buffer[512];
      const ssize_t got = read(fd_, buffer, sizeof buffer);
      if (got <= 0) {
        ended_ = true;
      } else {
        text_.append(buffer, static_cast<size_t>(got));
      }
    }
    const size_t end = text_.find('\n');
    if (end == std::string::npos) return std::nullopt;
    std::string line = text_.substr(0, end);
    text_.erase(0, end + 1);
    return line;
  }
  bool ended() const { return ended_ && text_.find('\n') == std::string::npos; }

 private:
  int fd_;
  bool ended_ = false;
  std::string text_;
};

}  // namespace

std::string ValueOf(int64_t number, int bytes) {
  std::string value = "record " + std::to_string(number) + " ";
  if (value.size() < static_cast<size_t>(bytes)) value.resize(static_cast<size_t>(bytes), '.');
  return value;
}

int64_t NumberOf(const std::string& value) {
  constexpr std::string_view kPrefix = "record ";
  if (!value.starts_with(kPrefix)) return -1;
  int64_t number = -1;
  const char* begin = value.data() + kPrefix.size();
  const auto [end, error] = std::from_chars(begin, value.data() + value.size(), number);
  return error == std::errc() && end != begin ? number : -1;
}

Status ProduceSteadily(const ProduceOptions& options, int commands_fd, std::ostream& out) {
  Producer producer(options, out);
  if (!producer.journal_good()) return {ErrorCode::kIo, options.journal + " cannot be written"};
  if (Status status = producer.Connect(options.bootstrap); !status.ok()) return status;
  Commands commands(commands_fd);
  Clock::time_point start = Clock::now();
  int64_t sent = 0;
  while (true) {
    while (const std::optional<std::string> command = commands.Next()) {
      if (*command == "stop") return producer.Finish();
      if (command->starts_with("to ")) {
        producer.Leave();
        if (Status status = producer.Connect(command->substr(3)); !status.ok()) return status;
        producer.SendAgain();
        start = Clock::now();
        sent = 0;
      }
    }
    if (commands.ended()) return producer.Finish();
    const double due = std::chrono::duration<double>(Clock::now() - start).count() * options.rate;
    while (static_cast<double>(sent) < due && producer.SendNext()) ++sent;
    producer.Poll(5);
  }
}

}  // namespace kmirror::lab
