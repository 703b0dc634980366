// The rules of the write barrier, Controller, StateTopic, Peers and Runtime.
#include <gmock/gmock.h>

#include <atomic>
#include <chrono>

#include "conformance/host_conformance.h"

namespace kmirror::conformance {
namespace {

using std::chrono::milliseconds;
using testing::ElementsAre;
using testing::IsEmpty;

// ---- The write barrier

TEST_P(HostConformance, ATopicWithAMirrorStartsClosedAndOthersOpen) {
  const Uuid mirrored = MakeTopic("mirrored", "m");
  const Uuid paused = MakeTopic("paused", "m.paused");
  const Uuid stopped = MakeTopic("stopped", "m.removed");
  const Uuid plain = MakeTopic("plain", "");
  EXPECT_EQ(fixture_->Produce({mirrored, 0}, DataBatch({})).status().code(), ErrorCode::kReadOnly);
  EXPECT_EQ(fixture_->Produce({paused, 0}, DataBatch({})).status().code(), ErrorCode::kReadOnly);
  EXPECT_EQ(fixture_->Produce({stopped, 0}, DataBatch({})).status().code(),
            ErrorCode::kNotEnoughReplicas);
  const Result<int64_t> offset = fixture_->Produce({plain, 0}, DataBatch({}));
  EXPECT_TRUE(offset.ok()) << offset.status().ToString();
}

TEST_P(HostConformance, ReadOnlyIsDecidedBeforeAnythingAboutProducers) {
  MakeLog();
  const Bytes known = DataBatch({.base_offset = 0,
                                 .leader_epoch = 5,
                                 .producer_id = 77,
                                 .producer_epoch = 4,
                                 .base_sequence = 10});
  ASSERT_EQ(Append(log_, {known}).code, host::AppendCode::kOk);
  for (const BatchSpec& spec : {BatchSpec{.producer_id = 77, .producer_epoch = 1},  // fenced
                                BatchSpec{.producer_id = 77,
                                          .producer_epoch = 4,  // a duplicate
                                          .base_sequence = 10},
                                BatchSpec{.producer_id = 5, .transactional = true}}) {
    EXPECT_EQ(fixture_->Produce(partition_, DataBatch(spec)).status().code(), ErrorCode::kReadOnly);
  }
  EXPECT_EQ(log_->View().end, 1);
}

TEST_P(HostConformance, AChangeOfTheMirrorNameClosesTheBarrierBeforeItIsAcknowledged) {
  MakeLog();
  ASSERT_TRUE(SetName(topic_, "m.removed").ok());
  ASSERT_TRUE(log_->SetLocalWrites(host::LocalWrites::kAllowed, Epoch(), mirror_->version()).ok());
  ASSERT_TRUE(fixture_->Produce(partition_, DataBatch({})).ok());
  ASSERT_TRUE(SetName(topic_, "m").ok());
  EXPECT_EQ(fixture_->Produce(partition_, DataBatch({})).status().code(), ErrorCode::kReadOnly);
  ASSERT_TRUE(SetName(topic_, "m.removed").ok());
  EXPECT_EQ(fixture_->Produce(partition_, DataBatch({})).status().code(),
            ErrorCode::kNotEnoughReplicas);
  ASSERT_TRUE(SetName(topic_, std::nullopt).ok());
  const Result<int64_t> offset = fixture_->Produce(partition_, DataBatch({}));
  ASSERT_TRUE(offset.ok()) << offset.status().ToString();
  EXPECT_EQ(*offset, 1);
}

TEST_P(HostConformance, AnOrderToOpenThatANewerChangeOvertookLoses) {
  MakeLog();
  ASSERT_TRUE(SetName(topic_, "m.removed").ok());
  const int64_t decided_at = mirror_->version();
  ASSERT_TRUE(SetName(topic_, "m").ok());
  EXPECT_EQ(log_->SetLocalWrites(host::LocalWrites::kAllowed, Epoch(), decided_at).code(),
            ErrorCode::kFencedStateEpoch);
  EXPECT_EQ(fixture_->Produce(partition_, DataBatch({})).status().code(), ErrorCode::kReadOnly);
  ASSERT_TRUE(SetName(topic_, "m.removed").ok());
  EXPECT_EQ(
      log_->SetLocalWrites(host::LocalWrites::kAllowed, Epoch() - 1, mirror_->version()).code(),
      ErrorCode::kFencedLeaderEpoch);
  EXPECT_EQ(fixture_->Produce(partition_, DataBatch({})).status().code(),
            ErrorCode::kNotEnoughReplicas);
}

TEST_P(HostConformance, TheLibraryItselfAppendsBehindTheBarrier) {
  MakeLog();
  ASSERT_TRUE(SetName(topic_, "m.removed").ok());
  const Bytes open =
      DataBatch({.base_offset = 0, .leader_epoch = 5, .producer_id = 9, .transactional = true});
  ASSERT_EQ(Append(log_, {open}).code, host::AppendCode::kOk);
  const host::OpenTransaction txn = log_->OpenTransactions().at(0);
  EXPECT_TRUE(
      Call([&](host::Completion done) { log_->AppendAbort(txn, Epoch(), std::move(done)); }).ok());
  EXPECT_TRUE(
      Call([&](host::Completion done) { log_->AppendReset(Epoch(), std::move(done)); }).ok());
  EXPECT_EQ(log_->View().end, 3);
}

// ---- Controller

TEST_P(HostConformance, ANewTopicAppearsWholeInOneDeltaBeforeTheAnswer) {
  const Uuid id = MakeTopic("orders", "m", 3);
  const std::optional<host::TopicInfo> topic = mirror_->Topic(id);
  ASSERT_TRUE(topic);
  EXPECT_EQ(topic->name, "orders");
  ASSERT_EQ(topic->partitions.size(), 3u);
  EXPECT_EQ(topic->partitions[2].leader, mirror_->this_broker());
  EXPECT_EQ(topic->configs.at("mirror.name"), "m");
}

TEST_P(HostConformance, ANameOrAnIdThatIsTakenIsRefused) {
  const Uuid id = MakeTopic("orders");
  const size_t deltas = mirror_->deltas();
  host::NewTopic same_name{.name = "orders", .id = {}, .partitions = 1, .configs = {}};
  host::NewTopic same_id{.name = "other", .id = id, .partitions = 1, .configs = {}};
  for (const host::NewTopic& topic : {same_name, same_id}) {
    EXPECT_EQ(Call([&](host::Completion done) {
                host_.controller->CreateTopic(topic, std::move(done));
              }).code(),
              ErrorCode::kTopicAlreadyExists)
        << topic.name;
  }
  EXPECT_EQ(mirror_->deltas(), deltas);
}

TEST_P(HostConformance, WithoutAnIdOneIsChosen) {
  ASSERT_TRUE(Call([&](host::Completion done) {
                host_.controller->CreateTopic({.name = "t", .partitions = 1}, std::move(done));
              }).ok());
  const std::optional<host::TopicInfo> topic = mirror_->TopicNamed("t");
  ASSERT_TRUE(topic);
  EXPECT_FALSE(topic->id.IsZero());
}

TEST_P(HostConformance, PartitionsAreAddedAndStartClosedLikeTheFirst) {
  const Uuid id = MakeTopic("orders");
  ASSERT_TRUE(Call([&](host::Completion done) {
                host_.controller->CreatePartitions(id, 3, std::move(done));
              }).ok());
  ASSERT_EQ(mirror_->Topic(id)->partitions.size(), 3u);
  EXPECT_NE(LogOf({id, 2}), nullptr);
  EXPECT_EQ(fixture_->Produce({id, 2}, DataBatch({})).status().code(), ErrorCode::kReadOnly);
  for (const int32_t count : {3, 1, 0}) {
    EXPECT_EQ(Call([&](host::Completion done) {
                host_.controller->CreatePartitions(id, count, std::move(done));
              }).code(),
              ErrorCode::kInvalidPartitions)
        << count;
  }
}

TEST_P(HostConformance, MirrorNamesChangeTogetherOrNotAtAll) {
  const Uuid a = MakeTopic("a");
  const Uuid b = MakeTopic("b");
  const size_t deltas = mirror_->deltas();
  Uuid nobody;
  nobody.bytes[3] = 9;
  EXPECT_FALSE(Call([&](host::Completion done) {
                 host_.controller->SetMirrorNames({{a, "m.paused"}, {nobody, "m.paused"}}, -1,
                                                  std::move(done));
               }).ok());
  EXPECT_EQ(mirror_->Topic(a)->configs.at("mirror.name"), "m");
  EXPECT_EQ(mirror_->deltas(), deltas);
  ASSERT_TRUE(Call([&](host::Completion done) {
                host_.controller->SetMirrorNames({{a, "m.paused"}, {b, "m.removed"}}, -1,
                                                 std::move(done));
              }).ok());
  EXPECT_EQ(mirror_->deltas(), deltas + 1);
  EXPECT_EQ(mirror_->last_delta().changed_topics.size(), 2u);
  EXPECT_EQ(mirror_->Topic(a)->configs.at("mirror.name"), "m.paused");
  EXPECT_EQ(mirror_->Topic(b)->configs.at("mirror.name"), "m.removed");
}

TEST_P(HostConformance, ANameThatChangedAfterTheExpectedVersionIsNotOverwritten) {
  const Uuid a = MakeTopic("a");
  const Uuid b = MakeTopic("b");
  const int64_t seen = mirror_->version();
  ASSERT_TRUE(SetName(a, "m.paused", seen).ok());
  EXPECT_EQ(SetName(a, "m.removed", seen).code(), ErrorCode::kInvalidClusterMirrorState);
  EXPECT_EQ(mirror_->Topic(a)->configs.at("mirror.name"), "m.paused");
  // Another topic's change, or one of something else, does not count.
  EXPECT_TRUE(SetName(b, "m.removed", seen).ok());
  EXPECT_TRUE(SetName(a, "m.removed", mirror_->version()).ok());
  EXPECT_EQ(Call([&](host::Completion done) {
              host_.controller->SetMirrorNames({{a, "m"}, {b, "m"}}, seen, std::move(done));
            }).code(),
            ErrorCode::kInvalidClusterMirrorState);
}

TEST_P(HostConformance, MirrorConfigsAreSetAndRemovedKeyByKey) {
  using Changes = std::map<std::string, std::optional<std::string>>;
  auto set = [&](const Changes& changes, bool create) {
    return Call([&](host::Completion done) {
             host_.controller->SetMirrorConfigs("m", changes, create, std::move(done));
           })
        .code();
  };
  EXPECT_EQ(set({{"bootstrap.servers", "a:1"}}, false), ErrorCode::kUnknownClusterMirror);
  EXPECT_EQ(set({{"bootstrap.servers", "a:1"}, {"source.gap", "fail"}}, true), ErrorCode::kNone);
  EXPECT_EQ(set({{"bootstrap.servers", "b:1"}}, true), ErrorCode::kClusterMirrorAlreadyExists);
  EXPECT_EQ(set({{"source.gap", std::nullopt}, {"stop.uncommitted", "abort"}}, false),
            ErrorCode::kNone);
  const std::optional<host::MirrorInfo> mirror = mirror_->MirrorNamed("m");
  ASSERT_TRUE(mirror);
  EXPECT_EQ(mirror->configs, (std::map<std::string, std::string>{{"bootstrap.servers", "a:1"},
                                                                 {"stop.uncommitted", "abort"}}));
}

TEST_P(HostConformance, DeletingAMirrorUnlinksItsTopicsInTheSameStep) {
  for (const char* name : {"m", "mm"}) {
    ASSERT_TRUE(Call([&](host::Completion done) {
                  host_.controller->SetMirrorConfigs(name, {{"bootstrap.servers", "a:1"}}, true,
                                                     std::move(done));
                }).ok());
  }
  const Uuid stopped = MakeTopic("stopped", "m.removed");
  const Uuid active = MakeTopic("active", "m");
  const Uuid other = MakeTopic("other", "mm.removed");
  const size_t deltas = mirror_->deltas();
  const int64_t seen = mirror_->version();
  ASSERT_TRUE(Call([&](host::Completion done) {
                host_.controller->DeleteMirror("m", seen, std::move(done));
              }).ok());
  EXPECT_EQ(mirror_->deltas(), deltas + 1);
  EXPECT_FALSE(mirror_->MirrorNamed("m"));
  EXPECT_TRUE(mirror_->MirrorNamed("mm"));
  EXPECT_FALSE(mirror_->Topic(stopped)->configs.contains("mirror.name"));
  EXPECT_FALSE(mirror_->Topic(active)->configs.contains("mirror.name"));
  EXPECT_EQ(mirror_->Topic(other)->configs.at("mirror.name"), "mm.removed");
  EXPECT_TRUE(fixture_->Produce({stopped, 0}, DataBatch({})).ok());
  EXPECT_EQ(Call([&](host::Completion done) {
              host_.controller->DeleteMirror("m", -1, std::move(done));
            }).code(),
            ErrorCode::kUnknownClusterMirror);
}

TEST_P(HostConformance, AnEpochAtOrBelowTheMinimumBecomesTheNextAndAGreaterOneStays) {
  const Uuid id = MakeTopic("t");
  const TopicIdPartition partition{id, 0};
  auto epoch = [&] { return mirror_->Topic(id)->partitions[0].leader_epoch; };
  auto bump = [&](int32_t minimum) {
    return Call([&](host::Completion done) {
             host_.controller->BumpLeaderEpochs({{partition, minimum}}, std::move(done));
           })
        .code();
  };
  const int32_t start = epoch();
  EXPECT_EQ(bump(start + 12), ErrorCode::kNone);
  ASSERT_TRUE(fixture_->WaitFor([&] { return epoch() == start + 13; }));
  EXPECT_EQ(bump(start + 13), ErrorCode::kNone);
  ASSERT_TRUE(fixture_->WaitFor([&] { return epoch() == start + 14; }));
  EXPECT_EQ(bump(start + 5), ErrorCode::kNone);
  EXPECT_EQ(epoch(), start + 14);
  const auto log = LogOf(partition);
  ASSERT_TRUE(fixture_->WaitFor([&] { return log->View().leader_epoch == start + 14; }));
  OwnedSet old({DataBatch({.base_offset = 0})}, 0, start + 13);
  EXPECT_EQ(AppendSet(log, old.get()).code, host::AppendCode::kFenced);
  EXPECT_NE(Call([&](host::Completion done) {
              host_.controller->BumpLeaderEpochs({{{id, 99}, 5}}, std::move(done));
            }).code(),
            ErrorCode::kNone);
}

TEST_P(HostConformance, ProducerIdsSeenInOurRangeAreNeverGivenOutAndOthersCannotExhaustIt) {
  const std::optional<int64_t> first = fixture_->NextProducerId();
  if (!first) return;  // this host does not tell
  auto raise = [&](int64_t seen) {
    return Call([&](host::Completion done) {
             host_.controller->RaiseProducerIdFloor(seen, std::move(done));
           })
        .code();
  };
  EXPECT_EQ(raise(*first + 700), ErrorCode::kNone);
  const std::optional<int64_t> next = fixture_->NextProducerId();
  ASSERT_TRUE(next);
  EXPECT_GT(*next, *first + 700);
  EXPECT_EQ(raise(*first), ErrorCode::kNone);
  EXPECT_EQ(raise(INT64_MAX), ErrorCode::kNone);
  const std::optional<int64_t> last = fixture_->NextProducerId();
  ASSERT_TRUE(last);
  EXPECT_GE(*last, *next);
  EXPECT_LT(*last, *next + 100'000);
}

TEST_P(HostConformance, MetadataOutlivesAKill) {
  MakeLog();
  ASSERT_TRUE(Call([&](host::Completion done) {
                host_.controller->SetMirrorConfigs("m", {{"bootstrap.servers", "a:1"}}, true,
                                                   std::move(done));
              }).ok());
  ASSERT_TRUE(SetName(topic_, "m.removed").ok());
  const int32_t epoch = Epoch();
  const int64_t version = mirror_->version();
  if (!RestartHost()) return;  // this host cannot be killed in process
  ASSERT_TRUE(mirror_->Topic(topic_));
  EXPECT_EQ(mirror_->Topic(topic_)->configs.at("mirror.name"), "m.removed");
  EXPECT_GE(mirror_->Topic(topic_)->partitions[0].leader_epoch, epoch);
  EXPECT_GE(mirror_->version(), version);
  ASSERT_TRUE(mirror_->MirrorNamed("m"));
  EXPECT_EQ(mirror_->MirrorNamed("m")->configs.at("bootstrap.servers"), "a:1");
  EXPECT_EQ(fixture_->Produce(partition_, DataBatch({})).status().code(),
            ErrorCode::kNotEnoughReplicas);
}

// ---- State topic

class Shard {
 public:
  void Add(ByteView key, std::optional<ByteView> value) {
    const std::lock_guard lock(mutex_);
    text_.push_back(std::string(key.begin(), key.end()) + "=" +
                    (value ? std::string(value->begin(), value->end()) : "(gone)"));
  }
  std::vector<std::string> text() const {
    const std::lock_guard lock(mutex_);
    return text_;
  }

 private:
  mutable std::mutex mutex_;
  std::vector<std::string> text_;
};

Bytes Text(std::string_view text) { return {text.begin(), text.end()}; }

TEST_P(HostConformance, StateRecordsComeBackInOrderFromTheirOwnShardAndOutliveAKill) {
  host::StateTopic* states = host_.state_topic;
  const int32_t shards = states->partition_count();
  ASSERT_GT(shards, 1);
  ASSERT_TRUE(Call([&](host::Completion done) { states->Ensure(std::move(done)); }).ok());
  ASSERT_TRUE(Call([&](host::Completion done) { states->Ensure(std::move(done)); }).ok());
  ASSERT_TRUE(
      fixture_->WaitFor([&] { return static_cast<int32_t>(mirror_->shards().size()) == shards; }));
  const int32_t shard = shards - 1;
  auto append = [&](int32_t to, std::vector<host::StateRecord> records) {
    return Call([&](host::Completion done) {
             host_.state_topic->Append(to, std::move(records), std::move(done));
           })
        .code();
  };
  auto replay = [&](int32_t from) {
    auto read = std::make_shared<Shard>();
    const Status status = Call([&](host::Completion done) {
      host_.state_topic->Replay(
          from, [read](ByteView key, std::optional<ByteView> value) { read->Add(key, value); },
          std::move(done));
    });
    EXPECT_TRUE(status.ok()) << status.ToString();
    return read->text();
  };
  EXPECT_THAT(replay(shard), IsEmpty());
  ASSERT_EQ(append(shard, {{Text("a"), Text("1")}, {Text("b"), Text("2")}}), ErrorCode::kNone);
  ASSERT_EQ(append(shard, {{Text("a"), std::nullopt}}), ErrorCode::kNone);
  ASSERT_EQ(append(shard, {{Text("c"), Text("")}}), ErrorCode::kNone);
  ASSERT_EQ(append(0, {{Text("x"), Text("9")}}), ErrorCode::kNone);
  EXPECT_THAT(replay(shard), ElementsAre("a=1", "b=2", "a=(gone)", "c="));
  EXPECT_THAT(replay(0), ElementsAre("x=9"));

  if (!RestartHost()) return;  // this host cannot be killed in process
  ASSERT_TRUE(
      fixture_->WaitFor([&] { return static_cast<int32_t>(mirror_->shards().size()) == shards; }));
  EXPECT_THAT(replay(shard), ElementsAre("a=1", "b=2", "a=(gone)", "c="));
  ASSERT_EQ(append(shard, {{Text("d"), Text("4")}}), ErrorCode::kNone);
  EXPECT_EQ(replay(shard).back(), "d=4");
}

// ---- Peers

TEST_P(HostConformance, ARequestToThisVeryBrokerComesBackThroughTheSamePath) {
  struct Answered {
    std::mutex mutex;
    std::optional<Result<std::vector<uint8_t>>> answer;
  };
  auto send = [&](int32_t broker) {
    auto state = std::make_shared<Answered>();
    host_.peers->Send(broker, 100, 0, {1, 2, 3}, [state](Result<std::vector<uint8_t>> answer) {
      const std::lock_guard lock(state->mutex);
      state->answer = std::move(answer);
    });
    EXPECT_TRUE(fixture_->WaitFor([&] {
      const std::lock_guard lock(state->mutex);
      return state->answer.has_value();
    }));
    const std::lock_guard lock(state->mutex);
    return state->answer.value_or(Status(ErrorCode::kTimedOut, "no answer"));
  };
  const Result<std::vector<uint8_t>> self = send(mirror_->this_broker());
  ASSERT_TRUE(self.ok()) << self.status().ToString();
  EXPECT_THAT(self.value(), ElementsAre(3, 2, 1));
  EXPECT_EQ(mirror_->requests(), 1);
  EXPECT_FALSE(send(mirror_->this_broker() + 1000).ok());
}

// ---- Runtime

TEST_P(HostConformance, TasksOfALaneRunInOrderOneAtATimeAndNeverInline) {
  struct Seen {
    std::mutex mutex;
    std::vector<int> order;
    std::atomic<int> inside{0};
    std::atomic<bool> overlapped{false};
    std::atomic<bool> elsewhere{false};
  };
  Seen seen;
  std::unique_ptr<host::Lane> lane = host_.runtime->NewLane("conformance");
  {
    const std::lock_guard lock(seen.mutex);  // a task run inline would deadlock here
    for (int i = 0; i < 200; ++i) {
      lane->Post([&seen, i, lane = lane.get()] {
        if (seen.inside.fetch_add(1) != 0) seen.overlapped = true;
        if (!lane->InLane()) seen.elsewhere = true;
        {
          const std::lock_guard inner(seen.mutex);
          seen.order.push_back(i);
        }
        seen.inside.fetch_sub(1);
      });
    }
    EXPECT_TRUE(seen.order.empty());
  }
  ASSERT_TRUE(fixture_->WaitFor([&] {
    const std::lock_guard lock(seen.mutex);
    return seen.order.size() == 200;
  }));
  EXPECT_TRUE(std::is_sorted(seen.order.begin(), seen.order.end()));
  EXPECT_FALSE(seen.overlapped);
  EXPECT_FALSE(seen.elsewhere);
}

TEST_P(HostConformance, TimersAreNeverEarlyAndACancelledOneDoesNotRun) {
  std::unique_ptr<host::Lane> lane = host_.runtime->NewLane("conformance");
  std::atomic<int64_t> late_by{INT64_MIN};
  std::atomic<bool> cancelled_ran{false};
  const auto start = host_.runtime->MonotonicNow();
  lane->Post([&] {
    const host::Lane::TimerId timer =
        lane->RunAfter(milliseconds(5), [&] { cancelled_ran = true; });
    EXPECT_NE(timer, 0u);
    lane->Cancel(timer);
    lane->RunAfter(milliseconds(20), [&] {
      late_by = (host_.runtime->MonotonicNow() - start - milliseconds(20)).count();
    });
  });
  auto fired = [&] { return late_by.load() != INT64_MIN; };
  ASSERT_TRUE(fixture_->WaitFor(fired));
  EXPECT_GE(late_by.load(), 0);
  EXPECT_FALSE(cancelled_ran);
}

TEST_P(HostConformance, NothingOfADestroyedLaneRuns) {
  std::atomic<int> ran{0};
  std::unique_ptr<host::Lane> lane = host_.runtime->NewLane("conformance");
  std::unique_ptr<host::Lane> other = host_.runtime->NewLane("conformance-2");
  lane->RunAfter(milliseconds(1), [&] { ++ran; });
  lane.reset();
  const int before = ran.load();
  std::atomic<bool> later{false};
  other->RunAfter(milliseconds(30), [&] { later = true; });
  ASSERT_TRUE(fixture_->WaitFor([&] { return later.load(); }));
  EXPECT_EQ(ran.load(), before);
}

}  // namespace
}  // namespace kmirror::conformance
