// Stands between a client and a server, byte by byte.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <thread>
#include <vector>

namespace kmirror::net::testing {

class Relay {
 public:
  struct Options {
    size_t piece = std::numeric_limits<size_t>::max();      // the client is given so many at once
    size_t cut_after = std::numeric_limits<size_t>::max();  // bytes for the client, then it closes
  };
  Relay(int32_t target_port, Options options);
  ~Relay();  // cuts what is open

  int32_t port() const { return port_; }

 private:
  void Accept();
  void Serve(int client);

  const int32_t target_port_;
  const Options options_;
  int listen_fd_ = -1;
  int stop_fds_[2] = {-1, -1};
  int32_t port_ = 0;
  std::thread accepting_;
  std::vector<std::thread> serving_;  // of accepting_ alone, until it ends
};

}  // namespace kmirror::net::testing
