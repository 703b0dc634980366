#include "conformance/memory_host/memory_host.h"

#include <algorithm>
#include <utility>

namespace kmirror::conformance {

// ---- State topic

MemoryStateTopic::MemoryStateTopic(host::Lane* lane, bool inline_answers,
                                   MemoryController* controller, int32_t partitions)
    : controller_(controller),
      script_(lane, inline_answers),
      shards_(static_cast<size_t>(partitions)) {
  for (int32_t shard = 0; shard < partitions; ++shard) led_.insert(shard);
}

void MemoryStateTopic::Listen(Listener listener) {
  listener_ = std::move(listener);
  if (!exists_ || !listener_.gained) return;
  for (const int32_t shard : std::set<int32_t>(led_)) listener_.gained(shard);
}

void MemoryStateTopic::Ensure(host::Completion done) {
  auto body = [this](host::Completion answer) {
    if (!exists_) {
      host::NewTopic topic;
      topic.name = kTopicName;
      topic.partitions = partition_count();
      topic.configs = {{"cleanup.policy", "compact"}};
      if (Status status = controller_->CreateTopicNow(std::move(topic)); !status.ok()) {
        return answer(std::move(status));
      }
      exists_ = true;
      if (listener_.gained) {
        for (const int32_t shard : std::set<int32_t>(led_)) listener_.gained(shard);
      }
    }
    answer(Status::Ok());
  };
  script_.Run(kEnsure, {}, std::move(body), std::move(done));
}

void MemoryStateTopic::Append(int32_t shard, std::vector<host::StateRecord> records,
                              host::Completion done) {
  if (++in_flight_[shard] > 1) {
    violations_.push_back("two appends in flight on shard " + std::to_string(shard));
  }
  auto finished = [this, shard, done = std::move(done)](Status status) {
    --in_flight_[shard];
    done(std::move(status));
  };
  auto body = [this, shard, records = std::move(records)](host::Completion answer) {
    if (!exists_ || !led_.contains(shard)) {
      return answer({ErrorCode::kNotCoordinator, "shard " + std::to_string(shard)});
    }
    std::vector<host::StateRecord>& kept = shards_[static_cast<size_t>(shard)];
    kept.insert(kept.end(), records.begin(), records.end());
    ++appends_;
    answer(Status::Ok());
  };
  script_.Run(kAppend, std::to_string(shard), std::move(body), std::move(finished));
}

void MemoryStateTopic::Replay(int32_t shard, EachRecord each, host::Completion done) {
  // A body that was replaced by kRefuse still must not call `each`; one that loses its answer may.
  auto body = [this, shard, each = std::move(each)](host::Completion answer) {
    if (!exists_ || !led_.contains(shard)) {
      return answer({ErrorCode::kNotCoordinator, "shard " + std::to_string(shard)});
    }
    const std::vector<host::StateRecord> records = shards_[static_cast<size_t>(shard)];
    for (const host::StateRecord& record : records) {
      std::optional<ByteView> value;
      if (record.value) value = ByteView(*record.value);
      each(ByteView(record.key), value);
    }
    answer(Status::Ok());
  };
  script_.Run(kReplay, std::to_string(shard), std::move(body), std::move(done));
}

void MemoryStateTopic::Gain(int32_t shard) {
  led_.insert(shard);
  if (exists_ && listener_.gained) listener_.gained(shard);
}

void MemoryStateTopic::Lose(int32_t shard) {
  led_.erase(shard);
  if (exists_ && listener_.lost) listener_.lost(shard);
}

void MemoryStateTopic::Compact(int32_t shard) {
  std::vector<host::StateRecord>& records = shards_.at(static_cast<size_t>(shard));
  std::vector<host::StateRecord> kept;
  for (size_t i = 0; i < records.size(); ++i) {
    const bool newer =
        std::any_of(records.begin() + static_cast<std::ptrdiff_t>(i) + 1, records.end(),
                    [&](const host::StateRecord& later) { return later.key == records[i].key; });
    if (!newer) kept.push_back(records[i]);
  }
  records = std::move(kept);
}

void MemoryStateTopic::LoseTail(int32_t shard, size_t count) {
  std::vector<host::StateRecord>& records = shards_.at(static_cast<size_t>(shard));
  if (records.size() > count) records.resize(count);
}

void MemoryStateTopic::DropPending() {
  script_.Drop();
  in_flight_.clear();
}

// ---- Peers

void MemoryPeers::SetHandler(int32_t broker, Handler handler) {
  handlers_[broker] = std::make_shared<Handler>(std::move(handler));
}

void MemoryPeers::Send(int32_t broker, int16_t api_key, int16_t version, std::vector<uint8_t> body,
                       Answer answer) {
  auto response = std::make_shared<std::vector<uint8_t>>();
  auto carry = [this, broker, api_key, version, body = std::move(body),
                response](host::Completion done) {
    const auto it = handlers_.find(broker);
    if (it == handlers_.end()) {
      return done({ErrorCode::kDisconnected, "broker " + std::to_string(broker) + " is not there"});
    }
    auto call = [handler = it->second, api_key, version, body, response, done] {
      RequestContext context;
      context.api_key = api_key;
      context.api_version = version;
      context.client_id = "peer";
      (*handler)(context, ByteView(body), [response, done](std::vector<uint8_t> bytes) {
        *response = std::move(bytes);
        done(Status::Ok());
      });
    };
    if (inline_answers_) {
      call();
    } else {
      lane_->Post(std::move(call));
    }
  };
  script_.Run(kSend, std::to_string(broker), std::move(carry),
              [response, answer = std::move(answer)](Status status) {
                if (status.ok()) {
                  answer(std::move(*response));
                } else {
                  answer(std::move(status));
                }
              });
}

// ---- The host

MemoryHost::MemoryHost(ManualRuntime* runtime, MemoryHostOptions options)
    : runtime_(runtime),
      options_(std::move(options)),
      lane_(runtime->NewLane("memory-host-" + std::to_string(options_.broker))),
      logs_(runtime, lane_.get(), options_.inline_answers),
      controller_(runtime, lane_.get(), options_.inline_answers, &logs_, options_.cluster_id,
                  options_.broker),
      state_topic_(lane_.get(), options_.inline_answers, &controller_, options_.state_partitions),
      peers_(lane_.get(), options_.inline_answers) {}

MemoryHost::~MemoryHost() { Detach(); }

host::Host MemoryHost::AsHost() {
  host::Host host;
  host.runtime = runtime_;
  host.logs = &logs_;
  host.controller = &controller_;
  host.state_topic = &state_topic_;
  host.peers = &peers_;
  return host;
}

void MemoryHost::Attach(Mirror* mirror) {
  controller_.Listen({
      .snapshot =
          [mirror](host::MetadataSnapshot snapshot) { mirror->OnSnapshot(std::move(snapshot)); },
      .delta = [mirror](host::MetadataDelta delta) { mirror->OnDelta(std::move(delta)); },
  });
  state_topic_.Listen({
      .gained = [mirror](int32_t shard) { mirror->OnShardGained(shard); },
      .lost = [mirror](int32_t shard) { mirror->OnShardLost(shard); },
  });
  peers_.SetHandler(options_.broker, [mirror](const RequestContext& context, ByteView body,
                                              std::function<void(std::vector<uint8_t>)> respond) {
    mirror->HandleRequest(context, body, std::move(respond));
  });
}

void MemoryHost::Detach() {
  controller_.StopListening();
  state_topic_.StopListening();
  peers_.ClearHandler(options_.broker);
  controller_.script().Drop();
  state_topic_.DropPending();
  peers_.script().Drop();
  logs_.DropPending();
}

void MemoryHost::Restart(bool lose_unsynced) {
  Detach();
  for (const host::TopicInfo& topic : controller_.Snapshot().topics) {
    for (const host::PartitionInfo& info : topic.partitions) {
      const std::shared_ptr<MemoryLog> log = logs_.Get({topic.id, info.index});
      if (log == nullptr) continue;
      if (lose_unsynced) log->LoseTail(0);
      log->HostRestarted(ClosedFor(topic.configs));
    }
  }
}

std::shared_ptr<MemoryLog> MemoryHost::Log(std::string_view topic, int32_t partition) const {
  const host::TopicInfo* info = controller_.FindTopic(topic);
  return info == nullptr ? nullptr : logs_.Get({info->id, partition});
}

std::vector<std::string> MemoryHost::violations() const {
  std::vector<std::string> all = logs_.violations();
  all.insert(all.end(), state_topic_.violations().begin(), state_topic_.violations().end());
  return all;
}

}  // namespace kmirror::conformance
