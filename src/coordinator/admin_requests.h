// The requests of the mirror APIs (coordinator.md 10): checked, carried out, answered.
//
// Each file serves one conversation: admin_mirrors.cc (create, delete, list, describe),
// admin_topics.cc (start, stop, pause, resume, recover), admin_brokers.cc (states, epochs, offsets
// between brokers). All run on the coordinator's lane; answers may come later, each once.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "kmirror/mirror.h"
#include "src/protocol/body.h"

namespace kmirror::coordinator {

class MirrorImpl;

using Respond = std::function<void(std::vector<uint8_t>)>;

// Decodes by key and carries the request out.
void ServeAdminRequest(MirrorImpl& mirror, const RequestContext& context,
                       const std::vector<uint8_t>& body, const Respond& respond);
// The response of that API that says only this error.
std::vector<uint8_t> EncodeAdminError(int16_t api_key, const Status& status);

template <typename Response>
std::vector<uint8_t> EncodeResponse(const Response& response) {
  protocol::Writer out;
  // Fails only for a text longer than the wire can say; an empty body then closes the connection.
  if (Status status = Encode(response, 0, out); !status.ok()) return {};
  return out.Flatten();
}

template <typename Response>
std::vector<uint8_t> ErrorResponse(const Status& status) {
  Response response;
  response.error_code = static_cast<int16_t>(status.code());
  response.error_message = status.message();
  return EncodeResponse(response);
}

// Wire code of a status: local codes become what a client understands.
int16_t WireCode(const Status& status);

void ServeCreate(MirrorImpl&, const std::vector<uint8_t>& body, const Respond&);
void ServeDelete(MirrorImpl&, const std::vector<uint8_t>& body, const Respond&);
void ServeList(MirrorImpl&, const std::vector<uint8_t>& body, const Respond&);
void ServeDescribe(MirrorImpl&, const std::vector<uint8_t>& body, const Respond&);
void ServeStart(MirrorImpl&, const std::vector<uint8_t>& body, const Respond&);
void ServeStop(MirrorImpl&, const std::vector<uint8_t>& body, const Respond&);
void ServePause(MirrorImpl&, const std::vector<uint8_t>& body, const Respond&);
void ServeResume(MirrorImpl&, const std::vector<uint8_t>& body, const Respond&);
void ServeRecover(MirrorImpl&, const std::vector<uint8_t>& body, const Respond&);
void ServeReadStates(MirrorImpl&, const std::vector<uint8_t>& body, const Respond&);
void ServeWriteStates(MirrorImpl&, const std::vector<uint8_t>& body, const Respond&);
void ServeBumpEpochs(MirrorImpl&, const std::vector<uint8_t>& body, const Respond&);
void ServeReadOffsets(MirrorImpl&, const std::vector<uint8_t>& body, const Respond&);

}  // namespace kmirror::coordinator
