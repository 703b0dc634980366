#include "tests/coordinator/invariants.h"

#include <algorithm>

#include "kmirror/log/control_batch.h"

namespace kmirror::coordinator {

using conformance::MemoryLog;
using S = MirrorPartitionState;

void CheckAlways(Cluster& c, const std::string& topic) {
  const host::TopicInfo* info = c.host.controller().FindTopic(topic);
  if (info == nullptr) return;
  const auto name = conformance::ParseMirrorName(c.MirrorName(topic));
  for (const host::PartitionInfo& partition : info->partitions) {
    const auto log = c.host.Log(topic, partition.index);
    if (log == nullptr) continue;
    int32_t newest = -1;
    for (const MemoryLog::Batch& batch : log->batches()) {
      EXPECT_GE(batch.info.leader_epoch, newest) << c.Shape(topic, partition.index);
      newest = batch.info.leader_epoch;
    }
    EXPECT_GE(partition.leader_epoch, newest) << "9.7: a batch above the leader epoch";
    if (log->local_writes() != host::LocalWrites::kAllowed) continue;
    // Invariant 1: open only while STOPPED is stored, and wanted.
    if (name.desired == DesiredState::kNone) continue;
    EXPECT_EQ(name.desired, DesiredState::kStopped) << "open while mirroring is wanted";
    const auto stored = c.Stored(topic, partition.index, name.mirror);
    EXPECT_TRUE(stored.has_value() && stored->state == S::kStopped)
        << "open, and what is stored is "
        << (stored ? StateName(stored->state) : std::string_view("nothing"));
  }
}

void CheckStopped(Cluster& c, const std::string& topic, int partition,
                  const std::vector<int64_t>& open) {
  const auto stored = c.Stored(topic, partition);
  ASSERT_TRUE(stored.has_value());
  EXPECT_EQ(stored->state, S::kStopped);
  const MemoryLog& log = c.Log(topic, partition);
  const std::string shape = Cluster::ShapeOf(log);
  const statemachine::MirrorPosition at = stored->position;
  ASSERT_FALSE(at.IsNone());
  EXPECT_GT(c.LeaderEpoch(topic, partition), at.epoch);

  bool reset = false;
  std::vector<int64_t> aborted;
  for (const MemoryLog::Batch& batch : log.batches()) {
    if (batch.info.base_offset < at.offset) {
      EXPECT_LE(batch.info.leader_epoch, at.epoch) << "9.13: local below the position, " << shape;
      continue;
    }
    EXPECT_GT(batch.info.leader_epoch, at.epoch) << "9.13: mirrored above the position, " << shape;
    if (batch.info.control_type == log::kControlMirrorPidReset) {
      EXPECT_FALSE(reset) << "a second reset, " << shape;
      reset = true;
    } else if (batch.info.control_type == log::kControlAbort && !reset) {
      aborted.push_back(batch.info.producer_id);
    } else if (!reset) {
      ADD_FAILURE() << "9.12: neither marker nor reset between the position and the reset, "
                    << shape;
    }
  }
  EXPECT_TRUE(reset) << "9.11, " << shape;
  std::vector<int64_t> wanted = open;
  std::sort(wanted.begin(), wanted.end());
  std::sort(aborted.begin(), aborted.end());
  EXPECT_EQ(aborted, wanted) << shape;
  EXPECT_TRUE(log.OpenTransactions().empty());
  EXPECT_EQ(log.View().last_stable_offset, log.View().end);
  for (const int64_t id : open) {
    EXPECT_FALSE(log.producers().Find(id).has_value()) << "9.10: a producer from before the reset";
  }
}

}  // namespace kmirror::coordinator
