// A whole message body, and whole frames.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <string>

#include "kmirror/status.h"
#include "src/protocol/headers.h"
#include "src/protocol/message.h"
#include "src/protocol/reader.h"
#include "src/protocol/writer.h"

namespace kmirror::protocol {

// Decodes `body`, which is the message and nothing else. Kafka ignores what follows a message; here
// it is refused, because it is how a frame of another protocol shows (R17). Records point into
// `body`.
template <typename Message>
Status DecodeBody(ByteView body, int16_t version, Message* out) {
  Reader reader(body);
  if (Status status = Decode(reader, version, out); !status.ok()) return status;
  if (reader.remaining() == 0) return {};
  return TrailingBytes(Message::kName, version, reader.remaining());
}

// A frame: int32 size, header, body. Nothing is left in a writer that failed but what was there
// before plus rubbish; drop it.
template <typename Request>
Status EncodeRequestFrame(const Request& request, int16_t version, int32_t correlation_id,
                          const std::optional<std::string>& client_id, Writer& out) {
  static_assert(Request::kIsRequest);
  const size_t before = out.size();
  const size_t place = out.ReserveInt32();
  const RequestHeader header{Request::kApiKey, version, correlation_id, client_id};
  if (Status status = EncodeRequestHeader(header, out); !status.ok()) return status;
  if (Status status = Encode(request, version, out); !status.ok()) return status;
  return FinishFrame(place, out.size() - before - 4, out);
}

template <typename Response>
Status EncodeResponseFrame(const Response& response, int16_t version, int32_t correlation_id,
                           Writer& out) {
  static_assert(!Response::kIsRequest);
  const size_t before = out.size();
  const size_t place = out.ReserveInt32();
  EncodeResponseHeader(ResponseHeaderVersion(Response::kApiKey, version), correlation_id, out);
  if (Status status = Encode(response, version, out); !status.ok()) return status;
  return FinishFrame(place, out.size() - before - 4, out);
}

// The body of an answer to a request of `version`; `frame` is without its size. The caller has
// matched the correlation id already or does so with the one given back.
template <typename Response>
Status DecodeResponseFrame(ByteView frame, int16_t version, int32_t* correlation_id,
                           Response* out) {
  static_assert(!Response::kIsRequest);
  Reader reader(frame);
  Status status = DecodeResponseHeader(reader, ResponseHeaderVersion(Response::kApiKey, version),
                                       correlation_id);
  if (!status.ok()) return status;
  return DecodeBody(reader.rest(), version, out);
}

}  // namespace kmirror::protocol
