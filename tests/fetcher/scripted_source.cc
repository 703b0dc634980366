#include "tests/fetcher/scripted_source.h"

#include <algorithm>
#include <cstring>
#include <stdexcept>

#include "conformance/mirrored_batches.h"
#include "messages/list_offsets.h"
#include "messages/metadata.h"
#include "messages/offset_for_leader_epoch.h"
#include "src/protocol/body.h"

namespace kmirror::fetcher::testing {

using protocol::FetchRequest;
using protocol::FetchResponse;

// One connection of a fetcher to the source.
class FakeConnection : public Connection {
 public:
  FakeConnection(ScriptedSource* source, host::Lane* lane, ConnectionOptions options)
      : source_(source), lane_(lane), options_(std::move(options)),
        self_(std::make_shared<FakeConnection*>(this)) {}
  ~FakeConnection() override {
    *self_ = nullptr;
    source_->connections_.erase(this);
  }

  int32_t broker() const {
    for (const int32_t id : source_->brokers) {
      if (ScriptedSource::Address(id) == options_.endpoint) return id;
    }
    return -1;
  }

  void Open(std::function<void(Status)> opened) override {
    ++source_->connects;
    Later([opened = std::move(opened)](FakeConnection& self) {
      const int32_t id = self.broker();
      if (id < 0 || self.source_->down.contains(id)) {
        opened({ErrorCode::kDisconnected, self.options_.endpoint.ToString() + ": refused"});
        return;
      }
      self.open_ = true;
      self.source_->connections_.insert(&self);
      self.versions_.apis = {{1, {4, self.source_->max_fetch_version}},
                             {2, {1, 10}},
                             {3, {0, 12}},
                             {23, {2, 4}},
                             {98, {0, 0}},
                             {99, {0, 0}}};
      self.versions_.finalized_features = self.source_->features;
      opened({});
    });
  }
  bool IsOpen() const override { return open_; }
  const BrokerVersions& versions() const override { return versions_; }
  void Ask(OutgoingRequest request, Answer answer) override {
    queue_.push_back({std::move(request), std::move(answer), nullptr});
    Serve();
  }
  void Stream(OutgoingRequest request, ResponseSink* sink) override {
    queue_.push_back({std::move(request), nullptr, sink});
    Serve();
  }
  void Resume() override {
    if (!paused_) return;
    paused_ = false;
    Later([](FakeConnection& self) { self.Deliver(); });
  }
  void OnClosed(std::function<void(Status)> closed) override { closed_ = std::move(closed); }

  void Fail(const std::string& why) {
    if (!open_) return;
    open_ = false;
    source_->connections_.erase(this);
    const Status status(ErrorCode::kDisconnected, options_.endpoint.ToString() + ": " + why);
    auto queue = std::move(queue_);
    queue_.clear();
    auto self = self_;
    for (Pending& pending : queue) {
      if (pending.answer) pending.answer(status);
      if (pending.sink != nullptr) pending.sink->Done(status);
      if (*self == nullptr) return;
    }
    if (auto closed = std::exchange(closed_, nullptr)) closed(status);
  }
  // A waiting fetch looks again.
  void Wake() {
    if (waiting_) Later([](FakeConnection& self) { self.TryAnswer(false); });
  }

 private:
  struct Pending {
    OutgoingRequest request;
    Answer answer;
    ResponseSink* sink = nullptr;
  };

  template <typename F>
  void Later(F what) {
    lane_->Post([self = self_, what = std::move(what)] {
      if (*self != nullptr) what(**self);
    });
  }

  void Serve() {
    if (!open_ || busy_ || queue_.empty()) return;
    busy_ = true;
    const OutgoingRequest& request = queue_.front().request;
    ScriptedSource::Asked asked;
    asked.broker = broker();
    asked.api_key = request.api_key;
    asked.version = request.api_version;
    asked.body = request.body;
    asked.client_id = options_.client_id;
    asked.at = source_->runtime_->MonotonicNow();
    source_->asked.push_back(asked);
    if (source_->on_asked) source_->on_asked(asked);
    current_ = std::move(asked);
    waiting_ = true;
    Later([](FakeConnection& self) { self.TryAnswer(false); });
  }

  void TryAnswer(bool out_of_patience) {
    if (!waiting_ || !open_) return;
    const bool fetch = current_.api_key == FetchRequest::kApiKey;
    if (source_->hang || (fetch && source_->hold_fetches)) return;
    auto body = source_->Answer(current_, out_of_patience, nullptr);
    if (!body) {
      if (!patience_set_) {
        patience_set_ = true;
        FetchRequest request;
        (void)protocol::DecodeBody(current_.body, current_.version, &request);
        lane_->RunAfter(std::chrono::milliseconds(request.max_wait_ms),
                        [self = self_, number = number_] {
                          if (*self != nullptr && (*self)->number_ == number) {
                            (*self)->TryAnswer(true);
                          }
                        });
      }
      return;
    }
    waiting_ = false;
    patience_set_ = false;
    ++number_;
    if (fetch && source_->edit_body) source_->edit_body(&*body);
    body_ = std::move(*body);
    at_ = 0;
    begun_ = false;
    cut_ = std::nullopt;
    if (fetch) cut_ = std::exchange(source_->cut_next_fetch_after, std::nullopt);
    Deliver();
  }

  void Deliver() {
    if (!open_) return;
    Pending& pending = queue_.front();
    auto self = self_;
    if (pending.sink == nullptr) {
      Pending done = std::move(pending);
      queue_.pop_front();
      busy_ = false;
      done.answer(std::move(body_));
      if (*self != nullptr) Serve();
      return;
    }
    ResponseSink* const sink = pending.sink;
    if (!begun_) {
      begun_ = true;
      if (Status status = sink->Begin(body_.size()); !status.ok()) return Fail(status.ToString());
    }
    size_t budget = std::min(source_->chunk_bytes, body_.size() - at_);
    while (budget > 0) {
      const std::span<uint8_t> room = sink->Room(body_.size() - at_);
      if (room.empty()) {
        paused_ = true;
        return;
      }
      size_t size = std::min(room.size(), budget);
      if (cut_) {
        size = std::min(size, *cut_);
        *cut_ -= size;
      }
      if (size > 0) {
        std::memcpy(room.data(), body_.data() + at_, size);
        at_ += size;
        budget -= size;
        if (Status status = sink->Received(size); !status.ok()) return Fail(status.ToString());
        if (*self == nullptr) return;
      }
      if (cut_ && *cut_ == 0) return Fail("cut within an answer");
    }
    if (at_ < body_.size()) return Later([](FakeConnection& again) { again.Deliver(); });
    queue_.pop_front();
    busy_ = false;
    sink->Done({});
    if (*self != nullptr) Serve();
  }

  ScriptedSource* const source_;
  host::Lane* const lane_;
  const ConnectionOptions options_;
  std::shared_ptr<FakeConnection*> self_;
  BrokerVersions versions_;
  bool open_ = false;
  bool busy_ = false;
  bool waiting_ = false;
  bool patience_set_ = false;
  bool paused_ = false;
  uint64_t number_ = 0;
  std::deque<Pending> queue_;
  ScriptedSource::Asked current_;
  std::vector<uint8_t> body_;
  size_t at_ = 0;
  bool begun_ = false;
  std::optional<size_t> cut_;
  std::function<void(Status)> closed_;
};

std::vector<uint8_t> ScriptedSource::Partition::Bytes(int64_t from) const {
  std::vector<uint8_t> all;
  for (const Batch& batch : batches) {
    if (batch.info.last_offset >= from)
      all.insert(all.end(), batch.bytes.begin(), batch.bytes.end());
  }
  return all;
}

// ---- The cluster.

ScriptedSource::Partition& ScriptedSource::AddPartition(const std::string& topic, Uuid id,
                                                        int32_t index) {
  Partition& partition = partitions_.emplace_back();
  partition.topic = topic;
  partition.id = id;
  partition.index = index;
  return partition;
}

ScriptedSource::Partition& ScriptedSource::At(const std::string& topic, int32_t index) {
  for (Partition& partition : partitions_) {
    if (partition.topic == topic && partition.index == index) return partition;
  }
  throw std::out_of_range(topic);
}

ScriptedSource::Partition* ScriptedSource::Find(const std::string& topic, const Uuid& id,
                                                int32_t index) {
  for (Partition& partition : partitions_) {
    if (partition.index != index) continue;
    if (id.IsZero() ? partition.topic == topic : partition.id == id) return &partition;
  }
  return nullptr;
}

int64_t ScriptedSource::Append(const std::string& topic, int32_t index, int count,
                               size_t value_bytes) {
  const Partition& partition = At(topic, index);
  const int64_t base = partition.end;
  conformance::BatchSpec spec;
  spec.base_offset = base;
  spec.leader_epoch = partition.leader_epoch;
  AppendBatch(topic, index, conformance::DataBatch(spec, count, value_bytes));
  return base;
}

void ScriptedSource::AppendBatch(const std::string& topic, int32_t index,
                                 std::vector<uint8_t> bytes) {
  Partition& partition = At(topic, index);
  Batch batch;
  (void)log::ParseBatchHeader(bytes, &batch.info);
  batch.bytes = std::move(bytes);
  partition.end = partition.high_watermark = batch.info.last_offset + 1;
  partition.batches.push_back(std::move(batch));
  Wake();
}

void ScriptedSource::LoseTail(const std::string& topic, int32_t index, int64_t offset,
                              int32_t new_epoch) {
  Partition& partition = At(topic, index);
  std::erase_if(partition.batches,
                [offset](const Batch& b) { return b.info.last_offset >= offset; });
  partition.end = partition.high_watermark =
      partition.batches.empty() ? offset : partition.batches.back().info.last_offset + 1;
  partition.leader_epoch = new_epoch;
  Wake();
}

void ScriptedSource::DeleteRecords(const std::string& topic, int32_t index, int64_t log_start) {
  Partition& partition = At(topic, index);
  partition.log_start = log_start;
  std::erase_if(partition.batches,
                [log_start](const Batch& b) { return b.info.last_offset < log_start; });
  Wake();
}

void ScriptedSource::Wake() {
  for (FakeConnection* connection : connections_) connection->Wake();
}

void ScriptedSource::ReleaseFetches() {
  hold_fetches = false;
  Wake();
}

void ScriptedSource::Cut(int32_t broker) {
  const std::set<FakeConnection*> open = connections_;
  for (FakeConnection* connection : open) {
    if (connections_.contains(connection) && (broker < 0 || connection->broker() == broker)) {
      connection->Fail("reset");
    }
  }
}

size_t ScriptedSource::Count(int16_t api_key) const {
  return static_cast<size_t>(
      std::ranges::count_if(asked, [api_key](const Asked& a) { return a.api_key == api_key; }));
}

std::vector<FetchRequest> ScriptedSource::Fetches() const {
  std::vector<FetchRequest> all;
  for (const Asked& a : asked) {
    if (a.api_key != FetchRequest::kApiKey) continue;
    (void)protocol::DecodeBody(a.body, a.version, &all.emplace_back());
  }
  return all;
}

std::unique_ptr<Connection> ScriptedSource::NewConnection(host::Lane* lane,
                                                          ConnectionOptions options) {
  connections_asked.push_back(options);
  return std::make_unique<FakeConnection>(this, lane, std::move(options));
}

// ---- Answers.

std::optional<std::vector<uint8_t>> ScriptedSource::Answer(const Asked& asked_now,
                                                           bool out_of_patience, int32_t*) {
  if (answer) {
    if (auto body = answer(asked_now)) return body;
  }
  switch (asked_now.api_key) {
    case 1: return AnswerFetch(asked_now, out_of_patience);
    case 2: return AnswerRange(asked_now);
    case 3: return AnswerMetadata(asked_now);
    case 23: return AnswerEpochs(asked_now);
    default: return std::vector<uint8_t>{};
  }
}

FetchResponse::PartitionData ScriptedSource::Read(int32_t broker, const std::string& topic,
                                                  const Uuid& id,
                                                  const FetchRequest::FetchPartition& request,
                                                  int32_t max_bytes, bool first,
                                                  FetchResponse* response) {
  FetchResponse::PartitionData out;
  out.partition_index = request.partition;
  out.high_watermark = -1;
  out.aborted_transactions = std::nullopt;
  out.records = protocol::RecordsView(ByteView{});
  const Partition* partition = Find(topic, id, request.partition);
  const auto fail = [&out](ErrorCode code) {
    out.error_code = static_cast<int16_t>(code);
    return out;
  };
  if (partition == nullptr) {
    return fail(id.IsZero() ? ErrorCode::kUnknownTopicOrPartition : ErrorCode::kUnknownTopicId);
  }
  const auto hint = [&] {
    if (!partition->hint_leader) return;
    out.current_leader.leader_id = partition->leader;
    out.current_leader.leader_epoch = partition->leader_epoch;
    const HostPort address = Address(partition->leader);
    response->node_endpoints.push_back({partition->leader, address.host, address.port, {}});
  };
  if (partition->error != ErrorCode::kNone) {
    hint();
    return fail(partition->error);
  }
  if (partition->leader != broker) {
    hint();
    return fail(ErrorCode::kNotLeaderOrFollower);
  }
  if (request.current_leader_epoch >= 0) {
    if (request.current_leader_epoch < partition->leader_epoch) {
      hint();
      return fail(ErrorCode::kFencedLeaderEpoch);
    }
    if (request.current_leader_epoch > partition->leader_epoch) {
      return fail(ErrorCode::kUnknownLeaderEpoch);
    }
  }
  out.high_watermark = out.last_stable_offset = partition->high_watermark;
  out.log_start_offset = partition->log_start;
  if (partition->preferred_replica >= 0) {
    out.preferred_read_replica = partition->preferred_replica;
    return out;
  }
  if (request.last_fetched_epoch >= 0) {
    // The end of the greatest epoch at or below the one asked.
    int32_t epoch = -1;
    int64_t end = partition->end;
    for (const Batch& batch : partition->batches) {
      if (batch.info.leader_epoch <= request.last_fetched_epoch) epoch = batch.info.leader_epoch;
      if (batch.info.leader_epoch > request.last_fetched_epoch) {
        end = batch.info.base_offset;
        break;
      }
    }
    if (epoch >= 0 && (epoch < request.last_fetched_epoch || end < request.fetch_offset)) {
      out.diverging_epoch = {epoch, end};
      return out;
    }
  }
  if (request.fetch_offset < partition->log_start || request.fetch_offset > partition->end) {
    out.high_watermark = -1;
    out.log_start_offset = -1;
    return fail(ErrorCode::kOffsetOutOfRange);
  }
  auto records = std::make_shared<std::vector<uint8_t>>();
  for (const Batch& batch : partition->batches) {
    if (batch.info.last_offset < request.fetch_offset) continue;
    if (batch.info.last_offset >= partition->high_watermark) break;
    const size_t limit =
        static_cast<size_t>(std::max(0, std::min(max_bytes, request.partition_max_bytes)));
    if (records->size() + batch.bytes.size() > limit && !(first && records->empty())) {
      // As Kafka: the rest of the limit is filled with a part of the next batch.
      if (!records->empty() && records->size() < limit) {
        const size_t part = limit - records->size();
        records->insert(records->end(), batch.bytes.begin(),
                        batch.bytes.begin() + static_cast<std::ptrdiff_t>(part));
      }
      break;
    }
    records->insert(records->end(), batch.bytes.begin(), batch.bytes.end());
  }
  out.records = protocol::RecordsView(ByteView(*records), records);
  return out;
}

std::optional<std::vector<uint8_t>> ScriptedSource::AnswerFetch(const Asked& asked_now,
                                                                bool out_of_patience) {
  FetchRequest request;
  if (!protocol::DecodeBody(asked_now.body, asked_now.version, &request).ok()) {
    throw std::runtime_error("the fetch does not decode");
  }
  FetchResponse response;
  const auto encode = [&] {
    if (edit_fetch) edit_fetch(&response);
    protocol::Writer out;
    if (!protocol::Encode(response, asked_now.version, out).ok()) {
      throw std::runtime_error("the fetch answer does not encode");
    }
    return out.Flatten();
  };
  if (next_fetch_error) {
    response.error_code = static_cast<int16_t>(*std::exchange(next_fetch_error, std::nullopt));
    return encode();
  }
  const bool full = request.session_epoch <= 0;
  if (forget_sessions && !full) {
    forget_sessions = false;
    sessions_.clear();
  }
  if (full) {
    if (request.session_id != 0) sessions_.erase(request.session_id);
  } else {
    const auto it = sessions_.find(request.session_id);
    if (it == sessions_.end()) {
      response.error_code = static_cast<int16_t>(ErrorCode::kFetchSessionIdNotFound);
      return encode();
    }
    if (it->second.epoch != request.session_epoch) {
      response.error_code = static_cast<int16_t>(ErrorCode::kInvalidFetchSessionEpoch);
      return encode();
    }
  }
  Session session;
  if (!full) session = sessions_.at(request.session_id);
  for (const auto& topic : request.topics) {
    for (const auto& partition : topic.partitions) {
      std::erase_if(session.partitions, [&](const Session::Cached& cached) {
        return cached.topic == topic.topic && cached.id == topic.topic_id &&
               cached.request.partition == partition.partition;
      });
      session.partitions.push_back({topic.topic, topic.topic_id, partition, -1, -1});
    }
  }
  for (const auto& topic : request.forgotten_topics_data) {
    for (const int32_t index : topic.partitions) {
      std::erase_if(session.partitions, [&](const Session::Cached& cached) {
        return cached.topic == topic.topic && cached.id == topic.topic_id &&
               cached.request.partition == index;
      });
    }
  }
  bool news = false;
  Session before = session;  // a throttled answer tells nothing, and the session knows that
  int64_t left = request.max_bytes;
  bool first = true;
  std::vector<Session::Cached> with_data;
  for (Session::Cached& cached : session.partitions) {
    FetchResponse::PartitionData data =
        Read(asked_now.broker, cached.topic, cached.id, cached.request,
             static_cast<int32_t>(std::max<int64_t>(left, 0)), first, &response);
    const size_t size = data.records ? data.records->size() : 0;
    const bool error = data.error_code != 0 || data.diverging_epoch.end_offset >= 0 ||
                       data.preferred_read_replica >= 0;
    const bool changed = data.high_watermark != cached.high_watermark ||
                         data.log_start_offset != cached.log_start;
    if (size > 0) {
      left -= static_cast<int64_t>(size);
      first = false;
    }
    if (size > 0 || error || (changed && !full && cached.high_watermark >= 0)) news = true;
    if (!full && size == 0 && !error && !changed) continue;
    cached.high_watermark = data.high_watermark;
    cached.log_start = data.log_start_offset;
    if (response.responses.empty() || response.responses.back().topic != cached.topic ||
        response.responses.back().topic_id != cached.id) {
      auto& topic = response.responses.emplace_back();
      topic.topic = cached.topic;
      topic.topic_id = cached.id;
    }
    response.responses.back().partitions.push_back(std::move(data));
  }
  if (!news && !out_of_patience && request.max_wait_ms > 0) return std::nullopt;
  if (throttle_ms > 0) {
    response.responses.clear();
    response.node_endpoints.clear();
    response.throttle_time_ms = std::exchange(throttle_ms, 0);
    response.session_id = full ? 0 : request.session_id;
    if (!full) {
      before.epoch = request.session_epoch + 1;
      sessions_[request.session_id] = std::move(before);
    }
    return encode();
  }
  if (sessions && request.session_epoch >= 0) {
    const int32_t id = full ? ++last_session_ : request.session_id;
    session.epoch = full ? 1 : request.session_epoch + 1;
    response.session_id = id;
    sessions_[id] = std::move(session);
  }
  return encode();
}

std::vector<uint8_t> ScriptedSource::AnswerEpochs(const Asked& asked_now) {
  protocol::OffsetForLeaderEpochRequest request;
  (void)protocol::DecodeBody(asked_now.body, asked_now.version, &request);
  protocol::OffsetForLeaderEpochResponse response;
  for (const auto& topic : request.topics) {
    auto& out_topic = response.topics.emplace_back();
    out_topic.topic = topic.topic;
    for (const auto& wanted : topic.partitions) {
      auto& out = out_topic.partitions.emplace_back();
      out.partition = wanted.partition;
      const Partition* partition = Find(topic.topic, {}, wanted.partition);
      if (partition == nullptr) {
        out.error_code = static_cast<int16_t>(ErrorCode::kUnknownTopicOrPartition);
        continue;
      }
      if (partition->leader != asked_now.broker) {
        out.error_code = static_cast<int16_t>(ErrorCode::kNotLeaderOrFollower);
        continue;
      }
      if (wanted.current_leader_epoch >= 0 &&
          wanted.current_leader_epoch != partition->leader_epoch) {
        out.error_code = static_cast<int16_t>(wanted.current_leader_epoch < partition->leader_epoch
                                                  ? ErrorCode::kFencedLeaderEpoch
                                                  : ErrorCode::kUnknownLeaderEpoch);
        continue;
      }
      if (wanted.leader_epoch > partition->leader_epoch) continue;
      if (wanted.leader_epoch == partition->leader_epoch) {
        out.leader_epoch = partition->leader_epoch;
        out.end_offset = partition->end;
        continue;
      }
      int32_t epoch = -1;
      int64_t end = partition->end;
      for (const Batch& batch : partition->batches) {
        if (batch.info.leader_epoch <= wanted.leader_epoch) epoch = batch.info.leader_epoch;
        if (batch.info.leader_epoch > wanted.leader_epoch) {
          end = batch.info.base_offset;
          break;
        }
      }
      if (epoch < 0) continue;
      out.leader_epoch = epoch;
      out.end_offset = end;
    }
  }
  protocol::Writer out;
  (void)protocol::Encode(response, asked_now.version, out);
  return out.Flatten();
}

std::vector<uint8_t> ScriptedSource::AnswerRange(const Asked& asked_now) {
  protocol::ListOffsetsRequest request;
  (void)protocol::DecodeBody(asked_now.body, asked_now.version, &request);
  protocol::ListOffsetsResponse response;
  for (const auto& topic : request.topics) {
    auto& out_topic = response.topics.emplace_back();
    out_topic.name = topic.name;
    for (const auto& wanted : topic.partitions) {
      auto& out = out_topic.partitions.emplace_back();
      out.partition_index = wanted.partition_index;
      const Partition& partition = At(topic.name, wanted.partition_index);
      out.offset = wanted.timestamp == -2 ? partition.log_start : partition.high_watermark;
    }
  }
  protocol::Writer out;
  (void)protocol::Encode(response, asked_now.version, out);
  return out.Flatten();
}

std::vector<uint8_t> ScriptedSource::AnswerMetadata(const Asked& asked_now) {
  protocol::MetadataRequest request;
  (void)protocol::DecodeBody(asked_now.body, asked_now.version, &request);
  protocol::MetadataResponse response;
  response.cluster_id = cluster_id;
  for (const int32_t id : brokers) {
    auto& broker = response.brokers.emplace_back();
    broker.node_id = id;
    broker.host = Address(id).host;
    broker.port = Address(id).port;
  }
  std::set<std::string> names;
  if (request.topics) {
    for (const auto& topic : *request.topics) names.insert(topic.name.value_or(""));
  } else {
    for (const Partition& partition : partitions_) names.insert(partition.topic);
  }
  for (const std::string& name : names) {
    auto& topic = response.topics.emplace_back();
    topic.name = name;
    for (const Partition& partition : partitions_) {
      if (partition.topic != name) continue;
      if (asked_now.version >= 10) topic.topic_id = partition.id;
      auto& out = topic.partitions.emplace_back();
      out.partition_index = partition.index;
      out.leader_id = partition.leader;
      if (asked_now.version >= 7) out.leader_epoch = partition.leader_epoch;
    }
    if (topic.partitions.empty()) {
      topic.error_code = static_cast<int16_t>(ErrorCode::kUnknownTopicOrPartition);
    }
  }
  protocol::Writer out;
  if (!protocol::Encode(response, asked_now.version, out).ok()) {
    throw std::runtime_error("the metadata does not encode");
  }
  return out.Flatten();
}

}  // namespace kmirror::fetcher::testing
