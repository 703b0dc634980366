// What tests do to a Kafka-compatible broker as a client: librdkafka, made short.
//
// An implementation independent of ours: whatever it reads or writes is a check from outside. Calls
// block; each has a deadline of its own, multiplied by TimeFactor(). One thread at a time per
// object.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "kmirror/status.h"
#include "tests/support/wait_until.h"

struct rd_kafka_s;

namespace kmirror::test {

using ClientConfig = std::map<std::string, std::string>;  // librdkafka's property names

// Null and empty differ, as they do in Kafka.
struct ClientRecord {
  std::optional<std::string> key;
  std::optional<std::string> value;
  std::vector<std::pair<std::string, std::optional<std::string>>> headers;
  int64_t timestamp_ms = 0;  // 0: now
  int64_t offset = -1;       // set on records that were read

  bool operator==(const ClientRecord&) const = default;
};

// Owns one librdkafka handle.
class ClientHandle {
 public:
  ClientHandle() = default;
  explicit ClientHandle(rd_kafka_s* handle) : handle_(handle) {}
  ClientHandle(ClientHandle&& other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {}
  ClientHandle& operator=(ClientHandle&& other) noexcept {
    std::swap(handle_, other.handle_);
    return *this;
  }
  ~ClientHandle();
  rd_kafka_s* get() const { return handle_; }

 private:
  rd_kafka_s* handle_ = nullptr;
};

// Topics and positions.
class AdminClient {
 public:
  struct Topic {
    std::string name;
    std::vector<int32_t> leaders;  // by partition; -1 when there is none
  };
  struct Watermarks {
    int64_t low = 0;   // first offset there is
    int64_t high = 0;  // one past the last visible: high watermark, or LSO with read_committed
  };

  static Result<AdminClient> Connect(const std::string& bootstrap, ClientConfig config = {});

  // Returns when metadata shows a leader for every partition.
  Status CreateTopic(const std::string& topic, int partitions = 1, const ClientConfig& configs = {},
                     int replication = 1);
  Status DeleteTopic(const std::string& topic);
  Status CreatePartitions(const std::string& topic, int total);
  // Records before `offset` go away; -1 means up to the high watermark.
  Status DeleteRecords(const std::string& topic, int32_t partition, int64_t offset);

  Result<std::vector<Topic>> Topics();
  // The cluster's id, as Metadata gives it.
  Result<std::string> ClusterId();
  // Isolation is that of the config given to Connect ("isolation.level"; default read_committed).
  Result<Watermarks> QueryWatermarks(const std::string& topic, int32_t partition);
  // First offset whose timestamp is at or after `timestamp_ms`; -1 when there is none.
  Result<int64_t> OffsetForTime(const std::string& topic, int32_t partition, int64_t timestamp_ms);

 private:
  ClientHandle handle_;
};

class Producer {
 public:
  struct Options {
    std::string codec = "none";  // none, gzip, snappy, lz4, zstd
    std::string acks = "all";    // all, 1, 0
    int batch_records_max = 0;   // 0: librdkafka's default
    int batch_bytes_max = 0;     // 0: librdkafka's default
    int linger_ms = 5;
    bool idempotent = false;
    std::string transactional_id;  // not empty: Begin, then Send, then Commit or Abort
    ClientConfig more;             // wins over the above
  };

  // With a transactional id this also initialises transactions (and fences an older producer).
  static Result<Producer> Connect(const std::string& bootstrap, const Options& options);
  static Result<Producer> Connect(const std::string& bootstrap) {
    return Connect(bootstrap, Options());
  }

  // Sends and waits until each record is acknowledged. Returns their offsets (all -1 with acks=0).
  // The first record that failed is the error; others may have been written.
  Result<std::vector<int64_t>> Send(const std::string& topic, int32_t partition,
                                    std::span<const ClientRecord> records);
  // `count` records with key "k<i>" and value "v<i>", i from `first`.
  Result<std::vector<int64_t>> SendNumbered(const std::string& topic, int32_t partition, int count,
                                            int first = 0);

  // A transaction left open when the object dies stays open until the broker times it out.
  Status Begin();
  Status Commit();
  Status Abort();

 private:
  ClientHandle handle_;
};

struct ReadOptions {
  int64_t from_offset = 0;  // -2: from the log's start
  bool read_committed = false;
  // 0: up to the end (high watermark, or LSO) as it is now. Otherwise waits for that many records.
  size_t count = 0;
  Seconds patience = Seconds(30);
  ClientConfig more;
};

struct ReadResult {
  std::vector<ClientRecord> records;
  int64_t next_offset = 0;  // where a further read would go on
};

// Reads one partition, assigned by hand, CRCs checked.
Result<ReadResult> ReadPartition(const std::string& bootstrap, const std::string& topic,
                                 int32_t partition, const ReadOptions& options = {});

}  // namespace kmirror::test
