#include "broker/controller/controller.h"

#include <sys/random.h>

#include <algorithm>
#include <utility>

#include "broker/controller/metadata_records.h"
#include "broker/controller/producer_id_range.h"

namespace kmirror::broker {
namespace {

constexpr std::string_view kStateTopicName = "__mirror_state";
constexpr int32_t kPartitionsMax = 100000;

// Random, version 4; Kafka avoids ids whose text begins with a dash, which tools read as an option.
Result<Uuid> NewUuid() {
  Uuid id;
  do {
    if (::getrandom(id.bytes.data(), id.bytes.size(), 0) != static_cast<ssize_t>(id.bytes.size())) {
      return Status(ErrorCode::kUnknownServerError, "the system has no random bytes");
    }
    id.bytes[6] = static_cast<uint8_t>((id.bytes[6] & 0x0F) | 0x40);
    id.bytes[8] = static_cast<uint8_t>((id.bytes[8] & 0x3F) | 0x80);
  } while (id.ToString().starts_with('-'));
  return id;
}

// Metrics replace '.' by '_': Kafka refuses names that would then be one.
std::string CollisionKey(std::string_view name) {
  std::string key(name);
  std::replace(key.begin(), key.end(), '.', '_');
  return key;
}

// Failures of this machine read as Kafka's storage error to whoever asked for the change.
Status ForClients(Status s) {
  if (static_cast<int16_t>(s.code()) > -1000) return s;
  return {ErrorCode::kKafkaStorageError, s.message()};
}

}  // namespace

Status CheckTopicName(std::string_view name) {
  const auto bad = [&](const std::string& why) { return Status(ErrorCode::kInvalidTopic, why); };
  if (name.empty()) return bad("the topic name is empty");
  if (name == "." || name == "..") return bad("the topic name cannot be \".\" or \"..\"");
  if (name.size() > 249) return bad("the topic name is longer than 249 characters");
  const bool plain = std::all_of(name.begin(), name.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' ||
           c == '_' || c == '-';
  });
  return plain ? Status() : bad("the topic name has a character outside [A-Za-z0-9._-]");
}

Controller::Controller(Options options)
    : config_(std::move(options.config)),
      store_(options.store),
      cluster_id_(std::move(options.cluster_id)),
      new_id_(options.new_id ? std::move(options.new_id) : NewUuid) {}
Controller::~Controller() = default;

Result<std::unique_ptr<Controller>> Controller::Open(Options options) {
  std::unique_ptr<Controller> controller(new Controller(std::move(options)));
  if (Status s = controller->LoadAll(); !s.ok()) return s;
  return controller;
}

// --- Loading
// ------------------------------------------------------------------------------------------

Status Controller::Format() {
  const ProducerIdSpan span = ProducerIdRangeOf(cluster_id_, 0);
  const ProducerIds ids{0, span.begin, span.begin};
  return store_->Apply({{std::string(kClusterKey), EncodeClusterRecord(1, ids), 0}}).status();
}

std::string Controller::EncodeClusterRecord(int16_t feature, const ProducerIds& ids) const {
  return EncodeCluster({cluster_id_, feature, ids.generation, ids.reserved});
}

Status Controller::LoadAll() {
  Result<StoreRange> range = store_->Range("");
  if (!range.ok()) return range.status();
  if (range->revision == 0) {
    if (Status s = Format(); !s.ok()) return s;
    range = store_->Range("");
    if (!range.ok()) return range.status();
  }
  const auto damaged = [](const std::string& key) {
    return Status(ErrorCode::kCorruptMessage, "metadata key " + key + " does not decode");
  };
  const auto cluster = range->entries.find(std::string(kClusterKey));
  if (cluster == range->entries.end()) return damaged(std::string(kClusterKey));
  const std::optional<ClusterRecord> record = DecodeCluster(cluster->second.value);
  if (!record) return damaged(cluster->first);
  if (record->cluster_id != cluster_id_) {
    return {ErrorCode::kInconsistentClusterId, "the metadata is of cluster " + record->cluster_id +
                                                   ", the data folder of " + cluster_id_};
  }
  ids_ = {record->producer_generation, record->producer_reserved, record->producer_reserved};
  revision_ = range->revision;

  auto image = std::make_shared<MetadataImage>();
  image->version = revision_;
  image->cluster_id = cluster_id_;
  image->controller_id = config_.node_id;
  image->mirror_feature = record->mirror_feature;
  BrokerImage self;
  self.id = config_.node_id;
  self.rack = config_.rack;
  for (const Listener& listener : config_.listeners) {
    self.endpoints.push_back({listener.name, listener.advertised, listener.security_protocol});
  }
  image->brokers.push_back(std::move(self));

  for (const auto& [key, stored] : range->entries) {
    const std::string_view name = key;
    if (name.starts_with(kTopicPrefix)) {
      std::optional<TopicImage> topic = DecodeTopic(name.substr(kTopicPrefix.size()), stored.value);
      if (!topic) return damaged(key);
      topic->mirror_version = revision_;
      collisions_.emplace(CollisionKey(topic->name), topic->name);
      image->topics.Put(std::make_shared<const TopicImage>(std::move(*topic)));
    } else if (name.starts_with(kMirrorPrefix)) {
      std::optional<StoredConfigs> configs = DecodeConfigs(stored.value);
      if (!configs) return damaged(key);
      image->mirrors.emplace(name.substr(kMirrorPrefix.size()), std::move(*configs));
    } else if (name.starts_with(kBrokerConfigPrefix)) {
      std::optional<StoredConfigs> configs = DecodeConfigs(stored.value);
      int32_t broker = -1;
      try {
        broker = std::stoi(std::string(name.substr(kBrokerConfigPrefix.size())));
      } catch (const std::exception&) {
        return damaged(key);
      }
      if (!configs) return damaged(key);
      image->broker_configs.emplace(broker, std::move(*configs));
    }
  }
  image_ = std::move(image);
  return {};
}

// --- Listeners and images
// -----------------------------------------------------------------------------

void Controller::AddListener(MetadataListener* listener) {
  std::lock_guard lock(mutex_);
  listeners_.push_back(listener);
}

Status Controller::Start() {
  std::lock_guard lock(mutex_);
  started_ = true;
  for (MetadataListener* listener : listeners_) {
    if (Status s = listener->Load(image()); !s.ok()) return s;
  }
  return {};
}

Status Controller::AddListenerNow(MetadataListener* listener) {
  std::lock_guard lock(mutex_);
  if (Status s = listener->Load(image()); !s.ok()) return s;
  listeners_.push_back(listener);
  return {};
}

void Controller::RemoveListener(MetadataListener* listener) {
  std::lock_guard lock(mutex_);
  std::erase(listeners_, listener);
}

ImagePtr Controller::image() const {
  std::lock_guard lock(image_mutex_);
  return image_;
}

void Controller::Publish(ImagePtr image) {
  // The old image is released outside the lock: it may be the last reference to much.
  {
    std::lock_guard lock(image_mutex_);
    std::swap(image_, image);
  }
}

void Controller::SetEndpoints(std::vector<BrokerImage::Endpoint> endpoints) {
  std::lock_guard lock(mutex_);
  auto next = std::make_shared<MetadataImage>(*image());
  for (BrokerImage& broker : next->brokers) {
    if (broker.id == config_.node_id) broker.endpoints = std::move(endpoints);
  }
  Publish(std::move(next));
}

// --- One change
// ---------------------------------------------------------------------------------------

Controller::Change Controller::Begin() const {
  Change change;
  change.next = std::make_shared<MetadataImage>(*image());
  change.next->version = change.delta.version = revision_ + 1;
  return change;
}

void Controller::PutTopic(Change& change, const TopicPtr& before, TopicPtr after) {
  change.batch.push_back({TopicKey(after->name), EncodeTopic(*after)});
  change.next->topics.Put(after);
  change.delta.topics.push_back({before, std::move(after)});
}

Status Controller::Commit(Change change) {
  if (change.batch.empty()) return {};
  size_t prepared = 0;
  Status refused;
  while (prepared < listeners_.size() && refused.ok()) {
    refused = listeners_[prepared++]->Prepare(change.delta, *change.next);
  }
  if (refused.ok()) {
    const Result<int64_t> revision = store_->Apply(std::move(change.batch));
    refused = revision.status();
    // Nobody else writes the store (the file is locked), so this is what Begin foresaw.
    if (revision.ok()) revision_ = *revision;
  }
  if (!refused.ok()) {
    while (prepared > 0) listeners_[--prepared]->Undo(change.delta);
    return ForClients(std::move(refused));
  }
  for (const ImageDelta::Topic& topic : change.delta.topics) {
    if (topic.after == nullptr) collisions_.erase(CollisionKey(topic.before->name));
    if (topic.before == nullptr)
      collisions_.emplace(CollisionKey(topic.after->name), topic.after->name);
  }
  const ImagePtr next = change.next;
  for (MetadataListener* listener : listeners_) listener->Apply(change.delta, *next);
  Publish(next);
  for (MetadataListener* listener : listeners_) listener->Published(change.delta, next);
  return {};
}

// --- Topics
// -------------------------------------------------------------------------------------------

Result<TopicPtr> Controller::CheckNewTopic(const NewTopic& asked, Origin origin) const {
  if (Status s = CheckTopicName(asked.name); !s.ok()) return s;
  const ImagePtr now = image();
  if (now->topics.Find(asked.name) != nullptr) {
    return Status(ErrorCode::kTopicAlreadyExists, "topic " + asked.name + " already exists");
  }
  if (const auto other = collisions_.find(CollisionKey(asked.name)); other != collisions_.end()) {
    return Status(ErrorCode::kInvalidTopic, "topic " + asked.name + " collides with topic " +
                                                other->second + " ('.' and '_' are one)");
  }
  if (origin == Origin::kClient && asked.name == kStateTopicName) {
    return Status(ErrorCode::kInvalidRequest, asked.name + " is made with the first mirror");
  }
  auto topic = std::make_shared<TopicImage>();
  topic->name = asked.name;
  topic->id = asked.id;
  if (topic->id.IsZero()) {
    const Result<Uuid> id = new_id_();
    if (!id.ok()) return id.status();
    topic->id = *id;
  } else if (const TopicPtr other = now->topics.Find(asked.id)) {
    return Status(ErrorCode::kTopicAlreadyExists,
                  "topic id " + asked.id.ToString() + " is that of topic " + other->name);
  }
  // In Kafka's order: configs, a placement by hand, then the numbers.
  if (!asked.bad_configs.ok()) return asked.bad_configs;
  if (Status s = CheckTopicConfigs(asked.configs, origin == Origin::kMirror); !s.ok()) return s;
  if (!asked.bad_placement.ok()) return asked.bad_placement;
  const auto replicas = [&] {
    return Status(ErrorCode::kInvalidReplicationFactor,
                  "replication factor " + std::to_string(asked.replication_factor) +
                      ": one broker holds one replica of a partition");
  };
  if (asked.replication_factor < -1 || asked.replication_factor == 0) return replicas();
  const int32_t count = asked.partitions == -1 ? config_.num_partitions : asked.partitions;
  if (count < 1 || count > kPartitionsMax) {
    return Status(ErrorCode::kInvalidPartitions,
                  "the number of partitions must be 1 to " + std::to_string(kPartitionsMax));
  }
  if (asked.replication_factor > 1) return replicas();
  topic->configs = asked.configs;
  topic->partitions.assign(static_cast<size_t>(count), PartitionImage{config_.node_id, 0});
  topic->mirror_version = revision_ + 1;
  return TopicPtr(std::move(topic));
}

CreatedTopic Controller::CreateLocked(const NewTopic& asked, bool validate_only, Origin origin) {
  Result<TopicPtr> topic = CheckNewTopic(asked, origin);
  if (!topic.ok()) return {topic.status(), nullptr};
  if (validate_only) return {{}, *topic};
  Change change = Begin();
  PutTopic(change, nullptr, *topic);
  if (Status s = Commit(std::move(change)); !s.ok()) return {std::move(s), nullptr};
  return {{}, *topic};
}

std::vector<CreatedTopic> Controller::CreateTopics(std::vector<NewTopic> topics, bool validate_only,
                                                   Origin origin) {
  std::lock_guard lock(mutex_);
  std::vector<CreatedTopic> created;
  created.reserve(topics.size());
  for (const NewTopic& topic : topics)
    created.push_back(CreateLocked(topic, validate_only, origin));
  return created;
}

CreatedTopic Controller::CreateTopic(NewTopic topic, Origin origin) {
  std::lock_guard lock(mutex_);
  return CreateLocked(topic, false, origin);
}

CreatedTopic Controller::EnsureTopic(const std::string& name) {
  if (TopicPtr topic = image()->topics.Find(name)) return {{}, std::move(topic)};
  NewTopic wanted;
  wanted.name = name;
  // Kafka's settings of its internal topics.
  if (name == "__consumer_offsets") {
    wanted.partitions = config_.offsets_topic_num_partitions;
    wanted.configs = {{"cleanup.policy", "compact"},
                      {"compression.type", "producer"},
                      {"segment.bytes", "104857600"}};
  } else if (name == "__transaction_state") {
    wanted.partitions = config_.transaction_state_log_num_partitions;
    wanted.configs = {{"cleanup.policy", "compact"},
                      {"compression.type", "uncompressed"},
                      {"segment.bytes", "104857600"},
                      {"unclean.leader.election.enable", "false"}};
  } else if (name == kStateTopicName) {
    wanted.partitions = config_.mirror_state_topic_num_partitions;
    wanted.configs = {{"cleanup.policy", "compact"},
                      {"compression.type", "producer"},
                      {"max.message.bytes", "16777216"},
                      {"retention.ms", "-1"}};
  } else if (!config_.auto_create_topics_enable) {
    return {{ErrorCode::kUnknownTopicOrPartition, "there is no topic " + name}, nullptr};
  }
  std::lock_guard lock(mutex_);
  // Somebody may have been faster.
  if (TopicPtr topic = image()->topics.Find(name)) return {{}, std::move(topic)};
  return CreateLocked(wanted, false, Origin::kMirror);
}

Status Controller::CheckTopicChange(const TopicImage& topic, Origin origin) {
  if (origin == Origin::kMirror) return {};
  if (topic.name == kStateTopicName) {
    return {ErrorCode::kInvalidRequest,
            topic.name + " holds the state of mirrors and is not changed by clients"};
  }
  const MirrorLink link = MirrorLinkOf(topic);
  if (link.desired == DesiredState::kMirroring || link.desired == DesiredState::kPaused) {
    return {ErrorCode::kMirrorTopicNotStopped,
            "topic " + topic.name + " belongs to mirror " + link.mirror + "; stop it there first"};
  }
  return {};
}

Status Controller::DeleteTopic(const Uuid& id, Origin origin) {
  std::lock_guard lock(mutex_);
  const TopicPtr topic = image()->topics.Find(id);
  if (topic == nullptr)
    return {ErrorCode::kUnknownTopicId, "there is no topic with id " + id.ToString()};
  if (origin == Origin::kClient && !config_.delete_topic_enable) {
    return {ErrorCode::kTopicDeletionDisabled, "delete.topic.enable is false"};
  }
  if (Status s = CheckTopicChange(*topic, origin); !s.ok()) return s;
  Change change = Begin();
  change.batch.push_back({TopicKey(topic->name), std::nullopt});
  change.next->topics.Remove(id);
  change.delta.topics.push_back({topic, nullptr});
  return Commit(std::move(change));
}

Status Controller::CreatePartitions(const Uuid& id, int32_t count, bool validate_only,
                                    Origin origin) {
  std::lock_guard lock(mutex_);
  const TopicPtr topic = image()->topics.Find(id);
  if (topic == nullptr)
    return {ErrorCode::kUnknownTopicId, "there is no topic with id " + id.ToString()};
  if (Status s = CheckTopicChange(*topic, origin); !s.ok()) return s;
  if (count <= topic->partition_count()) {
    return {ErrorCode::kInvalidPartitions, "topic " + topic->name + " has " +
                                               std::to_string(topic->partition_count()) +
                                               " partitions already"};
  }
  if (count > kPartitionsMax) {
    return {ErrorCode::kInvalidPartitions,
            "more than " + std::to_string(kPartitionsMax) + " partitions"};
  }
  if (validate_only) return {};
  auto next = std::make_shared<TopicImage>(*topic);
  next->partitions.resize(static_cast<size_t>(count), PartitionImage{config_.node_id, 0});
  Change change = Begin();
  PutTopic(change, topic, std::move(next));
  return Commit(std::move(change));
}

}  // namespace kmirror::broker
