// Changes of the cluster's metadata that the library asks for. Each call is one atomic change: it
// is durable, applied here and visible in a delta before its completion says OK, or it has no
// effect.
//
// Called by: the coordinator's lane. Completions on any thread, exactly once. Must not throw.
// A host of several brokers forwards to its controller; kNotController and kTimedOut are retried by
// the library with backoff.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "kmirror/host/partition_log.h"
#include "kmirror/types.h"

namespace kmirror::host {

struct NewTopic {
  std::string name;
  Uuid id;  // zero: choose one (sources without topic ids)
  int32_t partitions = 1;
  std::map<std::string, std::string> configs;  // `mirror.name` among them
};

struct MirrorNameChange {
  Uuid topic_id;
  std::optional<std::string> value;  // NAME, NAME.paused, NAME.removed; nullopt removes
};

struct EpochBump {
  TopicIdPartition partition;
  int32_t min_leader_epoch = -1;  // the new epoch is strictly greater
};

class Controller {
 public:
  virtual ~Controller() = default;

  // kTopicAlreadyExists: the name or the id is taken. Replication factor is the host's default.
  virtual void CreateTopic(NewTopic topic, Completion done) = 0;
  // Raises the partition count; kInvalidPartitions when it is not greater than the present one.
  virtual void CreatePartitions(Uuid topic_id, int32_t count, Completion done) = 0;
  // All changes in one atomic step. `expected_version`: refused with kInvalidClusterMirrorState
  // when one of the topics' `mirror.name` changed after that metadata version (-1 skips the check).
  // The host closes the write barrier of the topics before it answers.
  virtual void SetMirrorNames(std::vector<MirrorNameChange> changes, int64_t expected_version,
                              Completion done) = 0;
  // Creates or changes the mirror's configs: a value sets, nullopt removes a key.
  // `create`: kClusterMirrorAlreadyExists when the mirror exists; otherwise kUnknownClusterMirror
  // when it does not.
  virtual void SetMirrorConfigs(std::string mirror,
                                std::map<std::string, std::optional<std::string>> changes,
                                bool create, Completion done) = 0;
  // Removes the mirror's configs and the `mirror.name` of every topic linked to it, in one step.
  virtual void DeleteMirror(std::string mirror, int64_t expected_version, Completion done) = 0;
  // Raises leader epochs (coordinator.md 3.5): an epoch <= the minimum becomes minimum + 1, a
  // greater one stays. Completion OK means applied; the library still waits for the delta that
  // shows it.
  virtual void BumpLeaderEpochs(std::vector<EpochBump> bumps, Completion done) = 0;
  // R9: producer ids that this cluster will allocate are above `max_seen`, if `max_seen` lies
  // inside the cluster's own range; otherwise OK without effect. Durable before OK.
  virtual void RaiseProducerIdFloor(int64_t max_seen, Completion done) = 0;
};

}  // namespace kmirror::host
