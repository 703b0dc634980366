// Alignment of partitions with their source: epoch exchanges (1.5, 1.6) and out-of-range (1.8).
#include <algorithm>
#include <chrono>
#include <unordered_map>
#include <utility>

#include "messages/list_offsets.h"
#include "messages/offset_for_leader_epoch.h"
#include "src/fetcher/abstract_fetcher_thread.h"
#include "src/fetcher/truncation_point.h"
#include "src/protocol/body.h"

namespace kmirror::fetcher {
namespace {

using protocol::ListOffsetsRequest;
using protocol::ListOffsetsResponse;
using protocol::OffsetForLeaderEpochRequest;
using protocol::OffsetForLeaderEpochResponse;

constexpr size_t kEpochsPerRequest = 1000;
constexpr int64_t kLatestTimestamp = -1;
constexpr int64_t kEarliestTimestamp = -2;
constexpr int32_t kConsumer = -1;

}  // namespace

void AbstractFetcherThread::StartControl() {
  Link* link = control_waiting_.empty() ? nullptr : ControlLink();
  std::vector<TopicIdPartition> listed;
  if (link != nullptr) listed = std::exchange(control_waiting_, {});
  listed.insert(listed.end(), control_.begin(), control_.end());
  control_.clear();
  std::vector<AskedEpoch> asked;
  std::vector<TopicIdPartition> ranging;
  for (const TopicIdPartition& key : listed) {
    Partition* partition = Find(key);
    if (partition == nullptr) continue;
    partition->control_listed = false;
    // What is delayed or asked about is listed again when that ends.
    if (partition->state.stage == FetchStage::kFetching || partition->state.Delayed() ||
        partition->asking || partition->removing) {
      continue;
    }
    if (partition->busy || !partition->queue.empty()) {
      WantControl(key, *partition);
      continue;
    }
    if (partition->state.stage == FetchStage::kRanging) {
      partition->asking = true;
      ranging.push_back(key);
      continue;
    }
    const LocalLog local = Local(key);
    if (local.end == local.start || local.latest_epoch < 0) {
      // Nothing to compare (set N of 1.5): an empty log, or one of formats without epochs.
      if (partition->was_cut && !OnCutComplete(key, local.end)) continue;
      GoOnFetching(key, *partition);
      continue;
    }
    const int32_t epoch = partition->ask_epoch >= 0 ? partition->ask_epoch : local.latest_epoch;
    partition->asking = true;
    asked.push_back({key, partition->generation, partition->state.current_leader_epoch, epoch});
  }
  if (asked.empty() && ranging.empty()) return;
  if (link == nullptr) link = ControlLink();
  if (link == nullptr) {
    const auto wait = [this](const TopicIdPartition& key) {
      Partition* partition = Find(key);
      if (partition == nullptr) return;
      partition->asking = false;
      if (!std::exchange(partition->control_listed, true)) control_waiting_.push_back(key);
    };
    for (const AskedEpoch& ask : asked) wait(ask.key);
    for (const TopicIdPartition& key : ranging) wait(key);
    return;
  }
  for (size_t at = 0; at < asked.size(); at += kEpochsPerRequest) {
    const size_t end = std::min(at + kEpochsPerRequest, asked.size());
    AskEpochs(link, {asked.begin() + static_cast<std::ptrdiff_t>(at),
                     asked.begin() + static_cast<std::ptrdiff_t>(end)});
  }
  for (const TopicIdPartition& key : ranging) {
    if (Partition* partition = Find(key)) AskRange(link, key, *partition, std::nullopt);
  }
}

// ---- Epochs.

void AbstractFetcherThread::AskEpochs(Link* link, std::vector<AskedEpoch> asked) {
  const int16_t version =
      *link->connection->versions().Pick(OffsetForLeaderEpochRequest::kApiKey, {2, 4});
  OffsetForLeaderEpochRequest request;  // replica_id stays at its default
  for (const AskedEpoch& ask : asked) {
    Partition* partition = Find(ask.key);
    partition->asking = true;
    partition->asked_on = link;
    if (request.topics.empty() || request.topics.back().topic != partition->topic) {
      request.topics.emplace_back().topic = partition->topic;
    }
    auto& out = request.topics.back().partitions.emplace_back();
    out.partition = ask.key.partition;
    out.current_leader_epoch = ask.leader_epoch;
    out.leader_epoch = ask.epoch;
  }
  FetcherStats::Add(stats_->epoch_requests, 1);
  protocol::Writer body;
  if (Status status = protocol::Encode(request, version, body); !status.ok()) {
    Log(host::LogLevel::kError, "epochs_not_asked reason=\"" + status.ToString() + "\"");
    for (const AskedEpoch& ask : asked) {
      Partition* partition = Find(ask.key);
      partition->asking = false;
      Delay(ask.key, *partition, settings_.fetch_backoff);
    }
    return;
  }
  link->connection->Ask(
      {OffsetForLeaderEpochRequest::kApiKey, version, body.Flatten(), settings_.request_timeout},
      [this, link, version, asked = std::move(asked)](Result<std::vector<uint8_t>> answer) {
        OnEpochAnswer(link, asked, version, std::move(answer));
      });
}

void AbstractFetcherThread::OnEpochAnswer(Link* link, const std::vector<AskedEpoch>& asked_in,
                                          int16_t version, Result<std::vector<uint8_t>> body) {
  if (!body.ok()) return OnLinkFailed(link, body.status());
  OffsetForLeaderEpochResponse response;
  if (Status status = protocol::DecodeBody(*body, version, &response); !status.ok()) {
    return OnLinkFailed(link, status);
  }
  const std::vector<AskedEpoch> asked = asked_in;  // the link, and with it our caller, may go
  OnLinkSucceeded(link);
  Throttle(link, response.throttle_time_ms);
  std::map<std::pair<std::string, int32_t>, OffsetForLeaderEpochResponse::EpochEndOffset> answers;
  for (auto& topic : response.topics) {
    for (auto& partition : topic.partitions)
      answers[{topic.topic, partition.partition}] = partition;
  }
  for (const AskedEpoch& ask : asked) {
    Partition* partition = FindSame(ask.key, ask.generation);
    if (partition == nullptr) continue;
    partition->asking = false;
    if (partition->state.current_leader_epoch != ask.leader_epoch ||
        partition->state.stage != FetchStage::kTruncating) {
      WantControl(ask.key, *partition);  // asked under another epoch (1.5 step 3)
      continue;
    }
    const auto answer = answers.find({partition->topic, ask.key.partition});
    if (answer == answers.end()) {
      Delay(ask.key, *partition, settings_.fetch_backoff);
      continue;
    }
    const auto code = static_cast<ErrorCode>(answer->second.error_code);
    if (code != ErrorCode::kNone) {
      Fault fault;
      fault.code = code;
      HandleFault(ask.key, ask.generation, fault);
      continue;
    }
    Align(ask.key, *partition, {answer->second.leader_epoch, answer->second.end_offset}, ask.epoch);
  }
  Pump();
}

void AbstractFetcherThread::Align(const TopicIdPartition& key, Partition& partition,
                                  host::EpochEnd source, int32_t asked_epoch) {
  const LocalLog local = Local(key);
  if (source.end_offset < 0) {
    // R26: the source cannot place this epoch. An older one of ours may be common to both.
    const int32_t lower = LocalEpochBelow(key, asked_epoch);
    if (lower >= 0) {
      partition.ask_epoch = lower;
      partition.state.stage = FetchStage::kTruncating;
      WantControl(key, partition);
      return;
    }
    Fault fault;
    fault.kind = Fault::Kind::kNoCommonEpoch;
    HandleFault(key, partition.generation, fault);
    return;
  }
  if (source.epoch > asked_epoch) {
    Log(host::LogLevel::kWarn, "epoch_answer_above_question asked=" + std::to_string(asked_epoch) +
                                   " got=" + std::to_string(source.epoch));
    partition.state.stage = FetchStage::kTruncating;
    Delay(key, partition, settings_.fetch_backoff);
    return;
  }
  const host::EpochEnd ours =
      source.epoch >= 0 ? LocalEpochEnd(key, source.epoch) : host::EpochEnd{};
  const TruncationPoint point =
      FindTruncationPoint(source, ours, partition.state.fetch_offset, local.end);
  if (point.offset < local.end) {
    Cut(key, partition, point.offset, point.complete);
    return;
  }
  if (!point.complete) {
    partition.ask_epoch = ours.epoch;
    partition.state.stage = FetchStage::kTruncating;
    WantControl(key, partition);
    return;
  }
  const uint64_t generation = partition.generation;
  if (partition.was_cut && !OnCutComplete(key, local.end)) return;
  if (Partition* same = FindSame(key, generation)) GoOnFetching(key, *same);
}

void AbstractFetcherThread::GoOnFetching(const TopicIdPartition& key, Partition& partition) {
  const LocalLog local = Local(key);
  partition.state.stage = FetchStage::kFetching;
  partition.state.fetch_offset = local.end;
  partition.state.last_fetched_epoch = local.last_batch_epoch;
  partition.ask_epoch = -1;
  partition.was_cut = false;
  MarkDirty(key, partition);
}

void AbstractFetcherThread::Cut(const TopicIdPartition& key, Partition& partition, int64_t offset,
                                bool complete) {
  const uint64_t generation = partition.generation;
  ClearQueue(partition);
  partition.state.stage = FetchStage::kTruncating;
  partition.ask_epoch = -1;
  MarkDirty(key, partition);
  if (!CutLog(key, generation, offset)) return;
  Partition* same = FindSame(key, generation);
  if (same == nullptr) return;
  same->busy = same->cutting = true;
  same->restarting = false;
  same->cut_complete = complete;
}

void AbstractFetcherThread::CutDone(const TopicIdPartition& key, uint64_t generation,
                                    Status status) {
  Partition* partition = Find(key);
  if (partition == nullptr || partition->generation != generation || !partition->cutting) return;
  partition->busy = partition->cutting = false;
  if (partition->removing) {
    FinishRemoval(key);
    return Pump();
  }
  partition->state.stage = FetchStage::kTruncating;
  WantControl(key, *partition);
  if (!status.ok()) {
    Fault fault;
    fault.kind = Fault::Kind::kCutFailed;
    fault.code = status.code();
    fault.text = status.ToString();
    HandleFault(key, generation, fault);
    return Pump();
  }
  const LocalLog local = Local(key);
  partition->state.fetch_offset = local.end;
  partition->state.last_fetched_epoch = local.last_batch_epoch;
  if (partition->restarting) {
    GoOnFetching(key, *partition);
    return Pump();
  }
  partition->was_cut = true;
  if (partition->cut_complete && OnCutComplete(key, local.end)) {
    if (Partition* same = FindSame(key, generation)) GoOnFetching(key, *same);
  }
  Pump();
}

// ---- Range.

void AbstractFetcherThread::AskRange(Link* link, const TopicIdPartition& key, Partition& partition,
                                     std::optional<int64_t> latest) {
  const int16_t version =
      *link->connection->versions().Pick(ListOffsetsRequest::kApiKey, {4, 11});
  const int32_t leader_epoch = partition.state.current_leader_epoch;
  ListOffsetsRequest request;
  // As a consumer whoever we are: a local broker's number may be that of a stranger at the source.
  request.replica_id = kConsumer;
  auto& topic = request.topics.emplace_back();
  topic.name = partition.topic;
  auto& out = topic.partitions.emplace_back();
  out.partition_index = key.partition;
  out.current_leader_epoch = leader_epoch;
  out.timestamp = latest ? kEarliestTimestamp : kLatestTimestamp;
  protocol::Writer body;
  if (Status status = protocol::Encode(request, version, body); !status.ok()) {
    Log(host::LogLevel::kError, "range_not_asked reason=\"" + status.ToString() + "\"");
    Delay(key, partition, settings_.fetch_backoff);
    return;
  }
  partition.asking = true;
  partition.asked_on = link;
  link->connection->Ask(
      {ListOffsetsRequest::kApiKey, version, body.Flatten(), settings_.request_timeout},
      [this, link, key, generation = partition.generation, leader_epoch, latest,
       version](Result<std::vector<uint8_t>> answer) {
        OnRange(link, key, generation, leader_epoch, latest, version, std::move(answer));
      });
}

void AbstractFetcherThread::OnRange(Link* link, const TopicIdPartition& key_in, uint64_t generation,
                                    int32_t leader_epoch, std::optional<int64_t> latest,
                                    int16_t version, Result<std::vector<uint8_t>> body) {
  const TopicIdPartition key = key_in;
  if (!body.ok()) return OnLinkFailed(link, body.status());
  ListOffsetsResponse response;
  if (Status status = protocol::DecodeBody(*body, version, &response); !status.ok()) {
    return OnLinkFailed(link, status);
  }
  OnLinkSucceeded(link);
  Throttle(link, response.throttle_time_ms);
  Partition* partition = FindSame(key, generation);
  if (partition == nullptr) return;
  partition->asking = false;
  if (partition->state.stage != FetchStage::kRanging ||
      partition->state.current_leader_epoch != leader_epoch) {
    WantControl(key, *partition);
    return Pump();
  }
  if (response.topics.size() != 1 || response.topics[0].partitions.size() != 1 ||
      response.topics[0].partitions[0].partition_index != key.partition) {
    return OnLinkFailed(link, {ErrorCode::kMalformed, "ListOffsets answers something else"});
  }
  const auto& answer = response.topics[0].partitions[0];
  if (answer.error_code != 0 || answer.offset < 0) {
    Fault fault;
    fault.code = answer.error_code != 0 ? static_cast<ErrorCode>(answer.error_code)
                                        : ErrorCode::kOffsetNotAvailable;
    partition->state.stage = FetchStage::kTruncating;
    HandleFault(key, generation, fault);
    return Pump();
  }
  const LocalLog local = Local(key);
  const auto decision =
      latest ? DecideOutOfRange(local.end, *latest, answer.offset)
             : DecideOutOfRange(local.end, answer.offset, std::nullopt);
  if (!decision) {
    AskRange(link, key, *partition, answer.offset);
    return;
  }
  switch (decision->what) {
    case OutOfRange::kSourceShorter:
      Cut(key, *partition, decision->offset, true);
      break;
    case OutOfRange::kGap: {
      partition->state.stage = FetchStage::kTruncating;
      ClearQueue(*partition);
      if (RestartLog(key, generation, decision->offset)) {
        if (Partition* same = FindSame(key, generation)) {
          same->busy = same->cutting = same->restarting = true;
        }
      }
      break;
    }
    case OutOfRange::kWithin:
      // The source could not place our last epoch; asking again without delay would spin (1.8 [R]).
      partition->state.stage = FetchStage::kTruncating;
      Delay(key, *partition, settings_.fetch_backoff);
      break;
  }
  Pump();
}

}  // namespace kmirror::fetcher
