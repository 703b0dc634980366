// Between the connections, which know frames, and the code that knows requests.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "broker/server/loop.h"
#include "broker/server/request_frame.h"
#include "src/protocol/writer.h"

namespace kmirror::broker {

// What requests of one connection may know of it. Its loop's thread only.
struct ConnectionInfo {
  uint64_t id = 0;
  std::string peer;      // HOST:PORT
  size_t listener = 0;   // which of the server's listeners it came by
  Loop* loop = nullptr;  // lives as long as the server
  // Set by a request that waits; called once when the connection closes under it, cleared when the
  // request is answered.
  std::function<void()> on_close;
};

// How a request ends.
struct Outcome {
  enum Kind {
    kSend,     // `answer` is the whole response frame, size prefix included
    kNothing,  // no answer is due (a produce with acks 0)
    kClose,    // the connection cannot go on; `reason` for the log
  };
  Kind kind = kNothing;
  protocol::Writer answer;
  std::string reason;

  static Outcome Send(protocol::Writer answer) { return {kSend, std::move(answer), {}}; }
  static Outcome Close(std::string reason) { return {kClose, {}, std::move(reason)}; }
};

// Exactly once, on any thread. Outliving the connection or the server is harmless.
using Reply = std::function<void(Outcome)>;

class FrameHandler {
 public:
  virtual ~FrameHandler() = default;
  // One complete request, without its size prefix. On the connection's thread; the next frame of
  // the connection comes after the reply. Must not throw.
  virtual void OnFrame(std::unique_ptr<RequestFrame> frame,
                       const std::shared_ptr<ConnectionInfo>& connection, Reply reply) = 0;
};

}  // namespace kmirror::broker
