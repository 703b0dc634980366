#include "broker/server/services.h"

#include "src/protocol/wire_error.h"

namespace kmirror::broker {

HostPort EndpointFor(const BrokerImage& broker, const ConnectionInfo& connection) {
  if (broker.endpoints.empty()) return {};
  const size_t index = connection.listener < broker.endpoints.size() ? connection.listener : 0;
  return broker.endpoints[index].address;
}

Status CheckMirrorTopicChange(const Services& services, const TopicImage& topic) {
  if (MirrorLinkOf(topic).mirror.empty()) return {};
  const Mirror* mirror = services.mirror ? services.mirror() : nullptr;
  if (mirror == nullptr) {
    return protocol::RefusedMirrorTopicChange("the state of the mirror is not loaded yet");
  }
  return PublicTopicChange(mirror->CheckTopicChange(topic.id));
}

Status PublicTopicChange(const Status& status) {
  if (status.code() != ErrorCode::kMirrorTopicNotStopped) return status;
  return protocol::RefusedMirrorTopicChange(status.message());
}

ErrorCode WhyNotHere(const MetadataImage& image, std::string_view topic, int32_t partition) {
  const TopicPtr known = image.topics.Find(topic);
  if (!known || partition < 0 || partition >= known->partition_count()) {
    return ErrorCode::kUnknownTopicOrPartition;
  }
  return ErrorCode::kKafkaStorageError;
}

}  // namespace kmirror::broker
