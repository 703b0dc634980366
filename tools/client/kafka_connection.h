// One plain TCP connection to a Kafka broker for a command-line tool: blocking, one request at a
// time, every wait bounded. Not for servers (src/net is).
//
// Confined to one thread.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "kmirror/status.h"
#include "kmirror/types.h"
#include "src/protocol/body.h"

namespace kmirror::tools {

// What a broker says it serves.
struct ServedApis {
  struct Range {
    int16_t min_version = 0;
    int16_t max_version = 0;
  };
  std::map<int16_t, Range> apis;            // by key
  std::map<std::string, int16_t> features;  // finalized, name -> level
  int16_t Feature(const std::string& name) const {
    const auto it = features.find(name);
    return it == features.end() ? int16_t{0} : it->second;
  }
};

class KafkaConnection {
 public:
  // Connects and asks ApiVersions. kDisconnected or kTimedOut name the address and the reason.
  static Result<KafkaConnection> Open(const HostPort& address, std::chrono::milliseconds timeout);

  KafkaConnection(KafkaConnection&& other) noexcept;
  KafkaConnection& operator=(KafkaConnection&& other) noexcept;
  KafkaConnection(const KafkaConnection&) = delete;
  KafkaConnection& operator=(const KafkaConnection&) = delete;
  ~KafkaConnection();

  const HostPort& address() const { return address_; }
  const ServedApis& served() const { return served_; }
  bool broken() const { return fd_ < 0; }

  // The greatest version both sides know; kUnsupportedVersion when there is none.
  template <typename Request>
  Result<int16_t> VersionOf() const {
    return Negotiate(Request::kApiKey, Request::kMinVersion, Request::kMaxVersion, Request::kName);
  }

  // Sends `request` in the greatest common version and reads its answer. Records in the answer
  // point into a buffer of this connection and are valid until the next call. After a failure below
  // the protocol the connection is broken() and useless.
  template <typename Response, typename Request>
  Result<Response> Call(const Request& request) {
    const Result<int16_t> version = VersionOf<Request>();
    if (!version.ok()) return version.status();
    return CallVersion<Response>(request, *version);
  }
  template <typename Response, typename Request>
  Result<Response> CallVersion(const Request& request, int16_t version) {
    protocol::Writer writer;
    const int32_t id = next_id_++;
    Status status = protocol::EncodeRequestFrame(request, version, id, kClientId, writer);
    if (!status.ok()) return status;
    if (status = Exchange(writer.Flatten()); !status.ok()) return status.WithContext(Where());
    Response response;
    int32_t answered = -1;
    status = protocol::DecodeResponseFrame(frame_, version, &answered, &response);
    if (status.ok() && answered != id) {
      status = {ErrorCode::kMalformed, "an answer to another request"};
    }
    if (!status.ok()) {
      Close();
      return status.WithContext(Where());
    }
    return response;
  }

 private:
  static constexpr char kClientId[] = "kmirror-cli";

  KafkaConnection(HostPort address, std::chrono::milliseconds timeout, int fd)
      : address_(std::move(address)), timeout_(timeout), fd_(fd) {}
  Result<int16_t> Negotiate(int16_t key, int16_t min, int16_t max, const char* name) const;
  Status AskVersions();
  // Sends a frame and fills frame_ with the answer, without its size.
  Status Exchange(const std::vector<uint8_t>& frame);
  Status Receive(uint8_t* into, size_t size, std::chrono::steady_clock::time_point deadline);
  std::string Where() const { return address_.ToString(); }
  void Close();

  HostPort address_;
  std::chrono::milliseconds timeout_;
  int fd_ = -1;
  int32_t next_id_ = 1;
  ServedApis served_;
  std::vector<uint8_t> frame_;
};

// "host:port[,host:port]"; "[::1]:9092" too. kUsage names the part that is wrong.
Result<std::vector<HostPort>> ParseServers(const std::string& text);

}  // namespace kmirror::tools
