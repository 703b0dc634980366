// kmirrord as a host of the library: implements kmirror/host/* over controller, logs and lanes.
//
// Start after the controller's Start and once the logs are open; Stop before either goes. Between
// the two, mirror() serves mirror requests.
#pragma once

#include <chrono>
#include <memory>

#include "broker/config/broker_config.h"
#include "broker/controller/controller.h"
#include "broker/controller/log_directory.h"
#include "kmirror/mirror.h"

namespace kmirror::broker {

class MirrorHost {
 public:
  // The arguments outlive this.
  MirrorHost(Controller& controller, LogDirectory& logs, const BrokerConfig& config);
  ~MirrorHost();  // Stops if need be

  // Hands the library its snapshot, then every shard of __mirror_state this broker leads.
  Status Start();
  // Blocks until the library has let go (at most `deadline` plus a host call in flight).
  void Stop(std::chrono::milliseconds deadline = std::chrono::seconds(10));

  // nullptr before Start and after Stop.
  Mirror* mirror();

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace kmirror::broker
