// Requests to other brokers of this cluster. On one node a loopback to Mirror::HandleRequest, so
// that one code path serves both.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "kmirror/status.h"
#include "kmirror/types.h"

namespace kmirror::host {

class Peers {
 public:
  using Answer = std::function<void(Result<std::vector<uint8_t>>)>;

  virtual ~Peers() = default;

  // Sends the encoded request body of (api_key, version) to `broker`; the answer is the response
  // body. kDisconnected, kTimedOut: it may or may not have been carried out. Any thread answers,
  // once.
  virtual void Send(int32_t broker, int16_t api_key, int16_t version, std::vector<uint8_t> body,
                    Answer answer) = 0;
};

}  // namespace kmirror::host
