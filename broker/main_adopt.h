// `kmirrord adopt`: the partitions of a stopped Kafka, taken into a data folder of ours.
#pragma once

#include <string>
#include <vector>

#include "broker/config/broker_config.h"
#include "kmirror/status.h"
#include "kmirror/types.h"

namespace kmirror::broker {

struct AdoptOptions {
  std::string kafka_dir;  // a log directory of Kafka: it has meta.properties and <topic>-<n>
  BrokerConfig config;    // of the broker that takes them; log_dir is created if missing
  std::vector<std::string> topics;  // only these; empty: all
  bool internal = false;  // also __consumer_offsets, __transaction_state, __share_group_state
};

struct AdoptedPartition {
  std::string topic;
  int32_t partition = 0;
  Uuid topic_id;
  int64_t log_start = 0;
  int64_t log_end = 0;
  int64_t open_transactions = 0;
  int64_t torn_bytes = 0;  // cut off an end that a crash had left half written
  bool missing = false;    // a gap in the numbers: made empty
};

struct AdoptReport {
  std::vector<AdoptedPartition> partitions;
  std::vector<std::string> skipped;  // "directory: why"
};

// Copies, never moves: the Kafka folder stays as it is. Each topic keeps its id and gets a leader
// epoch above every epoch of its logs. Refused before anything is written: either folder in use, a
// partition without partition.metadata, a topic or id that the data folder has already. Every
// copied log is scanned whole, checksums included. If it fails later on, the topics it made are
// gone again, or the text says what is left.
Result<AdoptReport> Adopt(const AdoptOptions& options);

}  // namespace kmirror::broker
