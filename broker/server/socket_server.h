// Listens, reads request frames and writes answers. Knows nothing of Kafka beyond the size prefix.
//
// A few network threads; a connection lives on one of them. Requests of a connection are handled
// one at a time and answered in order. What a slow reader has not taken yet stays in the segment
// files.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "broker/server/frame_handler.h"
#include "kmirror/status.h"
#include "kmirror/types.h"

namespace kmirror::broker {

// Counted by the server, read by anyone.
struct SocketMetrics {
  std::atomic<int64_t> connections{0};  // open now
  std::atomic<int64_t> accepted{0};
  std::atomic<int64_t> refused{0};  // over a connection limit
  std::atomic<int64_t> closed_idle{0};
  std::atomic<int64_t> closed_bad_frame{0};  // impossible size
  std::atomic<int64_t> received_bytes{0};
  std::atomic<int64_t> sent_bytes{0};
};

class SocketServer {
 public:
  struct Options {
    std::vector<HostPort> listeners;              // port 0: any free one
    int32_t network_threads = 3;                  // num.network.threads, >= 1
    int32_t connections_max = 2147483647;         // max.connections
    int32_t connections_max_per_ip = 2147483647;  // max.connections.per.ip
    int32_t request_bytes_max = 104857600;        // socket.request.max.bytes
    int64_t request_memory_bytes = -1;            // queued.max.request.bytes; -1: no limit
    std::chrono::milliseconds idle_max{600000};   // connections.max.idle.ms; negative: never
    int32_t send_buffer_bytes = -1;     // socket.send.buffer.bytes; -1: the system's own choice
    int32_t receive_buffer_bytes = -1;  // socket.receive.buffer.bytes
    int32_t backlog = 50;               // socket.listen.backlog.size
  };
  // Level is one of "info", "warn", "debug"; any thread. Lines are `key=value` text.
  using LogLine = std::function<void(std::string_view level, const std::string& line)>;

  // `handler` outlives the server.
  SocketServer(const Options& options, FrameHandler* handler, LogLine log);
  ~SocketServer();  // stops
  SocketServer(const SocketServer&) = delete;
  SocketServer& operator=(const SocketServer&) = delete;

  // Binds every listener and starts the threads; accepts nothing before Accept(). The Status names
  // the address and the system's reason. Not to be called again.
  Status Start();
  void Accept();
  // The real addresses, in the order of Options::listeners; after Start.
  const std::vector<HostPort>& addresses() const { return addresses_; }

  // Closes the listeners, lets requests in progress finish for `grace`, closes everything, joins
  // the threads. Idempotent. After it no handler is called and replies are dropped.
  void Stop(std::chrono::milliseconds grace = std::chrono::milliseconds(500));

  // A loop for work of the caller's own (the metrics port); after Start.
  Loop* loop();
  const SocketMetrics& metrics() const;
  int64_t request_memory_used() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
  std::vector<HostPort> addresses_;
};

}  // namespace kmirror::broker
