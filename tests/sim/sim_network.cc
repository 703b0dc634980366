#include "tests/sim/sim_network.h"

#include <algorithm>
#include <cstring>
#include <deque>
#include <utility>

#include "messages/fetch.h"
#include "src/protocol/body.h"

namespace kmirror::sim {

using fetcher::ConnectionOptions;
using fetcher::OutgoingRequest;
using fetcher::ResponseSink;
using fetcher::testing::ScriptedSource;

// Belongs to the lane it was made with, like a real one: each of its events is a timer there.
class SimNetwork::SimConnection final : public fetcher::Connection {
 public:
  SimConnection(SimNetwork* net, host::Lane* lane, ConnectionOptions options)
      : net_(net),
        lane_(lane),
        options_(std::move(options)),
        number_(++net->last_number_),
        self_(std::make_shared<SimConnection*>(this)) {}

  ~SimConnection() override {
    *self_ = nullptr;
    net_->open_.erase(number_);
  }

  int32_t broker() const { return broker_; }

  void Open(std::function<void(Status)> opened) override {
    broker_ = net_->BrokerAt(options_.endpoint);
    const bool up = broker_ >= 0 && !net_->source_->down.contains(broker_) && !net_->dead;
    const bool refused = up && net_->Chance(net_->weather.refuse);
    if (refused) net_->trace_->Count("network: connection refused");
    if (!up || refused) {
      return After(net_->Latency(), [opened = std::move(opened)](SimConnection& self) {
        opened({ErrorCode::kDisconnected, self.options_.endpoint.ToString() + ": refused"});
      });
    }
    if (net_->hung.contains(broker_)) {
      return After(options_.ready_timeout, [opened = std::move(opened)](SimConnection& self) {
        opened({ErrorCode::kTimedOut, self.options_.endpoint.ToString() + ": no answer"});
      });
    }
    After(net_->Latency() * 2, [opened = std::move(opened)](SimConnection& self) {
      if (self.net_->source_->down.contains(self.broker_)) {
        return opened({ErrorCode::kDisconnected, self.options_.endpoint.ToString() + ": reset"});
      }
      self.open_ = true;
      self.net_->open_[self.number_] = &self;
      self.versions_.apis = {{1, {4, self.net_->source_->max_fetch_version}},
                             {2, {1, 10}},
                             {3, {0, 12}},
                             {23, {2, 4}}};
      self.versions_.finalized_features = self.net_->source_->features;
      opened({});
    });
  }

  bool IsOpen() const override { return open_; }
  const fetcher::BrokerVersions& versions() const override { return versions_; }
  void Ask(OutgoingRequest request, Answer answer) override {
    queue_.push_back({std::move(request), std::move(answer), nullptr});
    Next();
  }
  void Stream(OutgoingRequest request, ResponseSink* sink) override {
    queue_.push_back({std::move(request), nullptr, sink});
    Next();
  }
  void Resume() override {
    if (!paused_) return;
    paused_ = false;
    Touch();
    After(Span(0), [](SimConnection& self) { self.Deliver(); });
  }
  void OnClosed(std::function<void(Status)> closed) override { closed_ = std::move(closed); }

  void Fail(ErrorCode code, const std::string& why) {
    if (!open_) return;
    open_ = false;
    net_->open_.erase(number_);
    const Status status(code, options_.endpoint.ToString() + ": " + why);
    const auto self = self_;
    for (Pending& pending : std::exchange(queue_, {})) {
      if (pending.answer) pending.answer(status);
      if (pending.sink != nullptr) pending.sink->Done(status);
      if (*self == nullptr) return;
    }
    if (auto closed = std::exchange(closed_, nullptr)) closed(status);
  }
  // From outside the lane.
  void FailLater(const std::string& why) {
    After(Span(0), [why](SimConnection& self) { self.Fail(ErrorCode::kDisconnected, why); });
  }
  void Wake() {
    if (waiting_) After(Span(0), [](SimConnection& self) { self.Serve(false); });
  }

 private:
  struct Pending {
    OutgoingRequest request;
    Answer answer;
    ResponseSink* sink = nullptr;
  };

  template <typename F>
  void After(Span delay, F what) {
    lane_->RunAfter(delay, [self = self_, what = std::move(what)]() mutable {
      if (*self != nullptr) what(**self);
    });
  }

  // A byte moved: the patience with the request begins anew.
  void Touch() {
    const uint64_t patience = ++patience_;
    if (queue_.empty() || !busy_) return;
    After(queue_.front().request.timeout, [patience](SimConnection& self) {
      if (self.patience_ != patience || !self.busy_ || self.paused_) return;
      self.Fail(ErrorCode::kTimedOut, "no answer in time");
    });
  }

  void Next() {
    if (!open_ || busy_ || queue_.empty()) return;
    busy_ = true;
    const OutgoingRequest& request = queue_.front().request;
    asked_ = {};
    asked_.broker = broker_;
    asked_.api_key = request.api_key;
    asked_.version = request.api_version;
    asked_.body = request.body;
    asked_.client_id = options_.client_id;
    net_->trace_->Mix(static_cast<uint64_t>(request.api_key));
    net_->trace_->Mix(ByteView(request.body));
    ++exchange_;
    Touch();
    if (net_->dead || net_->hung.contains(broker_)) return;
    if (net_->Chance(net_->weather.lose_request)) {
      net_->trace_->Count("network: request lost");
      return;
    }
    After(net_->Latency(), [exchange = exchange_](SimConnection& self) {
      if (self.exchange_ != exchange || !self.open_) return;
      if (self.net_->source_->down.contains(self.broker_)) {
        return self.Fail(ErrorCode::kDisconnected, "reset");
      }
      self.waiting_ = true;
      self.Serve(false);
    });
  }

  void Serve(bool out_of_patience) {
    if (!waiting_ || !open_ || net_->dead || net_->hung.contains(broker_)) return;
    asked_.at = net_->runtime_->MonotonicNow();
    const bool fetch = asked_.api_key == protocol::FetchRequest::kApiKey;
    // A connection tells an old answer by its correlation id, and there is none here. Within a
    // session the positions go on, so that the gate sees it too; a full fetch may have gone back,
    // and then what follows a gap looks like a compacted log.
    protocol::FetchRequest asking;
    if (fetch) (void)protocol::DecodeBody(asked_.body, asked_.version, &asking);
    const bool repeat = fetch && asking.session_epoch > 0 && !last_fetch_.empty() &&
                        net_->Chance(net_->weather.repeat_answer);
    std::optional<std::vector<uint8_t>> body;
    if (repeat) {
      net_->trace_->Count("network: answer repeated");
      net_->repeated_at_ = asked_.at;
      body = last_fetch_;
    } else {
      body = net_->source_->Serve(asked_, out_of_patience);
    }
    if (!body) {
      if (patient_for_ == exchange_) return;
      patient_for_ = exchange_;
      protocol::FetchRequest request;
      (void)protocol::DecodeBody(asked_.body, asked_.version, &request);
      return After(std::chrono::milliseconds(request.max_wait_ms),
                   [exchange = exchange_](SimConnection& self) {
                     if (self.exchange_ == exchange) self.Serve(true);
                   });
    }
    waiting_ = false;
    if (fetch && !repeat) last_fetch_ = *body;
    Span delay = net_->Latency();
    if (net_->Chance(net_->weather.lose_answer)) {
      net_->trace_->Count("network: answer lost");
      return;
    }
    if (net_->Chance(net_->weather.late_answer)) {
      net_->trace_->Count("network: answer late");
      delay += Span(static_cast<int64_t>(
          net_->random_() % static_cast<uint64_t>(net_->weather.late_max.count() + 1)));
    }
    After(delay, [exchange = exchange_, body = std::move(*body),
                  served = asked_.at](SimConnection& self) mutable {
      if (self.exchange_ != exchange || !self.open_) return;
      self.Arrive(std::move(body), served);
    });
  }

  void Arrive(std::vector<uint8_t> body, Span served) {
    served_ = served;
    net_->trace_->Mix(ByteView(body));
    body_ = std::move(body);
    at_ = 0;
    begun_ = false;
    cut_.reset();
    if (net_->Chance(net_->weather.cut_answer) && !body_.empty()) {
      net_->trace_->Count("network: answer cut");
      cut_ = static_cast<size_t>(net_->random_() % body_.size());
    }
    in_pieces_ = net_->Chance(net_->weather.pieces);
    Deliver();
  }

  void Deliver() {
    if (!open_ || !busy_) return;
    const auto self = self_;
    ResponseSink* const sink = queue_.front().sink;
    Touch();
    const Span now = net_->runtime_->MonotonicNow();
    if (now - served_ >= net_->worst_age_ || now - net_->worst_age_at_ > std::chrono::minutes(5)) {
      net_->worst_age_ = now - served_;
      net_->worst_age_at_ = now;
    }
    if (sink == nullptr) {
      if (cut_) return Fail(ErrorCode::kDisconnected, "cut within an answer");
      Pending done = std::move(queue_.front());
      queue_.pop_front();
      busy_ = false;
      done.answer(std::move(body_));
      if (*self != nullptr) Next();
      return;
    }
    if (!begun_) {
      begun_ = true;
      if (Status status = sink->Begin(body_.size()); !status.ok()) {
        return Fail(ErrorCode::kMalformed, status.ToString());
      }
    }
    size_t budget = body_.size() - at_;
    if (in_pieces_ && budget > 1) budget = 1 + net_->random_() % budget;
    while (budget > 0) {
      const std::span<uint8_t> room = sink->Room(body_.size() - at_);
      if (room.empty()) {
        paused_ = true;
        return;
      }
      size_t size = std::min(room.size(), budget);
      if (cut_) size = std::min(size, *cut_ - at_);
      if (size > 0) {
        std::memcpy(room.data(), body_.data() + at_, size);
        at_ += size;
        budget -= size;
        if (Status status = sink->Received(size); !status.ok()) {
          return Fail(ErrorCode::kMalformed, status.ToString());
        }
        if (*self == nullptr) return;
      }
      if (cut_ && *cut_ == at_) return Fail(ErrorCode::kDisconnected, "cut within an answer");
    }
    if (at_ < body_.size()) {
      return After(net_->Latency(), [exchange = exchange_](SimConnection& again) {
        if (again.exchange_ == exchange && !again.paused_) again.Deliver();
      });
    }
    queue_.pop_front();
    busy_ = false;
    ++exchange_;
    sink->Done({});
    if (*self != nullptr) Next();
  }

  SimNetwork* const net_;
  host::Lane* const lane_;
  const ConnectionOptions options_;
  const uint64_t number_;
  std::shared_ptr<SimConnection*> self_;
  fetcher::BrokerVersions versions_;
  int32_t broker_ = -1;
  bool open_ = false;
  std::deque<Pending> queue_;
  bool busy_ = false;      // the first of the queue is on its way
  bool waiting_ = false;   // it is at the broker, which has not answered
  uint64_t exchange_ = 0;  // number of the request that is on its way
  uint64_t patient_for_ = 0;
  uint64_t patience_ = 0;
  ScriptedSource::Asked asked_;
  Span served_{0};
  std::vector<uint8_t> last_fetch_;
  std::vector<uint8_t> body_;
  size_t at_ = 0;
  bool begun_ = false;
  bool paused_ = false;
  bool in_pieces_ = false;
  std::optional<size_t> cut_;
  std::function<void(Status)> closed_;
};

SimNetwork::SimNetwork(uint64_t seed, const host::Runtime* runtime, ScriptedSource* source,
                       Trace* trace)
    : random_(seed), runtime_(runtime), source_(source), trace_(trace) {}

SimNetwork::~SimNetwork() = default;

Span SimNetwork::Latency() {
  const auto range = static_cast<uint64_t>((weather.latency_max - weather.latency_min).count());
  return weather.latency_min + Span(static_cast<int64_t>(random_() % (range + 1)));
}

Span SimNetwork::WorstAge() const { return std::max<Span>(worst_age_, weather.latency_max * 2); }

int32_t SimNetwork::BrokerAt(const HostPort& address) const {
  for (const int32_t id : source_->brokers) {
    if (ScriptedSource::Address(id) == address) return id;
  }
  return -1;
}

void SimNetwork::Wake() {
  for (auto& [number, connection] : open_) connection->Wake();
}

void SimNetwork::Cut(int32_t broker) {
  for (auto& [number, connection] : open_) {
    if (broker < 0 || connection->broker() == broker) connection->FailLater("reset");
  }
}

std::unique_ptr<fetcher::Connection> SimNetwork::NewConnection(host::Lane* lane,
                                                               ConnectionOptions options) {
  return std::make_unique<SimConnection>(this, lane, std::move(options));
}

}  // namespace kmirror::sim
