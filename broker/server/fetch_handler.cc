// Fetch: what there is now, or what comes within the client's patience.

#include <algorithm>
#include <atomic>
#include <chrono>
#include <mutex>
#include <utility>

#include "broker/server/fetch_sessions.h"
#include "broker/server/handlers.h"
#include "broker/server/log_watch.h"
#include "kmirror/log/batch.h"
#include "messages/fetch.h"
#include "src/protocol/wire_error.h"

namespace kmirror::broker {
namespace {

using protocol::FetchRequest;
using protocol::FetchResponse;
using protocol::RecordsView;
using PartitionData = FetchResponse::PartitionData;

// The first that tells who leads now (KIP-951).
constexpr int16_t kLeaderVersion = 16;

// One fetch request, from its plan to its answer. Confined to the network thread, but for Wake.
class FetchOperation final : public std::enable_shared_from_this<FetchOperation>,
                             public LogWatch::Waiter {
 public:
  FetchOperation(Services& services, RequestPtr request, const FetchRequest& message,
                 FetchPlan plan)
      : services_(services),
        request_(std::move(request)),
        plan_(std::move(plan)),
        bytes_max_(std::min(message.max_bytes, services.config->fetch_max_bytes)),
        bytes_min_(std::min(message.min_bytes, bytes_max_)),
        wait_ms_(message.max_wait_ms),
        bound_(message.isolation_level == 1 ? ReadBound::kLastStable : ReadBound::kHighWatermark),
        by_follower_((request_->version() >= 15 ? message.replica_state.replica_id
                                                : message.replica_id) >= 0) {}
  ~FetchOperation() override { Unpark(); }

  void Start() {
    ReadAll();
    if (wait_ms_ <= 0 || plan_.targets.empty() || Enough()) return Respond();
    Park();
  }

 private:
  struct Part {
    std::shared_ptr<Replica> replica;
    int64_t available = 0;  // bytes
  };

  bool Enough() const { return at_once_ || bytes_ >= bytes_min_; }

  // ---- Reading

  void ReadAll() {
    image_ = services_.controller->image();
    parts_.assign(plan_.targets.size(), {});
    answers_.assign(plan_.targets.size(), {});
    bytes_ = 0;
    at_once_ = false;
    int64_t left = bytes_max_;
    bool nothing_yet = true;
    for (size_t i = 0; i < plan_.targets.size(); ++i) {
      const FetchTarget& target = plan_.targets[i];
      answers_[i] = Empty(target.partition);
      const ErrorCode error = ReadOne(target, left, nothing_yet, &parts_[i], &answers_[i]);
      if (error != ErrorCode::kNone) Fail(error, parts_[i].replica.get(), &answers_[i]);
      if (error != ErrorCode::kNone || answers_[i].diverging_epoch.epoch >= 0) at_once_ = true;
      bytes_ += parts_[i].available;
      left = std::max<int64_t>(0, left - parts_[i].available);
      if (parts_[i].available > 0) nothing_yet = false;
    }
  }

  static PartitionData Empty(int32_t partition) {
    PartitionData data;
    data.partition_index = partition;
    data.high_watermark = -1;
    data.aborted_transactions.reset();
    data.records = RecordsView();
    return data;
  }

  ErrorCode Resolve(const FetchTarget& target, std::shared_ptr<Replica>* replica) const {
    if (plan_.uses_topic_ids) {
      *replica = services_.logs->Find(TopicIdPartition{target.topic->id, target.partition});
      if (*replica) return ErrorCode::kNone;
      const TopicPtr topic = image_->topics.Find(target.topic->id);
      return topic ? WhyNotHere(*image_, topic->name, target.partition)
                   : ErrorCode::kUnknownTopicId;
    }
    *replica = services_.logs->Find(target.topic->name, target.partition);
    return *replica ? ErrorCode::kNone : WhyNotHere(*image_, target.topic->name, target.partition);
  }

  // The partition's epoch against the client's (fetcher-and-log.md 5.2, KIP-320).
  static ErrorCode CheckEpoch(const Replica& replica, int32_t client_epoch) {
    if (replica.removed()) return ErrorCode::kNotLeaderOrFollower;
    if (client_epoch < 0 || client_epoch == replica.leader_epoch()) return ErrorCode::kNone;
    return client_epoch < replica.leader_epoch() ? ErrorCode::kFencedLeaderEpoch
                                                 : ErrorCode::kUnknownLeaderEpoch;
  }

  ErrorCode ReadOne(const FetchTarget& target, int64_t left, bool at_least_one, Part* part,
                    PartitionData* data) {
    if (const ErrorCode error = Resolve(target, &part->replica); error != ErrorCode::kNone) {
      return error;
    }
    const Replica& replica = *part->replica;
    if (const ErrorCode error = CheckEpoch(replica, target.current_leader_epoch);
        error != ErrorCode::kNone) {
      return error;
    }
    // No other broker is a replica of anything here.
    if (by_follower_) return ErrorCode::kNotLeaderOrFollower;
    PartitionLog& log = replica.log();
    if (target.last_fetched_epoch >= 0) {
      const log::EpochEnd end = log.EndOffsetForEpoch(target.last_fetched_epoch);
      if (end.epoch < 0 || end.end_offset < 0) return ErrorCode::kOffsetOutOfRange;
      if (end.epoch < target.last_fetched_epoch || end.end_offset < target.offset) {
        data->diverging_epoch = {end.epoch, end.end_offset};
        Describe(log.Positions(), data);
        return ErrorCode::kNone;
      }
    }
    const int64_t limit = std::min<int64_t>(std::max(target.max_bytes, 0), left);
    Result<ReadResult> read = log.Read(target.offset, limit, bound_, at_least_one);
    if (!read.ok()) return read.status().code();
    Describe(read->positions, data);
    if (read->slice.bytes > 0 && !at_least_one && FirstIsCut(read->slice)) return ErrorCode::kNone;
    if (bound_ == ReadBound::kLastStable) data->aborted_transactions.emplace();
    if (read->slice.bytes <= 0) return ErrorCode::kNone;
    part->available = read->slice.bytes;
    for (const AbortedTransaction& aborted : read->aborted) {
      data->aborted_transactions->push_back({aborted.producer_id, aborted.first_offset});
    }
    data->records = RecordsView(protocol::FileSlice{
        read->slice.file->fd(), read->slice.position, static_cast<size_t>(read->slice.bytes),
        read->slice.file, read->slice.cuts, read->slice.cuts_before});
    return ErrorCode::kNone;
  }

  // A part of a batch alone is nothing a client can use; it asks again when there is room.
  static bool FirstIsCut(const LogSlice& slice) {
    uint8_t prefix[log::kBatchPrefixBytes];
    if (slice.bytes < static_cast<int64_t>(sizeof prefix)) return true;
    if (!slice.ReadAt(0, prefix).ok()) return true;
    return log::BatchBytes(prefix) > slice.bytes;
  }

  static void Describe(const LogPositions& positions, PartitionData* data) {
    data->high_watermark = positions.high_watermark;
    data->last_stable_offset = positions.last_stable;
    data->log_start_offset = positions.log_start;
  }

  void Fail(ErrorCode error, const Replica* replica, PartitionData* data) const {
    *data = Empty(data->partition_index);
    data->error_code = protocol::WireErrorCode(error);
    // What the metadata does not name is told apart from what the partition itself refuses.
    if (error == ErrorCode::kUnknownTopicOrPartition || error == ErrorCode::kUnknownTopicId) {
      data->aborted_transactions.emplace();
    }
    // Older versions have no field for it, and would not encode.
    if (request_->version() < kLeaderVersion) return;
    if (replica != nullptr &&
        (error == ErrorCode::kNotLeaderOrFollower || error == ErrorCode::kFencedLeaderEpoch)) {
      data->current_leader = {services_.config->node_id, replica->leader_epoch()};
    }
  }

  // ---- Waiting

  void Park() {
    request_->DropFrame();
    parked_ = true;
    ++services_.metrics->fetches_waiting;
    const std::shared_ptr<FetchOperation> self = shared_from_this();
    // The one who keeps a waiting fetch alive: its connection, through this hook.
    request_->connection().on_close = [self] { self->Cancel(); };
    timer_ = request_->loop().After(std::chrono::milliseconds(wait_ms_), [weak = weak_from_this()] {
      if (const auto live = weak.lock()) live->Finish();
    });
    std::vector<size_t> watched;
    for (size_t i = 0; i < parts_.size(); ++i) {
      if (!parts_[i].replica) continue;
      services_.watch->Add(parts_[i].replica->log(), this, i);
      watched.push_back(i);
    }
    // Something may have come between the reading and the watching.
    for (const size_t i : watched) {
      if (!Look(i)) break;
    }
    if (Enough()) Finish();
  }

  void Unpark() {
    if (!parked_) return;
    parked_ = false;
    --services_.metrics->fetches_waiting;
    timer_.reset();
    for (const Part& part : parts_) {
      if (part.replica) services_.watch->Remove(part.replica->log(), this);
    }
  }

  void Wake(size_t index) noexcept override {
    {
      const std::lock_guard lock(mutex_);
      changed_.push_back(index);
      if (std::exchange(posted_, true)) return;
    }
    request_->loop().Post([weak = weak_from_this()] {
      if (const std::shared_ptr<FetchOperation> self = weak.lock()) self->Check();
    });
  }

  void Check() {
    std::vector<size_t> changed;
    {
      const std::lock_guard lock(mutex_);
      changed.swap(changed_);
      posted_ = false;
    }
    if (!parked_) return;
    for (const size_t index : changed) {
      if (!Look(index)) break;
    }
    if (Enough()) Finish();
  }

  // What the partition has now. False: the fetch need not wait any longer.
  bool Look(size_t index) {
    const FetchTarget& target = plan_.targets[index];
    Part& part = parts_[index];
    const LogPositions positions = part.replica->log().Positions();
    const int64_t end =
        bound_ == ReadBound::kLastStable ? positions.last_stable : positions.high_watermark;
    const bool odd = part.replica->removed() || target.offset > positions.log_end ||
                     target.offset < positions.log_start;
    int64_t available = 0;
    if (!odd && target.offset < end) {
      const Result<ReadResult> read =
          part.replica->log().Read(target.offset, std::max(target.max_bytes, 0), bound_, true);
      if (!read.ok())
        at_once_ = true;
      else
        available = read->slice.bytes;
    }
    if (odd) at_once_ = true;
    bytes_ += available - part.available;
    part.available = available;
    return !Enough();
  }

  // ---- Ending

  void Cancel() {
    Unpark();
    request_->Close("the connection closed while the fetch waited");
  }

  // The patience is over or there is enough: what there is now is the answer.
  void Finish() {
    const std::shared_ptr<FetchOperation> self = shared_from_this();
    Unpark();
    request_->connection().on_close = nullptr;
    ReadAll();
    Respond();
  }

  void Respond() {
    services_.metrics->bytes_out += bytes_;
    FetchResponse response;
    const bool moved = std::any_of(answers_.begin(), answers_.end(), [](const PartitionData& data) {
      return data.current_leader.leader_id >= 0;
    });
    if (moved) AddEndpoint(&response);
    services_.sessions->Finish(plan_, std::move(answers_), services_.monotonic_ms(), &response);
    request_->Answer(response);
  }

  void AddEndpoint(FetchResponse* response) {
    const BrokerImage* broker = image_->FindBroker(services_.config->node_id);
    if (broker == nullptr) return;
    const HostPort address = EndpointFor(*broker, request_->connection());
    response->node_endpoints.push_back(
        {broker->id, address.host, address.port,
         broker->rack.empty() ? std::nullopt : std::optional(broker->rack)});
  }

  Services& services_;
  const RequestPtr request_;
  const FetchPlan plan_;
  const int32_t bytes_max_;
  const int32_t bytes_min_;
  const int32_t wait_ms_;
  const ReadBound bound_;
  const bool by_follower_;

  ImagePtr image_;
  std::vector<Part> parts_;  // of the targets, as answers_
  std::vector<PartitionData> answers_;
  int64_t bytes_ = 0;
  bool at_once_ = false;  // an error or a diverging epoch does not wait
  bool parked_ = false;
  std::unique_ptr<Loop::Timer> timer_;

  std::mutex mutex_;  // guards the two below
  std::vector<size_t> changed_;
  bool posted_ = false;
};

}  // namespace

void HandleFetch(Services& services, RequestPtr request) {
  FetchRequest message;
  if (!DecodeRequest(*request, &message)) return;
  Result<FetchPlan> plan =
      services.sessions->Begin(message, request->version(), services.monotonic_ms());
  if (!plan.ok()) {
    FetchResponse response;
    response.error_code = protocol::WireErrorCode(plan.status().code());
    return request->Answer(response);
  }
  std::make_shared<FetchOperation>(services, std::move(request), message, std::move(*plan))
      ->Start();
}

}  // namespace kmirror::broker
