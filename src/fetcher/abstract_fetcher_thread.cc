// Partitions, links and time. Rounds of fetching are in fetch_round.cc, alignment with the source's
// epochs and range in fetch_alignment.cc.
#include "src/fetcher/abstract_fetcher_thread.h"

#include <algorithm>
#include <cassert>
#include <utility>

#include "messages/fetch.h"
#include "messages/list_offsets.h"
#include "messages/offset_for_leader_epoch.h"

namespace kmirror::fetcher {

using std::chrono::nanoseconds;

namespace {

// A source may ask for any number of milliseconds; beyond this it is asked again.
constexpr std::chrono::milliseconds kMaxThrottle{10 * 60 * 1000};

}  // namespace

AbstractFetcherThread::AbstractFetcherThread(host::Runtime* runtime, host::Lane* lane,
                                             Transport* transport, FetcherSettings settings,
                                             std::shared_ptr<FetcherStats> stats)
    : runtime_(runtime),
      lane_(lane),
      transport_(transport),
      settings_(std::move(settings)),
      stats_(std::move(stats)),
      pool_(settings_.buffer_bytes),
      fetch_link_{.backoff = Backoff(settings_.fetch_backoff, settings_.max_backoff)},
      control_link_{.backoff = Backoff(settings_.fetch_backoff, settings_.max_backoff)},
      session_backoff_(settings_.fetch_backoff, settings_.max_backoff),
      parser_(&pool_, this) {}

AbstractFetcherThread::~AbstractFetcherThread() {
  // The lane may be gone by now.
  assert(partitions_.empty() && fetch_link_.connection == nullptr && "Close first");
}

void AbstractFetcherThread::Log(host::LogLevel level, const std::string& line) const {
  runtime_->Log(level, "kmirror.fetcher", "fetcher=" + settings_.name + " " + line);
}

// ---- Partitions.

void AbstractFetcherThread::AddPartition(NewPartition added) {
  assert(Find(added.key) == nullptr);
  if (closed_) return;
  const LocalLog local = Local(added.key);
  Partition partition;
  partition.topic = std::move(added.topic);
  partition.source_topic_id = added.source_topic_id;
  partition.generation = added.generation;
  partition.state.stage = added.truncating ? FetchStage::kTruncating : FetchStage::kFetching;
  partition.state.fetch_offset = local.end;
  partition.state.last_fetched_epoch = local.last_batch_epoch;
  partition.state.current_leader_epoch = added.current_leader_epoch;
  by_name_[{partition.topic, added.key.partition}] = added.key;
  if (partition.source_topic_id.IsZero()) ++without_topic_id_;
  Partition& placed = partitions_.Put(added.key, std::move(partition));
  MarkDirty(added.key, placed);
  WantControl(added.key, placed);
  if (added.initial_delay.count() > 0) Delay(added.key, placed, added.initial_delay);
  Pump();
}

void AbstractFetcherThread::RemovePartition(const TopicIdPartition& key,
                                            std::function<void()> removed) {
  Drop(key, std::move(removed));
  Pump();
}

void AbstractFetcherThread::Drop(const TopicIdPartition& key, std::function<void()> dropped) {
  Partition* partition = Find(key);
  if (partition == nullptr) {
    if (dropped) dropped();
    return;
  }
  if (dropped) partition->removed.push_back(std::move(dropped));
  partition->removing = true;
  ClearQueue(*partition);
  if (!partition->busy) FinishRemoval(key);
}

void AbstractFetcherThread::FinishRemoval(const TopicIdPartition& key) {
  Partition* partition = Find(key);
  std::vector<std::function<void()>> callbacks = std::move(partition->removed);
  const auto named = by_name_.find({partition->topic, key.partition});
  if (named != by_name_.end() && named->second == key) by_name_.erase(named);
  if (partition->source_topic_id.IsZero()) --without_topic_id_;
  if (partition->state.Delayed()) delayed_.erase({partition->state.due, key});
  if (deferred_ == key) deferred_.reset();
  partitions_.Erase(key);
  dirty_.push_back(key);
  for (const auto& callback : callbacks) callback();
  CloseIfEmpty();
}

void AbstractFetcherThread::Close(std::function<void()> closed) {
  closed_ = std::move(closed);
  std::vector<TopicIdPartition> keys;
  for (const auto& [key, partition] : partitions_) keys.push_back(key);
  for (const TopicIdPartition& key : keys) Drop(key, nullptr);
  CloseIfEmpty();
}

void AbstractFetcherThread::CloseIfEmpty() {
  if (!closed_ || !partitions_.empty() || close_posted_) return;
  close_posted_ = true;
  // Not from here: this may run inside a callback of the connection.
  lane_->Post([this] {
    CloseLinks();
    lane_->Cancel(timer_);
    timer_ = 0;
    std::exchange(closed_, nullptr)();
  });
}

AbstractFetcherThread::Partition* AbstractFetcherThread::FindSame(const TopicIdPartition& key,
                                                                  uint64_t generation) {
  Partition* partition = Find(key);
  return partition != nullptr && partition->generation == generation && !partition->removing
             ? partition
             : nullptr;
}

const PartitionFetchState* AbstractFetcherThread::State(const TopicIdPartition& key) {
  const Partition* partition = Find(key);
  return partition == nullptr ? nullptr : &partition->state;
}

void AbstractFetcherThread::MarkDirty(const TopicIdPartition& key, Partition& partition) {
  if (partition.dirty) return;
  partition.dirty = true;
  dirty_.push_back(key);
}

void AbstractFetcherThread::WantControl(const TopicIdPartition& key, Partition& partition) {
  if (partition.control_listed) return;
  partition.control_listed = true;
  control_.push_back(key);
}

void AbstractFetcherThread::RaiseSourceEpoch(const TopicIdPartition& key, int32_t epoch) {
  Partition* partition = Find(key);
  if (partition == nullptr || epoch <= partition->state.current_leader_epoch) return;
  partition->state.current_leader_epoch = epoch;
  MarkDirty(key, *partition);
  if (partition->state.stage != FetchStage::kFetching) WantControl(key, *partition);
}

void AbstractFetcherThread::DelayPartition(const TopicIdPartition& key, nanoseconds delay) {
  if (Partition* partition = Find(key)) Delay(key, *partition, delay);
}

void AbstractFetcherThread::Delay(const TopicIdPartition& key, Partition& partition,
                                  nanoseconds delay) {
  if (partition.state.Delayed()) return;
  partition.state.due = Now() + std::max(delay, nanoseconds(1));
  delayed_.insert({partition.state.due, key});
  partitions_.MoveToEnd(key);
  MarkDirty(key, partition);
  ArmTimer();
}

// ---- Links.

Status AbstractFetcherThread::CheckVersions(const BrokerVersions& versions) const {
  if (!versions.Pick(protocol::FetchRequest::kApiKey,
                     {kFetchMinVersion, settings_.max_fetch_version})) {
    return {ErrorCode::kUnsupportedVersion, "the source does not serve Fetch v10 or newer"};
  }
  if (!versions.Pick(protocol::OffsetForLeaderEpochRequest::kApiKey, {2, 4})) {
    return {ErrorCode::kUnsupportedVersion,
            "the source does not serve OffsetForLeaderEpoch v2 or newer"};
  }
  if (!versions.Pick(protocol::ListOffsetsRequest::kApiKey, {4, 11})) {
    return {ErrorCode::kUnsupportedVersion, "the source does not serve ListOffsets v4 or newer"};
  }
  return {};
}

void AbstractFetcherThread::OpenLink(Link* link) {
  link->opening = true;
  link->connection = transport_->NewConnection(lane_, settings_.connection);
  link->connection->OnClosed([this, link](Status status) { OnLinkFailed(link, status); });
  link->connection->Open([this, link](Status status) { OnLinkOpened(link, std::move(status)); });
}

void AbstractFetcherThread::OnLinkOpened(Link* link, Status status) {
  link->opening = false;
  if (status.ok()) status = CheckVersions(link->connection->versions());
  if (!status.ok()) return OnLinkFailed(link, status);
  link->open = true;
  FetcherStats::Add(stats_->connects, 1);
  if (link == &fetch_link_) {
    fetch_version_ = *link->connection->versions().Pick(
        protocol::FetchRequest::kApiKey, {kFetchMinVersion, settings_.max_fetch_version});
    Log(host::LogLevel::kInfo, "connected endpoint=" + settings_.connection.endpoint.ToString() +
                                   " fetch_version=" + std::to_string(fetch_version_));
  }
  Pump();
}

void AbstractFetcherThread::OnLinkFailed(Link* link, const Status& status) {
  if (link->connection == nullptr) return;
  const Status reason = status;  // it may live in the connection
  link->connection.reset();
  link->open = link->opening = false;
  link->not_before = nanoseconds(0);  // the next connection is another one
  link->failed = true;
  FetcherStats::Add(stats_->failed_requests, 1);
  for (auto& [key, partition] : partitions_) {
    if (!partition.asking || partition.asked_on != link) continue;
    partition.asking = false;
    WantControl(key, partition);
  }
  if (link == &fetch_link_) {
    fetching_ = false;
    stats_->fetch_ends_ns.store(0, std::memory_order_relaxed);
    current_ = {};
    leader_faults_.clear();
    divergences_.clear();
    parser_.Abandon();
    session_.OnTransportFailure();
  }
  const nanoseconds delay = link->backoff.Next(runtime_->Random());
  link->retry_at = Now() + delay;
  Log(host::LogLevel::kWarn,
      "link_failed reason=\"" + reason.ToString() + "\" retry_ms=" +
          std::to_string(std::chrono::duration_cast<std::chrono::milliseconds>(delay).count()));
  // What has passed the gate is whole and checked; only what was still arriving is lost.
  FlushDeferred();
  OnLink(reason);
  Pump();
}

void AbstractFetcherThread::OnLinkSucceeded(Link* link) {
  link->backoff.Reset();
  if (!std::exchange(link->failed, false)) return;
  if (!fetch_link_.failed && !control_link_.failed) OnLink({});
}

void AbstractFetcherThread::Throttle(Link* link, int32_t throttle_ms) {
  if (throttle_ms <= 0) return;
  const std::chrono::milliseconds throttle =
      std::min(std::chrono::milliseconds(throttle_ms), kMaxThrottle);
  FetcherStats::Add(stats_->throttle_ms, throttle.count());
  link->not_before = std::max(link->not_before, Now() + throttle);
}

void AbstractFetcherThread::CloseLinks() {
  fetch_link_.connection.reset();
  fetch_link_.open = fetch_link_.opening = false;
  control_link_.connection.reset();
  control_link_.open = control_link_.opening = false;
  fetching_ = false;
  current_ = {};
  parser_.Abandon();
  session_.OnTransportFailure();
}

AbstractFetcherThread::Link* AbstractFetcherThread::ControlLink() {
  // A connection whose source asked for patience is not for control requests either (7.2).
  if (fetch_link_.open && !fetching_ && Now() >= fetch_link_.not_before) return &fetch_link_;
  if (control_link_.open) return Now() >= control_link_.not_before ? &control_link_ : nullptr;
  if (fetch_link_.open && control_link_.connection == nullptr && Now() >= control_link_.retry_at) {
    OpenLink(&control_link_);
  }
  return nullptr;
}

// ---- Time.

void AbstractFetcherThread::Pump() {
  if (pumping_ || closed_) return;
  pumping_ = true;
  if (partitions_.empty()) {
    CloseLinks();
    dirty_.clear();
    control_.clear();
    control_waiting_.clear();
  } else {
    if (fetch_link_.connection == nullptr && Now() >= fetch_link_.retry_at) OpenLink(&fetch_link_);
    StartControl();
    if (fetch_link_.open && !fetching_ &&
        Now() >= std::max(fetch_not_before_, fetch_link_.not_before)) {
      SendFetch();
    }
  }
  pumping_ = false;
  ArmTimer();
}

void AbstractFetcherThread::ArmTimer() {
  if (closed_) return;
  const nanoseconds now = Now();
  std::optional<nanoseconds> due;
  const auto consider = [&due](nanoseconds at) {
    if (!due || at < *due) due = at;
  };
  if (!delayed_.empty()) consider(delayed_.begin()->first);
  if (!partitions_.empty()) {
    if (fetch_link_.connection == nullptr) consider(fetch_link_.retry_at);
    if (!control_waiting_.empty() && control_link_.connection == nullptr &&
        control_link_.retry_at > now) {
      consider(control_link_.retry_at);
    }
    if (fetch_not_before_ > now) consider(fetch_not_before_);
    if (fetch_link_.not_before > now) consider(fetch_link_.not_before);
    if (!control_waiting_.empty() && control_link_.not_before > now) {
      consider(control_link_.not_before);
    }
  }
  if (!due || (timer_ != 0 && timer_due_ == *due)) return;
  lane_->Cancel(timer_);
  timer_due_ = *due;
  timer_ = lane_->RunAfter(std::max(*due - now, nanoseconds(0)), [this] {
    timer_ = 0;
    OnTimer();
  });
}

void AbstractFetcherThread::OnTimer() {
  const nanoseconds now = Now();
  while (!delayed_.empty() && delayed_.begin()->first <= now) {
    const TopicIdPartition key = delayed_.begin()->second;
    delayed_.erase(delayed_.begin());
    if (Partition* partition = Find(key)) {
      partition->state.due = nanoseconds(0);
      MarkDirty(key, *partition);
      WantControl(key, *partition);
    }
  }
  Pump();
}

}  // namespace kmirror::fetcher
