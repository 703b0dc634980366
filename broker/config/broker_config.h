// What kmirrord is started with: a Kafka-style `.properties` file, with Kafka's own key names.
//
// Parsed once at start; values are plain and never change afterwards (what may change while the
// broker runs lives in the controller's metadata, see MetadataImage::broker_configs).
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "kmirror/options.h"
#include "kmirror/status.h"
#include "kmirror/types.h"

namespace kmirror::broker {

struct Property {
  std::string value;
  int line = 0;  // 1-based; 0 when it did not come from a file
};
using Properties = std::map<std::string, Property>;

// Java's .properties syntax as far as people use it: `key=value`, `key: value`, `#` and `!`
// comments, a trailing backslash continues the line, `\n \t \\ \: \= \uXXXX` escapes. A key given
// twice takes the last value, as in Java. kInvalidConfig names file and line.
Result<Properties> ParseProperties(std::string_view text, std::string_view file);

struct Listener {
  std::string name;               // "PLAINTEXT", "EXTERNAL", ...; upper case
  std::string security_protocol;  // PLAINTEXT; Parse refuses what the server cannot serve yet
  HostPort bind;                  // host "" is every address; port 0 lets the system choose
  HostPort advertised;  // what Metadata answers; port 0: the bound one; never an empty host
};

struct BrokerConfig {
  // --- identity and places
  int32_t node_id = 0;              // node.id (broker.id)
  std::string cluster_id;           // cluster.id; "": meta.properties', or made when formatting
  std::string log_dir;              // log.dirs, exactly one
  std::string metadata_dir;         // kmirror.metadata.dir; default <log.dirs>/kmirror.metadata
  std::vector<Listener> listeners;  // listeners + advertised.listeners + ...protocol.map
  std::string rack;                 // broker.rack
  std::optional<HostPort> metrics;  // kmirror.metrics.listener `host:port`; none: no /metrics
  std::string log_level = "info";   // kmirror.log.level: trace, debug, info, warn, error

  // --- network
  int32_t num_network_threads = 2;        // num.network.threads (Kafka: 3; ours are event loops)
  int32_t num_io_threads = 8;             // num.io.threads: threads that may block on the disk
  int32_t socket_send_buffer_bytes = -1;  // socket.send.buffer.bytes; -1: the system's
  int32_t socket_receive_buffer_bytes = -1;
  int32_t socket_request_max_bytes = 104857600;
  int32_t max_connections = 2147483647;
  int32_t max_connections_per_ip = 2147483647;
  int64_t queued_max_request_bytes = -1;  // -1: no limit
  int32_t queued_max_requests = 500;
  int64_t connections_max_idle_ms = 600000;
  int32_t fetch_max_bytes = 57671680;
  int32_t max_incremental_fetch_session_cache_slots = 1000;

  // --- topics
  int32_t num_partitions = 1;
  bool auto_create_topics_enable = true;
  bool delete_topic_enable = true;
  int16_t default_replication_factor = 1;
  int32_t offsets_topic_num_partitions = 50;
  int32_t transaction_state_log_num_partitions = 50;

  // --- logs; each is the default of the topic config it is a synonym of (config_table.h). Read
  // them through LogConfigFor, which applies topic overrides.
  int64_t log_flush_offset_checkpoint_interval_ms = 60000;
  int64_t replica_high_watermark_checkpoint_interval_ms = 5000;
  int64_t log_retention_check_interval_ms = 300000;
  int64_t log_segment_delete_delay_ms = 60000;
  int64_t producer_id_expiration_ms = 86400000;
  int32_t open_files_max = 2000;  // kmirror.open.files.max

  // --- mirroring (protocol.md 4.1)
  Options mirror;
  int32_t mirror_state_topic_num_partitions = 50;
  int16_t mirror_state_topic_replication_factor = 1;  // R36: min(3, brokers)
  int64_t mirror_replication_throttled_rate = INT64_MAX;

  // Every key that was given, as text, known and validated. Get is the way to keys without a field.
  std::map<std::string, std::string> given;

  // The given value, else the default of the key's definition, else nullopt (no default).
  std::optional<std::string> Get(std::string_view key) const;

  // kInvalidConfig: unknown key, bad value, or a rule between keys (node.id, listeners and log.dirs
  // are required). The text is `file:line: key: reason`, or `file: key: reason` for a missing key.
  static Result<BrokerConfig> Parse(std::string_view text, std::string_view file);
  static Result<BrokerConfig> Load(const std::string& path);
};

}  // namespace kmirror::broker
