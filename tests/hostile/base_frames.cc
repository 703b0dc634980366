#include "tests/hostile/base_frames.h"

#include <algorithm>
#include <cstdlib>
#include <utility>

#include "kmirror/log/record_batch_builder.h"
#include "messages/bump_leader_epochs.h"
#include "messages/create_cluster_mirror.h"
#include "messages/create_partitions.h"
#include "messages/delete_cluster_mirror.h"
#include "messages/delete_records.h"
#include "messages/describe_cluster_mirrors.h"
#include "messages/describe_configs.h"
#include "messages/describe_producers.h"
#include "messages/describe_topic_partitions.h"
#include "messages/fetch.h"
#include "messages/incremental_alter_configs.h"
#include "messages/list_offsets.h"
#include "messages/metadata.h"
#include "messages/offset_for_leader_epoch.h"
#include "messages/pause_mirror_topics.h"
#include "messages/produce.h"
#include "messages/read_mirror_offsets.h"
#include "messages/read_mirror_states.h"
#include "messages/recover_mirror_topics.h"
#include "messages/resume_mirror_topics.h"
#include "messages/start_mirror_topics.h"
#include "messages/stop_mirror_topics.h"
#include "messages/write_mirror_states.h"
#include "src/protocol/body.h"
#include "tests/protocol/golden_case.h"

namespace kmirror::test {
namespace {

using namespace protocol;  // NOLINT: the messages, all of them

constexpr char kMirror[] = "hostile-mirror";
// Names that the golden requests take for topics of theirs never meet the ones of the tests.
constexpr int32_t kCorrelation = 7;

class Maker {
 public:
  Maker(const std::vector<ServedVersions>& served, const std::string& topic, const Uuid& topic_id)
      : served_(served), topic_(topic), topic_id_(topic_id) {}

  std::vector<BaseFrame> Run() {
    Data();
    Topics();
    Mirrors();
    return std::move(frames_);
  }

 private:
  // In every served version that can say it.
  template <typename Request>
  void Add(const Request& request) {
    for (const ServedVersions& api : served_) {
      if (api.key != Request::kApiKey) continue;
      for (int version = api.min; version <= api.max; ++version) {
        Writer out;
        if (!EncodeRequestFrame(request, static_cast<int16_t>(version), kCorrelation, "hostile",
                                out)
                 .ok()) {
          continue;
        }
        frames_.push_back({std::string("ours ") + Request::kName + " v" + std::to_string(version),
                           Request::kApiKey, static_cast<int16_t>(version), out.Flatten()});
      }
    }
  }

  void Data() {
    log::RecordBatchBuilder builder;
    builder.Add(1700000000000, log::AsBytes("key"), log::AsBytes("value"));
    builder.Add(1700000000001, std::nullopt, std::nullopt);
    const std::vector<uint8_t> batch = builder.Build();
    ProduceRequest produce;
    produce.acks = 1;
    produce.timeout_ms = 1000;
    auto& produced = produce.topic_data.emplace_back();
    produced.name = topic_;
    produced.topic_id = topic_id_;
    produced.partition_data.emplace_back().records = RecordsView(ByteView(batch));
    Add(produce);

    FetchRequest fetch;
    fetch.max_wait_ms = 20;
    fetch.min_bytes = 1;
    fetch.max_bytes = 1 << 20;
    auto& fetched = fetch.topics.emplace_back();
    fetched.topic = topic_;
    fetched.topic_id = topic_id_;
    fetched.partitions.emplace_back().partition_max_bytes = 1 << 20;
    Add(fetch);
    fetch.session_epoch = 0;  // opens a session
    fetch.isolation_level = 1;
    Add(fetch);

    for (const int64_t timestamp : {int64_t{-1}, int64_t{1700000000000}}) {
      ListOffsetsRequest list;
      list.replica_id = -1;
      auto& listed = list.topics.emplace_back();
      listed.name = topic_;
      listed.partitions.emplace_back().timestamp = timestamp;
      Add(list);
    }

    OffsetForLeaderEpochRequest epochs;
    auto& epoch = epochs.topics.emplace_back();
    epoch.topic = topic_;
    epoch.partitions.emplace_back();
    Add(epochs);

    DeleteRecordsRequest trim;
    auto& trimmed = trim.topics.emplace_back();
    trimmed.name = topic_;
    trimmed.partitions.emplace_back().offset = 0;
    trim.timeout_ms = 1000;
    Add(trim);

    DescribeProducersRequest producers;
    auto& described = producers.topics.emplace_back();
    described.name = topic_;
    described.partition_indexes = {0};
    Add(producers);
  }

  void Topics() {
    MetadataRequest metadata;
    metadata.topics->emplace_back().name = topic_;
    Add(metadata);
    metadata.topics.reset();
    Add(metadata);

    DescribeTopicPartitionsRequest partitions;
    partitions.topics.emplace_back().name = topic_;
    partitions.response_partition_limit = 100;
    Add(partitions);

    CreatePartitionsRequest grow;
    auto& grown = grow.topics.emplace_back();
    grown.name = topic_;
    grown.count = 2;
    grown.assignments.reset();
    grow.timeout_ms = 1000;
    grow.validate_only = true;
    Add(grow);

    DescribeConfigsRequest show;
    auto& shown = show.resources.emplace_back();
    shown.resource_type = 2;
    shown.resource_name = topic_;
    shown.configuration_keys.reset();
    Add(show);

    IncrementalAlterConfigsRequest alter;
    auto& altered = alter.resources.emplace_back();
    altered.resource_type = 2;
    altered.resource_name = topic_;
    auto& config = altered.configs.emplace_back();
    config.name = "retention.ms";
    config.value = "100000000000";
    Add(alter);
  }

  // The mirror's source does not exist: nothing listens on port 1.
  void Mirrors() {
    CreateClusterMirrorRequest create;
    create.mirror_name = kMirror;
    create.config.push_back({"bootstrap.servers", "127.0.0.1:1"});
    Add(create);
    StartMirrorTopicsRequest start;
    start.mirror_name = kMirror;
    start.topics.push_back({{}, "hostile-copy", -1});
    Add(start);
    PauseMirrorTopicsRequest pause;
    pause.mirror_name = kMirror;
    pause.topics.push_back({"hostile-copy"});
    Add(pause);
    ResumeMirrorTopicsRequest resume;
    resume.mirror_name = kMirror;
    resume.topics.push_back({"hostile-copy"});
    Add(resume);
    RecoverMirrorTopicsRequest recover;
    recover.mirror_name = kMirror;
    recover.topics.push_back({"hostile-copy"});
    Add(recover);
    StopMirrorTopicsRequest stop;
    stop.mirror_name = kMirror;
    stop.topics.push_back({"hostile-copy"});
    Add(stop);
    DeleteClusterMirrorRequest remove;
    remove.mirror_name = "another-mirror";
    Add(remove);
    DescribeClusterMirrorsRequest describe;
    describe.mirror_names = {kMirror};
    describe.cluster_id = "AAAAAAAAAAAAAAAAAAAAAQ";
    describe.last_mirror_epoch_lookups.push_back({topic_id_, {0, 1}});
    Add(describe);
    ReadMirrorStatesRequest read;
    read.mirror_name = kMirror;
    auto& read_topic = read.topics.emplace_back();
    read_topic.topic_name = "hostile-copy";
    read_topic.partitions.emplace_back();
    Add(read);
    WriteMirrorStatesRequest write;
    write.mirror_name = kMirror;
    auto& write_topic = write.topics.emplace_back();
    write_topic.topic_name = "hostile-copy";
    write_topic.partitions.emplace_back();
    Add(write);
    BumpLeaderEpochsRequest bump;
    auto& bumped = bump.topics.emplace_back();
    bumped.topic_id = topic_id_;
    bumped.partitions.emplace_back();
    Add(bump);
    ReadMirrorOffsetsRequest offsets;
    offsets.mirror_name = kMirror;
    auto& offset = offsets.topics.emplace_back();
    offset.topic_name = "hostile-copy";
    offset.partitions = {0};
    Add(offsets);
  }

  const std::vector<ServedVersions>& served_;
  const std::string& topic_;
  const Uuid topic_id_;
  std::vector<BaseFrame> frames_;
};

void FillGaps(const std::vector<ServedVersions>& served, std::vector<BaseFrame>* frames) {
  for (const ServedVersions& api : served) {
    for (int version = api.min; version <= api.max; ++version) {
      const BaseFrame* nearest = nullptr;
      for (const BaseFrame& frame : *frames) {
        if (frame.key != api.key) continue;
        if (nearest == nullptr ||
            std::abs(frame.version - version) < std::abs(nearest->version - version)) {
          nearest = &frame;
        }
      }
      if (nearest == nullptr || nearest->version == version) continue;
      BaseFrame filled = *nearest;
      filled.name += " as v" + std::to_string(version);
      filled.version = static_cast<int16_t>(version);
      filled.bytes[6] = static_cast<uint8_t>(version >> 8);
      filled.bytes[7] = static_cast<uint8_t>(version);
      frames->push_back(std::move(filled));
    }
  }
}

}  // namespace

std::vector<BaseFrame> BaseFrames(const std::vector<ServedVersions>& served,
                                  const std::string& topic, const Uuid& topic_id) {
  std::vector<BaseFrame> frames = Maker(served, topic, topic_id).Run();
  for (const auto& cases : {KafkaCases(), UnknownTagCases(), PrototypeCases()}) {
    for (const GoldenCase& golden : cases) {
      if (golden.direction != Direction::kRequest || golden.frame.empty()) continue;
      const bool known = std::ranges::any_of(served, [&](const ServedVersions& api) {
        return api.key == golden.key && golden.version >= api.min && golden.version <= api.max;
      });
      if (known) frames.push_back({golden.name, golden.key, golden.version, golden.frame});
    }
  }
  FillGaps(served, &frames);
  return frames;
}

}  // namespace kmirror::test
