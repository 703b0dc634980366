#include "broker/mirror_host/host_state_topic.h"

#include <utility>

#include "kmirror/log/batch.h"
#include "kmirror/log/record.h"
#include "kmirror/log/record_batch_builder.h"

namespace kmirror::broker {
namespace {

constexpr int64_t kReplayBytes = 1 << 20;

Status Damaged(int32_t shard, const std::string& what) {
  return {ErrorCode::kCorruptMessage,
          std::string(kMirrorStateTopic) + "-" + std::to_string(shard) + ": " + what};
}

}  // namespace

HostStateTopic::HostStateTopic(broker::Controller* controller, LogDirectory* logs,
                               WorkerPool* changes, WorkerPool* writer, WorkerPool* syncs,
                               Options options)
    : controller_(controller),
      logs_(logs),
      changes_(changes),
      writer_(writer),
      syncs_(syncs),
      options_(std::move(options)) {
  const TopicPtr topic = controller_->image()->topics.Find(kMirrorStateTopic);
  // Fixed after first use (coordinator.md 1.2), whatever the config says later.
  partitions_ = topic == nullptr ? options_.partitions : topic->partition_count();
}

void HostStateTopic::Ensure(host::Completion done) {
  const bool taken =
      changes_->Run([this, done] { done(controller_->EnsureTopic(kMirrorStateTopic).status); });
  if (!taken) done({ErrorCode::kCancelled, "the broker is shutting down"});
}

Result<std::shared_ptr<Replica>> HostStateTopic::Shard(int32_t shard) const {
  std::shared_ptr<Replica> replica = logs_->Find(kMirrorStateTopic, shard);
  if (replica == nullptr || replica->removed()) {
    return {ErrorCode::kNotCoordinator,
            std::string(kMirrorStateTopic) + "-" + std::to_string(shard) + " is not open here"};
  }
  return replica;
}

void HostStateTopic::Append(int32_t shard, std::vector<host::StateRecord> records,
                            host::Completion done) {
  {
    const std::lock_guard lock(mutex_);
    waiting_.push_back({shard, std::move(records), std::move(done)});
  }
  // One task a request; the first to run takes all that wait and leaves the others nothing.
  if (writer_->Run([this] { WriteWaiting(); })) return;
  std::vector<Waiting> refused;
  {
    const std::lock_guard lock(mutex_);
    refused.swap(waiting_);
  }
  for (Waiting& waiting : refused) {
    waiting.done({ErrorCode::kCancelled, "the broker is shutting down"});
  }
}

void HostStateTopic::WriteWaiting() {
  std::vector<Waiting> group;
  {
    const std::lock_guard lock(mutex_);
    group.swap(waiting_);
  }
  Written written;
  std::vector<Status> answers;
  answers.reserve(group.size());
  for (const Waiting& waiting : group) {
    answers.push_back(Write(waiting.shard, waiting.records, &written));
  }
  const std::map<int32_t, Status> synced = SyncAll(written);
  for (size_t i = 0; i < group.size(); ++i) {
    const auto sync = synced.find(group[i].shard);
    if (answers[i].ok() && sync != synced.end()) answers[i] = sync->second;
    group[i].done(std::move(answers[i]));
  }
}

Status HostStateTopic::Write(int32_t shard, const std::vector<host::StateRecord>& records,
                             Written* written) {
  const auto replica = Shard(shard);
  if (!replica.ok()) return replica.status();
  if (records.empty()) return Status::Ok();
  PartitionLog& log = (*replica)->log();
  // A log that a failed sync took offline is loaded again: the library replays it before it trusts
  // it.
  if (!log.offline().ok()) {
    if (Status reopened = log.Reopen(); !reopened.ok()) return reopened;
  }
  log::RecordBatchBuilder builder;
  const int64_t now = options_.wall_ms();
  for (const host::StateRecord& record : records) {
    builder.Add(now, ByteView(record.key),
                record.value ? std::optional<ByteView>(*record.value) : std::nullopt);
  }
  std::vector<uint8_t> batch = builder.Build();
  const auto appended = log.AppendInternal(batch, (*replica)->leader_epoch());
  if (appended.ok()) written->emplace(shard, *replica);
  return appended.status();
}

std::map<int32_t, Status> HostStateTopic::SyncAll(const Written& written) {
  std::map<int32_t, Status> answers;
  std::vector<std::function<void()>> syncs;
  for (const auto& [shard, replica] : written) {
    Status* answer = &answers[shard];  // entries of a map stay where they are
    *answer = {ErrorCode::kCancelled, "the broker is shutting down"};
    syncs.push_back([answer, log = replica->log_ptr()] { *answer = log->Sync().status(); });
  }
  // Those that did not run any more have their answer.
  (void)syncs_->RunTogether(std::move(syncs));
  return answers;
}

void HostStateTopic::Replay(int32_t shard, EachRecord each, host::Completion done) {
  const bool taken =
      writer_->Run([this, shard, each = std::move(each), done] { done(ReplayNow(shard, each)); });
  if (!taken) done({ErrorCode::kCancelled, "the broker is shutting down"});
}

Status HostStateTopic::ReplayNow(int32_t shard, const EachRecord& each) {
  const auto replica = Shard(shard);
  if (!replica.ok()) return replica.status();
  PartitionLog& log = (*replica)->log();
  if (!log.offline().ok()) {
    if (Status reopened = log.Reopen(); !reopened.ok()) return reopened;
  }
  // What an earlier process had written and not synced yet is acted upon from here on: no loss of
  // power may take it back (R29).
  if (const auto synced = log.Sync(); !synced.ok()) return synced.status();
  const LogPositions at = log.Positions();
  int64_t next = at.log_start;
  while (next < at.log_end) {
    const auto bytes = log.ReadBytes(next, kReplayBytes, ReadBound::kLogEnd);
    if (!bytes.ok()) return bytes.status();
    log::BatchWalker walker(*bytes);
    log::BatchInfo info;
    ByteView batch;
    const int64_t before = next;
    for (;;) {
      const auto step = walker.Next(&info, &batch);
      if (step == log::BatchWalker::kEnd) break;
      if (step == log::BatchWalker::kCorrupt || !log::CheckBatchCrc(batch, info)) {
        return Damaged(shard, "a damaged batch after offset " + std::to_string(next));
      }
      next = info.last_offset + 1;
      if (info.IsControl()) continue;
      if (info.CompressionId() != 0) return Damaged(shard, "a compressed batch");
      log::RecordReader reader(info, batch.subspan(log::kBatchHeaderBytes));
      log::RecordView record;
      for (;;) {
        const auto read = reader.Next(&record);
        if (read == log::RecordReader::kEnd) break;
        if (read == log::RecordReader::kCorrupt || !record.key) {
          return Damaged(shard, "a damaged record at offset " + std::to_string(info.base_offset));
        }
        each(*record.key, record.value);
      }
    }
    if (next == before) break;  // nothing whole below the end: what was read is all there is
  }
  // A replay that stopped short would pass missing records off as "never stored" (R19).
  if (next < at.log_end) return Damaged(shard, "ends early at " + std::to_string(next));
  return Status::Ok();
}

}  // namespace kmirror::broker
