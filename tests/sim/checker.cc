#include "tests/sim/checker.h"

#include <algorithm>
#include <iterator>

namespace kmirror::sim {
namespace {

constexpr int kAbort = 0;
constexpr int kReset = 7;
enum : int8_t {
  kPreparing,
  kEpochFencing,
  kUleRecovery,
  kMirroring,
  kPausing,
  kPaused,
  kStopping,
  kStopped,
  kFailed,
  kUnknown = -1,
};
constexpr int8_t kMirrored = 2;  // progress

int8_t StateOf(const std::optional<StateRow>& row) { return row ? row->state : kUnknown; }

bool Same(const BatchPtr& a, const BatchPtr& b) { return a == b || a->bytes == b->bytes; }

// The first batch that reaches `offset`.
BatchList::const_iterator FirstAt(const BatchList& log, int64_t offset) {
  return std::partition_point(log.begin(), log.end(),
                              [&](const BatchPtr& batch) { return batch->last_offset < offset; });
}

int64_t EndOf(const BatchList& log) { return log.empty() ? -1 : log.back()->last_offset + 1; }

// Where what this cluster wrote begins: at the position, or below it when a start had cut the log
// further and was given up then.
BatchList::const_iterator FirstOfOurs(const BatchList& log, const StateRow& row) {
  return std::partition_point(log.begin(), log.end(), [&](const BatchPtr& batch) {
    return batch->base_offset < row.position_offset && batch->leader_epoch <= row.position_epoch;
  });
}

std::string RowText(const std::optional<StateRow>& row) {
  if (!row) return "nothing";
  return std::string(StateText(row->state)) + " (before: " + StateText(row->previous) +
         ", progress " + std::to_string(row->progress) + ", position " +
         std::to_string(row->position_epoch) + "/" + std::to_string(row->position_offset) +
         ", state epoch " + std::to_string(row->state_epoch) + ") " + row->reason;
}

}  // namespace

Checker::Checker(conformance::ManualRuntime* runtime, SimDisk* disk, SimBroker* broker,
                 SourceWorld* source, SimNetwork* network, Trace* trace, int32_t shards,
                 bool flush_every_message, bool stop_truncates)
    : runtime_(runtime),
      disk_(disk),
      broker_(broker),
      source_(source),
      network_(network),
      trace_(trace),
      shards_(shards),
      flush_every_message_(flush_every_message),
      stop_truncates_(stop_truncates),
      reader_(disk) {}

void Checker::Violate(const std::string& what) {
  if (!violation_.empty()) return;
  violation_ = what;
  trace_->Line("checker", "VIOLATION " + what);
}

std::vector<uint8_t> Checker::PayloadOf(const std::vector<uint8_t>& batch) {
  // 8 base offset, 4 length, 4 leader epoch; the checksum does not cover them.
  return {batch.begin() + std::min<std::ptrdiff_t>(16, std::ssize(batch)), batch.end()};
}

std::optional<StateRow> Checker::Row(const std::string& mirror, const Uuid& topic_id,
                                     int32_t partition) {
  const auto& rows = reader_.ReadStates(shards_).rows;
  const auto found = rows.find({mirror, topic_id, partition});
  return found == rows.end() || found->second.empty() ? std::nullopt : found->second.back();
}

void Checker::AfterTask() {
  if (!violation_.empty() || !broker_->running() || blind_) return;
  const broker::ImagePtr image = broker_->controller().image();
  const bool quiet = image->version == image_version_ && disk_->changes() == disk_changes_ &&
                     death_ == Death::kNone;
  disk_changes_ = disk_->changes();
  if (image->version != image_version_) {
    image_version_ = image->version;
    topics_.clear();
    for (const broker::TopicPtr& topic : image->topics.Sorted()) {
      if (!topic->internal() && source_->Find(topic->id, 0) != nullptr) topics_.push_back(topic);
    }
  }
  if (!quiet) CheckRows();
  for (const broker::TopicPtr& topic : topics_) {
    for (int32_t i = 0; i < topic->partition_count() && violation_.empty(); ++i) {
      CheckPartition(*topic, i, quiet);
    }
  }
  death_ = Death::kNone;
}

void Checker::CheckPartition(const broker::TopicImage& topic, int32_t partition, bool quiet) {
  const std::string name = topic.name + "-" + std::to_string(partition);
  const SourcePartition* source = source_->Find(topic.id, partition);
  const auto replica = broker_->logs().Find(TopicIdPartition{topic.id, partition});
  if (replica == nullptr || source == nullptr) return;
  const broker::LogPositions at = replica->log().Positions();
  Watched& watched = watched_[{topic.name, partition}];
  // Without a change on the disk only the barrier can have moved.
  if (quiet && watched.seen) return CheckBarrier(name, topic, at, watched.row);
  const std::string mirror = broker::MirrorLinkOf(topic).mirror;
  const bool linked = !mirror.empty();
  const auto row = Row(mirror, topic.id, partition);
  CheckBarrier(name, topic, at, row);
  const uint64_t version = reader_.Version(topic.name, partition);
  if (watched.seen && watched.version == version && watched.row == row) return;
  if (!replica->log().offline().ok()) return;  // what the disk says is settled when it is reopened
  const DiskReader::Log& read = reader_.ReadLog(topic.name, partition);
  if (!read.error.empty()) return Violate(name + ": " + read.error);
  const int32_t leader_epoch = topic.partitions[static_cast<size_t>(partition)].leader_epoch;
  const bool unclean = [&] {
    const auto config = topic.configs.find("mirror.support.unclean.leader.election");
    return config != topic.configs.end() && config->second == "true";
  }();
  CheckOrder(name, read.batches, leader_epoch);
  CheckProduct(name, at, read.batches);
  CheckCopy(name, *source, read.batches, row, at.log_start);
  if (watched.seen) {
    CheckMovement(name, watched, read.batches, row, at.log_start, linked, unclean, *source);
  }
  if (row && row->HasPosition()) CheckOurs(name, read.batches, *row);
  if (row && row->state == kStopped) {
    CheckStopped(name, *source, read.batches, *row, at.log_start, leader_epoch);
  }
  CheckAcknowledged(name, watched, read.batches, at.log_start);
  if (row && (!watched.row || watched.row->state != row->state)) {
    ++states_seen_[StateText(row->state)];
  }
  watched.seen = true;
  watched.version = version;
  watched.log = read.batches;
  watched.row = row;
  watched.linked = linked;
  watched.log_start = at.log_start;
}

void Checker::CheckBarrier(const std::string& name, const broker::TopicImage& topic,
                           const broker::LogPositions& at, const std::optional<StateRow>& row) {
  if (at.local_writes != broker::LocalWrites::kAllowed) return;
  const broker::MirrorLink link = broker::MirrorLinkOf(topic);
  if (link.mirror.empty()) return;
  if (link.desired != DesiredState::kStopped) {
    Violate(name + " is open for clients while mirroring is wanted");
  } else if (StateOf(row) != kStopped) {
    Violate(name + " is open for clients, and what is stored is " + RowText(row));
  }
}

// 9.2, 9.7, 9.8.
void Checker::CheckOrder(const std::string& name, const BatchList& log, int32_t leader_epoch) {
  int64_t end = -1;
  int32_t epoch = -1;
  for (const BatchPtr& batch : log) {
    if (batch->base_offset < end) return Violate(name + ": offsets go back: " + Shape(log));
    if (batch->leader_epoch < epoch) return Violate(name + ": epochs go back: " + Shape(log));
    end = batch->last_offset + 1;
    epoch = batch->leader_epoch;
  }
  if (epoch > leader_epoch) {
    Violate(name + ": a batch of epoch " + std::to_string(epoch) + " under leader epoch " +
            std::to_string(leader_epoch));
  }
}

// What a reader of this log is told.
void Checker::CheckProduct(const std::string& name, const broker::LogPositions& at,
                           const BatchList& log) {
  const bool ordered = at.log_start <= at.last_stable && at.last_stable <= at.high_watermark &&
                       at.high_watermark <= at.log_end;
  if (!ordered) return Violate(name + ": positions are out of order");
  if (!log.empty() && EndOf(log) != at.log_end && EndOf(log) > at.log_start) {
    return Violate(name + ": the log is said to end at " + std::to_string(at.log_end) +
                   ", on the disk: " + Shape(log));
  }
  if (at.log_start != 0) return;  // what retention took is not known here
  OpenTransactions open;
  for (const BatchPtr& batch : log) open.Apply(*batch);
  if (open.Stable(at.high_watermark) != at.last_stable) {
    Violate(name + ": stable offset " + std::to_string(at.last_stable) + ", the batches say " +
            std::to_string(open.Stable(at.high_watermark)) + ": " + Shape(log));
  }
}

// 9.1, 9.3: the mirrored part is a piece of one log that the source had, without a hole.
void Checker::CheckCopy(const std::string& name, const SourcePartition& source,
                        const BatchList& log, const std::optional<StateRow>& row,
                        int64_t log_start) {
  if (!row) return;
  auto end = log.end();
  if (row->HasPosition()) {
    end = FirstOfOurs(log, *row);
  } else if (row->progress != kMirrored) {
    return;  // nothing is said about whose the log is
  }
  if (log_start > source.greatest_log_start) {
    return Violate(name + " starts at " + std::to_string(log_start) + ", the source never above " +
                   std::to_string(source.greatest_log_start));
  }
  const auto begin = FirstAt(log, log_start);
  if (begin >= end) return;
  std::string differs;
  for (auto branch = source.branches.rbegin(); branch != source.branches.rend(); ++branch) {
    auto theirs = FirstAt(*branch, log_start);
    auto ours = begin;
    while (ours != end && theirs != branch->end() && Same(*ours, *theirs)) ++ours, ++theirs;
    if (ours == end) return;
    if (!differs.empty()) continue;
    differs = "differs at offset " + std::to_string((*ours)->base_offset) + ", there " +
              (theirs == branch->end() ? "nothing" : std::to_string((*theirs)->base_offset));
  }
  Violate(name + " holds what the source never had there. Stored: " + RowText(row) + "\n  " +
          differs + ", log start " + std::to_string(log_start) + ", here:   " + Shape(log) +
          "\n  source: " + Shape(source.log()));
}

bool Checker::MayRemove(const Watched& watched, const std::optional<StateRow>& row,
                        const RawBatch& first_removed, bool restarted, bool unclean,
                        const SourcePartition& source) const {
  const int8_t before = StateOf(watched.row);
  const int8_t now = StateOf(row);
  if (before == kPreparing || now == kPreparing) return true;
  // A cut of the fetcher that is under way ends after a pause or a stop was stored, before the
  // fetcher is gone.
  const bool leaving = now == kPausing || (now == kStopping && !row->HasPosition());
  const bool mirroring = before == kMirroring || now == kMirroring || now == kUleRecovery ||
                         before == kUleRecovery || leaving;
  // A gap: all of it was below the source's log start.
  const bool below = EndOf(watched.log) <= source.log_start;
  if (mirroring && (restarted || below) && first_removed.base_offset < source.log_start) {
    return true;
  }
  if (mirroring && unclean && source.lost_tails > 0) return true;
  const bool stopping =
      now == kStopping || (now == kFailed && row->previous == kStopping) || before == kStopping;
  if (stop_truncates_ && stopping && watched.row && !watched.row->HasPosition()) {
    // To where the first open transaction begins.
    OpenTransactions open;
    for (const BatchPtr& batch : watched.log) open.Apply(*batch);
    if (first_removed.last_offset >= open.Stable(EndOf(watched.log))) return true;
    // It may have begun in what retention took: then nothing here can say where.
    if (watched.log_start > 0) return true;
  }
  if (death_ == Death::kPowerLost) {
    if (!flush_every_message_) return true;
    // The stop's own batches are synced at its end.
    const StateRow& stop = row ? *row : *watched.row;
    if (stopping && stop.HasPosition() && first_removed.base_offset >= stop.position_offset)
      return true;
  }
  return false;
}

bool Checker::MayAppear(const RawBatch& batch, const Watched& watched,
                        const std::optional<StateRow>& row, bool linked, std::string* why) const {
  const int8_t before = StateOf(watched.row);
  const int8_t now = StateOf(row);
  if (!linked) return !batch.IsControl() && sent_.contains(PayloadOf(batch.bytes));
  *why = std::string("stored is ") + StateText(now);
  if (before != now) return true;  // it came before the change, or after it
  switch (now) {
    case kStopped: return !batch.IsControl() && sent_.contains(PayloadOf(batch.bytes));
    case kMirroring: return true;
    case kStopping: return batch.IsControl() || !row->HasPosition();
    case kPausing: return true;  // the fetcher goes once it is stored
    default: return false;
  }
}

void Checker::CheckMovement(const std::string& name, Watched& watched, const BatchList& log,
                            const std::optional<StateRow>& row, int64_t log_start, bool linked,
                            bool unclean, const SourcePartition& source) {
  // What retention took from the front is no movement.
  auto before = FirstAt(watched.log, log_start);
  auto now = FirstAt(log, log_start);
  const bool restarted = log_start > watched.log_start && before == watched.log.end() &&
                         !watched.log.empty() && watched.log_start < EndOf(watched.log);
  while (before != watched.log.end() && now != log.end() && Same(*before, *now)) ++before, ++now;
  if (before != watched.log.end()) {
    const RawBatch& first = **before;
    if (!MayRemove(watched, row, first, restarted || log_start >= EndOf(watched.log), unclean,
                   source)) {
      return Violate(name + " lost what it had from offset " + std::to_string(first.base_offset) +
                     " on. Stored: " + RowText(row) + ", before: " + RowText(watched.row) +
                     "\n  before: " + Shape(watched.log) + "\n  now:    " + Shape(log));
    }
    std::erase_if(watched.acknowledged,
                  [&](const auto& each) { return each.first >= first.base_offset; });
  }
  if (death_ != Death::kNone) return;  // an append that was under way may have come through
  for (; now != log.end(); ++now) {
    std::string why;
    if (MayAppear(**now, watched, row, linked, &why)) continue;
    return Violate(name + " got a batch at offset " + std::to_string((*now)->base_offset) +
                   " though " + why + ": " + Shape(log));
  }
}

// 9.12, 9.13, 9.15.
void Checker::CheckOurs(const std::string& name, const BatchList& log, const StateRow& row) {
  for (auto at = FirstOfOurs(log, row); at != log.end(); ++at) {
    const BatchPtr& batch = *at;
    const int type = batch->ControlType();
    const bool ours = batch->IsControl() ? type == kAbort || type == kReset
                                         : sent_.contains(PayloadOf(batch->bytes));
    if (!ours || batch->leader_epoch <= row.position_epoch) {
      return Violate(name + ": a batch of the source above the position, offset " +
                     std::to_string(batch->base_offset) + ", " + RowText(row) + ": " + Shape(log));
    }
  }
}

// 9.10 to 9.12: one ABORT for each transaction that was open, then the reset, then clients.
void Checker::CheckStopped(const std::string& name, const SourcePartition& source,
                           const BatchList& log, const StateRow& row, int64_t log_start,
                           int32_t leader_epoch) {
  if (!row.HasPosition()) return;  // stopped before anything was mirrored
  if (leader_epoch <= row.position_epoch) {
    return Violate(name + ": STOPPED under leader epoch " + std::to_string(leader_epoch) +
                   ", mirrored up to epoch " + std::to_string(row.position_epoch));
  }
  OpenTransactions open;
  std::set<int64_t> visible;  // producers with something left to read
  auto at = log.begin();
  for (const auto ours = FirstOfOurs(log, row); at != ours; ++at) {
    open.Apply(**at);
    if ((*at)->last_offset >= log_start) visible.insert((*at)->producer_id);
  }
  std::vector<int64_t> aborted;
  for (; at != log.end() && (*at)->IsControl() && (*at)->ControlType() == kAbort; ++at) {
    aborted.push_back((*at)->producer_id);
  }
  if (at == log.end() || (*at)->ControlType() != kReset) {
    return Violate(name + ": STOPPED without a reset behind the markers: " + RowText(row) + ": " +
                   Shape(log));
  }
  for (++at; at != log.end(); ++at) {
    // A start that was given up before it cut anything leaves one more.
    if ((*at)->IsControl() && (*at)->ControlType() != kReset) {
      return Violate(name + ": a marker behind the reset: " + Shape(log));
    }
  }
  // Transactions that retention has cut need not be known any more.
  OpenTransactions all;
  for (const BatchList& branch : source.branches) {
    OpenTransactions of_branch;
    for (const BatchPtr& batch : branch) {
      if (batch->base_offset >= row.position_offset || batch->leader_epoch > row.position_epoch) {
        break;
      }
      of_branch.Apply(*batch);
    }
    for (const auto& [id, first] : of_branch.open()) {
      RawBatch begun;
      begun.attributes = 0x10;
      begun.producer_id = id;
      begun.base_offset = first;
      all.Apply(begun);
    }
  }
  const std::set<int64_t> done(aborted.begin(), aborted.end());
  if (done.size() != aborted.size()) Violate(name + ": aborted twice: " + Shape(log));
  for (const auto& [id, first] : open.open()) {
    if (visible.contains(id) && first >= log_start && !done.contains(id)) {
      return Violate(name + ": the transaction of producer " + std::to_string(id) +
                     " was open at the stop and is not aborted: " + Shape(log));
    }
  }
  for (const int64_t id : done) {
    if (!open.open().contains(id) && !all.open().contains(id)) {
      return Violate(name + ": producer " + std::to_string(id) +
                     " had no open transaction and got a marker: " + Shape(log));
    }
  }
}

// R29.
void Checker::CheckAcknowledged(const std::string& name, Watched& watched, const BatchList& log,
                                int64_t log_start) {
  for (const auto& [offset, payload] : watched.acknowledged) {
    if (offset < log_start) continue;
    const auto found = FirstAt(log, offset);
    if (found == log.end() || (*found)->base_offset != offset ||
        PayloadOf((*found)->bytes) != payload) {
      return Violate(name + ": a client was told of a batch at offset " + std::to_string(offset) +
                     ", and it is not there: " + Shape(log));
    }
  }
}

// --- Stored states.

void Checker::CheckRow(const std::string& name, const std::optional<StateRow>& before,
                       const std::optional<StateRow>& row) {
  if (!row) return;
  if (row->state < 0 || row->state > kFailed) return Violate(name + ": UNKNOWN is stored");
  if (!before) {
    if (row->state != kPreparing && row->state != kStopping && row->state != kFailed) {
      Violate(name + ": the first state is " + RowText(row));
    }
    return;
  }
  if (row->state_epoch <= before->state_epoch || row->leader_epoch < before->leader_epoch) {
    return Violate(name + ": epochs of the state go back: " + RowText(before) + " then " +
                   RowText(row));
  }
  if (before->HasPosition() && row->HasPosition() &&
      (before->position_epoch != row->position_epoch ||
       before->position_offset != row->position_offset)) {
    return Violate(name + ": the position changes: " + RowText(before) + " then " + RowText(row));
  }
  if (!before->HasPosition() && row->HasPosition() && row->state != kStopping) {
    return Violate(name + ": a position comes from nowhere: " + RowText(row));
  }
  if (before->HasPosition() && !row->HasPosition() && row->state != kMirroring) {
    return Violate(name + ": the position is forgotten: " + RowText(before) + " then " +
                   RowText(row));
  }
  if (before->state == row->state || row->state == kFailed) return;
  static const std::map<int8_t, std::set<int8_t>> kFrom = {
      {kPreparing, {kStopped, kFailed}},
      {kEpochFencing, {kMirroring}},
      {kUleRecovery, {kMirroring}},
      {kMirroring, {kPreparing, kEpochFencing, kUleRecovery, kPaused, kFailed}},
      {kPausing, {kMirroring, kFailed}},
      {kPaused, {kPausing}},
      {kStopping,
       {kPreparing, kEpochFencing, kUleRecovery, kMirroring, kPausing, kPaused, kFailed}},
      {kStopped, {kStopping}},
  };
  if (!kFrom.at(row->state).contains(before->state)) {
    Violate(name + ": " + RowText(before) + " is followed by " + RowText(row));
  }
}

void Checker::CheckRows() {
  const DiskReader::States& now = reader_.ReadStates(shards_);
  if (!now.error.empty() && death_ == Death::kNone) {
    // A tail that could not be cut off takes the log offline until it can.
    for (int32_t shard = 0; shard < shards_; ++shard) {
      const auto replica = broker_->logs().Find("__mirror_state", shard);
      if (replica == nullptr || !replica->log().offline().ok()) return;
    }
    return Violate("__mirror_state: " + now.error);
  }
  for (const auto& [key, rows] : now.rows) {
    DiskReader::Rows& known = rows_[key];
    if (known.size() == rows.size()) continue;
    const std::string name = key.mirror + ":" + std::to_string(key.partition);
    if (rows.size() < known.size() || !std::equal(known.begin(), known.end(), rows.begin())) {
      return Violate(name + ": stored states were taken back");
    }
    for (size_t i = known.size(); i < rows.size() && violation_.empty(); ++i) {
      CheckRow(name, i == 0 ? std::nullopt : rows[i - 1], rows[i]);
    }
    known = rows;
  }
}

// --- Deaths.

void Checker::ProcessDied(bool power_loss) {
  death_ = std::max(death_, power_loss ? Death::kPowerLost : Death::kKilled);
}

void Checker::ProcessStarted(bool disk_trouble) {
  if (!violation_.empty()) return;
  image_version_ = -1;
  blind_ = false;
  const int64_t version = broker_->controller().image()->version;
  if (version < acknowledged_version_) {
    return Violate("metadata version " + std::to_string(acknowledged_version_) +
                   " was acknowledged, " + std::to_string(version) + " is what is left");
  }
  for (const auto& [partition, why] : broker_->logs().offline()) {
    if (disk_trouble) {
      blind_ = true;
      return;
    }
    return Violate("partition " + std::to_string(partition.partition) + " of topic " +
                   partition.topic_id.ToString() + " does not open: " + why.ToString());
  }
  const DiskReader::States& now = reader_.ReadStates(shards_);
  if (!now.error.empty()) return Violate("__mirror_state: " + now.error);
  for (auto& [key, known] : rows_) {
    const auto found = now.rows.find(key);
    const DiskReader::Rows rows = found == now.rows.end() ? DiskReader::Rows() : found->second;
    const size_t kept =
        death_ == Death::kPowerLost ? std::min(shown_[key], known.size()) : known.size();
    if (rows.size() < kept ||
        !std::equal(rows.begin(), rows.begin() + static_cast<std::ptrdiff_t>(kept),
                    known.begin())) {
      return Violate(key.mirror + ":" + std::to_string(key.partition) +
                     ": a state that was shown is not stored any more; " +
                     (rows.empty() ? "nothing is" : RowText(rows.back()) + " is") + ", it was " +
                     RowText(known[kept - 1]));
    }
    if (rows.size() < known.size()) known = rows;
  }
  if (death_ == Death::kPowerLost && !flush_every_message_) {
    // The host's flush policy: what was not synced may go.
    for (auto& [key, watched] : watched_) {
      const BatchList& log = LogOf(key.first, key.second);
      std::erase_if(watched.acknowledged,
                    [&](const auto& each) { return each.first >= EndOf(log); });
    }
  }
  AfterTask();
}

// --- Answers.

void Checker::Produced(const std::string& topic, int32_t partition, int64_t offset,
                       const std::vector<uint8_t>& bytes) {
  watched_[{topic, partition}].acknowledged[offset] = PayloadOf(bytes);
}

void Checker::Acknowledged() {
  acknowledged_version_ = std::max(acknowledged_version_, broker_->controller().image()->version);
}

void Checker::Described(const protocol::DescribeClusterMirrorsResponse& response) {
  const auto& rows = reader_.ReadStates(shards_).rows;
  for (const auto& mirror : response.mirrors) {
    for (const auto& topic : mirror.topics) {
      const auto id = source_->topics().find(topic.topic_name);
      if (id == source_->topics().end()) continue;
      for (const auto& shown : topic.partitions) {
        CheckLag(topic.topic_name, shown);
        if (shown.state_value == "UNKNOWN") continue;
        const StateKeyText key{mirror.mirror_name, id->second, shown.partition_index};
        const auto found = rows.find(key);
        size_t count = found == rows.end() ? 0 : found->second.size();
        const auto matches = [&](const std::optional<StateRow>& row) {
          return row && shown.state_value == StateText(row->state) &&
                 shown.last_mirror_epoch == row->position_epoch &&
                 shown.last_mirror_offset == row->position_offset;
        };
        while (count > 0 && !matches(found->second[count - 1])) --count;
        if (count == 0) {
          return Violate(topic.topic_name + ": " + shown.state_value +
                         " is shown and was never stored");
        }
        shown_[key] = std::max(shown_[key], count);
      }
    }
  }
}

// The second worst error: to say "caught up" when it is not so.
void Checker::CheckLag(const std::string& topic,
                       const protocol::DescribeClusterMirrorsResponse::DescribedPartition& shown) {
  if (shown.lag < 0 || network_->LiedLately()) return;
  const SourcePartition& source = source_->At(topic, shown.partition_index);
  const auto replica = broker_->logs().Find(topic, shown.partition_index);
  if (replica == nullptr) return;
  const Span then = runtime_->MonotonicNow() - std::chrono::milliseconds(shown.lag_age_ms + 1) -
                    network_->WorstAge();
  const int64_t wanted = source.WatermarkSince(then);
  const int64_t end = replica->log().Positions().log_end;
  if (end + shown.lag >= wanted) return;
  Violate(topic + "-" + std::to_string(shown.partition_index) + ": lag " +
          std::to_string(shown.lag) + " is shown, " + std::to_string(shown.lag_age_ms) +
          " ms old; the log ends at " + std::to_string(end) + ", the source had " +
          std::to_string(wanted));
}

}  // namespace kmirror::sim
