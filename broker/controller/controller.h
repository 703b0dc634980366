// The one writer of the cluster's metadata.
//
// Each change: checked against the image -> listeners prepare -> stored durably -> listeners apply
// -> the new image is published -> listeners are told. One change at a time, in order of version.
// An OK answer means durable, applied on this broker and visible (R29); an error means nothing
// happened, except kKafkaStorageError after a failed sync (metadata_store.h).
//
// Leader epochs stay as they are across a restart (Kafka raises them): this broker holds the only
// replica, so that nobody else can have led, and a raise would cost a write for every partition.
//
// Thread-safe. Every change blocks its caller for an fsync (and for creating directories): call
// from a thread that may. Reading image() never blocks.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "broker/config/broker_config.h"
#include "broker/config/config_table.h"
#include "broker/controller/metadata_image.h"
#include "broker/controller/metadata_store.h"
#include "kmirror/status.h"
#include "kmirror/types.h"

namespace kmirror::broker {

// What changed from one image to the next.
struct ImageDelta {
  struct Topic {
    TopicPtr before;  // nullptr: created
    TopicPtr after;   // nullptr: deleted
  };
  int64_t version = 0;
  std::vector<Topic> topics;
  std::vector<std::string> mirrors;  // created, changed or removed: look into the image
  bool broker_configs = false;
  bool features = false;
};

// Called with the controller's lock held, one call at a time: must not call the controller's
// changes. Listeners are called in the order they were added; destroyed after the controller or
// removed first.
class MetadataListener {
 public:
  virtual ~MetadataListener() = default;
  // Once, at Start: what was loaded.
  virtual Status Load(const ImagePtr& image) {
    (void)image;
    return {};
  }
  // Before the change is stored: do what may fail (create directories). An error refuses the
  // change; Undo then runs for those whose Prepare had answered OK, and for the one that failed.
  virtual Status Prepare(const ImageDelta& delta, const MetadataImage& next) {
    (void)delta, (void)next;
    return {};
  }
  virtual void Undo(const ImageDelta& delta) noexcept { (void)delta; }
  // Durable and not yet visible or acknowledged: close write barriers, take leadership. Must
  // succeed.
  virtual void Apply(const ImageDelta& delta, const MetadataImage& next) noexcept {
    (void)delta, (void)next;
  }
  // Visible: image() answers `image` or a later one.
  virtual void Published(const ImageDelta& delta, const ImagePtr& image) noexcept {
    (void)delta, (void)image;
  }
};

struct NewTopic {
  std::string name;
  Uuid id;                          // zero: choose one
  int32_t partitions = -1;          // -1: num.partitions
  int16_t replication_factor = -1;  // -1: the default; only 1 can be met by one broker
  ConfigMap configs;
  // What the one who asked found wrong already. It is told in its turn: a topic that is there
  // already is so whatever else is wrong with the request.
  Status bad_configs;
  Status bad_placement;
};

struct CreatedTopic {
  Status status;
  TopicPtr topic;  // set when OK (for validate_only: as it would be)
};

struct MirrorNameSetting {
  Uuid topic_id;
  std::optional<std::string> value;  // NAME, NAME.paused, NAME.removed; nullopt removes
};

struct LeaderEpochBump {
  TopicIdPartition partition;
  int32_t min_leader_epoch = -1;
};

struct ProducerIdRange {
  int64_t begin = 0;
  int64_t end = 0;  // exclusive
};

class Controller {
 public:
  // Clients obey the rules for mirror topics (R34); the library's own requests are above them.
  enum class Origin { kClient, kMirror };

  struct Options {
    MetadataStore* store = nullptr;  // outlives the controller
    BrokerConfig config;
    std::string cluster_id;  // as meta.properties says
    // The id of a topic that comes without one; null: random, version 4.
    std::function<Result<Uuid>()> new_id;
  };

  // Loads the image; a new store is formatted (mirror.version 1 is finalized, R35).
  // kInconsistentClusterId: the store belongs to another cluster. kCorruptMessage: a stored value
  // does not decode; the text names the key.
  static Result<std::unique_ptr<Controller>> Open(Options options);
  ~Controller();

  // REQUIRES: before Start.
  void AddListener(MetadataListener* listener);
  // Hands the loaded image to every listener. The first error is answered.
  Status Start();
  // Adds a listener after Start, its Load and its first delta without a gap.
  Status AddListenerNow(MetadataListener* listener);
  void RemoveListener(MetadataListener* listener);

  ImagePtr image() const;
  const BrokerConfig& config() const { return config_; }
  // The advertised endpoints, once the server knows its ports. Not stored, no delta: REQUIRES that
  // it happens before MirrorHost::Start.
  void SetEndpoints(std::vector<BrokerImage::Endpoint> endpoints);

  // --- Topics
  // ----------------------------------------------------------------------------------------

  // Each topic is its own change; one that fails does not touch the others. Errors: kInvalidTopic
  // (the name, or one that differs in '.' and '_' alone is taken), kTopicAlreadyExists (name or
  // id), kInvalidPartitions, kInvalidReplicationFactor, kInvalidConfig (`mirror.name` unless
  // kMirror), kInvalidRequest (clients and __mirror_state), kKafkaStorageError.
  std::vector<CreatedTopic> CreateTopics(std::vector<NewTopic> topics, bool validate_only,
                                         Origin origin = Origin::kClient);
  CreatedTopic CreateTopic(NewTopic topic, Origin origin = Origin::kClient);
  // For Metadata and FindCoordinator requests: the topic, created if need be. Kafka's internal
  // topics and __mirror_state get their own partition counts and configs, others the broker's
  // defaults; kUnknownTopicOrPartition for those when auto.create.topics.enable is false.
  CreatedTopic EnsureTopic(const std::string& name);

  // kUnknownTopicId; kMirrorTopicNotStopped when a mirror owns it and its stop is not wanted (the
  // server asks Mirror::CheckTopicChange first, which knows the partitions);
  // kTopicDeletionDisabled.
  Status DeleteTopic(const Uuid& id, Origin origin = Origin::kClient);
  // `count` is the new total. kInvalidPartitions: not greater than now. Otherwise as DeleteTopic.
  Status CreatePartitions(const Uuid& id, int32_t count, bool validate_only,
                          Origin origin = Origin::kClient);

  // --- Configs
  // ---------------------------------------------------------------------------------------

  Status AlterTopicConfigs(const std::string& topic, std::span<const ConfigChange> changes,
                           bool validate_only);
  // AlterConfigs (33): `configs` replace all overrides; `mirror.name` stays as it is.
  Status ReplaceTopicConfigs(const std::string& topic, ConfigMap configs, bool validate_only);
  // broker -1: the cluster-wide default. Only keys that are dynamic.
  Status AlterBrokerConfigs(int32_t broker, std::span<const ConfigChange> changes,
                            bool validate_only);
  // Existing mirrors only (kUnknownClusterMirror); keys in either spelling (R25).
  Status AlterMirrorConfigs(const std::string& mirror, std::span<const ConfigChange> changes,
                            bool validate_only);

  // --- What the library asks (kmirror/host/controller.h has the contracts). Whether a mirror
  // exists, or its topics are stopped, is the library's to judge: it holds the states.
  // ---------------------------

  Status SetMirrorNames(std::span<const MirrorNameSetting> changes, int64_t expected_version);
  Status SetMirrorConfigs(const std::string& mirror,
                          const std::map<std::string, std::optional<std::string>>& changes,
                          bool create);
  Status DeleteMirror(const std::string& mirror, int64_t expected_version);
  Status BumpLeaderEpochs(std::span<const LeaderEpochBump> bumps);

  // --- Producer ids (R9)
  // -----------------------------------------------------------------------------

  // `count` ids never given out before, also not before a crash. count in [1, 100000]. Cheap: ids
  // are reserved on disk in blocks.
  Result<ProducerIdRange> AllocateProducerIds(int32_t count);
  // Ids given out from now on are above `max_seen`, if it lies in this cluster's range.
  Status RaiseProducerIdFloor(int64_t max_seen);

  // --- Features
  // --------------------------------------------------------------------------------------

  // kInvalidUpdateVersion: unknown feature or level. Only `mirror.version` 0 and 1 for now.
  Status UpdateFeature(std::string_view feature, int16_t level, bool validate_only);

 private:
  explicit Controller(Options options);
  struct Change {  // one under construction
    std::shared_ptr<MetadataImage> next;
    ImageDelta delta;
    std::vector<StoreChange> batch;
  };
  struct ProducerIds {
    int32_t generation = 0;  // which range of the cluster's sequence of ranges
    int64_t next = 0;        // first id never given out
    int64_t reserved = 0;    // exclusive: what the store says; a start goes on here
  };

  Status LoadAll();
  Status Format();
  // Runs the whole protocol above; lock held. A change without effect is OK and does nothing.
  Status Commit(Change change);
  Change Begin() const;
  Result<TopicPtr> CheckNewTopic(const NewTopic& topic, Origin origin) const;
  CreatedTopic CreateLocked(const NewTopic& topic, bool validate_only, Origin origin);
  // R34, as far as the metadata can tell; and __mirror_state is the library's.
  static Status CheckTopicChange(const TopicImage& topic, Origin origin);
  static void PutTopic(Change& change, const TopicPtr& before, TopicPtr after);
  void Publish(ImagePtr image);
  std::string EncodeClusterRecord(int16_t feature, const ProducerIds& ids) const;
  Status StoreProducerIds(const ProducerIds& ids);
  Status StoreTopicConfigs(const TopicPtr& topic, ConfigMap configs, bool validate_only);

  const BrokerConfig config_;
  MetadataStore* const store_;
  const std::string cluster_id_;
  const std::function<Result<Uuid>()> new_id_;

  std::mutex mutex_;  // one change at a time; guards what follows
  std::vector<MetadataListener*> listeners_;
  bool started_ = false;
  int64_t revision_ = 0;  // of the store
  ProducerIds ids_;
  std::map<std::string, std::string> collisions_;  // names with '.' as '_' -> name

  mutable std::mutex image_mutex_;  // only to copy or swap the pointer
  ImagePtr image_;
};

// Kafka's rules for topic names: 1 to 249 characters of [A-Za-z0-9._-], not "." or "..".
Status CheckTopicName(std::string_view name);

}  // namespace kmirror::broker
