// A TCP proxy in front of a Kafka broker that does to its answers what a test says: changes them,
// cuts them, sends them slowly or a byte at a time, or never.
//
// Requests pass as they are unless a test changes them. Answers are read whole and given to the
// script, which knows the request they belong to (Kafka answers in order). A broker whose
// advertised address is the proxy's is reached through it by every client. Threads of its own; the
// script runs on them, one call at a time.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "kmirror/types.h"

namespace kmirror::test {

class KafkaProxy {
 public:
  // One answer on its way to the client.
  struct Answer {
    int16_t api_key = 0;
    int16_t version = 0;
    std::string client_id;
    std::vector<uint8_t> bytes;  // size prefix, header, body: what will be sent
    // Bytes sent at a time, and how long it is until the next are.
    size_t piece = std::numeric_limits<size_t>::max();
    std::chrono::milliseconds pause{0};
    // So many bytes are sent, then both connections are broken.
    std::optional<size_t> cut_after;
    // Sent (up to cut_after), and then nothing more is, though the connection stays open.
    bool silent_afterwards = false;
  };
  using Script = std::function<void(Answer*)>;
  // A whole request on its way to the broker: size prefix, header, body.
  using RequestScript = std::function<void(std::vector<uint8_t>*)>;

  // Listens on a free port of 127.0.0.1; forwards once it is told where to.
  KafkaProxy();
  ~KafkaProxy();
  KafkaProxy(const KafkaProxy&) = delete;
  KafkaProxy& operator=(const KafkaProxy&) = delete;

  HostPort address() const { return {"127.0.0.1", port_}; }
  void ForwardTo(HostPort upstream);
  // Of answers that are read from now on; null: as they are.
  void SetScript(Script script);
  // Of requests that are read from now on; null: as they are.
  void SetRequestScript(RequestScript script);
  // While hung, connections are accepted and nothing is read, forwarded or answered; those that
  // were open before are silent too.
  void Hang(bool hung);
  // Breaks every connection.
  void Cut();
  int64_t connections() const { return accepted_; }

 private:
  struct Pair;
  void Accept();
  void Serve(const std::shared_ptr<Pair>& pair);
  void Requests(const std::shared_ptr<Pair>& pair);
  void Answers(const std::shared_ptr<Pair>& pair);
  // Waits while hung; false: the pair or the proxy is over.
  bool Pass(const Pair& pair) const;

  int listen_fd_ = -1;
  int32_t port_ = 0;
  std::atomic<bool> stopping_{false};
  std::atomic<bool> hung_{false};
  std::atomic<int64_t> accepted_{0};
  mutable std::mutex mutex_;
  HostPort upstream_;  // guarded by mutex_
  Script script_;      // guarded by script_mutex_, as the next
  RequestScript request_script_;
  std::mutex script_mutex_;
  std::vector<std::shared_ptr<Pair>> pairs_;  // guarded by mutex_
  std::vector<std::thread> threads_;          // guarded by mutex_
  std::thread accepting_;
};

}  // namespace kmirror::test
