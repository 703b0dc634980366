#include "tests/sim/sim_disk.h"

#include <fcntl.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace kmirror::sim {
namespace {

constexpr int64_t kSector = 512;

int Fail(int error) {
  errno = error;
  return -1;
}

}  // namespace

SimDisk::SimDisk(uint64_t seed, Trace* trace, std::function<int64_t()> wall_ms)
    : random_(seed), trace_(trace), wall_ms_(std::move(wall_ms)), root_(std::make_shared<Node>()) {
  root_->directory = true;
}

SimDisk::~SimDisk() = default;

SimDisk::NodePtr SimDisk::Find(const std::string& path) const {
  NodePtr at = root_;
  size_t begin = 0;
  while (at != nullptr && begin < path.size()) {
    const size_t end = std::min(path.find('/', begin), path.size());
    if (end > begin) {
      if (!at->directory) return nullptr;
      const auto found = at->names.find(path.substr(begin, end - begin));
      at = found == at->names.end() ? nullptr : found->second;
    }
    begin = end + 1;
  }
  return at;
}

std::pair<SimDisk::NodePtr, std::string> SimDisk::ParentOf(const std::string& path) const {
  const size_t slash = path.rfind('/');
  NodePtr parent = Find(path.substr(0, slash));
  if (parent != nullptr && !parent->directory) parent = nullptr;
  return {std::move(parent), path.substr(slash + 1)};
}

bool SimDisk::Begin(const char* kind, const std::string& what, bool* half) {
  if (dead_) return Fail(EIO) == 0;
  if (on_change) on_change(std::strcmp(kind, "sync") == 0);
  ++changes_;
  trace_->Mix(std::string_view(kind));
  trace_->Mix(std::string_view(what));
  if (const auto it = failing_.find(kind); it != failing_.end() && it->second > 0) {
    --it->second;
    trace_->Count(std::string("disk: EIO at a ") + kind);
    trace_->Line("disk", std::string("EIO ") + kind + " " + what);
    return Fail(EIO) == 0;
  }
  if (kill_in_ > 0 && --kill_in_ == 0) {
    trace_->Line("disk", std::string("the process dies in ") + kind + " " + what);
    // Some die before the change, some in the middle, some after it.
    if (half != nullptr && Pick(3) != 0) {
      *half = true;
      return true;
    }
    Kill();
    return Fail(EIO) == 0;
  }
  return true;
}

void SimDisk::Kill() {
  if (dead_) return;
  dead_ = true;
  kill_in_ = 0;
}

void SimDisk::Heal() {
  full_ = false;
  failing_.clear();
  kill_in_ = 0;
}

void SimDisk::Touch(Node& node) {
  const uint64_t version = ++version_;
  node.modified_ms = wall_ms_();
  node.version = version;
  for (NodePtr at = node.parent.lock(); at != nullptr; at = at->parent.lock()) {
    at->version = version;
  }
}

void SimDisk::Apply(std::map<std::string, NodePtr>& names, const NameChange& change) {
  if (!change.from.empty()) {
    const auto found = names.find(change.from);
    if (found == names.end()) return;
    NodePtr node = found->second;
    names.erase(found);
    names[change.name] = std::move(node);
  } else if (change.node == nullptr) {
    names.erase(change.name);
  } else {
    names[change.name] = change.node;
  }
}

void SimDisk::ChangeName(Node& directory, NameChange change) {
  Apply(directory.names, change);
  directory.pending_names.push_back(std::move(change));
  Touch(directory);
}

void SimDisk::Apply(std::vector<uint8_t>& content, const DataChange& change) {
  if (change.cut_to >= 0) {
    content.resize(static_cast<size_t>(change.cut_to));
    return;
  }
  const auto end = static_cast<size_t>(change.position) + change.bytes.size();
  if (content.size() < end) content.resize(end);
  std::copy(change.bytes.begin(), change.bytes.end(),
            content.begin() + static_cast<std::ptrdiff_t>(change.position));
}

// --- Crashes.

void SimDisk::TornWrite(std::vector<uint8_t>& content, const DataChange& change) {
  if (change.cut_to >= 0 || change.bytes.empty()) return;
  trace_->Count("disk: torn write");
  const auto size = static_cast<int64_t>(change.bytes.size());
  DataChange part = change;
  switch (Pick(3)) {
    case 0:  // a part from its start
      part.bytes.resize(static_cast<size_t>(Pick(static_cast<uint64_t>(size))));
      if (!part.bytes.empty()) Apply(content, part);
      break;
    case 1: {  // some of its sectors; the file has its new size, the others are zeros
      part.bytes.assign(change.bytes.size(), 0);
      for (int64_t at = 0; at < size;) {
        const int64_t in_sector = kSector - (change.position + at) % kSector;
        const int64_t length = std::min(in_sector, size - at);
        const auto here = static_cast<std::ptrdiff_t>(at);
        if (Pick(2) == 0) {
          std::copy_n(change.bytes.begin() + here, length, part.bytes.begin() + here);
        } else {
          // What was there before stays.
          for (int64_t i = 0; i < length; ++i) {
            const auto old = static_cast<size_t>(change.position + at + i);
            if (old < content.size()) part.bytes[static_cast<size_t>(at + i)] = content[old];
          }
        }
        at += length;
      }
      Apply(content, part);
      break;
    }
    default:  // the size alone
      std::fill(part.bytes.begin(), part.bytes.end(), uint8_t{0});
      for (int64_t i = 0; i < size; ++i) {
        const auto old = static_cast<size_t>(change.position + i);
        if (old < content.size()) part.bytes[static_cast<size_t>(i)] = content[old];
      }
      Apply(content, part);
      break;
  }
}

void SimDisk::LosePower(Node& node) {
  if (!node.directory) {
    const size_t kept = node.pending.empty() ? 0 : Pick(node.pending.size() + 1);
    for (size_t i = 0; i < kept; ++i) Apply(node.durable, node.pending[i]);
    if (kept < node.pending.size()) {
      trace_->Count("disk: writes lost with the power",
                    static_cast<int64_t>(node.pending.size() - kept));
      if (Pick(2) == 0) TornWrite(node.durable, node.pending[kept]);
    }
    node.pending.clear();
    if (node.now != node.durable) Touch(node);
    node.now = node.durable;
    node.lost = false;
    return;
  }
  const size_t kept = node.pending_names.empty() ? 0 : Pick(node.pending_names.size() + 1);
  for (size_t i = 0; i < kept; ++i) Apply(node.durable_names, node.pending_names[i]);
  if (kept < node.pending_names.size()) {
    trace_->Count("disk: names lost with the power",
                  static_cast<int64_t>(node.pending_names.size() - kept));
    Touch(node);
  }
  node.pending_names.clear();
  node.names = node.durable_names;
  for (auto& [name, child] : node.names) LosePower(*child);
}

void SimDisk::Restart(bool power_loss) {
  dead_ = false;
  kill_in_ = 0;
  open_.clear();
  if (power_loss) LosePower(*root_);
  EndProcess(*root_);
}

void SimDisk::EndProcess(Node& node) {
  node.locked = false;
  if (node.lost) {
    DataChange all, cut;
    all.bytes = node.now;
    cut.cut_to = static_cast<int64_t>(node.now.size());
    node.pending = {std::move(all), std::move(cut)};
    node.lost = false;
  }
  for (auto& [name, child] : node.names) EndProcess(*child);
}

// --- For checkers.

const std::vector<uint8_t>* SimDisk::Content(const std::string& path) {
  const NodePtr node = Find(path);
  return node == nullptr || node->directory ? nullptr : &node->now;
}

uint64_t SimDisk::Version(const std::string& directory) {
  const NodePtr node = Find(directory);
  return node == nullptr ? 0 : node->version;
}

std::vector<std::string> SimDisk::Names(const std::string& directory) {
  std::vector<std::string> names;
  if (const NodePtr node = Find(directory); node != nullptr && node->directory) {
    for (const auto& [name, child] : node->names) names.push_back(name);
  }
  return names;
}

// --- Changes.

ssize_t SimDisk::Write(int fd, const iovec* pieces, int count, int64_t position) {
  const auto it = open_.find(fd);
  if (it == open_.end()) return Fail(EBADF);
  Node& node = *it->second.node;
  bool half = false;
  if (!Begin("write", it->second.path, &half)) return -1;
  trace_->Mix(static_cast<uint64_t>(position));
  DataChange change;
  change.position = position;
  for (int i = 0; i < count; ++i) {
    const auto* from = static_cast<const uint8_t*>(pieces[i].iov_base);
    change.bytes.insert(change.bytes.end(), from, from + pieces[i].iov_len);
  }
  trace_->Mix(ByteView(change.bytes));
  const auto whole = static_cast<ssize_t>(change.bytes.size());
  ssize_t done = whole;
  if (half) {
    done = static_cast<ssize_t>(Pick(static_cast<uint64_t>(whole) + 1));
  } else if (full_) {
    // What fits into the last block fits.
    const auto size = static_cast<int64_t>(node.now.size());
    const int64_t room = (size + kSector - 1) / kSector * kSector - position;
    done = static_cast<ssize_t>(std::clamp<int64_t>(room, 0, whole));
    trace_->Count("disk: ENOSPC");
    if (done == 0) return Fail(ENOSPC);
  }
  change.bytes.resize(static_cast<size_t>(done));
  if (done > 0) {
    Apply(node.now, change);
    node.pending.push_back(std::move(change));
    Touch(node);
  }
  if (half) {
    Kill();
    return Fail(EIO);
  }
  return done;
}

int SimDisk::Truncate(int fd, int64_t size) {
  const auto it = open_.find(fd);
  if (it == open_.end()) return Fail(EBADF);
  if (!Begin("truncate", it->second.path)) return -1;
  trace_->Mix(static_cast<uint64_t>(size));
  DataChange change;
  change.cut_to = size;
  Apply(it->second.node->now, change);
  it->second.node->pending.push_back(std::move(change));
  Touch(*it->second.node);
  return 0;
}

int SimDisk::Sync(int fd, bool) {
  const auto it = open_.find(fd);
  if (it == open_.end()) return Fail(EBADF);
  Node& node = *it->second.node;
  const bool was_dead = dead_;
  if (!Begin("sync", it->second.path)) {
    // Linux: the pages count as clean from now on, whether they reached the disk or not.
    if (!was_dead && !dead_ && !node.pending.empty()) {
      node.pending.clear();
      node.lost = true;
    }
    return -1;
  }
  ++syncs_;
  if (lying_syncs) return 0;
  if (node.directory) {
    for (const NameChange& change : node.pending_names) Apply(node.durable_names, change);
    node.pending_names.clear();
  } else {
    for (const DataChange& change : node.pending) Apply(node.durable, change);
    node.pending.clear();
  }
  return 0;
}

int SimDisk::Allocate(int fd, int64_t, int64_t) {
  if (!open_.contains(fd)) return Fail(EBADF);
  return dead_ ? Fail(EIO) : (full_ ? Fail(ENOSPC) : 0);
}

int SimDisk::Open(const std::string& path, int flags, int) {
  NodePtr node = Find(path);
  if (node == nullptr) {
    if ((flags & O_CREAT) == 0) return Fail(dead_ ? EIO : ENOENT);
    auto [parent, name] = ParentOf(path);
    if (parent == nullptr) return Fail(ENOENT);
    if (!Begin("open", path)) return -1;
    if (full_) {
      trace_->Count("disk: ENOSPC");
      return Fail(ENOSPC);
    }
    node = std::make_shared<Node>();
    node->parent = parent;
    ChangeName(*parent, {name, node, ""});
    Touch(*node);
  } else if (dead_) {
    return Fail(EIO);
  } else if ((flags & O_TRUNC) != 0 && !node->now.empty()) {
    if (!Begin("truncate", path)) return -1;
    DataChange change;
    change.cut_to = 0;
    Apply(node->now, change);
    node->pending.push_back(std::move(change));
    Touch(*node);
  }
  if ((flags & O_DIRECTORY) != 0 && !node->directory) return Fail(ENOTDIR);
  const int fd = next_fd_++;
  open_[fd] = {std::move(node), false, path};
  return fd;
}

int SimDisk::Rename(const std::string& from, const std::string& to) {
  auto [parent, name] = ParentOf(from);
  if (parent == nullptr || !parent->names.contains(name)) return Fail(dead_ ? EIO : ENOENT);
  if (!Begin("rename", to)) return -1;
  ChangeName(*parent, {to.substr(to.rfind('/') + 1), nullptr, name});
  return 0;
}

int SimDisk::Remove(const std::string& path) {
  auto [parent, name] = ParentOf(path);
  if (parent == nullptr || !parent->names.contains(name)) return Fail(dead_ ? EIO : ENOENT);
  if (!Begin("remove", path)) return -1;
  ChangeName(*parent, {name, nullptr, ""});
  return 0;
}

int SimDisk::MakeDirectories(const std::string& path) {
  if (const NodePtr there = Find(path)) return there->directory ? 0 : Fail(ENOTDIR);
  const size_t slash = path.rfind('/');
  if (slash != std::string::npos && slash > 0 && MakeDirectories(path.substr(0, slash)) < 0) {
    return -1;
  }
  auto [parent, name] = ParentOf(path);
  if (parent == nullptr) return Fail(ENOTDIR);
  if (!Begin("mkdir", path)) return -1;
  if (full_) {
    trace_->Count("disk: ENOSPC");
    return Fail(ENOSPC);
  }
  auto node = std::make_shared<Node>();
  node->directory = true;
  node->parent = parent;
  ChangeName(*parent, {name, std::move(node), ""});
  return 1;
}

int SimDisk::RemoveTree(const std::string& path) {
  const NodePtr node = Find(path);
  if (node == nullptr) return 0;
  if (node->directory) {
    std::vector<std::string> names;
    for (const auto& [name, child] : node->names) names.push_back(name);
    for (const std::string& name : names) {
      if (RemoveTree(path + "/" + name) != 0) return -1;
    }
  }
  return Remove(path);
}

// --- Reading.

ssize_t SimDisk::Read(int fd, void* to, size_t bytes, int64_t position) {
  const auto it = open_.find(fd);
  if (it == open_.end()) return Fail(EBADF);
  const std::vector<uint8_t>& content = it->second.node->now;
  const auto at = static_cast<size_t>(position);
  if (at >= content.size()) return 0;
  const size_t got = std::min(bytes, content.size() - at);
  std::memcpy(to, content.data() + at, got);
  return static_cast<ssize_t>(got);
}

void SimDisk::Close(int fd) {
  const auto it = open_.find(fd);
  if (it == open_.end()) return;
  if (it->second.owns_lock) it->second.node->locked = false;
  open_.erase(it);
}

int SimDisk::Lock(int fd) {
  const auto it = open_.find(fd);
  if (it == open_.end()) return Fail(EBADF);
  if (it->second.node->locked && !it->second.owns_lock) return Fail(EWOULDBLOCK);
  it->second.node->locked = it->second.owns_lock = true;
  return 0;
}

int64_t SimDisk::Size(const std::string& path) {
  const NodePtr node = Find(path);
  return node == nullptr ? Fail(ENOENT) : static_cast<int64_t>(node->now.size());
}

int64_t SimDisk::ModifiedMs(const std::string& path) {
  const NodePtr node = Find(path);
  return node == nullptr ? Fail(ENOENT) : node->modified_ms;
}

bool SimDisk::IsDirectory(const std::string& path) {
  const NodePtr node = Find(path);
  return node != nullptr && node->directory;
}

int SimDisk::List(const std::string& directory, std::vector<std::string>* names) {
  names->clear();
  const NodePtr node = Find(directory);
  if (node == nullptr || !node->directory) return Fail(ENOENT);
  for (const auto& [name, child] : node->names) names->push_back(name);
  return 0;
}

}  // namespace kmirror::sim
