// A blocking TCP client without any protocol: for what no Kafka client would do.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "kmirror/types.h"
#include "tests/support/wait_until.h"

namespace kmirror::test {

class RawSocket {
 public:
  // Aborts the test program if the connection is refused. receive_buffer 0: the system's choice.
  explicit RawSocket(const HostPort& address, int receive_buffer = 0);
  // Null if the connection is refused.
  static std::unique_ptr<RawSocket> Try(const HostPort& address, int receive_buffer = 0);
  ~RawSocket();
  RawSocket(const RawSocket&) = delete;
  RawSocket& operator=(const RawSocket&) = delete;

  // False: the peer has closed.
  bool Send(const std::vector<uint8_t>& bytes);
  // `size` as int32, then the bytes.
  bool SendFrame(const std::string& body);
  bool SendSize(int32_t size);
  // Exactly so many bytes; fewer if the peer closed or the patience ended.
  std::vector<uint8_t> Receive(size_t size, Seconds patience = Seconds(20));
  // The end of what we send; the peer may still answer.
  void EndSending();
  // The body of the next frame; empty: none came.
  std::string ReceiveFrame(Seconds patience = Seconds(20));
  // Whether the peer closes, within the patience, without sending anything first.
  bool ClosedByPeer(Seconds patience = Seconds(20));
  // Everything until the peer ends the connection, by a close or a reset (`reset`, if given, tells
  // which); nullopt: it did not within the patience.
  std::optional<std::vector<uint8_t>> ReceiveToEnd(Seconds patience = Seconds(20),
                                                   bool* reset = nullptr);

 private:
  RawSocket() = default;
  bool Connect(const HostPort& address, int receive_buffer);

  int fd_ = -1;
};

}  // namespace kmirror::test
