#include "src/coordinator/partition_driver.h"

#include <algorithm>
#include <utility>

#include "src/coordinator/steps.h"
#include "src/statemachine/epoch_rules.h"
#include "src/statemachine/retry_backoff.h"

namespace kmirror::coordinator {
namespace {

using std::chrono::milliseconds;
using S = MirrorPartitionState;
using E = statemachine::PartitionEvent;
using A = statemachine::Action;

constexpr milliseconds kSoftInitial(100), kSoftCap(5000);
constexpr milliseconds kBumpResend(5000);

// The step that a stored state completes, for the kill tests.
std::string_view StepOf(S from, S to) {
  if (to == S::kPreparing && from != S::kPreparing) return kStepStartPreparing;
  if (to == S::kMirroring && from == S::kPreparing) return kStepStartMirroring;
  if (to == S::kMirroring && from == S::kPaused) return kStepResumeMirroring;
  if (to == S::kPausing && from != S::kPausing) return kStepPausePausing;
  if (to == S::kPaused) return kStepPausePaused;
  if (to == S::kStopping && from != S::kStopping) return kStepStopStopping;
  if (to == S::kStopped) return kStepStopStopped;
  return {};
}

}  // namespace

PartitionDriver::PartitionDriver(const DriverContext* context, StateKey key, std::string topic)
    : context_(context), key_(std::move(key)), topic_(std::move(topic)) {}

PartitionDriver::~PartitionDriver() {
  *alive_ = false;
  context_->lane->Cancel(timer_);
  context_->lane->Cancel(read_timer_);
  context_->lane->Cancel(write_timer_);
  context_->fetching->Remove(key_.partition, [] {});
}

void PartitionDriver::Log(host::LogLevel level, std::string fields) const {
  context_->host.runtime->Log(level, "kmirror.coordinator",
                              "mirror=" + key_.mirror + " topic=" + topic_ + " partition=" +
                                  std::to_string(key_.partition.partition) + " " + fields);
}

DriverReport PartitionDriver::Report() const {
  DriverReport report;
  report.loaded = loaded_;
  report.step = step_;
  if (!loaded_) {
    report.message = trouble_.empty() ? "state is loading" : trouble_;
    return report;
  }
  report.state = record_.state;
  report.attempt = record_.attempt;
  report.position = record_.position;
  report.progress = static_cast<int8_t>(record_.progress);
  report.message = record_.state == S::kFailed || trouble_.empty() ? record_.reason : trouble_;
  if (record_.state == S::kFailed && !trouble_.empty()) report.message += " (" + trouble_ + ")";
  return report;
}

void PartitionDriver::OnMetadata(const TopicView& topic, int32_t leader_epoch) {
  const bool first = leader_epoch_ == -1;
  const bool epoch_rose = leader_epoch > leader_epoch_;
  leader_epoch_ = leader_epoch;
  const auto ule = topic.info.configs.find(std::string(kUleSupportConfig));
  follow_truncation_ = ule != topic.info.configs.end() && ule->second == "true";
  const bool wanted_changed =
      desired_ != topic.desired || desired_version_ != topic.desired_version;
  desired_ = topic.desired;
  desired_version_ = topic.desired_version;
  metadata_version_ = context_->metadata->version();

  if (first) {
    // A broker that becomes leader has no fetcher of the partition, whatever was before (2.4).
    context_->fetching->Remove(key_.partition, [] {});
    ReadState();
    return;
  }
  if (epoch_rose) {
    if (background_bump_ != -1 && leader_epoch_ > background_bump_) background_bump_ = -1;
    if (assignment_ != 0) context_->fetching->UpdateLocalEpoch(key_.partition, leader_epoch_);
    if (on_epoch_ && leader_epoch_ > epoch_min_) std::exchange(on_epoch_, nullptr)();
    // An open partition stays open under its new epoch.
    if (loaded_ && record_.state == S::kStopped && !writing_ && !wanted_changed) OpenWrites();
  }
  if (!wanted_changed || !loaded_) return;
  // The host closed the barrier with the change; a partition that is STOPPED still, or again, opens
  // anew.
  if (record_.state == S::kStopped) running_ = false;
  Reconcile();
}

void PartitionDriver::OnStateReadable() {
  if (!loaded_) ReadState();
}

void PartitionDriver::ReadState() {
  if (reading_) return;
  reading_ = true;
  context_->lane->Cancel(read_timer_);
  context_->states->Read(
      key_, topic_, [this, alive = alive_](Result<statemachine::PartitionRecord> result) {
        if (!*alive) return;
        reading_ = false;
        if (!result.ok() || result->leader_epoch > leader_epoch_) {
          // An answer with a higher leader epoch says that we have been deposed and do not know it
          // yet.
          trouble_ = result.ok() ? "a newer leader wrote the state" : result.status().ToString();
          ++soft_failures_;
          read_timer_ = context_->lane->RunAfter(
              statemachine::RetryDelay(kSoftInitial, kSoftCap, soft_failures_ - 1,
                                       context_->host.runtime->Random()),
              [this] { ReadState(); });
          Changed();
          return;
        }
        soft_failures_ = 0;
        trouble_.clear();
        loaded_ = true;
        running_ = false;
        record_ = *std::move(result);
        Changed();
        Reconcile();
      });
}

void PartitionDriver::ReadAgain() {
  NewOperation("read state");
  loaded_ = false;
  running_ = false;
  Changed();
  ReadState();
}

void PartitionDriver::Reconcile() {
  if (!loaded_ || writing_ || mutating_) {
    reconcile_again_ = true;
    return;
  }
  reconcile_again_ = false;
  const statemachine::Next next = statemachine::Reconcile(desired_.state, record_);
  if (next.event) {
    Transition(*next.event);
    return;
  }
  if (!next.reassert) {
    NewOperation("wait");
    running_ = false;
    return;
  }
  if (running_) return;  // what the stored state asks for is under way
  if (statemachine::MustTakeOver(record_, leader_epoch_)) return TakeOver();
  Enter(statemachine::EntryAction(record_.state));
}

void PartitionDriver::TakeOver() {
  auto decision = statemachine::Decide(record_, E::kTakenOver, {});
  if (!decision.ok()) return;  // the table permits it wherever MustTakeOver asks for it
  if (record_.state == S::kStopped) {
    // Clients need not wait: nothing that an older leader may have stored is unsafe here, and the
    // write finds it.
    Enter(A::kOpenWrites);
    return Submit(E::kTakenOver, *std::move(decision), nullptr);
  }
  NewOperation("take over");
  Submit(E::kTakenOver, *std::move(decision),
         [this] { Enter(statemachine::EntryAction(record_.state)); });
}

void PartitionDriver::MutationEnded() {
  if (writing_ || mutating_) return;
  if (reconcile_again_) Reconcile();
  RunDeferred();
}

void PartitionDriver::RunDeferred() {
  if (writing_ || mutating_ || !deferred_) return;
  std::exchange(deferred_, nullptr)();
}

void PartitionDriver::Transition(E event, statemachine::EventArgs args) {
  if (!loaded_) return;  // decided anew from what is read
  if (writing_ || mutating_) {
    deferred_ = [this, event, args, state = record_.state] {
      if (record_.state == state) Transition(event, args);
    };
    return;
  }
  auto decision = statemachine::Decide(record_, event, args);
  if (!decision.ok()) {
    Log(host::LogLevel::kError,
        "event=transition-refused reason=\"" + decision.status().message() + "\"");
    return;
  }
  NewOperation("write state");
  running_ = false;
  Submit(event, *std::move(decision), nullptr);
}

void PartitionDriver::WriteWithin(E event, statemachine::EventArgs args, Next then) {
  auto decision = statemachine::Decide(record_, event, args);
  if (!decision.ok()) {
    Log(host::LogLevel::kError,
        "event=write-refused reason=\"" + decision.status().message() + "\"");
    return;
  }
  Submit(event, *std::move(decision), std::move(then));
}

void PartitionDriver::Submit(E event, statemachine::Decision decision, Next then) {
  writing_ = true;
  decision.write.leader_epoch = leader_epoch_;
  decision.write.expected_state_epoch = record_.state_epoch;
  if (const auto step = StepOf(record_.state, decision.write.state); !step.empty())
    Step(step, false);
  context_->states->Write(
      key_, topic_, decision.write,
      [this, alive = alive_, event, decision, then](Result<statemachine::PartitionRecord> result) {
        if (*alive) OnWritten(event, decision, then, std::move(result));
      });
}

void PartitionDriver::OnWritten(E event, statemachine::Decision decision, Next then,
                                Result<statemachine::PartitionRecord> result) {
  writing_ = false;
  if (!result.ok()) {
    const ErrorCode code = result.status().code();
    if (code == ErrorCode::kFencedLeaderEpoch || code == ErrorCode::kFencedStateEpoch ||
        code == ErrorCode::kInvalidClusterMirrorState) {
      // Someone else wrote, or our own write landed and its answer was lost: look again, then
      // decide.
      Log(host::LogLevel::kWarn, "event=state-write-refused reason=\"" +
                                     result.status().ToString() + "\" next=read again");
      return ReadAgain();
    }
    // The shard is loading, moving or cannot write: the state shown stays the last stored one, with
    // the reason, and the same question is decided again a little later.
    trouble_ = "state " + std::string(StateName(decision.write.state)) +
               " cannot be stored: " + result.status().ToString();
    if (event == E::kFailed && decision.write.reason) trouble_ += "; " + *decision.write.reason;
    Changed();
    writing_ = true;
    ++soft_failures_;
    write_timer_ = context_->lane->RunAfter(
        statemachine::RetryDelay(kSoftInitial, kSoftCap, soft_failures_ - 1,
                                 context_->host.runtime->Random()),
        [this, event, decision, then] {
          writing_ = false;
          // Also when something else is wanted by now: the write may be under way still, and a
          // state that is read instead could be overtaken by it. Its answer settles that.
          Submit(event, decision, then);
        });
    return;
  }
  const S from = record_.state;
  const std::string was = record_.reason;
  record_ = *std::move(result);
  soft_failures_ = 0;
  trouble_.clear();
  LogWritten(event, from, was);
  if (const auto step = StepOf(from, record_.state); !step.empty()) Step(step, true);
  Changed();
  if (reconcile_again_) {
    reconcile_again_ = false;
    // What is wanted changed while we wrote. If that asks for something else, it comes first.
    if (statemachine::Reconcile(desired_.state, record_).event) {
      deferred_ = nullptr;
      return Reconcile();
    }
  }
  if (deferred_) {
    // Something ended while we wrote (a fetcher, say): that comes before going on.
    const uint64_t operation = operation_;
    RunDeferred();
    if (operation != operation_ || writing_) return;
  }
  if (then) return then();
  if (decision.action == A::kContinue || decision.action == A::kNone) return;
  // After every completed transition: is this still what is wanted (L21)?
  const statemachine::Next next = statemachine::Reconcile(desired_.state, record_);
  if (next.event) return Transition(*next.event);
  Enter(decision.action);
}

// Every durable step of a partition leaves one line. Those that keep the state have an event of
// their own; a failure that is told again with the same reason is for a person who debugs.
void PartitionDriver::LogWritten(E event, S from, const std::string& old_reason) const {
  const bool failed = record_.state == S::kFailed;
  auto level = failed ? host::LogLevel::kWarn : host::LogLevel::kInfo;
  if (failed && from == S::kFailed && old_reason == record_.reason) level = host::LogLevel::kDebug;
  std::string line = "event=state-change from=" + std::string(StateName(from)) +
                     " to=" + std::string(StateName(record_.state));
  if (from == record_.state && !failed) {
    line = "event=state-written state=" + std::string(StateName(from));
  }
  line += " cause=" + std::string(statemachine::EventName(event)) +
          " leader_epoch=" + std::to_string(leader_epoch_) +
          " state_epoch=" + std::to_string(record_.state_epoch) +
          " attempt=" + std::to_string(record_.attempt);
  if (event == E::kPositionTaken) {
    line += " position=" + std::to_string(record_.position.epoch) + "@" +
            std::to_string(record_.position.offset);
  }
  if (!record_.reason.empty()) line += " reason=\"" + record_.reason + "\"";
  Log(level, std::move(line));
}

void PartitionDriver::Enter(A action) {
  NewOperation("");
  running_ = true;
  switch (action) {
    case A::kPrepare: return Prepare();
    case A::kFetch: return Fetch();
    case A::kRaiseEpoch: return RaiseEpoch();
    case A::kAwaitReplicas: return AwaitReplicas();
    case A::kRemoveFetcher: return RemoveFetcher();
    case A::kStay: return Stay();
    case A::kStop: return Stop();
    case A::kOpenWrites: return OpenWrites();
    case A::kScheduleRetry: return ScheduleRetry();
    case A::kContinue:
    case A::kNone: return;
  }
}

void PartitionDriver::Stay() {
  SetStep("");
  context_->fetching->Remove(key_.partition, [] {});
  assignment_ = 0;
  // Paused before this broker led it: the barrier is closed by the host, and stays so.
}

void PartitionDriver::OpenWrites() {
  if (!HaveLog([this] { OpenWrites(); })) return;
  // Both must hold (7.2 b): the state is STOPPED, and what the metadata of that version wants is
  // STOPPED.
  const Status status =
      log_->SetLocalWrites(desired_.state == DesiredState::kStopped ? host::LocalWrites::kAllowed
                                                                    : host::LocalWrites::kReadOnly,
                           leader_epoch_, metadata_version_);
  if (!status.ok()) {
    Trouble("not open for writing yet: " + status.ToString());
    RetryLater([this] { OpenWrites(); });
    return;
  }
  ClearTrouble();
  SetStep("");
}

void PartitionDriver::Fail(std::string reason, bool retryable) {
  Transition(E::kFailed, {.position = {},
                          .reason = std::move(reason),
                          .retryable = retryable,
                          .max_attempts = static_cast<int16_t>(
                              std::clamp(context_->options->failed_retry_max_attempts, 1, 32767))});
}

void PartitionDriver::ScheduleRetry() {
  SetStep("failed");
  assignment_ = 0;
  context_->fetching->Remove(key_.partition, [] {});
  if (!statemachine::RetriesByItself(record_, context_->options->failed_retry_max_attempts)) return;
  After(statemachine::RetryDelay(context_->options->failed_retry_initial_backoff,
                                 context_->options->failed_retry_max_backoff, record_.attempt,
                                 context_->host.runtime->Random()),
        [this] { Transition(E::kRetryDue); });
}

bool PartitionDriver::Recover() {
  if (!loaded_ || record_.state != S::kFailed) return false;
  Log(host::LogLevel::kInfo,
      "event=recover target=" + std::string(StateName(statemachine::RetryTarget(record_))));
  // Whoever asks has mended something, perhaps at the source: what is known of it is old.
  if (sync::SourceWatch* source = Source()) source->RefreshSoon();
  Transition(E::kRetryDue, {.position = {}, .reason = {}, .forget_failures = true});
  return true;
}

void PartitionDriver::NewOperation(std::string_view step) {
  ++operation_;
  deferred_ = nullptr;
  context_->lane->Cancel(timer_);
  timer_ = 0;
  on_source_ = nullptr;
  on_epoch_ = nullptr;
  epoch_min_ = -1;
  soft_failures_ = 0;
  trouble_.clear();
  step_ = step;
}

void PartitionDriver::SetStep(std::string_view step) {
  if (step_ == step) return;
  step_ = step;
  Changed();
}

void PartitionDriver::Trouble(std::string text) {
  if (trouble_ == text) return;
  trouble_ = std::move(text);
  Log(host::LogLevel::kWarn, "event=waiting state=" + std::string(StateName(record_.state)) +
                                 " step=\"" + step_ + "\" reason=\"" + trouble_ + "\"");
  Changed();
}

void PartitionDriver::ClearTrouble() {
  soft_failures_ = 0;
  if (trouble_.empty()) return;
  trouble_.clear();
  Changed();
}

void PartitionDriver::After(milliseconds delay, Next then) {
  context_->lane->Cancel(timer_);
  timer_ = context_->lane->RunAfter(
      delay, [this, alive = alive_, operation = operation_, then = std::move(then)] {
        if (*alive && operation == operation_) then();
      });
}

void PartitionDriver::RetryLater(Next then) {
  const auto delay = statemachine::RetryDelay(kSoftInitial, kSoftCap, soft_failures_,
                                              context_->host.runtime->Random());
  ++soft_failures_;
  After(delay, std::move(then));
}

void PartitionDriver::AwaitSource(std::string why, Next then) {
  Trouble(std::move(why));
  sync::SourceWatch* source = Source();
  if (source == nullptr) return RetryLater(std::move(then));
  on_source_ = std::move(then);
  // A refresh that answered and did not help is not repeated at once: what is missing may be
  // missing for good (a partition the source does not have, 4.3).
  if (soft_failures_++ == 0) return source->RefreshSoon();
  After(statemachine::RetryDelay(kSoftInitial, kSoftCap, soft_failures_,
                                 context_->host.runtime->Random()),
        [this] {
          if (sync::SourceWatch* source = Source()) source->RefreshSoon();
        });
}

bool PartitionDriver::HaveLog(Next then) {
  log_ = context_->host.logs->Find(key_.partition);
  if (log_ != nullptr) return true;
  Trouble("the partition's log is not open");
  RetryLater(std::move(then));
  return false;
}

void PartitionDriver::Step(std::string_view name, bool after) const {
  if (context_->options->step_hook) context_->options->step_hook(name, after);
}

void PartitionDriver::AskForBump(int32_t min) {
  context_->host.controller->BumpLeaderEpochs(
      {{key_.partition, min}}, [alive = alive_, lane = context_->lane, this, min](Status status) {
        if (status.ok()) return;  // the metadata delta is what counts
        lane->Post([alive, this, min, status = std::move(status)] {
          if (!*alive) return;
          Log(host::LogLevel::kWarn, "event=bump-failed min_epoch=" + std::to_string(min) +
                                         " reason=\"" + status.ToString() + "\" next=ask again");
        });
      });
}

void PartitionDriver::RaiseEpochAbove(int32_t min, std::string_view step_name, Next then) {
  if (leader_epoch_ > min) return then();
  if (!step_name.empty()) Step(step_name, false);
  epoch_min_ = min;
  on_epoch_ = [this, step_name, then = std::move(then)] {
    context_->lane->Cancel(timer_);
    if (!step_name.empty()) Step(step_name, true);
    ClearTrouble();
    then();
  };
  AskForBump(min);
  // The answer is not the confirmation, and it may get lost: ask again while it does not show
  // (L23).
  struct Resend {
    static void Arm(PartitionDriver* driver, int32_t min) {
      driver->After(kBumpResend, [driver, min] {
        driver->Trouble("waiting for a leader epoch above " + std::to_string(min));
        driver->AskForBump(min);
        Arm(driver, min);
      });
    }
  };
  Resend::Arm(this, min);
}

void PartitionDriver::OnSourceRefreshed() {
  if (on_source_) {
    std::exchange(on_source_, nullptr)();
    return;
  }
  if (!loaded_ || (record_.state != S::kMirroring && record_.state != S::kPaused)) return;
  std::string why;
  bool final = false;
  if (!SourceIsOurs(&why, &final) && final) return Fail(std::move(why), false);  // S102
  if (record_.state != S::kMirroring) return;
  // The periodic bump (3.5), which also repeats one whose answer got lost.
  sync::SourceWatch* source = Source();
  const auto leader =
      source == nullptr ? std::nullopt : source->LeaderOf(topic_, key_.partition.partition);
  background_bump_ = -1;
  if (leader && statemachine::EpochIsNear(leader->epoch, leader_epoch_)) OnEpochNear(leader->epoch);
  // A source broker that died cannot name its successor; its metadata can.
  if (leader && assignment_ != 0) {
    context_->fetching->UpdateSourceLeader(key_.partition, leader->id, leader->address,
                                           leader->epoch);
  }
}

}  // namespace kmirror::coordinator
