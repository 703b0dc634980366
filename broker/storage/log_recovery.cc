// Opening a partition directory: Kafka's order of loading (fetcher-and-log 3.6) and its crash
// recovery (2.10), with batch-wise transaction index and producer state.

#include <algorithm>
#include <cerrno>
#include <limits>
#include <set>

#include "broker/storage/files.h"
#include "broker/storage/partition_log_impl.h"

namespace kmirror::broker {
namespace {

using log::BatchInfo;

constexpr int64_t kRelativeMax = std::numeric_limits<int32_t>::max();
constexpr const char* kSegmentSuffixes[] = {".log", ".index", ".timeindex", ".txnindex"};

bool EndsWith(const std::string& text, std::string_view end) {
  return text.size() >= end.size() && text.compare(text.size() - end.size(), end.size(), end) == 0;
}

Status RemoveFile(FileIo* io, const std::string& path) {
  if (io->Remove(path) != 0 && errno != ENOENT) return ErrnoStatus("remove", path, errno);
  return Status::Ok();
}

// The base offset of "<20 digits>.<anything>".
std::optional<int64_t> BaseOf(const std::string& name) {
  const size_t dot = name.find('.');
  if (dot == std::string::npos) return std::nullopt;
  return ParseOffsetFileName(name, name.substr(dot));
}

}  // namespace

Result<std::shared_ptr<PartitionLog>> PartitionLog::Open(const Options& options) {
  std::shared_ptr<PartitionLog> log(new PartitionLog(options));
  log->directory_ = options.directory;
  std::lock_guard lock(log->impl_->append_mutex_);
  Status loaded = log->impl_->LoadLocked(options.clean_shutdown, options.recovery_point,
                                         options.log_start, options.high_watermark);
  if (!loaded.ok()) return loaded.WithContext(options.directory);
  return log;
}

Status PartitionLog::Reopen() {
  Status loaded;
  {
    std::lock_guard sync_lock(impl_->sync_mutex_);
    std::lock_guard lock(impl_->append_mutex_);
    if (impl_->closed_) return {ErrorCode::kNotLeaderOrFollower, "the log is closed"};
    const int64_t log_start = impl_->log_start_;
    impl_->offline_ = Status::Ok();
    loaded = impl_->LoadLocked(false, impl_->recovery_point_, log_start, impl_->high_watermark_);
    if (loaded.ok()) loaded = impl_->RewriteTailLocked(impl_->recovery_point_);
    if (!loaded.ok()) impl_->offline_ = loaded;
  }
  impl_->Notify();
  return loaded;
}

Status PartitionLog::Impl::LoadLocked(bool clean, int64_t recovery_point, int64_t log_start,
                                      int64_t high_watermark) {
  ++*cuts_;  // what is damaged at the end will be cut
  segments_.clear();
  segments_changed_ = true;
  snapshots_.Forget();
  producers_.Clear();
  epochs_.Clear();
  owner_->report_ = LoadReport();
  Status status = LoadTopicIdLocked();
  if (!status.ok()) return status;
  status = CleanUpDirectoryLocked();
  if (!status.ok()) return status;
  Result<std::vector<std::string>> names = ListDirectory(io_, directory_);
  if (!names.ok()) return names.status();
  std::set<int64_t> bases;
  for (const std::string& name : *names) {
    if (const auto base = ParseOffsetFileName(name, ".log")) bases.insert(*base);
    if (const auto offset = ParseOffsetFileName(name, ".snapshot")) snapshots_.Note(*offset);
  }
  for (const std::string& name : *names) {
    for (const char* suffix : {".index", ".timeindex", ".txnindex"}) {
      const auto base = ParseOffsetFileName(name, suffix);
      if (!base || bases.contains(*base)) continue;
      status = RemoveFile(io_, directory_ + "/" + name);
      if (!status.ok()) return status;
    }
  }
  log_start_ = std::max<int64_t>(log_start, bases.empty() ? 0 : *bases.begin());
  for (const int64_t base : bases) {
    segments_.push_back(std::make_shared<Segment>(directory_, base, io_, fds_));
  }
  if (segments_.empty()) {
    segments_.push_back(std::make_shared<Segment>(directory_, log_start_, io_, fds_));
    status = segments_.back()->Create(NowMs());
    if (!status.ok()) return status;
    directory_dirty_ = true;
  }
  producers_.OnLogStart(log_start_);

  for (size_t i = 0; i < segments_.size(); ++i) {
    Segment& segment = *segments_[i];
    bool last = i + 1 == segments_.size();
    std::string reason;
    if (bases.empty()) break;  // just created
    status = segment.OpenSaved(&reason);
    if (!status.ok()) return status;
    segment.set_created_ms(NowMs());
    if (segment.size() == 0 && !last && !clean &&
        io_->Size(segments_[i + 1]->log_file().path()) > 0) {
      // It lost all it had with the power. (A restart elsewhere is on disk before data follows it.)
      DropAfterLocked(i);
      owner_->report_.reason =
          "offsets from " + std::to_string(segment.base_offset()) + " on are missing";
      last = true;
    } else if (segment.size() == 0 && !last) {  // a restart at another offset was interrupted
      segment.RemoveFiles();
      segments_.erase(segments_.begin() + static_cast<std::ptrdiff_t>(i--));
      continue;
    }
    // A segment that lost its end with the power, while the next one kept what it had: a hole.
    if (!clean && i > 0 && segment.base_offset() > recovery_point) {
      std::optional<BatchInfo> before;
      const Result<int64_t> end = segments_[i - 1]->FindEnd(&before);
      if (!end.ok()) return end.status();
      if (segment.base_offset() > *end && segment.base_offset() - *end <= kRelativeMax) {
        DropAfterLocked(i - 1);
        owner_->report_.reason = "offsets from " + std::to_string(*end) + " on are missing";
        break;
      }
    }
    if (!clean && (last || segments_[i + 1]->base_offset() > recovery_point)) {
      reason = "was not closed in order";
    }
    if (reason.empty() && last) {
      std::optional<BatchInfo> end;
      if (Result<int64_t> found = segment.FindEnd(&end); !found.ok()) {
        if (found.status().code() != ErrorCode::kCorruptMessage) return found.status();
        reason = found.status().message();
      }
    }
    if (reason.empty()) continue;
    bool cut = false;
    status = ScanLocked(i, clean, reason, &cut);
    if (!status.ok()) return status;
    if (!cut) continue;
    DropAfterLocked(i);
  }
  log_start_ = std::max(log_start_, segments_.front()->base_offset());

  status = segments_.back()->Activate();
  if (!status.ok()) return status;
  status = FindEndLocked();
  if (!status.ok()) return status;
  status = LoadEpochsLocked();
  if (!status.ok()) return status;
  if (epochs_.TruncateFromEnd(log_end_)) epochs_dirty_ = true;  // a leader's own entry at the end
  if (epochs_.TruncateFromStart(log_start_)) epochs_dirty_ = true;
  recovery_point_ = clean ? log_end_ : std::min(recovery_point, log_end_);
  if (log_end_ < log_start_) {
    // What was acknowledged as the start lies above what the disk still has.
    status = ResetLocked(log_start_);
    if (!status.ok()) return status;
  }
  status = snapshots_.RemoveAbove(log_end_);
  if (!status.ok()) return status;
  std::set<int64_t> kept;
  for (const auto& segment : segments_) kept.insert(segment->base_offset());
  status = snapshots_.RemoveStrays(kept);
  if (!status.ok()) return status;
  status = LoadProducersLocked(log_end_, NowMs());
  if (!status.ok()) return status;
  high_watermark_ = follow_end_ ? log_end_ : std::clamp(high_watermark, log_start_, log_end_);
  leader_epoch_start_ = leader_epoch_ < 0 ? -1 : std::min(leader_epoch_start_, log_end_);
  unflushed_messages_ = 0;
  PublishLocked();
  return clean || bases.empty() ? Status::Ok() : SyncFoundLocked();
}

// Nothing after a hole can be trusted to belong there.
void PartitionLog::Impl::DropAfterLocked(size_t index) {
  while (segments_.size() > index + 1) {
    segments_.back()->RemoveFiles();
    segments_.pop_back();
    ++owner_->report_.removed_segments;
  }
}

// What a start finds may stand in the page cache alone: batches that a killed process had not
// synced, and the end of a cut that it did not live to sync. Others build on it from here on, so
// it must not change any more by a loss of power. Cheap when the pages are clean.
Status PartitionLog::Impl::SyncFoundLocked() {
  directory_dirty_ = true;  // names too
  SyncPlan plan = PlanSyncLocked(true);
  bool broken = false;
  bool batches = false;
  Status carried = Carry(plan, &broken, &batches);
  if (!carried.ok()) {
    epochs_dirty_ = epochs_dirty_ || plan.epochs.has_value();
    directory_dirty_ = directory_dirty_ || plan.directory;
  }
  return batches ? Status::Ok() : carried;
}

Status PartitionLog::Impl::LoadTopicIdLocked() {
  const std::string path = directory_ + "/partition.metadata";
  const Result<std::string> text = ReadFile(io_, path);
  if (!text.ok()) {
    if (text.status().code() != ErrorCode::kResourceNotFound) return text.status();
    if (owner_->topic_id_.IsZero()) return Status::Ok();
    return ReplaceFile(io_, path, "version: 0\ntopic_id: " + owner_->topic_id_.ToString());
  }
  constexpr std::string_view kBefore = "version: 0\ntopic_id: ";
  std::string_view rest = *text;
  std::optional<Uuid> id;
  if (rest.substr(0, kBefore.size()) == kBefore) {
    rest.remove_prefix(kBefore.size());
    while (!rest.empty() && (rest.back() == '\n' || rest.back() == '\r')) rest.remove_suffix(1);
    id = Uuid::Parse(rest);
  }
  if (!id)
    return {ErrorCode::kCorruptMessage, path + ": \"version: 0\" and \"topic_id: ID\" expected"};
  if (!owner_->topic_id_.IsZero() && owner_->topic_id_ != *id) {
    return {ErrorCode::kInconsistentTopicId, path + " has topic id " + id->ToString() +
                                                 ", wanted is " + owner_->topic_id_.ToString()};
  }
  owner_->topic_id_ = *id;
  return Status::Ok();
}

Status PartitionLog::Impl::CleanUpDirectoryLocked() {
  Result<std::vector<std::string>> names = ListDirectory(io_, directory_);
  if (!names.ok()) return names.status();
  bool swaps = false;
  for (const std::string& name : *names) {
    swaps = swaps || EndsWith(name, ".swap");
    if (!EndsWith(name, ".deleted") && !EndsWith(name, ".tmp")) continue;
    Status removed = RemoveFile(io_, directory_ + "/" + name);
    if (!removed.ok()) return removed;
  }
  // Before the .cleaned files go: they tell which .swap files are not finished either.
  Status finished = swaps ? FinishSwapsLocked(*names) : Status::Ok();
  if (!finished.ok()) return finished;
  for (const std::string& name : *names) {
    if (!EndsWith(name, ".cleaned")) continue;
    Status removed = RemoveFile(io_, directory_ + "/" + name);
    if (!removed.ok()) return removed;
  }
  return Status::Ok();
}

// The cleaner of Kafka was interrupted while it replaced segments by their cleaned copies.
Status PartitionLog::Impl::FinishSwapsLocked(const std::vector<std::string>& names) {
  int64_t lowest_cleaned = INT64_MAX;
  for (const std::string& name : names) {
    if (!EndsWith(name, ".cleaned")) continue;
    if (const auto base = BaseOf(name)) lowest_cleaned = std::min(lowest_cleaned, *base);
  }
  std::vector<std::string> finished;
  for (const std::string& name : names) {
    if (!EndsWith(name, ".swap")) continue;
    const auto base = BaseOf(name);
    if (base && *base < lowest_cleaned) {
      finished.push_back(name);
      continue;
    }
    Status removed = RemoveFile(io_, directory_ + "/" + name);
    if (!removed.ok()) return removed;
  }
  for (const std::string& name : finished) {
    if (!EndsWith(name, ".log.swap")) continue;
    // Segments that begin within what this one covers are its sources.
    const int64_t base = *BaseOf(name);
    int64_t end = base + 1;
    LogFile file(directory_ + "/" + name, io_, nullptr);
    auto handle = file.Handle();
    if (!handle.ok()) return handle.status();
    BatchScanner scanner(*handle, 0, io_->Size(file.path()), BatchScanner::Mode::kHeaders);
    BatchInfo batch;
    while (scanner.Next(&batch) == BatchScanner::kBatch) end = batch.last_offset + 1;
    if (!scanner.status().ok()) return scanner.status();
    for (const std::string& other : names) {
      const auto source = ParseOffsetFileName(other, ".log");
      if (!source || *source < base || *source >= end) continue;
      for (const char* suffix : kSegmentSuffixes) {
        Status removed = RemoveFile(io_, directory_ + "/" + OffsetFileName(*source, suffix));
        if (!removed.ok()) return removed;
      }
    }
  }
  for (const std::string& name : finished) {
    const std::string from = directory_ + "/" + name;
    if (io_->Rename(from, from.substr(0, from.size() - 5)) != 0) {
      return ErrnoStatus("rename", from, errno);
    }
  }
  return Status::Ok();
}

Status PartitionLog::Impl::ScanLocked(size_t index, bool clean, const std::string& reason,
                                      bool* cut) {
  LoadReport& report = owner_->report_;
  Segment& segment = *segments_[index];
  if (report.reason.empty()) report.reason = reason;
  ++report.scanned_segments;
  Status status = snapshots_.RemoveAbove(segment.base_offset());
  if (status.ok()) status = LoadProducersLocked(segment.base_offset(), NowMs());
  if (status.ok()) status = segment.StartScan();
  if (!status.ok()) return status;
  // The file may lack the epochs of what a scan finds, or hold those of batches that were lost.
  // When all that follows is scanned too, the batches alone tell; otherwise the file was closed in
  // order.
  if (epochs_.empty()) {
    status = LoadEpochsLocked();
    if (!status.ok()) return status;
  }
  if (!clean && epochs_.TruncateFromEnd(segment.base_offset())) epochs_dirty_ = true;
  const int64_t size = segment.size();
  Result<BatchScanner> scanner = segment.ScannerAt(0, size, BatchScanner::Mode::kContents);
  if (!scanner.ok()) return scanner.status();
  std::vector<AbortedEntry> aborted;
  int64_t end = segment.base_offset();
  int64_t valid = 0;
  BatchInfo batch;
  BatchScanner::Step step;
  std::optional<log::CompletedTransaction> completed;
  while ((step = scanner->Next(&batch)) == BatchScanner::kBatch) {
    if (batch.last_offset < end) break;  // goes back: not of this log
    // A batch outside its producer's open transaction cannot be refused here any more: the bytes
    // are what was acknowledged. It has no effect on the state.
    if (producers_.Apply(batch, &completed).ok() && completed && completed->aborted) {
      aborted.push_back({completed->producer_id, completed->first_offset, completed->marker_offset,
                         completed->last_stable_offset});
    }
    if (!clean) {
      if (batch.magic < 2) epochs_.Clear();  // as its append did
      if (epochs_.Assign(batch.leader_epoch, batch.base_offset)) epochs_dirty_ = true;
    }
    segment.Index({&batch, 1}, scanner->batch_position(), config_.index_interval_bytes);
    valid = scanner->position();
    end = batch.last_offset + 1;
  }
  if (step == BatchScanner::kFailed) return scanner->status();
  report.scanned_bytes += valid;
  *cut = valid < size;
  if (*cut) {
    report.torn_bytes += size - valid;
    auto handle = segment.log_file().Handle();
    if (!handle.ok()) return handle.status();
    if (io_->Truncate((*handle)->fd(), valid) != 0) {
      return ErrnoStatus("cut", segment.log_file().path(), errno);
    }
    segment.set_size(valid);
  }
  segment.CloseTimeIndex();
  status = segment.AppendAborted(aborted);
  if (!status.ok()) return status;
  if (index + 1 < segments_.size() && !*cut) {
    status = segment.SaveIndexes();
    if (!status.ok()) return status;
    segment.DropIndexesFromMemory();
  }
  // At the next segment's base, as a roll would have named it: there it is looked for, and survives
  // the removal of what lies below.
  const bool closed = index + 1 < segments_.size() && !*cut;
  producers_.set_map_end_offset(closed ? segments_[index + 1]->base_offset() : end);
  // Without it (no space) the next start replays more.
  (void)snapshots_.Write(producers_);
  return Status::Ok();
}

Status PartitionLog::Impl::FindEndLocked() {
  last_batch_epoch_ = -1;
  ends_with_reset_ = false;
  for (size_t i = segments_.size(); i-- > 0;) {
    std::optional<BatchInfo> last;
    Result<int64_t> end = segments_[i]->FindEnd(&last);
    if (!end.ok()) return end.status();
    if (i + 1 == segments_.size()) log_end_ = *end;
    if (!last) continue;
    last_batch_epoch_ = last->leader_epoch;
    ends_with_reset_ = last->IsControl() && last->control_type == log::kControlMirrorPidReset;
    break;
  }
  return Status::Ok();
}

// The checkpoint file; the batches themselves where it is missing or damaged. Later calls, with the
// end known, trim what was read: entries at or above the end have no data (2.10).
Status PartitionLog::Impl::LoadEpochsLocked() {
  if (epochs_.empty()) {
    const Result<std::string> text = ReadFile(io_, directory_ + "/leader-epoch-checkpoint");
    Result<log::EpochHistory> read =
        text.ok() ? log::EpochHistory::Decode(*text) : Result<log::EpochHistory>(text.status());
    if (read.ok()) {
      epochs_ = std::move(*read);
    } else if (read.status().code() == ErrorCode::kResourceNotFound ||
               read.status().code() == ErrorCode::kCorruptMessage) {
      epochs_dirty_ = true;
      for (const auto& segment : segments_) {
        const int64_t bytes = std::max<int64_t>(io_->Size(segment->log_file().path()), 0);
        Result<BatchScanner> scanner = segment->ScannerAt(0, bytes, BatchScanner::Mode::kHeaders);
        if (!scanner.ok()) return scanner.status();
        BatchInfo batch;
        while (scanner->Next(&batch) == BatchScanner::kBatch) {
          const auto latest = epochs_.Latest();
          if (latest && batch.leader_epoch <= latest->epoch) continue;
          epochs_.Assign(batch.leader_epoch, batch.base_offset);
        }
        if (!scanner->status().ok()) return scanner->status();
      }
    } else {
      return read.status();
    }
  }
  return Status::Ok();
}

Status PartitionLog::Impl::LoadProducersLocked(int64_t offset, int64_t now_ms) {
  auto snapshot = snapshots_.Newest(offset);
  if (!snapshot.ok()) return snapshot.status();
  int64_t from = std::min(segments_.front()->base_offset(), offset);
  if (*snapshot) {
    from = (*snapshot)->first;
    producers_.Load((*snapshot)->second, from, now_ms, config_.producer_id_expiration_ms);
  } else {
    producers_.Clear();
  }
  producers_.OnLogStart(log_start_);
  std::optional<log::CompletedTransaction> completed;
  for (size_t i = 0; i < segments_.size() && from < offset; ++i) {
    Segment& segment = *segments_[i];
    if (i + 1 < segments_.size() && segments_[i + 1]->base_offset() <= from) continue;
    if (segment.base_offset() >= offset) break;
    Result<BatchScanner> scanner = segment.ScannerFor(from, segment.size());
    if (!scanner.ok()) return scanner.status();
    BatchInfo batch;
    while (scanner->Next(&batch) == BatchScanner::kBatch && batch.base_offset < offset) {
      if (batch.base_offset < from) continue;
      (void)producers_.Apply(batch, &completed);  // as in a scan
    }
    if (!scanner->status().ok()) return scanner->status();
  }
  producers_.set_map_end_offset(offset);
  return Status::Ok();
}

}  // namespace kmirror::broker
