// Everything the library asks of a host, in one place.
#pragma once

#include <memory>

#include "kmirror/host/controller.h"
#include "kmirror/host/metadata.h"
#include "kmirror/host/partition_log.h"
#include "kmirror/host/peers.h"
#include "kmirror/host/runtime.h"
#include "kmirror/host/state_topic.h"

namespace kmirror::host {

// Finds the log of a partition that this broker leads. Any thread. nullptr: not led here, deleted,
// or not open yet; the library then waits for the next delta of that topic and its own retry.
class Logs {
 public:
  virtual ~Logs() = default;
  virtual std::shared_ptr<PartitionLog> Find(const TopicIdPartition& partition) = 0;
};

// Borrowed by the Mirror; all must outlive it.
struct Host {
  Runtime* runtime = nullptr;
  Logs* logs = nullptr;
  Controller* controller = nullptr;
  StateTopic* state_topic = nullptr;
  Peers* peers = nullptr;
};

}  // namespace kmirror::host
