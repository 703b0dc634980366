// Request and response headers, which stand between a frame's size and its body.
//
// Requests: v1 (classic) or v2 (with tags), by whether the version of the API is flexible; the
// client id keeps its int16 length in both. Responses: v0 (correlation id alone) or v1 (with tags);
// answers to ApiVersions are always v0, since a client that guessed the version wrong must be able
// to read them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "kmirror/status.h"

namespace kmirror::protocol {

class Reader;
class Writer;

struct RequestHeader {
  int16_t api_key = 0;
  int16_t api_version = 0;
  int32_t correlation_id = 0;
  std::optional<std::string> client_id;

  bool operator==(const RequestHeader&) const = default;
};

// Header version by API; -1 for a key that is not in the registry. Versions we do not know follow
// the rule of the newest ones, so that the correlation id of a too new ApiVersions can be answered.
int16_t RequestHeaderVersion(int16_t api_key, int16_t api_version);
int16_t ResponseHeaderVersion(int16_t api_key, int16_t api_version);

// INVALID_REQUEST for a key that is not in the registry or a client id that is too long.
Status EncodeRequestHeader(const RequestHeader& header, Writer& out);
// Key, version and correlation id are filled as far as they were read, also on failure. Of a key
// that is not in the registry the client id is read as v1 and the tags, if any, are left in the
// reader.
Status DecodeRequestHeader(Reader& in, RequestHeader* out);

void EncodeResponseHeader(int16_t header_version, int32_t correlation_id, Writer& out);
Status DecodeResponseHeader(Reader& in, int16_t header_version, int32_t* correlation_id);

// Writes `size`, the bytes after it, into the frame's reserved place.
Status FinishFrame(size_t place, size_t size, Writer& out);

}  // namespace kmirror::protocol
