#include "src/coordinator/mirror_impl.h"

#include <algorithm>
#include <array>
#include <utility>

#include "src/base/java_hash.h"
#include "src/coordinator/admin_requests.h"

namespace kmirror::coordinator {
namespace {

// A change of these does not need new connections (coordinator.md 1.5).
bool IsFilter(std::string_view key) {
  return key.starts_with("topics.") || key.starts_with("groups.") || key == "acls.include" ||
         key == "topic.properties.exclude" || key == "stop.uncommitted";
}

std::map<std::string, std::string> ConnectionPart(
    const std::map<std::string, std::string>& configs) {
  std::map<std::string, std::string> part;
  for (const auto& [key, value] : configs) {
    if (!IsFilter(key)) part[key] = value;
  }
  return part;
}

}  // namespace

MirrorImpl::MirrorImpl(const host::Host& host, const Options& options, const MakeParts& make_parts)
    : host_(host),
      options_(options),
      lane_(host.runtime->NewLane("kmirror-coordinator")),
      parts_(make_parts(lane_.get(), this)) {
  states_ = std::make_unique<StateStore>(
      host_, lane_.get(), &options_, &metadata_, [this](int32_t shard) {
        const int32_t count = host_.state_topic->partition_count();
        for (auto& [partition, driver] : drivers_) {
          if (driver->key().Shard(count) == shard) driver->OnStateReadable();
        }
        SweepStates();
      });
  context_.host = host_;
  context_.lane = lane_.get();
  context_.options = &options_;
  context_.metadata = &metadata_;
  context_.states = states_.get();
  context_.fetching = parts_.fetching.get();
  context_.source = [this](const std::string& mirror) { return Source(mirror); };
  context_.changed = [this](const PartitionDriver& driver) { Publish(driver); };
}

MirrorImpl::~MirrorImpl() {
  *alive_ = false;
  CloseSources();
}

void MirrorImpl::OnLane(std::function<void()> task) {
  lane_->Post([this, alive = alive_, task = std::move(task)] {
    if (*alive && !down_) task();
  });
}

void MirrorImpl::OnSnapshot(host::MetadataSnapshot snapshot) {
  OnLane([this, snapshot = std::move(snapshot)]() mutable {
    ApplyChanges(metadata_.Reset(std::move(snapshot)));
    SweepStates();
  });
}

void MirrorImpl::OnDelta(host::MetadataDelta delta) {
  OnLane([this, delta = std::move(delta)]() mutable {
    ApplyChanges(metadata_.Apply(std::move(delta)));
  });
}

void MirrorImpl::OnShardGained(int32_t shard) {
  OnLane([this, shard] { states_->GainShard(shard); });
}

void MirrorImpl::OnShardLost(int32_t shard) {
  OnLane([this, shard] { states_->LoseShard(shard); });
}

void MirrorImpl::ApplyChanges(const MetadataView::Changes& changes) {
  // Mirrors first: a topic's driver looks for its source at once.
  for (const std::string& mirror : changes.mirrors) UpdateMirror(mirror);
  for (const Uuid& id : changes.topics) {
    UpdateDrivers(id);
    PublishTopic(id);
  }
  for (const Uuid& id : changes.topics) FollowTopic(id);
}

void MirrorImpl::UpdateMirror(const std::string& mirror) {
  const auto* configs = metadata_.Mirror(mirror);
  if (configs == nullptr) {
    // Its topics lost their mirror.name in the same change; their drivers go in UpdateDrivers, but
    // may come after us in the list of changes.
    for (PartitionDriver* driver : DriversOfMirror(mirror)) {
      const TopicIdPartition partition = driver->key().partition;
      drivers_.erase(partition);
      std::lock_guard lock(published_mutex_);
      published_.erase(partition);
    }
    parts_.fetching->RemoveMirror(mirror);
    CloseWatch(mirror);
    source_configs_.erase(mirror);
    states_->TombstoneWhere([&](const StateKey& key) { return key.mirror == mirror; });
    return;
  }
  auto connection = ConnectionPart(*configs);
  const auto known = source_configs_.find(mirror);
  if (known != source_configs_.end() && known->second == connection) return;
  source_configs_[mirror] = std::move(connection);
  auto config = sync::ParseMirrorConfig(mirror, *configs);
  if (!config.ok()) {
    host_.runtime->Log(host::LogLevel::kError, "kmirror.coordinator",
                       "event=mirror-config-invalid mirror=" + mirror + " reason=\"" +
                           config.status().ToString() + "\" next=its topics wait for a correction");
    CloseWatch(mirror);
    return;
  }
  auto shared = std::make_shared<const fetcher::MirrorSourceConfig>(*std::move(config));
  CloseWatch(mirror);
  {
    // What the old one could not reach says nothing of the new one.
    std::lock_guard lock(published_mutex_);
    unreachable_.erase(mirror);
  }
  sources_[mirror] =
      std::make_unique<sync::SourceWatch>(shared, parts_.sources.get(), host_.runtime, lane_.get(),
                                          options_.metadata_refresh_interval, this);
  parts_.fetching->SetMirror(std::move(shared));
  for (const TopicView* topic : metadata_.TopicsOf(mirror)) FollowTopic(topic->info.id);
  for (PartitionDriver* driver : DriversOfMirror(mirror)) driver->OnSourceConfigChanged();
}

void MirrorImpl::CloseWatch(const std::string& mirror) {
  sources_.erase(mirror);
  std::erase_if(followed_, [&](const auto& entry) { return entry.second.mirror == mirror; });
}

void MirrorImpl::UpdateDrivers(const Uuid& topic_id) {
  const TopicView* topic = metadata_.Topic(topic_id);
  const bool linked = topic != nullptr && topic->desired.state != DesiredState::kNone;
  std::map<int32_t, int32_t> led;  // partition, leader epoch
  if (linked) {
    for (const host::PartitionInfo& partition : topic->info.partitions) {
      if (partition.leader == metadata_.this_broker())
        led[partition.index] = partition.leader_epoch;
    }
  }
  for (auto it = drivers_.lower_bound({topic_id, INT32_MIN});
       it != drivers_.end() && it->first.topic_id == topic_id;) {
    if (led.contains(it->first.partition) && it->second->key().mirror == topic->desired.mirror) {
      ++it;
      continue;
    }
    {
      std::lock_guard lock(published_mutex_);
      published_.erase(it->first);
    }
    it = drivers_.erase(it);
  }
  if (topic == nullptr) {
    states_->TombstoneWhere(
        [&](const StateKey& key) { return key.partition.topic_id == topic_id; });
    return;
  }
  const bool discard = discard_allowed_.erase(topic_id) != 0;
  for (const auto& [index, epoch] : led) {
    const TopicIdPartition partition{topic_id, index};
    auto& driver = drivers_[partition];
    if (driver == nullptr) {
      driver = std::make_unique<PartitionDriver>(
          &context_, StateKey{topic->desired.mirror, partition}, topic->info.name);
      Publish(*driver);
    }
    if (discard) driver->AllowDiscard(true);
    driver->OnMetadata(*topic, epoch);
  }
}

void MirrorImpl::SweepStates() {
  // Tombstones are due since the metadata change that removed the mirror or the topic, but a shard
  // that was not loaded then, or a crash, may have kept them from being written.
  if (!metadata_.loaded()) return;
  states_->TombstoneWhere([this](const StateKey& key) {
    return metadata_.Mirror(key.mirror) == nullptr ||
           metadata_.Topic(key.partition.topic_id) == nullptr;
  });
}

void MirrorImpl::AllowDiscard(const Uuid& topic_id, bool allowed) {
  if (allowed) {
    discard_allowed_.insert(topic_id);
    return;
  }
  discard_allowed_.erase(topic_id);
  for (PartitionDriver* driver : DriversOf(topic_id)) driver->AllowDiscard(false);
}

fetcher::SourceCluster* MirrorImpl::OpenSource(
    std::shared_ptr<const fetcher::MirrorSourceConfig> config) {
  return asking_.emplace_back(parts_.sources->Open(std::move(config), lane_.get())).get();
}

void MirrorImpl::CloseSource(fetcher::SourceCluster* source) {
  OnLane([this, source] {
    const auto it = std::find_if(asking_.begin(), asking_.end(),
                                 [source](const auto& open) { return open.get() == source; });
    if (it == asking_.end()) return;
    (*it)->Close();
    asking_.erase(it);
  });
}

void MirrorImpl::CloseSources() {
  for (const auto& source : asking_) source->Close();
  asking_.clear();
}

void MirrorImpl::FollowTopic(const Uuid& topic_id) {
  std::optional<Followed> wanted;
  const TopicView* topic = metadata_.Topic(topic_id);
  if (topic != nullptr && topic->desired.state != DesiredState::kNone &&
      Source(topic->desired.mirror) != nullptr) {
    bool followed = topic->desired.state != DesiredState::kStopped;
    if (!followed) {
      // A stop under way still wants to know how far the source's epoch has come.
      for (PartitionDriver* driver : DriversOf(topic_id)) {
        followed |= driver->loaded() && driver->record().state != MirrorPartitionState::kStopped;
      }
    }
    if (followed) wanted = Followed{topic->desired.mirror, topic->info.name};
  }
  const auto known = followed_.find(topic_id);
  if (known != followed_.end()) {
    if (wanted == known->second) return;
    if (sync::SourceWatch* source = Source(known->second.mirror)) {
      source->Unfollow(known->second.topic);
    }
    followed_.erase(known);
  }
  if (!wanted) return;
  Source(wanted->mirror)->Follow(wanted->topic);
  followed_[topic_id] = *std::move(wanted);
}

sync::SourceWatch* MirrorImpl::Source(const std::string& mirror) {
  const auto it = sources_.find(mirror);
  return it == sources_.end() ? nullptr : it->second.get();
}

PartitionDriver* MirrorImpl::Driver(const TopicIdPartition& partition) {
  const auto it = drivers_.find(partition);
  return it == drivers_.end() ? nullptr : it->second.get();
}

std::vector<PartitionDriver*> MirrorImpl::DriversOf(const Uuid& topic_id) {
  std::vector<PartitionDriver*> found;
  for (auto it = drivers_.lower_bound({topic_id, INT32_MIN});
       it != drivers_.end() && it->first.topic_id == topic_id; ++it) {
    found.push_back(it->second.get());
  }
  return found;
}

std::vector<PartitionDriver*> MirrorImpl::DriversOfMirror(const std::string& mirror) {
  std::vector<PartitionDriver*> found;
  for (auto& [partition, driver] : drivers_) {
    if (driver->key().mirror == mirror) found.push_back(driver.get());
  }
  return found;
}

void MirrorImpl::OnFetching(const TopicIdPartition& partition) {
  if (PartitionDriver* driver = Driver(partition)) driver->OnFetching();
}

void MirrorImpl::OnStopped(const fetcher::FetchStopped& stopped) {
  if (PartitionDriver* driver = Driver(stopped.partition)) driver->OnFetchStopped(stopped);
}

void MirrorImpl::OnEpochNear(const TopicIdPartition& partition, int32_t source_epoch) {
  if (PartitionDriver* driver = Driver(partition)) driver->OnEpochNear(source_epoch);
}

void MirrorImpl::OnGap(const TopicIdPartition& partition, int64_t from, int64_t to) {
  PartitionDriver* driver = Driver(partition);
  if (driver == nullptr) return;
  driver->OnGap(from, to);
  std::lock_guard lock(published_mutex_);
  gaps_[driver->key().mirror] += static_cast<uint64_t>(std::max<int64_t>(to - from, 0));
}

void MirrorImpl::OnSourceTrouble(const std::string& mirror, const std::string& reason) {
  (void)reason;  // the watch finds out for itself, and shows it
  if (sync::SourceWatch* source = Source(mirror)) source->RefreshSoon();
}

void MirrorImpl::OnSourceRefreshed(const std::string& mirror) {
  {
    std::lock_guard lock(published_mutex_);
    ++refreshes_[mirror];
  }
  for (PartitionDriver* driver : DriversOfMirror(mirror)) driver->OnSourceRefreshed();
  GrowPartitions(mirror);
}

void MirrorImpl::OnSourceReachability(const std::string& mirror, bool reachable) {
  const sync::SourceWatch* source = Source(mirror);
  const std::string trouble = reachable || source == nullptr ? "" : source->trouble();
  {
    std::lock_guard lock(published_mutex_);
    if (trouble.empty()) {
      unreachable_.erase(mirror);
      return;
    }
    unreachable_[mirror] = trouble;
  }
  for (PartitionDriver* driver : DriversOfMirror(mirror)) driver->OnSourceUnreachable(trouble);
}

void MirrorImpl::OnSourceTopicDeleted(const std::string& mirror, const std::string& topic) {
  for (PartitionDriver* driver : DriversOfMirror(mirror)) {
    if (driver->topic() == topic) driver->OnSourceTopicDeleted();
  }
}

void MirrorImpl::OnSourceReplaced(const std::string& mirror, const std::string& expected_id,
                                  const std::string& found_id) {
  for (PartitionDriver* driver : DriversOfMirror(mirror))
    driver->OnSourceReplaced(expected_id, found_id);
}

// 4.3: the source grew. Done by the mirror-level coordinator only, for topics that are mirroring.
void MirrorImpl::GrowPartitions(const std::string& mirror) {
  const int32_t shard = AbsHash(JavaHash(mirror)) % host_.state_topic->partition_count();
  sync::SourceWatch* source = Source(mirror);
  if (source == nullptr || states_->Shard(shard) == nullptr) return;
  for (const TopicView* topic : metadata_.TopicsOf(mirror)) {
    if (topic->desired.state != DesiredState::kMirroring) continue;
    const sync::SourceTopicView* view = source->Topic(topic->info.name);
    if (view == nullptr || (!view->id.IsZero() && view->id != topic->info.id)) continue;
    const auto count = static_cast<int32_t>(view->partitions.size());
    if (count <= static_cast<int32_t>(topic->info.partitions.size())) continue;
    const Uuid id = topic->info.id;
    if (!growing_.insert(id).second) continue;  // one in flight a topic
    host_.runtime->Log(host::LogLevel::kInfo, "kmirror.sync",
                       "event=grow-partitions mirror=" + mirror + " topic=" + topic->info.name +
                           " from=" + std::to_string(topic->info.partitions.size()) +
                           " to=" + std::to_string(count));
    host_.controller->CreatePartitions(
        id, count,
        [this, alive = alive_, lane = lane_.get(), id, name = topic->info.name](Status status) {
          lane->Post([this, alive, id, name, status = std::move(status)] {
            if (!*alive) return;
            growing_.erase(id);
            if (!status.ok() && status.code() != ErrorCode::kInvalidPartitions) {
              host_.runtime->Log(host::LogLevel::kWarn, "kmirror.sync",
                                 "event=grow-partitions-failed topic=" + name + " reason=\"" +
                                     status.ToString() + "\" next=retry at the next refresh");
            }
          });
        });
  }
}

void MirrorImpl::PublishTopic(const Uuid& topic_id) {
  const TopicView* topic = metadata_.Topic(topic_id);
  std::lock_guard lock(published_mutex_);
  if (topic == nullptr || topic->desired.state == DesiredState::kNone) {
    published_topics_.erase(topic_id);
    return;
  }
  published_topics_[topic_id] = {topic->desired, topic->info.name, topic->info.partitions.size()};
}

void MirrorImpl::Publish(const PartitionDriver& driver) {
  {
    std::lock_guard lock(published_mutex_);
    published_[driver.key().partition] = {driver.key().mirror, driver.topic(), driver.Report()};
  }
  // A topic that has come to rest is not asked about any more.
  if (driver.loaded() && driver.record().state == MirrorPartitionState::kStopped) {
    lane_->Post([this, alive = alive_, topic = driver.key().partition.topic_id] {
      if (*alive && !down_) FollowTopic(topic);
    });
  }
}

Status MirrorImpl::CheckTopicChange(const Uuid& topic_id) const {
  std::lock_guard lock(published_mutex_);
  const auto topic = published_topics_.find(topic_id);
  if (topic == published_topics_.end()) return Status::Ok();
  const auto refuse = [&](const std::string& why) {
    return Status(ErrorCode::kMirrorTopicNotStopped,
                  "topic " + topic->second.name + " belongs to mirror " +
                      topic->second.desired.mirror + " and " + why + "; stop it first");
  };
  if (topic->second.desired.state != DesiredState::kStopped) return refuse("is not stopped");
  size_t stopped = 0;
  for (auto it = published_.lower_bound({topic_id, INT32_MIN});
       it != published_.end() && it->first.topic_id == topic_id; ++it) {
    if (it->second.report.loaded && it->second.report.state == MirrorPartitionState::kStopped)
      ++stopped;
  }
  if (stopped < topic->second.partitions) return refuse("its stop is not complete");
  return Status::Ok();
}

MirrorPartitionState MirrorImpl::StateOf(const TopicIdPartition& partition) const {
  std::lock_guard lock(published_mutex_);
  const auto it = published_.find(partition);
  if (it == published_.end() || !it->second.report.loaded) return MirrorPartitionState::kUnknown;
  return it->second.report.state;
}

void MirrorImpl::Collect(MetricSink* sink) const {
  using Kind = MetricSink::Kind;
  using Label = MetricSink::Label;
  std::map<MirrorPartitionState, int> states;
  std::map<std::string, std::set<std::string>> topics;
  std::map<std::string, std::string> unreachable;
  std::map<std::string, uint64_t> gaps;
  std::map<std::string, uint64_t> refreshes;
  std::vector<std::pair<TopicIdPartition, PublishedPartition>> partitions;
  {
    std::lock_guard lock(published_mutex_);
    partitions.assign(published_.begin(), published_.end());
    unreachable = unreachable_;
    gaps = gaps_;
    refreshes = refreshes_;
  }
  const int64_t now = host_.runtime->MonotonicNow().count();
  int64_t max_lag = 0;
  std::map<std::string, double> oldest_answer;
  for (const auto& [partition, published] : partitions) {
    const auto state =
        published.report.loaded ? published.report.state : MirrorPartitionState::kUnknown;
    ++states[state];
    if (state != MirrorPartitionState::kStopped) topics[published.mirror].insert(published.topic);
    if (state != MirrorPartitionState::kMirroring) continue;
    const auto position = parts_.fetching->Position(partition);
    const auto log = host_.logs->Find(partition);
    const std::string index = std::to_string(partition.partition);
    const Label labels[] = {
        {"mirror", published.mirror}, {"topic", published.topic}, {"partition", index}};
    int64_t lag = -1;
    if (position && position->source_high_watermark >= 0 && log != nullptr) {
      lag = std::max<int64_t>(position->source_high_watermark - log->View().high_watermark, 0);
      max_lag = std::max(max_lag, lag);
      auto& age = oldest_answer[published.mirror];
      age = std::max(age, static_cast<double>(now - position->learned_ns) / 1e9);
    }
    sink->Add("kmirror_fetcher_lag_records", Kind::kGauge,
              "Source high watermark less destination high watermark, -1 until the first answer "
              "(FetcherLagMetrics ConsumerLag)",
              labels, static_cast<double>(lag));
  }
  sink->Add("kmirror_fetcher_max_lag_records", Kind::kGauge,
            "Greatest lag over all mirrored partitions (MirrorFetcherManager MaxLag)", {},
            static_cast<double>(max_lag));
  for (int code = -1; code <= 8; ++code) {
    const auto state = static_cast<MirrorPartitionState>(code);
    const Label labels[] = {{"state", StateName(state)}};
    sink->Add("kmirror_partitions", Kind::kGauge,
              "Mirror partitions led by this broker, by state (<State>PartitionState)", labels,
              states[state]);
  }
  for (const auto& [mirror, names] : topics) {
    const Label labels[] = {{"mirror", mirror}};
    sink->Add("kmirror_mirror_topics", Kind::kGauge, "Active topics of a mirror (MirrorTopicCount)",
              labels, static_cast<double>(names.size()));
    sink->Add("kmirror_source_reachable", Kind::kGauge,
              "1 while the source answers metadata requests, 0 while it does not", labels,
              unreachable.contains(mirror) ? 0 : 1);
    // Not there while no partition mirrors: 0 would look like fresh knowledge.
    if (const auto age = oldest_answer.find(mirror); age != oldest_answer.end()) {
      sink->Add("kmirror_source_answer_age_seconds", Kind::kGauge,
                "Age of the oldest knowledge about a mirroring partition's source", labels,
                age->second);
    }
  }
  for (const auto& [mirror, count] : refreshes) {
    const Label labels[] = {{"mirror", mirror}};
    sink->Add("kmirror_source_refreshes_total", Kind::kCounter,
              "Refreshes of the source's metadata that succeeded", labels,
              static_cast<double>(count));
  }
  for (const auto& [mirror, lost] : gaps) {
    const Label labels[] = {{"mirror", mirror}};
    sink->Add("kmirror_gap_offsets_total", Kind::kCounter,
              "Offsets that the source's retention removed before they were mirrored", labels,
              static_cast<double>(lost));
  }
  if (parts_.collect) parts_.collect(sink);
}

void MirrorImpl::HandleRequest(const RequestContext& context, ByteView body,
                               std::function<void(std::vector<uint8_t>)> respond) {
  std::vector<uint8_t> copy(body.begin(), body.end());
  lane_->Post([this, alive = alive_, context, copy = std::move(copy),
               respond = std::move(respond)] {
    if (!*alive || down_) {
      return respond(EncodeAdminError(
          context.api_key, {ErrorCode::kCoordinatorNotAvailable, "the broker is shutting down"}));
    }
    ServeAdminRequest(*this, context, copy, respond);
  });
}

bool MirrorImpl::BeginLinking(const std::string& mirror) {
  if (deleting_.contains(mirror)) return false;
  ++linking_[mirror];
  return true;
}

void MirrorImpl::EndLinking(const std::string& mirror) {
  if (--linking_[mirror] == 0) linking_.erase(mirror);
}

bool MirrorImpl::BeginDeleting(const std::string& mirror) {
  return !linking_.contains(mirror) && deleting_.insert(mirror).second;
}

void MirrorImpl::Shutdown(std::chrono::milliseconds deadline, std::function<void()> done) {
  (void)deadline;  // nothing here waits for the source; host calls in flight end by themselves
  lane_->Post([this, alive = alive_, done = std::move(done)] {
    if (!*alive || down_) return done();
    down_ = true;
    // Every partition leaves its fetcher before the fetchers close: an append in flight ends first.
    auto pending = std::make_shared<size_t>(drivers_.size() + 1);
    auto finish = [this, alive, pending, done] {
      if (--*pending != 0 || !*alive) return;
      drivers_.clear();
      sources_.clear();
      CloseSources();
      states_->Close();
      if (parts_.shutdown) {
        parts_.shutdown(done);
      } else {
        done();
      }
    };
    for (auto& [partition, driver] : drivers_) parts_.fetching->Remove(partition, finish);
    finish();
  });
}

}  // namespace kmirror::coordinator

namespace kmirror {

bool Mirror::Serves(int16_t api_key) {
  return std::any_of(Apis().begin(), Apis().end(),
                     [&](const auto& api) { return api.key == api_key; });
}

}  // namespace kmirror
