#include "tools/client/kafka_connection.h"

#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>

#include "messages/api_versions.h"

namespace kmirror::tools {
namespace {

using Clock = std::chrono::steady_clock;

// No answer of an admin request comes near it; a length beyond means another protocol.
constexpr uint32_t kMaxFrameBytes = 256u << 20;

int MillisLeft(Clock::time_point deadline) {
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - Clock::now()).count();
  return static_cast<int>(std::clamp<int64_t>(left, 0, 1 << 30));
}

Status Errno(const char* what) {
  return {ErrorCode::kDisconnected, std::string(what) + ": " + std::strerror(errno)};
}

// Waits until `fd` is ready for `events`.
Status Await(int fd, short events, Clock::time_point deadline, const char* what) {
  while (true) {
    pollfd poll_fd{fd, events, 0};
    const int ready = poll(&poll_fd, 1, MillisLeft(deadline));
    if (ready > 0) return {};
    if (ready == 0) return {ErrorCode::kTimedOut, std::string(what) + " timed out"};
    if (errno != EINTR) return Errno("poll");
  }
}

Result<int> ConnectTo(const HostPort& address, Clock::time_point deadline) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  const int error =
      getaddrinfo(address.host.c_str(), std::to_string(address.port).c_str(), &hints, &found);
  if (error != 0) {
    return {ErrorCode::kDisconnected, std::string("unknown host: ") + gai_strerror(error)};
  }
  const std::unique_ptr<addrinfo, void (*)(addrinfo*)> owner(found, freeaddrinfo);
  Status last(ErrorCode::kDisconnected, "no address");
  for (const addrinfo* one = found; one != nullptr; one = one->ai_next) {
    const int fd = socket(one->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0) {
      last = Errno("socket");
      continue;
    }
    last = {};
    if (connect(fd, one->ai_addr, one->ai_addrlen) != 0) {
      if (errno != EINPROGRESS) {
        last = Errno("connect");
      } else if (last = Await(fd, POLLOUT, deadline, "connect"); last.ok()) {
        int code = 0;
        socklen_t size = sizeof code;
        getsockopt(fd, SOL_SOCKET, SO_ERROR, &code, &size);
        if (code != 0) last = {ErrorCode::kDisconnected, std::strerror(code)};
      }
    }
    if (last.ok()) {
      const int on = 1;
      setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
      return fd;
    }
    close(fd);
  }
  return last;
}

}  // namespace

Result<KafkaConnection> KafkaConnection::Open(const HostPort& address,
                                              std::chrono::milliseconds timeout) {
  const Result<int> fd = ConnectTo(address, Clock::now() + timeout);
  if (!fd.ok()) return fd.status().WithContext(address.ToString());
  KafkaConnection connection(address, timeout, *fd);
  if (Status status = connection.AskVersions(); !status.ok()) return status;
  return connection;
}

KafkaConnection::KafkaConnection(KafkaConnection&& other) noexcept
    : address_(std::move(other.address_)),
      timeout_(other.timeout_),
      fd_(std::exchange(other.fd_, -1)),
      next_id_(other.next_id_),
      served_(std::move(other.served_)),
      frame_(std::move(other.frame_)) {}

KafkaConnection& KafkaConnection::operator=(KafkaConnection&& other) noexcept {
  if (this != &other) {
    Close();
    address_ = std::move(other.address_);
    timeout_ = other.timeout_;
    fd_ = std::exchange(other.fd_, -1);
    next_id_ = other.next_id_;
    served_ = std::move(other.served_);
    frame_ = std::move(other.frame_);
  }
  return *this;
}

KafkaConnection::~KafkaConnection() { Close(); }

void KafkaConnection::Close() {
  if (fd_ >= 0) close(fd_);
  fd_ = -1;
}

Status KafkaConnection::AskVersions() {
  protocol::ApiVersionsRequest request;
  request.client_software_name = "kmirror";
  request.client_software_version = "0.1";
  // Version 3 brings the features. A broker that does not know it answers in version 0 with code 35
  // and its own range; without 3 there are no features and so no mirroring.
  int16_t version = 3;
  auto answer = CallVersion<protocol::ApiVersionsResponse>(request, version);
  if (!answer.ok() && answer.status().code() == ErrorCode::kMalformed && broken()) {
    const Result<int> fd = ConnectTo(address_, Clock::now() + timeout_);
    if (!fd.ok()) return fd.status().WithContext(Where());
    fd_ = *fd;
    answer = CallVersion<protocol::ApiVersionsResponse>(protocol::ApiVersionsRequest{}, 0);
  }
  if (!answer.ok()) return answer.status().WithContext("ApiVersions");
  if (answer->error_code != 0) {
    return {static_cast<ErrorCode>(answer->error_code), Where() + ": ApiVersions was refused"};
  }
  for (const auto& api : answer->api_keys) {
    served_.apis[api.api_key] = {api.min_version, api.max_version};
  }
  for (const auto& feature : answer->finalized_features) {
    served_.features[feature.name] = feature.max_version_level;
  }
  return {};
}

Result<int16_t> KafkaConnection::Negotiate(int16_t key, int16_t min, int16_t max,
                                           const char* name) const {
  const auto it = served_.apis.find(key);
  if (it == served_.apis.end()) {
    return {ErrorCode::kUnsupportedVersion, Where() + " does not serve " + name};
  }
  const int16_t lowest = std::max(min, it->second.min_version);
  const int16_t greatest = std::min(max, it->second.max_version);
  if (lowest > greatest) {
    return {ErrorCode::kUnsupportedVersion,
            Where() + " serves " + name + " in versions " + std::to_string(it->second.min_version) +
                " to " + std::to_string(it->second.max_version) + ", we know " +
                std::to_string(min) + " to " + std::to_string(max)};
  }
  return greatest;
}

Status KafkaConnection::Receive(uint8_t* into, size_t size, Clock::time_point deadline) {
  while (size > 0) {
    if (Status status = Await(fd_, POLLIN, deadline, "the answer"); !status.ok()) return status;
    const ssize_t got = recv(fd_, into, size, 0);
    if (got == 0) return {ErrorCode::kDisconnected, "the broker closed the connection"};
    if (got < 0) {
      if (errno == EINTR || errno == EAGAIN) continue;
      return Errno("receive");
    }
    into += got;
    size -= static_cast<size_t>(got);
  }
  return {};
}

Status KafkaConnection::Exchange(const std::vector<uint8_t>& frame) {
  if (fd_ < 0) return {ErrorCode::kDisconnected, "the connection is closed"};
  const Clock::time_point deadline = Clock::now() + timeout_;
  auto exchange = [&]() -> Status {
    for (size_t sent = 0; sent < frame.size();) {
      if (Status status = Await(fd_, POLLOUT, deadline, "sending"); !status.ok()) return status;
      const ssize_t now = send(fd_, frame.data() + sent, frame.size() - sent, MSG_NOSIGNAL);
      if (now < 0) {
        if (errno == EINTR || errno == EAGAIN) continue;
        return Errno("send");
      }
      sent += static_cast<size_t>(now);
    }
    uint8_t size[4];
    if (Status status = Receive(size, sizeof size, deadline); !status.ok()) return status;
    const uint32_t length = uint32_t{size[0]} << 24 | uint32_t{size[1]} << 16 |
                            uint32_t{size[2]} << 8 | uint32_t{size[3]};
    if (length > kMaxFrameBytes) {
      return {ErrorCode::kMalformed, "this does not answer in Kafka's protocol (a TLS listener?)"};
    }
    frame_.resize(length);
    return Receive(frame_.data(), frame_.size(), deadline);
  };
  Status status = exchange();
  if (!status.ok()) Close();
  return status;
}

Result<std::vector<HostPort>> ParseServers(const std::string& text) {
  std::vector<HostPort> servers;
  size_t at = 0;
  while (at <= text.size()) {
    const size_t comma = std::min(text.find(',', at), text.size());
    std::string part = text.substr(at, comma - at);
    at = comma + 1;
    part.erase(0, part.find_first_not_of(' '));
    part.erase(part.find_last_not_of(' ') + 1);
    const size_t colon = part.rfind(':');
    HostPort server;
    if (colon != std::string::npos) {
      server.host = part.substr(0, colon);
      if (server.host.size() > 2 && server.host.front() == '[' && server.host.back() == ']') {
        server.host = server.host.substr(1, server.host.size() - 2);
      }
      const std::string port = part.substr(colon + 1);
      if (!port.empty() && port.size() <= 5 &&
          port.find_first_not_of("0123456789") == std::string::npos) {
        server.port = std::stoi(port);
      }
    }
    if (server.host.empty() || server.port < 1 || server.port > 65535) {
      return {ErrorCode::kUsage, "\"" + part + "\" is not HOST:PORT"};
    }
    servers.push_back(std::move(server));
  }
  return servers;
}

}  // namespace kmirror::tools
