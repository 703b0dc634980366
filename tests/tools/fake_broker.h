// A broker on a real socket that answers as the test says: for clients whose every answer matters.
//
//   FakeBroker broker;
//   broker.On<protocol::MetadataRequest, protocol::MetadataResponse>(
//       [](const auto& request, int16_t version) { return ...; });
//
// Handlers run on the broker's thread; ApiVersions is answered from what is registered. Handlers
// are set before the first request, or while the client is waiting for nothing.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "messages/api_versions.h"
#include "src/protocol/body.h"

namespace kmirror::test {

class FakeBroker {
 public:
  FakeBroker();
  ~FakeBroker();
  FakeBroker(const FakeBroker&) = delete;
  FakeBroker& operator=(const FakeBroker&) = delete;

  int port() const { return port_; }
  std::string address() const { return "127.0.0.1:" + std::to_string(port_); }

  // Answers `Request`s of the versions that the codec knows.
  template <typename Request, typename Response>
  void On(std::function<Response(const Request&, int16_t version)> handler) {
    const std::lock_guard lock(mutex_);
    ranges_[Request::kApiKey] = {Request::kMinVersion, Request::kMaxVersion};
    handlers_[Request::kApiKey] = [handler](ByteView body, int16_t version,
                                            int32_t correlation_id) {
      Request request;
      if (!protocol::DecodeBody(body, version, &request).ok()) return std::vector<uint8_t>{};
      protocol::Writer writer;
      const Response response = handler(request, version);
      if (!protocol::EncodeResponseFrame(response, version, correlation_id, writer).ok()) {
        return std::vector<uint8_t>{};
      }
      return writer.Flatten();
    };
  }
  // An advertised finalized feature; `mirror.version` 1 is there from the start.
  void SetFeature(const std::string& name, int16_t level);
  void ClearFeatures();
  // From now on connections are closed when a request of `key` arrives.
  void HangUpOn(int16_t key);

  // Requests of `key` so far.
  int count(int16_t key) const;

 private:
  struct Range {
    int16_t min;
    int16_t max;
  };
  // A whole frame, or nothing: close the connection.
  using Handler = std::function<std::vector<uint8_t>(ByteView body, int16_t, int32_t)>;

  void Serve();
  bool ServeOne(int fd);
  std::vector<uint8_t> Versions(int16_t version, int32_t correlation_id);

  int listener_ = -1;
  int wake_[2] = {-1, -1};
  int port_ = 0;
  mutable std::mutex mutex_;
  std::map<int16_t, Handler> handlers_;
  std::map<int16_t, Range> ranges_;
  std::map<std::string, int16_t> features_{{"mirror.version", 1}};
  std::map<int16_t, int> counts_;
  std::thread thread_;
};

}  // namespace kmirror::test
