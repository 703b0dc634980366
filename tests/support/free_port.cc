#include "tests/support/free_port.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <random>
#include <set>

namespace kmirror::test {
namespace {

bool CanBind(uint16_t port) {
  const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return false;
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  const bool bound = ::bind(fd, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0;
  ::close(fd);
  return bound;
}

}  // namespace

uint16_t FreePort() {
  static std::mutex mutex;
  static std::set<uint16_t> given;
  const std::lock_guard lock(mutex);
  std::random_device random;
  std::uniform_int_distribution<int> ports(15000, 31999);
  for (int attempt = 0; attempt < 1000; ++attempt) {
    const auto port = static_cast<uint16_t>(ports(random));
    if (!given.contains(port) && CanBind(port)) {
      given.insert(port);
      return port;
    }
  }
  std::fprintf(stderr, "no free port\n");
  std::abort();
}

}  // namespace kmirror::test
