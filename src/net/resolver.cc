#include "src/net/resolver.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>

#include <cstring>
#include <string>
#include <utility>

namespace kmirror::net {
namespace {

Result<std::vector<SocketAddress>> LookUp(const HostPort& endpoint) {
  addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_ADDRCONFIG;
  addrinfo* found = nullptr;
  const std::string port = std::to_string(endpoint.port);
  const int error = getaddrinfo(endpoint.host.c_str(), port.c_str(), &hints, &found);
  if (error != 0) {
    return Status(ErrorCode::kDisconnected,
                  "cannot resolve " + endpoint.ToString() + ": " + gai_strerror(error));
  }
  std::vector<SocketAddress> addresses;
  for (const addrinfo* at = found; at != nullptr; at = at->ai_next) {
    if (at->ai_addrlen > sizeof(sockaddr_storage)) continue;
    SocketAddress address;
    std::memcpy(&address.storage, at->ai_addr, at->ai_addrlen);
    address.size = at->ai_addrlen;
    addresses.push_back(address);
  }
  freeaddrinfo(found);
  if (addresses.empty()) {
    return Status(ErrorCode::kDisconnected, endpoint.ToString() + " has no address");
  }
  return addresses;
}

}  // namespace

std::vector<SocketAddress> NumericAddress(const HostPort& endpoint) {
  SocketAddress address;
  auto* v4 = reinterpret_cast<sockaddr_in*>(&address.storage);
  if (inet_pton(AF_INET, endpoint.host.c_str(), &v4->sin_addr) == 1) {
    v4->sin_family = AF_INET;
    v4->sin_port = htons(static_cast<uint16_t>(endpoint.port));
    address.size = sizeof(sockaddr_in);
    return {address};
  }
  std::string host = endpoint.host;
  if (host.size() > 2 && host.front() == '[' && host.back() == ']') {
    host = host.substr(1, host.size() - 2);
  }
  auto* v6 = reinterpret_cast<sockaddr_in6*>(&address.storage);
  if (inet_pton(AF_INET6, host.c_str(), &v6->sin6_addr) == 1) {
    v6->sin6_family = AF_INET6;
    v6->sin6_port = htons(static_cast<uint16_t>(endpoint.port));
    address.size = sizeof(sockaddr_in6);
    return {address};
  }
  return {};
}

Resolver::Ticket Resolver::Resolve(const HostPort& endpoint, host::Lane* lane, Answer answer) {
  if (auto numeric = NumericAddress(endpoint); !numeric.empty()) {
    lane->Post([answer = std::move(answer), numeric = std::move(numeric)] { answer(numeric); });
    return 0;
  }
  return worker_.Run(lane, [endpoint, answer = std::move(answer)]() -> Worker::Answer {
    return [answer, found = LookUp(endpoint)] { answer(found); };
  });
}

}  // namespace kmirror::net
