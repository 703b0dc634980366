#include "src/coordinator/state_shard.h"

#include <algorithm>
#include <utility>

#include "src/statemachine/retry_backoff.h"

namespace kmirror::coordinator {
namespace {
// One atomic append; far below any host's batch limit.
constexpr size_t kMaxBatchRecords = 500;
constexpr std::chrono::milliseconds kReloadInitial(100), kReloadCap(5000);
}  // namespace

StateShard::StateShard(int32_t index, host::StateTopic* topic, host::Runtime* runtime,
                       host::Lane* lane, const Options* options,
                       std::function<void(int32_t)> on_loaded)
    : index_(index),
      topic_(topic),
      runtime_(runtime),
      lane_(lane),
      options_(options),
      on_loaded_(std::move(on_loaded)) {}

StateShard::~StateShard() {
  *alive_ = false;
  lane_->Cancel(linger_timer_);
  lane_->Cancel(reload_timer_);
  // Nobody is left waiting: whoever asks again finds the new leader.
  const Status lost(ErrorCode::kNotCoordinator,
                    "shard " + std::to_string(index_) + " has moved away");
  auto fail = [&](std::vector<Pending>& batch) {
    for (Pending& pending : batch) {
      lane_->Post([done = std::move(pending.done), lost] { done(lost); });
    }
  };
  if (in_flight_ != nullptr) fail(in_flight_->batch);
  std::vector<Pending> queued(std::make_move_iterator(queue_.begin()),
                              std::make_move_iterator(queue_.end()));
  fail(queued);
}

void StateShard::Load() {
  if (loading_) return;
  loading_ = true;
  loaded_ = false;
  // Replay may run on any thread: it fills a table of its own, which becomes ours at the end, on
  // the lane.
  struct Replay {
    std::map<StateKey, Record> records;
    Status bad;
  };
  auto replay = std::make_shared<Replay>();
  topic_->Replay(
      index_,
      [replay](ByteView key_bytes, std::optional<ByteView> value) {
        if (!replay->bad.ok()) return;
        auto key = DecodeStateKey(key_bytes);
        if (!key.ok()) {
          replay->bad = key.status();
          return;
        }
        if (!value) {
          replay->records.erase(*key);
          return;
        }
        auto record = DecodeStateValue(*value);
        if (!record.ok()) {
          replay->bad = record.status();
          return;
        }
        replay->records[*std::move(key)] = *std::move(record);
      },
      [this, replay, alive = alive_, lane = lane_](Status status) {
        lane->Post([this, replay, alive, status = std::move(status)] {
          if (!*alive) return;
          loading_ = false;
          const Status& result = status.ok() ? replay->bad : status;
          if (!result.ok()) {
            ++load_failures_;
            runtime_->Log(host::LogLevel::kWarn, "kmirror.coordinator",
                          "event=shard-load-failed shard=" + std::to_string(index_) + " reason=\"" +
                              result.ToString() + "\" next=retry");
            reload_timer_ =
                lane_->RunAfter(statemachine::RetryDelay(kReloadInitial, kReloadCap, load_failures_,
                                                         runtime_->Random()),
                                [this] { Load(); });
            return;
          }
          load_failures_ = 0;
          records_ = std::move(replay->records);
          loaded_ = true;
          FlushSoon();
          on_loaded_(index_);
        });
      });
}

Result<StateShard::Record> StateShard::Read(const StateKey& key) const {
  if (!loaded_) {
    return Status(ErrorCode::kCoordinatorLoadInProgress,
                  "shard " + std::to_string(index_) + " of __mirror_state is loading");
  }
  const auto is_for_key = [&key](const Pending& pending) { return pending.key == key; };
  if (std::any_of(queue_.begin(), queue_.end(), is_for_key) ||
      (in_flight_ != nullptr &&
       std::any_of(in_flight_->batch.begin(), in_flight_->batch.end(), is_for_key))) {
    return Status(ErrorCode::kCoordinatorLoadInProgress,
                  "a write of " + key.Text() + " is under way");
  }
  const auto it = records_.find(key);
  return it == records_.end() ? Record{} : it->second;
}

void StateShard::Write(const StateKey& key, const statemachine::StateWrite& write, WriteDone done) {
  Enqueue({key, write, false, std::move(done)});
}

void StateShard::Tombstone(const StateKey& key, host::Completion done) {
  Enqueue(
      {key, {}, true, [done = std::move(done)](Result<Record> result) { done(result.status()); }});
}

void StateShard::Enqueue(Pending pending) {
  if (!loaded_) {
    // Answered later, never inside the caller's call.
    lane_->Post(
        [pending = std::move(pending), status = Read({}).status()] { pending.done(status); });
    return;
  }
  queue_.push_back(std::move(pending));
  FlushSoon();
}

void StateShard::FlushSoon() {
  if (appending_ || queue_.empty() || linger_timer_ != 0) return;
  linger_timer_ = lane_->RunAfter(options_->coordinator_append_linger, [this] {
    linger_timer_ = 0;
    Flush();
  });
}

void StateShard::Flush() {
  if (appending_ || !loaded_) return;
  // At most one write a key: each is checked against what the one before has made, once it is
  // durable.
  std::vector<Pending> batch;
  std::vector<Record> results;
  std::vector<host::StateRecord> appends;
  std::set<StateKey> keys;
  std::deque<Pending> later;
  while (!queue_.empty() && batch.size() < kMaxBatchRecords) {
    Pending pending = std::move(queue_.front());
    queue_.pop_front();
    if (keys.contains(pending.key)) {
      later.push_back(std::move(pending));
      continue;
    }
    const auto it = records_.find(pending.key);
    const Record current = it == records_.end() ? Record{} : it->second;
    if (pending.tombstone) {
      if (it == records_.end()) {
        pending.done(Record{});
        continue;
      }
      appends.push_back({EncodeStateKey(pending.key), std::nullopt});
      results.push_back({});
    } else {
      if (Status status = statemachine::CheckWrite(current, pending.write); !status.ok()) {
        pending.done(status);
        continue;
      }
      if (pending.write.expected_state_epoch > current.state_epoch) {
        runtime_->Log(host::LogLevel::kError, "kmirror.coordinator",
                      "event=state-lost key=" + pending.key.Text() +
                          " stored_epoch=" + std::to_string(current.state_epoch) +
                          " writer_epoch=" + std::to_string(pending.write.expected_state_epoch) +
                          " next=accept the writer's view");
      }
      results.push_back(statemachine::ApplyWrite(current, pending.write));
      appends.push_back({EncodeStateKey(pending.key), EncodeStateValue(results.back())});
    }
    keys.insert(pending.key);
    batch.push_back(std::move(pending));
  }
  while (!later.empty()) {
    queue_.push_front(std::move(later.back()));
    later.pop_back();
  }
  if (batch.empty()) return;
  appending_ = true;
  in_flight_ = std::make_unique<InFlight>(InFlight{std::move(batch), std::move(results)});
  topic_->Append(index_, std::move(appends), [this, alive = alive_, lane = lane_](Status status) {
    lane->Post([this, alive, status = std::move(status)] {
      if (*alive) OnAppended(status);
    });
  });
}

void StateShard::OnAppended(const Status& status) {
  appending_ = false;
  const std::unique_ptr<InFlight> done = std::move(in_flight_);
  std::vector<Pending>& batch = done->batch;
  const std::vector<Record>& results = done->results;
  if (!status.ok()) {
    runtime_->Log(host::LogLevel::kError, "kmirror.coordinator",
                  "event=shard-append-failed shard=" + std::to_string(index_) + " reason=\"" +
                      status.ToString() + "\" next=replay before it is trusted");
    loaded_ = false;
    auto alive = alive_;
    for (Pending& pending : batch) {
      pending.done(status);
      if (!*alive) return;
    }
    FailAll(status);
    if (*alive) Load();
    return;
  }
  // Memory changes all at once, before anyone is told.
  for (size_t i = 0; i < batch.size(); ++i) {
    if (batch[i].tombstone) {
      records_.erase(batch[i].key);
    } else {
      records_[batch[i].key] = results[i];
    }
  }
  auto alive = alive_;
  for (size_t i = 0; i < batch.size(); ++i) {
    batch[i].done(results[i]);
    if (!*alive) return;
  }
  FlushSoon();
}

void StateShard::FailAll(const Status& status) {
  std::deque<Pending> queue = std::move(queue_);
  queue_.clear();
  for (Pending& pending : queue) pending.done(status);
}

}  // namespace kmirror::coordinator
