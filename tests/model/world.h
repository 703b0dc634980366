// The world of the model: everything that is durable, what two brokers hold in memory about one
// mirror partition, and how much trouble is still allowed. Plain bytes, so that a state is hashed
// and compared as memory.
//
// The rules that move it are the production functions of src/statemachine (rules.h). What is ours
// here: logs of single batches, a controller, the shard of the partition as its newest record, a
// source. Times, sizes and texts are left out.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

#include "src/statemachine/partition_record.h"
#include "src/statemachine/partition_rules.h"
#include "src/statemachine/start_position.h"

namespace kmirror::model {

inline constexpr int kMaxBrokers = 2;
inline constexpr int kMaxLog = 12;

// One batch. The source's are known by (epoch, offset), because an epoch has one writer; ours by
// what they are.
enum class Kind : uint8_t { kData, kOpens, kCommit, kLocal, kAbort, kReset };

struct Log {
  uint8_t size = 0;
  std::array<Kind, kMaxLog> kind{};
  std::array<uint8_t, kMaxLog> epoch{};

  bool Append(Kind what, int at_epoch);  // false: full, the scope is too large for this model
  void Cut(int end);
  bool HasOpenTransaction() const;
  int LastStableOffset() const;  // as if everything were replicated
  bool EndsWithReset() const { return size > 0 && kind[size - 1] == Kind::kReset; }
  bool OnlyMirrored() const;
  // Length of the common beginning.
  int Common(const Log& other) const;
  bool IsPrefixOf(const Log& other) const { return Common(other) == size; }
  int LastEpoch() const { return size == 0 ? -1 : epoch[size - 1]; }
  statemachine::LogShape Shape() const;
  std::string Text() const;  // "D5 O5 A16 R16"
  bool operator==(const Log&) const = default;
};

// Why a partition FAILED, as a number.
enum class Reason : uint8_t { kNone, kDisk, kSourceGone, kDiverged, kNoCommonPosition };
std::string_view ReasonText(Reason reason);

struct Packed {
  int8_t state = -1;
  int8_t previous = -1;
  int8_t leader_epoch = -1;
  uint8_t state_epoch = 0;
  int8_t position_epoch = -1;
  int8_t position_offset = -1;
  int8_t progress = 0;
  int8_t attempt = 0;
  Reason reason = Reason::kNone;

  static Packed Of(const statemachine::PartitionRecord& record);
  statemachine::PartitionRecord Record() const;
  MirrorPartitionState State() const { return static_cast<MirrorPartitionState>(state); }
  bool HasPosition() const { return position_epoch >= 0 || position_offset >= 0; }
  std::string Text() const;
  bool operator==(const Packed&) const = default;
};

// What a driver hands to Decide with an event.
struct Args {
  Reason reason = Reason::kNone;
  uint8_t retryable = 1;
  uint8_t forget = 0;
  int8_t position_epoch = -1;
  int8_t position_offset = -1;
  bool operator==(const Args&) const = default;
};

// A decision on its way to the shard.
struct Write {
  uint8_t event = 0;
  uint8_t action = 0;
  int8_t state = -1;
  uint8_t has_position = 0;
  int8_t position_epoch = -1;
  int8_t position_offset = -1;
  int8_t progress = -1;  // -1: kept
  int8_t attempt = -2;   // -2: kept
  uint8_t has_reason = 0;
  Reason reason = Reason::kNone;
  int8_t leader_epoch = -1;
  uint8_t expected_state_epoch = 0;

  static Write Of(statemachine::PartitionEvent event, const statemachine::Decision& decision);
  statemachine::StateWrite Make() const;
  statemachine::PartitionEvent Event() const {
    return static_cast<statemachine::PartitionEvent>(event);
  }
  bool operator==(const Write&) const = default;
};

// Where the running operation of a driver stands: what it does next, or waits for.
enum class At : uint8_t {
  kIdle,
  kTakeOver,  // waits for TAKEN_OVER
  kPrepareSource,
  kPrepareEpoch,  // waits for a leader epoch
  kPrepareCut,
  kPrepareCutWrite,  // waits for CUT_CHOSEN
  kPrepareTruncate,
  kPrepareTruncating,
  kPrepareAlign,
  kFetchResolve,
  kFetchEpoch,  // waits for a leader epoch
  kFetching,
  kRaiseRefresh,
  kRaiseEpoch,  // waits for a leader epoch
  kAwaitReplicas,
  kRemoveFetcher,
  kPaused,
  kStopRemove,
  kStopTruncate,
  kStopTruncating,
  kStopReplicated,
  kStopPosition,
  kStopPositionWrite,  // waits for POSITION_TAKEN
  kStopEpoch,
  kStopEpochWait,  // waits for a leader epoch
  kStopProducers,
  kStopAbort,
  kStopAborting,
  kStopResetting,
  kStopSync,
  kStopFinish,
  kOpen,
  kOpened,
  kFailed,
};
std::string_view AtText(At at);

enum class Writing : uint8_t { kNo, kSent, kAnswered, kRefused, kUnanswered };

// A broker's memory: the metadata it has seen, and its driver.
struct Node {
  uint8_t up = 0;
  uint8_t behind = 0;  // the wish changed since it last looked, even if to the same again
  uint8_t leads = 0;   // has a driver
  int8_t epoch = -1;   // leader epoch seen
  int8_t desired = -1;
  uint8_t open = 0;  // local writes allowed
  uint8_t loaded = 0;
  uint8_t running = 0;
  uint8_t again = 0;  // reconcile_again_
  uint8_t fetcher = 0;
  At at = At::kIdle;
  Writing writing = Writing::kNo;
  uint8_t mutating = 0;  // 1: of the running operation, 2: of an older one
  Packed record;
  Write write;
  Packed written;              // the answer to it
  uint8_t deferred = 0;        // event + 1; kDeferredFetching: OnFetching
  int8_t deferred_state = -1;  // only in this state
  Args deferred_args;
  int8_t epoch_min = -1;  // waits for an epoch above; -1 not
  int8_t cut = -1;
  uint8_t discard = 0;  // R31
  bool operator==(const Node&) const = default;
};
inline constexpr uint8_t kDeferredFetching = 100;

// What can still go wrong. Each event takes one; at zero it does not happen any more.
enum Budget : uint8_t {
  kStarts,
  kStops,
  kPauses,  // and resumes
  kRecovers,
  kDeletes,
  kKills,
  kElections,
  kShardMoves,
  kLateWrites,    // a write that lands and is not answered, or lands late
  kSourceWrites,  // batches at the source
  kSourceElections,
  kSourceTruncations,
  kSourceOutages,
  kSourceLosses,  // the topic is deleted there
  kFaults,        // local errors
  kProduces,      // by clients, here
  kBudgets,
};
std::string_view BudgetText(Budget budget);

struct World {
  // The controller's.
  int8_t desired = -1;
  uint8_t leader = 0;
  int8_t leader_epoch = 0;
  uint8_t in_sync = 1;         // bit a broker
  uint8_t producer_floor = 0;  // raised since the last mirrored batch
  uint8_t tombstone_due = 0;
  // `__mirror_state`
  uint8_t shard_loaded = 1;
  Packed stored;
  uint8_t late = 0;  // 1: a write that was not answered may still land; 2: and its sender is gone
  uint8_t late_from = 0;
  Write late_write;
  // An older leader's write has landed after the next one read the record. That one's first write
  // is refused, and then it knows (docs/decisions/0009).
  uint8_t overtaken = 0;
  // The source.
  Log source;
  int8_t source_epoch = 1;
  uint8_t source_up = 1;
  uint8_t source_gone = 0;
  uint8_t source_truncations = 0;
  uint8_t exchange_truncations = 0;  // as seen by the last comparison of epochs
  // Brokers and their replicas of the log.
  std::array<Node, kMaxBrokers> node;
  std::array<Log, kMaxBrokers> log;
  std::array<uint8_t, kMaxBrokers> synced{};  // survives a loss of power
  std::array<uint8_t, kBudgets> left{};

  std::string Text() const;
  bool operator==(const World&) const = default;
};
static_assert(std::has_unique_object_representations_v<World>, "hashed as memory");

}  // namespace kmirror::model
