// Where the two are known to differ, so that the list of deviations is about something: each on
// topics of its own, which are gone after that.
#include "messages/create_topics.h"
#include "messages/delete_topics.h"
#include "messages/fetch.h"
#include "messages/find_coordinator.h"
#include "messages/incremental_alter_configs.h"
#include "messages/init_producer_id.h"
#include "messages/produce.h"
#include "messages/write_txn_markers.h"
#include "tests/differential/config_values.h"
#include "tests/differential/history.h"

namespace kmirror::test {
namespace {

using namespace protocol;  // NOLINT: the messages, all of them

std::string Create(History& history, const std::vector<ConfigValue>& configs) {
  const std::string name = history.NewTopicName();
  history.Both<CreateTopicsResponse>(7, [&](Side& side) {
    CreateTopicsRequest request;
    auto& topic = request.topics.emplace_back();
    topic.name = side.prefix() + name;
    topic.num_partitions = 1;
    topic.replication_factor = 1;
    for (const ConfigValue& config : configs) topic.configs.push_back({config.name, config.value});
    return request;
  });
  history.AddTopic(name, 1);
  return name;
}

void Delete(History& history, const std::string& name) {
  history.Both<DeleteTopicsResponse>(5, [&](Side& side) {
    DeleteTopicsRequest request;
    request.timeout_ms = 10000;
    request.topic_names.push_back(side.prefix() + name);
    return request;
  });
  history.RemoveTopic(name);
}

void Send(History& history, const std::string& name, const BatchPlan& plan, std::string_view mark) {
  const std::vector<uint8_t> records = MakeBatch(plan);
  history.Both<ProduceResponse>(history.Version(8, 12),
                                [&](Side& side) {
                                  ProduceRequest request;
                                  request.acks = 1;
                                  request.timeout_ms = 10000;
                                  auto& topic = request.topic_data.emplace_back();
                                  topic.name = side.prefix() + name;
                                  topic.partition_data.emplace_back().records =
                                      RecordsView(ByteView(records));
                                  return request;
                                },
                                {.mark = mark, .note = NameOf(plan.oddity)});
}

// Kafka unpacks what is compressed, and looks less closely at what is not.
void SendWhatOneRefuses(History& history) {
  BatchPlan plan;
  plan.count = 3;
  std::vector<ConfigValue> configs;
  std::string_view mark = "D11";
  switch (history.Between(0, 5)) {
    case 0: plan.oddity = Oddity::kOffsetDeltasWrong; break;
    case 1: plan.oddity = Oddity::kLogAppendTime; break;
    case 2:
      plan.oddity = Oddity::kGarbageCompressed;
      mark = "D9";
      break;
    case 3:
      configs = {{"cleanup.policy", "compact"}};
      plan.keys = false;
      plan.codec = log::Compression::kZstd;
      mark = "D9";
      break;
    case 4:
      // Both refuse this and the next: Kafka in other words here,
      plan.oddity = Oddity::kUnknownCodec;
      mark = "";
      break;
    default:
      // and there it says which records are to blame.
      configs = {{"cleanup.policy", "compact"}};
      plan.keys = false;
      mark = "";
      break;
  }
  const std::string name = Create(history, configs);
  Send(history, name, plan, mark);
  Delete(history, name);
}

void Recompress(History& history) {
  const std::string name =
      Create(history, {{"compression.type", history.AnyOf<std::string>({"gzip", "zstd"})}});
  Send(history, name, BatchPlan{.count = 3}, "");
  history.Both<FetchResponse>(12,
                              [&](Side& side) {
                                FetchRequest request;
                                request.replica_id = -1;
                                auto& topic = request.topics.emplace_back();
                                topic.topic = side.prefix() + name;
                                topic.partitions.emplace_back().partition_max_bytes = 1 << 20;
                                return request;
                              },
                              {.mark = "D15"});
  Delete(history, name);
}

// A session by ids goes on when its topic is gone.
void FetchOfDeletedTopic(History& history) {
  const std::string name = Create(history, {});
  const auto fetch = [&](int32_t epoch) {
    history.Both<FetchResponse>(13, [&](Side& side) {
      FetchRequest request;
      request.replica_id = -1;
      request.session_epoch = epoch;
      if (epoch != 0) {
        request.session_id = side.sessions.empty() ? 0 : side.sessions.back();
        return request;
      }
      auto& topic = request.topics.emplace_back();
      topic.topic_id = side.TopicId(name);
      topic.partitions.emplace_back().partition_max_bytes = 1 << 20;
      return request;
    });
  };
  fetch(0);
  Delete(history, name);
  fetch(1);
  history.session_epoch = 0;  // the session that was before is not the last one any more
}

void AskCoordinators(History& history) {
  const int16_t version = history.Version(0, 6);
  history.Both<FindCoordinatorResponse>(version,
                                        [&](Side& side) {
                                          FindCoordinatorRequest request;
                                          if (version < 4)
                                            request.key = side.prefix() + "group";
                                          else
                                            request.coordinator_keys = {side.prefix() + "group"};
                                          return request;
                                        },
                                        {.mark = "D13"});
  // A Kafka whose transaction topic is there answers with a producer id.
  const auto transactional =
      history.Both<InitProducerIdResponse>(history.Version(0, 5),
                                           [&](Side& side) {
                                             InitProducerIdRequest request;
                                             request.transactional_id = side.prefix() + "tx";
                                             request.transaction_timeout_ms = 60000;
                                             return request;
                                           },
                                           {.mark = "D13"});
  history.kafka.ForgetProducer(transactional.producer_id);
}

void SetSmallSegments(History& history) {
  const TopicView* topic = history.AnyTopic();
  if (topic == nullptr) return;
  const std::string name = topic->name;
  history.Both<IncrementalAlterConfigsResponse>(
      history.Version(0, 1),
      [&](Side& side) {
        IncrementalAlterConfigsRequest request;
        request.validate_only = true;
        auto& resource = request.resources.emplace_back();
        resource.resource_type = 2;
        resource.resource_name = side.prefix() + name;
        resource.configs.push_back({"segment.bytes", 0, "1000"});
        return request;
      },
      {.mark = "D14"});
}

// Only looked at: the real Kafka belongs to others too.
void AlterBroker(History& history) {
  const std::string key = history.AnyOf<std::string>(
      {"log.retention.ms", "log.segment.bytes", "node.id", "num.partitions", "no.such.config"});
  history.Both<IncrementalAlterConfigsResponse>(history.Version(0, 1), [&](Side&) {
    IncrementalAlterConfigsRequest request;
    request.validate_only = true;
    auto& resource = request.resources.emplace_back();
    resource.resource_type = 4;
    resource.resource_name = "1";
    resource.configs.push_back({key, 0, "1048576"});
    return request;
  });
}

void WriteMarkers(History& history) {
  const std::string name = Create(history, {});
  history.Both<WriteTxnMarkersResponse>(1,
                                        [&](Side& side) {
                                          WriteTxnMarkersRequest request;
                                          auto& marker = request.markers.emplace_back();
                                          marker.producer_id = 987654;
                                          marker.producer_epoch = 0;
                                          auto& topic = marker.topics.emplace_back();
                                          topic.name = side.prefix() + name;
                                          topic.partition_indexes = {0};
                                          return request;
                                        },
                                        {.mark = "D16"});
  Delete(history, name);
}

constexpr WeightedAction kActions[] = {
    {2, SendWhatOneRefuses}, {1, Recompress},  {1, FetchOfDeletedTopic}, {1, AskCoordinators},
    {1, SetSmallSegments},   {1, AlterBroker}, {1, WriteMarkers},
};

}  // namespace

std::span<const WeightedAction> DeviationActions() { return kActions; }

}  // namespace kmirror::test
