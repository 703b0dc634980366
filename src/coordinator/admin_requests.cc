#include "src/coordinator/admin_requests.h"

#include "messages/bump_leader_epochs.h"
#include "messages/create_cluster_mirror.h"
#include "messages/delete_cluster_mirror.h"
#include "messages/describe_cluster_mirrors.h"
#include "messages/list_cluster_mirrors.h"
#include "messages/pause_mirror_topics.h"
#include "messages/read_mirror_offsets.h"
#include "messages/read_mirror_states.h"
#include "messages/recover_mirror_topics.h"
#include "messages/resume_mirror_topics.h"
#include "messages/start_mirror_topics.h"
#include "messages/stop_mirror_topics.h"
#include "messages/write_mirror_states.h"
#include "src/coordinator/mirror_impl.h"
#include "src/protocol/mirror_numbers.h"

namespace kmirror::coordinator {
namespace {

using Serve = void (*)(MirrorImpl&, const std::vector<uint8_t>&, const Respond&);
using MakeError = std::vector<uint8_t> (*)(const Status&);

struct AdminApi {
  int16_t key;
  Serve serve;
  MakeError error;
};

// One line an API: key, who serves it, what its errors look like.
constexpr AdminApi kApis[] = {
    {protocol::kCreateClusterMirrorKey, ServeCreate,
     ErrorResponse<protocol::CreateClusterMirrorResponse>},
    {protocol::kStartMirrorTopicsKey, ServeStart,
     ErrorResponse<protocol::StartMirrorTopicsResponse>},
    {protocol::kStopMirrorTopicsKey, ServeStop, ErrorResponse<protocol::StopMirrorTopicsResponse>},
    {protocol::kListClusterMirrorsKey, ServeList,
     ErrorResponse<protocol::ListClusterMirrorsResponse>},
    {protocol::kDescribeClusterMirrorsKey, ServeDescribe,
     ErrorResponse<protocol::DescribeClusterMirrorsResponse>},
    {protocol::kReadMirrorStatesKey, ServeReadStates,
     ErrorResponse<protocol::ReadMirrorStatesResponse>},
    {protocol::kWriteMirrorStatesKey, ServeWriteStates,
     ErrorResponse<protocol::WriteMirrorStatesResponse>},
    {protocol::kPauseMirrorTopicsKey, ServePause,
     ErrorResponse<protocol::PauseMirrorTopicsResponse>},
    {protocol::kResumeMirrorTopicsKey, ServeResume,
     ErrorResponse<protocol::ResumeMirrorTopicsResponse>},
    {protocol::kDeleteClusterMirrorKey, ServeDelete,
     ErrorResponse<protocol::DeleteClusterMirrorResponse>},
    {protocol::kBumpLeaderEpochsKey, ServeBumpEpochs,
     ErrorResponse<protocol::BumpLeaderEpochsResponse>},
    {protocol::kReadMirrorOffsetsKey, ServeReadOffsets,
     ErrorResponse<protocol::ReadMirrorOffsetsResponse>},
    {protocol::kRecoverMirrorTopicsKey, ServeRecover,
     ErrorResponse<protocol::RecoverMirrorTopicsResponse>},
};

const AdminApi* Find(int16_t key) {
  for (const AdminApi& api : kApis) {
    if (api.key == key) return &api;
  }
  return nullptr;
}

}  // namespace

int16_t WireCode(const Status& status) {
  switch (status.code()) {
    case ErrorCode::kIo:
    case ErrorCode::kNoSpace: return static_cast<int16_t>(ErrorCode::kKafkaStorageError);
    case ErrorCode::kDisconnected: return static_cast<int16_t>(ErrorCode::kNetworkException);
    case ErrorCode::kTimedOut: return static_cast<int16_t>(ErrorCode::kRequestTimedOut);
    case ErrorCode::kNotLoaded: return static_cast<int16_t>(ErrorCode::kCoordinatorLoadInProgress);
    case ErrorCode::kMalformed:
    case ErrorCode::kUsage: return static_cast<int16_t>(ErrorCode::kInvalidRequest);
    default: break;
  }
  const auto code = static_cast<int16_t>(status.code());
  return code < -1 ? static_cast<int16_t>(ErrorCode::kUnknownServerError) : code;
}

std::vector<uint8_t> EncodeAdminError(int16_t api_key, const Status& status) {
  const AdminApi* api = Find(api_key);
  if (api == nullptr) return {};
  return api->error({static_cast<ErrorCode>(WireCode(status)), status.message()});
}

void ServeAdminRequest(MirrorImpl& mirror, const RequestContext& context,
                       const std::vector<uint8_t>& body, const Respond& respond) {
  const AdminApi* api = Find(context.api_key);
  if (api == nullptr) return respond({});
  if (context.api_version != 0) {
    return respond(
        api->error({ErrorCode::kUnsupportedVersion, "mirror requests have version 0 only"}));
  }
  if (!mirror.metadata().loaded()) {
    return respond(api->error({ErrorCode::kCoordinatorLoadInProgress, "metadata is loading"}));
  }
  if (!mirror.metadata().enabled()) {
    return respond(api->error({ErrorCode::kUnsupportedVersion,
                               "the feature mirror.version is 0: mirroring is switched off"}));
  }
  api->serve(mirror, body, respond);
}

}  // namespace kmirror::coordinator

namespace kmirror {

std::span<const ServedApi> Mirror::Apis() {
  static const auto apis = [] {
    std::vector<ServedApi> list;
    for (const auto& api : coordinator::kApis) list.push_back({api.key, 0, 0});
    return list;
  }();
  return apis;
}

}  // namespace kmirror
