// Everything the library of one broker needs, and the feed of metadata to it: the seam of kmirrord.
//
// MirrorHost puts the library's Mirror on it, the conformance suite a recording one.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <set>
#include <vector>

#include "broker/config/broker_config.h"
#include "broker/controller/controller.h"
#include "broker/controller/log_directory.h"
#include "broker/mirror_host/host_controller.h"
#include "broker/mirror_host/host_partition_log.h"
#include "broker/mirror_host/host_state_topic.h"
#include "broker/mirror_host/worker_pool.h"
#include "kmirror/host/host.h"
#include "kmirror/mirror.h"

namespace kmirror::broker {

class BrokerHost final : private MetadataListener {
 public:
  // The arguments outlive this. `make_workers` null: threads.
  BrokerHost(Controller& controller, LogDirectory& logs, const BrokerConfig& config,
             host::Runtime& runtime, const MakeWorkerPool& make_workers = nullptr);
  ~BrokerHost() override;  // Stops

  host::Host AsHost();
  // Tells the snapshot, the shards of __mirror_state, then every change. At most once.
  Status Attach(Mirror* mirror);
  // Nothing more is told, requests to peers answer kDisconnected; one may still be running. Calls
  // of the library go on until Stop.
  void Detach();
  // Detaches; runs what was given to the workers and ends them. Later calls answer kCancelled.
  void Stop();

 private:
  // One broker: a request to itself goes to Mirror::HandleRequest, others reach nobody.
  class LoopbackPeers final : public host::Peers {
   public:
    explicit LoopbackPeers(BrokerHost* host) : host_(host) {}
    void Send(int32_t broker, int16_t api_key, int16_t version, std::vector<uint8_t> body,
              Answer answer) override;

   private:
    BrokerHost* const host_;
  };

  Status Load(const ImagePtr& image) override;
  void Published(const ImageDelta& delta, const ImagePtr& image) noexcept override;
  void GainShards(const MetadataImage& image, Mirror* mirror);
  Mirror* mirror();

  Controller& controller_;
  const int32_t node_id_;
  host::Runtime& runtime_;
  const std::unique_ptr<WorkerPool> changes_;
  const std::unique_ptr<WorkerPool> states_;
  const std::unique_ptr<WorkerPool> disk_;
  HostLogs host_logs_;
  HostController host_controller_;
  HostStateTopic state_topic_;
  LoopbackPeers peers_;
  std::set<int32_t> shards_;  // told of; guarded by the controller's lock

  std::mutex mutex_;
  Mirror* mirror_ = nullptr;
};

}  // namespace kmirror::broker
