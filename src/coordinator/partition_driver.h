// Drives one mirror partition that this broker leads towards what is wanted of it.
//
// One driver a partition, created while this broker leads it and its topic has a `mirror.name`. It
// reads the stored state, compares it with the desired one (Reconcile), writes the next state and
// only after that write is acknowledged acts on it. Every action ends in the next event. A running
// action belongs to an operation number; a newer transition makes it stale, and what a stale
// operation hears is dropped. While a change of the log is in flight no new transition begins, so
// that the log has one writer.
//
// Split by conversation: partition_driver.cc (state, writes, failures), prepare.cc (section 3),
// mirroring.cc (4, 5, fencing, recovery), stop.cc (6).
//
// Lane-confined to the coordinator's lane.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "kmirror/host/host.h"
#include "kmirror/options.h"
#include "src/coordinator/metadata_view.h"
#include "src/coordinator/state_codec.h"
#include "src/coordinator/state_store.h"
#include "src/fetcher/mirror_fetching.h"
#include "src/statemachine/reconcile.h"
#include "src/statemachine/start_position.h"
#include "src/sync/source_watch.h"

namespace kmirror::coordinator {

class PartitionDriver;

// What every driver works with. Outlives them.
struct DriverContext {
  host::Host host;
  host::Lane* lane = nullptr;
  const Options* options = nullptr;
  const MetadataView* metadata = nullptr;
  StateStore* states = nullptr;
  fetcher::MirrorFetching* fetching = nullptr;
  // nullptr: the mirror has no (valid) configs.
  std::function<sync::SourceWatch*(const std::string& mirror)> source;
  // The driver's state, step or trouble changed.
  std::function<void(const PartitionDriver&)> changed;
};

// What describe shows of a partition.
struct DriverReport {
  MirrorPartitionState state = MirrorPartitionState::kUnknown;
  bool loaded = false;
  int16_t attempt = 0;
  std::string message;  // why FAILED; what it waits for otherwise; "" when all is well
  std::string step;
  statemachine::MirrorPosition position;
  int8_t progress = 0;
};

class PartitionDriver {
 public:
  PartitionDriver(const DriverContext* context, StateKey key, std::string topic);
  ~PartitionDriver();
  PartitionDriver(const PartitionDriver&) = delete;

  const StateKey& key() const { return key_; }
  const std::string& topic() const { return topic_; }
  const statemachine::PartitionRecord& record() const { return record_; }
  bool loaded() const { return loaded_; }
  int32_t leader_epoch() const { return leader_epoch_; }
  DriverReport Report() const;

  // The topic's metadata, at creation and after each change of it.
  void OnMetadata(const TopicView& topic, int32_t leader_epoch);
  // The shard that keeps our key can be read.
  void OnStateReadable();
  // The mirror's source answered a refresh, or its configs changed.
  void OnSourceRefreshed();
  void OnSourceConfigChanged();
  // Who waits for the source tells why.
  void OnSourceUnreachable(const std::string& reason);
  void OnSourceTopicDeleted();
  void OnSourceReplaced(const std::string& expected_id, const std::string& found_id);

  void OnFetching();
  void OnFetchStopped(const fetcher::FetchStopped& stopped);
  void OnEpochNear(int32_t source_epoch);
  void OnGap(int64_t from, int64_t to);

  // RecoverMirrorTopics (2.7): retry now, whatever the counter says. False when it is not FAILED.
  bool Recover();
  // R31: an operator allows the local log to be thrown away if there is no common position.
  void AllowDiscard(bool allowed) { discard_allowed_ = allowed; }

 private:
  using Next = std::function<void()>;

  // --- partition_driver.cc
  void ReadState();
  // Forgets the state and what runs, and reads it: someone else wrote, or nobody knows.
  void ReadAgain();
  void Reconcile();
  // The first write of a new leader, before it acts on what an older one has stored.
  void TakeOver();
  void Transition(statemachine::PartitionEvent event, statemachine::EventArgs args = {});
  // A write inside the running operation; `then` runs when it is acknowledged.
  void WriteWithin(statemachine::PartitionEvent event, statemachine::EventArgs args, Next then);
  void Submit(statemachine::PartitionEvent event, statemachine::Decision decision, Next then);
  void OnWritten(statemachine::PartitionEvent event, statemachine::Decision decision, Next then,
                 Result<statemachine::PartitionRecord> result);
  void LogWritten(statemachine::PartitionEvent event, MirrorPartitionState from,
                  const std::string& old_reason) const;
  void Enter(statemachine::Action action);
  void Fail(std::string reason, bool retryable);
  void ScheduleRetry();
  void Stay();
  void OpenWrites();

  // Starts a new operation: everything the old one waits for is dropped.
  void NewOperation(std::string_view step);
  void SetStep(std::string_view step);
  // Waiting for something that is no failure (R10, R33): shown, retried, never counted.
  void Trouble(std::string text);
  void ClearTrouble();
  // Runs `then` after a growing, jittered delay, if this operation is still the newest.
  void RetryLater(Next then);
  // Runs `then` after the next refresh of the source, asking for one, more and more slowly.
  void AwaitSource(std::string why, Next then);
  void After(std::chrono::milliseconds delay, Next then);
  // The log, or nothing yet: then `then` is tried again.
  bool HaveLog(Next then);
  // A completion that continues on the lane if the operation is still the newest. `mutation`: the
  // call changes the log, so transitions wait for it.
  template <typename T>
  std::function<void(T)> Continue(std::function<void(T)> next, bool mutation = false);
  host::Completion Continue(std::function<void(Status)> next) {
    return Continue<Status>(std::move(next));
  }
  host::Completion Mutation(std::function<void(Status)> next) {
    return Continue<Status>(std::move(next), true);
  }
  void MutationEnded();
  void RunDeferred();
  // Steps of start, pause, resume and stop, for tests that kill (steps.h).
  void Step(std::string_view name, bool after) const;
  // Waits until the leader epoch is above `min`, asking for a bump as often as needed.
  void RaiseEpochAbove(int32_t min, std::string_view step_name, Next then);
  void AskForBump(int32_t min);
  sync::SourceWatch* Source() const { return context_->source(key_.mirror); }
  void Log(host::LogLevel level, std::string fields) const;
  void Changed() { context_->changed(*this); }

  // --- prepare.cc
  void Prepare();
  void PrepareSource();
  void PrepareEpoch(const sync::SourceWatch::Leader& leader);
  void PrepareLoopCheck();
  void PreparePositions();
  void PrepareCut(statemachine::MirrorPosition from_source);
  void PrepareExchange(std::shared_ptr<statemachine::EpochExchange> exchange,
                       statemachine::MirrorPosition known);
  void PrepareTruncate(int64_t cut, bool discard);
  void PrepareAlign();
  static statemachine::LogShape ShapeOf(const host::PartitionLog& log);
  void NoCommonPosition(std::string_view why);
  bool SourceIsOurs(std::string* why_not, bool* final) const;

  // --- mirroring.cc
  void Fetch();
  void AddFetcher(const sync::SourceWatch::Leader& leader);
  void RaiseEpoch();
  void AwaitReplicas();
  void RemoveFetcher();

  // --- stop.cc
  void Stop();
  void StopTruncate();
  void StopReplicated();
  void StopPosition();
  void StorePosition();
  void StopEpoch();
  void StopProducers();
  void StopAbort();
  void StopReset();
  void StopSync();
  void StopFinish();
  void StopStepFailed(std::string_view what, const Status& status, Next again);

  const DriverContext* const context_;
  const StateKey key_;
  const std::string topic_;

  statemachine::Desired desired_;
  int64_t desired_version_ = -1;
  int64_t metadata_version_ = -1;  // the newest change of the topic that this driver has seen
  int32_t leader_epoch_ = -1;
  bool follow_truncation_ = false;  // `mirror.support.unclean.leader.election`

  bool loaded_ = false;
  bool reading_ = false;
  statemachine::PartitionRecord record_;
  bool writing_ = false;
  bool mutating_ = false;
  bool reconcile_again_ = false;
  Next deferred_;  // an event that came while a write or a mutation was in flight

  uint64_t operation_ = 0;
  bool running_ = false;   // an entry action of record_.state is under way
  int soft_failures_ = 0;  // of this operation, for RetryLater
  std::string step_;
  std::string trouble_;
  host::Lane::TimerId timer_ = 0;
  host::Lane::TimerId read_timer_ = 0;
  host::Lane::TimerId write_timer_ = 0;  // of the write in flight; outlives operations
  Next on_source_;                       // waits for a refresh
  Next on_epoch_;                        // waits for a leader epoch above epoch_min_
  int32_t epoch_min_ = -1;
  int32_t background_bump_ = -1;  // proactive, while MIRRORING; -1 none pending
  uint64_t assignment_ = 0;       // of the fetcher; 0 none
  int leader_losses_ = 0;         // in a row, without a successful fetch in between
  bool source_mirrors_ = false;   // the source is itself a mirror of this topic's name (4.7)
  bool discard_allowed_ = false;
  std::shared_ptr<host::PartitionLog> log_;
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
};

template <typename T>
std::function<void(T)> PartitionDriver::Continue(std::function<void(T)> next, bool mutation) {
  if (mutation) mutating_ = true;
  return [this, alive = alive_, lane = context_->lane, operation = operation_, mutation,
          next = std::move(next)](T value) {
    lane->Post([this, alive, operation, mutation, next, value = std::move(value)]() mutable {
      if (!*alive) return;
      if (mutation) mutating_ = false;
      if (operation == operation_) next(std::move(value));
      if (mutation && *alive) MutationEnded();
    });
  };
}

}  // namespace kmirror::coordinator
