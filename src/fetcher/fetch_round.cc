// One round of fetching: build, send, receive, gate, hand on (1.7).
#include <algorithm>
#include <chrono>
#include <iterator>
#include <utility>

#include "messages/fetch.h"
#include "src/fetcher/abstract_fetcher_thread.h"
#include "src/protocol/body.h"

namespace kmirror::fetcher {
namespace {

using protocol::FetchRequest;
using std::chrono::milliseconds;
using std::chrono::nanoseconds;

constexpr size_t kMaxQueuedSets = 4;  // of one partition, before it is left out of the next fetch
constexpr int kMaxEmptyAnswers = 5;   // early and without news: asked more seldom from then on
constexpr milliseconds kEmptyDelay{100};
// Up to here appending costs less than sending a fetch does, and somebody may wait for the records.
constexpr size_t kAppendFirstBytes = 64 << 10;

template <typename Topic>
Topic& TopicFor(std::vector<Topic>* topics, const SessionPartition& partition) {
  if (topics->empty() || topics->back().topic != partition.topic ||
      topics->back().topic_id != partition.source_topic_id) {
    Topic& topic = topics->emplace_back();
    topic.topic = partition.topic;
    topic.topic_id = partition.source_topic_id;
  }
  return topics->back();
}

}  // namespace

// ---- Asking.

bool AbstractFetcherThread::Wanted(const Partition& partition) const {
  return partition.state.ReadyForFetch() && !partition.removing && !partition.cutting &&
         partition.queue.size() < kMaxQueuedSets;
}

SessionPartition AbstractFetcherThread::Ask(const TopicIdPartition& key, const Partition& partition,
                                            const FetchIdentity& identity) const {
  SessionPartition out;
  out.key = key;
  out.topic = partition.topic;
  out.source_topic_id = partition.source_topic_id;
  out.fetch_offset = partition.state.fetch_offset;
  out.current_leader_epoch = partition.state.current_leader_epoch;
  out.last_fetched_epoch = partition.state.last_fetched_epoch;
  out.max_bytes = identity.partition_max_bytes;
  out.generation = partition.generation;
  return out;
}

std::optional<FetchSession::Request> AbstractFetcherThread::BuildFetch(
    const FetchIdentity& identity) {
  const bool uses_ids = fetch_version_ >= kFetchFirstTopicIds && without_topic_id_ == 0;
  if (uses_ids != session_uses_ids_ || identity.passing) session_.Restart();
  session_uses_ids_ = uses_ids;
  if (session_.NeedsFull()) {
    std::vector<SessionPartition> wanted;
    for (auto& [key, partition] : partitions_) {
      partition.dirty = false;
      if (Wanted(partition)) wanted.push_back(Ask(key, partition, identity));
    }
    dirty_.clear();
    if (wanted.empty()) return std::nullopt;
    return session_.BuildFull(std::move(wanted));
  }
  std::vector<SessionPartition> changed;
  std::vector<TopicIdPartition> unwanted;
  std::vector<TopicIdPartition> again;
  for (const TopicIdPartition& key : dirty_) {
    Partition* partition = Find(key);
    if (partition == nullptr) {
      unwanted.push_back(key);
      continue;
    }
    if (!partition->dirty) continue;  // seen already
    partition->dirty = false;
    if (Wanted(*partition)) {
      changed.push_back(Ask(key, *partition, identity));
    } else {
      unwanted.push_back(key);
    }
  }
  dirty_.clear();
  FetchSession::Request request = session_.BuildIncremental(std::move(changed), unwanted, &again);
  for (const TopicIdPartition& key : again) {
    if (Partition* partition = Find(key)) MarkDirty(key, *partition);
  }
  if (session_.size() == 0 && request.forgotten.empty()) return std::nullopt;
  return request;
}

bool AbstractFetcherThread::HasUnheard(const FetchSession::Request& request) {
  return std::any_of(request.partitions.begin(), request.partitions.end(),
                     [this](const auto& asked) {
                       const Partition* partition = Find(asked.key);
                       return partition != nullptr && !partition->state.lag.has_value();
                     });
}

void AbstractFetcherThread::SendFetch() {
  const FetchIdentity identity = Identity();
  std::optional<FetchSession::Request> built = BuildFetch(identity);
  if (!built) return;
  const int16_t version = session_uses_ids_
                              ? fetch_version_
                              : std::min<int16_t>(fetch_version_, kFetchFirstTopicIds - 1);
  FetchRequest request;
  if (version >= 15) {
    request.replica_state.replica_id = identity.replica_id;
    request.replica_state.replica_epoch = identity.replica_epoch;
  } else {
    request.replica_id = identity.replica_id;
  }
  const bool hurry = built->hurry || (identity.passing && HasUnheard(*built));
  request.max_wait_ms = hurry ? 0 : identity.max_wait_ms;
  request.min_bytes = identity.min_bytes;
  request.max_bytes = identity.max_bytes;
  request.isolation_level = identity.isolation_level;
  request.session_id = built->session_id;
  request.session_epoch = identity.passing ? FetchSession::kNoSession : built->session_epoch;
  for (const SessionPartition& partition : built->partitions) {
    auto& out = TopicFor(&request.topics, partition).partitions.emplace_back();
    out.partition = partition.key.partition;
    out.current_leader_epoch = partition.current_leader_epoch;
    out.fetch_offset = partition.fetch_offset;
    // Below v12 there is no such field, and setting it is an error (1.11).
    if (version >= kFetchFirstFlexible) out.last_fetched_epoch = partition.last_fetched_epoch;
    out.log_start_offset = partition.log_start_offset;
    out.partition_max_bytes = partition.max_bytes;
  }
  for (const SessionPartition& partition : built->forgotten) {
    TopicFor(&request.forgotten_topics_data, partition)
        .partitions.push_back(partition.key.partition);
  }
  protocol::Writer body;
  if (Status status = protocol::Encode(request, version, body); !status.ok()) {
    Log(host::LogLevel::kError, "fetch_not_sent reason=\"" + status.ToString() + "\"");
    session_.Restart();
    return HoldFetches(status);
  }
  // What was new in a fetch that told nothing is still new.
  if (!std::exchange(withheld_, false) || request.session_epoch <= 0) asked_last_.clear();
  std::move(built->partitions.begin(), built->partitions.end(), std::back_inserter(asked_last_));
  fetching_ = true;
  fetching_version_ = version;
  fetch_sent_at_ = Now();
  fetch_wait_ = milliseconds(request.max_wait_ms);
  any_news_ = false;
  throttle_ms_ = 0;
  session_refused_ = false;
  FetcherStats::Add(stats_->requests, 1);
  stats_->fetch_ends_ns.store((fetch_sent_at_ + fetch_wait_).count(), std::memory_order_relaxed);
  fetch_link_.connection->Stream({FetchRequest::kApiKey, version, body.Flatten(),
                                  settings_.request_timeout + milliseconds(identity.max_wait_ms)},
                                 this);
}

// ---- Receiving.

Status AbstractFetcherThread::Begin(size_t bytes) {
  parser_.Begin(fetching_version_, bytes);
  return {};
}

Status AbstractFetcherThread::Received(size_t bytes) {
  Status status = parser_.Received(bytes);
  // At the end of the answer a large set waits until the next fetch is on its way: the source works
  // on that while it is written. A small one goes first.
  if (!parser_.AtEnd() || DeferredBytes() <= kAppendFirstBytes) FlushDeferred();
  return status;
}

size_t AbstractFetcherThread::DeferredBytes() {
  const Partition* partition = deferred_ ? Find(*deferred_) : nullptr;
  return partition == nullptr || partition->queue.empty() ? 0 : partition->queue.back().set->size;
}

Status AbstractFetcherThread::OnPrologue(int32_t throttle_ms, ErrorCode error, int32_t session_id) {
  throttle_ms_ = throttle_ms;
  answer_at_ = Now();
  Status status = session_.OnPrologue(error, session_id);
  session_refused_ = !status.ok();
  return status;
}

bool AbstractFetcherThread::OnPartition(const FetchedPartition& answered) {
  current_ = {};
  const TopicIdPartition* key = nullptr;
  TopicIdPartition by_id;
  if (fetching_version_ >= kFetchFirstTopicIds) {
    by_id = {answered.topic_id, answered.index};
    key = &by_id;
  } else if (const auto it = by_name_.find({answered.topic, answered.index});
             it != by_name_.end()) {
    key = &it->second;
  } else {
    // Removed while the answer was on its way: the session may still have it.
    for (const SessionPartition& asked : asked_last_) {
      if (asked.key.partition == answered.index && asked.topic == answered.topic) key = &asked.key;
    }
  }
  if (!session_.OnPartition(key).ok()) return false;
  const SessionPartition* asked = session_.Find(*key);
  const Partition* partition = FindSame(*key, asked->generation);
  // The gate (1.7 step 4): what we asked is still what we want.
  if (partition == nullptr || !partition->state.ReadyForFetch() || partition->cutting ||
      partition->state.fetch_offset != asked->fetch_offset ||
      partition->state.current_leader_epoch != asked->current_leader_epoch) {
    if (answered.records_bytes > 0) FetcherStats::Add(stats_->dropped_sets, 1);
    return false;
  }
  current_.accepted = true;
  current_.key = *key;
  current_.generation = partition->generation;
  current_.next_offset = partition->state.fetch_offset;
  current_.fetch_epoch = partition->state.current_leader_epoch;
  current_.high_watermark = answered.high_watermark;
  current_.log_start = answered.log_start_offset;
  return answered.error == ErrorCode::kNone && answered.preferred_read_replica < 0;
}

std::string AbstractFetcherThread::Misplaced(const TopicIdPartition& key,
                                             const Partition& partition,
                                             const FetchedSet& set) const {
  const int64_t wanted = partition.state.fetch_offset;
  const log::BatchInfo& first = set.batches.front();
  // A log that is empty may begin within a batch (2.4); nothing else may be repeated.
  const auto empty = [&] {
    const LocalLog local = Local(key);
    return local.start == local.end && partition.queue.empty();
  };
  if (first.base_offset < wanted && (set.last_offset() < wanted || !empty())) {
    return "a batch of offsets " + std::to_string(first.base_offset) + " to " +
           std::to_string(first.last_offset) + " where " + std::to_string(wanted) +
           " was asked for";
  }
  // Epochs never go back along a log: look-ups by epoch, and every cut, rest on it.
  int32_t epoch = partition.state.last_fetched_epoch;
  for (const log::BatchInfo& batch : set.batches) {
    if (batch.leader_epoch < 0) continue;  // older formats have none
    if (batch.leader_epoch < epoch) {
      return "a batch of epoch " + std::to_string(batch.leader_epoch) + " at offset " +
             std::to_string(batch.base_offset) + " behind one of epoch " + std::to_string(epoch);
    }
    epoch = batch.leader_epoch;
  }
  return "";
}

void AbstractFetcherThread::OnSet(std::unique_ptr<FetchedSet> set) {
  FlushDeferred();
  Partition* partition = current_.accepted ? FindSame(current_.key, current_.generation) : nullptr;
  if (partition == nullptr || !partition->state.ReadyForFetch() || partition->cutting ||
      partition->state.fetch_offset != current_.next_offset ||
      partition->state.current_leader_epoch != current_.fetch_epoch) {
    current_.accepted = false;
    FetcherStats::Add(stats_->dropped_sets, 1);
    return parser_.Recycle(std::move(set));
  }
  if (std::string why = Misplaced(current_.key, *partition, *set); !why.empty()) {
    Fault fault;
    fault.kind = Fault::Kind::kMisplaced;
    fault.offset = set->batches.front().base_offset;
    fault.text = std::move(why);
    leader_faults_.push_back({current_.key, current_.generation, std::move(fault)});
    current_.accepted = false;
    FetcherStats::Add(stats_->dropped_sets, 1);
    return parser_.Recycle(std::move(set));
  }
  if (!CheckSet(current_.key, *set, current_.fetch_epoch)) {
    current_.accepted = false;
    return parser_.Recycle(std::move(set));
  }
  partition = FindSame(current_.key, current_.generation);
  if (partition == nullptr) {
    current_.accepted = false;
    return parser_.Recycle(std::move(set));
  }
  // The position moves now, so that the next fetch need not wait for the write; a write that fails
  // takes it back.
  const int64_t expected_end = partition->state.fetch_offset;
  partition->state.fetch_offset = set->last_offset() + 1;
  if (set->last_epoch() >= 0) partition->state.last_fetched_epoch = set->last_epoch();
  current_.next_offset = partition->state.fetch_offset;
  current_.any_set = any_news_ = true;
  MarkDirty(current_.key, *partition);
  partition->queue.push_back(
      {std::move(set), expected_end, current_.high_watermark, current_.log_start});
  ++held_sets_;
  deferred_ = current_.key;
}

void AbstractFetcherThread::OnPartitionEnd(const FetchedPartition& answered,
                                           const FetchedPartitionEnd& end) {
  if (end.partial_bytes > 0) FetcherStats::Add(stats_->partial_bytes, end.partial_bytes);
  if (!std::exchange(current_.accepted, false)) return;
  const TopicIdPartition key = current_.key;
  Partition* partition = FindSame(key, current_.generation);
  if (partition == nullptr) return;
  OnUnsettled(key);
  Fault fault;
  if (answered.error != ErrorCode::kNone) {
    fault.code = answered.error;
    fault.leader_id = end.leader_id;
    fault.leader_epoch = end.leader_epoch;
    // The brokers' addresses come at the end of the answer.
    leader_faults_.push_back({key, current_.generation, std::move(fault)});
    return;
  }
  if (end.diverging.end_offset >= 0) {
    divergences_.push_back({key, current_.generation, end.diverging});
    return;
  }
  if (answered.preferred_read_replica >= 0) {
    FetcherStats::Add(stats_->preferred_replica, 1);
    fault.kind = Fault::Kind::kPreferredReplica;
    leader_faults_.push_back({key, current_.generation, std::move(fault)});
    return;
  }
  if (end.corrupt) {
    FetcherStats::Add(stats_->crc_failures, 1);
    fault.kind = Fault::Kind::kCorrupt;
    fault.offset = end.corrupt_offset >= 0 ? end.corrupt_offset : partition->state.fetch_offset;
    fault.text = end.corruption;
    leader_faults_.push_back({key, current_.generation, std::move(fault)});
    return;
  }
  if (end.partial_bytes > 0 && !current_.any_set) {
    fault.kind = Fault::Kind::kOnlyPartial;
    leader_faults_.push_back({key, current_.generation, std::move(fault)});
    return;
  }
  const bool first = !partition->state.lag.has_value();
  partition->state.lag =
      std::max<int64_t>(0, answered.high_watermark - partition->state.fetch_offset);
  if (current_.any_set || first) partitions_.MoveToEnd(key);
  partition->answered = true;
  partition->answered_high_watermark = answered.high_watermark;
  partition->answered_log_start = answered.log_start_offset;
  partition->answered_at = answer_at_;
  SettleAnswer(key);
}

void AbstractFetcherThread::Done(Status status) {
  stats_->buffer_peak_bytes.store(static_cast<int64_t>(pool_.peak() * Slab::kBytes),
                                  std::memory_order_relaxed);
  fetching_ = false;
  stats_->fetch_ends_ns.store(0, std::memory_order_relaxed);
  current_ = {};
  if (!status.ok()) return OnLinkFailed(&fetch_link_, status);
  Status finished = parser_.Finish();
  if (!finished.ok() && !session_refused_) return OnLinkFailed(&fetch_link_, finished);
  Throttle(&fetch_link_, throttle_ms_);
  if (finished.ok()) finished = session_.OnEnd(throttle_ms_);
  if (finished.ok()) {
    session_backoff_.Reset();
    withheld_ = throttle_ms_ > 0 && !session_.NamedAny();
    if (!withheld_) {
      stats_->last_answer_ns.store(answer_at_.count(), std::memory_order_relaxed);
    }
    OnLinkSucceeded(&fetch_link_);
    SlowDownIfEmpty();
  } else {
    FetcherStats::Add(stats_->session_resets, 1);
    HoldFetches(finished);
  }
  EndRound();
}

void AbstractFetcherThread::SlowDownIfEmpty() {
  // Trims and first answers come early too, but not again and again.
  const bool empty = !any_news_ && throttle_ms_ <= 0 && Now() - fetch_sent_at_ < fetch_wait_ / 2;
  empty_answers_ = empty ? empty_answers_ + 1 : 0;
  if (empty_answers_ > kMaxEmptyAnswers) {
    fetch_not_before_ = std::max(fetch_not_before_, Now() + kEmptyDelay);
  }
}

void AbstractFetcherThread::HoldFetches(const Status& why) {
  Log(host::LogLevel::kInfo, "session_reset reason=\"" + why.ToString() + "\"");
  // An evicted session is normal and costs nothing; a source that always refuses must not be
  // hammered.
  const bool evicted = why.code() == ErrorCode::kFetchSessionIdNotFound ||
                       why.code() == ErrorCode::kInvalidFetchSessionEpoch;
  const bool first = session_backoff_.failures() == 0;
  const nanoseconds delay = session_backoff_.Next(runtime_->Random());
  if (!evicted) OnRefused(why);
  if (!first || !evicted) fetch_not_before_ = std::max(fetch_not_before_, Now() + delay);
}

void AbstractFetcherThread::EndRound() {
  // 1.7 step 6: divergence first, then leaders, then the rest.
  for (const Divergence& divergence : std::exchange(divergences_, {})) {
    Partition* partition = FindSame(divergence.key, divergence.generation);
    if (partition == nullptr) continue;
    partition->ask_epoch = -1;
    Align(divergence.key, *partition, divergence.source, partition->state.last_fetched_epoch);
    // Whatever it answered, fetching on from the same place would only be told the same.
    partition = FindSame(divergence.key, divergence.generation);
    if (partition != nullptr && partition->state.ReadyForFetch()) {
      partition->state.stage = FetchStage::kTruncating;
      Delay(divergence.key, *partition, settings_.fetch_backoff);
    }
  }
  for (LeaderFault& late : std::exchange(leader_faults_, {})) {
    late.fault.has_endpoints = !parser_.endpoints().empty();
    for (const NodeEndpoint& node : parser_.endpoints()) {
      if (node.id == late.fault.leader_id) late.fault.leader_address = node.address;
    }
    HandleFault(late.key, late.generation, late.fault);
  }
  if (!session_refused_ && !withheld_) {
    // New partitions that an incremental answer left out have no news, which is an answer too.
    for (const SessionPartition& asked : asked_last_) {
      Partition* partition = FindSame(asked.key, asked.generation);
      if (partition == nullptr || partition->state.lag.has_value() || session_.Named(asked.key) ||
          !partition->state.ReadyForFetch() || session_.NeedsFull()) {
        continue;
      }
      partition->state.lag = 0;
      partition->answered = true;
      partition->answered_high_watermark = partition->answered_log_start = -1;
      partition->answered_at = answer_at_;
      SettleAnswer(asked.key);
    }
  }
  Pump();  // the next fetch leaves
  FlushDeferred();
  OnRound();
  Pump();
}

// ---- Faults.

void AbstractFetcherThread::HandleFault(const TopicIdPartition& key, uint64_t generation,
                                        const Fault& fault) {
  Partition* partition = FindSame(key, generation);
  if (partition == nullptr) return;
  if (fault.kind == Fault::Kind::kSource) FetcherStats::Add(stats_->partition_errors, 1);
  if (fault.kind == Fault::Kind::kSource && fault.code == ErrorCode::kOffsetOutOfRange &&
      partition->state.stage == FetchStage::kFetching) {
    ClearQueue(*partition);
    partition->state.stage = FetchStage::kRanging;
    MarkDirty(key, *partition);
    WantControl(key, *partition);
    return;
  }
  const FaultAction action = OnFault(key, fault);
  if (action != FaultAction::kDelay) return;
  if (Partition* same = FindSame(key, generation)) Delay(key, *same, settings_.fetch_backoff);
}

// ---- Handing sets to the log.

void AbstractFetcherThread::FlushDeferred() {
  if (!deferred_) return;
  const TopicIdPartition key = *std::exchange(deferred_, std::nullopt);
  ProcessQueue(key);
}

void AbstractFetcherThread::ProcessQueue(const TopicIdPartition& key) {
  for (;;) {
    Partition* partition = Find(key);
    if (partition == nullptr || partition->removing) return;
    if (partition->busy || partition->queue.empty()) break;
    const uint64_t generation = partition->generation;
    const QueuedSet& front = partition->queue.front();
    const Processed result = ProcessSet(key, generation, *front.set, front.expected_end,
                                        front.high_watermark, front.log_start);
    partition = FindSame(key, generation);
    if (partition == nullptr) return;
    if (result == Processed::kPending) {
      partition->busy = true;
      break;
    }
    if (result == Processed::kGone) return;
    if (result == Processed::kRetry) {
      RollBack(key, *partition);
      return;
    }
    CountAppended(*partition->queue.front().set);
    parser_.Recycle(std::move(partition->queue.front().set));
    partition->queue.pop_front();
    --held_sets_;
  }
  SettleAnswer(key);
}

void AbstractFetcherThread::CountAppended(const FetchedSet& set) {
  int64_t records = 0;
  for (const log::BatchInfo& batch : set.batches) records += batch.count;
  FetcherStats::Add(stats_->bytes, static_cast<int64_t>(set.size));
  FetcherStats::Add(stats_->batches, static_cast<int64_t>(set.batches.size()));
  FetcherStats::Add(stats_->records, records);
  FetcherStats::Add(stats_->appends, 1);
}

void AbstractFetcherThread::SetProcessed(const TopicIdPartition& key, uint64_t generation,
                                         Processed result) {
  Partition* partition = Find(key);
  if (partition == nullptr || partition->generation != generation || !partition->busy) return;
  partition->busy = false;
  QueuedSet front = std::move(partition->queue.front());
  partition->queue.pop_front();
  --held_sets_;
  if (result == Processed::kDone) CountAppended(*front.set);
  parser_.Recycle(std::move(front.set));
  if (partition->removing) {
    FinishRemoval(key);
  } else {
    MarkDirty(key, *partition);
    if (result == Processed::kRetry) {
      RollBack(key, *partition);
    } else if (result == Processed::kDone) {
      ProcessQueue(key);
    }
  }
  if (fetch_link_.connection != nullptr) fetch_link_.connection->Resume();
  Pump();
}

void AbstractFetcherThread::RollBack(const TopicIdPartition& key, Partition& partition) {
  ClearQueue(partition);
  const LocalLog local = Local(key);
  partition.state.fetch_offset = local.end;
  partition.state.last_fetched_epoch = local.last_batch_epoch;
  partition.state.stage = FetchStage::kTruncating;
  partition.ask_epoch = -1;
  partition.answered = false;
  MarkDirty(key, partition);
  Delay(key, partition, settings_.fetch_backoff);
}

void AbstractFetcherThread::ClearQueue(Partition& partition) {
  // The front set is at the log while an append is pending.
  const size_t keep = partition.busy && !partition.cutting ? 1 : 0;
  while (partition.queue.size() > keep) {
    parser_.Recycle(std::move(partition.queue.back().set));
    partition.queue.pop_back();
    --held_sets_;
  }
  if (fetch_link_.connection != nullptr) fetch_link_.connection->Resume();
}

void AbstractFetcherThread::SettleAnswer(const TopicIdPartition& key) {
  Partition* partition = Find(key);
  if (partition == nullptr || partition->removing || !partition->answered || partition->busy ||
      !partition->queue.empty()) {
    return;
  }
  partition->answered = false;
  OnAnswer(key, partition->answered_high_watermark, partition->answered_log_start,
           partition->answered_at);
}

}  // namespace kmirror::fetcher
