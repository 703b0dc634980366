// Host names to addresses without blocking a lane. Numeric addresses are answered at once; names go
// to one thread of the resolver's own, started with the first name: getaddrinfo is the only call of
// this library that may block for long, and no lane may.
//
// Thread-safe.
#pragma once

#include <sys/socket.h>

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "kmirror/host/runtime.h"
#include "kmirror/status.h"
#include "kmirror/types.h"

namespace kmirror::net {

struct SocketAddress {
  sockaddr_storage storage{};
  socklen_t size = 0;
};

// The address of a numeric host (IPv4, or IPv6 with or without brackets); empty when it is a name.
std::vector<SocketAddress> NumericAddress(const HostPort& endpoint);

class Resolver {
 public:
  using Answer = std::function<void(Result<std::vector<SocketAddress>>)>;
  using Ticket = uint64_t;

  Resolver() = default;
  ~Resolver();  // waits for a look-up that is under way
  Resolver(const Resolver&) = delete;
  Resolver& operator=(const Resolver&) = delete;

  // `answer` runs on `lane`, unless cancelled before.
  Ticket Resolve(const HostPort& endpoint, host::Lane* lane, Answer answer);
  // Afterwards nothing more is posted to the ticket's lane. What was posted already still runs.
  void Cancel(Ticket ticket);

 private:
  struct Question {
    Ticket ticket = 0;
    HostPort endpoint;
    host::Lane* lane = nullptr;
    Answer answer;
  };
  void Run();

  std::mutex mutex_;
  std::condition_variable wake_;
  std::deque<Question> queue_;   // guarded by mutex_, as the rest
  Ticket last_ticket_ = 0;
  Ticket running_ = 0;           // 0: none, or cancelled
  bool stop_ = false;
  std::thread thread_;
};

}  // namespace kmirror::net
