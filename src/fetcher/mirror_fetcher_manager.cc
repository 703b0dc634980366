#include "src/fetcher/mirror_fetcher_manager.h"

#include <algorithm>
#include <array>
#include <cassert>
#include <string_view>
#include <utility>

#include "src/fetcher/fetcher_id.h"
#include "src/fetcher/source_connection.h"

namespace kmirror::fetcher {
namespace {

using std::chrono::milliseconds;

// One batch may be as large as this beyond the answer's limit; a longer answer closes the
// connection.
constexpr size_t kLargestBatch = 512u << 20;
constexpr int kMaxMoves = 5;

struct NamedCounter {
  std::string_view name;
  std::string_view help;
  FetcherStats::Counter FetcherStats::* counter;
};
constexpr std::array kCounters = {
    NamedCounter{"kmirror_fetch_bytes_total", "Bytes appended from the source",
                 &FetcherStats::bytes},
    NamedCounter{"kmirror_fetch_batches_total", "Batches appended", &FetcherStats::batches},
    NamedCounter{"kmirror_fetch_records_total", "Records appended, by the batches' headers",
                 &FetcherStats::records},
    NamedCounter{"kmirror_fetch_appends_total", "Appends to logs: one write each",
                 &FetcherStats::appends},
    NamedCounter{"kmirror_fetch_wakeups_total", "Times a connection of a fetcher was ready",
                 &FetcherStats::wakeups},
    NamedCounter{"kmirror_fetch_receives_total", "System calls of fetchers that receive",
                 &FetcherStats::receives},
    NamedCounter{"kmirror_fetch_sends_total", "System calls of fetchers that send",
                 &FetcherStats::sends},
    NamedCounter{"kmirror_fetch_option_calls_total",
                 "System calls of fetchers that set low-water marks and quick acknowledgements",
                 &FetcherStats::option_calls},
    NamedCounter{"kmirror_fetch_requests_total", "Fetch requests sent", &FetcherStats::requests},
    NamedCounter{"kmirror_fetch_failed_requests_total", "Connections or requests that failed",
                 &FetcherStats::failed_requests},
    NamedCounter{"kmirror_fetch_connects_total", "Connections made", &FetcherStats::connects},
    NamedCounter{"kmirror_fetch_corrupt_batches_total", "Batches that failed their checks",
                 &FetcherStats::crc_failures},
    NamedCounter{"kmirror_fetch_partial_bytes_total", "Bytes of incomplete last batches, dropped",
                 &FetcherStats::partial_bytes},
    NamedCounter{"kmirror_fetch_session_resets_total", "Fetch sessions started anew after an error",
                 &FetcherStats::session_resets},
    NamedCounter{"kmirror_fetch_gaps_total", "Ranges the source had already deleted (R12)",
                 &FetcherStats::gaps},
    NamedCounter{"kmirror_fetch_throttle_ms_total", "Throttle time asked for by the source",
                 &FetcherStats::throttle_ms},
    NamedCounter{"kmirror_fetch_late_answers_total", "Data that was not wanted any more",
                 &FetcherStats::dropped_sets},
    NamedCounter{"kmirror_fetch_preferred_replica_total", "Answers that named another replica",
                 &FetcherStats::preferred_replica},
    NamedCounter{"kmirror_fetch_partition_errors_total", "Errors answered for partitions",
                 &FetcherStats::partition_errors},
    NamedCounter{"kmirror_fetch_epoch_requests_total", "Epoch exchanges asked",
                 &FetcherStats::epoch_requests},
};

// What tells one fetcher's work from another's, while it runs.
constexpr std::array kFetcherCounters = {
    NamedCounter{"kmirror_fetcher_bytes_total", "Bytes appended by a running fetcher",
                 &FetcherStats::bytes},
    NamedCounter{"kmirror_fetcher_batches_total", "Batches appended by a running fetcher",
                 &FetcherStats::batches},
    NamedCounter{"kmirror_fetcher_appends_total", "Appends of a running fetcher",
                 &FetcherStats::appends},
    NamedCounter{"kmirror_fetcher_wakeups_total",
                 "Times a running fetcher's connections were ready", &FetcherStats::wakeups},
    NamedCounter{"kmirror_fetcher_receives_total", "Receiving system calls of a running fetcher",
                 &FetcherStats::receives},
    NamedCounter{"kmirror_fetcher_sends_total", "Sending system calls of a running fetcher",
                 &FetcherStats::sends},
    NamedCounter{"kmirror_fetcher_option_calls_total",
                 "System calls of a running fetcher that set socket options",
                 &FetcherStats::option_calls},
    NamedCounter{"kmirror_fetcher_requests_total", "Fetch requests sent by a running fetcher",
                 &FetcherStats::requests},
};

FetchStopped LeaderUnknown(const FetchAssignment& assignment, int32_t epoch, std::string message) {
  FetchStopped stopped;
  stopped.partition = assignment.partition;
  stopped.generation = assignment.generation;
  stopped.why = FetchStop::kLeaderUnknown;
  stopped.epoch = epoch;
  stopped.message = std::move(message);
  return stopped;
}

}  // namespace

// Carries what a fetcher tells from its lane to the coordinator's.
class MirrorFetcherManager::Owner : public MirrorFetcherOwner {
 public:
  Owner(host::Lane* lane, std::shared_ptr<Door> door, std::string mirror)
      : lane_(lane), door_(std::move(door)), mirror_(std::move(mirror)) {}

  void OnFetching(const TopicIdPartition& key, uint64_t generation) override {
    Tell([key, generation](MirrorFetcherManager& manager) {
      if (Record* record = manager.Current(key, generation)) {
        record->moves = 0;
        if (!manager.shutdown_) manager.events_->OnFetching(key);
      }
    });
  }
  void OnStopped(FetchStopped stopped, uint64_t generation) override {
    Tell([stopped = std::move(stopped), generation](MirrorFetcherManager& manager) {
      manager.OnStopped(stopped, generation);
    });
  }
  void OnEpochNear(const TopicIdPartition& key, uint64_t generation, int32_t epoch) override {
    Tell([key, generation, epoch](MirrorFetcherManager& manager) {
      if (manager.Current(key, generation) != nullptr && !manager.shutdown_) {
        manager.events_->OnEpochNear(key, epoch);
      }
    });
  }
  void OnGap(const TopicIdPartition& key, uint64_t generation, int64_t from, int64_t to) override {
    // Told even when the partition is leaving: the loss has happened.
    Tell([key, generation, from, to](MirrorFetcherManager& manager) {
      (void)generation;
      if (!manager.shutdown_) manager.events_->OnGap(key, from, to);
    });
  }
  void OnMoved(const TopicIdPartition& key, uint64_t generation, int32_t leader_id,
               const HostPort& leader, int32_t leader_epoch) override {
    Tell([key, generation, leader_id, leader, leader_epoch](MirrorFetcherManager& manager) {
      manager.OnMoved(key, generation, leader_id, leader, leader_epoch);
    });
  }
  void OnRole(const TopicIdPartition& key, uint64_t generation, FetcherRole role, bool told,
              bool epochs_in_fetch) override {
    Tell([key, generation, role, told, epochs_in_fetch](MirrorFetcherManager& manager) {
      manager.OnRole(key, generation, role, told, epochs_in_fetch);
    });
  }
  void OnSourceTrouble(const std::string& reason) override {
    Tell([mirror = mirror_, reason](MirrorFetcherManager& manager) {
      if (!manager.shutdown_) manager.events_->OnSourceTrouble(mirror, reason);
    });
  }

  template <typename F>
  void Tell(F what) {
    lane_->Post([door = door_, what = std::move(what)] {
      if (door->manager != nullptr) what(*door->manager);
    });
  }

 private:
  host::Lane* const lane_;
  const std::shared_ptr<Door> door_;
  const std::string mirror_;
};

MirrorFetcherManager::MirrorFetcherManager(host::Runtime* runtime, host::Lane* lane,
                                           FetchEvents* events, Transport* transport,
                                           Options options)
    : runtime_(runtime),
      lane_(lane),
      events_(events),
      transport_(transport),
      options_(options),
      door_(std::make_shared<Door>()) {
  door_->manager = this;
}

MirrorFetcherManager::~MirrorFetcherManager() {
  assert(slots_.empty() && closing_.empty() && "Shutdown first");
  door_->manager = nullptr;
}

// ---- The coordinator's calls.

void MirrorFetcherManager::SetMirror(std::shared_ptr<const MirrorSourceConfig> config) {
  const std::string name = config->mirror;
  mirrors_[name] = {std::move(config), ++last_version_};
  std::vector<TopicIdPartition> keys;
  for (auto& [key, record] : records_) {
    if (record.mirror != name || !record.desired) continue;
    StartAnew(record);
    keys.push_back(key);
  }
  for (const TopicIdPartition& key : keys) Reconcile(key);
}

void MirrorFetcherManager::RemoveMirror(const std::string& mirror) { mirrors_.erase(mirror); }

void MirrorFetcherManager::Add(const std::string& mirror, FetchAssignment assignment) {
  if (shutdown_) return;
  const TopicIdPartition key = assignment.partition;
  Record& record = records_[key];
  if (record.cell == nullptr) record.cell = std::make_shared<PositionCell>();
  {
    std::lock_guard lock(mutex_);
    positions_[key] = record.cell;
  }
  const int64_t end = assignment.log->View().end;
  record.cell->Update(false, nullptr, [end](FetchPosition& position) {
    position = {};
    position.fetch_offset = end;
  });
  record.mirror = mirror;
  record.moves = 0;
  record.role = FetcherRole::kNewcomer;
  record.desired = std::move(assignment);
  StartAnew(record);
  Reconcile(key);
}

void MirrorFetcherManager::Remove(const TopicIdPartition& partition, std::function<void()> done) {
  const auto it = records_.find(partition);
  if (it == records_.end()) {
    lane_->Post([done = std::move(done)] { done(); });
    return;
  }
  it->second.desired.reset();
  it->second.waiters.push_back(std::move(done));
  Reconcile(partition);
}

void MirrorFetcherManager::UpdateLocalEpoch(const TopicIdPartition& partition,
                                            int32_t local_leader_epoch) {
  const auto it = records_.find(partition);
  if (it == records_.end()) return;
  Record& record = it->second;
  if (record.desired && record.desired->local_leader_epoch < local_leader_epoch) {
    record.desired->local_leader_epoch = local_leader_epoch;
  }
  if (record.slot == nullptr) return;
  record.slot->lane->Post([thread = record.slot->thread.get(), partition, local_leader_epoch] {
    thread->UpdateLocalEpoch(partition, local_leader_epoch);
  });
}

void MirrorFetcherManager::UpdateSourceLeader(const TopicIdPartition& partition, int32_t leader_id,
                                              const HostPort& leader, int32_t leader_epoch) {
  const auto it = records_.find(partition);
  if (it == records_.end() || !it->second.desired) return;
  Record& record = it->second;
  FetchAssignment& desired = *record.desired;
  if (leader_id < 0 || leader_epoch < desired.source_leader_epoch) return;
  // The same broker tells of its new epoch itself, with FENCED_LEADER_EPOCH.
  if (desired.leader_id == leader_id && desired.leader == leader) return;
  desired.leader_id = leader_id;
  desired.leader = leader;
  desired.source_leader_epoch = leader_epoch;
  record.moves = 0;
  StartAnew(record);
  Reconcile(partition);
}

std::optional<FetchPosition> MirrorFetcherManager::Position(
    const TopicIdPartition& partition) const {
  std::shared_ptr<PositionCell> cell;
  {
    std::lock_guard lock(mutex_);
    const auto it = positions_.find(partition);
    if (it == positions_.end()) return std::nullopt;
    cell = it->second;
  }
  return cell->Get();
}

// ---- One partition, one fetcher.

void MirrorFetcherManager::StartAnew(Record& record) {
  // A cold one stays cold: what it was is the best guess at what it will be.
  if (record.role == FetcherRole::kHot) record.role = FetcherRole::kNewcomer;
  record.resumed = false;
  record.exchange = true;
  record.desired_generation = ++last_generation_;
}

void MirrorFetcherManager::Reconcile(const TopicIdPartition& key) {
  const auto it = records_.find(key);
  if (it == records_.end()) return;
  Record& record = it->second;
  if (record.removing) return;
  if (record.slot != nullptr) {
    if (record.desired && record.generation == record.desired_generation) return;
    record.removing = true;
    Slot* const slot = record.slot;
    slot->lane->Post([thread = slot->thread.get(), owner = slot->owner.get(), key,
                      generation = record.generation] {
      thread->Remove(key, [owner, key, generation] {
        owner->Tell([key, generation](MirrorFetcherManager& manager) {
          manager.OnRemoved(key, generation);
        });
      });
    });
    return;
  }
  for (auto& waiter : std::exchange(record.waiters, {})) lane_->Post(std::move(waiter));
  if (!record.desired) return Forget(key);
  Start(key, record);
}

void MirrorFetcherManager::Start(const TopicIdPartition& key, Record& record) {
  Slot* const slot = SlotFor(record);
  if (slot == nullptr) {
    runtime_->Log(host::LogLevel::kError, "kmirror.fetcher",
                  "not_added reason=\"unknown mirror\" mirror=" + record.mirror);
    const FetchStopped stopped =
        LeaderUnknown(*record.desired, -1, "unknown mirror " + record.mirror);
    Forget(key);
    lane_->Post([door = door_, stopped] {
      if (door->manager != nullptr && !door->manager->shutdown_) {
        door->manager->events_->OnStopped(stopped);
      }
    });
    return;
  }
  record.slot = slot;
  record.generation = record.desired_generation;
  ++slot->partitions;
  // A partition that is sent from broker to broker waits between the steps.
  const milliseconds delay(record.moves > 1 ? 100 << record.moves : 0);
  MirrorFetcherThread::Start start;
  start.generation = record.generation;
  start.known_epoch = record.known_epoch;
  start.cell = record.cell;
  start.delay = delay;
  start.resumed = record.resumed;
  start.exchange = record.exchange;
  if (record.role == FetcherRole::kNewcomer) {
    SlotKey hot = slot->key;
    std::get<FetcherRole>(hot) = FetcherRole::kHot;
    if (const auto it = slots_.find(hot); it != slots_.end()) start.hot = it->second->stats;
  }
  slot->lane->Post([thread = slot->thread.get(), assignment = *record.desired,
                    start = std::move(start)]() mutable {
    thread->Add(std::move(assignment), std::move(start));
  });
}

MirrorFetcherManager::Slot* MirrorFetcherManager::SlotFor(Record& record) {
  const auto mirror = mirrors_.find(record.mirror);
  if (mirror == mirrors_.end()) return nullptr;
  const FetchAssignment& assignment = *record.desired;
  const int32_t number = FetcherId(assignment.topic, assignment.partition.partition,
                                   std::max(1, options_.num_fetchers));
  SlotKey key{record.mirror,        mirror->second.version, number,
              assignment.leader_id, assignment.leader.host, assignment.leader.port,
              FetcherRole::kHot};
  // Without a hot fetcher there is no fetch under way to wait for.
  const bool alone = record.role == FetcherRole::kNewcomer && !slots_.contains(key);
  if (alone) record.role = FetcherRole::kHot;
  std::get<FetcherRole>(key) = record.role;
  if (const auto it = slots_.find(key); it != slots_.end()) return it->second.get();

  const std::shared_ptr<const MirrorSourceConfig> config = mirror->second.config;
  FetcherSettings settings;
  settings.name = "MirrorFetcherThread-" + std::to_string(number) + "-" +
                  std::to_string(assignment.leader_id) + "-" + record.mirror +
                  SuffixOf(record.role);
  settings.connection =
      SourceConnection(*config, assignment.leader,
                       "broker-" + std::to_string(options_.broker_id) + "-fetcher-" +
                           std::to_string(number) + "-mirror-" + record.mirror);
  settings.connection.receive_buffer_bytes = config->socket_receive_buffer_bytes;
  settings.connection.max_response_bytes =
      static_cast<size_t>(std::max(config->fetch_response_max_bytes, 0)) + kLargestBatch;
  settings.fetch_backoff = milliseconds(std::max(1, config->fetch_backoff_ms));
  settings.request_timeout = milliseconds(config->request_timeout_ms);
  settings.buffer_bytes = config->fetch_buffer_bytes;

  auto slot = std::make_unique<Slot>();
  slot->key = key;
  slot->lane = runtime_->NewLane(settings.name);
  slot->owner = std::make_unique<Owner>(lane_, door_, record.mirror);
  slot->stats = std::make_shared<FetcherStats>();
  const std::string name = settings.name;
  settings.connection.counters = slot->stats;
  slot->thread = std::make_unique<MirrorFetcherThread>(runtime_, slot->lane.get(), transport_,
                                                       std::move(settings), slot->stats, config,
                                                       slot->owner.get(), record.role);
  {
    std::lock_guard lock(mutex_);
    live_[record.mirror].push_back({name, slot->stats});
  }
  Slot* const made = slot.get();
  slots_[key] = std::move(slot);
  return made;
}

MirrorFetcherManager::Record* MirrorFetcherManager::Current(const TopicIdPartition& key,
                                                            uint64_t generation) {
  const auto it = records_.find(key);
  if (it == records_.end() || it->second.slot == nullptr || it->second.removing ||
      it->second.generation != generation) {
    return nullptr;
  }
  return &it->second;
}

void MirrorFetcherManager::OnRemoved(const TopicIdPartition& key, uint64_t generation) {
  const auto it = records_.find(key);
  if (it == records_.end() || !it->second.removing || it->second.generation != generation) return;
  it->second.removing = false;
  LeaveSlot(it->second);
  Reconcile(key);
  FinishShutdown();
}

void MirrorFetcherManager::OnStopped(const FetchStopped& stopped, uint64_t generation) {
  Record* record = Current(stopped.partition, generation);
  if (record == nullptr) return;  // being removed, or replaced: whoever did it knows better
  LeaveSlot(*record);
  const int32_t seen = stopped.why == FetchStop::kLeaderUnknown ? stopped.epoch : -1;
  record->desired.reset();
  if (seen > record->known_epoch && seen >= 0) {
    // S71: if the source still names the lower epoch after a refresh, its own batches are believed.
    record->known_epoch = seen;
  }
  if (record->known_epoch < 0) {
    Forget(stopped.partition);
  } else {
    std::lock_guard lock(mutex_);
    positions_.erase(stopped.partition);  // not assigned; only the epoch is remembered
  }
  if (!shutdown_) events_->OnStopped(stopped);
}

void MirrorFetcherManager::OnMoved(const TopicIdPartition& key, uint64_t generation,
                                   int32_t leader_id, const HostPort& leader,
                                   int32_t leader_epoch) {
  Record* record = Current(key, generation);
  if (record == nullptr) return;
  LeaveSlot(*record);
  if (++record->moves > kMaxMoves) {
    const FetchStopped stopped = LeaderUnknown(*record->desired, leader_epoch,
                                               "the source's brokers name each other as leader");
    Forget(key);
    if (!shutdown_) events_->OnStopped(stopped);
    return;
  }
  record->desired->leader_id = leader_id;
  record->desired->leader = leader;
  record->desired->source_leader_epoch =
      std::max(record->desired->source_leader_epoch, leader_epoch);
  StartAnew(*record);
  Reconcile(key);
}

void MirrorFetcherManager::OnRole(const TopicIdPartition& key, uint64_t generation,
                                  FetcherRole role, bool told, bool epochs_in_fetch) {
  Record* record = Current(key, generation);
  if (record == nullptr) return;
  LeaveSlot(*record);
  record->role = role;
  record->resumed = told;
  record->exchange = !epochs_in_fetch;
  record->desired_generation = ++last_generation_;
  Reconcile(key);
}

void MirrorFetcherManager::Forget(const TopicIdPartition& key) {
  records_.erase(key);
  std::lock_guard lock(mutex_);
  positions_.erase(key);
}

// ---- Fetchers.

void MirrorFetcherManager::LeaveSlot(Record& record) {
  Slot* const slot = std::exchange(record.slot, nullptr);
  if (--slot->partitions == 0) CloseSlot(slot);
}

void MirrorFetcherManager::CloseSlot(Slot* slot) {
  auto node = slots_.extract(slot->key);
  closing_.push_back(std::move(node.mapped()));
  slot->lane->Post([slot] {
    slot->thread->Close([slot] {
      slot->owner->Tell([slot](MirrorFetcherManager& manager) { manager.OnSlotClosed(slot); });
    });
  });
}

void MirrorFetcherManager::OnSlotClosed(Slot* slot) {
  const auto it = std::find_if(closing_.begin(), closing_.end(),
                               [slot](const auto& owned) { return owned.get() == slot; });
  std::unique_ptr<Slot> closed = std::move(*it);
  closing_.erase(it);
  {
    std::lock_guard lock(mutex_);
    const std::string& mirror = std::get<0>(closed->key);
    std::erase_if(live_[mirror], [&](const Live& live) { return live.stats == closed->stats; });
    for (const NamedCounter& counter : kCounters) {
      past_[mirror][std::string(counter.name)] += ((*closed->stats).*counter.counter).load();
    }
  }
  // The lane first: nothing of the fetcher may still be running when it goes.
  closed->lane.reset();
  closed.reset();
  FinishShutdown();
}

void MirrorFetcherManager::Shutdown(std::function<void()> done) {
  shutdown_ = std::move(done);
  std::vector<TopicIdPartition> keys;
  for (auto& [key, record] : records_) {
    record.desired.reset();
    keys.push_back(key);
  }
  for (const TopicIdPartition& key : keys) Reconcile(key);
  FinishShutdown();
}

void MirrorFetcherManager::FinishShutdown() {
  if (!shutdown_ || !slots_.empty() || !closing_.empty() || !records_.empty()) return;
  lane_->Post([door = door_, done = std::exchange(shutdown_, [] {})] {
    (void)door;
    done();
  });
}

void MirrorFetcherManager::Collect(MetricSink* sink) const {
  std::lock_guard lock(mutex_);
  std::map<std::string, std::map<std::string, int64_t>> values = past_;
  std::map<std::string, int64_t> last_answer;
  std::map<std::string, int64_t> buffer_peak;
  for (const auto& [mirror, fetchers] : live_) {
    int64_t& last = last_answer[mirror];
    int64_t& peak = buffer_peak[mirror];
    for (const auto& [name, stats] : fetchers) {
      for (const NamedCounter& counter : kCounters) {
        values[mirror][std::string(counter.name)] +=
            ((*stats).*counter.counter).load(std::memory_order_relaxed);
      }
      last = std::max(last, stats->last_answer_ns.load(std::memory_order_relaxed));
      peak = std::max(peak, stats->buffer_peak_bytes.load(std::memory_order_relaxed));
    }
  }
  for (const auto& [mirror, by_name] : values) {
    const MetricSink::Label label{"mirror", mirror};
    for (const NamedCounter& counter : kCounters) {
      const auto it = by_name.find(std::string(counter.name));
      if (it == by_name.end()) continue;
      sink->Add(counter.name, MetricSink::Kind::kCounter, counter.help, {&label, 1},
                static_cast<double>(it->second));
    }
  }
  const int64_t now = runtime_->MonotonicNow().count();
  for (const auto& [mirror, fetchers] : live_) {
    const MetricSink::Label label{"mirror", mirror};
    sink->Add("kmirror_fetchers", MetricSink::Kind::kGauge, "Fetchers running", {&label, 1},
              static_cast<double>(fetchers.size()));
    sink->Add("kmirror_fetch_buffer_peak_bytes", MetricSink::Kind::kGauge,
              "Most memory a running fetcher has held for an answer", {&label, 1},
              static_cast<double>(buffer_peak[mirror]));
    if (const int64_t last = last_answer[mirror]; last > 0) {
      sink->Add("kmirror_fetch_age_seconds", MetricSink::Kind::kGauge,
                "Time since the last successful fetch of any fetcher", {&label, 1},
                static_cast<double>(now - last) / 1e9);
    }
    CollectFetchers(mirror, fetchers, sink);
  }
}

void MirrorFetcherManager::CollectFetchers(const std::string& mirror,
                                           const std::vector<Live>& fetchers, MetricSink* sink) {
  // One that is closing and its successor may have the same name, and are one series.
  std::map<std::string, std::array<int64_t, kFetcherCounters.size()>> values;
  for (const Live& live : fetchers) {
    auto& sums = values[live.name];
    for (size_t i = 0; i < kFetcherCounters.size(); ++i) {
      sums[i] += ((*live.stats).*kFetcherCounters[i].counter).load(std::memory_order_relaxed);
    }
  }
  for (const auto& [name, sums] : values) {
    const std::array labels = {MetricSink::Label{"mirror", mirror},
                               MetricSink::Label{"fetcher", name}};
    for (size_t i = 0; i < kFetcherCounters.size(); ++i) {
      sink->Add(kFetcherCounters[i].name, MetricSink::Kind::kCounter, kFetcherCounters[i].help,
                labels, static_cast<double>(sums[i]));
    }
  }
}

}  // namespace kmirror::fetcher
