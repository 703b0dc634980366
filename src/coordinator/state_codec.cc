#include "src/coordinator/state_codec.h"

#include "src/base/java_hash.h"
#include "src/protocol/reader.h"
#include "src/protocol/writer.h"

namespace kmirror::coordinator {
namespace {

constexpr int16_t kRecordType = 2;
constexpr int16_t kValueVersion = 0;

Status Malformed(std::string_view what) {
  return {ErrorCode::kMalformed, "__mirror_state record: " + std::string(what)};
}

}  // namespace

std::string StateKey::Text() const {
  return mirror + ":" + partition.topic_id.ToString() + ":" + std::to_string(partition.partition);
}

int32_t StateKey::Shard(int32_t count) const { return AbsHash(JavaHash(Text())) % count; }

std::vector<uint8_t> EncodeStateKey(const StateKey& key) {
  protocol::Writer out;
  out.PutInt16(kRecordType);
  // A mirror name has at most 249 characters, so it always fits.
  if (!out.PutString(false, key.mirror)) return {};
  out.PutUuid(key.partition.topic_id);
  out.PutInt32(key.partition.partition);
  return out.Flatten();
}

Result<StateKey> DecodeStateKey(ByteView bytes) {
  protocol::Reader in(bytes);
  int16_t type = 0;
  StateKey key;
  if (!in.ReadInt16(&type)) return Malformed("key is too short");
  if (type != kRecordType) return Malformed("unknown record type " + std::to_string(type));
  if (!in.ReadString(false, &key.mirror) || !in.ReadUuid(&key.partition.topic_id) ||
      !in.ReadInt32(&key.partition.partition) || in.remaining() != 0) {
    return Malformed("key does not decode");
  }
  return key;
}

std::vector<uint8_t> EncodeStateValue(const statemachine::PartitionRecord& record) {
  protocol::Writer out;
  out.PutInt16(kValueVersion);
  out.PutInt8(static_cast<int8_t>(record.state));
  out.PutInt8(static_cast<int8_t>(record.previous));
  out.PutInt32(record.leader_epoch);
  out.PutInt32(record.state_epoch);
  out.PutInt32(record.position.epoch);
  out.PutInt64(record.position.offset);
  out.PutInt8(static_cast<int8_t>(record.progress));
  out.PutInt16(record.attempt);
  // Reasons are texts of ours and short; one that is not is cut rather than refused.
  constexpr size_t kMaxReason = 4096;
  if (!out.PutString(true, std::string_view(record.reason).substr(0, kMaxReason))) return {};
  out.PutUnsignedVarint(0);  // tagged fields, none yet
  return out.Flatten();
}

Result<statemachine::PartitionRecord> DecodeStateValue(ByteView bytes) {
  protocol::Reader in(bytes);
  statemachine::PartitionRecord record;
  int16_t version = -1;
  int8_t state = 0, previous = 0, progress = 0;
  if (!in.ReadInt16(&version)) return Malformed("value is too short");
  if (version != kValueVersion)
    return Malformed("unknown value version " + std::to_string(version));
  if (!in.ReadInt8(&state) || !in.ReadInt8(&previous) || !in.ReadInt32(&record.leader_epoch) ||
      !in.ReadInt32(&record.state_epoch) || !in.ReadInt32(&record.position.epoch) ||
      !in.ReadInt64(&record.position.offset) || !in.ReadInt8(&progress) ||
      !in.ReadInt16(&record.attempt) || !in.ReadString(true, &record.reason)) {
    return Malformed("value does not decode");
  }
  if (state < 0 || state > 8 || previous < -1 || previous > 8 || progress < 0 || progress > 2) {
    return Malformed("a state is out of range");
  }
  record.state = static_cast<MirrorPartitionState>(state);
  record.previous = static_cast<MirrorPartitionState>(previous);
  record.progress = static_cast<statemachine::Progress>(progress);
  return record;
}

}  // namespace kmirror::coordinator
