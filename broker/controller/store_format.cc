#include "broker/controller/store_format.h"

#include <algorithm>
#include <cstring>
#include <string_view>
#include <utility>

#include "kmirror/log/checksum.h"
#include "src/protocol/reader.h"
#include "src/protocol/writer.h"

namespace kmirror::broker {
namespace {

using protocol::Reader;
using protocol::Writer;

constexpr std::string_view kLogMagic = "KMIRMETA";
constexpr std::string_view kSnapshotMagic = "KMIRSNAP";
constexpr int32_t kFormatVersion = 1;
constexpr size_t kBatchPrefixBytes = 8;  // length, checksum
constexpr size_t kBatchBytesMin = 12;    // revision, count
constexpr size_t kChangeBytesMin = 8;    // two lengths

ByteView Bytes(std::string_view text) {
  return {reinterpret_cast<const uint8_t*>(text.data()), text.size()};
}

// Sizes are bounded by what a request can bring, far below what the writer refuses.
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

bool SkipMagic(Reader& reader, std::string_view magic) {
  ByteView view;
  int32_t version = 0;
  return reader.ReadView(magic.size(), &view) &&
         std::memcmp(view.data(), magic.data(), magic.size()) == 0 && reader.ReadInt32(&version) &&
         version == kFormatVersion;
}

}  // namespace

std::vector<uint8_t> EncodeLogHeader(int64_t base_revision) {
  Writer writer;
  writer.PutRaw(Bytes(kLogMagic));
  writer.PutInt32(kFormatVersion);
  writer.PutInt64(base_revision);
  writer.PutInt32(static_cast<int32_t>(log::Crc32c(0, writer.Flatten())));
  return writer.Flatten();
}

std::optional<int64_t> DecodeLogHeader(ByteView bytes) {
  if (bytes.size() < kStoreLogHeaderBytes) return std::nullopt;
  Reader reader(bytes.first(kStoreLogHeaderBytes));
  int64_t base = 0;
  int32_t checksum = 0;
  if (!SkipMagic(reader, kLogMagic) || !reader.ReadInt64(&base) || !reader.ReadInt32(&checksum) ||
      base < 0 ||
      static_cast<uint32_t>(checksum) != log::Crc32c(0, bytes.first(kStoreLogHeaderBytes - 4))) {
    return std::nullopt;
  }
  return base;
}

std::vector<uint8_t> EncodeBatch(const StoreBatch& batch) {
  Writer body;
  body.PutInt64(batch.revision);
  body.PutInt32(static_cast<int32_t>(batch.changes.size()));
  for (const StoreChange& change : batch.changes) {
    PutText(body, change.key);
    if (change.value) {
      PutText(body, *change.value);
    } else {
      body.PutInt32(-1);
    }
  }
  const std::vector<uint8_t> bytes = body.Flatten();
  Writer writer;
  writer.PutInt32(static_cast<int32_t>(bytes.size()));
  writer.PutInt32(static_cast<int32_t>(log::Crc32c(0, bytes)));
  writer.PutRaw(bytes);
  return writer.Flatten();
}

std::optional<StoreBatch> DecodeBatch(ByteView bytes, size_t* size) {
  Reader prefix(bytes);
  int32_t length = 0;
  int32_t checksum = 0;
  ByteView body;
  if (!prefix.ReadInt32(&length) || length < static_cast<int32_t>(kBatchBytesMin) ||
      static_cast<size_t>(length) > kStoreBatchBytesMax || !prefix.ReadInt32(&checksum) ||
      !prefix.ReadView(static_cast<size_t>(length), &body) ||
      log::Crc32c(0, body) != static_cast<uint32_t>(checksum)) {
    return std::nullopt;
  }
  Reader reader(body);
  StoreBatch batch;
  int32_t count = 0;
  if (!reader.ReadInt64(&batch.revision) || !reader.ReadInt32(&count) || batch.revision < 1 ||
      count < 1 || static_cast<size_t>(count) > reader.remaining() / kChangeBytesMin) {
    return std::nullopt;
  }
  batch.changes.reserve(static_cast<size_t>(count));
  for (int32_t i = 0; i < count; ++i) {
    StoreChange change;
    int32_t value_size = 0;
    ByteView value;
    if (!ReadText(reader, &change.key) || !reader.ReadInt32(&value_size)) return std::nullopt;
    if (value_size >= 0) {
      if (!reader.ReadView(static_cast<size_t>(value_size), &value)) return std::nullopt;
      change.value.emplace(reinterpret_cast<const char*>(value.data()), value.size());
    } else if (value_size != -1) {
      return std::nullopt;
    }
    batch.changes.push_back(std::move(change));
  }
  if (reader.remaining() != 0) return std::nullopt;
  *size = kBatchPrefixBytes + body.size();
  return batch;
}

bool HasLaterBatch(ByteView bytes, int64_t revision) {
  for (size_t at = 0; at + kBatchPrefixBytes + kBatchBytesMin <= bytes.size(); ++at) {
    const ByteView rest = bytes.subspan(at);
    // Length and revision first: they rule out nearly every position without a checksum.
    Reader peek(rest);
    int32_t length = 0;
    int32_t checksum = 0;
    int64_t found = 0;
    if (!peek.ReadInt32(&length) || length < static_cast<int32_t>(kBatchBytesMin) ||
        static_cast<size_t>(length) > rest.size() - kBatchPrefixBytes ||
        !peek.ReadInt32(&checksum) || !peek.ReadInt64(&found) || found <= revision ||
        found - revision > (int64_t{1} << 32)) {
      continue;
    }
    size_t size = 0;
    if (DecodeBatch(rest, &size)) return true;
  }
  return false;
}

std::vector<uint8_t> EncodeSnapshot(int64_t revision, const StoreEntries& entries) {
  Writer writer;
  writer.PutRaw(Bytes(kSnapshotMagic));
  writer.PutInt32(kFormatVersion);
  writer.PutInt64(revision);
  writer.PutInt32(static_cast<int32_t>(entries.size()));
  for (const auto& [key, stored] : entries) {
    PutText(writer, key);
    PutText(writer, stored.value);
    writer.PutInt64(stored.revision);
  }
  std::vector<uint8_t> bytes = writer.Flatten();
  Writer tail;
  tail.PutInt32(static_cast<int32_t>(log::Crc32c(0, bytes)));
  const std::vector<uint8_t> checksum = tail.Flatten();
  bytes.insert(bytes.end(), checksum.begin(), checksum.end());
  return bytes;
}

std::optional<StoreSnapshot> DecodeSnapshot(ByteView bytes) {
  if (bytes.size() < 4) return std::nullopt;
  const ByteView content = bytes.first(bytes.size() - 4);
  Reader tail(bytes.last(4));
  int32_t checksum = 0;
  if (!tail.ReadInt32(&checksum) || log::Crc32c(0, content) != static_cast<uint32_t>(checksum)) {
    return std::nullopt;
  }
  Reader reader(content);
  StoreSnapshot snapshot;
  int32_t count = 0;
  if (!SkipMagic(reader, kSnapshotMagic) || !reader.ReadInt64(&snapshot.revision) ||
      !reader.ReadInt32(&count) || snapshot.revision < 0 || count < 0) {
    return std::nullopt;
  }
  for (int32_t i = 0; i < count; ++i) {
    std::string key;
    StoredValue stored;
    if (!ReadText(reader, &key) || !ReadText(reader, &stored.value) ||
        !reader.ReadInt64(&stored.revision) || stored.revision < 1 ||
        stored.revision > snapshot.revision) {
      return std::nullopt;
    }
    snapshot.entries.emplace(std::move(key), std::move(stored));
  }
  if (reader.remaining() != 0) return std::nullopt;
  return snapshot;
}

}  // namespace kmirror::broker
