#include "broker/config/config_table.h"

#include <algorithm>
#include <charconv>
#include <iterator>
#include <set>

#include "broker/controller/metadata_image.h"
#include "src/base/config_value.h"

namespace kmirror::broker {
namespace {

constexpr int64_t kMin = INT64_MIN;
constexpr int64_t kMax = INT64_MAX;
constexpr int64_t kMaxInt = INT32_MAX;
constexpr auto B = ConfigType::kBoolean;
constexpr auto S = ConfigType::kString;
constexpr auto I = ConfigType::kInt;
constexpr auto H = ConfigType::kShort;
constexpr auto J = ConfigType::kLong;
constexpr auto D = ConfigType::kDouble;
constexpr auto L = ConfigType::kList;
constexpr std::nullopt_t kNull = std::nullopt;
constexpr std::string_view kForever = "9223372036854775807";

// Kafka 4.4 asks segment.bytes >= 1 MiB; older clusters, whose topics we mirror, allow 14.
constexpr ConfigDefinition kTopicTable[] = {
    {"cleanup.policy", L, "delete", kMin, kMax, "delete,compact", "log.cleanup.policy", false,
     "What happens to old records."},
    {"compression.gzip.level", I, "-1", -1, 9, "", "compression.gzip.level", false,
     "Level for gzip."},
    {"compression.lz4.level", I, "9", 1, 17, "", "compression.lz4.level", false, "Level for lz4."},
    {"compression.type", S, "producer", kMin, kMax, "producer,uncompressed,gzip,snappy,lz4,zstd",
     "compression.type", false, "producer keeps what the client sent."},
    {"compression.zstd.level", I, "3", -131072, 22, "", "compression.zstd.level", false,
     "Level for zstd."},
    {"delete.retention.ms", J, "86400000", 0, kMax, "", "log.cleaner.delete.retention.ms", false,
     "How long tombstones stay in a compacted topic."},
    {"file.delete.delay.ms", J, "60000", 0, kMax, "", "log.segment.delete.delay.ms", false,
     "Delay between dropping a segment and removing its files."},
    {"flush.messages", J, kForever, 1, kMax, "", "log.flush.interval.messages", false,
     "Records between two forced syncs."},
    {"flush.ms", J, kForever, 0, kMax, "", "log.flush.interval.ms", false,
     "Time after which data is synced."},
    {"follower.replication.throttled.replicas", L, "", kMin, kMax, "", "", false,
     "Follower replicas under the replication quota."},
    {"index.interval.bytes", I, "4096", 0, kMaxInt, "", "log.index.interval.bytes", false,
     "Bytes between two index entries."},
    {"leader.replication.throttled.replicas", L, "", kMin, kMax, "", "", false,
     "Leader replicas under the replication quota."},
    {"max.compaction.lag.ms", J, kForever, 1, kMax, "", "log.cleaner.max.compaction.lag.ms", false,
     "Greatest time a record stays uncompacted."},
    {"max.message.bytes", I, "1048588", 0, kMaxInt, "", "message.max.bytes", false,
     "Greatest batch a producer may send."},
    {"message.timestamp.after.max.ms", J, "3600000", 0, kMax, "",
     "log.message.timestamp.after.max.ms", false, "How far a record's time may be ahead."},
    {"message.timestamp.before.max.ms", J, kForever, 0, kMax, "",
     "log.message.timestamp.before.max.ms", false, "How far a record's time may be behind."},
    {"message.timestamp.type", S, "CreateTime", kMin, kMax, "CreateTime,LogAppendTime",
     "log.message.timestamp.type", false, "Whose clock record times are from."},
    {"min.cleanable.dirty.ratio", D, "0.5", kMin, kMax, "", "log.cleaner.min.cleanable.ratio",
     false, "When a compacted log is cleaned."},
    {"min.compaction.lag.ms", J, "0", 0, kMax, "", "log.cleaner.min.compaction.lag.ms", false,
     "Least time a record stays uncompacted."},
    {"min.insync.replicas", I, "1", 1, kMaxInt, "", "min.insync.replicas", false,
     "Replicas that must have a record before it is acknowledged to acks=all."},
    {"mirror.name", S, kNull, kMin, kMax, "", "", true,
     "The mirror that owns the topic; .paused and .removed mark paused and stopped. Set by the "
     "mirror "
     "requests alone."},
    {"mirror.replication.throttled.replicas", L, "", kMin, kMax, "", "", false,
     "Replicas under mirror.replication.throttled.rate: partition:broker pairs, or *; "
     "not enforced by this version."},
    {"mirror.support.unclean.leader.election", B, "false", kMin, kMax, "", "", false,
     "After an unclean election at the source: follow it and cut the own log, or fail."},
    {"preallocate", B, "false", kMin, kMax, "", "log.preallocate", false,
     "Kafka's preallocation; kmirrord reserves space in its own way."},
    {"retention.bytes", J, "-1", -1, kMax, "", "log.retention.bytes", false,
     "Greatest size; -1 no limit."},
    {"retention.ms", J, "604800000", -1, kMax, "", "log.retention.ms", false,
     "Greatest age; -1 no limit."},
    {"segment.bytes", I, "1073741824", 14, kMaxInt, "", "log.segment.bytes", false,
     "Size of a segment."},
    {"segment.index.bytes", I, "10485760", 4, kMaxInt, "", "log.index.size.max.bytes", false,
     "Greatest size of a segment's index."},
    {"segment.jitter.ms", J, "0", 0, kMax, "", "log.roll.jitter.ms", false,
     "Random part taken off segment.ms."},
    {"segment.ms", J, "604800000", 1, kMax, "", "log.roll.ms", false,
     "Greatest age of an active segment."},
    {"unclean.leader.election.enable", B, "false", kMin, kMax, "", "unclean.leader.election.enable",
     false, "May a replica that lags become leader?"},
};

constexpr ConfigDefinition Static(std::string_view name, ConfigType type,
                                  std::optional<std::string_view> fallback, std::string_view doc,
                                  int64_t min = kMin, int64_t max = kMax,
                                  std::string_view choices = "") {
  return {name, type, fallback, min, max, choices, "", true, doc};
}
constexpr ConfigDefinition Dynamic(std::string_view name, ConfigType type,
                                   std::optional<std::string_view> fallback, std::string_view doc,
                                   int64_t min, int64_t max) {
  return {name, type, fallback, min, max, "", "", false, doc};
}

constexpr ConfigDefinition kBrokerTable[] = {
    Static("advertised.listeners", L, kNull, "Addresses clients are told; default: listeners."),
    Static("auto.create.topics.enable", B, "true",
           "Does a Metadata request create missing topics?"),
    Static("broker.id", I, kNull, "Older name of node.id.", 0, kMaxInt),
    Static("broker.rack", S, kNull, "Where this broker stands."),
    Static("cluster.id", S, kNull, "Id of the cluster; made when the data folder is formatted."),
    Static("compression.gzip.level", I, "-1", "Default of the topic config.", -1, 9),
    Static("compression.lz4.level", I, "9", "Default of the topic config.", 1, 17),
    Static("compression.type", S, "producer", "Default of the topic config.", kMin, kMax,
           "producer,uncompressed,gzip,snappy,lz4,zstd"),
    Static("compression.zstd.level", I, "3", "Default of the topic config.", -131072, 22),
    Static("connections.max.idle.ms", J, "600000", "Idle client connections are closed.", -1),
    Static("default.replication.factor", I, "1", "Accepted, not used: one node is one replica.", 1,
           INT16_MAX),
    Static("delete.topic.enable", B, "true", "May topics be deleted?"),
    Static("fetch.max.bytes", I, "57671680", "Greatest fetch answer.", 1024, kMaxInt),
    Static("inter.broker.listener.name", S, kNull, "Listener for other brokers of the cluster."),
    Static("kmirror.log.level", S, "info", "Least level that is logged.", kMin, kMax,
           "trace,debug,info,warn,error"),
    Static("kmirror.metadata.dir", S, kNull,
           "Folder of the metadata; default kmirror.metadata in log.dirs."),
    Static("kmirror.metrics.listener", S, kNull, "host:port of /metrics; none: no metrics page."),
    Static("kmirror.open.files.max", I, "2000", "Segment files held open.", 16, kMaxInt),
    Static("listener.security.protocol.map", L, kNull, "NAME:PROTOCOL pairs."),
    Static("listeners", L, kNull, "NAME://host:port, comma-separated. Required."),
    Static("log.cleaner.delete.retention.ms", J, "86400000", "Default of delete.retention.ms.", 0),
    Static("log.cleaner.max.compaction.lag.ms", J, kForever, "Default of max.compaction.lag.ms.",
           1),
    Static("log.cleaner.min.cleanable.ratio", D, "0.5", "Default of min.cleanable.dirty.ratio."),
    Static("log.cleaner.min.compaction.lag.ms", J, "0", "Default of min.compaction.lag.ms.", 0),
    Static("log.cleanup.policy", L, "delete", "Default of cleanup.policy.", kMin, kMax,
           "delete,compact"),
    Static("log.dir", S, kNull, "Older name of log.dirs."),
    Static("log.dirs", L, kNull, "The data folder; exactly one. Required."),
    Static("log.flush.interval.messages", J, kForever, "Default of flush.messages.", 1),
    Static("log.flush.interval.ms", J, kNull, "Default of flush.ms.", 0),
    Static("log.flush.offset.checkpoint.interval.ms", I, "60000",
           "How often recovery points are written.", 0, kMaxInt),
    Static("log.index.interval.bytes", I, "4096", "Default of index.interval.bytes.", 0, kMaxInt),
    Static("log.index.size.max.bytes", I, "10485760", "Default of segment.index.bytes.", 4,
           kMaxInt),
    Static("log.message.timestamp.after.max.ms", J, "3600000", "Default of the topic config.", 0),
    Static("log.message.timestamp.before.max.ms", J, kForever, "Default of the topic config.", 0),
    Static("log.message.timestamp.type", S, "CreateTime", "Default of message.timestamp.type.",
           kMin, kMax, "CreateTime,LogAppendTime"),
    Static("log.preallocate", B, "false", "Default of preallocate."),
    Static("log.retention.bytes", J, "-1", "Default of retention.bytes.", -1),
    Static("log.retention.check.interval.ms", J, "300000", "How often retention is applied.", 1),
    Static("log.retention.hours", I, "168", "Default of retention.ms, in hours; -1 no limit.", -1,
           kMaxInt),
    Static("log.retention.minutes", I, kNull, "As log.retention.hours, wins over it.", -1, kMaxInt),
    Static("log.retention.ms", J, kNull, "As log.retention.hours, wins over both.", -1),
    Static("log.roll.hours", I, "168", "Default of segment.ms, in hours.", 1, kMaxInt),
    Static("log.roll.jitter.hours", I, "0", "Default of segment.jitter.ms, in hours.", 0, kMaxInt),
    Static("log.roll.jitter.ms", J, kNull, "As log.roll.jitter.hours, wins over it.", 0),
    Static("log.roll.ms", J, kNull, "As log.roll.hours, wins over it.", 1),
    Static("log.segment.bytes", I, "1073741824", "Default of segment.bytes.", 14, kMaxInt),
    Static("log.segment.delete.delay.ms", J, "60000", "Default of file.delete.delay.ms.", 0),
    Static("max.connections", I, "2147483647", "Client connections at once.", 0, kMaxInt),
    Static("max.connections.per.ip", I, "2147483647", "Client connections of one address.", 0,
           kMaxInt),
    Static("max.incremental.fetch.session.cache.slots", I, "1000", "Fetch sessions kept.", 0,
           kMaxInt),
    Static("message.max.bytes", I, "1048588", "Default of max.message.bytes.", 0, kMaxInt),
    Static("min.insync.replicas", I, "1", "Default of the topic config.", 1, kMaxInt),
    Static("mirror.coordinator.append.linger.ms", I, "10", "State records are gathered this long.",
           0, kMaxInt),
    Static("mirror.coordinator.load.buffer.size", I, "5242880",
           "Accepted, not used: shards are read as "
           "the log is.",
           1, kMaxInt),
    Static("mirror.coordinator.threads", I, "1", "Accepted, not used: the coordinator is one lane.",
           1, kMaxInt),
    Static("mirror.coordinator.write.timeout.ms", J, "5000",
           "Accepted, not used: one replica needs no "
           "patience.",
           1),
    Static("mirror.failed.retry.initial.backoff.ms", J, "100", "First delay of a FAILED partition.",
           1),
    Static("mirror.failed.retry.max.attempts", I, "20",
           "Attempts before a FAILED partition waits for an "
           "operator; 0: none.",
           0, 32767),
    Static("mirror.failed.retry.max.backoff.ms", J, "300000",
           "Greatest delay of a FAILED partition.", 1),
    Dynamic("mirror.metadata.refresh.interval.ms", J, "30000",
            "How often source metadata is read; a change takes effect at the next start.", 1, kMax),
    Dynamic("mirror.num.replica.fetchers", I, "1",
            "Fetchers a source broker and mirror; a change takes effect at the next start.", 1,
            1024),
    Dynamic("mirror.replication.throttled.rate", J, kForever,
            "Bytes a second that mirrors may read for throttled replicas; not enforced by this "
            "version.",
            0, kMax),
    Static("mirror.state.topic.num.partitions", I, "50",
           "Partitions of __mirror_state; fixed once it is "
           "made.",
           1, 10000),
    Static("mirror.state.topic.replication.factor", H, "1",
           "Accepted, not used: one node is one replica.", 1, INT16_MAX),
    Static("node.id", I, kNull, "Id of this broker. Required.", 0, kMaxInt),
    Static("num.io.threads", I, "8",
           "Accepted, not used: what waits for the disk has threads of its own.", 1, 1024),
    Static("num.network.threads", I, "2", "Event loops for client connections.", 1, 1024),
    Static("num.partitions", I, "1", "Partitions of a new topic.", 1, 100000),
    Static("offsets.topic.num.partitions", I, "50", "Partitions of __consumer_offsets.", 1, 10000),
    Static("producer.id.expiration.ms", I, "86400000", "Idle producers are forgotten.", 1, kMaxInt),
    Static("queued.max.request.bytes", J, "-1", "Bytes of requests held at once; -1 no limit.", -1),
    Static("queued.max.requests", I, "500",
           "Accepted, not used: queued.max.request.bytes is the limit.", 1, kMaxInt),
    Static("replica.high.watermark.checkpoint.interval.ms", J, "5000",
           "How often high watermarks are "
           "written.",
           0),
    Static("socket.receive.buffer.bytes", I, "-1",
           "Accepted, not used: the system sizes the buffer.", -1, kMaxInt),
    Static("socket.request.max.bytes", I, "104857600", "Greatest request.", 1, kMaxInt),
    Static("socket.send.buffer.bytes", I, "-1", "Accepted, not used: the system sizes the buffer.",
           -1, kMaxInt),
    Static("transaction.state.log.num.partitions", I, "50", "Partitions of __transaction_state.", 1,
           10000),
    Static("unclean.leader.election.enable", B, "false", "Default of the topic config."),
};

constexpr bool ByName(const ConfigDefinition& a, const ConfigDefinition& b) {
  return a.name < b.name;
}
static_assert(std::is_sorted(std::begin(kTopicTable), std::end(kTopicTable), ByName),
              "binary search");
static_assert(std::is_sorted(std::begin(kBrokerTable), std::end(kBrokerTable), ByName),
              "binary search");

template <size_t N>
const ConfigDefinition* FindIn(const ConfigDefinition (&table)[N], std::string_view name) {
  const auto* found =
      std::lower_bound(std::begin(table), std::end(table), name,
                       [](const auto& row, std::string_view key) { return row.name < key; });
  return found != std::end(table) && found->name == name ? found : nullptr;
}

// Kafka's forms of throttled replicas: "*", or partition:broker pairs.
bool IsReplicaList(std::string_view value) {
  if (TrimBlanks(value) == "*") return true;
  for (const std::string& item : SplitList(value)) {
    const size_t colon = item.find(':');
    if (colon == std::string::npos) return false;
    const std::optional<int64_t> partition = ParseInt64(item.substr(0, colon));
    const std::optional<int64_t> broker = ParseInt64(item.substr(colon + 1));
    if (!partition || !broker || *partition < 0 || *broker < 0) return false;
  }
  return true;
}

// A broker key in coarser units that stands for a topic config, and its factor to ms.
struct CoarserKey {
  std::string_view topic_config;
  std::string_view broker_key;
  int64_t factor;
};
// In the order in which they win, after the synonym itself.
constexpr CoarserKey kCoarserKeys[] = {
    {"retention.ms", "log.retention.minutes", 60000},
    {"retention.ms", "log.retention.hours", 3600000},
    {"segment.jitter.ms", "log.roll.jitter.hours", 3600000},
    {"segment.ms", "log.roll.hours", 3600000},
};

// Kafka lists the broker's default among the synonyms only where the broker has one in the very
// key: of times that means the key in hours, or none.
void SetDefaultSynonym(std::string_view topic_config, DescribedConfig* config) {
  constexpr std::string_view kWithout[] = {"flush.ms", "segment.ms", "segment.jitter.ms",
                                           "follower.replication.throttled.replicas",
                                           "leader.replication.throttled.replicas"};
  const auto is_default = [](const ConfigSynonym& each) {
    return each.source == ConfigSource::kDefault;
  };
  if (std::find(std::begin(kWithout), std::end(kWithout), topic_config) != std::end(kWithout)) {
    std::erase_if(config->synonyms, is_default);
  } else if (topic_config == "retention.ms") {
    const auto found = std::find_if(config->synonyms.begin(), config->synonyms.end(), is_default);
    if (found != config->synonyms.end()) {
      found->name = "log.retention.hours";
      found->value = "168";
    }
  }
}

// What the broker's file says about a topic config, in the topic config's unit.
std::optional<std::string> FromBrokerFile(const ConfigDefinition& definition,
                                          const BrokerConfig& broker) {
  if (definition.broker_synonym.empty()) return std::nullopt;
  if (const auto given = broker.given.find(std::string(definition.broker_synonym));
      given != broker.given.end()) {
    return given->second;
  }
  for (const CoarserKey& key : kCoarserKeys) {
    if (key.topic_config != definition.name) continue;
    const auto given = broker.given.find(std::string(key.broker_key));
    if (given == broker.given.end()) continue;
    const int64_t value = ParseInt64(given->second).value_or(-1);
    return std::to_string(value < 0 ? -1 : value * key.factor);
  }
  return std::nullopt;
}

}  // namespace

std::span<const ConfigDefinition> TopicConfigTable() { return kTopicTable; }
std::span<const ConfigDefinition> BrokerConfigTable() { return kBrokerTable; }
const ConfigDefinition* FindTopicConfig(std::string_view name) { return FindIn(kTopicTable, name); }
const ConfigDefinition* FindBrokerConfig(std::string_view name) {
  return FindIn(kBrokerTable, name);
}

std::string CanonicalConfigValue(ConfigType type, std::string_view value) {
  switch (type) {
    case ConfigType::kBoolean: {
      std::string lower(TrimBlanks(value));
      for (char& c : lower) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
      return lower;
    }
    case ConfigType::kInt:
    case ConfigType::kShort:
    case ConfigType::kLong: {
      const std::optional<int64_t> number = ParseInt64(value);
      return number ? std::to_string(*number) : std::string(value);
    }
    case ConfigType::kList: {
      std::string joined;
      for (const std::string& item : SplitList(value)) {
        joined.append(joined.empty() ? "" : ",").append(item);
      }
      return joined;
    }
    case ConfigType::kDouble: {
      // As Java writes it: 1 is 1.0.
      const std::optional<double> number = ParseDouble(value);
      if (!number) return std::string(value);
      char text[32];
      const auto [end, error] = std::to_chars(text, text + sizeof text, *number);
      std::string written(text, error == std::errc() ? end : text);
      if (written.find_first_not_of("-0123456789") == std::string::npos) written += ".0";
      return written;
    }
    default: return std::string(TrimBlanks(value));
  }
}

Status CheckConfigValue(const ConfigDefinition& definition, std::string_view value) {
  if (Status s = CheckTypedValue(definition.name, definition.type, value, definition.min,
                                 definition.max, definition.choices);
      !s.ok()) {
    return s;
  }
  const auto bad = [&](const char* why) {
    return Status(ErrorCode::kInvalidConfig,
                  std::string(definition.name) + ": \"" + std::string(value) + "\" " + why);
  };
  if (definition.name.ends_with(".throttled.replicas") && !IsReplicaList(value)) {
    return bad("is neither * nor a list of partition:broker");
  }
  if (definition.name == "min.cleanable.dirty.ratio" ||
      definition.name == "log.cleaner.min.cleanable.ratio") {
    const double ratio = ParseDouble(value).value_or(-1);
    if (ratio < 0 || ratio > 1) return bad("is not between 0 and 1");
  }
  if (definition.name == "compression.gzip.level" && ParseInt64(value) == 0)
    return bad("is not a gzip level");
  return {};
}

Status CheckTopicConfigs(const ConfigMap& configs, bool allow_mirror_name) {
  for (const auto& [key, value] : configs) {
    const ConfigDefinition* definition = FindTopicConfig(key);
    if (definition == nullptr) return {ErrorCode::kInvalidConfig, key + ": unknown topic config"};
    if (key == kMirrorNameConfig) {
      if (!allow_mirror_name) {
        return {ErrorCode::kInvalidConfig, "mirror.name: only the mirror requests change it"};
      }
      if (Status s = CheckMirrorName(ParseMirrorLink(value).mirror); !s.ok()) {
        return {ErrorCode::kInvalidConfig, "mirror.name: " + s.message()};
      }
      continue;
    }
    if (Status s = CheckConfigValue(*definition, value); !s.ok()) return s;
  }
  return {};
}

Result<ConfigMap> ApplyConfigChanges(const ConfigMap& configs,
                                     std::span<const ConfigChange> changes,
                                     const ConfigDefinition* (*definition_of)(std::string_view)) {
  ConfigMap next = configs;
  std::set<std::string_view> seen;
  for (const ConfigChange& change : changes) {
    const auto bad = [&](const char* why) {
      return Status(ErrorCode::kInvalidConfig, change.name + ": " + why);
    };
    if (!seen.insert(change.name).second) {
      return Status(ErrorCode::kInvalidRequest, change.name + ": given twice");
    }
    // What is not there can be deleted, whether it could be there or not (as in Kafka).
    if (change.op == ConfigOp::kDelete) {
      next.erase(change.name);
      continue;
    }
    const ConfigDefinition* definition = definition_of(change.name);
    if (definition == nullptr) return bad("unknown config");
    if (!change.value) {
      return Status(ErrorCode::kInvalidRequest, change.name + ": the value is null");
    }
    if (change.op == ConfigOp::kSet) {
      next[change.name] = *change.value;
      continue;
    }
    if (change.op != ConfigOp::kAppend && change.op != ConfigOp::kSubtract) {
      return Status(ErrorCode::kInvalidRequest, change.name + ": unknown operation");
    }
    if (definition->type != ConfigType::kList) return bad("append and subtract are for lists");
    const auto present = next.find(change.name);
    std::vector<std::string> items =
        SplitList(present != next.end() ? std::string_view(present->second)
                                        : definition->fallback.value_or(""));
    for (const std::string& item : SplitList(*change.value)) {
      const auto found = std::find(items.begin(), items.end(), item);
      if (change.op == ConfigOp::kAppend && found == items.end()) items.push_back(item);
      if (change.op == ConfigOp::kSubtract && found != items.end()) items.erase(found);
    }
    std::string joined;
    for (const std::string& item : items) joined.append(joined.empty() ? "" : ",").append(item);
    next[change.name] = joined;
  }
  return next;
}

std::optional<std::string> EffectiveTopicConfig(std::string_view name, const ConfigMap& overrides,
                                                const BrokerConfig& broker) {
  const ConfigDefinition* definition = FindTopicConfig(name);
  if (definition == nullptr) return std::nullopt;
  if (const auto set = overrides.find(std::string(name)); set != overrides.end())
    return set->second;
  if (auto value = FromBrokerFile(*definition, broker)) return value;
  if (!definition->fallback) return std::nullopt;
  return std::string(*definition->fallback);
}

LogConfig LogConfigFor(const ConfigMap& overrides, const BrokerConfig& broker) {
  const auto text = [&](std::string_view name) {
    const auto value = EffectiveTopicConfig(name, overrides, broker);
    const ConfigDefinition* definition = FindTopicConfig(name);
    if (value && CheckConfigValue(*definition, *value).ok()) return *value;
    return std::string(definition->fallback.value_or(""));
  };
  const auto number = [&](std::string_view name) { return ParseInt64(text(name)).value_or(0); };
  LogConfig config;
  config.segment_bytes = number("segment.bytes");
  config.segment_ms = number("segment.ms");
  config.segment_jitter_ms = number("segment.jitter.ms");
  config.segment_index_bytes = static_cast<int32_t>(number("segment.index.bytes"));
  config.index_interval_bytes = static_cast<int32_t>(number("index.interval.bytes"));
  config.max_message_bytes = static_cast<int32_t>(number("max.message.bytes"));
  config.retention_ms = number("retention.ms");
  config.retention_bytes = number("retention.bytes");
  config.flush_messages = number("flush.messages");
  config.flush_ms = number("flush.ms");
  config.file_delete_delay_ms = number("file.delete.delay.ms");
  config.log_append_time = text("message.timestamp.type") == "LogAppendTime";
  config.timestamp_before_max_ms = number("message.timestamp.before.max.ms");
  config.timestamp_after_max_ms = number("message.timestamp.after.max.ms");
  config.producer_id_expiration_ms = broker.producer_id_expiration_ms;
  config.retention_deletes = false;
  for (const std::string& policy : SplitList(text("cleanup.policy"))) {
    config.retention_deletes |= policy == "delete";
    config.compacted |= policy == "compact";
  }
  return config;
}

std::vector<DescribedConfig> DescribeTopicConfigs(const ConfigMap& overrides,
                                                  const BrokerConfig& broker,
                                                  const ConfigMap& dynamic_broker) {
  (void)dynamic_broker;  // no key that topics inherit is dynamic
  std::vector<DescribedConfig> described;
  for (const ConfigDefinition& definition : kTopicTable) {
    const auto set = overrides.find(std::string(definition.name));
    if (definition.name == kMirrorNameConfig && set == overrides.end()) continue;
    DescribedConfig config;
    config.name = definition.name;
    config.type = definition.type;
    config.read_only = definition.read_only;
    config.doc = definition.doc;
    if (set != overrides.end()) {
      config.synonyms.push_back({config.name, set->second, ConfigSource::kDynamicTopic});
    }
    if (auto value = FromBrokerFile(definition, broker)) {
      config.synonyms.push_back(
          {std::string(definition.broker_synonym), std::move(value), ConfigSource::kStaticBroker});
    }
    if (definition.fallback) {
      const std::string_view name =
          definition.broker_synonym.empty() ? definition.name : definition.broker_synonym;
      config.synonyms.push_back(
          {std::string(name), std::string(*definition.fallback), ConfigSource::kDefault});
    }
    if (!config.synonyms.empty()) {
      config.value = config.synonyms.front().value;
      config.source = config.synonyms.front().source;
    }
    SetDefaultSynonym(definition.name, &config);
    for (ConfigSynonym& synonym : config.synonyms) {
      if (synonym.value) synonym.value = CanonicalConfigValue(definition.type, *synonym.value);
    }
    if (config.value) config.value = CanonicalConfigValue(definition.type, *config.value);
    described.push_back(std::move(config));
  }
  return described;
}

std::vector<DescribedConfig> DescribeBrokerConfigs(const BrokerConfig& broker,
                                                   const ConfigMap& dynamic_broker) {
  std::vector<DescribedConfig> described;
  for (const ConfigDefinition& definition : kBrokerTable) {
    DescribedConfig config;
    config.name = definition.name;
    config.type = definition.type;
    config.read_only = definition.read_only;
    config.doc = definition.doc;
    if (const auto set = dynamic_broker.find(config.name); set != dynamic_broker.end()) {
      config.synonyms.push_back({config.name, set->second, ConfigSource::kDynamicBroker});
    }
    if (const auto given = broker.given.find(config.name); given != broker.given.end()) {
      config.synonyms.push_back({config.name, given->second, ConfigSource::kStaticBroker});
    }
    if (definition.fallback) {
      config.synonyms.push_back(
          {config.name, std::string(*definition.fallback), ConfigSource::kDefault});
    }
    if (!config.synonyms.empty()) {
      config.value = config.synonyms.front().value;
      config.source = config.synonyms.front().source;
    }
    described.push_back(std::move(config));
  }
  return described;
}

std::vector<DescribedConfig> DescribeMirrorConfigs(const ConfigMap& configs) {
  std::vector<DescribedConfig> described;
  for (const MirrorConfigDefinition& definition : MirrorConfigTable()) {
    DescribedConfig config;
    config.name = definition.name;
    config.type = definition.type;
    config.read_only = definition.fixed;
    config.sensitive = definition.type == ConfigType::kPassword;
    config.doc = definition.doc;
    const auto shown = [&](std::string_view text) {
      return config.sensitive ? std::nullopt : std::optional(std::string(text));
    };
    if (const auto set = configs.find(config.name); set != configs.end()) {
      config.synonyms.push_back({config.name, shown(set->second), ConfigSource::kDynamicBroker});
    }
    if (definition.fallback) {
      config.synonyms.push_back({config.name, shown(*definition.fallback), ConfigSource::kDefault});
    }
    if (!config.synonyms.empty()) {
      config.value = config.synonyms.front().value;
      config.source = config.synonyms.front().source;
    }
    described.push_back(std::move(config));
  }
  return described;
}

}  // namespace kmirror::broker
