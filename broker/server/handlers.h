// The request handlers, one function an API (api_table.cc maps keys to them).
//
// Called on the connection's network thread with a request of a served version. Each answers its
// request exactly once, then or later; what does not decode closes the connection.
#pragma once

#include "broker/server/served_request.h"
#include "broker/server/services.h"

namespace kmirror::broker {

using Handler = void (*)(Services& services, RequestPtr request);

// discovery_handlers.cc
void HandleApiVersions(Services& services, RequestPtr request);
void HandleMetadata(Services& services, RequestPtr request);
void HandleDescribeCluster(Services& services, RequestPtr request);
void HandleDescribeTopicPartitions(Services& services, RequestPtr request);
// Groups and transactions have no coordinator here yet: UNSUPPORTED_VERSION for each key, which
// clients show to a person instead of trying again; COORDINATOR_NOT_AVAILABLE before version 4.
void HandleFindCoordinator(Services& services, RequestPtr request);
// An ApiVersions of a version we do not know: a v0 body that names ours (error 35).
void AnswerUnknownApiVersions(ServedRequest& request);

// produce_handler.cc
void HandleProduce(Services& services, RequestPtr request);
// With a transactional id: COORDINATOR_NOT_AVAILABLE, which clients retry until their timeout; no
// other code says "not now" without telling them that their id is bad.
void HandleInitProducerId(Services& services, RequestPtr request);

// fetch_handler.cc
void HandleFetch(Services& services, RequestPtr request);

// offset_handlers.cc
void HandleListOffsets(Services& services, RequestPtr request);
void HandleOffsetForLeaderEpoch(Services& services, RequestPtr request);

// topic_handlers.cc
void HandleCreateTopics(Services& services, RequestPtr request);
void HandleDeleteTopics(Services& services, RequestPtr request);
void HandleCreatePartitions(Services& services, RequestPtr request);
void HandleDeleteRecords(Services& services, RequestPtr request);

// config_handlers.cc
void HandleDescribeConfigs(Services& services, RequestPtr request);
void HandleAlterConfigs(Services& services, RequestPtr request);
void HandleIncrementalAlterConfigs(Services& services, RequestPtr request);
void HandleListConfigResources(Services& services, RequestPtr request);

// operation_handlers.cc
void HandleDescribeProducers(Services& services, RequestPtr request);
void HandleDescribeLogDirs(Services& services, RequestPtr request);
void HandleElectLeaders(Services& services, RequestPtr request);
void HandleUpdateFeatures(Services& services, RequestPtr request);
// A mirror topic answers success and appends nothing: its markers come from the source.
void HandleWriteTxnMarkers(Services& services, RequestPtr request);

// reassignment_handlers.cc
void HandleAlterPartitionReassignments(Services& services, RequestPtr request);
void HandleListPartitionReassignments(Services& services, RequestPtr request);

}  // namespace kmirror::broker
