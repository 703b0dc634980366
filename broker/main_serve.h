// A whole broker: everything that kmirrord is made of, started and stopped in the right order.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "broker/config/broker_config.h"
#include "kmirror/status.h"
#include "kmirror/types.h"

namespace kmirror::broker {

// Start and Stop from one thread; starts threads of its own.
class RunningBroker {
 public:
  // Level: "info", "warn", "debug"; any thread.
  using LogLine = std::function<void(std::string_view level, const std::string& line)>;

  // Locks the data folder, recovers the logs, starts the mirrors, then serves. An error leaves
  // nothing running; its text says what is in the way.
  static Result<std::unique_ptr<RunningBroker>> Start(const BrokerConfig& config, LogLine log);
  ~RunningBroker();  // stops

  // Where clients reach it, and the cluster it is.
  const HostPort& address() const;
  const std::string& cluster_id() const;
  // Of the metrics page; port 0 without one.
  const HostPort& metrics_address() const;

  // Requests in progress get a moment, mirrors are let go, logs closed in order. Idempotent.
  Status Stop();

 private:
  class Impl;
  explicit RunningBroker(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace kmirror::broker
