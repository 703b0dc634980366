// Records out: alone, in sessions, and everything at a history's end.
#include <algorithm>

#include "messages/describe_configs.h"
#include "messages/describe_producers.h"
#include "messages/fetch.h"
#include "messages/list_offsets.h"
#include "tests/differential/history.h"

namespace kmirror::test {
namespace {

using namespace protocol;  // NOLINT: the messages, all of them

constexpr int16_t kFirstWithIds = 13;

struct Wanted {
  std::string topic;
  bool strange = false;  // no topic of this name
  int32_t partition = 0;
  int64_t offset = 0;
  int32_t max_bytes = 1 << 20;
  int32_t current_epoch = -1;
  int32_t last_fetched_epoch = -1;
};

Wanted AnyWanted(History& history, int16_t version) {
  Wanted wanted;
  const TopicView* topic = history.AnyTopic();
  if (topic == nullptr || history.OneIn(15)) {
    wanted.topic = history.UnknownTopic();
    wanted.strange = true;
    return wanted;
  }
  wanted.topic = topic->name;
  const auto count = static_cast<int64_t>(topic->partitions.size());
  wanted.partition =
      static_cast<int32_t>(history.OneIn(20) ? count : history.Between(0, count - 1));
  TopicView::Partition view;
  if (wanted.partition < count) view = topic->partitions[static_cast<size_t>(wanted.partition)];
  wanted.offset = history.AnyOf<int64_t>(
      {view.start, view.start, 0, view.end, view.end - 1, view.end + 1, -1, INT64_MAX,
       view.start - 1, history.Between(view.start, std::max(view.start, view.end)),
       history.Between(view.start, std::max(view.start, view.end))});
  wanted.max_bytes = history.AnyOf({1 << 20, 1 << 20, 1 << 20, 1000, 200, 61, 12, 1, 0});
  if (version >= 9) wanted.current_epoch = history.AnyOf({-1, -1, -1, -1, 0, 0, 6, -2});
  if (version >= 12) wanted.last_fetched_epoch = history.AnyOf({-1, -1, -1, -1, -1, 0, 3, -2});
  return wanted;
}

Uuid IdOf(Side& side, const std::string& topic) {
  Uuid id = side.TopicId(topic);
  if (id.IsZero()) id.bytes = {9, 9, 9, static_cast<uint8_t>(topic.back())};
  return id;
}

// The topic's element of the request, made if need be: a client names a topic once.
FetchRequest::FetchTopic& TopicIn(FetchRequest* request, const std::string& name, const Uuid& id) {
  for (FetchRequest::FetchTopic& each : request->topics) {
    if (each.topic == name && each.topic_id == id) return each;
  }
  FetchRequest::FetchTopic& topic = request->topics.emplace_back();
  topic.topic = name;
  topic.topic_id = id;
  return topic;
}

void Put(Side& side, int16_t version, const Wanted& wanted, FetchRequest* request) {
  const bool by_id = version >= kFirstWithIds;
  auto& topic = TopicIn(request, by_id ? "" : side.prefix() + wanted.topic,
                        by_id ? IdOf(side, wanted.topic) : Uuid{});
  auto& partition = topic.partitions.emplace_back();
  partition.partition = wanted.partition;
  partition.fetch_offset = wanted.offset;
  partition.partition_max_bytes = wanted.max_bytes;
  partition.current_leader_epoch = wanted.current_epoch;
  partition.last_fetched_epoch = wanted.last_fetched_epoch;
}

struct Limits {
  int32_t wait_ms = 0;
  int32_t min_bytes = 0;
  int32_t max_bytes = 10 << 20;
  int8_t isolation = 0;
};

Limits AnyLimits(History& history) {
  return {history.AnyOf({0, 0, 1, 5, -1}), history.AnyOf({0, 1, 1, 100, 1 << 20, -1}),
          history.AnyOf({10 << 20, 10 << 20, 10 << 20, 1000, 100, 1, 0}),
          static_cast<int8_t>(history.Between(0, 1))};
}

void Put(const Limits& limits, FetchRequest* request) {
  request->replica_id = -1;
  request->max_wait_ms = limits.wait_ms;
  request->min_bytes = limits.min_bytes;
  request->max_bytes = limits.max_bytes;
  request->isolation_level = limits.isolation;
}

// One partition twice is for nobody to promise an order of.
void DropDoubles(std::vector<Wanted>* wanted) {
  for (size_t i = 0; i < wanted->size(); ++i) {
    for (size_t j = wanted->size(); j-- > i + 1;) {
      const Wanted& one = (*wanted)[i];
      const Wanted& other = (*wanted)[j];
      if (one.topic == other.topic && one.partition == other.partition) {
        wanted->erase(wanted->begin() + static_cast<std::ptrdiff_t>(j));
      }
    }
  }
}

void FetchOnce(History& history) {
  const int16_t version = history.Version(4, 18);
  std::vector<Wanted> wanted;
  const int64_t count = history.Between(1, 3);
  for (int64_t i = 0; i < count; ++i) wanted.push_back(AnyWanted(history, version));
  DropDoubles(&wanted);
  const Limits limits = AnyLimits(history);
  history.Both<FetchResponse>(version, [&](Side& side) {
    FetchRequest request;
    Put(limits, &request);
    for (const Wanted& each : wanted) Put(side, version, each, &request);
    return request;
  });
}

// A session is begun, or the one there is goes on, rightly or wrongly.
void FetchInSession(History& history) {
  const bool fresh = history.session_epoch == 0 || history.OneIn(6);
  if (fresh) {
    history.session_version = history.Version(7, 18);
    history.session_epoch = 0;
  }
  int16_t version = history.session_version;
  int32_t epoch = history.session_epoch;
  bool wrong = false;
  if (!fresh && history.OneIn(8)) {
    epoch += history.AnyOf({1, -1, 7});
    wrong = epoch != 0;
  }
  if (!fresh && history.OneIn(12)) {
    // Names where ids are expected, or ids for names.
    version = version >= kFirstWithIds ? int16_t{12} : kFirstWithIds;
  }
  const bool ends = !fresh && history.OneIn(10);
  if (ends) epoch = -1;
  std::vector<Wanted> wanted;
  const int64_t count = fresh ? history.Between(1, 3) : history.AnyOf({0, 0, 1});
  for (int64_t i = 0; i < count; ++i) wanted.push_back(AnyWanted(history, version));
  DropDoubles(&wanted);
  std::vector<std::pair<std::string, int32_t>> forgotten;
  if (!fresh && history.OneIn(5)) {
    const Wanted gone = AnyWanted(history, version);
    // To forget what the same request asks for is for nobody to promise a meaning of.
    const bool wanted_too = std::ranges::any_of(wanted, [&](const Wanted& each) {
      return each.topic == gone.topic && each.partition == gone.partition;
    });
    if (!wanted_too) forgotten.emplace_back(gone.topic, gone.partition);
  }
  const Limits limits = AnyLimits(history);
  const bool strange_session = !fresh && history.OneIn(15);
  const auto response = history.Both<FetchResponse>(version, [&](Side& side) {
    FetchRequest request;
    Put(limits, &request);
    request.session_id = fresh || side.sessions.empty() ? 0 : side.sessions.back();
    if (strange_session) request.session_id = 12345;
    request.session_epoch = epoch;
    for (const Wanted& each : wanted) Put(side, version, each, &request);
    for (const auto& [name, partition] : forgotten) {
      auto& topic = request.forgotten_topics_data.emplace_back();
      if (version >= kFirstWithIds)
        topic.topic_id = IdOf(side, name);
      else
        topic.topic = side.prefix() + name;
      topic.partitions = {partition};
    }
    return request;
  });
  if (fresh) {
    history.session_epoch = response.session_id != 0 ? 1 : 0;
  } else if (ends) {
    history.session_epoch = 0;
  } else if (!wrong && !strange_session && response.error_code == 0) {
    history.session_epoch = response.session_id != 0 ? epoch + 1 : 0;
  }
}

constexpr WeightedAction kActions[] = {
    {14, FetchOnce},
    {8, FetchInSession},
};

}  // namespace

std::span<const WeightedAction> FetchActions() { return kActions; }

// Whatever was answered on the way: in the end both hold the same.
void History::End() {
  for (size_t t = 0; t < topics.size(); ++t) {
    const std::string name = topics[t].name;
    const auto partitions = static_cast<int32_t>(topics[t].partitions.size());
    for (int32_t i = 0; i < partitions; ++i) {
      const auto listed = Both<ListOffsetsResponse>(7, [&](Side& side) {
        ListOffsetsRequest request;
        request.replica_id = -1;
        auto& topic = request.topics.emplace_back();
        topic.name = side.prefix() + name;
        auto& partition = topic.partitions.emplace_back();
        partition.partition_index = i;
        partition.timestamp = -2;
        return request;
      });
      const bool there = listed.topics.size() == 1 && listed.topics[0].partitions.size() == 1;
      const int64_t start = there ? listed.topics[0].partitions[0].offset : 0;
      Both<FetchResponse>(12, [&](Side& side) {
        FetchRequest request;
        Put(Limits{}, &request);
        Put(side, 12, {.topic = name, .partition = i, .offset = start, .max_bytes = 50 << 20},
            &request);
        request.max_bytes = 50 << 20;
        return request;
      });
    }
    Both<DescribeProducersResponse>(0, [&](Side& side) {
      DescribeProducersRequest request;
      auto& topic = request.topics.emplace_back();
      topic.name = side.prefix() + name;
      for (int32_t i = 0; i < partitions; ++i) topic.partition_indexes.push_back(i);
      return request;
    });
    Both<DescribeConfigsResponse>(4, [&](Side& side) {
      DescribeConfigsRequest request;
      request.include_synonyms = true;
      auto& resource = request.resources.emplace_back();
      resource.resource_type = 2;
      resource.resource_name = side.prefix() + name;
      resource.configuration_keys.reset();
      return request;
    });
  }
}

}  // namespace kmirror::test
