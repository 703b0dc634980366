// The mirror requests of a destination cluster, as the command line uses them.
//
// Confined to one thread. Errors are the broker's codes and texts; kDisconnected and kTimedOut when
// it does not answer.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "kmirror/status.h"
#include "kmirror/types.h"
#include "tools/client/cluster_client.h"

namespace kmirror::tools {

// One mirrored partition as its leader describes it; -1 is "not known".
struct PartitionRow {
  std::string mirror;
  std::string topic;
  int32_t partition = 0;
  std::string state;
  int64_t source_offset = -1;
  int64_t destination_offset = -1;
  int64_t lag = -1;
  int64_t lag_age_ms = -1;
  int32_t last_mirror_epoch = -1;
  int64_t last_mirror_offset = -1;
  int16_t retry_attempt = 0;  // -1: will not be retried
  std::optional<std::string> error_message;
  std::string step;

  bool CaughtUp() const { return state == "MIRRORING" && lag == 0; }
};

struct ListedMirror {
  std::string name;
  std::string source_bootstrap;
  std::string source_cluster_id;
  int32_t topic_count = 0;
  std::vector<std::string> topics;  // those not stopped
};

struct Description {
  std::vector<PartitionRow> rows;         // sorted by mirror, topic, partition
  std::vector<std::string> silent;        // brokers that did not answer: "broker 2: reason"
  std::map<std::string, Status> refused;  // mirrors answered with an error
};

struct TopicOutcome {
  std::string topic;
  Status status;
};

// A topic of the source, as StartMirrorTopics wants to know it; with a zero id and no partitions
// the broker looks it up.
struct SourceTopic {
  std::string name;
  Uuid id;
  int32_t partitions = 0;
};

// Offsets [first, end) of a partition.
struct LocalRange {
  int32_t partition = 0;
  int64_t first = 0;
  int64_t end = 0;
};

enum class Verb {
  kCreate,
  kStart,
  kPause,
  kResume,
  kStop,
  kRecover,
  kDelete,
  kList,
  kDescribe,
  kStatus
};
const char* VerbName(Verb verb);

class MirrorAdmin {
 public:
  explicit MirrorAdmin(ClusterClient* destination) : destination_(destination) {}

  // Is there a broker, and does it mirror (finalized feature `mirror.version`, R17)?
  // kUnsupportedVersion: it is a Kafka without mirroring.
  Status Check();
  Result<std::string> ClusterId();

  Result<std::vector<ListedMirror>> List();
  // Asks every broker; `mirror` empty means all mirrors.
  Result<Description> Describe(const std::string& mirror);
  // Configs of a mirror as the broker shows them (secrets are left out by the broker).
  Result<std::map<std::string, std::string>> Configs(const std::string& mirror);

  Status Create(const std::string& mirror, const std::map<std::string, std::string>& configs);
  Status Delete(const std::string& mirror);
  Result<std::vector<TopicOutcome>> Start(const std::string& mirror,
                                          const std::vector<SourceTopic>& topics,
                                          bool discard_local);
  // kPause, kResume, kStop or kRecover.
  Result<std::vector<TopicOutcome>> Change(Verb verb, const std::string& mirror,
                                           const std::vector<std::string>& topics);

  // How many partitions the destination has of each topic; those it does not have are left out.
  Result<std::map<std::string, int32_t>> Partitions(const std::vector<std::string>& topics);
  // What the destination holds of a topic: partitions with at least one offset, in order. Empty
  // when there is no such topic.
  Result<std::vector<LocalRange>> LocalData(const std::string& topic);

 private:
  ClusterClient* destination_;
};

// Every topic of a source cluster that is not internal, by name; and the cluster's id.
struct SourceCluster {
  std::string cluster_id;
  std::map<std::string, SourceTopic> topics;
};
Result<SourceCluster> ReadSource(const std::vector<HostPort>& bootstrap,
                                 std::chrono::milliseconds timeout);

}  // namespace kmirror::tools
