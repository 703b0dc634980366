#include "tests/sim/broken_host.h"

#include <algorithm>
#include <cstdint>

#include "kmirror/log/batch.h"

namespace kmirror::sim {
namespace {

class BrokenLog final : public host::PartitionLog {
 public:
  BrokenLog(std::shared_ptr<host::PartitionLog> inner, Breakage breakage)
      : inner_(std::move(inner)), breakage_(breakage) {}

  host::AppendResult AppendMirrored(const host::MirroredSet& set,
                                    host::AppendDone* done) noexcept override {
    if (breakage_ == Breakage::kChangesByte) {
      std::vector<uint8_t> all;
      for (const ByteView piece : set.bytes) all.insert(all.end(), piece.begin(), piece.end());
      all.back() ^= 1;
      const ByteView piece(all);
      host::MirroredSet changed = set;
      changed.bytes = {&piece, 1};
      return inner_->AppendMirrored(changed, done);
    }
    if (breakage_ == Breakage::kDropsBatch && set.batches.size() > 2) {
      std::vector<uint8_t> all;
      for (const ByteView piece : set.bytes) all.insert(all.end(), piece.begin(), piece.end());
      const auto first = static_cast<std::ptrdiff_t>(set.batches[0].bytes);
      all.erase(all.begin() + first,
                all.begin() + first + static_cast<std::ptrdiff_t>(set.batches[1].bytes));
      std::vector<log::BatchInfo> batches(set.batches.begin(), set.batches.end());
      batches.erase(batches.begin() + 1);
      const ByteView piece(all);
      host::MirroredSet less = set;
      less.bytes = {&piece, 1};
      less.batches = batches;
      return inner_->AppendMirrored(less, done);
    }
    return inner_->AppendMirrored(set, done);
  }
  host::LogView View() const noexcept override {
    host::LogView view = inner_->View();
    if (breakage_ == Breakage::kClaimsEnd) view.high_watermark += 1000;
    return view;
  }
  std::vector<host::OpenTransaction> OpenTransactions() const override {
    // It believes itself.
    if (breakage_ == Breakage::kForgetsAbort) return {};
    return inner_->OpenTransactions();
  }
  std::vector<host::EpochEntry> Epochs() const override { return inner_->Epochs(); }
  host::EpochEnd EndOffsetForEpoch(int32_t epoch) const override {
    return inner_->EndOffsetForEpoch(epoch);
  }
  int32_t EpochBefore(int64_t offset) const override { return inner_->EpochBefore(offset); }
  int64_t MaxProducerId() const override { return inner_->MaxProducerId(); }
  bool EndsWithReset() const override {
    return breakage_ == Breakage::kForgetsReset || inner_->EndsWithReset();
  }
  void AppendAbort(const host::OpenTransaction& txn, int32_t leader_epoch,
                   host::Completion done) override {
    inner_->AppendAbort(txn, leader_epoch, std::move(done));
  }
  void AppendReset(int32_t leader_epoch, host::Completion done) override {
    inner_->AppendReset(leader_epoch, std::move(done));
  }
  void Truncate(int64_t offset, int32_t leader_epoch, host::Completion done) override {
    if (breakage_ == Breakage::kForgetsTruncate) return done(Status::Ok());
    inner_->Truncate(offset, leader_epoch, std::move(done));
  }
  void RestartAt(int64_t offset, int32_t leader_epoch, host::Completion done) override {
    inner_->RestartAt(offset, leader_epoch, std::move(done));
  }
  Status RaiseLogStart(int64_t offset) noexcept override { return inner_->RaiseLogStart(offset); }
  void AwaitReplicated(int32_t leader_epoch, host::Completion done) override {
    inner_->AwaitReplicated(leader_epoch, std::move(done));
  }
  void AwaitTruncated(bool all_replicas, int32_t leader_epoch, host::Completion done) override {
    inner_->AwaitTruncated(all_replicas, leader_epoch, std::move(done));
  }
  void Sync(host::Completion done) override { inner_->Sync(std::move(done)); }
  Status SetLocalWrites(host::LocalWrites mode, int32_t leader_epoch,
                        int64_t metadata_version) noexcept override {
    if (breakage_ == Breakage::kOpensEarly) mode = host::LocalWrites::kAllowed;
    return inner_->SetLocalWrites(mode, leader_epoch, metadata_version);
  }

 private:
  const std::shared_ptr<host::PartitionLog> inner_;
  const Breakage breakage_;
};

}  // namespace

std::shared_ptr<host::PartitionLog> BrokenLogs::Find(const TopicIdPartition& partition) {
  auto log = inner_->Find(partition);
  if (log == nullptr || breakage_ == Breakage::kNone) return log;
  return std::make_shared<BrokenLog>(std::move(log), breakage_);
}

}  // namespace kmirror::sim
