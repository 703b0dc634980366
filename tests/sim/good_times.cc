// After the faults: what is wanted comes true by itself, within a bound of simulated time; then a
// stop and a new start work from wherever everything is, and every byte of the source arrives.
#include <algorithm>

#include "tests/sim/simulation.h"

namespace kmirror::sim {
namespace {

using std::chrono::minutes;
using std::chrono::seconds;

constexpr int8_t kMirroring = 3;
constexpr int8_t kPaused = 5;
constexpr int8_t kStopped = 7;
constexpr int8_t kFailed = 8;
constexpr int16_t kNotRetryable = -1;
constexpr int16_t kMaxAttempts = 20;

// The longest of: source metadata, retries of FAILED, backoffs of connections.
constexpr auto kPatience = minutes(30);

}  // namespace

bool Simulation::CaughtUp(const SourcePartition& partition, std::string* why) {
  const BatchList& here = checker_->LogOf(partition.topic, partition.index);
  const auto replica = broker_.logs().Find(partition.topic, partition.index);
  const std::string name = partition.topic + "-" + std::to_string(partition.index);
  if (replica == nullptr) {
    *why = name + " does not exist";
    return false;
  }
  const broker::LogPositions at = replica->log().Positions();
  if (at.log_end != partition.end) {
    *why = name + " ends at " + std::to_string(at.log_end) + ", the source at " +
           std::to_string(partition.end);
    return false;
  }
  // All that can be read there can be read here, byte for byte.
  const auto reaches = [](int64_t offset) {
    return [offset](const BatchPtr& batch) { return batch->last_offset >= offset; };
  };
  const int64_t start = std::max(at.log_start, partition.log_start);
  auto ours = std::find_if(here.begin(), here.end(), reaches(start));
  auto theirs = std::find_if(partition.log().begin(), partition.log().end(), reaches(start));
  while (ours != here.end() && theirs != partition.log().end() &&
         (*ours)->bytes == (*theirs)->bytes) {
    ++ours, ++theirs;
  }
  if (ours == here.end() && theirs == partition.log().end() &&
      (at.log_start <= partition.log_start || partition.lost_tails > 0)) {
    return true;
  }
  *why =
      name + " differs from the source: " + Shape(here) + "\n  source: " + Shape(partition.log());
  return false;
}

// What the topic's desired state asks for, without anybody's help.
bool Simulation::Settled(const std::string& name, std::string* why) {
  const broker::TopicPtr topic = Topic(name);
  if (topic == nullptr) return true;  // never started
  const broker::MirrorLink link = broker::MirrorLinkOf(*topic);
  if (link.desired == DesiredState::kNone) return true;
  for (SourcePartition& partition : source_.partitions()) {
    if (partition.topic != name) continue;
    const bool here = partition.index < topic->partition_count();
    // A stopped or paused topic does not grow.
    if (!here && link.desired != DesiredState::kMirroring) continue;
    const auto row = checker_->Row(link.mirror, topic->id, partition.index);
    const int8_t state = row ? row->state : int8_t{-1};
    *why = name + "-" + std::to_string(partition.index) + " is " + StateText(state) +
           (row ? ": " + row->reason : "");
    if (state == kFailed && (row->attempt == kNotRetryable || row->attempt >= kMaxAttempts) &&
        link.desired != DesiredState::kStopped) {
      continue;  // an operator is needed, and is told
    }
    switch (link.desired) {
      case DesiredState::kMirroring:
        if (state != kMirroring || !CaughtUp(partition, why)) return false;
        break;
      case DesiredState::kPaused:
        // A topic that was stopped and started and paused at once waits where it is.
        if (state != kPaused && state != kStopped && row) return false;
        break;
      case DesiredState::kStopped:
        if (state != kStopped) return false;
        break;
      default: break;
    }
  }
  return true;
}

bool Simulation::AllIn(int8_t wanted, std::string* why) {
  for (const SourcePartition& partition : source_.partitions()) {
    const broker::TopicPtr topic = Topic(partition.topic);
    if (topic == nullptr) {
      *why = partition.topic + " does not exist";
      return false;
    }
    // A topic that was stopped has as many partitions as it had.
    if (wanted == kStopped && partition.index >= topic->partition_count()) continue;
    const auto row = checker_->Row("m", partition.id, partition.index);
    if (!row || row->state != wanted) {
      *why = partition.topic + "-" + std::to_string(partition.index) + " is " +
             StateText(row ? row->state : int8_t{-1}) + (row ? ": " + row->reason : "");
      return false;
    }
    if (wanted == kMirroring && !CaughtUp(partition, why)) return false;
  }
  return true;
}

void Simulation::GoodTimes() {
  Note("good times");
  Calm();
  std::string why = "nothing";
  const std::vector<std::string> topics = SourceTopics();
  if (!RunFor(minutes(2), [&] { return broker_.running(); })) {
    if (!Failed()) checker_->Violate("the broker does not come up");
    return;
  }
  if (MetadataIsBroken()) orderly_ = true;
  const bool settled = RunFor(kPatience, [&] {
    return broker_.running() && std::ranges::all_of(topics, [&](const std::string& topic) {
             return Settled(topic, &why);
           });
  });
  if (Failed()) return;
  if (!settled) return checker_->Violate("after the faults, by itself: " + why);
  Describe();

  // Failover, from wherever it is.
  if (!Want(DesiredState::kMirroring)) {
    if (!Failed()) checker_->Violate("a start is never accepted");
    return;
  }
  if (Chance(50)) RunFor(Between(Span(0), seconds(20)));
  if (!Want(DesiredState::kStopped)) {
    if (!Failed()) checker_->Violate("a stop is never accepted");
    return;
  }
  const bool stopped = RunFor(kPatience, [&] { return AllIn(kStopped, &why); });
  if (Failed()) return;
  if (!stopped) return checker_->Violate("a stop does not come to its end: " + why);
  Describe();
  // Clients take over.
  const auto open = [&] {
    return std::ranges::all_of(source_.partitions(), [&](const SourcePartition& partition) {
      const auto replica = broker_.logs().Find(partition.topic, partition.index);
      return replica == nullptr ||
             replica->log().Positions().local_writes == broker::LocalWrites::kAllowed;
    });
  };
  if (!RunFor(minutes(2), open)) {
    if (!Failed()) checker_->Violate("STOPPED, and clients are not let in");
    return;
  }
  for (int i = 0; i < 6; ++i) {
    for (const SourcePartition& partition : source_.partitions()) {
      if (Chance(70)) ProduceLocally(partition.topic, partition.index);
    }
    RunFor(Between(Span(0), seconds(2)));
  }
  // And back; the source has gone on meanwhile.
  for (SourcePartition& partition : source_.partitions()) {
    for (uint64_t n = Pick(4); n > 0; --n) source_.Produce(partition);
    source_.CatchUp(partition);
  }
  // Of two starts at the same time the refused one takes the permission to discard back (R31); the
  // operator sees the refusal, stops, and starts again.
  bool caught_up = false;
  for (int attempt = 0; !caught_up && attempt < 3; ++attempt) {
    if (attempt > 0) {
      if (why.find("start again with --discard-local") == std::string::npos) break;
      if (!Want(DesiredState::kStopped) ||
          !RunFor(kPatience, [&] { return AllIn(kStopped, &why); })) {
        if (!Failed()) checker_->Violate("a refused start cannot be stopped: " + why);
        return;
      }
    }
    if (!Want(DesiredState::kMirroring)) {
      if (!Failed()) checker_->Violate("a start is never accepted");
      return;
    }
    caught_up = RunFor(kPatience, [&] { return AllIn(kMirroring, &why); });
    if (Failed()) return;
  }
  if (!caught_up) return checker_->Violate("after the faults, lag does not reach zero: " + why);
  Describe();
  RunFor(seconds(1));
}

std::string Simulation::Everything() {
  std::string text = "at the end:";
  for (SourcePartition& partition : source_.partitions()) {
    const broker::TopicPtr topic = Topic(partition.topic);
    text += "\n " + partition.topic + "-" + std::to_string(partition.index) + " source [" +
            std::to_string(partition.log_start) + ", " + std::to_string(partition.high_watermark) +
            ", " + std::to_string(partition.end) + ") " + Shape(partition.log());
    if (topic == nullptr) continue;
    const auto row = checker_->Row(broker::MirrorLinkOf(*topic).mirror, topic->id, partition.index);
    text +=
        "\n   here " +
        (partition.index < topic->partition_count()
             ? "epoch " + std::to_string(
                              topic->partitions[static_cast<size_t>(partition.index)].leader_epoch)
             : std::string("no such partition")) +
        ", " + StateText(row ? row->state : int8_t{-1}) + " " + (row ? row->reason : "") + " " +
        Shape(checker_->LogOf(partition.topic, partition.index));
  }
  for (const std::string& folder : disk_.Names(kDataFolder)) {
    const std::string path = std::string(kDataFolder) + "/" + folder;
    if (disk_.Content(path) != nullptr) continue;
    text += "\n " + folder + ":";
    for (const std::string& name : disk_.Names(path)) {
      const auto* content = disk_.Content(path + "/" + name);
      if (content != nullptr) text += " " + name + "=" + std::to_string(content->size());
    }
  }
  return text;
}

}  // namespace kmirror::sim
