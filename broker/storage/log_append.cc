// Appends: of our clients, of the mirror, of the stop. One path writes them all.

#include <algorithm>
#include <cerrno>
#include <climits>
#include <limits>

#include "broker/storage/files.h"
#include "broker/storage/partition_log_impl.h"
#include "kmirror/log/checksum.h"
#include "kmirror/log/control_batch.h"
#include "kmirror/log/record.h"
#include "src/log/big_endian.h"

namespace kmirror::broker {
namespace {

using log::BatchInfo;

constexpr int kPiecesPerWrite = 1024;  // IOV_MAX of Linux
// Of one call where there is more. The page cache takes a call of 1 MiB in pieces as large, for
// which it finds no memory that was used lately: three times the CPU of two calls of 512 KiB.
constexpr int64_t kWriteBytes = 512 << 10;
constexpr int64_t kReserveFromBytes = 262144;  // idle partitions reserve nothing
constexpr int64_t kRelativeMax = std::numeric_limits<int32_t>::max();

Status Invalid(const std::string& what) { return {ErrorCode::kInvalidRecord, what}; }

// A client's header may claim another greatest time than its records have; look-ups by time would
// go wrong with it. Kafka corrects it, too.
void CorrectMaxTimestamp(std::span<uint8_t> batch, int64_t timestamp_ms) {
  constexpr size_t kMaxTimestampAt = 35;
  if (log::LoadBig<int64_t>(batch.data() + kMaxTimestampAt) == timestamp_ms) return;
  log::StoreBig(batch.data() + kMaxTimestampAt, timestamp_ms);
  log::StoreBig(batch.data() + log::kBatchCrcOffset,
                log::Crc32c(0, ByteView(batch).subspan(log::kBatchCrcStart)));
}

std::string At(const BatchInfo& batch) { return " at offset " + std::to_string(batch.base_offset); }

}  // namespace

// --- The mirror
// -------------------------------------------------------------------------------------

Status PartitionLog::AppendMirrored(std::span<const ByteView> bytes,
                                    std::span<const BatchInfo> batches, int64_t expected_end_offset,
                                    int32_t leader_epoch) {
  Impl& log = *impl_;
  bool flush_due = false;
  {
    std::lock_guard lock(log.append_mutex_);
    Status usable = log.CheckUsableLocked(leader_epoch);
    if (!usable.ok()) return usable;
    if (batches.empty()) return Invalid("no batches");
    if (expected_end_offset != log.log_end_) {
      return {ErrorCode::kNotEnd, "the log ends at " + std::to_string(log.log_end_) + ", not at " +
                                      std::to_string(expected_end_offset)};
    }
    int64_t total = 0;
    int64_t previous = -1;
    for (const BatchInfo& batch : batches) {
      if (batch.last_offset <= previous || batch.base_offset <= previous || batch.base_offset < 0 ||
          batch.last_offset < batch.base_offset) {
        return Invalid("offsets do not increase" + At(batch));
      }
      if (batch.leader_epoch > log.leader_epoch_) {
        return {ErrorCode::kFencedLeaderEpoch, "batch epoch " + std::to_string(batch.leader_epoch) +
                                                   At(batch) + " is above the local leader epoch " +
                                                   std::to_string(log.leader_epoch_)};
      }
      if (batch.bytes > log.config_.segment_bytes) {
        return Invalid("a batch of " + std::to_string(batch.bytes) +
                       " bytes does not fit a segment");
      }
      previous = batch.last_offset;
      total += batch.bytes;
    }
    bool restart = false;
    if (batches.front().base_offset < log.log_end_) {
      // 2.4: the source's log start lies inside its first batch. Nothing is here that could be
      // lost.
      restart = log.log_start_ == log.log_end_ && previous >= log.log_end_;
      if (!restart) {
        return {ErrorCode::kNotEnd, "the first batch starts at " +
                                        std::to_string(batches.front().base_offset) +
                                        ", the log ends at " + std::to_string(log.log_end_)};
      }
    }
    int64_t piece_total = 0;
    log.pieces_.clear();
    for (const ByteView piece : bytes) {
      if (piece.empty()) continue;
      piece_total += static_cast<int64_t>(piece.size());
      log.pieces_.push_back({const_cast<uint8_t*>(piece.data()), piece.size()});
    }
    if (piece_total != total) return Invalid("sizes of batches and bytes differ");
    log::ProducerState none;  // what a restart leaves
    Status checked = (restart ? none : log.producers_).Check(batches);
    if (!checked.ok()) return checked;
    if (restart) {
      Status reset = log.PrepareResetLocked(batches.front().base_offset);
      if (!reset.ok()) return reset;
      reset = log.ResetLocked(batches.front().base_offset);
      // On disk before data follows: a start takes an empty segment before others for a loss.
      if (reset.ok()) reset = log.SyncFoundLocked();
      if (!reset.ok()) return log.GoOfflineLocked(reset);
    }
    Status written = log.WriteBatchesLocked(log.pieces_, batches);
    if (!written.ok()) return written;
    flush_due = log.unflushed_messages_ >= log.config_.flush_messages;
  }
  log.Notify();
  return log.MaybeFlushMessages(flush_due);
}

// --- Clients and coordinators of this broker
// ---------------------------------------------------------

Result<AppendedBatch> PartitionLog::AppendAsLeader(std::span<uint8_t> records,
                                                   int32_t leader_epoch) {
  return impl_->AppendLocal(records, leader_epoch, Impl::Origin::kClient);
}

Result<AppendedBatch> PartitionLog::AppendInternal(std::span<uint8_t> records,
                                                   int32_t leader_epoch) {
  return impl_->AppendLocal(records, leader_epoch, Impl::Origin::kInternal);
}

Status PartitionLog::Impl::ParseLocal(std::span<const uint8_t> records, const LogConfig& config) {
  batches_.clear();
  log::BatchWalker walker(records);
  BatchInfo info;
  ByteView batch;
  while (true) {
    const auto step = walker.Next(&info, &batch);
    if (step == log::BatchWalker::kCorrupt) {
      // A control batch with something else in it is refused as a control batch.
      if (log::ParseBatchHeader(records.last(walker.remaining()), &info) == log::ParseResult::kOk &&
          info.IsControl()) {
        return Invalid("clients may not write control batches");
      }
      return {ErrorCode::kCorruptMessage, "the record set is damaged"};
    }
    if (step == log::BatchWalker::kEnd) break;
    if (info.magic != 2) {
      return {ErrorCode::kUnsupportedForMessageFormat, "message format v2 is needed"};
    }
    if (info.bytes > config.max_message_bytes) {
      return {ErrorCode::kMessageTooLarge, "a batch of " + std::to_string(info.bytes) +
                                               " bytes, the limit is " +
                                               std::to_string(config.max_message_bytes)};
    }
    if (!log::CheckBatchCrc(batch, info)) {
      return {ErrorCode::kCorruptMessage, "wrong checksum"};
    }
    int64_t max_timestamp = info.max_timestamp;
    Status checked = CheckRecords(batch, info, config, &max_timestamp);
    if (!checked.ok()) return checked;
    info.max_timestamp = max_timestamp;
    batches_.push_back(info);
  }
  if (walker.remaining() > 0) return {ErrorCode::kCorruptMessage, "an incomplete batch at the end"};
  if (batches_.empty()) return {ErrorCode::kInvalidRecord, "no record batch"};
  if (static_cast<int64_t>(records.size()) > config.segment_bytes) {
    return {ErrorCode::kRecordListTooLarge,
            "a record set of " + std::to_string(records.size()) + " bytes does not fit a segment"};
  }
  const bool producer = std::any_of(batches_.begin(), batches_.end(),
                                    [](const BatchInfo& each) { return each.HasProducer(); });
  if (batches_.size() > 1 && producer)
    return Invalid("one batch a request from a producer with an id");
  return Status::Ok();
}

// Compressed batches are judged by their header: unpacking every produce to look for what clients
// of the last ten years do right is not worth its price here (docs: deviations).
Status PartitionLog::Impl::CheckRecords(ByteView batch, const BatchInfo& info,
                                        const LogConfig& config, int64_t* max_timestamp) const {
  if (info.IsControl()) return Invalid("clients may not write control batches");
  if (info.count == 0 || info.count != info.last_offset - info.base_offset + 1) {
    return Invalid("record count and offsets differ");
  }
  if (info.HasProducer() && (info.base_sequence < 0 || info.producer_epoch < 0)) {
    return Invalid("a producer id without sequence or epoch");
  }
  if (!info.HasProducer() && info.IsTransactional())
    return Invalid("a transaction without producer id");
  if (info.CompressionId() > static_cast<int>(log::Compression::kZstd)) {
    return {ErrorCode::kUnsupportedCompressionType, "unknown compression"};
  }
  if (!config.log_append_time) {
    if (info.IsLogAppendTime()) {
      return {ErrorCode::kInvalidTimestamp, "a client sets log append time on a create time topic"};
    }
    const int64_t now = NowMs();
    const bool late =
        info.max_timestamp >= 0 && info.max_timestamp - config.timestamp_after_max_ms > now;
    const bool early = info.base_timestamp >= 0 &&
                       config.timestamp_before_max_ms != std::numeric_limits<int64_t>::max() &&
                       now - info.base_timestamp > config.timestamp_before_max_ms;
    if (late || early) {
      return {ErrorCode::kInvalidTimestamp,
              "timestamp " + std::to_string(late ? info.max_timestamp : info.base_timestamp) +
                  " is out of range"};
    }
  }
  if (info.CompressionId() != 0) return Status::Ok();
  log::RecordReader reader(info, batch.subspan(log::kBatchHeaderBytes));
  log::RecordView record;
  int64_t expected = info.base_offset;
  *max_timestamp = -1;
  while (true) {
    const auto step = reader.Next(&record);
    if (step == log::RecordReader::kCorrupt) return Invalid("a record is damaged");
    if (step == log::RecordReader::kEnd) {
      return reader.remaining() == 0 ? Status::Ok() : Invalid("bytes follow the last record");
    }
    *max_timestamp = std::max(*max_timestamp, record.timestamp);
    if (record.offset != expected++) return Invalid("record offsets do not count up");
    if (config.compacted && !record.key) return Invalid("a compacted topic needs keys");
  }
}

Result<AppendedBatch> PartitionLog::Impl::AppendLocal(std::span<uint8_t> records,
                                                      int32_t leader_epoch, Origin origin) {
  AppendedBatch answer;
  bool flush_due = false;
  {
    std::lock_guard lock(append_mutex_);
    Status usable = CheckUsableLocked(leader_epoch);
    if (!usable.ok()) return usable;
    if (origin == Origin::kClient && local_writes_ == LocalWrites::kReadOnly) {
      return Status(ErrorCode::kReadOnly, "a mirror owns this partition");
    }
    if (origin == Origin::kClient && local_writes_ == LocalWrites::kStopping) {
      return Status(ErrorCode::kNotEnoughReplicas, "the mirror of this partition is being stopped");
    }
    Status parsed = ParseLocal(records, config_);
    if (!parsed.ok()) return parsed;
    answer.log_start = log_start_;
    const bool producer = batches_.front().HasProducer();
    if (producer && batches_.front().IsTransactional() && origin == Origin::kClient) {
      return Status(ErrorCode::kInvalidProducerIdMapping,
                    "transactions are not coordinated by this cluster");
    }
    if (producer) {
      const auto check = producers_.CheckClient(batches_.front());
      if (!check.status.ok()) return check.status;
      if (check.duplicate) {
        answer.duplicate = true;
        answer.base_offset = check.base_offset;
        answer.last_offset =
            check.base_offset + (batches_.front().last_offset - batches_.front().base_offset);
        answer.log_append_time = check.timestamp;  // whatever the topic's kind of time, as Kafka
        return answer;
      }
    }
    const int64_t now = NowMs();
    int64_t next = log_end_;
    size_t position = 0;
    for (BatchInfo& batch : batches_) {
      const std::span<uint8_t> bytes = records.subspan(position, static_cast<size_t>(batch.bytes));
      position += static_cast<size_t>(batch.bytes);
      const int64_t last_delta = batch.last_offset - batch.base_offset;
      batch.base_offset = next;
      batch.last_offset = next + last_delta;
      batch.leader_epoch = leader_epoch_;
      log::SetBaseOffset(bytes, batch.base_offset);
      log::SetLeaderEpoch(bytes, leader_epoch_);
      if (config_.log_append_time) {
        log::SetLogAppendTime(bytes, now);
        batch.max_timestamp = now;
        batch.attributes |= log::kLogAppendTimeFlag;
      } else {
        CorrectMaxTimestamp(bytes, batch.max_timestamp);
      }
      next = batch.last_offset + 1;
    }
    const iovec piece{records.data(), position};
    Status written = WriteBatchesLocked({&piece, 1}, batches_);
    if (!written.ok()) return written;
    answer.base_offset = batches_.front().base_offset;
    answer.last_offset = next - 1;
    if (config_.log_append_time) answer.log_append_time = now;
    flush_due = unflushed_messages_ >= config_.flush_messages;
  }
  Notify();
  Status flushed = MaybeFlushMessages(flush_due);
  if (!flushed.ok()) return flushed;
  return answer;
}

// --- The stop
// ----------------------------------------------------------------------------------------

Result<int64_t> PartitionLog::AppendAbort(int64_t producer_id, int32_t leader_epoch) {
  Result<int64_t> offset = [&]() -> Result<int64_t> {
    std::lock_guard lock(impl_->append_mutex_);
    for (const log::OpenTransaction& open : impl_->producers_.OpenTransactions()) {
      if (open.producer_id != producer_id) continue;
      const auto batch =
          log::EndTxnBatch(log::kControlAbort, 0, leader_epoch, impl_->NowMs(), producer_id,
                           open.producer_epoch, std::max(open.coordinator_epoch, 0));
      return impl_->AppendControlLocked(batch, leader_epoch);
    }
    return Status(ErrorCode::kInvalidProducerIdMapping,
                  "producer " + std::to_string(producer_id) + " has no open transaction");
  }();
  if (offset.ok()) impl_->Notify();
  return offset;
}

Result<int64_t> PartitionLog::AppendPidReset(int32_t leader_epoch) {
  Result<int64_t> offset = [&]() -> Result<int64_t> {
    std::lock_guard lock(impl_->append_mutex_);
    const auto batch = log::PidResetBatch(0, leader_epoch, impl_->NowMs());
    return impl_->AppendControlLocked(batch, leader_epoch);
  }();
  if (offset.ok()) impl_->Notify();
  return offset;
}

Result<int64_t> PartitionLog::Impl::AppendControlLocked(std::span<const uint8_t> batch,
                                                        int32_t leader_epoch) {
  Status usable = CheckUsableLocked(leader_epoch);
  if (!usable.ok()) return usable;
  std::vector<uint8_t> bytes(batch.begin(), batch.end());
  log::SetBaseOffset(bytes, log_end_);
  log::SetLeaderEpoch(bytes, leader_epoch_);
  if (config_.log_append_time) log::SetLogAppendTime(bytes, NowMs());
  BatchInfo info;
  ByteView whole;
  if (log::BatchWalker(bytes).Next(&info, &whole) != log::BatchWalker::kBatch) {
    return Status(ErrorCode::kUnknownServerError, "a control batch of ours does not parse");
  }
  const iovec piece{bytes.data(), bytes.size()};
  Status written = WriteBatchesLocked({&piece, 1}, {&info, 1});
  if (!written.ok()) return written;
  return info.base_offset;
}

// --- Writing
// -----------------------------------------------------------------------------------------

Status PartitionLog::Impl::WriteBatchesLocked(std::span<const iovec> pieces,
                                              std::span<const BatchInfo> batches) {
  const int64_t end_before = log_end_;
  const std::span<const BatchInfo> all = batches;
  // Position of the next part within the pieces.
  size_t piece = 0;
  size_t piece_offset = 0;
  Status status;
  while (!batches.empty() && status.ok()) {
    if (MustRollLocked(ActiveLocked(), batches.front(), batches.front().bytes)) {
      // At the end of the log, also when a gap in the source's offsets follows: a start that finds
      // less in the old segment knows by that what a loss of power took (log_recovery.cc). Only a
      // gap that relative offsets cannot span is left out.
      status = RollLocked(std::max(log_end_, batches.front().last_offset - kRelativeMax));
      if (!status.ok()) break;
    }
    // As many batches as this segment takes.
    const Segment& active = ActiveLocked();
    const int64_t room = config_.segment_bytes - active.size();
    size_t count = 0;
    int64_t bytes = 0;
    while (count < batches.size() && (count == 0 || bytes + batches[count].bytes <= room) &&
           batches[count].last_offset - active.base_offset() <= kRelativeMax) {
      bytes += batches[count++].bytes;
    }
    if (count == batches.size() && piece == 0 && piece_offset == 0) {
      status = WritePartLocked(pieces, batches, bytes);  // nearly always: everything at once
    } else {
      std::vector<iovec> part;
      for (int64_t left = bytes; left > 0;) {
        const iovec& from = pieces[piece];
        const size_t length = std::min(static_cast<size_t>(left), from.iov_len - piece_offset);
        part.push_back({static_cast<uint8_t*>(from.iov_base) + piece_offset, length});
        left -= static_cast<int64_t>(length);
        piece_offset += length;
        if (piece_offset == from.iov_len) {
          ++piece;
          piece_offset = 0;
        }
      }
      status = WritePartLocked(part, batches.first(count), bytes);
    }
    batches = batches.subspan(count);
  }
  if (!status.ok()) {
    if (offline_.ok() && log_end_ > end_before) {
      Status cut = TruncateLocked(end_before);
      if (cut.ok()) cut = SyncFoundLocked();
      if (!cut.ok()) {
        // What readers were shown lies below the cut and stays.
        std::lock_guard lock(published_mutex_);
        published_.cuts = *cuts_;
        return GoOfflineLocked(cut);
      }
    }
    PublishLocked();
    return status;
  }
  for (const BatchInfo& batch : all) unflushed_messages_ += batch.count;
  if (oldest_unflushed_ms_ < 0) oldest_unflushed_ms_ = NowMs();
  PublishLocked();
  return Status::Ok();
}

bool PartitionLog::Impl::MustRollLocked(const Segment& active, const BatchInfo& first,
                                        int64_t bytes) const {
  if (active.size() > config_.segment_bytes - bytes) return true;
  // A roll was made for an append that failed then: the empty segment starts too high.
  if (first.base_offset < active.base_offset()) return true;
  if (first.last_offset - active.base_offset() > kRelativeMax) return true;
  if (active.size() == 0) return false;
  if (active.IndexFull(config_.segment_index_bytes)) return true;
  const int64_t limit = config_.segment_ms - config_.segment_jitter_ms;
  if (active.first_timestamp() < 0) return NowMs() - active.created_ms() > limit;
  // Timestamps are the clients': a difference may be greater than any int64.
  int64_t elapsed = 0;
  if (__builtin_sub_overflow(first.max_timestamp, active.first_timestamp(), &elapsed)) return false;
  return elapsed > limit;
}

Status PartitionLog::Impl::WriteAtEndLocked(Segment& segment, std::span<const iovec> pieces,
                                            int64_t bytes) {
  auto handle = segment.log_file().Handle();
  if (!handle.ok()) return handle.status();
  const int fd = (*handle)->fd();
  const int64_t start = segment.size();
  if (config_.preallocate_ahead_bytes > 0 && start >= kReserveFromBytes &&
      start + bytes > segment.allocated) {
    // Never more than the segment already holds: quiet partitions reserve little.
    const int64_t ahead = std::min({config_.preallocate_ahead_bytes, start,
                                    std::max<int64_t>(config_.segment_bytes - start - bytes, 0)});
    if (io_->Allocate(fd, start, bytes + ahead) == 0) {
      segment.allocated = start + bytes + ahead;
    } else {
      segment.allocated = std::numeric_limits<int64_t>::max();  // not here, or no space: go without
    }
  }
  int64_t done = 0;
  int error = 0;
  if (pieces.size() <= kPiecesPerWrite && bytes < 2 * kWriteBytes) {
    const ssize_t written = io_->Write(fd, pieces.data(), static_cast<int>(pieces.size()), start);
    if (written == bytes) return Status::Ok();
    if (written < 0 && errno != EINTR) error = errno;
    if (written > 0) done = written;
  }
  // What is more than one call takes, and the rest after a short write, piece by piece.
  int64_t skip = done;
  for (size_t i = 0; i < pieces.size() && error == 0; ++i) {
    const int64_t length = static_cast<int64_t>(pieces[i].iov_len);
    if (skip >= length) {
      skip -= length;
      continue;
    }
    iovec piece{static_cast<uint8_t*>(pieces[i].iov_base) + skip,
                static_cast<size_t>(length - skip)};
    skip = 0;
    while (piece.iov_len > 0 && error == 0) {
      iovec part = piece;
      part.iov_len = std::min(part.iov_len, static_cast<size_t>(kWriteBytes));
      const ssize_t written = io_->Write(fd, &part, 1, start + done);
      if (written < 0 && errno == EINTR) continue;
      if (written <= 0) {
        error = written < 0 ? errno : EIO;
        break;
      }
      done += written;
      piece.iov_base = static_cast<uint8_t*>(piece.iov_base) + written;
      piece.iov_len -= static_cast<size_t>(written);
    }
  }
  if (error == 0) return Status::Ok();
  Status failed = ErrnoStatus("write", segment.log_file().path(), error);
  segment.allocated = start;
  if (io_->Truncate(fd, start) != 0) {
    return GoOfflineLocked(failed.WithContext("a torn tail could not be cut"));
  }
  // The next batch may begin another segment, and nobody looks behind the recovery point: a loss of
  // power must not bring the torn bytes back into a closed one.
  if (done > 0 && io_->Sync(fd, true) != 0) {
    return GoOfflineLocked(ErrnoStatus("sync", segment.log_file().path(), errno));
  }
  return failed;
}

Status PartitionLog::Impl::WritePartLocked(std::span<const iovec> pieces,
                                           std::span<const BatchInfo> batches, int64_t bytes) {
  Segment& segment = ActiveLocked();
  const int64_t start = segment.size();
  Status written = WriteAtEndLocked(segment, pieces, bytes);
  if (!written.ok()) return written;
  aborted_scratch_.clear();
  std::optional<log::CompletedTransaction> completed;
  Status applied;
  for (const BatchInfo& batch : batches) {
    if (!batch.HasProducer() && !batch.IsControl()) continue;
    applied = producers_.Apply(batch, &completed);
    if (!applied.ok()) break;
    if (completed && completed->aborted) {
      aborted_scratch_.push_back({completed->producer_id, completed->first_offset,
                                  completed->marker_offset, completed->last_stable_offset});
    }
  }
  if (applied.ok() && !aborted_scratch_.empty()) applied = segment.AppendAborted(aborted_scratch_);
  if (!applied.ok()) {
    // Nothing of this part is visible yet: take it back from the file and from the producers.
    auto handle = segment.log_file().Handle();
    // And it must not come back with the power: what is told of the log's end from here on is
    // believed.
    if (applied.code() == ErrorCode::kKafkaStorageError || !handle.ok() ||
        io_->Truncate((*handle)->fd(), start) != 0 || io_->Sync((*handle)->fd(), true) != 0) {
      return GoOfflineLocked(applied);
    }
    segment.allocated = start;
    Status reloaded = LoadProducersLocked(log_end_, -1);
    return reloaded.ok() ? applied : GoOfflineLocked(reloaded);
  }
  for (const BatchInfo& batch : batches) {
    if (batch.magic < 2) {
      if (!epochs_.empty()) epochs_dirty_ = true;
      epochs_.Clear();
    } else if (epochs_.Assign(batch.leader_epoch, batch.base_offset)) {
      epochs_dirty_ = true;
    }
  }
  segment.Index(batches, start, config_.index_interval_bytes);
  segment.set_size(start + bytes);
  const BatchInfo& last = batches.back();
  log_end_ = last.last_offset + 1;
  last_batch_epoch_ = last.leader_epoch;
  ends_with_reset_ = last.IsControl() && last.control_type == log::kControlMirrorPidReset;
  producers_.set_map_end_offset(log_end_);
  return Status::Ok();
}

Status PartitionLog::Impl::RollLocked(int64_t base_offset) {
  const int64_t now = NowMs();
  Segment& old = ActiveLocked();
  auto next = std::make_shared<Segment>(directory_, base_offset, io_, fds_);
  if (old.size() == 0) {  // nothing in it yet: it moves
    Status created = next->Create(now);
    if (!created.ok()) return created;
    if (old.base_offset() != base_offset) old.RemoveFiles();
    Status removed = snapshots_.RemoveAbove(log_end_);
    if (!removed.ok()) return removed;
    segments_.back() = next;
  } else {
    old.CloseTimeIndex();
    Status saved = old.SaveIndexes();
    if (!saved.ok()) return saved;
    producers_.set_map_end_offset(base_offset);
    saved = snapshots_.Write(producers_);
    if (!saved.ok()) return saved;
    Status created = next->Create(now);
    if (!created.ok()) {
      // Without its segment the snapshot could be taken for one of another history later.
      producers_.set_map_end_offset(log_end_);
      if (base_offset > log_end_ && !snapshots_.RemoveAbove(log_end_).ok()) {
        return GoOfflineLocked(created);
      }
      return created;
    }
    old.DropIndexesFromMemory();
    segments_.push_back(next);
  }
  directory_dirty_ = true;
  segments_changed_ = true;
  return Status::Ok();
}

Status PartitionLog::Impl::MaybeFlushMessages(bool due) {
  if (!due) return Status::Ok();
  const Result<int64_t> synced = owner_->Sync();
  return synced.ok() ? Status::Ok() : synced.status();
}

}  // namespace kmirror::broker
