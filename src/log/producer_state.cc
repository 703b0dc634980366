#include "kmirror/log/producer_state.h"

#include <algorithm>
#include <string>

#include "kmirror/log/checksum.h"
#include "src/log/big_endian.h"

namespace kmirror::log {
namespace {

constexpr int16_t kSnapshotVersion = 1;
constexpr size_t kSnapshotHeaderBytes = 10;  // version, checksum, count
constexpr size_t kSnapshotCrcStart = 6;
constexpr size_t kSnapshotEntryBytes = 46;

bool IsMarker(const BatchInfo& batch) {
  return batch.IsControl() &&
         (batch.control_type == kControlAbort || batch.control_type == kControlCommit);
}

Status OutsideTransaction(const BatchInfo& batch, int64_t first_offset) {
  return {ErrorCode::kInvalidTxnState, "producer " + std::to_string(batch.producer_id) +
                                           " wrote outside its transaction, open since " +
                                           std::to_string(first_offset) + ", at offset " +
                                           std::to_string(batch.base_offset)};
}

}  // namespace

void ProducerState::Entry::Add(const ProducerBatch& batch) {
  batches[(first + count) % kBatchesKept] = batch;
  if (count < kBatchesKept) {
    ++count;
  } else {
    first = static_cast<uint8_t>((first + 1) % kBatchesKept);
  }
}

Status ProducerState::Check(std::span<const BatchInfo> batches) {
  // Without a transaction anywhere nothing can conflict, which is the case of most sets.
  if (ongoing_.empty()) {
    const bool any = std::any_of(batches.begin(), batches.end(), [](const BatchInfo& batch) {
      return batch.IsTransactional() && !batch.IsControl() && batch.HasProducer();
    });
    if (!any) return Status::Ok();
  }
  ++check_round_;
  check_new_.clear();
  for (const BatchInfo& batch : batches) {
    if (!batch.HasProducer()) continue;  // a reset keeps producers with an open transaction
    bool* open = nullptr;
    if (const auto found = producers_.find(batch.producer_id); found != producers_.end()) {
      Entry& entry = found->second;
      if (entry.check_round != check_round_) {
        entry.check_round = check_round_;
        entry.check_open = entry.txn_first_offset >= 0;
      }
      open = &entry.check_open;
    } else {
      open = &check_new_[batch.producer_id];
    }
    if (IsMarker(batch)) {
      *open = false;
    } else if (!batch.IsControl()) {
      if (*open && !batch.IsTransactional()) return OutsideTransaction(batch, -1);
      *open = *open || batch.IsTransactional();
    }
  }
  return Status::Ok();
}

Status ProducerState::Apply(const BatchInfo& batch,
                            std::optional<CompletedTransaction>* completed) {
  completed->reset();
  if (!batch.HasProducer()) {
    if (batch.IsControl() && batch.control_type == kControlMirrorPidReset) Reset();
    map_end_offset_ = batch.last_offset + 1;
    return Status::Ok();
  }
  if (batch.IsControl() && !IsMarker(batch)) {  // emptied by a cleaner, or a type of the future
    map_end_offset_ = batch.last_offset + 1;
    return Status::Ok();
  }
  Entry& entry = producers_[batch.producer_id];
  if (!batch.IsControl() && !batch.IsTransactional() && entry.txn_first_offset >= 0) {
    return OutsideTransaction(batch, entry.txn_first_offset);
  }
  if (entry.producer_epoch != batch.producer_epoch) {
    entry.DropBatches();
    entry.producer_epoch = batch.producer_epoch;
  }
  entry.last_timestamp = batch.max_timestamp;
  if (batch.IsControl()) {
    entry.coordinator_epoch = batch.coordinator_epoch;
    if (entry.txn_first_offset >= 0) {
      ongoing_.erase(entry.txn_first_offset);
      CompletedTransaction done;
      done.producer_id = batch.producer_id;
      done.first_offset = entry.txn_first_offset;
      done.marker_offset = batch.last_offset;
      done.last_stable_offset = ongoing_.empty() ? batch.last_offset + 1 : ongoing_.begin()->first;
      done.aborted = batch.control_type == kControlAbort;
      unreplicated_[done.first_offset] = done;
      entry.txn_first_offset = -1;
      *completed = done;
    }
  } else {
    entry.Add({.last_sequence = batch.LastSequence(),
               .offset_delta = static_cast<int32_t>(batch.last_offset - batch.base_offset),
               .last_offset = batch.last_offset,
               .timestamp = batch.max_timestamp});
    if (batch.IsTransactional() && entry.txn_first_offset < 0) {
      entry.txn_first_offset = batch.base_offset;
      ongoing_[batch.base_offset] = batch.producer_id;
    }
  }
  max_producer_id_ = std::max(max_producer_id_, batch.producer_id);
  map_end_offset_ = batch.last_offset + 1;
  return Status::Ok();
}

// Forgets every producer without an open transaction. One with an open one should not exist here
// (4.5, defect 3): it stays, so that its ABORT can still be written and all replicas agree.
void ProducerState::Reset() {
  ++resets_applied_;
  for (auto entry = producers_.begin(); entry != producers_.end();) {
    if (entry->second.txn_first_offset >= 0) {
      ++reset_violations_;
      ++entry;
    } else {
      entry = producers_.erase(entry);
    }
  }
}

ProducerState::ClientCheck ProducerState::CheckClient(const BatchInfo& batch) const {
  ClientCheck check;
  const auto found = producers_.find(batch.producer_id);
  if (!batch.HasProducer() || found == producers_.end()) return check;
  const Entry& entry = found->second;
  const auto refuse = [&](ErrorCode code, const std::string& what) {
    check.status = Status(code, "producer " + std::to_string(batch.producer_id) + ": " + what);
    return check;
  };
  if (batch.producer_epoch == entry.producer_epoch) {
    for (int i = 0; i < entry.count; ++i) {
      const ProducerBatch& known = entry.batches[(entry.first + i) % kBatchesKept];
      if (known.first_sequence() == batch.base_sequence &&
          known.last_sequence == batch.LastSequence()) {
        check.duplicate = true;
        check.base_offset = known.base_offset();
        check.timestamp = known.timestamp;
        return check;
      }
    }
  }
  if (batch.producer_epoch < entry.producer_epoch) {
    return refuse(ErrorCode::kInvalidProducerEpoch,
                  "epoch " + std::to_string(batch.producer_epoch) + " is older than " +
                      std::to_string(entry.producer_epoch));
  }
  if (batch.producer_epoch > entry.producer_epoch) {
    if (batch.base_sequence != 0 && entry.producer_epoch != -1) {
      return refuse(ErrorCode::kOutOfOrderSequenceNumber, "a new epoch starts with sequence " +
                                                              std::to_string(batch.base_sequence) +
                                                              " instead of 0");
    }
  } else {
    const int32_t last = entry.count == 0 ? -1 : entry.Newest().last_sequence;
    const int32_t next = last == INT32_MAX ? 0 : last + 1;
    if (batch.base_sequence != next) {
      return refuse(ErrorCode::kOutOfOrderSequenceNumber,
                    "sequence " + std::to_string(batch.base_sequence) + " where " +
                        std::to_string(next) + " is next");
    }
  }
  if (entry.txn_first_offset >= 0 && !batch.IsTransactional()) {
    check.status = OutsideTransaction(batch, entry.txn_first_offset);
  }
  return check;
}

Status ProducerState::CheckMarker(const BatchInfo& batch) const {
  const auto found = producers_.find(batch.producer_id);
  if (found == producers_.end()) return Status::Ok();
  if (batch.producer_epoch < found->second.producer_epoch) {
    return {ErrorCode::kInvalidProducerEpoch,
            "marker of producer " + std::to_string(batch.producer_id) + " has an old epoch"};
  }
  if (batch.coordinator_epoch < found->second.coordinator_epoch) {
    return {ErrorCode::kTransactionCoordinatorFenced,
            "marker of producer " + std::to_string(batch.producer_id) + " of an old coordinator"};
  }
  return Status::Ok();
}

void ProducerState::OnHighWatermark(int64_t high_watermark) {
  for (auto done = unreplicated_.begin(); done != unreplicated_.end();) {
    done =
        done->second.marker_offset < high_watermark ? unreplicated_.erase(done) : std::next(done);
  }
}

std::optional<int64_t> ProducerState::FirstUnstableOffset() const {
  if (ongoing_.empty() && unreplicated_.empty()) return std::nullopt;
  int64_t first = INT64_MAX;
  if (!ongoing_.empty()) first = ongoing_.begin()->first;
  if (!unreplicated_.empty()) first = std::min(first, unreplicated_.begin()->first);
  return std::max(first, log_start_);
}

std::optional<int64_t> ProducerState::FirstUndecidedOffset() const {
  if (ongoing_.empty()) return std::nullopt;
  return ongoing_.begin()->first;
}

std::vector<OpenTransaction> ProducerState::OpenTransactions() const {
  std::vector<OpenTransaction> open;
  open.reserve(ongoing_.size());
  for (const auto& [first_offset, producer_id] : ongoing_) {
    OpenTransaction transaction{.first_offset = first_offset, .producer_id = producer_id};
    if (const auto found = producers_.find(producer_id); found != producers_.end()) {
      transaction.producer_epoch = found->second.producer_epoch;
      transaction.coordinator_epoch = found->second.coordinator_epoch;
      transaction.last_timestamp = found->second.last_timestamp;
    }
    open.push_back(transaction);
  }
  return open;
}

void ProducerState::OnLogStart(int64_t log_start) {
  log_start_ = log_start;
  for (auto done = unreplicated_.begin(); done != unreplicated_.end();) {
    done = done->second.marker_offset < log_start ? unreplicated_.erase(done) : std::next(done);
  }
}

ProducerInfo ProducerState::InfoOf(int64_t producer_id, const Entry& entry) {
  ProducerInfo info;
  info.producer_id = producer_id;
  info.producer_epoch = entry.producer_epoch;
  info.last_timestamp = entry.last_timestamp;
  info.coordinator_epoch = entry.coordinator_epoch;
  info.txn_first_offset = entry.txn_first_offset;
  if (entry.count > 0) {
    info.last_sequence = entry.Newest().last_sequence;
    info.last_offset = entry.Newest().last_offset;
    info.offset_delta = entry.Newest().offset_delta;
  }
  return info;
}

std::vector<ProducerInfo> ProducerState::Producers() const {
  std::vector<ProducerInfo> all;
  all.reserve(producers_.size());
  for (const auto& [producer_id, entry] : producers_) all.push_back(InfoOf(producer_id, entry));
  std::sort(all.begin(), all.end(), [](const ProducerInfo& a, const ProducerInfo& b) {
    return a.producer_id < b.producer_id;
  });
  return all;
}

std::optional<ProducerInfo> ProducerState::Find(int64_t producer_id) const {
  const auto found = producers_.find(producer_id);
  if (found == producers_.end()) return std::nullopt;
  return InfoOf(producer_id, found->second);
}

void ProducerState::Clear() {
  producers_.clear();
  ongoing_.clear();
  unreplicated_.clear();
  check_new_.clear();
  map_end_offset_ = 0;
  max_producer_id_ = -1;
}

void ProducerState::Expire(int64_t now_ms, int64_t expiration_ms) {
  std::erase_if(producers_, [&](const auto& item) {
    const Entry& entry = item.second;
    // Timestamps are the clients', and may be as far in the past as int64 goes.
    return entry.txn_first_offset < 0 && entry.last_timestamp <= now_ms - expiration_ms;
  });
}

std::vector<uint8_t> ProducerState::EncodeSnapshot() const {
  const std::vector<ProducerInfo> all = Producers();
  std::vector<uint8_t> out;
  out.reserve(kSnapshotHeaderBytes + all.size() * kSnapshotEntryBytes);
  AppendBig<int16_t>(&out, kSnapshotVersion);
  AppendBig<uint32_t>(&out, 0);
  AppendBig<int32_t>(&out, static_cast<int32_t>(all.size()));
  for (const ProducerInfo& entry : all) {
    AppendBig<int64_t>(&out, entry.producer_id);
    AppendBig<int16_t>(&out, entry.producer_epoch);
    AppendBig<int32_t>(&out, entry.last_sequence);
    AppendBig<int64_t>(&out, entry.last_offset);
    AppendBig<int32_t>(&out, entry.offset_delta);
    AppendBig<int64_t>(&out, entry.last_timestamp);
    AppendBig<int32_t>(&out, entry.coordinator_epoch);
    AppendBig<int64_t>(&out, entry.txn_first_offset);
  }
  StoreBig<uint32_t>(out.data() + 2, Crc32c(0, ByteView(out).subspan(kSnapshotCrcStart)));
  return out;
}

Result<std::vector<ProducerInfo>> ProducerState::DecodeSnapshot(ByteView bytes) {
  const auto bad = [](const char* what) {
    return Status(ErrorCode::kCorruptMessage, std::string("producer snapshot: ") + what);
  };
  if (bytes.size() < kSnapshotHeaderBytes) return bad("too short");
  if (LoadBig<int16_t>(bytes.data()) != kSnapshotVersion) return bad("version 1 expected");
  if (LoadBig<uint32_t>(bytes.data() + 2) != Crc32c(0, bytes.subspan(kSnapshotCrcStart))) {
    return bad("wrong checksum");
  }
  const auto count = LoadBig<int32_t>(bytes.data() + 6);
  if (count < 0 ||
      static_cast<uint64_t>(count) * kSnapshotEntryBytes + kSnapshotHeaderBytes != bytes.size()) {
    return bad("entry count does not fit the size");
  }
  std::vector<ProducerInfo> entries(count);
  const uint8_t* at = bytes.data() + kSnapshotHeaderBytes;
  for (ProducerInfo& entry : entries) {
    entry.producer_id = LoadBig<int64_t>(at);
    entry.producer_epoch = LoadBig<int16_t>(at + 8);
    entry.last_sequence = LoadBig<int32_t>(at + 10);
    entry.last_offset = LoadBig<int64_t>(at + 14);
    entry.offset_delta = LoadBig<int32_t>(at + 22);
    entry.last_timestamp = LoadBig<int64_t>(at + 26);
    entry.coordinator_epoch = LoadBig<int32_t>(at + 34);
    entry.txn_first_offset = LoadBig<int64_t>(at + 38);
    at += kSnapshotEntryBytes;
  }
  return entries;
}

void ProducerState::Load(std::span<const ProducerInfo> entries, int64_t map_end_offset,
                         int64_t now_ms, int64_t expiration_ms) {
  Clear();
  map_end_offset_ = map_end_offset;
  for (const ProducerInfo& info : entries) {
    if (now_ms >= 0 && info.txn_first_offset < 0 &&
        info.last_timestamp <= now_ms - expiration_ms) {
      continue;
    }
    Entry& entry = producers_[info.producer_id];
    entry = Entry();
    entry.producer_epoch = info.producer_epoch;
    entry.last_timestamp = info.last_timestamp;
    entry.coordinator_epoch = info.coordinator_epoch;
    entry.txn_first_offset = info.txn_first_offset;
    if (info.last_offset >= 0) {
      entry.Add({.last_sequence = info.last_sequence,
                 .offset_delta = info.offset_delta,
                 .last_offset = info.last_offset,
                 .timestamp = info.last_timestamp});
    }
    if (info.txn_first_offset >= 0) ongoing_[info.txn_first_offset] = info.producer_id;
    max_producer_id_ = std::max(max_producer_id_, info.producer_id);
  }
}

}  // namespace kmirror::log
