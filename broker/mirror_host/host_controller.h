// host::Controller over this broker's controller: one thread makes the changes, in order.
#pragma once

#include <functional>
#include <mutex>
#include <vector>

#include "broker/controller/controller.h"
#include "broker/mirror_host/worker_pool.h"
#include "kmirror/host/controller.h"

namespace kmirror::broker {

class HostController final : public host::Controller {
 public:
  // Both outlive this; `worker` has one thread.
  HostController(broker::Controller* controller, WorkerPool* worker)
      : controller_(controller), worker_(worker) {}

  void CreateTopic(host::NewTopic topic, host::Completion done) override;
  void CreatePartitions(Uuid topic_id, int32_t count, host::Completion done) override;
  void SetMirrorNames(std::vector<host::MirrorNameChange> changes, int64_t expected_version,
                      host::Completion done) override;
  void SetMirrorConfigs(std::string mirror,
                        std::map<std::string, std::optional<std::string>> changes, bool create,
                        host::Completion done) override;
  void DeleteMirror(std::string mirror, int64_t expected_version, host::Completion done) override;
  void BumpLeaderEpochs(std::vector<host::EpochBump> bumps, host::Completion done) override;
  void RaiseProducerIdFloor(int64_t max_seen, host::Completion done) override;

 private:
  struct Waiting {
    std::vector<LeaderEpochBump> bumps;
    host::Completion done;
  };
  void OnWorker(host::Completion done, std::function<Status(broker::Controller&)> call);
  // Raises that wait together become one change: one sync for all partitions of a mirror.
  void BumpWaiting();

  broker::Controller* const controller_;
  WorkerPool* const worker_;
  std::mutex mutex_;  // guards bumps_
  std::vector<Waiting> bumps_;
};

}  // namespace kmirror::broker
