// What tests of the log share: a directory of their own, a clock they set, a disk that fails when
// told to, and batches made from a few words.
#pragma once

#include <fcntl.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include "broker/storage/partition_log.h"
#include "kmirror/log/control_batch.h"
#include "kmirror/log/record_batch_builder.h"

namespace kmirror::broker::test {

class TempDir {
 public:
  TempDir() {
    // Memory where there is some: the tests sync a lot.
    const bool memory = ::access("/dev/shm", W_OK) == 0;
    std::string name = (memory ? "/dev/shm" : std::filesystem::temp_directory_path().string()) +
                       "/kmirror-storage-XXXXXX";
    path_ = ::mkdtemp(name.data());
  }
  ~TempDir() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TempDir(const TempDir&) = delete;
  TempDir& operator=(const TempDir&) = delete;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

class FakeClock : public LogClock {
 public:
  int64_t NowMs() const override { return now_ms; }
  int64_t now_ms = 1700000100000;
};

// Passes everything on, until the count of calls of a kind reaches what the test set.
class FaultyIo : public FileIo {
 public:
  ssize_t Write(int fd, const iovec* pieces, int count, int64_t position) override {
    if (fail_writes_from >= 0 && writes++ >= fail_writes_from) {
      if (torn_bytes > 0 && count > 0) {  // a part reaches the disk
        iovec part = pieces[0];
        part.iov_len = std::min(part.iov_len, static_cast<size_t>(torn_bytes));
        (void)FileIo::Write(fd, &part, 1, position);
      }
      errno = write_errno;
      return -1;
    }
    return FileIo::Write(fd, pieces, count, position);
  }
  int Truncate(int fd, int64_t size) override {
    if (fail_truncates) {
      errno = EIO;
      return -1;
    }
    return FileIo::Truncate(fd, size);
  }
  int Sync(int fd, bool metadata) override {
    if (fail_syncs) {
      errno = EIO;
      return -1;
    }
    ++syncs;
    return FileIo::Sync(fd, metadata);
  }

  void FailWrites(int from_now, int error, int64_t torn = 0) {
    writes = 0;
    fail_writes_from = from_now;
    write_errno = error;
    torn_bytes = torn;
  }
  void Heal() {
    fail_writes_from = -1;
    fail_truncates = fail_syncs = false;
  }

  int writes = 0;
  std::atomic<int> syncs = 0;  // several threads sync
  int fail_writes_from = -1;
  int write_errno = ENOSPC;
  int64_t torn_bytes = 0;
  bool fail_truncates = false;
  bool fail_syncs = false;
};

inline std::string ReadAll(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

inline void WriteAll(const std::string& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary | std::ios::trunc) << bytes;
}

// A batch of `count` records and what its header says.
struct TestBatch {
  std::vector<uint8_t> bytes;
  log::BatchInfo info;
};

struct BatchSpec {
  int64_t base_offset = 0;
  int count = 1;
  int32_t leader_epoch = 0;
  int64_t producer_id = -1;
  int16_t producer_epoch = -1;
  int32_t sequence = -1;
  bool transactional = false;
  int64_t timestamp = 1700000000000;
  int value_bytes = 20;
  int32_t last_delta = -1;  // a hole at the end, if greater than count - 1
};

inline TestBatch Parse(std::vector<uint8_t> bytes) {
  TestBatch batch;
  batch.bytes = std::move(bytes);
  ByteView whole;
  if (log::BatchWalker(batch.bytes).Next(&batch.info, &whole) != log::BatchWalker::kBatch) {
    std::abort();  // the test made no batch
  }
  return batch;
}

inline TestBatch MakeBatch(const BatchSpec& spec) {
  log::RecordBatchBuilder builder;
  builder.base_offset = spec.base_offset;
  builder.leader_epoch = spec.leader_epoch;
  builder.producer_id = spec.producer_id;
  builder.producer_epoch =
      spec.producer_id >= 0 && spec.producer_epoch < 0 ? 0 : spec.producer_epoch;
  builder.base_sequence = spec.producer_id >= 0 && spec.sequence < 0 ? 0 : spec.sequence;
  builder.transactional = spec.transactional;
  for (int i = 0; i < spec.count; ++i) {
    const std::string key = "k" + std::to_string(spec.base_offset + i);
    const std::string value(static_cast<size_t>(spec.value_bytes), static_cast<char>('a' + i % 26));
    std::optional<int32_t> delta;
    if (i + 1 == spec.count && spec.last_delta >= 0) delta = spec.last_delta;
    builder.Add(spec.timestamp + i, log::AsBytes(key), log::AsBytes(value), {}, delta);
  }
  return Parse(builder.Build());
}

inline TestBatch MakeMarker(int16_t type, int64_t offset, int64_t producer_id,
                            int16_t producer_epoch = 0, int32_t coordinator_epoch = 0,
                            int32_t leader_epoch = 0, int64_t timestamp = 1700000000000) {
  const auto bytes = log::EndTxnBatch(type, offset, leader_epoch, timestamp, producer_id,
                                      producer_epoch, coordinator_epoch);
  return Parse({bytes.begin(), bytes.end()});
}

inline TestBatch MakeReset(int64_t offset, int32_t leader_epoch = 0) {
  const auto bytes = log::PidResetBatch(offset, leader_epoch, 1700000000000);
  return Parse({bytes.begin(), bytes.end()});
}

// Appends the batches as one mirrored set, in one piece each.
inline Status AppendSet(PartitionLog& log, std::span<const TestBatch> batches,
                        int64_t expected_end = -1) {
  std::vector<ByteView> pieces;
  std::vector<log::BatchInfo> infos;
  for (const TestBatch& batch : batches) {
    pieces.push_back(batch.bytes);
    infos.push_back(batch.info);
  }
  const LogPositions positions = log.Positions();
  return log.AppendMirrored(pieces, infos, expected_end < 0 ? positions.log_end : expected_end,
                            positions.leader_epoch);
}

inline Status AppendOne(PartitionLog& log, const TestBatch& batch) {
  return AppendSet(log, std::span(&batch, 1));
}

// Every batch from `offset` to the end, in order.
inline std::vector<TestBatch> ReadBatches(const PartitionLog& log, int64_t offset,
                                          ReadBound bound = ReadBound::kLogEnd) {
  std::vector<TestBatch> all;
  for (;;) {
    auto bytes = log.ReadBytes(offset, 65536, bound);
    if (!bytes.ok() || bytes->empty()) return all;
    log::BatchWalker walker(*bytes);
    log::BatchInfo info;
    ByteView batch;
    while (walker.Next(&info, &batch) == log::BatchWalker::kBatch) {
      all.push_back({{batch.begin(), batch.end()}, info});
      offset = info.last_offset + 1;
    }
  }
}

// One log in a directory of its own, opened and opened again.
struct LogFixture {
  TempDir dir;
  FakeClock clock;
  FaultyIo io;
  PartitionLog::Options options;
  std::shared_ptr<PartitionLog> log;

  LogFixture() {
    options.directory = dir.path() + "/t-0";
    options.topic = "t";
    options.environment = {.io = &io, .clock = &clock};
    options.config.file_delete_delay_ms = 0;
    std::filesystem::create_directory(options.directory);
  }
  Status Open(bool clean = false, int64_t recovery_point = 0) {
    log.reset();
    options.clean_shutdown = clean;
    options.recovery_point = recovery_point;
    auto opened = PartitionLog::Open(options);
    if (!opened.ok()) return opened.status();
    log = *opened;
    return log->BecomeLeader(100, false);
  }
  // As after kill -9: what is in the files, and nothing else. Keeps what the checkpoints would
  // hold.
  Status Crash() {
    const int64_t recovery_point = log->RecoveryPoint();
    options.log_start = log->LogStartToCheckpoint().value_or(-1);
    return Open(false, recovery_point);
  }
  Status CloseAndOpen() {
    Status closed = log->Close();
    if (!closed.ok()) return closed;
    options.log_start = log->LogStartToCheckpoint().value_or(-1);
    return Open(true, log->RecoveryPoint());
  }
};

}  // namespace kmirror::broker::test
