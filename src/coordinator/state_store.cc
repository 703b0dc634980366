#include "src/coordinator/state_store.h"

#include <utility>

#include "src/protocol/body.h"

namespace kmirror::coordinator {
namespace {

using protocol::ReadMirrorStatesRequest;
using protocol::ReadMirrorStatesResponse;
using protocol::WriteMirrorStatesRequest;
using protocol::WriteMirrorStatesResponse;

template <typename Message>
std::vector<uint8_t> Encoded(const Message& message) {
  protocol::Writer out;
  if (Status status = Encode(message, 0, out); !status.ok()) return {};
  return out.Flatten();
}

// Decodes the answer about the one partition that was asked for, and its errors at every level.
template <typename Response>
Status OnePartition(const Result<std::vector<uint8_t>>& body, Response* response) {
  if (!body.ok()) return body.status();
  if (Status status = protocol::DecodeBody(*body, 0, response); !status.ok()) return status;
  if (response->error_code != 0) {
    return {static_cast<ErrorCode>(response->error_code), response->error_message.value_or("")};
  }
  if (response->topics.size() != 1 || response->topics[0].partitions.size() != 1) {
    return {ErrorCode::kMalformed, std::string(Response::kName) + " is about other partitions"};
  }
  const auto& partition = response->topics[0].partitions[0];
  if (partition.error_code == 0) return Status::Ok();
  return {static_cast<ErrorCode>(partition.error_code), partition.error_message.value_or("")};
}

}  // namespace

StateStore::StateStore(const host::Host& host, host::Lane* lane, const Options* options,
                       const MetadataView* metadata, std::function<void(int32_t)> on_shard_loaded)
    : host_(host),
      lane_(lane),
      options_(options),
      metadata_(metadata),
      on_shard_loaded_(std::move(on_shard_loaded)),
      shard_count_(host.state_topic->partition_count()) {}

StateStore::~StateStore() { *alive_ = false; }

void StateStore::GainShard(int32_t shard) {
  if (shards_.contains(shard)) return;
  auto [it, added] =
      shards_.emplace(shard, std::make_unique<StateShard>(shard, host_.state_topic, host_.runtime,
                                                          lane_, options_, on_shard_loaded_));
  it->second->Load();
}

void StateStore::LoseShard(int32_t shard) { shards_.erase(shard); }

const StateShard* StateStore::Shard(int32_t index) const {
  const auto it = shards_.find(index);
  return it == shards_.end() ? nullptr : it->second.get();
}

void StateStore::Later(Answer answer, Status status) {
  lane_->Post([alive = alive_, answer = std::move(answer), status = std::move(status)] {
    if (*alive) answer(status);
  });
}

void StateStore::Read(const StateKey& key, const std::string& topic, Answer answer) {
  const int32_t index = key.Shard(shard_count_);
  if (const StateShard* shard = Shard(index)) {
    lane_->Post([alive = alive_, answer = std::move(answer), result = shard->Read(key)] {
      if (*alive) answer(result);
    });
    return;
  }
  int32_t leader = -1;
  if (!metadata_->StateLeader(index, &leader)) {
    // The metadata is authoritative: without the topic nothing was ever stored (1.2).
    lane_->Post([alive = alive_, answer = std::move(answer)] {
      if (*alive) answer(Record{});
    });
    return;
  }
  if (leader == metadata_->this_broker()) {
    // Ours by metadata, and not handed over by the host yet.
    Later(std::move(answer), {ErrorCode::kCoordinatorLoadInProgress,
                              "shard " + std::to_string(index) + " is not open yet"});
    return;
  }
  if (leader < 0) {
    Later(std::move(answer),
          {ErrorCode::kCoordinatorNotAvailable,
           "partition " + std::to_string(index) + " of __mirror_state has no leader"});
    return;
  }
  ReadRemote(leader, key, topic, std::move(answer));
}

void StateStore::Write(const StateKey& key, const std::string& topic,
                       const statemachine::StateWrite& write, Answer answer) {
  const int32_t index = key.Shard(shard_count_);
  if (const auto it = shards_.find(index); it != shards_.end()) {
    it->second->Write(key, write,
                      [alive = alive_, answer = std::move(answer)](Result<Record> result) {
                        if (*alive) answer(std::move(result));
                      });
    return;
  }
  int32_t leader = -1;
  if (!metadata_->StateLeader(index, &leader)) {
    host_.state_topic->Ensure(
        [alive = alive_, lane = lane_, answer = std::move(answer), index](Status status) {
          lane->Post([alive, answer, index, status = std::move(status)] {
            if (!*alive) return;
            // The new shard arrives by OnShardGained; the writer asks again.
            answer(status.ok() ? Status(ErrorCode::kCoordinatorNotAvailable,
                                        "__mirror_state was just created, partition " +
                                            std::to_string(index) + " is not open yet")
                               : status);
          });
        });
    return;
  }
  if (leader == metadata_->this_broker()) {
    Later(std::move(answer), {ErrorCode::kCoordinatorLoadInProgress,
                              "shard " + std::to_string(index) + " is not open yet"});
    return;
  }
  if (leader < 0) {
    Later(std::move(answer),
          {ErrorCode::kCoordinatorNotAvailable,
           "partition " + std::to_string(index) + " of __mirror_state has no leader"});
    return;
  }
  WriteRemote(leader, key, topic, write, std::move(answer));
}

void StateStore::ReadRemote(int32_t leader, const StateKey& key, const std::string& topic,
                            Answer answer) {
  ReadMirrorStatesRequest request;
  request.mirror_name = key.mirror;
  request.topics.push_back({topic, {{key.partition.partition}}});
  host_.peers->Send(
      leader, ReadMirrorStatesRequest::kApiKey, 0, Encoded(request),
      [alive = alive_, lane = lane_,
       answer = std::move(answer)](Result<std::vector<uint8_t>> body) {
        lane->Post([alive, answer, body = std::move(body)] {
          if (!*alive) return;
          ReadMirrorStatesResponse response;
          if (Status status = OnePartition(body, &response); !status.ok()) return answer(status);
          const auto& p = response.topics[0].partitions[0];
          if (p.state < -1 || p.state > 8 || p.previous_state < -1 || p.previous_state > 8 ||
              p.progress < 0 || p.progress > 2) {
            return answer(Status(ErrorCode::kMalformed, "ReadMirrorStates: a state out of range"));
          }
          Record record;
          record.state = static_cast<MirrorPartitionState>(p.state);
          record.previous = static_cast<MirrorPartitionState>(p.previous_state);
          record.leader_epoch = p.leader_epoch;
          record.state_epoch = p.state_epoch;
          record.position = {p.last_mirror_epoch, p.last_mirror_offset};
          record.attempt = p.retry_attempt;
          record.reason = p.error_message.value_or("");
          record.progress = static_cast<statemachine::Progress>(p.progress);
          answer(std::move(record));
        });
      });
}

void StateStore::WriteRemote(int32_t leader, const StateKey& key, const std::string& topic,
                             const statemachine::StateWrite& write, Answer answer) {
  WriteMirrorStatesRequest request;
  request.mirror_name = key.mirror;
  protocol::WriteMirrorStatesRequest::PartitionToWrite p;
  p.partition_index = key.partition.partition;
  p.state = static_cast<int8_t>(write.state);
  p.leader_epoch = write.leader_epoch;
  p.state_epoch = write.expected_state_epoch;
  if (write.position) {
    p.last_mirror_epoch = write.position->epoch;
    p.last_mirror_offset = write.position->offset;
  }
  p.error_message = write.reason;
  if (write.attempt) {
    p.retry_attempt = *write.attempt;
    p.non_retryable = *write.attempt == Record::kNotRetryable;
  }
  // 0 on the wire is "keep": the three values travel shifted by one.
  p.progress = write.progress ? static_cast<int8_t>(static_cast<int8_t>(*write.progress) + 1) : 0;
  request.topics.push_back({topic, {std::move(p)}});
  host_.peers->Send(leader, WriteMirrorStatesRequest::kApiKey, 0, Encoded(request),
                    [this, alive = alive_, lane = lane_, key, topic,
                     answer = std::move(answer)](Result<std::vector<uint8_t>> body) {
                      lane->Post([this, alive, key, topic, answer, body = std::move(body)] {
                        if (!*alive) return;
                        WriteMirrorStatesResponse response;
                        if (Status status = OnePartition(body, &response); !status.ok())
                          return answer(status);
                        // The answer holds the epoch alone; the record is what the shard made of
                        // it.
                        Read(key, topic, answer);
                      });
                    });
}

void StateStore::TombstoneWhere(std::function<bool(const StateKey&)> match) {
  for (auto& [index, shard] : shards_) {
    if (!shard->loaded()) continue;
    std::vector<StateKey> keys;
    for (const auto& [key, record] : shard->records()) {
      if (match(key)) keys.push_back(key);
    }
    for (const StateKey& key : keys) {
      shard->Tombstone(key, [runtime = host_.runtime, text = key.Text()](Status status) {
        if (status.ok()) return;
        runtime->Log(host::LogLevel::kWarn, "kmirror.coordinator",
                     "event=tombstone-failed key=" + text + " reason=\"" + status.ToString() +
                         "\" next=retry at the next tick");
      });
    }
  }
}

void StateStore::Serve(const ReadMirrorStatesRequest& request,
                       std::function<void(ReadMirrorStatesResponse)> done) {
  ReadMirrorStatesResponse response;
  for (const auto& topic : request.topics) {
    auto& out = response.topics.emplace_back();
    out.topic_name = topic.topic_name;
    const TopicView* view = metadata_->TopicByName(topic.topic_name);
    for (const auto& wanted : topic.partitions) {
      auto& p = out.partitions.emplace_back();
      p.partition_index = wanted.partition_index;
      p.state = -1;
      p.previous_state = -1;
      auto refuse = [&p](ErrorCode code, std::string why) {
        p.error_code = static_cast<int16_t>(code);
        p.error_message = std::move(why);
      };
      if (view == nullptr) {
        refuse(ErrorCode::kUnknownTopicOrPartition, "no topic of that name here");
        continue;
      }
      const StateKey key{request.mirror_name, {view->info.id, wanted.partition_index}};
      const StateShard* shard = ShardOf(key);
      if (shard == nullptr) {
        refuse(ErrorCode::kNotCoordinator, "this broker does not lead the shard");
        continue;
      }
      const Result<Record> record = shard->Read(key);
      if (!record.ok()) {
        refuse(record.status().code(), record.status().message());
        continue;
      }
      p.state = static_cast<int8_t>(record->state);
      p.previous_state = static_cast<int8_t>(record->previous);
      p.leader_epoch = record->leader_epoch;
      p.state_epoch = record->state_epoch;
      p.last_mirror_epoch = record->position.epoch;
      p.last_mirror_offset = record->position.offset;
      p.retry_attempt = record->attempt;
      if (!record->reason.empty()) p.error_message = record->reason;
      p.progress = static_cast<int8_t>(record->progress);
    }
  }
  done(std::move(response));
}

void StateStore::Serve(const WriteMirrorStatesRequest& request,
                       std::function<void(WriteMirrorStatesResponse)> done) {
  // Every partition has its own completion; the answer goes out when the last is in.
  struct Gather {
    WriteMirrorStatesResponse response;
    size_t missing = 1;
    std::function<void(WriteMirrorStatesResponse)> done;
    void Arrived() {
      if (--missing == 0) done(std::move(response));
    }
  };
  auto gather = std::make_shared<Gather>();
  gather->done = std::move(done);
  for (const auto& topic : request.topics) {
    auto& out = gather->response.topics.emplace_back();
    out.topic_name = topic.topic_name;
    out.partitions.resize(topic.partitions.size());
    gather->missing += topic.partitions.size();
  }
  for (size_t t = 0; t < request.topics.size(); ++t) {
    const TopicView* view = metadata_->TopicByName(request.topics[t].topic_name);
    for (size_t i = 0; i < request.topics[t].partitions.size(); ++i) {
      const auto& in = request.topics[t].partitions[i];
      auto finish = [gather, t, i](Result<Record> result) {
        auto& p = gather->response.topics[t].partitions[i];
        if (result.ok()) {
          p.state_epoch = result->state_epoch;
        } else {
          p.error_code = static_cast<int16_t>(result.status().code());
          p.error_message = result.status().message();
        }
        gather->Arrived();
      };
      gather->response.topics[t].partitions[i].partition_index = in.partition_index;
      if (view == nullptr) {
        finish(Status(ErrorCode::kUnknownTopicOrPartition, "no topic of that name here"));
        continue;
      }
      if (in.state < -1 || in.state > 8 || in.progress < 0 || in.progress > 3) {
        finish(Status(ErrorCode::kInvalidRequest, "a state out of range"));
        continue;
      }
      const StateKey key{request.mirror_name, {view->info.id, in.partition_index}};
      const auto shard = shards_.find(key.Shard(shard_count_));
      if (shard == shards_.end()) {
        finish(Status(ErrorCode::kNotCoordinator, "this broker does not lead the shard"));
        continue;
      }
      statemachine::StateWrite write;
      write.state = static_cast<MirrorPartitionState>(in.state);
      write.leader_epoch = in.leader_epoch;
      write.expected_state_epoch = in.state_epoch;
      if (in.last_mirror_epoch >= 0 || in.last_mirror_offset >= 0) {
        write.position = statemachine::MirrorPosition{in.last_mirror_epoch, in.last_mirror_offset};
      }
      write.reason = in.error_message;
      if (in.non_retryable) {
        write.attempt = Record::kNotRetryable;
      } else if (in.retry_attempt >= 0) {
        write.attempt = static_cast<int16_t>(std::min(in.retry_attempt, 32767));
      }
      if (in.progress > 0) write.progress = static_cast<statemachine::Progress>(in.progress - 1);
      shard->second->Write(key, write, finish);
    }
  }
  gather->Arrived();
}

}  // namespace kmirror::coordinator
