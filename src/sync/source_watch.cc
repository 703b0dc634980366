#include "src/sync/source_watch.h"

#include <algorithm>
#include <utility>

#include "src/statemachine/retry_backoff.h"

namespace kmirror::sync {
namespace {

using std::chrono::milliseconds;
using std::chrono::nanoseconds;

// Two refreshes that somebody asked for are at least this far apart.
constexpr milliseconds kMinGap(50);
constexpr milliseconds kFailureInitial(100);
constexpr milliseconds kFailureCap(300000);  // R10: delay capped at five minutes
constexpr int kObservationsOfDeletion = 2;

}  // namespace

SourceWatch::SourceWatch(std::shared_ptr<const fetcher::MirrorSourceConfig> config,
                         fetcher::SourceClusterFactory* factory, host::Runtime* runtime,
                         host::Lane* lane, milliseconds interval, SourceWatchObserver* observer)
    : config_(std::move(config)),
      runtime_(runtime),
      lane_(lane),
      interval_(interval),
      observer_(observer),
      cluster_(factory->Open(config_, lane)) {}

SourceWatch::~SourceWatch() {
  *alive_ = false;
  lane_->Cancel(timer_);
  cluster_->Close();
}

void SourceWatch::Follow(const std::string& topic) {
  if (topics_.insert(topic).second) RefreshSoon();
}

void SourceWatch::Unfollow(const std::string& topic) {
  topics_.erase(topic);
  views_.erase(topic);
  missing_.erase(topic);
}

void SourceWatch::RefreshSoon() {
  if (refreshing_) {
    again_ = true;
    return;
  }
  const int64_t now = runtime_->MonotonicNow().count();
  int64_t due = now;
  if (failures_ > 0) {
    due = next_due_ns_;  // the backoff runs already
  } else if (last_start_ns_ != 0) {
    due = std::max(due, last_start_ns_ + nanoseconds(kMinGap).count());
  }
  if (timer_ != 0 && next_due_ns_ <= due) return;
  ScheduleNext(nanoseconds(std::max<int64_t>(due - now, 0)));
}

void SourceWatch::ScheduleNext(nanoseconds delay) {
  lane_->Cancel(timer_);
  next_due_ns_ = runtime_->MonotonicNow().count() + delay.count();
  timer_ = lane_->RunAfter(delay, [this] {
    timer_ = 0;
    Refresh();
  });
}

void SourceWatch::Refresh() {
  if (refreshing_) return;
  refreshing_ = true;
  again_ = false;
  last_start_ns_ = std::max<int64_t>(runtime_->MonotonicNow().count(), 1);
  cluster_->DescribeTopics({topics_.begin(), topics_.end()},
                           [this, alive = alive_](Result<fetcher::SourceMetadata> answer) {
                             if (*alive) OnMetadata(std::move(answer));
                           });
}

void SourceWatch::Failed(const Status& status) {
  refreshing_ = false;
  ++failures_;
  trouble_ = status.ToString();
  const bool news = unreachable_since_ns_ == 0;
  if (news) {
    unreachable_since_ns_ = std::max<int64_t>(runtime_->MonotonicNow().count(), 1);
    runtime_->Log(host::LogLevel::kWarn, "kmirror.sync",
                  "event=source-unreachable mirror=" + config_->mirror + " reason=\"" + trouble_ +
                      "\" next=retry with backoff");
  }
  const milliseconds cap = std::min(kFailureCap, std::max(interval_, milliseconds(1000)));
  ScheduleNext(statemachine::RetryDelay(kFailureInitial, cap, failures_, runtime_->Random()));
  if (news) observer_->OnSourceReachability(config_->mirror, false);
}

void SourceWatch::OnMetadata(Result<fetcher::SourceMetadata> answer) {
  if (!answer.ok()) {
    Failed(answer.status());
    return;
  }
  if (!config_->source_cluster_id.empty() && answer->cluster_id != config_->source_cluster_id) {
    // Nothing of the other cluster may be believed: neither leaders nor missing topics.
    refreshing_ = false;
    replaced_ = true;
    views_.clear();
    trouble_ = "another cluster answers: expected id " + config_->source_cluster_id + ", found " +
               answer->cluster_id;
    ScheduleNext(interval_);
    observer_->OnSourceReplaced(config_->mirror, config_->source_cluster_id, answer->cluster_id);
    return;
  }
  const bool was_unreachable = unreachable_since_ns_ != 0;
  replaced_ = false;
  failures_ = 0;
  unreachable_since_ns_ = 0;
  trouble_.clear();
  last_success_ns_ = std::max<int64_t>(runtime_->MonotonicNow().count(), 1);
  brokers_ = answer->brokers;

  std::set<std::string> missing;
  for (fetcher::SourceTopic& topic : answer->topics) {
    if (!topics_.contains(topic.name)) continue;
    if (topic.error == ErrorCode::kUnknownTopicOrPartition) {
      missing.insert(topic.name);
      continue;
    }
    missing_.erase(topic.name);
    if (topic.error != ErrorCode::kNone) continue;  // e.g. LEADER_NOT_AVAILABLE: nothing learned
    SourceTopicView& view = views_[topic.name];
    if (view.id != topic.id) view = {};  // another topic of that name: its epochs start afresh
    view.id = topic.id;
    for (const fetcher::SourcePartition& partition : topic.partitions) {
      auto [it, added] = view.partitions.try_emplace(partition.index, partition);
      if (added) continue;
      it->second.leader_epoch = std::max(it->second.leader_epoch, partition.leader_epoch);
      if (partition.leader_id >= 0) it->second.leader_id = partition.leader_id;
    }
  }
  if (was_unreachable) {
    runtime_->Log(host::LogLevel::kInfo, "kmirror.sync",
                  "event=source-reachable mirror=" + config_->mirror);
    observer_->OnSourceReachability(config_->mirror, true);
  }
  if (!missing.empty()) {
    ConfirmDeletions(std::move(missing));
    return;
  }
  refreshing_ = false;
  ScheduleNext(again_ ? nanoseconds(kMinGap) : nanoseconds(interval_));
  observer_->OnSourceRefreshed(config_->mirror);
}

void SourceWatch::ConfirmDeletions(std::set<std::string> missing) {
  cluster_->ListTopics([this, alive = alive_,
                        missing = std::move(missing)](Result<std::vector<std::string>> listing) {
    if (!*alive) return;
    refreshing_ = false;
    std::vector<std::string> deleted;
    if (listing.ok()) {
      const std::set<std::string> there(listing->begin(), listing->end());
      for (const std::string& topic : missing) {
        if (there.contains(topic)) {
          missing_.erase(topic);
          continue;
        }
        // Refreshes that somebody asked for come in quick succession; a broker whose metadata lags
        // must not make two observations of one moment (4.4: two ticks).
        Missing& seen = missing_[topic];
        const int64_t now = runtime_->MonotonicNow().count();
        if (seen.observations == 0 || now - seen.last_ns >= nanoseconds(interval_).count() / 2) {
          ++seen.observations;
          seen.last_ns = now;
        }
        if (seen.observations >= kObservationsOfDeletion) deleted.push_back(topic);
      }
    }
    ScheduleNext(again_ ? nanoseconds(kMinGap) : nanoseconds(interval_));
    for (const std::string& topic : deleted) {
      views_.erase(topic);
      observer_->OnSourceTopicDeleted(config_->mirror, topic);
      if (!*alive) return;
    }
    observer_->OnSourceRefreshed(config_->mirror);
  });
}

const SourceTopicView* SourceWatch::Topic(const std::string& name) const {
  const auto it = views_.find(name);
  return it == views_.end() ? nullptr : &it->second;
}

std::optional<SourceWatch::Leader> SourceWatch::LeaderOf(const std::string& topic,
                                                         int32_t partition) const {
  const SourceTopicView* view = Topic(topic);
  if (view == nullptr) return std::nullopt;
  const auto it = view->partitions.find(partition);
  if (it == view->partitions.end() || it->second.leader_id < 0) return std::nullopt;
  const auto broker = brokers_.find(it->second.leader_id);
  if (broker == brokers_.end()) return std::nullopt;
  return Leader{it->second.leader_id, it->second.leader_epoch, broker->second};
}

void SourceWatch::LearnEpoch(const std::string& topic, int32_t partition, int32_t epoch) {
  const auto view = views_.find(topic);
  if (view == views_.end()) return;
  const auto it = view->second.partitions.find(partition);
  if (it == view->second.partitions.end()) return;
  it->second.leader_epoch = std::max(it->second.leader_epoch, epoch);
}

}  // namespace kmirror::sync
