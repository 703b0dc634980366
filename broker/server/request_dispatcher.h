// From a frame to its handler: header, key, version.
#pragma once

#include "broker/server/frame_handler.h"
#include "broker/server/services.h"

namespace kmirror::broker {

// A request of a mirror API goes to the library; others to the table. As Kafka: an unknown key or
// version closes the connection, except ApiVersions, which is answered in its version 0.
class RequestDispatcher final : public FrameHandler {
 public:
  explicit RequestDispatcher(Services& services) : services_(services) {}
  void OnFrame(std::unique_ptr<RequestFrame> frame,
               const std::shared_ptr<ConnectionInfo>& connection, Reply reply) override;

 private:
  void Dispatch(RequestPtr request);
  void ToMirror(RequestPtr request);

  Services& services_;
};

}  // namespace kmirror::broker
