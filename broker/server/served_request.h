// One request on its way through the broker: header, body, and the one answer it gets.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "broker/server/frame_handler.h"
#include "kmirror/status.h"
#include "src/protocol/body.h"
#include "src/protocol/headers.h"
#include "src/protocol/writer.h"

namespace kmirror::broker {

// Answered exactly once, on any thread; one that is dropped closes its connection. The rest belongs
// to whoever works on it.
class ServedRequest {
 public:
  // `body` points into the frame.
  ServedRequest(protocol::RequestHeader header, ByteView body, std::unique_ptr<RequestFrame> frame,
                std::shared_ptr<ConnectionInfo> connection, Reply reply)
      : header_(std::move(header)),
        body_(body),
        frame_(std::move(frame)),
        connection_(std::move(connection)),
        reply_(std::move(reply)) {}
  ~ServedRequest() { Close("the request was dropped"); }
  ServedRequest(const ServedRequest&) = delete;
  ServedRequest& operator=(const ServedRequest&) = delete;

  int16_t key() const { return header_.api_key; }
  int16_t version() const { return header_.api_version; }
  std::string client_id() const { return header_.client_id.value_or(""); }
  ByteView body() const { return body_; }
  // A part of the body, to be changed in place.
  std::span<uint8_t> Mutable(ByteView part) { return frame_->Mutable(part); }
  // Its fields belong to the network thread.
  ConnectionInfo& connection() { return *connection_; }
  Loop& loop() { return *connection_->loop; }
  // The body is not needed any more: a request that waits should not keep it.
  void DropFrame() {
    body_ = {};
    frame_.reset();
  }

  template <typename Response>
  void Answer(const Response& response) {
    AnswerAs(response, header_.api_version);
  }
  template <typename Response>
  void AnswerAs(const Response& response, int16_t version) {
    protocol::Writer writer;
    writer.Reserve(kUsualAnswerBytes);
    const Status encoded =
        protocol::EncodeResponseFrame(response, version, header_.correlation_id, writer);
    if (!encoded.ok()) return Close("answer does not encode: " + encoded.ToString());
    Finish(Outcome::Send(std::move(writer)));
  }
  // A body somebody else has encoded; the response header is ours.
  void AnswerBody(ByteView body) {
    protocol::Writer writer;
    const size_t place = writer.ReserveInt32();
    protocol::EncodeResponseHeader(protocol::ResponseHeaderVersion(key(), version()),
                                   header_.correlation_id, writer);
    writer.PutRaw(body);
    const Status finished = protocol::FinishFrame(place, writer.size() - 4, writer);
    if (!finished.ok()) return Close(finished.ToString());
    Finish(Outcome::Send(std::move(writer)));
  }
  void AnswerNothing() { Finish(Outcome{}); }
  void Close(std::string reason) { Finish(Outcome::Close(std::move(reason))); }

 private:
  static constexpr size_t kUsualAnswerBytes = 256;

  void Finish(Outcome outcome) {
    if (answered_.exchange(true)) return;
    frame_.reset();
    reply_(std::move(outcome));
  }

  const protocol::RequestHeader header_;
  ByteView body_;
  std::unique_ptr<RequestFrame> frame_;
  const std::shared_ptr<ConnectionInfo> connection_;
  const Reply reply_;
  std::atomic<bool> answered_{false};
};

using RequestPtr = std::shared_ptr<ServedRequest>;

// Decodes the body; what does not decode closes the connection, as in Kafka.
template <typename Message>
bool DecodeRequest(ServedRequest& request, Message* message) {
  const Status decoded = protocol::DecodeBody(request.body(), request.version(), message);
  if (!decoded.ok()) request.Close(decoded.message());
  return decoded.ok();
}

}  // namespace kmirror::broker
