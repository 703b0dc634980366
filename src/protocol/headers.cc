#include "src/protocol/headers.h"

#include <limits>

#include "src/protocol/message.h"
#include "src/protocol/reader.h"
#include "src/protocol/registry.h"
#include "src/protocol/writer.h"

namespace kmirror::protocol {

namespace {

constexpr int16_t kApiVersionsKey = 18;

}  // namespace

int16_t RequestHeaderVersion(int16_t api_key, int16_t api_version) {
  const ApiInfo* api = FindApi(api_key);
  if (api == nullptr) return -1;
  return api_version >= api->flexible_from ? 2 : 1;
}

int16_t ResponseHeaderVersion(int16_t api_key, int16_t api_version) {
  if (api_key == kApiVersionsKey) return 0;
  const ApiInfo* api = FindApi(api_key);
  if (api == nullptr) return -1;
  return api_version >= api->flexible_from ? 1 : 0;
}

Status EncodeRequestHeader(const RequestHeader& header, Writer& out) {
  const int16_t version = RequestHeaderVersion(header.api_key, header.api_version);
  if (version < 0) {
    return {ErrorCode::kInvalidRequest, "no such API key: " + std::to_string(header.api_key)};
  }
  out.PutInt16(header.api_key);
  out.PutInt16(header.api_version);
  out.PutInt32(header.correlation_id);
  if (!out.PutString(false, true, header.client_id)) {
    out.At("client_id");
    return EncodeError("RequestHeader", version, out.error());
  }
  if (version >= 2) out.PutUnsignedVarint(0);
  return {};
}

Status DecodeRequestHeader(Reader& in, RequestHeader* out) {
  *out = {};
  int16_t version = 1;
  const auto read = [&] {
    if (!in.ReadInt16(&out->api_key)) return in.At("api_key");
    if (!in.ReadInt16(&out->api_version)) return in.At("api_version");
    if (!in.ReadInt32(&out->correlation_id)) return in.At("correlation_id");
    version = RequestHeaderVersion(out->api_key, out->api_version);
    if (!in.ReadString(false, true, &out->client_id)) return in.At("client_id");
    return version < 2 || in.SkipTags();
  };
  if (read()) return {};
  return DecodeError("RequestHeader", version, in.error());
}

void EncodeResponseHeader(int16_t header_version, int32_t correlation_id, Writer& out) {
  out.PutInt32(correlation_id);
  if (header_version >= 1) out.PutUnsignedVarint(0);
}

Status DecodeResponseHeader(Reader& in, int16_t header_version, int32_t* correlation_id) {
  if (!in.ReadInt32(correlation_id)) {
    in.At("correlation_id");
    return DecodeError("ResponseHeader", header_version, in.error());
  }
  if (header_version >= 1 && !in.SkipTags()) {
    return DecodeError("ResponseHeader", header_version, in.error());
  }
  return {};
}

Status FinishFrame(size_t place, size_t size, Writer& out) {
  if (size > static_cast<size_t>(std::numeric_limits<int32_t>::max())) {
    return {ErrorCode::kMessageTooLarge, "frame of " + std::to_string(size) + " bytes"};
  }
  out.PatchInt32(place, static_cast<int32_t>(size));
  return {};
}

}  // namespace kmirror::protocol
