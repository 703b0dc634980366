// kmirrord's storage behind the library's seam, for programs that have fetchers without a broker.
#pragma once

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "broker/storage/partition_log.h"
#include "kmirror/host/partition_log.h"
#include "src/fetcher/mirror_fetching.h"

namespace bench {

// An empty log in `directory` (`topic-partition`, made here) that leads with epoch 10. Ends the
// process if it cannot be had.
inline std::shared_ptr<kmirror::broker::PartitionLog> NewLog(
    const std::string& directory, kmirror::broker::FileIo* io = nullptr) {
  kmirror::broker::PartitionLog::Options options;
  options.directory = directory;
  options.topic = "t";
  options.environment.io = io;
  std::filesystem::create_directories(directory);
  auto opened = kmirror::broker::PartitionLog::Open(options);
  if (!opened.ok() || !(*opened)->BecomeLeader(10, false).ok()) {
    std::fprintf(stderr, "no log in %s: %s\n", directory.c_str(),
                 opened.status().ToString().c_str());
    std::exit(1);
  }
  return *opened;
}

// Appends; everything else that a fetcher does not need here answers nothing.
class StorageLog : public kmirror::host::PartitionLog {
 public:
  // After each append, on the lane that appends: where the log ended before and ends now.
  using Appended = std::function<void(int64_t before, int64_t end)>;

  StorageLog(std::shared_ptr<kmirror::broker::PartitionLog> log, Appended appended)
      : log_(std::move(log)), appended_(std::move(appended)) {}

  kmirror::host::AppendResult AppendMirrored(const kmirror::host::MirroredSet& set,
                                             kmirror::host::AppendDone*) noexcept override {
    const kmirror::Status status = log_->AppendMirrored(
        set.bytes, set.batches, set.expected_end_offset, set.local_leader_epoch);
    if (!status.ok()) {
      std::fprintf(stderr, "%s\n", status.ToString().c_str());
      std::exit(1);
    }
    const int64_t end = set.batches.back().last_offset + 1;
    appended_(set.expected_end_offset, end);
    return {kmirror::host::AppendCode::kOk, end};
  }
  kmirror::host::LogView View() const noexcept override {
    const kmirror::broker::LogPositions at = log_->Positions();
    kmirror::host::LogView view;
    view.log_start = at.log_start;
    view.last_stable_offset = at.last_stable;
    view.high_watermark = at.high_watermark;
    view.end = at.log_end;
    view.last_batch_epoch = at.last_batch_epoch;
    return view;
  }
  std::vector<kmirror::host::OpenTransaction> OpenTransactions() const override { return {}; }
  std::vector<kmirror::host::EpochEntry> Epochs() const override { return {}; }
  kmirror::host::EpochEnd EndOffsetForEpoch(int32_t) const override { return {}; }
  int32_t EpochBefore(int64_t) const override { return -1; }
  int64_t MaxProducerId() const override { return -1; }
  bool EndsWithReset() const override { return false; }
  void AppendAbort(const kmirror::host::OpenTransaction&, int32_t,
                   kmirror::host::Completion) override {}
  void AppendReset(int32_t, kmirror::host::Completion) override {}
  void Truncate(int64_t, int32_t, kmirror::host::Completion) override {}
  void RestartAt(int64_t, int32_t, kmirror::host::Completion) override {}
  kmirror::Status RaiseLogStart(int64_t) noexcept override { return {}; }
  void AwaitReplicated(int32_t, kmirror::host::Completion) override {}
  void AwaitTruncated(bool, int32_t, kmirror::host::Completion) override {}
  void Sync(kmirror::host::Completion) override {}
  kmirror::Status SetLocalWrites(kmirror::host::LocalWrites, int32_t, int64_t) noexcept override {
    return {};
  }

 private:
  const std::shared_ptr<kmirror::broker::PartitionLog> log_;
  const Appended appended_;
};

// What a fetcher tells: nothing is expected here.
class FetchTrouble : public kmirror::fetcher::FetchEvents {
 public:
  void OnFetching(const kmirror::TopicIdPartition&) override {}
  void OnStopped(const kmirror::fetcher::FetchStopped& stopped) override {
    std::fprintf(stderr, "stopped: %s\n", stopped.message.c_str());
    std::exit(1);
  }
  void OnEpochNear(const kmirror::TopicIdPartition&, int32_t) override {}
  void OnGap(const kmirror::TopicIdPartition&, int64_t, int64_t) override {}
  void OnSourceTrouble(const std::string&, const std::string& reason) override {
    std::fprintf(stderr, "trouble: %s\n", reason.c_str());
  }
};

}  // namespace bench
