#include "tests/differential/config_values.h"

#include "tests/differential/history.h"

namespace kmirror::test {
namespace {

constexpr const char* kGood[][2] = {
    {"cleanup.policy", "delete"},
    {"cleanup.policy", "compact"},
    {"cleanup.policy", "compact,delete"},
    {"cleanup.policy", " delete , compact "},
    {"delete.retention.ms", "1000"},
    {"file.delete.delay.ms", "1000"},
    {"flush.messages", "1"},
    {"flush.messages", "9223372036854775807"},
    {"flush.ms", "1000"},
    {"follower.replication.throttled.replicas", "*"},
    {"follower.replication.throttled.replicas", "0:1,1:1"},
    {"leader.replication.throttled.replicas", ""},
    {"index.interval.bytes", "4096"},
    {"index.interval.bytes", "0"},
    {"max.compaction.lag.ms", "100000"},
    {"max.message.bytes", "1000"},
    {"max.message.bytes", "100"},
    {"max.message.bytes", " 2000000 "},
    {"message.timestamp.after.max.ms", "1000"},
    {"message.timestamp.before.max.ms", "1000"},
    {"message.timestamp.type", "LogAppendTime"},
    {"message.timestamp.type", "CreateTime"},
    {"min.cleanable.dirty.ratio", "0.5"},
    {"min.cleanable.dirty.ratio", "1"},
    {"min.compaction.lag.ms", "0"},
    {"min.insync.replicas", "1"},
    {"min.insync.replicas", "2"},
    {"preallocate", "false"},
    {"preallocate", "FALSE"},
    {"retention.bytes", "-1"},
    {"retention.bytes", "1000000000"},
    {"retention.ms", "-1"},
    {"retention.ms", "31536000000000"},
    {"segment.bytes", "1048576"},
    {"segment.index.bytes", "1000"},
    {"segment.jitter.ms", "0"},
    {"segment.ms", "86400000"},
    {"unclean.leader.election.enable", "true"},
    {"compression.gzip.level", "1"},
    {"compression.lz4.level", "9"},
    {"compression.zstd.level", "-5"},
    {"compression.type", "producer"},
};

constexpr const char* kBad[][2] = {
    {"cleanup.policy", "keep"},
    {"cleanup.policy", "delete,keep"},
    {"compression.gzip.level", "0"},
    {"compression.gzip.level", "10"},
    {"compression.lz4.level", "18"},
    {"compression.type", "rot13"},
    {"compression.zstd.level", "23"},
    {"delete.retention.ms", "-1"},
    {"flush.messages", "0"},
    {"flush.messages", "-1"},
    {"flush.ms", "-1"},
    {"follower.replication.throttled.replicas", "0"},
    {"leader.replication.throttled.replicas", "0:1,x"},
    {"index.interval.bytes", "-1"},
    {"max.compaction.lag.ms", "0"},
    {"max.message.bytes", "-1"},
    {"max.message.bytes", "1e3"},
    {"max.message.bytes", "2147483648"},
    {"max.message.bytes", ""},
    {"message.timestamp.after.max.ms", "-1"},
    {"message.timestamp.type", "createtime"},
    {"message.timestamp.type", "Never"},
    {"min.cleanable.dirty.ratio", "1.5"},
    {"min.cleanable.dirty.ratio", "-0.1"},
    {"min.cleanable.dirty.ratio", "much"},
    {"min.insync.replicas", "0"},
    {"no.such.config", "1"},
    {"preallocate", "maybe"},
    {"preallocate", "1"},
    {"retention.bytes", "many"},
    {"retention.ms", "-2"},
    {"retention.ms", "soon"},
    {"segment.bytes", "0"},
    {"segment.bytes", "2147483648"},
    {"segment.index.bytes", "3"},
    {"segment.jitter.ms", "-1"},
    {"segment.ms", "0"},
    {"unclean.leader.election.enable", "yes"},
    {"", "1"},
};

}  // namespace

ConfigValue AnyTopicConfig(History& history, bool bad) {
  if (bad && history.OneIn(12)) return {"retention.ms", std::nullopt};
  if (bad) {
    const auto& row = kBad[history.Between(0, std::ssize(kBad) - 1)];
    return {row[0], row[1]};
  }
  const auto& row = kGood[history.Between(0, std::ssize(kGood) - 1)];
  return {row[0], row[1]};
}

std::string AnyTopicConfigName(History& history) {
  return kGood[history.Between(0, std::ssize(kGood) - 1)][0];
}

}  // namespace kmirror::test
