// Topics made, grown, emptied and deleted.
#include <algorithm>
#include <set>

#include "messages/create_partitions.h"
#include "messages/create_topics.h"
#include "messages/delete_records.h"
#include "messages/delete_topics.h"
#include "tests/differential/config_values.h"
#include "tests/differential/history.h"

namespace kmirror::test {
namespace {

using namespace protocol;  // NOLINT: the messages, all of them

// A name without prefix that no topic may have, or one with it.
std::string OddName(History& history, const std::string& prefix) {
  switch (history.Between(0, 6)) {
    case 0: return "";
    case 1: return ".";
    case 2: return "..";
    case 3: return prefix + "bad/name";
    case 4: return prefix + "with space";
    case 5: return std::string(250, 'x');
    default: return prefix + "colon:";
  }
}

struct WantedTopic {
  std::string name;  // with the prefix of Kafka's side, which is that of both
  std::string plain;
  int32_t partitions = 1;
  int16_t replication = 1;
  std::vector<CreateTopicsRequest::CreatableReplicaAssignment> assignments;
  std::vector<CreateTopicsRequest::CreatableTopicConfig> configs;
};

WantedTopic Wanted(History& history) {
  WantedTopic wanted;
  const std::string& prefix = history.kafka.prefix();
  switch (history.Between(0, 9)) {
    case 0:
      if (TopicView* known = history.AnyTopic()) wanted.plain = known->name;
      break;
    case 1: wanted.name = OddName(history, prefix); break;
    case 2:
      // Collides with its like when both are there.
      wanted.plain = history.OneIn(2) ? "a.b" : "a_b";
      break;
    default: break;
  }
  if (wanted.name.empty() && wanted.plain.empty()) wanted.plain = history.NewTopicName();
  if (!wanted.plain.empty()) wanted.name = prefix + wanted.plain;
  wanted.partitions = history.AnyOf({1, 1, 2, 3, 3, -1, 0, -2});
  wanted.replication = history.AnyOf<int16_t>({1, 1, 1, 1, -1, 0, 2, -3});
  if (history.OneIn(8)) {
    wanted.partitions = history.OneIn(4) ? 1 : -1;
    wanted.replication = history.OneIn(4) ? 1 : -1;
    const int64_t count = history.Between(1, 3);
    for (int64_t i = 0; i < count; ++i) {
      auto& assignment = wanted.assignments.emplace_back();
      assignment.partition_index = static_cast<int32_t>(history.OneIn(8) ? i + 1 : i);
      assignment.broker_ids = {1};
      if (history.OneIn(8))
        assignment.broker_ids = history.AnyOf<std::vector<int32_t>>({{}, {2}, {1, 1}, {-1}});
    }
  }
  const int64_t configs = history.AnyOf({0, 0, 1, 2});
  for (int64_t i = 0; i < configs; ++i) {
    const ConfigValue config = AnyTopicConfig(history, history.OneIn(3));
    wanted.configs.push_back({config.name, config.value});
  }
  return wanted;
}

void CreateSome(History& history) {
  std::vector<WantedTopic> wanted;
  const int64_t count = history.AnyOf({1, 1, 1, 2});
  for (int64_t i = 0; i < count; ++i) wanted.push_back(Wanted(history));
  if (history.OneIn(12)) wanted.push_back(wanted.front());
  const bool validate_only = history.OneIn(6);
  const auto response = history.Both<CreateTopicsResponse>(history.Version(2, 7), [&](Side&) {
    CreateTopicsRequest request;
    request.timeout_ms = 10000;
    request.validate_only = validate_only;
    for (const WantedTopic& each : wanted) {
      auto& topic = request.topics.emplace_back();
      topic.name = each.name;
      topic.num_partitions = each.partitions;
      topic.replication_factor = each.replication;
      topic.assignments = each.assignments;
      topic.configs = each.configs;
    }
    return request;
  });
  if (validate_only) return;
  for (const auto& answer : response.topics) {
    if (answer.error_code != 0) continue;
    for (const WantedTopic& each : wanted) {
      if (each.name != answer.name) continue;
      const int32_t partitions = each.assignments.empty()
                                     ? std::max(each.partitions, 1)
                                     : static_cast<int32_t>(each.assignments.size());
      history.AddTopic(each.plain, partitions);
      break;
    }
  }
}

void GrowSome(History& history) {
  struct Wanted {
    std::string name;
    int32_t count;
    std::optional<std::vector<std::vector<int32_t>>> assignments;
  };
  std::vector<Wanted> wanted;
  const int64_t count = history.AnyOf({1, 1, 2});
  for (int64_t i = 0; i < count; ++i) {
    const TopicView* topic = history.AnyTopic();
    Wanted& each = wanted.emplace_back();
    each.name = topic != nullptr && !history.OneIn(8) ? topic->name : history.UnknownTopic();
    const auto present = static_cast<int32_t>(topic != nullptr ? topic->partitions.size() : 1);
    each.count = present + history.AnyOf({1, 1, 1, 0, -1, -9});
    if (present > 5) each.count = present;
    if (history.OneIn(5)) {
      each.assignments = history.AnyOf<std::vector<std::vector<int32_t>>>(
          {{{1}}, {{2}}, {{1}, {1}}, {{1, 1}}, {}, {{}}});
    }
  }
  const bool validate_only = history.OneIn(5);
  const auto response =
      history.Both<CreatePartitionsResponse>(history.Version(0, 3), [&](Side& side) {
        CreatePartitionsRequest request;
        request.timeout_ms = 10000;
        request.validate_only = validate_only;
        for (const Wanted& each : wanted) {
          auto& topic = request.topics.emplace_back();
          topic.name = side.prefix() + each.name;
          topic.count = each.count;
          topic.assignments.reset();
          if (!each.assignments) continue;
          topic.assignments.emplace();
          for (const auto& brokers : *each.assignments) topic.assignments->push_back({brokers});
        }
        return request;
      });
  if (validate_only) return;
  for (const auto& answer : response.results) {
    if (answer.error_code != 0) continue;
    for (const Wanted& each : wanted) {
      TopicView* topic = history.Find(each.name);
      if (topic == nullptr || history.kafka.prefix() + each.name != answer.name) continue;
      history.Must(history.kafka.AwaitTopic(each.name, each.count), "partitions");
      history.Must(history.ours.AwaitTopic(each.name, each.count), "partitions");
      topic->partitions.resize(static_cast<size_t>(each.count));
      break;
    }
  }
}

void DeleteSome(History& history) {
  // Seldom the last one: most of what comes after needs a topic.
  if (history.topics.size() < 2 && !history.OneIn(4)) return;
  struct Wanted {
    std::string name;
    bool by_id = false;
    bool by_both = false;
    bool strange_id = false;
  };
  std::vector<Wanted> wanted;
  const int16_t version = history.Version(1, 6);
  const int64_t count = history.AnyOf({1, 1, 2});
  for (int64_t i = 0; i < count; ++i) {
    const TopicView* topic = history.AnyTopic();
    Wanted& each = wanted.emplace_back();
    each.name = topic != nullptr && !history.OneIn(5) ? topic->name : history.UnknownTopic();
    if (version < 6) continue;
    each.by_id = history.OneIn(2);
    each.by_both = history.OneIn(10);
    each.strange_id = each.by_id && history.OneIn(8);
  }
  const auto response = history.Both<DeleteTopicsResponse>(version, [&](Side& side) {
    DeleteTopicsRequest request;
    request.timeout_ms = 10000;
    for (const Wanted& each : wanted) {
      if (version < 6) {
        request.topic_names.push_back(side.prefix() + each.name);
        continue;
      }
      auto& topic = request.topics.emplace_back();
      if (!each.by_id || each.by_both) topic.name = side.prefix() + each.name;
      if (each.by_id || each.by_both) topic.topic_id = side.TopicId(each.name);
      if (each.strange_id) topic.topic_id.bytes[3] ^= 0x55;
    }
    return request;
  });
  for (const auto& answer : response.responses) {
    if (answer.error_code != 0 || !answer.name) continue;
    const std::string name = answer.name->substr(history.kafka.prefix().size());
    if (history.Find(name) != nullptr) history.RemoveTopic(name);
  }
}

void DeleteRecordsOfSome(History& history) {
  struct Wanted {
    std::string name;
    int32_t partition;
    int64_t offset;
  };
  std::vector<Wanted> wanted;
  const int64_t count = history.AnyOf({1, 1, 2});
  for (int64_t i = 0; i < count; ++i) {
    const TopicView* topic = history.AnyTopic();
    if (topic == nullptr || history.OneIn(10)) {
      wanted.push_back({history.UnknownTopic(), 0, 0});
      continue;
    }
    const auto partition =
        static_cast<int32_t>(history.Between(0, static_cast<int64_t>(topic->partitions.size())));
    const TopicView::Partition view = partition < static_cast<int32_t>(topic->partitions.size())
                                          ? topic->partitions[static_cast<size_t>(partition)]
                                          : TopicView::Partition{};
    wanted.push_back(
        {topic->name, partition,
         history.AnyOf<int64_t>({0, view.start, view.start + 1, view.end, view.end + 1,
                                 view.end - 1, -1, -2, history.Between(view.start, view.end)})});
  }
  if (wanted.size() == 2 && wanted[0].name == wanted[1].name &&
      wanted[0].partition == wanted[1].partition) {
    wanted.pop_back();
  }
  const auto response = history.Both<DeleteRecordsResponse>(history.Version(0, 2), [&](Side& side) {
    DeleteRecordsRequest request;
    request.timeout_ms = 10000;
    for (const Wanted& each : wanted) {
      auto& topic =
          History::TopicOf(request.topics, &DeleteRecordsRequest::DeleteRecordsTopic::name,
                           side.prefix() + each.name);
      topic.partitions.push_back({each.partition, each.offset});
    }
    return request;
  });
  for (const auto& topic : response.topics) {
    TopicView* view = history.Find(topic.name.substr(history.kafka.prefix().size()));
    if (view == nullptr) continue;
    for (const auto& partition : topic.partitions) {
      const auto index = static_cast<size_t>(partition.partition_index);
      if (partition.error_code != 0 || index >= view->partitions.size()) continue;
      view->partitions[index].start = partition.low_watermark;
    }
  }
}

constexpr WeightedAction kActions[] = {
    {8, CreateSome},
    {4, GrowSome},
    {4, DeleteSome},
    {6, DeleteRecordsOfSome},
};

}  // namespace

std::span<const WeightedAction> TopicActions() { return kActions; }

}  // namespace kmirror::test
