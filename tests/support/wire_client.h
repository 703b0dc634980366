// One connection that speaks Kafka's protocol with our codec, for what librdkafka cannot do: raw
// Fetch answers, versions of choice, mirror RPCs, and bytes that no client would send.
//
// Blocking, one request at a time, for one thread.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "kmirror/status.h"
#include "kmirror/types.h"
#include "src/protocol/body.h"
#include "tests/support/wait_until.h"

namespace kmirror::test {

// "HOST:PORT", the first of a comma-separated list.
HostPort FirstServer(const std::string& bootstrap);

class WireClient {
 public:
  static Result<WireClient> Connect(const std::string& bootstrap);
  WireClient(WireClient&& other) noexcept;
  WireClient& operator=(WireClient&& other) noexcept;
  ~WireClient();

  // Sends the request and decodes the answer. Records in the answer point into a buffer of ours:
  // they are valid until the next call.
  template <typename Response, typename Request>
  Result<Response> Call(const Request& request, int16_t version, Seconds patience = Seconds(30)) {
    protocol::Writer writer;
    const int32_t id = next_correlation_id_++;
    Status status = protocol::EncodeRequestFrame(request, version, id, "kmirror-test", writer);
    if (!status.ok()) return status;
    if (status = SendBytes(writer.Flatten()); !status.ok()) return status;
    Result<std::vector<uint8_t>> frame = ReceiveFrame(patience);
    if (!frame.ok()) return frame.status();
    frame_ = std::move(frame).value();
    Response response;
    int32_t answered = -1;
    status = protocol::DecodeResponseFrame(frame_, version, &answered, &response);
    if (!status.ok()) return status;
    if (answered != id) return {ErrorCode::kMalformed, "answer to another request"};
    return response;
  }

  // As they are, the int32 size of a frame included.
  Status SendBytes(ByteView bytes);
  // The next frame without its size. kDisconnected: the broker closed the connection.
  Result<std::vector<uint8_t>> ReceiveFrame(Seconds patience = Seconds(30));

 private:
  explicit WireClient(int fd) : fd_(fd) {}
  Status ReceiveExactly(uint8_t* into, size_t size, const Deadline& deadline);

  int fd_ = -1;
  int32_t next_correlation_id_ = 1;
  std::vector<uint8_t> frame_;
};

}  // namespace kmirror::test
