// A source cluster for tests: partitions with real batches, brokers that answer Fetch (with
// sessions as KIP-227 has them), OffsetForLeaderEpoch, ListOffsets and Metadata in real bytes, and
// faults. Everything runs on the lanes of a ManualRuntime: no threads, no sockets, no real clock.
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "kmirror/log/batch.h"
#include "kmirror/types.h"
#include "messages/fetch.h"
#include "src/fetcher/transport.h"

namespace kmirror::fetcher::testing {

using Bytes = std::vector<uint8_t>;

class FakeConnection;

class ScriptedSource : public Transport {
 public:
  struct Batch {
    log::BatchInfo info;
    Bytes bytes;
  };
  struct Partition {
    std::string topic;
    Uuid id;
    int32_t index = 0;
    int32_t leader = 1;
    int32_t leader_epoch = 0;
    std::vector<Batch> batches;
    int64_t log_start = 0;
    int64_t end = 0;
    int64_t high_watermark = 0;
    ErrorCode error = ErrorCode::kNone;  // answered instead of data
    bool hint_leader = false;            // with 6 and 74: name `leader` and its address (v16)
    int32_t preferred_replica = -1;

    std::vector<uint8_t> Bytes(int64_t from = 0) const;
  };
  struct Asked {
    int32_t broker = 0;
    int16_t api_key = 0;
    int16_t version = 0;
    std::vector<uint8_t> body;
    std::string client_id;
    std::chrono::nanoseconds at{0};
  };

  explicit ScriptedSource(const host::Runtime* runtime) : runtime_(runtime) {}

  // ---- The cluster.
  Partition& AddPartition(const std::string& topic, Uuid id, int32_t index);
  Partition& At(const std::string& topic, int32_t index);
  // Appends `count` records in one batch at the end, in the partition's leader epoch, and moves the
  // high watermark. Answers the base offset.
  int64_t Append(const std::string& topic, int32_t index, int count = 1, size_t value_bytes = 16);
  void AppendBatch(const std::string& topic, int32_t index, std::vector<uint8_t> batch);
  // An unclean election: everything from `offset` on is lost, and the epoch rises.
  void LoseTail(const std::string& topic, int32_t index, int64_t offset, int32_t new_epoch);
  void DeleteRecords(const std::string& topic, int32_t index, int64_t log_start);
  // Lets waiting fetches look again.
  void Wake();
  static HostPort Address(int32_t broker) { return {"broker" + std::to_string(broker), 9092}; }

  // ---- Behaviour.
  int16_t max_fetch_version = 17;
  bool sessions = true;
  std::string cluster_id = "source-cluster";
  std::map<std::string, int16_t> features;
  std::set<int32_t> brokers{1};
  std::set<int32_t> down;                      // connecting fails, open connections were cut
  size_t chunk_bytes = std::numeric_limits<size_t>::max();  // pieces an answer arrives in
  int32_t throttle_ms = 0;                     // of the next fetch answer, which then is empty
  std::optional<size_t> cut_next_fetch_after;  // bytes of the body, then the connection breaks
  std::optional<ErrorCode> next_fetch_error;   // top level
  bool forget_sessions = false;                // the next incremental fetch finds no session
  bool hang = false;                           // nothing is answered any more
  bool hold_fetches = false;                   // answers wait for ReleaseFetches
  // Changes the bytes of the next fetch answers, while set.
  std::function<void(protocol::FetchResponse*)> edit_fetch;
  std::function<void(std::vector<uint8_t>*)> edit_body;
  // Answers other requests; nullopt: as usual.
  std::function<std::optional<std::vector<uint8_t>>(const Asked&)> answer;

  void ReleaseFetches();
  // Breaks every open connection (of one broker; -1 all).
  void Cut(int32_t broker = -1);

  // The answer's body to a request that came another way; nullopt: nothing to say yet (a fetch
  // without data, unless it is out of patience).
  std::optional<std::vector<uint8_t>> Serve(const Asked& request, bool out_of_patience) {
    return Answer(request, out_of_patience, nullptr);
  }

  // ---- What was asked.
  std::vector<Asked> asked;
  std::function<void(const Asked&)> on_asked;  // before the call that asks returns
  size_t Count(int16_t api_key) const;
  std::vector<protocol::FetchRequest> Fetches() const;
  size_t open_connections() const { return connections_.size(); }
  size_t connects = 0;       // attempts
  std::vector<ConnectionOptions> connections_asked;

  // Transport.
  std::unique_ptr<Connection> NewConnection(host::Lane* lane, ConnectionOptions options) override;

 private:
  friend class FakeConnection;
  struct Session {
    int32_t broker = 0;
    int32_t epoch = 0;
    struct Cached {
      std::string topic;
      Uuid id;
      protocol::FetchRequest::FetchPartition request;
      int64_t high_watermark = -1;
      int64_t log_start = -1;
    };
    std::vector<Cached> partitions;  // in order
  };

  // The answer's body, or nullopt: nothing to say yet (a fetch without data).
  std::optional<std::vector<uint8_t>> Answer(const Asked& asked, bool out_of_patience,
                                             int32_t* session_in_use);
  std::optional<std::vector<uint8_t>> AnswerFetch(const Asked& asked, bool out_of_patience);
  protocol::FetchResponse::PartitionData Read(
      int32_t broker, const std::string& topic, const Uuid& id,
      const protocol::FetchRequest::FetchPartition& request, int32_t max_bytes, bool first,
      protocol::FetchResponse* response);
  std::vector<uint8_t> AnswerEpochs(const Asked& asked);
  std::vector<uint8_t> AnswerRange(const Asked& asked);
  std::vector<uint8_t> AnswerMetadata(const Asked& asked);
  Partition* Find(const std::string& topic, const Uuid& id, int32_t index);

  const host::Runtime* runtime_;
  std::deque<Partition> partitions_;
  std::map<int32_t, Session> sessions_;
  int32_t last_session_ = 100;
  std::set<FakeConnection*> connections_;
  std::vector<std::shared_ptr<std::vector<uint8_t>>> kept_;  // records that an answer points to
};

}  // namespace kmirror::fetcher::testing
