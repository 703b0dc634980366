#include "src/net/tcp_transport.h"

#include <utility>

#include "src/net/kafka_connection.h"

namespace kmirror::net {

std::unique_ptr<fetcher::Connection> TcpTransport::NewConnection(
    host::Lane* lane, fetcher::ConnectionOptions options) {
  return std::make_unique<KafkaConnection>(lane, &resolver_, &files_, std::move(options));
}

}  // namespace kmirror::net
