#include "tests/sim/source_world.h"

#include <algorithm>
#include <cstdlib>

#include "conformance/mirrored_batches.h"
#include "kmirror/log/control_batch.h"

namespace kmirror::sim {
namespace {

constexpr int64_t kProducers = 3;
constexpr int64_t kFirstProducer = 4000;

std::string Name(const SourcePartition& partition) {
  return partition.topic + "-" + std::to_string(partition.index);
}

}  // namespace

int64_t SourcePartition::WatermarkSince(Span when) const {
  int64_t least = watermarks.back().second;
  for (auto it = watermarks.rbegin(); it != watermarks.rend(); ++it) {
    least = std::min(least, it->second);
    if (it->first <= when) break;
  }
  return least;
}

SourceWorld::SourceWorld(uint64_t seed, conformance::ManualRuntime* runtime, Trace* trace)
    : random_(seed), runtime_(runtime), trace_(trace), scripted_(runtime) {
  scripted_.cluster_id = "source-cluster-AAAAAAA";
  scripted_.brokers = {1, 2, 3};
}

void SourceWorld::Note(const SourcePartition& partition, const std::string& what) {
  trace_->Line("source", Name(partition) + " " + what);
}

void SourceWorld::AddTopic(const std::string& name, int partitions) {
  Uuid id;
  for (uint8_t& byte : id.bytes) byte = static_cast<uint8_t>(random_());
  topics_[name] = id;
  for (int i = 0; i < partitions; ++i) Grow(name);
}

void SourceWorld::Grow(const std::string& name) {
  const int32_t index = PartitionCount(name);
  SourcePartition& partition = partitions_.emplace_back();
  partition.topic = name;
  partition.id = topics_.at(name);
  partition.index = index;
  partition.epoch = static_cast<int32_t>(Pick(6));
  auto& scripted = scripted_.AddPartition(name, partition.id, index);
  scripted.leader_epoch = partition.epoch;
  scripted.leader = SomeBroker();
  Note(partition, "exists");
}

int SourceWorld::PartitionCount(const std::string& name) const {
  return static_cast<int>(std::ranges::count_if(
      partitions_, [&](const SourcePartition& each) { return each.topic == name; }));
}

SourcePartition& SourceWorld::At(const std::string& topic, int32_t index) {
  for (SourcePartition& each : partitions_) {
    if (each.topic == topic && each.index == index) return each;
  }
  std::abort();
}

SourcePartition* SourceWorld::Find(const Uuid& id, int32_t index) {
  for (SourcePartition& each : partitions_) {
    if (each.id == id && each.index == index) return &each;
  }
  return nullptr;
}

// --- Clients.

void SourceWorld::SetWatermark(SourcePartition& partition, int64_t high_watermark) {
  partition.high_watermark = high_watermark;
  Scripted(partition).high_watermark = high_watermark;
  if (partition.watermarks.back().second != high_watermark) {
    partition.watermarks.emplace_back(runtime_->MonotonicNow(), high_watermark);
    if (partition.watermarks.size() > 4000) partition.watermarks.pop_front();
  }
}

void SourceWorld::Append(SourcePartition& partition, std::vector<uint8_t> bytes) {
  const auto raw = test::SplitBatches(bytes);
  if (!raw.ok() || raw->size() != 1) std::abort();
  partition.branches.back().push_back(std::make_shared<const RawBatch>(raw->front()));
  partition.transactions.Apply(raw->front());
  partition.end = raw->front().last_offset + 1;
  trace_->Mix(ByteView(bytes));
  scripted_.AppendBatch(partition.topic, partition.index, std::move(bytes));
  // Followers may need a while.
  SetWatermark(partition, Chance(80) ? partition.end : partition.high_watermark);
  if (network_ != nullptr) network_->Wake();
}

void SourceWorld::Produce(SourcePartition& partition) {
  conformance::BatchSpec spec;
  spec.base_offset = partition.end;
  spec.leader_epoch = partition.epoch;
  spec.timestamp_ms = runtime_->WallMs();
  const int records = 1 + static_cast<int>(Pick(Chance(10) ? 20 : 4));
  const size_t bytes = 1 + Pick(Chance(10) ? 120 : 40);
  if (Chance(60)) {
    spec.producer_id = kFirstProducer + static_cast<int64_t>(Pick(kProducers));
    spec.producer_epoch = 1;
    int32_t& sequence = partition.sequences[spec.producer_id];
    spec.base_sequence = sequence;
    sequence += records;
    // A producer with an open transaction stays in it.
    spec.transactional = partition.transactions.open().contains(spec.producer_id) || Chance(50);
  }
  trace_->Count("source: batches");
  Append(partition, conformance::DataBatch(spec, records, bytes));
}

void SourceWorld::EndTransaction(SourcePartition& partition) {
  const auto& open = partition.transactions.open();
  if (open.empty()) return;
  auto chosen = open.begin();
  std::advance(chosen, static_cast<std::ptrdiff_t>(Pick(open.size())));
  conformance::BatchSpec spec;
  spec.base_offset = partition.end;
  spec.leader_epoch = partition.epoch;
  spec.producer_id = chosen->first;
  spec.producer_epoch = 1;
  spec.timestamp_ms = runtime_->WallMs();
  trace_->Count("source: markers");
  Append(partition,
         conformance::Marker(Chance(50) ? log::kControlCommit : log::kControlAbort, spec, 7));
}

void SourceWorld::EndAllTransactions(SourcePartition& partition) {
  while (!partition.transactions.open().empty()) EndTransaction(partition);
}

// --- Brokers.

int32_t SourceWorld::SomeBroker() { return 1 + static_cast<int32_t>(Pick(3)); }

void SourceWorld::MoveLeader(SourcePartition& partition) {
  auto& scripted = Scripted(partition);
  scripted.leader_epoch = partition.epoch;
  if (Chance(70)) scripted.leader = SomeBroker();
  scripted.hint_leader = Chance(50);
}

void SourceWorld::LoseFrom(SourcePartition& partition, int64_t offset, int32_t epoch) {
  BatchList kept;
  partition.transactions = {};
  for (const BatchPtr& batch : partition.log()) {
    if (batch->last_offset >= offset) break;
    kept.push_back(batch);
    partition.transactions.Apply(*batch);
  }
  partition.end = kept.empty() ? 0 : kept.back()->last_offset + 1;
  partition.branches.push_back(std::move(kept));
  ++partition.lost_tails;
  partition.epoch = epoch;
  scripted_.LoseTail(partition.topic, partition.index, partition.end, epoch);
}

void SourceWorld::Elect(SourcePartition& partition) {
  const int32_t epoch = partition.epoch + 1 + static_cast<int32_t>(Pick(Chance(15) ? 30 : 3));
  trace_->Count("source: clean election");
  Note(partition, "elects epoch " + std::to_string(epoch));
  if (partition.high_watermark < partition.end && Chance(50)) {
    const int64_t watermark = partition.high_watermark;
    LoseFrom(partition, watermark, epoch);
    SetWatermark(partition, std::min(watermark, partition.end));
  } else {
    partition.epoch = epoch;
  }
  MoveLeader(partition);
  if (network_ != nullptr) network_->Wake();
}

void SourceWorld::ElectUnclean(SourcePartition& partition) {
  if (partition.end <= partition.log_start) return Elect(partition);
  const int64_t span = std::min<int64_t>(partition.end - partition.log_start, 60);
  const int64_t from = partition.end - 1 - static_cast<int64_t>(Pick(static_cast<uint64_t>(span)));
  const int32_t epoch = partition.epoch + 1 + static_cast<int32_t>(Pick(3));
  trace_->Count("source: unclean election");
  const int64_t end_before = partition.end;
  LoseFrom(partition, from, epoch);
  if (partition.end < partition.log_start) {
    // As Kafka: a log that is cut below its start is emptied, and starts there.
    partition.log_start = partition.end;
    Scripted(partition).log_start = partition.end;
  }
  SetWatermark(partition, partition.end);
  Note(partition, "loses [" + std::to_string(partition.end) + ", " + std::to_string(end_before) +
                      ") and elects epoch " + std::to_string(epoch));
  MoveLeader(partition);
  if (network_ != nullptr) network_->Wake();
}

void SourceWorld::DeleteRecords(SourcePartition& partition) {
  const int64_t room = partition.high_watermark - partition.log_start;
  if (room <= 0) return;
  partition.log_start += 1 + static_cast<int64_t>(Pick(static_cast<uint64_t>(room)));
  partition.greatest_log_start = std::max(partition.greatest_log_start, partition.log_start);
  trace_->Count("source: records deleted");
  Note(partition, "starts at " + std::to_string(partition.log_start));
  scripted_.DeleteRecords(partition.topic, partition.index, partition.log_start);
}

void SourceWorld::CatchUp(SourcePartition& partition) {
  if (partition.high_watermark == partition.end) return;
  SetWatermark(partition, partition.end);
  if (network_ != nullptr) network_->Wake();
}

void SourceWorld::ThrottleNextFetch(int32_t ms) {
  scripted_.throttle_ms = ms;  // it wakes with the next records, and they are held back
}

void SourceWorld::SetDown(int32_t broker, bool down) {
  if (down == scripted_.down.contains(broker)) return;
  trace_->Line("source", "broker " + std::to_string(broker) + (down ? " dies" : " returns"));
  if (!down) {
    scripted_.down.erase(broker);
    return;
  }
  trace_->Count("source: broker died");
  scripted_.down.insert(broker);
  if (network_ != nullptr) network_->Cut(broker);
  // The others take over what it led, sooner or later.
  for (SourcePartition& partition : partitions_) {
    if (Scripted(partition).leader == broker && Chance(70)) Elect(partition);
  }
}

void SourceWorld::Heal() {
  scripted_.down.clear();
  for (SourcePartition& partition : partitions_) CatchUp(partition);
}

}  // namespace kmirror::sim
