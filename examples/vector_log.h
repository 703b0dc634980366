// A host::PartitionLog in a vector of batches: no disk, one replica. The rules it shares with every
// other host (producers, epochs, control batches) come from the library.
//
// Single-threaded, as the whole example is.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "kmirror/host/partition_log.h"
#include "kmirror/host/runtime.h"
#include "kmirror/log/control_batch.h"
#include "kmirror/log/epoch_history.h"
#include "kmirror/log/producer_state.h"

class VectorLog final : public kmirror::host::PartitionLog {
 public:
  using Status = kmirror::Status;
  using ErrorCode = kmirror::ErrorCode;
  using Completion = kmirror::host::Completion;
  using AppendCode = kmirror::host::AppendCode;

  explicit VectorLog(kmirror::host::Runtime* runtime) : runtime_(runtime) {}

  // Told by the controller.
  void Lead(int32_t leader_epoch) { leader_epoch_ = leader_epoch; }
  void CloseWrites(kmirror::host::LocalWrites mode, int64_t metadata_version) {
    writes_ = mode;
    barrier_version_ = metadata_version;
  }
  bool writable() const { return writes_ == kmirror::host::LocalWrites::kAllowed; }

  kmirror::host::AppendResult AppendMirrored(const kmirror::host::MirroredSet& set,
                                             kmirror::host::AppendDone*) noexcept override {
    if (set.local_leader_epoch != leader_epoch_) return {AppendCode::kFenced, -1};
    if (set.expected_end_offset != end_) return {AppendCode::kNotEnd, -1};
    int64_t previous = end_ - 1;
    for (const kmirror::log::BatchInfo& batch : set.batches) {
      if (batch.last_offset <= previous) return {AppendCode::kRefused, -1};
      previous = batch.last_offset;
    }
    if (!producers_.Check(set.batches).ok()) return {AppendCode::kRefused, -1};
    std::vector<uint8_t> bytes;
    for (kmirror::ByteView piece : set.bytes) bytes.insert(bytes.end(), piece.begin(), piece.end());
    size_t at = 0;
    for (const kmirror::log::BatchInfo& batch : set.batches) {
      const auto size = static_cast<size_t>(batch.bytes);
      Store(batch, {bytes.begin() + static_cast<std::ptrdiff_t>(at),
                    bytes.begin() + static_cast<std::ptrdiff_t>(at + size)});
      at += size;
    }
    return {AppendCode::kOk, end_};
  }

  kmirror::host::LogView View() const noexcept override {
    kmirror::host::LogView view;
    view.log_start = log_start_;
    view.last_stable_offset = std::max(log_start_, producers_.LastStableOffset(end_));
    view.high_watermark = view.end = end_;  // one replica: what is appended is replicated
    if (!batches_.empty()) view.last_batch_epoch = batches_.back().first.leader_epoch;
    if (const auto latest = epochs_.Latest()) view.latest_epoch = latest->epoch;
    view.leader_epoch = leader_epoch_;
    return view;
  }

  std::vector<kmirror::host::OpenTransaction> OpenTransactions() const override {
    std::vector<kmirror::host::OpenTransaction> open;
    for (const kmirror::log::OpenTransaction& txn : producers_.OpenTransactions()) {
      open.push_back(
          {txn.producer_id, txn.first_offset, txn.coordinator_epoch, txn.producer_epoch});
    }
    return open;
  }
  std::vector<kmirror::host::EpochEntry> Epochs() const override {
    std::vector<kmirror::host::EpochEntry> entries;
    for (const kmirror::log::EpochStart& one : epochs_.entries()) {
      entries.push_back({one.epoch, one.start_offset});
    }
    return entries;
  }
  kmirror::host::EpochEnd EndOffsetForEpoch(int32_t epoch) const override {
    const kmirror::log::EpochEnd end = epochs_.EndOffsetFor(epoch, end_);
    return {end.epoch, end.end_offset};
  }
  int32_t EpochBefore(int64_t offset) const override {
    return epochs_.EpochForOffset(offset - 1).value_or(-1);
  }
  int64_t MaxProducerId() const override { return producers_.max_producer_id(); }
  bool EndsWithReset() const override {
    return !batches_.empty() &&
           batches_.back().first.control_type == kmirror::log::kControlMirrorPidReset;
  }

  void AppendAbort(const kmirror::host::OpenTransaction& txn, int32_t leader_epoch,
                   Completion done) override {
    if (Status status = CheckEpoch(leader_epoch); !status.ok()) return done(std::move(status));
    AppendOwn(kmirror::log::EndTxnBatch(kmirror::log::kControlAbort, end_, leader_epoch,
                                        runtime_->WallMs(), txn.producer_id, txn.producer_epoch,
                                        std::max(0, txn.coordinator_epoch)));
    done(Status::Ok());
  }
  void AppendReset(int32_t leader_epoch, Completion done) override {
    if (Status status = CheckEpoch(leader_epoch); !status.ok()) return done(std::move(status));
    AppendOwn(kmirror::log::PidResetBatch(end_, leader_epoch, runtime_->WallMs()));
    done(Status::Ok());
  }

  void Truncate(int64_t offset, int32_t leader_epoch, Completion done) override {
    if (Status status = CheckEpoch(leader_epoch); !status.ok()) return done(std::move(status));
    // Whole batches: an offset inside one is rounded down.
    for (const auto& [info, bytes] : batches_) {
      if (info.base_offset < offset && info.last_offset >= offset) offset = info.base_offset;
    }
    while (!batches_.empty() && batches_.back().first.last_offset >= offset) batches_.pop_back();
    end_ = std::min(end_, offset);
    log_start_ = std::min(log_start_, end_);
    epochs_.TruncateFromEnd(end_);
    Rebuild();
    done(Status::Ok());
  }
  void RestartAt(int64_t offset, int32_t leader_epoch, Completion done) override {
    if (Status status = CheckEpoch(leader_epoch); !status.ok()) return done(std::move(status));
    batches_.clear();
    epochs_.Clear();
    log_start_ = end_ = offset;
    Rebuild();
    done(Status::Ok());
  }
  Status RaiseLogStart(int64_t offset) noexcept override {
    const int64_t target = std::min(offset, end_);
    if (target <= log_start_) return {};
    log_start_ = target;
    epochs_.TruncateFromStart(target);
    producers_.OnLogStart(target);
    return {};
  }

  // One replica on no disk: everything is replicated, truncated and synced as soon as it is asked.
  void AwaitReplicated(int32_t leader_epoch, Completion done) override {
    done(CheckEpoch(leader_epoch));
  }
  void AwaitTruncated(bool, int32_t leader_epoch, Completion done) override {
    done(CheckEpoch(leader_epoch));
  }
  void Sync(Completion done) override { done(Status::Ok()); }

  Status SetLocalWrites(kmirror::host::LocalWrites mode, int32_t leader_epoch,
                        int64_t metadata_version) noexcept override {
    if (Status status = CheckEpoch(leader_epoch); !status.ok()) return status;
    if (metadata_version < barrier_version_) {
      return {ErrorCode::kFencedStateEpoch, "a newer change has closed the barrier"};
    }
    writes_ = mode;
    barrier_version_ = metadata_version;
    return {};
  }

 private:
  Status CheckEpoch(int32_t leader_epoch) const {
    if (leader_epoch == leader_epoch_) return {};
    return {ErrorCode::kFencedLeaderEpoch, "the leader epoch is " + std::to_string(leader_epoch_)};
  }
  void AppendOwn(std::span<const uint8_t> batch) {
    const kmirror::ByteView bytes(batch.data(), batch.size());
    kmirror::log::BatchInfo info;
    (void)kmirror::log::ParseBatchHeader(bytes, &info);
    (void)kmirror::log::ParseControlRecord(bytes, &info);
    Store(info, {bytes.begin(), bytes.end()});
  }
  void Store(const kmirror::log::BatchInfo& info, std::vector<uint8_t> bytes) {
    epochs_.Assign(info.leader_epoch, info.base_offset);
    std::optional<kmirror::log::CompletedTransaction> completed;
    (void)producers_.Apply(info, &completed);
    batches_.emplace_back(info, std::move(bytes));
    end_ = info.last_offset + 1;
    producers_.OnHighWatermark(end_);
  }
  void Rebuild() {
    producers_.Clear();
    for (const auto& [info, bytes] : batches_) {
      std::optional<kmirror::log::CompletedTransaction> completed;
      (void)producers_.Apply(info, &completed);
    }
    producers_.OnLogStart(log_start_);
    producers_.OnHighWatermark(end_);
  }

  kmirror::host::Runtime* runtime_;
  std::vector<std::pair<kmirror::log::BatchInfo, std::vector<uint8_t>>> batches_;
  kmirror::log::ProducerState producers_;
  kmirror::log::EpochHistory epochs_;
  int64_t log_start_ = 0;
  int64_t end_ = 0;
  int32_t leader_epoch_ = 0;
  kmirror::host::LocalWrites writes_ = kmirror::host::LocalWrites::kAllowed;
  int64_t barrier_version_ = -1;
};
