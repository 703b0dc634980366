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
                               WorkerPool* changes, WorkerPool* workers, Options options)
    : controller_(controller),
      logs_(logs),
      changes_(changes),
      workers_(workers),
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
  const bool taken = workers_->Run(
      [this, shard, records = std::move(records), done] { done(AppendNow(shard, records)); });
  if (!taken) done({ErrorCode::kCancelled, "the broker is shutting down"});
}

Status HostStateTopic::AppendNow(int32_t shard, const std::vector<host::StateRecord>& records) {
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
  if (!appended.ok()) return appended.status();
  return log.Sync().status();
}

void HostStateTopic::Replay(int32_t shard, EachRecord each, host::Completion done) {
  const bool taken =
      workers_->Run([this, shard, each = std::move(each), done] { done(ReplayNow(shard, each)); });
  if (!taken) done({ErrorCode::kCancelled, "the broker is shutting down"});
}

Status HostStateTopic::ReplayNow(int32_t shard, const EachRecord& each) {
  const auto replica = Shard(shard);
  if (!replica.ok()) return replica.status();
  PartitionLog& log = (*replica)->log();
  if (!log.offline().ok()) {
    if (Status reopened = log.Reopen(); !reopened.ok()) return reopened;
  }
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
