#include "tests/sim/naive_log.h"

#include <algorithm>
#include <cstring>

namespace kmirror::sim {
namespace {

constexpr int kAbort = 0;
constexpr int kCommit = 1;
constexpr int kReset = 7;
constexpr size_t kHeaderBytes = 61;

// Reads big-endian numbers; `ok` turns false past the end and stays so.
struct Cursor {
  const uint8_t* at;
  const uint8_t* end;
  bool ok = true;

  template <typename T>
  T Number() {
    uint64_t value = 0;
    for (size_t i = 0; i < sizeof(T); ++i) value = value << 8 | Byte();
    return static_cast<T>(value);
  }
  uint8_t Byte() {
    if (at >= end) {
      ok = false;
      return 0;
    }
    return *at++;
  }
  int64_t Varint() {
    uint64_t value = 0;
    for (int shift = 0; shift < 64; shift += 7) {
      const uint8_t byte = Byte();
      value |= static_cast<uint64_t>(byte & 0x7F) << shift;
      if ((byte & 0x80) == 0) break;
    }
    return static_cast<int64_t>(value >> 1) ^ -static_cast<int64_t>(value & 1);
  }
  Cursor Take(int64_t bytes) {
    if (bytes < 0 || bytes > end - at) {
      ok = false;
      bytes = 0;
    }
    Cursor taken{at, at + bytes};
    at += bytes;
    return taken;
  }
};

std::optional<StateKeyText> ParseKey(Cursor in) {
  StateKeyText key;
  if (in.Number<int16_t>() != 2) return std::nullopt;
  const Cursor name = in.Take(in.Number<int16_t>());
  key.mirror.assign(reinterpret_cast<const char*>(name.at),
                    static_cast<size_t>(name.end - name.at));
  for (uint8_t& byte : key.topic_id.bytes) byte = in.Byte();
  key.partition = in.Number<int32_t>();
  return in.ok && in.at == in.end ? std::optional(key) : std::nullopt;
}

std::optional<StateRow> ParseRow(Cursor in) {
  StateRow row;
  if (in.Number<int16_t>() != 0) return std::nullopt;
  row.state = in.Number<int8_t>();
  row.previous = in.Number<int8_t>();
  row.leader_epoch = in.Number<int32_t>();
  row.state_epoch = in.Number<int32_t>();
  row.position_epoch = in.Number<int32_t>();
  row.position_offset = in.Number<int64_t>();
  row.progress = in.Number<int8_t>();
  row.attempt = in.Number<int16_t>();
  uint64_t length = 0;  // an unsigned varint, plus one
  for (int shift = 0; shift < 32; shift += 7) {
    const uint8_t byte = in.Byte();
    length |= static_cast<uint64_t>(byte & 0x7F) << shift;
    if ((byte & 0x80) == 0) break;
  }
  const Cursor reason = in.Take(static_cast<int64_t>(length) - 1);
  row.reason.assign(reinterpret_cast<const char*>(reason.at),
                    static_cast<size_t>(reason.end - reason.at));
  return in.ok ? std::optional(row) : std::nullopt;
}

}  // namespace

void OpenTransactions::Apply(const RawBatch& batch) {
  if (batch.IsControl()) {
    const int type = batch.ControlType();
    if (type == kAbort || type == kCommit) open_.erase(batch.producer_id);
    if (type == kReset) open_.clear();
    return;
  }
  if (batch.IsTransactional() && batch.producer_id >= 0) {
    open_.try_emplace(batch.producer_id, batch.base_offset);
  }
}

int64_t OpenTransactions::Stable(int64_t end) const {
  int64_t stable = end;
  for (const auto& [id, first] : open_) stable = std::min(stable, first);
  return stable;
}

std::string Shape(const BatchList& batches) {
  std::string text;
  // The beginning tells little; the end is where things happen.
  const size_t from = batches.size() > 40 ? batches.size() - 40 : 0;
  if (from > 0) text += "... ";
  for (size_t i = from; i < batches.size(); ++i) {
    const RawBatch& batch = *batches[i];
    const std::string at = "@" + std::to_string(batch.leader_epoch) + " ";
    if (batch.IsControl()) {
      const int type = batch.ControlType();
      const char* name =
          type == kAbort ? "A" : (type == kCommit ? "C" : (type == kReset ? "R" : "?"));
      text +=
          name + std::to_string(batch.producer_id) + ":" + std::to_string(batch.base_offset) + at;
    } else {
      if (batch.producer_id >= 0) {
        text += (batch.IsTransactional() ? "T" : "P") + std::to_string(batch.producer_id) + ":";
      }
      text += std::to_string(batch.base_offset) + "-" + std::to_string(batch.last_offset) + at;
    }
  }
  return text;
}

std::optional<StateRows> ParseStateBatch(const RawBatch& batch) {
  StateRows rows;
  if (batch.IsControl()) return rows;
  if (batch.Codec() != 0 || batch.bytes.size() < kHeaderBytes) return std::nullopt;
  Cursor in{batch.bytes.data() + kHeaderBytes, batch.bytes.data() + batch.bytes.size()};
  for (int32_t i = 0; i < batch.count; ++i) {
    Cursor record = in.Take(in.Varint());
    record.Byte();    // attributes
    record.Varint();  // timestamp
    record.Varint();  // offset
    const auto key = ParseKey(record.Take(record.Varint()));
    const int64_t length = record.Varint();
    std::optional<StateRow> row;
    if (length >= 0) {
      row = ParseRow(record.Take(length));
      if (!row) return std::nullopt;
    }
    if (!in.ok || !record.ok || !key) return std::nullopt;
    rows.emplace_back(*key, std::move(row));
  }
  return in.at == in.end ? std::optional(std::move(rows)) : std::nullopt;
}

const char* StateText(int8_t state) {
  static constexpr const char* kNames[] = {"PREPARING", "EPOCH_FENCING", "ULE_RECOVERY",
                                           "MIRRORING", "PAUSING",       "PAUSED",
                                           "STOPPING",  "STOPPED",       "FAILED"};
  return state < 0 || state > 8 ? "UNKNOWN" : kNames[state];
}

}  // namespace kmirror::sim
