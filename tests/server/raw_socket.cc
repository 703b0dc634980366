#include "tests/server/raw_socket.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>

namespace kmirror::test {

RawSocket::RawSocket(const HostPort& address, int receive_buffer) {
  if (Connect(address, receive_buffer)) return;
  std::perror(("connect " + address.ToString()).c_str());
  std::abort();
}

std::unique_ptr<RawSocket> RawSocket::Try(const HostPort& address, int receive_buffer) {
  std::unique_ptr<RawSocket> socket(new RawSocket);
  if (!socket->Connect(address, receive_buffer)) return nullptr;
  return socket;
}

bool RawSocket::Connect(const HostPort& address, int receive_buffer) {
  fd_ = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (receive_buffer > 0) {
    ::setsockopt(fd_, SOL_SOCKET, SO_RCVBUF, &receive_buffer, sizeof receive_buffer);
  }
  sockaddr_in to{};
  to.sin_family = AF_INET;
  to.sin_port = htons(static_cast<uint16_t>(address.port));
  ::inet_pton(AF_INET, address.host.c_str(), &to.sin_addr);
  if (::connect(fd_, reinterpret_cast<sockaddr*>(&to), sizeof to) != 0) return false;
  const int on = 1;
  ::setsockopt(fd_, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  return true;
}

RawSocket::~RawSocket() {
  if (fd_ >= 0) ::close(fd_);
}

bool RawSocket::Send(const std::vector<uint8_t>& bytes) {
  size_t at = 0;
  while (at < bytes.size()) {
    const ssize_t sent = ::send(fd_, bytes.data() + at, bytes.size() - at, MSG_NOSIGNAL);
    if (sent <= 0) return false;
    at += static_cast<size_t>(sent);
  }
  return true;
}

bool RawSocket::SendSize(int32_t size) {
  std::vector<uint8_t> prefix;
  for (int shift = 24; shift >= 0; shift -= 8) {
    prefix.push_back(static_cast<uint8_t>(static_cast<uint32_t>(size) >> shift));
  }
  return Send(prefix);
}

bool RawSocket::SendFrame(const std::string& body) {
  return SendSize(static_cast<int32_t>(body.size())) && Send({body.begin(), body.end()});
}

std::vector<uint8_t> RawSocket::Receive(size_t size, Seconds patience) {
  const Deadline deadline(patience);
  std::vector<uint8_t> bytes(size);
  size_t at = 0;
  while (at < size) {
    pollfd wait{fd_, POLLIN, 0};
    if (::poll(&wait, 1, static_cast<int>(deadline.Left().count())) <= 0) break;
    const ssize_t got = ::recv(fd_, bytes.data() + at, size - at, 0);
    if (got <= 0) break;
    at += static_cast<size_t>(got);
  }
  bytes.resize(at);
  return bytes;
}

void RawSocket::EndSending() { ::shutdown(fd_, SHUT_WR); }

std::optional<std::vector<uint8_t>> RawSocket::ReceiveToEnd(Seconds patience, bool* reset) {
  const Deadline deadline(patience);
  std::vector<uint8_t> all;
  uint8_t piece[16384];
  while (true) {
    pollfd wait{fd_, POLLIN, 0};
    if (::poll(&wait, 1, static_cast<int>(deadline.Left().count())) <= 0) return std::nullopt;
    const ssize_t got = ::recv(fd_, piece, sizeof piece, 0);
    if (got < 0 && errno == EINTR) continue;
    if (reset != nullptr) *reset = got < 0;
    if (got <= 0) return all;
    all.insert(all.end(), piece, piece + got);
  }
}

std::string RawSocket::ReceiveFrame(Seconds patience) {
  const std::vector<uint8_t> prefix = Receive(4, patience);
  if (prefix.size() < 4) return "";
  uint32_t size = 0;
  for (const uint8_t byte : prefix) size = size << 8 | byte;
  const std::vector<uint8_t> body = Receive(size, patience);
  return {body.begin(), body.end()};
}

bool RawSocket::ClosedByPeer(Seconds patience) {
  pollfd wait{fd_, POLLIN, 0};
  const Deadline deadline(patience);
  if (::poll(&wait, 1, static_cast<int>(deadline.Left().count())) <= 0) return false;
  char byte = 0;
  return ::recv(fd_, &byte, 1, 0) <= 0;
}

}  // namespace kmirror::test
