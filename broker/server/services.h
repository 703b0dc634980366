// Everything a request handler may use. Borrowed; outlives every request.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "broker/config/broker_config.h"
#include "broker/controller/controller.h"
#include "broker/controller/log_directory.h"
#include "broker/server/broker_metrics.h"
#include "broker/server/loop.h"
#include "broker/server/served_request.h"
#include "kmirror/mirror.h"

namespace kmirror::broker {

class FetchSessions;
class LogWatch;

struct Services {
  const BrokerConfig* config = nullptr;
  Controller* controller = nullptr;
  LogDirectory* logs = nullptr;
  FetchSessions* sessions = nullptr;
  LogWatch* watch = nullptr;
  BrokerMetrics* metrics = nullptr;
  // Serial; for what blocks on the disk: changes of the metadata.
  Loop* worker = nullptr;
  // nullptr until the mirror host has started and after it stopped.
  std::function<Mirror*()> mirror;
  std::function<int64_t()> monotonic_ms;
  std::function<int64_t()> wall_ms;
  // Level: "info", "warn", "debug".
  std::function<void(std::string_view level, const std::string& line)> log;
};

// The address under which a client that came by this connection should find the broker.
HostPort EndpointFor(const BrokerImage& broker, const ConnectionInfo& connection);

// May a client change this topic (R34)? Otherwise INVALID_REQUEST with the text for the client.
Status CheckMirrorTopicChange(const Services& services, const TopicImage& topic);

// The status of a refused topic change as clients of R34 read it; others stay as they are.
Status PublicTopicChange(const Status& status);

// Why a partition that the metadata names cannot be served: KAFKA_STORAGE_ERROR, or
// UNKNOWN_TOPIC_OR_PARTITION if it does not name it.
ErrorCode WhyNotHere(const MetadataImage& image, std::string_view topic, int32_t partition);

// Bits of the operations anyone may do while nobody is asked who he is (Kafka without authorizer).
inline constexpr int32_t kTopicOperations = 0b1101'1111'1000;
inline constexpr int32_t kClusterOperations = 0b1'1111'1010'0000;

}  // namespace kmirror::broker
