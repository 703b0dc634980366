// Records in, and what tells of them besides Fetch: offsets, epochs, producers.
#include <algorithm>

#include "messages/describe_producers.h"
#include "messages/init_producer_id.h"
#include "messages/list_offsets.h"
#include "messages/offset_for_leader_epoch.h"
#include "messages/produce.h"
#include "tests/differential/history.h"

namespace kmirror::test {
namespace {

using namespace protocol;  // NOLINT: the messages, all of them

constexpr int64_t kFirstTimestamp = 1700000000000;

// A partition of a topic, or one that is not there.
struct Place {
  std::string topic;
  int32_t partition = 0;
  TopicView::Partition view;
  bool known = false;
};

Place AnyPlace(History& history) {
  Place place;
  const TopicView* topic = history.AnyTopic();
  if (topic == nullptr || history.OneIn(15)) {
    place.topic = history.UnknownTopic();
    return place;
  }
  place.topic = topic->name;
  const auto count = static_cast<int64_t>(topic->partitions.size());
  place.partition = static_cast<int32_t>(history.OneIn(15) ? history.AnyOf({count, int64_t{-1}})
                                                           : history.Between(0, count - 1));
  if (place.partition >= 0 && place.partition < count) {
    place.view = topic->partitions[static_cast<size_t>(place.partition)];
    place.known = true;
  }
  return place;
}

// One batch on its way; `producer` is an index into Side::producers.
struct Sending {
  Place place;
  BatchPlan plan;
  std::optional<size_t> producer;
  bool empty_records = false;

  // Before version 7 Kafka falls over an unknown codec as a whole.
  int16_t FirstVersion() const { return plan.oddity == Oddity::kUnknownCodec ? 7 : 3; }

  std::vector<uint8_t> Bytes(const Side& side) const {
    BatchPlan mine = plan;
    if (producer) mine.producer_id = side.producers.at(*producer).first;
    return MakeBatch(mine);
  }
};

BatchPlan AnyPlan(History& history) {
  BatchPlan plan;
  plan.count = static_cast<int>(history.AnyOf<int64_t>({1, 1, 2, 3, history.Between(4, 30)}));
  plan.value_bytes = static_cast<size_t>(history.AnyOf<int64_t>({0, 8, 8, 100, 500}));
  plan.timestamp_ms = kFirstTimestamp + history.Between(0, 1000) * 1000;
  plan.timestamp_step_ms = history.AnyOf<int64_t>({1, 0, -1, 100});
  plan.keys = !history.OneIn(5);
  if (history.OneIn(3)) {
    plan.codec = history.AnyOf({log::Compression::kGzip, log::Compression::kSnappy,
                                log::Compression::kLz4, log::Compression::kZstd});
    plan.keys = true;  // a compacted topic needs them, and kmirrord does not look
  }
  if (history.OneIn(30)) plan.value_bytes = 1100000;  // more than max.message.bytes
  if (plan.value_bytes > 1000) {
    plan.count = 1;
    plan.codec = log::Compression::kNone;
  }
  return plan;
}

void MakeOdd(History& history, BatchPlan* plan) {
  plan->oddity = static_cast<Oddity>(history.Between(1, static_cast<int64_t>(Oddity::kLast)));
  // These Kafka takes or unpacks: deviation_actions.cc.
  if (plan->oddity == Oddity::kGarbageCompressed || plan->oddity == Oddity::kOffsetDeltasWrong ||
      plan->oddity == Oddity::kLogAppendTime) {
    plan->oddity = Oddity::kWrongChecksum;
  }
  const bool plain = plan->oddity == Oddity::kRecordDamaged ||
                     plan->oddity == Oddity::kUnknownCodec ||
                     plan->oddity == Oddity::kBytesAfterRecords;
  // Inside of what is compressed kmirrord does not look: deviation_actions.cc.
  plan->codec = log::Compression::kNone;
  if (plain) {
    plan->timestamp_step_ms = 1;
    plan->value_bytes = 8;
    plan->count = std::max(plan->count, 2);
  }
  if (plan->value_bytes > 1000) plan->value_bytes = 8;
}

std::string NoteOf(const Sending& sending) {
  const BatchPlan& plan = sending.plan;
  std::string note = std::string(NameOf(plan.oddity)) + ", " + std::to_string(plan.count) +
                     " records, codec " + std::to_string(static_cast<int>(plan.codec)) +
                     (plan.keys ? "" : ", no keys");
  if (sending.producer) {
    note += ", producer " + std::to_string(*sending.producer) + " epoch " +
            std::to_string(plan.producer_epoch) + " sequence " + std::to_string(plan.base_sequence);
  }
  return note;
}

ProduceRequest RequestOf(const Side& side, int16_t version, int16_t acks, const Sending& sending,
                         const std::vector<uint8_t>& bytes, const Uuid& id) {
  ProduceRequest request;
  request.acks = acks;
  request.timeout_ms = 10000;
  auto& topic = request.topic_data.emplace_back();
  if (version >= 13)
    topic.topic_id = id;
  else
    topic.name = side.prefix() + sending.place.topic;
  auto& partition = topic.partition_data.emplace_back();
  partition.index = sending.place.partition;
  partition.records = RecordsView(ByteView(bytes));
  return request;
}

Uuid IdFor(Side& side, const Sending& sending) {
  Uuid id = side.TopicId(sending.place.topic);
  if (id.IsZero()) id.bytes = {1, 2, 3, 4};
  return id;
}

// Sends and notes where the records went; false when they were refused.
bool Send(History& history, const Sending& sending, int16_t version, int16_t acks) {
  const std::vector<uint8_t> theirs =
      sending.empty_records ? std::vector<uint8_t>() : sending.Bytes(history.kafka);
  const std::vector<uint8_t> mine =
      sending.empty_records ? std::vector<uint8_t>() : sending.Bytes(history.ours);
  const auto response = history.Both<ProduceResponse>(
      version,
      [&](Side& side) {
        const bool is_kafka = &side == &history.kafka;
        return RequestOf(side, version, acks, sending, is_kafka ? theirs : mine,
                         version >= 13 ? IdFor(side, sending) : Uuid{});
      },
      {.note = NoteOf(sending), .wants_answer = acks != 0});
  TopicView* topic = history.Find(sending.place.topic);
  if (topic == nullptr || !sending.place.known) return false;
  TopicView::Partition& view = topic->partitions[static_cast<size_t>(sending.place.partition)];
  if (acks == 0) {
    // Nobody said where it went; the next ListOffsets of the end action does.
    ListOffsetsRequest request;
    request.replica_id = -1;
    auto& wanted = request.topics.emplace_back();
    wanted.name = history.kafka.prefix() + sending.place.topic;
    auto& partition = wanted.partitions.emplace_back();
    partition.partition_index = sending.place.partition;
    partition.timestamp = -1;
    const auto listed = history.kafka.Call<ListOffsetsResponse>(request, 5);
    if (!listed.ok()) return false;
    const int64_t end = listed->topics.at(0).partitions.at(0).offset;
    const bool grown = end > view.end;
    view.end = std::max(end, view.end);
    return grown;
  }
  if (response.responses.size() != 1 || response.responses[0].partition_responses.size() != 1) {
    return false;
  }
  const auto& answer = response.responses[0].partition_responses[0];
  if (answer.error_code != 0) return false;
  view.end = std::max(view.end, answer.base_offset + sending.plan.count);
  return true;
}

int16_t AnyAcks(History& history) { return history.AnyOf<int16_t>({1, 1, -1, -1, -1, 0, 2, -2}); }

void ProduceSome(History& history) {
  const int64_t times = history.Between(1, 3);
  for (int64_t i = 0; i < times; ++i) {
    Sending sending;
    sending.place = AnyPlace(history);
    sending.plan = AnyPlan(history);
    if (history.OneIn(4)) MakeOdd(history, &sending.plan);
    sending.empty_records = history.OneIn(40);
    // Without records and without acks Kafka goes silent; with null for records it always does.
    Send(history, sending, history.Version(sending.FirstVersion(), 13),
         sending.empty_records ? int16_t{1} : AnyAcks(history));
  }
}

// A producer with an id, mostly well-behaved.
void ProduceInSequence(History& history) {
  if (history.kafka.producers.empty()) return;
  const auto producer = static_cast<size_t>(
      history.Between(0, static_cast<int64_t>(history.kafka.producers.size()) - 1));
  const Place place = AnyPlace(history);
  const int64_t times = history.Between(1, 4);
  for (int64_t i = 0; i < times; ++i) {
    SequenceView& view = history.sequences[{place.topic, place.partition, producer}];
    Sending sending;
    sending.place = place;
    sending.producer = producer;
    sending.plan = AnyPlan(history);
    sending.plan.producer_epoch = view.epoch;
    sending.plan.base_sequence = view.next;
    bool fresh = true;
    switch (history.Between(0, 14)) {
      case 0:
      case 1:
        if (view.sent.empty()) break;
        sending.plan = history.AnyOf(view.sent);  // again; perhaps from long ago
        fresh = false;
        break;
      case 2: sending.plan.base_sequence += history.AnyOf({1, 5, -1, 1000}); break;
      case 3:
        sending.plan.producer_epoch = static_cast<int16_t>(view.epoch + 1);
        sending.plan.base_sequence = 0;
        break;
      case 4:
        sending.plan.producer_epoch = static_cast<int16_t>(view.epoch + 1);
        sending.plan.base_sequence = 3;
        break;
      case 5:
        if (view.epoch > 0) --sending.plan.producer_epoch;
        break;
      case 6: sending.plan.base_sequence = history.AnyOf({-1, INT32_MAX}); break;
      case 7: MakeOdd(history, &sending.plan); break;
      default: break;
    }
    const bool taken = Send(history, sending, history.Version(sending.FirstVersion(), 13),
                            history.AnyOf<int16_t>({1, -1, -1}));
    if (!taken || !fresh) continue;
    SequenceView& after = history.sequences[{place.topic, place.partition, producer}];
    if (after.epoch != sending.plan.producer_epoch) after.sent.clear();
    after.epoch = sending.plan.producer_epoch;
    after.next = static_cast<int32_t>((int64_t{sending.plan.base_sequence} + sending.plan.count) &
                                      0x7fffffff);
    after.sent.push_back(sending.plan);
    if (after.sent.size() > 7) after.sent.erase(after.sent.begin());
  }
}

void InitProducer(History& history) {
  const int16_t version = history.Version(0, 5);
  InitProducerIdRequest request;
  request.transactional_id.reset();
  request.transaction_timeout_ms = history.AnyOf({60000, 60000, 0, -1});
  if (version >= 3 && history.OneIn(4)) {
    request.producer_id = history.AnyOf<int64_t>({-1, 5});
    request.producer_epoch = history.AnyOf<int16_t>({-1, 3});
  }
  if (history.OneIn(12)) request.transactional_id = "";
  history.Both<InitProducerIdResponse>(version, [&](Side&) { return request; });
}

// Both sides get a producer of their own.
void NewProducer(History& history) {
  if (history.kafka.producers.size() >= 4) return InitProducer(history);
  InitProducerIdRequest request;
  request.transactional_id.reset();
  request.transaction_timeout_ms = 60000;
  for (Side* side : {&history.kafka, &history.ours}) {
    const auto response = side->Call<InitProducerIdResponse>(request, 4);
    history.Must(response.status(), "producer id");
    if (!response.ok()) return;
    history.Must(response->error_code == 0
                     ? Status()
                     : Status(ErrorCode::kUnknownServerError,
                              side->name() + " code " + std::to_string(response->error_code)),
                 "producer id");
    side->producers.emplace_back(response->producer_id, response->producer_epoch);
  }
}

void ListSomeOffsets(History& history) {
  struct Wanted {
    Place place;
    int64_t timestamp;
    int32_t epoch;
  };
  std::vector<Wanted> wanted;
  const int64_t count = history.Between(1, 4);
  for (int64_t i = 0; i < count; ++i) {
    wanted.push_back(
        {AnyPlace(history),
         history.AnyOf<int64_t>({-1, -1, -2, -2, -3, -3, -4, -5, -6, -7, -100, 0,
                                 kFirstTimestamp + history.Between(-10, 1001000),
                                 kFirstTimestamp + history.Between(0, 1000) * 1000, INT64_MAX}),
         history.AnyOf({-1, -1, -1, 0, 7, -5})});
  }
  if (history.OneIn(20)) wanted.push_back(wanted.front());
  const int16_t version = history.Version(1, 11);
  const auto isolation = static_cast<int8_t>(history.Between(0, 1));
  const int32_t replica = history.AnyOf({-1, -1, -1, -1, -1, -2});
  history.Both<ListOffsetsResponse>(version, [&](Side& side) {
    ListOffsetsRequest request;
    request.replica_id = replica;
    if (version >= 2) request.isolation_level = isolation;
    for (const Wanted& each : wanted) {
      auto& topic = History::TopicOf(request.topics, &ListOffsetsRequest::ListOffsetsTopic::name,
                                     side.prefix() + each.place.topic);
      auto& partition = topic.partitions.emplace_back();
      partition.partition_index = each.place.partition;
      partition.timestamp = each.timestamp;
      partition.current_leader_epoch = each.epoch;
    }
    return request;
  });
}

void AskEpochs(History& history) {
  struct Wanted {
    Place place;
    int32_t current;
    int32_t epoch;
  };
  std::vector<Wanted> wanted;
  const int64_t count = history.Between(1, 3);
  for (int64_t i = 0; i < count; ++i) {
    wanted.push_back(
        {AnyPlace(history), history.AnyOf({-1, -1, 0, 7, -5}), history.AnyOf({0, 0, 1, 7, -1})});
  }
  const int16_t version = history.Version(2, 4);
  const int32_t replica = history.AnyOf({-1, -2});
  history.Both<OffsetForLeaderEpochResponse>(version, [&](Side& side) {
    OffsetForLeaderEpochRequest request;
    if (version >= 3) request.replica_id = replica;
    for (const Wanted& each : wanted) {
      auto& topic = History::TopicOf(request.topics,
                                     &OffsetForLeaderEpochRequest::OffsetForLeaderTopic::topic,
                                     side.prefix() + each.place.topic);
      auto& partition = topic.partitions.emplace_back();
      partition.partition = each.place.partition;
      partition.current_leader_epoch = each.current;
      partition.leader_epoch = each.epoch;
    }
    return request;
  });
}

void DescribeSomeProducers(History& history) {
  std::vector<Place> wanted;
  const int64_t count = history.Between(1, 3);
  for (int64_t i = 0; i < count; ++i) wanted.push_back(AnyPlace(history));
  history.Both<DescribeProducersResponse>(0, [&](Side& side) {
    DescribeProducersRequest request;
    for (const Place& each : wanted) {
      auto& topic = History::TopicOf(request.topics, &DescribeProducersRequest::TopicRequest::name,
                                     side.prefix() + each.topic);
      topic.partition_indexes.push_back(each.partition);
    }
    return request;
  });
}

constexpr WeightedAction kActions[] = {
    {14, ProduceSome},     {3, NewProducer}, {10, ProduceInSequence},    {1, InitProducer},
    {10, ListSomeOffsets}, {4, AskEpochs},   {3, DescribeSomeProducers},
};

}  // namespace

std::span<const WeightedAction> DataActions() { return kActions; }

}  // namespace kmirror::test
