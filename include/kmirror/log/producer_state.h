// What a partition's log knows of its producers: epochs, sequences, open transactions.
//
// Every host must derive exactly this state from the same bytes, live, on followers and in replay,
// so the rules are here. State is applied batch by batch, never accumulated over an append: then a
// MIRROR_PID_RESET in the middle of a fetched set forgets what stands before it and nothing else,
// and the result does not depend on how batches were grouped (S94).
//
// Externally synchronised (the log's append lock). Allocates only for a producer seen for the first
// time and for an open transaction.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

#include "kmirror/log/batch.h"
#include "kmirror/status.h"

namespace kmirror::log {

// A batch of a producer, as far as duplicates are concerned.
struct ProducerBatch {
  int32_t last_sequence = -1;
  int32_t offset_delta = 0;  // last offset - base offset
  int64_t last_offset = -1;
  int64_t timestamp = -1;
  int64_t base_offset() const { return last_offset - offset_delta; }
  int32_t first_sequence() const {  // wraps like the sequence itself
    return static_cast<int32_t>((int64_t{last_sequence} - offset_delta) & 0x7fffffff);
  }
};

// A row of DescribeProducers, and of a snapshot file.
struct ProducerInfo {
  int64_t producer_id = -1;
  int16_t producer_epoch = -1;
  int32_t last_sequence = -1;
  int64_t last_offset = -1;
  int32_t offset_delta = 0;
  int64_t last_timestamp = -1;
  int32_t coordinator_epoch = -1;
  int64_t txn_first_offset = -1;  // of the open transaction, -1 none
  bool operator==(const ProducerInfo&) const = default;
};

struct OpenTransaction {
  int64_t first_offset = -1;
  int64_t producer_id = -1;
  int16_t producer_epoch = -1;
  int32_t coordinator_epoch = -1;  // -1 never seen; an ABORT then says 0 (R18)
  int64_t last_timestamp = -1;
};

struct CompletedTransaction {
  int64_t producer_id = -1;
  int64_t first_offset = -1;
  int64_t marker_offset = -1;
  // First offset of the oldest other transaction open at this very batch, else marker offset + 1.
  // Goes into the transaction index; Kafka computes it after the whole append instead (S109).
  int64_t last_stable_offset = -1;
  bool aborted = false;
};

class ProducerState {
 public:
  static constexpr size_t kBatchesKept = 5;

  // --- Applying batches that are already accepted (replication origin, replay, own appends) ---

  // Whether all of `batches` can be applied in order: the one thing refused is a data batch outside
  // a transaction while its producer has one open (INVALID_TXN_STATE). Changes nothing visible.
  KMIRROR_API Status Check(std::span<const BatchInfo> batches);

  // Applies one batch. `completed` is set if it ends an open transaction, else cleared.
  // INVALID_TXN_STATE as in Check, and nothing changed. Sequences, duplicates and epochs that go
  // back are not judged: another cluster has already accepted the batch.
  KMIRROR_API Status Apply(const BatchInfo& batch, std::optional<CompletedTransaction>* completed);

  // --- Batches of our own clients ---

  struct ClientCheck {
    Status status;           // what the producer is answered; OK: append it
    bool duplicate = false;  // OK and already in the log: answer with the offset below
    int64_t base_offset = -1;
    int64_t timestamp = -1;
  };
  // Idempotence as Kafka has it: same epoch and same sequences as one of the last five batches is a
  // duplicate; out of sequence is 45; an epoch below the known one is 47; a new epoch starts at 0.
  // Without an entry any sequence is accepted (it defines the state).
  KMIRROR_API ClientCheck CheckClient(const BatchInfo& batch) const;
  // The same for a marker of our coordinator: lower producer epoch 47, lower coordinator epoch 52.
  KMIRROR_API Status CheckMarker(const BatchInfo& batch) const;

  // --- Stable offset ---

  // Transactions whose marker is below `high_watermark` stop holding the stable offset back.
  KMIRROR_API void OnHighWatermark(int64_t high_watermark);
  // First offset of the oldest transaction that is open, or whose marker is not replicated yet;
  // raised to the log start. nullopt: none.
  KMIRROR_API std::optional<int64_t> FirstUnstableOffset() const;
  // First offset of the oldest open transaction alone.
  KMIRROR_API std::optional<int64_t> FirstUndecidedOffset() const;
  // The last stable offset for a given high watermark: min(high watermark, first unstable offset).
  int64_t LastStableOffset(int64_t high_watermark) const {
    const std::optional<int64_t> unstable = FirstUnstableOffset();
    return unstable && *unstable < high_watermark ? *unstable : high_watermark;
  }
  // Open transactions, by first offset, then producer id (R18).
  KMIRROR_API std::vector<OpenTransaction> OpenTransactions() const;
  // The log now starts at `log_start`: unreplicated transactions below it are forgotten.
  KMIRROR_API void OnLogStart(int64_t log_start);

  // --- Contents ---

  KMIRROR_API std::vector<ProducerInfo> Producers() const;  // by producer id
  KMIRROR_API std::optional<ProducerInfo> Find(int64_t producer_id) const;
  size_t size() const { return producers_.size(); }
  // The greatest producer id a batch ever applied carried since Clear(), -1 none (R9).
  int64_t max_producer_id() const { return max_producer_id_; }
  // MIRROR_PID_RESETs that met an open transaction, which their writer must have ended before: a
  // damaged peer. Its producer is kept, so that replicas and replays agree.
  int64_t reset_violations() const { return reset_violations_; }
  int64_t resets_applied() const { return resets_applied_; }
  // Offset after the last batch applied (or loaded); what a snapshot is named by.
  int64_t map_end_offset() const { return map_end_offset_; }
  void set_map_end_offset(int64_t offset) { map_end_offset_ = offset; }

  KMIRROR_API void Clear();
  // Forgets producers idle for at least `expiration_ms` that have no open transaction.
  KMIRROR_API void Expire(int64_t now_ms, int64_t expiration_ms);

  // --- Snapshots (`<offset>.snapshot`) ---

  KMIRROR_API std::vector<uint8_t> EncodeSnapshot() const;  // in order of producer id
  // CORRUPT_MESSAGE: wrong version, size or checksum.
  KMIRROR_API static Result<std::vector<ProducerInfo>> DecodeSnapshot(ByteView bytes);
  // Replaces everything. Open transactions come back, completed but unreplicated ones are not
  // stored. Entries below idle limit are dropped as Expire does; pass now_ms < 0 to keep all.
  KMIRROR_API void Load(std::span<const ProducerInfo> entries, int64_t map_end_offset,
                        int64_t now_ms, int64_t expiration_ms);

 private:
  struct Entry {
    std::array<ProducerBatch, kBatchesKept> batches;  // a ring: oldest at `first`
    int64_t last_timestamp = -1;
    int64_t txn_first_offset = -1;
    int32_t coordinator_epoch = -1;
    int16_t producer_epoch = -1;
    uint8_t first = 0;
    uint8_t count = 0;
    uint32_t check_round = 0;  // scratch of Check
    bool check_open = false;

    const ProducerBatch& Newest() const { return batches[(first + count - 1) % kBatchesKept]; }
    void Add(const ProducerBatch& batch);
    void DropBatches() { first = count = 0; }
  };

  void Reset();
  static ProducerInfo InfoOf(int64_t producer_id, const Entry& entry);

  std::unordered_map<int64_t, Entry> producers_;
  std::map<int64_t, int64_t> ongoing_;                    // first offset -> producer id
  std::map<int64_t, CompletedTransaction> unreplicated_;  // by first offset
  std::unordered_map<int64_t, bool> check_new_;           // scratch of Check: ids without entry
  int64_t log_start_ = 0;
  int64_t map_end_offset_ = 0;
  int64_t max_producer_id_ = -1;
  int64_t reset_violations_ = 0;
  int64_t resets_applied_ = 0;
  uint32_t check_round_ = 0;
};

}  // namespace kmirror::log
