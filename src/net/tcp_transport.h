// fetcher::Transport over TCP, with TLS for connections whose options ask for it.
#pragma once

#include <memory>

#include "src/fetcher/transport.h"
#include "src/net/resolver.h"
#include "src/net/worker.h"

namespace kmirror::net {

// Thread-safe. Outlives its connections.
class TcpTransport : public fetcher::Transport {
 public:
  std::unique_ptr<fetcher::Connection> NewConnection(host::Lane* lane,
                                                     fetcher::ConnectionOptions options) override;

 private:
  Resolver resolver_;
  Worker files_;  // apart from the resolver: each may hang by itself
};

}  // namespace kmirror::net
