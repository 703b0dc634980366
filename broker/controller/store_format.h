// Bytes of the metadata store's files. Big-endian, every length checked. Pure.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "broker/controller/metadata_store.h"
#include "kmirror/status.h"
#include "kmirror/types.h"

namespace kmirror::broker {

struct StoreBatch {
  int64_t revision = 0;
  std::vector<StoreChange> changes;  // expected revisions are not kept
};

inline constexpr size_t kStoreLogHeaderBytes = 24;
// No batch is larger: a length beyond it is damage, not a reason to allocate.
inline constexpr size_t kStoreBatchBytesMax = 256 << 20;

std::vector<uint8_t> EncodeLogHeader(int64_t base_revision);
// nullopt: not a header of ours.
std::optional<int64_t> DecodeLogHeader(ByteView bytes);

std::vector<uint8_t> EncodeBatch(const StoreBatch& batch);
// The batch that begins at `bytes`; *size is what it takes. nullopt: none that is whole and right.
std::optional<StoreBatch> DecodeBatch(ByteView bytes, size_t* size);
// Is there a whole batch with a revision above `revision` anywhere in `bytes`? Then what precedes
// it is damage and no torn tail.
bool HasLaterBatch(ByteView bytes, int64_t revision);

using StoreEntries = std::map<std::string, StoredValue, std::less<>>;
std::vector<uint8_t> EncodeSnapshot(int64_t revision, const StoreEntries& entries);
struct StoreSnapshot {
  int64_t revision = 0;
  StoreEntries entries;
};
std::optional<StoreSnapshot> DecodeSnapshot(ByteView bytes);

}  // namespace kmirror::broker
