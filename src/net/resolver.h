// Host names to addresses without blocking a lane. Numeric addresses are answered at once; names go
// to a worker: getaddrinfo may block for long.
//
// Thread-safe.
#pragma once

#include <sys/socket.h>

#include <functional>
#include <vector>

#include "kmirror/host/runtime.h"
#include "kmirror/status.h"
#include "kmirror/types.h"
#include "src/net/worker.h"

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
  using Ticket = Worker::Ticket;  // 0: answered already

  // `answer` runs on `lane`, unless cancelled before.
  Ticket Resolve(const HostPort& endpoint, host::Lane* lane, Answer answer);
  // As Worker::Cancel.
  void Cancel(Ticket ticket) { worker_.Cancel(ticket); }

 private:
  Worker worker_;
};

}  // namespace kmirror::net
