// A disk in memory behind the broker's file seam: what is written stands in the page cache until it
// is synced, and a crash shows which of the two it was.
//
//   killed process   what was written stays; the call that was under way may be done in part
//   power loss       of each file, and of each directory's names, some prefix of the changes after
//                    the last sync survives; the next write after them may be torn at sectors
//   failed sync      what it should have written stays in the page cache and counts as clean: it
//                    reaches the platter only when it is written again (or, so that it ends
//                    somewhere, after the process has ended)
//
// Follows POSIX where file systems differ: a name is durable when its directory was synced, content
// when its file was. Single-threaded.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "broker/storage/file_io.h"
#include "tests/sim/trace.h"

namespace kmirror::sim {

class SimDisk final : public broker::FileIo {
 public:
  // Both outlive the disk. `wall_ms` dates files.
  SimDisk(uint64_t seed, Trace* trace, std::function<int64_t()> wall_ms);
  ~SimDisk() override;

  // --- Faults.

  // The process dies within the n-th change from now (1: the next one); half of a write may be
  // down. From then on nothing has any effect. 0 disarms.
  void KillAt(int64_t changes) { kill_in_ = changes; }
  // The process dies now.
  void Kill();
  bool dead() const { return dead_; }
  // After the process has gone: what a new one finds. Descriptors and locks are gone.
  void Restart(bool power_loss);

  void SetFull(bool full) { full_ = full; }
  bool full() const { return full_; }
  // The next `count` changes of that kind fail with EIO: any of "write", "sync", "rename",
  // "truncate", "open".
  void FailNext(const std::string& kind, int count) { failing_[kind] += count; }
  void Heal();
  // Before each change and sync; a slow disk lets time pass here.
  std::function<void(bool sync)> on_change;
  // A broken disk, to show that the checks see it: syncs answer OK and keep nothing.
  bool lying_syncs = false;

  int64_t changes() const { return changes_; }
  int64_t syncs() const { return syncs_; }

  // --- For checkers: the page cache's view.

  // The content, nullptr if there is none. Valid until the next change.
  const std::vector<uint8_t>* Content(const std::string& path);
  // Changes whenever a file of the directory, or the directory, did. 0: no such directory.
  uint64_t Version(const std::string& directory);
  // Files and directories in it, sorted.
  std::vector<std::string> Names(const std::string& directory);

  // --- broker::FileIo
  ssize_t Write(int fd, const iovec* pieces, int count, int64_t position) override;
  int Truncate(int fd, int64_t size) override;
  int Sync(int fd, bool metadata) override;
  int Allocate(int fd, int64_t position, int64_t length) override;
  int Open(const std::string& path, int flags, int mode) override;
  int Rename(const std::string& from, const std::string& to) override;
  int Remove(const std::string& path) override;
  int MakeDirectories(const std::string& path) override;
  int RemoveTree(const std::string& path) override;
  ssize_t Read(int fd, void* to, size_t bytes, int64_t position) override;
  void Close(int fd) override;
  int Lock(int fd) override;
  int64_t Size(const std::string& path) override;
  int64_t ModifiedMs(const std::string& path) override;
  bool IsDirectory(const std::string& path) override;
  int List(const std::string& directory, std::vector<std::string>* names) override;

 private:
  struct Node;
  using NodePtr = std::shared_ptr<Node>;
  struct NameChange {
    std::string name;
    NodePtr node;      // nullptr: the name goes
    std::string from;  // not empty: a rename within the directory
  };
  struct DataChange {
    int64_t position = 0;
    std::vector<uint8_t> bytes;
    int64_t cut_to = -1;  // >= 0: a truncation
  };
  struct Node {
    bool directory = false;
    uint64_t version = 1;
    std::weak_ptr<Node> parent;
    int64_t modified_ms = 0;
    bool locked = false;
    // of a file
    std::vector<uint8_t> now, durable;
    std::vector<DataChange> pending;
    bool lost = false;  // a failed sync has forgotten changes
    // of a directory
    std::map<std::string, NodePtr> names, durable_names;
    std::vector<NameChange> pending_names;
  };

  NodePtr Find(const std::string& path) const;
  // The directory that holds `path` (nullptr: none) and the last component.
  std::pair<NodePtr, std::string> ParentOf(const std::string& path) const;
  // Counts the change; answers false (and errno) when it must not happen. *half: the process dies
  // in it, and a part of it may happen.
  bool Begin(const char* kind, const std::string& what, bool* half = nullptr);
  void Touch(Node& node);
  void ChangeName(Node& directory, NameChange change);
  static void Apply(std::map<std::string, NodePtr>& names, const NameChange& change);
  static void Apply(std::vector<uint8_t>& content, const DataChange& change);
  void LosePower(Node& node);
  void EndProcess(Node& node);
  void TornWrite(std::vector<uint8_t>& content, const DataChange& change);
  uint64_t Pick(uint64_t n) { return random_() % n; }

  std::mt19937_64 random_;
  Trace* const trace_;
  const std::function<int64_t()> wall_ms_;
  NodePtr root_;
  struct OpenFile {
    NodePtr node;
    bool owns_lock = false;
    std::string path;  // it was opened by
  };
  std::map<int, OpenFile> open_;
  int next_fd_ = 1000;
  bool dead_ = false;
  bool full_ = false;
  int64_t kill_in_ = 0;
  int64_t changes_ = 0;
  int64_t syncs_ = 0;
  uint64_t version_ = 1;
  std::map<std::string, int> failing_;
};

}  // namespace kmirror::sim
