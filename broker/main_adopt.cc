#include "broker/main_adopt.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <sstream>
#include <utility>

#include "broker/main_data_folder.h"
#include "kmirror/log/epoch_history.h"

namespace kmirror::broker {
namespace {

namespace fs = std::filesystem;

// Never a topic here: Kafka's own metadata, and states of mirrors that belong to another cluster.
constexpr std::string_view kNeverTaken[] = {"__cluster_metadata", "__mirror_state"};
// Worthless without coordinators; taken only when asked for.
constexpr std::string_view kInternal[] = {"__consumer_offsets", "__transaction_state",
                                          "__share_group_state"};

struct SourcePartition {
  fs::path directory;
  int32_t latest_epoch = -1;
  int64_t log_start = -1;  // from the checkpoint
};

struct SourceTopic {
  Uuid id;
  std::map<int32_t, SourcePartition> partitions;
  int32_t count() const { return partitions.rbegin()->first + 1; }
};

Status IoError(const std::string& what, int error) {
  return {ErrorCode::kIo, what + ": " + std::strerror(error)};
}

Result<std::string> ReadText(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  std::stringstream text;
  if (!in || !(text << in.rdbuf())) return {ErrorCode::kIo, "cannot read " + path.string()};
  return text.str();
}

// Holds the lock of a Kafka log directory for as long as it lives: Java's file locks are POSIX
// record locks, kmirrord's are flock.
class FolderLock {
 public:
  static Result<std::unique_ptr<FolderLock>> Take(const fs::path& folder) {
    std::unique_ptr<FolderLock> lock(new FolderLock);
    const fs::path path = folder / ".lock";
    lock->fd_ = ::open(path.c_str(), O_RDWR | O_CLOEXEC);
    // A copy of a folder usually lacks the hidden file: nobody can be using it through that.
    if (lock->fd_ < 0) {
      if (errno == ENOENT) return lock;
      return IoError("cannot open " + path.string(), errno);
    }
    struct flock range{};
    range.l_type = F_WRLCK;
    range.l_whence = SEEK_SET;
    if (::fcntl(lock->fd_, F_SETLK, &range) != 0 || ::flock(lock->fd_, LOCK_EX | LOCK_NB) != 0) {
      return {ErrorCode::kLogDirNotFound,
              folder.string() + " is in use by a running broker; stop it first"};
    }
    return lock;
  }
  ~FolderLock() {
    if (fd_ >= 0) ::close(fd_);
  }

 private:
  FolderLock() = default;
  int fd_ = -1;
};

// `<topic>-<n>`, split at the last dash; nullopt for anything else.
std::optional<std::pair<std::string, int32_t>> ParseName(const std::string& name) {
  const size_t dash = name.rfind('-');
  if (dash == std::string::npos || dash == 0 || dash + 1 == name.size()) return std::nullopt;
  int32_t partition = -1;
  const char* end = name.data() + name.size();
  const auto [at, error] = std::from_chars(name.data() + dash + 1, end, partition);
  if (error != std::errc() || at != end || partition < 0) return std::nullopt;
  std::string topic = name.substr(0, dash);
  if (topic + "-" + std::to_string(partition) != name) return std::nullopt;
  return std::pair(std::move(topic), partition);
}

Result<Uuid> ReadTopicId(const fs::path& directory) {
  const Result<std::string> text = ReadText(directory / "partition.metadata");
  if (!text.ok()) {
    return {ErrorCode::kInvalidConfig,
            directory.string() +
                " has no partition.metadata, so its topic id is not known (written by "
                "Kafka before 2.8?)"};
  }
  constexpr std::string_view kKey = "topic_id: ";
  const size_t at = text->find(kKey);
  std::optional<Uuid> id;
  if (at != std::string::npos)
    id = Uuid::Parse(std::string_view(*text).substr(at + kKey.size(), 22));
  if (!id || id->IsZero()) {
    return {ErrorCode::kInvalidConfig,
            directory.string() + "/partition.metadata names no topic id"};
  }
  return *id;
}

int32_t LatestEpoch(const fs::path& directory) {
  const Result<std::string> text = ReadText(directory / "leader-epoch-checkpoint");
  if (!text.ok()) return -1;
  const Result<log::EpochHistory> history = log::EpochHistory::Decode(*text);
  if (!history.ok()) return -1;  // the scan rebuilds it from the batches
  const std::optional<log::EpochStart> latest = history->Latest();
  return latest ? latest->epoch : -1;
}

// `topic partition offset` lines after two lines of head; what does not parse is left out: the
// first segment's base is the log start then.
std::map<std::string, int64_t> ReadLogStarts(const fs::path& folder) {
  std::map<std::string, int64_t> starts;
  const Result<std::string> text = ReadText(folder / "log-start-offset-checkpoint");
  if (!text.ok()) return starts;
  std::istringstream in(*text);
  std::string version;
  std::string count;
  std::string topic;
  int32_t partition = 0;
  int64_t offset = 0;
  in >> version >> count;
  while (in >> topic >> partition >> offset)
    starts[topic + "-" + std::to_string(partition)] = offset;
  return starts;
}

class Adoption {
 public:
  explicit Adoption(const AdoptOptions& options) : options_(options) {}

  Result<AdoptReport> Run() {
    Result<std::unique_ptr<FolderLock>> lock = FolderLock::Take(options_.kafka_dir);
    if (!lock.ok()) return lock.status();
    if (Status found = FindTopics(); !found.ok()) return found;
    if (Status registered = Register(); !registered.ok()) return registered;
    Status taken = CopyAll();
    if (taken.ok()) taken = Verify();
    if (!taken.ok()) {
      const Status undone = Unregister();
      return undone.ok()
                 ? taken
                 : taken.WithContext("the topics stay registered in " + options_.config.log_dir +
                                     " (" + undone.ToString() + ")");
    }
    return report_;
  }

 private:
  bool Wanted(const std::string& directory, const std::string& topic) {
    const auto skip = [&](const std::string& why) {
      report_.skipped.push_back(directory + ": " + why);
      return false;
    };
    if (std::ranges::find(kNeverTaken, topic) != std::end(kNeverTaken)) {
      return skip("belongs to the other cluster itself");
    }
    if (!options_.internal && std::ranges::find(kInternal, topic) != std::end(kInternal)) {
      return skip("internal; --include-internal takes it");
    }
    if (!options_.topics.empty() &&
        std::ranges::find(options_.topics, topic) == options_.topics.end()) {
      return skip("not asked for");
    }
    return true;
  }

  Status FindTopics() {
    const fs::path source = options_.kafka_dir;
    std::error_code error;
    if (!fs::is_directory(source, error)) {
      return {ErrorCode::kLogDirNotFound, source.string() + " is not a folder"};
    }
    const std::map<std::string, int64_t> starts = ReadLogStarts(source);
    std::vector<fs::path> directories;
    for (fs::directory_iterator it(source, error), end; !error && it != end; it.increment(error)) {
      if (it->is_directory(error)) directories.push_back(it->path());
    }
    if (error) return {ErrorCode::kIo, "cannot list " + source.string() + ": " + error.message()};
    std::ranges::sort(directories);
    for (const fs::path& directory : directories) {
      const std::string name = directory.filename().string();
      const auto parsed = ParseName(name);
      if (!parsed) {
        report_.skipped.push_back(name + ": not a partition");
        continue;
      }
      const auto& [topic, partition] = *parsed;
      if (!Wanted(name, topic)) continue;
      if (Status named = CheckTopicName(topic); !named.ok()) return named.WithContext(name);
      const Result<Uuid> id = ReadTopicId(directory);
      if (!id.ok()) return id.status();
      SourceTopic& known = topics_[topic];
      if (!known.partitions.empty() && known.id != *id) {
        return {ErrorCode::kInconsistentTopicId, name + " has topic id " + id->ToString() +
                                                     ", other partitions of the topic have " +
                                                     known.id.ToString()};
      }
      known.id = *id;
      SourcePartition& added = known.partitions[partition];
      added.directory = directory;
      added.latest_epoch = LatestEpoch(directory);
      if (const auto start = starts.find(name); start != starts.end())
        added.log_start = start->second;
    }
    for (const std::string& topic : options_.topics) {
      if (!topics_.contains(topic)) {
        return {ErrorCode::kUnknownTopicOrPartition, source.string() + " has no topic " + topic};
      }
    }
    if (topics_.empty()) {
      return {ErrorCode::kUnknownTopicOrPartition,
              source.string() + " holds no partitions to take"};
    }
    return {};
  }

  // The topics enter the metadata first, with empty logs: a directory that the metadata does not
  // know would be removed as a stray.
  Status Register() {
    Result<std::unique_ptr<DataFolder>> folder = DataFolder::Open(options_.config);
    if (!folder.ok()) return folder.status();
    const ImagePtr image = (*folder)->controller().image();
    for (const auto& [name, topic] : topics_) {
      if (image->topics.Find(name)) {
        return {ErrorCode::kTopicAlreadyExists,
                options_.config.log_dir + " has a topic " + name + " already; nothing was taken"};
      }
      if (const TopicPtr other = image->topics.Find(topic.id)) {
        return {ErrorCode::kTopicAlreadyExists, options_.config.log_dir + " has the topic id of " +
                                                    name + " already, under the name " +
                                                    other->name + "; nothing was taken"};
      }
    }
    for (const auto& [name, topic] : topics_) {
      NewTopic wanted;
      wanted.name = name;
      wanted.id = topic.id;
      wanted.partitions = topic.count();
      CreatedTopic created =
          (*folder)->controller().CreateTopic(std::move(wanted), Controller::Origin::kMirror);
      if (!created.status.ok()) return created.status.WithContext(name);
      registered_.push_back(name);
    }
    const Status raised = RaiseEpochs((*folder)->controller());
    const Status closed = (*folder)->Close();
    return raised.ok() ? closed : raised;
  }

  // New records must not carry an epoch that the logs have used already.
  Status RaiseEpochs(Controller& controller) {
    std::vector<LeaderEpochBump> bumps;
    for (const auto& [name, topic] : topics_) {
      for (const auto& [index, partition] : topic.partitions) {
        if (partition.latest_epoch >= 0)
          bumps.push_back({{topic.id, index}, partition.latest_epoch});
      }
    }
    return bumps.empty() ? Status() : controller.BumpLeaderEpochs(bumps);
  }

  Status CopyAll() {
    std::error_code error;
    const fs::path target = options_.config.log_dir;
    // The copies are not what the clean mark and the recovery points speak of: all is to be
    // scanned.
    fs::remove(target / ".kafka_cleanshutdown", error);
    for (const auto& [name, topic] : topics_) {
      for (const auto& [index, partition] : topic.partitions) {
        const fs::path to = target / (name + "-" + std::to_string(index));
        if (Status copied = CopyPartition(partition.directory, to); !copied.ok()) return copied;
      }
    }
    return SyncPath(target);
  }

  static Status SyncPath(const fs::path& path) {
    const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
    if (fd < 0) return IoError("cannot open " + path.string(), errno);
    const int failed = ::fsync(fd) == 0 ? 0 : errno;
    ::close(fd);
    return failed == 0 ? Status() : IoError("cannot sync " + path.string(), failed);
  }

  static bool Taken(const fs::path& file) {
    const std::string name = file.filename().string();
    const std::string extension = file.extension().string();
    return extension == ".log" || extension == ".index" || extension == ".timeindex" ||
           extension == ".txnindex" || extension == ".snapshot" ||
           name == "leader-epoch-checkpoint" || name == "partition.metadata" ||
           extension == ".swap";  // the finished output of Kafka's cleaner
  }

  static Status CopyPartition(const fs::path& from, const fs::path& to) {
    std::error_code error;
    fs::remove_all(to, error);
    if (!error) fs::create_directory(to, error);
    if (error) return {ErrorCode::kIo, to.string() + ": " + error.message()};
    for (fs::directory_iterator it(from, error), end; !error && it != end; it.increment(error)) {
      if (!it->is_regular_file(error) || !Taken(it->path())) continue;
      const fs::path copy = to / it->path().filename();
      fs::copy_file(it->path(), copy, error);
      if (error)
        return {ErrorCode::kIo, "cannot copy to " + copy.string() + ": " + error.message()};
      fs::permissions(copy, fs::perms::owner_write, fs::perm_options::add, error);
      if (Status synced = SyncPath(copy); !synced.ok()) return synced;
    }
    if (error) return {ErrorCode::kIo, "cannot list " + from.string() + ": " + error.message()};
    return SyncPath(to);
  }

  // Opens everything as the broker will, which scans the copies.
  Status Verify() {
    Result<std::unique_ptr<DataFolder>> folder = DataFolder::Open(options_.config);
    if (!folder.ok()) return folder.status();
    for (const auto& [name, topic] : topics_) {
      for (int32_t index = 0; index < topic.count(); ++index) {
        if (Status checked = VerifyPartition(**folder, name, topic, index); !checked.ok())
          return checked;
      }
    }
    return (*folder)->Close();
  }

  Status VerifyPartition(DataFolder& folder, const std::string& name, const SourceTopic& topic,
                         int32_t index) {
    const std::string directory = name + "-" + std::to_string(index);
    const std::shared_ptr<PartitionLog> log = folder.logs().Find(name, index);
    if (!log) {
      for (const LogManager::Directory& unopened : folder.logs().unopened()) {
        if (unopened.name == directory) return unopened.why.WithContext(directory);
      }
      return {ErrorCode::kKafkaStorageError, directory + " did not open"};
    }
    AdoptedPartition adopted;
    const auto source = topic.partitions.find(index);
    adopted.missing = source == topic.partitions.end();
    if (!adopted.missing && source->second.log_start > log->Positions().log_start) {
      const Result<DeletedRange> raised = log->RaiseLogStart(source->second.log_start);
      if (!raised.ok()) return raised.status().WithContext(directory);
    }
    // The checkpoint of epochs may have been lost or behind: what the scan found counts.
    const std::shared_ptr<Replica> replica = folder.log_directory().Find(name, index);
    const LogPositions positions = log->Positions();
    if (replica && positions.last_batch_epoch >= replica->leader_epoch()) {
      const LeaderEpochBump bump{{topic.id, index}, positions.last_batch_epoch};
      if (Status raised = folder.controller().BumpLeaderEpochs({&bump, 1}); !raised.ok())
        return raised;
    }
    adopted.topic = name;
    adopted.partition = index;
    adopted.topic_id = topic.id;
    adopted.log_start = positions.log_start;
    adopted.log_end = positions.log_end;
    adopted.open_transactions = static_cast<int64_t>(log->OpenTransactions().size());
    adopted.torn_bytes = log->load_report().torn_bytes;
    report_.partitions.push_back(adopted);
    return {};
  }

  Status Unregister() {
    Result<std::unique_ptr<DataFolder>> folder = DataFolder::Open(options_.config);
    if (!folder.ok()) return folder.status();
    for (const std::string& name : registered_) {
      const TopicPtr topic = (*folder)->controller().image()->topics.Find(name);
      if (!topic) continue;
      const Status deleted =
          (*folder)->controller().DeleteTopic(topic->id, Controller::Origin::kMirror);
      if (!deleted.ok()) return deleted;
    }
    return (*folder)->Close();
  }

  const AdoptOptions& options_;
  std::map<std::string, SourceTopic> topics_;
  std::vector<std::string> registered_;
  AdoptReport report_;
};

}  // namespace

Result<AdoptReport> Adopt(const AdoptOptions& options) { return Adoption(options).Run(); }

}  // namespace kmirror::broker
