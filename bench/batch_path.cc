// The whole way of fetched batches from the connection's bytes to the end of the append, without
// sockets and files: for counting instructions (bench/instructions).
//
//   batch_path BATCH_BYTES BATCHES DIR
// Answers of about 2 MiB from memory, through the fetcher's own parser, session, gate and checks
// into kmirrord's log, whose writes go nowhere.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <future>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "bench/storage_log.h"
#include "kmirror/log/record_batch_builder.h"
#include "messages/fetch.h"
#include "src/fetcher/mirror_fetcher_manager.h"
#include "src/net/epoll_runtime.h"
#include "src/protocol/body.h"

namespace {

using namespace kmirror;

constexpr size_t kAnswerBytes = 2 << 20;
constexpr size_t kReceiveBytes = 512 << 10;  // what a receive takes at most when data flows
constexpr int16_t kVersion = 16;

Uuid TopicId() {
  Uuid id;
  id.bytes.fill(7);
  return id;
}

class NoWrites : public broker::FileIo {
 public:
  ssize_t Write(int, const iovec* pieces, int count, int64_t) override {
    ssize_t bytes = 0;
    for (int i = 0; i < count; ++i) bytes += static_cast<ssize_t>(pieces[i].iov_len);
    return bytes;
  }
  int Allocate(int, int64_t, int64_t) override { return 0; }
};

// The body of an answer whose batches all have one record; the next answer differs in offsets
// alone.
class Answers {
 public:
  Answers(size_t batch_bytes, int64_t batches) : batches_left_(batches) {
    log::RecordBatchBuilder builder;
    builder.leader_epoch = 0;
    const std::vector<uint8_t> value(batch_bytes > 80 ? batch_bytes - 80 : 1, 'v');
    builder.Add(1'700'000'000'000, std::nullopt, value);
    batch_ = builder.Build();
    per_answer_ = static_cast<int64_t>(kAnswerBytes / batch_.size());
  }

  // Empty when all have been given.
  std::vector<uint8_t> Next() {
    const int64_t count = std::min(per_answer_, batches_left_);
    batches_left_ -= count;
    std::vector<uint8_t> records;
    records.reserve(static_cast<size_t>(count) * batch_.size());
    for (int64_t i = 0; i < count; ++i) {
      log::SetBaseOffset(batch_, next_offset_++);
      records.insert(records.end(), batch_.begin(), batch_.end());
    }
    protocol::FetchResponse response;
    response.session_id = 1;
    auto& topic = response.responses.emplace_back();
    topic.topic_id = TopicId();
    auto& partition = topic.partitions.emplace_back();
    partition.high_watermark = partition.last_stable_offset = next_offset_;
    partition.log_start_offset = 0;
    partition.records = protocol::RecordsView(ByteView(records));
    protocol::Writer body;
    if (Status status = protocol::Encode(response, kVersion, body); !status.ok()) {
      std::fprintf(stderr, "%s\n", status.ToString().c_str());
      std::exit(1);
    }
    return body.Flatten();
  }

 private:
  std::vector<uint8_t> batch_;
  int64_t per_answer_ = 0;
  int64_t batches_left_ = 0;
  int64_t next_offset_ = 0;
};

// All that happens to received bytes happens below these two: bench/instructions counts there.
[[gnu::noinline]] Status CountedReceived(fetcher::ResponseSink* sink, size_t bytes) {
  return sink->Received(bytes);
}
[[gnu::noinline]] void CountedDone(fetcher::ResponseSink* sink) { sink->Done({}); }

class MemoryConnection : public fetcher::Connection {
 public:
  MemoryConnection(host::Lane* lane, Answers* answers) : lane_(lane), answers_(answers) {
    versions_.apis = {{1, {12, kVersion}}, {2, {4, 7}}, {18, {0, 3}}, {23, {2, 4}}};
  }
  void Open(std::function<void(Status)> opened) override {
    lane_->Post([opened = std::move(opened)] { opened({}); });
  }
  bool IsOpen() const override { return true; }
  const fetcher::BrokerVersions& versions() const override { return versions_; }
  void Ask(fetcher::OutgoingRequest, Answer) override {
    std::fprintf(stderr, "an epoch exchange or a range, which an empty log needs not\n");
    std::exit(1);
  }
  void Stream(fetcher::OutgoingRequest, fetcher::ResponseSink* sink) override {
    lane_->Post([this, sink] {
      const std::vector<uint8_t> body = answers_->Next();
      Must(sink->Begin(body.size()));
      for (size_t at = 0; at < body.size();) {
        const std::span<uint8_t> room = sink->Room(body.size() - at);
        const size_t size = std::min({room.size(), body.size() - at, kReceiveBytes});
        std::memcpy(room.data(), body.data() + at, size);
        at += size;
        Must(CountedReceived(sink, size));
      }
      CountedDone(sink);
    });
  }
  void Resume() override {}
  void OnClosed(std::function<void(Status)>) override {}

 private:
  static void Must(const Status& status) {
    if (status.ok()) return;
    std::fprintf(stderr, "%s\n", status.ToString().c_str());
    std::exit(1);
  }

  host::Lane* const lane_;
  Answers* const answers_;
  fetcher::BrokerVersions versions_;
};

class MemoryTransport : public fetcher::Transport {
 public:
  explicit MemoryTransport(Answers* answers) : answers_(answers) {}
  std::unique_ptr<fetcher::Connection> NewConnection(host::Lane* lane,
                                                     fetcher::ConnectionOptions) override {
    return std::make_unique<MemoryConnection>(lane, answers_);
  }

 private:
  Answers* const answers_;
};

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4) {
    std::fprintf(stderr, "usage: batch_path BATCH_BYTES BATCHES DIR\n");
    return 2;
  }
  const int64_t batches = std::strtol(argv[2], nullptr, 10);
  Answers answers(std::strtoul(argv[1], nullptr, 10), batches);
  const std::string directory = std::string(argv[3]) + "/t-0";
  NoWrites io;
  std::promise<void> finished;
  auto log = std::make_shared<bench::StorageLog>(bench::NewLog(directory, &io),
                                                 [&](int64_t before, int64_t end) {
                                                   if (before < batches && end >= batches)
                                                     finished.set_value();
                                                 });

  net::EpollRuntime runtime([](host::LogLevel, std::string_view, std::string_view) {});
  MemoryTransport transport(&answers);
  bench::FetchTrouble events;
  auto lane = runtime.NewLane("coordinator");
  auto manager = std::make_unique<fetcher::MirrorFetcherManager>(
      &runtime, lane.get(), &events, &transport, fetcher::MirrorFetcherManager::Options{1, 1});
  lane->Post([&] {
    auto config = std::make_shared<fetcher::MirrorSourceConfig>();
    config->mirror = "bench";
    manager->SetMirror(config);
    fetcher::FetchAssignment assignment;
    assignment.partition = {TopicId(), 0};
    assignment.topic = "t";
    assignment.leader_id = 1;
    assignment.leader = {"127.0.0.1", 1};
    assignment.source_leader_epoch = 0;
    assignment.local_leader_epoch = 10;
    assignment.log = log;
    manager->Add("bench", assignment);
  });
  finished.get_future().wait();
  std::promise<void> closed;
  lane->Post([&] {
    manager->Shutdown([&] {
      manager.reset();
      closed.set_value();
    });
  });
  closed.get_future().wait();
  lane.reset();
  log.reset();
  std::filesystem::remove_all(directory);
}
