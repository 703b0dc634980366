#include "tests/support/wire_client.h"

#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <cstring>
#include <memory>

namespace kmirror::test {
namespace {

constexpr size_t kFrameBytesMax = 256 << 20;

Status Disconnected(const char* what) {
  return {ErrorCode::kDisconnected, std::string(what) + ": " + std::strerror(errno)};
}

}  // namespace

HostPort FirstServer(const std::string& bootstrap) {
  const std::string first = bootstrap.substr(0, bootstrap.find(','));
  const size_t colon = first.rfind(':');
  HostPort server;
  if (colon == std::string::npos) return server;
  server.host = first.substr(0, colon);
  std::from_chars(first.data() + colon + 1, first.data() + first.size(), server.port);
  return server;
}

Result<WireClient> WireClient::Connect(const std::string& bootstrap) {
  const HostPort server = FirstServer(bootstrap);
  addrinfo hints{};
  hints.ai_family = AF_INET;
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  const std::string port = std::to_string(server.port);
  if (const int code = ::getaddrinfo(server.host.c_str(), port.c_str(), &hints, &found);
      code != 0) {
    return {ErrorCode::kDisconnected, server.ToString() + ": " + ::gai_strerror(code)};
  }
  const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> owned(found, &::freeaddrinfo);
  const int fd = ::socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return Disconnected("socket");
  WireClient client(fd);
  if (::connect(fd, found->ai_addr, found->ai_addrlen) != 0) {
    return Disconnected("connect").WithContext(server.ToString());
  }
  const int on = 1;
  ::setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  return client;
}

WireClient::WireClient(WireClient&& other) noexcept
    : fd_(std::exchange(other.fd_, -1)),
      next_correlation_id_(other.next_correlation_id_),
      frame_(std::move(other.frame_)) {}

WireClient& WireClient::operator=(WireClient&& other) noexcept {
  std::swap(fd_, other.fd_);
  std::swap(next_correlation_id_, other.next_correlation_id_);
  std::swap(frame_, other.frame_);
  return *this;
}

WireClient::~WireClient() {
  if (fd_ >= 0) ::close(fd_);
}

Status WireClient::SendBytes(ByteView bytes) {
  while (!bytes.empty()) {
    const ssize_t sent = ::send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent < 0) return Disconnected("send");
    bytes = bytes.subspan(static_cast<size_t>(sent));
  }
  return {};
}

Status WireClient::ReceiveExactly(uint8_t* into, size_t size, const Deadline& deadline) {
  while (size > 0) {
    pollfd waiting{fd_, POLLIN, 0};
    const int ready = ::poll(&waiting, 1, static_cast<int>(deadline.Left().count()));
    if (ready == 0) return {ErrorCode::kTimedOut, "no answer by the deadline"};
    if (ready < 0 && errno != EINTR) return Disconnected("poll");
    if (ready < 0) continue;
    const ssize_t got = ::recv(fd_, into, size, 0);
    if (got == 0) return {ErrorCode::kDisconnected, "closed by the broker"};
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return Disconnected("receive");
    into += got;
    size -= static_cast<size_t>(got);
  }
  return {};
}

Result<std::vector<uint8_t>> WireClient::ReceiveFrame(Seconds patience) {
  const Deadline deadline(patience);
  uint8_t prefix[4];
  Status status = ReceiveExactly(prefix, sizeof prefix, deadline);
  if (!status.ok()) return status;
  const uint32_t size = uint32_t{prefix[0]} << 24 | uint32_t{prefix[1]} << 16 |
                        uint32_t{prefix[2]} << 8 | uint32_t{prefix[3]};
  if (size > kFrameBytesMax) {
    return {ErrorCode::kMalformed, "frame of " + std::to_string(size) + " bytes"};
  }
  std::vector<uint8_t> frame(size);
  status = ReceiveExactly(frame.data(), frame.size(), deadline);
  if (!status.ok()) return status;
  return frame;
}

}  // namespace kmirror::test
