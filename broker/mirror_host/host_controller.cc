#include "broker/mirror_host/host_controller.h"

#include <utility>

namespace kmirror::broker {

void HostController::OnWorker(host::Completion done,
                              std::function<Status(broker::Controller&)> call) {
  const bool taken = worker_->Run(
      [controller = controller_, done, call = std::move(call)] { done(call(*controller)); });
  if (!taken) done({ErrorCode::kCancelled, "the broker is shutting down"});
}

void HostController::CreateTopic(host::NewTopic topic, host::Completion done) {
  OnWorker(std::move(done), [topic = std::move(topic)](broker::Controller& controller) {
    NewTopic created;
    created.name = topic.name;
    created.id = topic.id;
    created.partitions = topic.partitions;
    created.configs = topic.configs;
    return controller.CreateTopic(std::move(created), broker::Controller::Origin::kMirror).status;
  });
}

void HostController::CreatePartitions(Uuid topic_id, int32_t count, host::Completion done) {
  OnWorker(std::move(done), [topic_id, count](broker::Controller& controller) {
    return controller.CreatePartitions(topic_id, count, false, broker::Controller::Origin::kMirror);
  });
}

void HostController::SetMirrorNames(std::vector<host::MirrorNameChange> changes,
                                    int64_t expected_version, host::Completion done) {
  OnWorker(std::move(done),
           [changes = std::move(changes), expected_version](broker::Controller& controller) {
             std::vector<MirrorNameSetting> settings;
             for (const host::MirrorNameChange& change : changes) {
               settings.push_back({change.topic_id, change.value});
             }
             return controller.SetMirrorNames(settings, expected_version);
           });
}

void HostController::SetMirrorConfigs(std::string mirror,
                                      std::map<std::string, std::optional<std::string>> changes,
                                      bool create, host::Completion done) {
  OnWorker(std::move(done), [mirror = std::move(mirror), changes = std::move(changes),
                             create](broker::Controller& controller) {
    return controller.SetMirrorConfigs(mirror, changes, create);
  });
}

void HostController::DeleteMirror(std::string mirror, int64_t expected_version,
                                  host::Completion done) {
  OnWorker(std::move(done),
           [mirror = std::move(mirror), expected_version](broker::Controller& controller) {
             return controller.DeleteMirror(mirror, expected_version);
           });
}

void HostController::BumpLeaderEpochs(std::vector<host::EpochBump> bumps, host::Completion done) {
  std::vector<LeaderEpochBump> wanted;
  wanted.reserve(bumps.size());
  for (const host::EpochBump& bump : bumps) {
    wanted.push_back({bump.partition, bump.min_leader_epoch});
  }
  {
    const std::lock_guard lock(mutex_);
    bumps_.push_back({std::move(wanted), done});
  }
  // One task a request; the first to run takes all that wait and leaves the others nothing.
  if (worker_->Run([this] { BumpWaiting(); })) return;
  std::vector<Waiting> refused;
  {
    const std::lock_guard lock(mutex_);
    refused.swap(bumps_);
  }
  for (Waiting& waiting : refused) {
    waiting.done({ErrorCode::kCancelled, "the broker is shutting down"});
  }
}

void HostController::BumpWaiting() {
  std::vector<Waiting> group;
  {
    const std::lock_guard lock(mutex_);
    group.swap(bumps_);
  }
  if (group.empty()) return;
  std::vector<LeaderEpochBump> all;
  for (const Waiting& waiting : group) {
    all.insert(all.end(), waiting.bumps.begin(), waiting.bumps.end());
  }
  const Status together = controller_->BumpLeaderEpochs(all);
  for (Waiting& waiting : group) {
    // One bad request must not fail the others.
    waiting.done(together.ok() || group.size() == 1 ? together
                                                    : controller_->BumpLeaderEpochs(waiting.bumps));
  }
}

void HostController::RaiseProducerIdFloor(int64_t max_seen, host::Completion done) {
  OnWorker(std::move(done), [max_seen](broker::Controller& controller) {
    return controller.RaiseProducerIdFloor(max_seen);
  });
}

}  // namespace kmirror::broker
