// Walks the body of a Fetch answer (v10 to v17) while it arrives and hands out whole batches as
// they lie in the receive slabs: nothing is moved, nothing is decoded but headers.
//
//   parser.Begin(version, body_bytes);
//   loop: room = parser.Room(left); receive into it; parser.Received(n);
//   parser.Finish();
//
// A set is handed out at the end of its partition, or as soon as it holds kSetBytes of whole
// batches. A batch that does not end in its slab goes on in the next one; the set then has several
// pieces. Every length is compared with what the body has left before it is used, and a claim that
// cannot be true is a clear error. A batch cut off by the end of the partition's bytes is dropped
// and counted; it will be fetched again. A corrupt batch (size, magic, order of offsets, checksum)
// ends its partition: the set under way and what follows is dropped, other partitions of the answer
// are not touched.
//
// Confined to one lane. Memory: at most the pool's bound, except for one batch greater than it,
// which is taken whole, alone (R37).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "kmirror/host/partition_log.h"
#include "kmirror/status.h"
#include "kmirror/types.h"
#include "src/fetcher/fetched_set.h"
#include "src/fetcher/slab_pool.h"

namespace kmirror::fetcher {

inline constexpr int16_t kFetchMinVersion = 10;  // below, zstd is refused (1.11)
inline constexpr int16_t kFetchMaxVersion = 17;
inline constexpr int16_t kFetchFirstFlexible = 12;
inline constexpr int16_t kFetchFirstTopicIds = 13;
inline constexpr int16_t kFetchFirstEndpoints = 16;

// A partition of the answer, up to its records.
struct FetchedPartition {
  std::string topic;                   // up to v12
  Uuid topic_id;                       // from v13
  int32_t index = -1;
  ErrorCode error = ErrorCode::kNone;
  int64_t high_watermark = -1;
  int64_t last_stable_offset = -1;
  int64_t log_start_offset = -1;       // -1 unknown
  int32_t preferred_read_replica = -1; // from v11
  int64_t records_bytes = 0;
};

// What is known once its records and tags are read.
struct FetchedPartitionEnd {
  host::EpochEnd diverging;            // from v12: not undefined when our epochs diverge
  int32_t leader_id = -1;              // with NOT_LEADER_OR_FOLLOWER, FENCED_LEADER_EPOCH, from v16
  int32_t leader_epoch = -1;
  bool corrupt = false;
  std::string corruption;              // why, in words
  int64_t corrupt_offset = -1;         // base offset of the bad batch, -1 when unreadable
  int64_t partial_bytes = 0;           // of the last batch, dropped
};

struct NodeEndpoint {
  int32_t id = -1;
  HostPort address;
};

class FetchResponseHandler {
 public:
  virtual ~FetchResponseHandler() = default;
  // Not OK: the rest of the body is skipped, and Finish answers this.
  virtual Status OnPrologue(int32_t throttle_ms, ErrorCode error, int32_t session_id) = 0;
  // False: its records are skipped unseen.
  virtual bool OnPartition(const FetchedPartition& partition) = 0;
  // Whole batches of the partition last announced. Hand the set back by Recycle when it is done
  // with.
  virtual void OnSet(std::unique_ptr<FetchedSet> set) = 0;
  virtual void OnPartitionEnd(const FetchedPartition& partition,
                              const FetchedPartitionEnd& end) = 0;
  // Memory is short: sets that wait for no one should be finished now.
  virtual void OnMemoryShort() = 0;
  // Sets not yet recycled wait for the host's log.
  virtual bool HoldsSets() const = 0;
};

class FetchResponseParser {
 public:
  static constexpr size_t kSetBytes = 512 << 10;

  // Both outlive the parser.
  FetchResponseParser(SlabPool* pool, FetchResponseHandler* handler);

  // Starts a new answer of `body_bytes`; what was left of an earlier one is forgotten.
  void Begin(int16_t version, size_t body_bytes);
  // Room for at least one of the `left` (> 0) bytes to come; empty when the slab bound is reached
  // and the handler holds sets: try again after Recycle.
  std::span<uint8_t> Room(size_t left);
  // `bytes` were stored at the start of the last Room. kMalformed: the connection is of no more
  // use.
  Status Received(size_t bytes);
  // After the last byte: OK if the answer was whole, else what OnPrologue said, or kMalformed.
  Status Finish();
  // Gives up an answer that will not be finished, with the memory it holds.
  void Abandon();
  void Recycle(std::unique_ptr<FetchedSet> set);

  // Every byte of the answer has been consumed.
  bool AtEnd() const { return body_left_ == 0; }
  // From v16, after Finish.
  const std::vector<NodeEndpoint>& endpoints() const { return endpoints_; }

 private:
  enum class State : uint8_t {
    kPrologue, kTopic, kPartition, kAborted, kRecordsLength, kRecords, kPartitionTags, kTopicTags,
    kEndTags, kDone, kSkip
  };
  enum class Step : uint8_t { kOk, kShort, kBad };
  class Cursor;

  bool flexible() const { return version_ >= kFetchFirstFlexible; }
  Status Consume(const uint8_t* at, size_t size);
  Status ConsumeElement(const uint8_t*& at, size_t& size);
  Step ParseElement(Cursor& in);
  Step ParsePrologue(Cursor& in);
  Step ParseTopic(Cursor& in);
  Step ParsePartition(Cursor& in);
  Step ParseAborted(Cursor& in);
  Step ParseRecordsLength(Cursor& in);
  Step ParsePartitionTags(Cursor& in);
  Step ParseEndTags(Cursor& in);
  // Moves on through states that need no bytes.
  void Settle();
  void EndPartition();
  Status Malformed(const std::string& what);

  size_t ConsumeRecords(const uint8_t* at, size_t size);
  // At the start of a batch, or within its header; answers the bytes taken.
  size_t ConsumeHeader(const uint8_t* at, size_t size);
  void TakeBytes(const uint8_t* at, size_t size);
  void FinishBatch();
  void Corrupt(std::string why, int64_t offset);
  void DropOpen();
  void EmitSet();
  FetchedSet& set();

  SlabPool* const pool_;
  FetchResponseHandler* const handler_;
  std::vector<std::unique_ptr<FetchedSet>> spare_sets_;

  // Receiving.
  SlabRef slab_;
  size_t fill_ = 0;          // bytes of slab_ in use
  size_t body_left_ = 0;     // not yet consumed

  // Walking the answer.
  State state_ = State::kDone;
  int16_t version_ = 0;
  Status refused_;           // of OnPrologue
  std::string bad_;          // why ParseElement said kBad
  std::vector<uint8_t> element_;  // of an element that has not fully arrived
  int64_t topics_left_ = 0;
  int64_t partitions_left_ = 0;
  int64_t aborted_left_ = 0;
  FetchedPartition partition_;
  FetchedPartitionEnd end_;
  std::vector<NodeEndpoint> endpoints_;

  // Walking records.
  int64_t records_left_ = 0;
  bool skip_records_ = false;
  int64_t previous_last_offset_ = -1;
  std::unique_ptr<FetchedSet> set_;
  bool in_batch_ = false;            // its header is known
  log::BatchInfo info_;
  int64_t batch_left_ = 0;           // bytes of the batch not yet consumed
  uint32_t crc_ = 0;
  size_t crc_skip_ = 0;              // bytes not consumed yet that the checksum does not cover
  uint32_t stored_crc_ = 0;
  std::array<uint8_t, 64> header_{}; // start of a batch whose header has not fully arrived
  std::vector<ByteView> open_bytes_; // pieces of the batch under way
  std::vector<SlabRef> open_slabs_;
  size_t open_size_ = 0;
};

}  // namespace kmirror::fetcher
