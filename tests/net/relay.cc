#include "tests/net/relay.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>

namespace kmirror::net::testing {
namespace {

bool SendAll(int fd, const uint8_t* at, size_t size) {
  while (size > 0) {
    const ssize_t sent = send(fd, at, size, MSG_NOSIGNAL);
    if (sent <= 0) return false;
    at += sent;
    size -= static_cast<size_t>(sent);
  }
  return true;
}

sockaddr_in Loopback(int32_t port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(static_cast<uint16_t>(port));
  return address;
}

}  // namespace

Relay::Relay(int32_t target_port, Options options) : target_port_(target_port), options_(options) {
  (void)!pipe2(stop_fds_, O_CLOEXEC);
  listen_fd_ = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address = Loopback(0);
  socklen_t size = sizeof address;
  (void)bind(listen_fd_, reinterpret_cast<sockaddr*>(&address), size);
  (void)listen(listen_fd_, 16);
  getsockname(listen_fd_, reinterpret_cast<sockaddr*>(&address), &size);
  port_ = ntohs(address.sin_port);
  accepting_ = std::thread([this] { Accept(); });
}

Relay::~Relay() {
  close(stop_fds_[1]);  // whoever polls the other end wakes up
  shutdown(listen_fd_, SHUT_RDWR);
  accepting_.join();
  for (std::thread& thread : serving_) thread.join();
  close(listen_fd_);
  close(stop_fds_[0]);
}

void Relay::Accept() {
  for (;;) {
    const int fd = accept4(listen_fd_, nullptr, nullptr, SOCK_CLOEXEC);
    if (fd < 0) return;
    serving_.emplace_back([this, fd] { Serve(fd); });
  }
}

void Relay::Serve(int client) {
  const int on = 1;
  setsockopt(client, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  const int server = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const sockaddr_in address = Loopback(target_port_);
  bool open = connect(server, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0;
  size_t left = options_.cut_after;
  std::vector<uint8_t> bytes(64 << 10);
  while (open && left > 0) {
    pollfd ready[] = {{client, POLLIN, 0}, {server, POLLIN, 0}, {stop_fds_[0], POLLIN, 0}};
    if (poll(ready, 3, -1) < 0 || ready[2].revents != 0) break;
    if (ready[0].revents != 0) {
      const ssize_t got = recv(client, bytes.data(), bytes.size(), 0);
      open = got > 0 && SendAll(server, bytes.data(), static_cast<size_t>(got));
    }
    if (open && ready[1].revents != 0) {
      const ssize_t got = recv(server, bytes.data(), bytes.size(), 0);
      open = got > 0;
      for (size_t at = 0; open && left > 0 && at < static_cast<size_t>(got);) {
        const size_t step = std::min({options_.piece, left, static_cast<size_t>(got) - at});
        open = SendAll(client, bytes.data() + at, step);
        at += step;
        left -= step;
      }
    }
  }
  close(server);
  close(client);
}

}  // namespace kmirror::net::testing
