// Control requests to the source cluster of one mirror: who leads what, what it knows of us.
//
// Uses a connection of its own: control requests never wait behind a long poll (design.md). The
// production class is SourceClusterClient (src/fetcher), tests use a fake. Lane-confined to the
// coordinator's lane; answers arrive there, each exactly once, kTimedOut after the request timeout,
// kCancelled after Close. A source that cannot be reached answers kDisconnected, with the address
// and reason in the text; the client itself reconnects with backoff and jitter per broker.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "kmirror/host/partition_log.h"
#include "kmirror/host/runtime.h"
#include "kmirror/status.h"
#include "kmirror/types.h"
#include "src/fetcher/mirror_fetching.h"

namespace kmirror::fetcher {

struct SourcePartition {
  int32_t index = 0;
  int32_t leader_id = -1;                        // -1: election in progress
  int32_t leader_epoch = -1;                     // -1: the source is too old to tell
};

struct SourceTopic {
  std::string name;
  Uuid id;                                       // zero for sources without topic ids
  ErrorCode error = ErrorCode::kNone;            // kUnknownTopicOrPartition, ...
  std::vector<SourcePartition> partitions;       // by index
};

struct SourceMetadata {
  std::string cluster_id;
  std::map<int32_t, HostPort> brokers;
  std::vector<SourceTopic> topics;
};

// What the source's finalized features say (R17).
struct SourceFeatures {
  bool mirrors = false;                          // finalized `mirror.version` >= 1
};

// A mirror defined on the source, for the loop check (coordinator.md 3.1).
struct SourceMirror {
  std::string name;
  std::string source_cluster_id;
  std::vector<std::string> topics;               // desired MIRRORING or PAUSED
};

// The source's answer about one partition that it mirrors, or mirrored, from us (3.1 step 3 and 4).
struct SourceMirrorPosition {
  bool authoritative = false;  // R19, R20: every broker answered for it without error
  bool active = false;                           // a mirror of it copying from us is not STOPPED
  std::string active_state;                      // for the error text
  int32_t last_mirror_epoch = -1;
  int64_t last_mirror_offset = -1;               // -1: peer sends no offset
};

class SourceCluster {
 public:
  template <typename T>
  using Answer = std::function<void(Result<T>)>;

  virtual ~SourceCluster() = default;

  // Metadata of the named topics (empty: none, brokers and cluster id only). Never creates topics.
  virtual void DescribeTopics(std::vector<std::string> topics, Answer<SourceMetadata> answer) = 0;
  // Every topic name of the source (a second look before a deletion is believed, 4.4).
  virtual void ListTopics(Answer<std::vector<std::string>> answer) = 0;
  virtual void Features(Answer<SourceFeatures> answer) = 0;
  // kUnsupportedVersion when the source does not mirror.
  virtual void ListMirrors(Answer<std::vector<SourceMirror>> answer) = 0;
  virtual void MirrorPositions(std::string own_cluster_id, std::string topic,
                               TopicIdPartition partition, Answer<SourceMirrorPosition> answer) = 0;
  // One OffsetForLeaderEpoch exchange with the partition's source leader. `leader_epoch` is the
  // source's own, -1 unknown. Errors are Kafka's codes.
  virtual void EndOffsetForEpoch(std::string topic, int32_t partition, int32_t leader_id,
                                 int32_t leader_epoch, int32_t epoch,
                                 Answer<host::EpochEnd> answer) = 0;
  virtual void Close() = 0;
};

// Makes the client of one mirror. `lane` outlives the client.
class SourceClusterFactory {
 public:
  virtual ~SourceClusterFactory() = default;
  virtual std::unique_ptr<SourceCluster> Open(std::shared_ptr<const MirrorSourceConfig> config,
                                              host::Lane* lane) = 0;
};

}  // namespace kmirror::fetcher
