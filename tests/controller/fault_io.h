// A FileIo that stops the world: from the n-th change on nothing reaches the disk any more, as if
// the process had been killed there. The n-th write may get half of its bytes down first. Syncs
// only count: a killed process leaves its pages to the system, and hundreds of real syncs take
// minutes.
#pragma once

#include <atomic>
#include <cerrno>

#include "broker/storage/file_io.h"

namespace kmirror::broker {

class FaultIo final : public FileIo {
 public:
  // Calls from 0. -1: never.
  explicit FaultIo(int fail_from = -1, bool half_write = false)
      : fail_from_(fail_from), half_write_(half_write) {}

  int calls() const { return calls_; }
  void FailFrom(int call) { fail_from_ = call; }
  // Only the one call fails; the world goes on after it.
  void FailOnly(int call) {
    fail_from_ = call;
    once_ = true;
  }
  void Heal() { fail_from_ = -1; }
  // Fails every sync, and nothing else.
  void FailSyncs(bool fail) { fail_syncs_ = fail; }

  ssize_t Write(int fd, const iovec* pieces, int count, int64_t position) override {
    if (!Dead()) return FileIo::Write(fd, pieces, count, position);
    if (half_write_ && calls_ - 1 == fail_from_) {
      iovec half = pieces[0];
      half.iov_len /= 2;
      if (half.iov_len > 0) FileIo::Write(fd, &half, 1, position);
    }
    return Refuse();
  }
  int Truncate(int fd, int64_t size) override {
    return Dead() ? Refuse() : FileIo::Truncate(fd, size);
  }
  int Sync(int fd, bool metadata) override {
    (void)fd, (void)metadata;
    return Dead() || fail_syncs_ ? Refuse() : 0;
  }
  int Open(const std::string& path, int flags, int mode) override {
    return Dead() ? Refuse() : FileIo::Open(path, flags, mode);
  }
  int Rename(const std::string& from, const std::string& to) override {
    return Dead() ? Refuse() : FileIo::Rename(from, to);
  }
  int Remove(const std::string& path) override { return Dead() ? Refuse() : FileIo::Remove(path); }

 private:
  bool Dead() {
    const int call = calls_++;
    if (fail_from_ < 0) return false;
    return once_ ? call == fail_from_ : call >= fail_from_;
  }
  static int Refuse() {
    errno = EIO;
    return -1;
  }

  int fail_from_;
  const bool half_write_;
  bool once_ = false;
  bool fail_syncs_ = false;
  std::atomic<int> calls_ = 0;
};

}  // namespace kmirror::broker
