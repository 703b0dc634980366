// fetcher::Transport over TCP.
#pragma once

#include <memory>

#include "src/fetcher/transport.h"
#include "src/net/resolver.h"

namespace kmirror::net {

// Thread-safe. Outlives its connections.
class TcpTransport : public fetcher::Transport {
 public:
  std::unique_ptr<fetcher::Connection> NewConnection(host::Lane* lane,
                                                     fetcher::ConnectionOptions options) override;

 private:
  Resolver resolver_;
};

}  // namespace kmirror::net
