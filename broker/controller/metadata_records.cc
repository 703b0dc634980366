#include "broker/controller/metadata_records.h"

#include <utility>

#include "src/protocol/reader.h"
#include "src/protocol/writer.h"

namespace kmirror::broker {
namespace {

using protocol::Reader;
using protocol::Writer;

constexpr int8_t kVersion = 1;

ByteView Bytes(std::string_view text) {
  return {reinterpret_cast<const uint8_t*>(text.data()), text.size()};
}

std::string Take(const Writer& writer) {
  const std::vector<uint8_t> bytes = writer.Flatten();
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

// 32-bit lengths: a config may hold a chain of certificates.
void PutText(Writer& writer, std::string_view text) {
  writer.PutInt32(static_cast<int32_t>(text.size()));
  writer.PutRaw(Bytes(text));
}

bool ReadText(Reader& reader, std::string* text) {
  int32_t size = 0;
  ByteView view;
  if (!reader.ReadInt32(&size) || size < 0 || !reader.ReadView(static_cast<size_t>(size), &view))
    return false;
  text->assign(reinterpret_cast<const char*>(view.data()), view.size());
  return true;
}

// A count of things of at least `bytes` bytes each.
bool ReadCount(Reader& reader, size_t bytes, int32_t* count) {
  return reader.ReadInt32(count) && *count >= 0 &&
         static_cast<size_t>(*count) <= reader.remaining() / bytes;
}

bool ReadVersion(Reader& reader) {
  int8_t version = 0;
  return reader.ReadInt8(&version) && version == kVersion;
}

void PutConfigs(Writer& writer, const StoredConfigs& configs) {
  writer.PutInt32(static_cast<int32_t>(configs.size()));
  for (const auto& [key, value] : configs) {
    PutText(writer, key);
    PutText(writer, value);
  }
}

bool ReadConfigs(Reader& reader, StoredConfigs* configs) {
  int32_t count = 0;
  if (!ReadCount(reader, 8, &count)) return false;
  for (int32_t i = 0; i < count; ++i) {
    std::string key;
    std::string value;
    if (!ReadText(reader, &key) || !ReadText(reader, &value)) return false;
    configs->emplace(std::move(key), std::move(value));
  }
  return true;
}

}  // namespace

std::string TopicKey(std::string_view name) { return std::string(kTopicPrefix).append(name); }
std::string MirrorKey(std::string_view name) { return std::string(kMirrorPrefix).append(name); }
std::string BrokerConfigKey(int32_t broker) {
  return std::string(kBrokerConfigPrefix).append(std::to_string(broker));
}

std::string EncodeCluster(const ClusterRecord& record) {
  Writer writer;
  writer.PutInt8(kVersion);
  PutText(writer, record.cluster_id);
  writer.PutInt16(record.mirror_feature);
  writer.PutInt32(record.producer_generation);
  writer.PutInt64(record.producer_reserved);
  return Take(writer);
}

std::optional<ClusterRecord> DecodeCluster(std::string_view value) {
  Reader reader(Bytes(value));
  ClusterRecord record;
  if (!ReadVersion(reader) || !ReadText(reader, &record.cluster_id) ||
      !reader.ReadInt16(&record.mirror_feature) || !reader.ReadInt32(&record.producer_generation) ||
      !reader.ReadInt64(&record.producer_reserved) || reader.remaining() != 0 ||
      record.producer_generation < 0 || record.producer_reserved < 0) {
    return std::nullopt;
  }
  return record;
}

std::string EncodeTopic(const TopicImage& topic) {
  Writer writer;
  writer.PutInt8(kVersion);
  writer.PutUuid(topic.id);
  writer.PutInt32(topic.partition_count());
  for (const PartitionImage& partition : topic.partitions) {
    writer.PutInt32(partition.leader);
    writer.PutInt32(partition.leader_epoch);
  }
  PutConfigs(writer, topic.configs);
  return Take(writer);
}

std::optional<TopicImage> DecodeTopic(std::string_view name, std::string_view value) {
  Reader reader(Bytes(value));
  TopicImage topic;
  topic.name = name;
  int32_t count = 0;
  if (!ReadVersion(reader) || !reader.ReadUuid(&topic.id) || !ReadCount(reader, 8, &count) ||
      count < 1) {
    return std::nullopt;
  }
  topic.partitions.resize(static_cast<size_t>(count));
  for (PartitionImage& partition : topic.partitions) {
    if (!reader.ReadInt32(&partition.leader) || !reader.ReadInt32(&partition.leader_epoch))
      return std::nullopt;
  }
  if (!ReadConfigs(reader, &topic.configs) || reader.remaining() != 0 || topic.id.IsZero())
    return std::nullopt;
  return topic;
}

std::string EncodeConfigs(const StoredConfigs& configs) {
  Writer writer;
  writer.PutInt8(kVersion);
  PutConfigs(writer, configs);
  return Take(writer);
}

std::optional<StoredConfigs> DecodeConfigs(std::string_view value) {
  Reader reader(Bytes(value));
  StoredConfigs configs;
  if (!ReadVersion(reader) || !ReadConfigs(reader, &configs) || reader.remaining() != 0)
    return std::nullopt;
  return configs;
}

}  // namespace kmirror::broker
