#include "broker/server/request_dispatcher.h"

#include <exception>
#include <utility>

#include "broker/server/api_table.h"
#include "messages/api_versions.h"

namespace kmirror::broker {

void RequestDispatcher::OnFrame(std::unique_ptr<RequestFrame> frame,
                                const std::shared_ptr<ConnectionInfo>& connection, Reply reply) {
  protocol::Reader reader(frame->bytes());
  protocol::RequestHeader header;
  const Status read = protocol::DecodeRequestHeader(reader, &header);
  if (!read.ok()) {
    ++services_.metrics->requests_malformed;
    services_.log("debug", "malformed request header peer=" + connection->peer + " reason=\"" +
                               read.message() + "\" next=\"connection closed\"");
    return reply(Outcome::Close(read.message()));
  }
  const ByteView body = reader.rest();
  const RequestPtr request = std::make_shared<ServedRequest>(
      std::move(header), body, std::move(frame), connection, std::move(reply));
  try {
    Dispatch(request);
  } catch (const std::exception& error) {
    // Memory, or a library of others: the connection goes, the broker stays.
    services_.log("warn", "request failed key=" + std::to_string(request->key()) +
                              " peer=" + connection->peer + " reason=\"" + error.what() +
                              "\" next=\"connection closed\"");
    request->Close(error.what());
  }
}

void RequestDispatcher::Dispatch(RequestPtr request) {
  const int16_t key = request->key();
  if (key >= 0 && key < static_cast<int16_t>(BrokerMetrics::kKeys)) {
    ++services_.metrics->requests[static_cast<size_t>(key)];
  }
  if (Mirror::Serves(key)) return ToMirror(std::move(request));
  const ApiEntry* api = FindBrokerApi(key);
  const bool known = api != nullptr && request->version() >= api->min_version &&
                     request->version() <= api->max_version;
  if (known) return api->handler(services_, std::move(request));
  if (key == protocol::ApiVersionsRequest::kApiKey) return AnswerUnknownApiVersions(*request);
  ++services_.metrics->requests_malformed;
  const std::string what = "api key " + std::to_string(key) + " version " +
                           std::to_string(request->version()) + " is not served";
  services_.log("debug", "unknown request peer=" + request->connection().peer + " reason=\"" +
                             what + "\" next=\"connection closed\"");
  request->Close(what);
}

void RequestDispatcher::ToMirror(RequestPtr request) {
  Mirror* mirror = services_.mirror ? services_.mirror() : nullptr;
  if (mirror == nullptr) return request->Close("the mirror host is not running");
  const RequestContext context{.api_key = request->key(),
                               .api_version = request->version(),
                               .client_id = request->client_id()};
  mirror->HandleRequest(context, request->body(),
                        [request](std::vector<uint8_t> body) { request->AnswerBody(body); });
}

}  // namespace kmirror::broker
