// The manager as a process runs it: lanes on threads, and sockets. What it copies is judged
// elsewhere; here every call comes from another thread at a bad moment, for ThreadSanitizer to
// watch.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <future>
#include <mutex>
#include <thread>

#include "conformance/memory_host/manual_runtime.h"
#include "src/fetcher/mirror_fetcher_manager.h"
#include "src/net/epoll_runtime.h"
#include "src/net/tcp_transport.h"
#include "src/protocol/headers.h"
#include "src/protocol/reader.h"
#include "tests/fetcher/scripted_source.h"
#include "tests/net/broker_stub.h"
#include "tests/support/wait_until.h"

namespace kmirror::fetcher::testing {
namespace {

using net::testing::BrokerStub;
using test::WaitUntil;

// A log of counters that checks the rules every log relies on: one append at a time, at the end.
class CountingLog : public host::PartitionLog {
 public:
  explicit CountingLog(bool pending) : pending_(pending) {}
  ~CountingLog() override {
    if (late_.joinable()) late_.join();
  }

  host::AppendResult AppendMirrored(const host::MirroredSet& set,
                                    host::AppendDone* done) noexcept override {
    EXPECT_FALSE(appending_.exchange(true)) << "two appends at once";
    EXPECT_FALSE(closed_.load()) << "an append after the barrier";
    EXPECT_EQ(set.expected_end_offset, end_.load());
    const int64_t end = set.batches.back().last_offset + 1;
    if (!pending_) {
      end_ = end;
      appending_ = false;
      return {host::AppendCode::kOk, end};
    }
    if (late_.joinable()) late_.join();
    late_ = std::thread([this, end, done] {
      end_ = end;
      appending_ = false;
      done->Done({host::AppendCode::kOk, end});
    });
    return {host::AppendCode::kPending, -1};
  }
  host::LogView View() const noexcept override {
    host::LogView view;
    view.high_watermark = view.end = view.last_stable_offset = end_.load();
    return view;  // without epochs: no exchange
  }
  // From here to Open, an append is a broken barrier.
  void Close() { closed_ = true; }
  void Open() { closed_ = false; }
  int64_t end() const { return end_.load(); }

  std::vector<host::OpenTransaction> OpenTransactions() const override { return {}; }
  std::vector<host::EpochEntry> Epochs() const override { return {}; }
  host::EpochEnd EndOffsetForEpoch(int32_t) const override { return {}; }
  int32_t EpochBefore(int64_t) const override { return -1; }
  int64_t MaxProducerId() const override { return -1; }
  bool EndsWithReset() const override { return false; }
  void AppendAbort(const host::OpenTransaction&, int32_t, host::Completion) override {}
  void AppendReset(int32_t, host::Completion) override {}
  void Truncate(int64_t, int32_t, host::Completion) override {}
  void RestartAt(int64_t, int32_t, host::Completion) override {}
  Status RaiseLogStart(int64_t) noexcept override { return {}; }
  void AwaitReplicated(int32_t, host::Completion) override {}
  void AwaitTruncated(bool, int32_t, host::Completion) override {}
  void Sync(host::Completion) override {}
  Status SetLocalWrites(host::LocalWrites, int32_t, int64_t) noexcept override { return {}; }

 private:
  const bool pending_;
  std::atomic<int64_t> end_{0};
  std::atomic<bool> appending_{false};
  std::atomic<bool> closed_{false};
  std::thread late_;
};

struct CountingEvents : FetchEvents {
  void OnFetching(const TopicIdPartition&) override { ++fetching; }
  void OnStopped(const FetchStopped& event) override {
    std::lock_guard lock(mutex);
    stopped.push_back(event.message);
  }
  void OnEpochNear(const TopicIdPartition&, int32_t) override {}
  void OnGap(const TopicIdPartition&, int64_t, int64_t) override {}
  void OnSourceTrouble(const std::string&, const std::string&) override { ++trouble; }
  std::atomic<int> fetching{0};
  std::atomic<int> trouble{0};
  std::mutex mutex;
  std::vector<std::string> stopped;  // guarded by mutex
};

class LanesOnThreadsTest : public ::testing::Test {
 protected:
  static constexpr int kPartitions = 6;

  LanesOnThreadsTest()
      : source(&clock), runtime({}), lane(runtime.NewLane("coordinator")),
        broker([this](BrokerStub::Peer& peer) { Serve(peer); }) {
    id.bytes.fill(3);
    for (int i = 0; i < kPartitions; ++i) {
      source.AddPartition("t", id, i);
      for (int b = 0; b < 50; ++b) source.Append("t", i, 2, 500);
      logs.push_back(std::make_shared<CountingLog>(i % 2 == 1));
    }
    MirrorFetcherManager::Options options;
    options.broker_id = 1;
    options.num_fetchers = 3;
    manager = std::make_unique<MirrorFetcherManager>(&runtime, lane.get(), &events, &transport,
                                                     options);
  }
  ~LanesOnThreadsTest() override {
    std::promise<void> done;
    lane->Post([&] {
      manager->Shutdown([&] {
        manager.reset();
        done.set_value();
      });
    });
    done.get_future().wait();
    lane.reset();
  }

  void Serve(BrokerStub::Peer& peer) {
    if (!BrokerStub::Greet(peer)) return;
    BrokerStub::Request request;
    while (peer.Read(&request)) {
      protocol::Reader reader(request.frame);
      protocol::RequestHeader header;
      if (!protocol::DecodeRequestHeader(reader, &header).ok()) return;
      ScriptedSource::Asked asked;
      asked.broker = 1;
      asked.api_key = header.api_key;
      asked.version = header.api_version;
      const ByteView rest = reader.rest();
      asked.body.assign(rest.begin(), rest.end());
      std::vector<uint8_t> body;
      {
        std::lock_guard lock(source_mutex);
        body = *source.Serve(asked, true);
      }
      if (cut.exchange(false)) return peer.Close();
      peer.Answer(header.correlation_id, body,
                  protocol::ResponseHeaderVersion(header.api_key, header.api_version) >= 1);
    }
  }
  void Append(int partition, int batches) {
    std::lock_guard lock(source_mutex);
    for (int i = 0; i < batches; ++i) source.Append("t", partition, 2, 500);
  }
  int64_t SourceEnd(int partition) {
    std::lock_guard lock(source_mutex);
    return source.At("t", partition).end;
  }
  void OnLane(std::function<void()> what) {
    std::promise<void> done;
    lane->Post([&] {
      what();
      done.set_value();
    });
    done.get_future().wait();
  }
  void SetMirror() {
    OnLane([this] {
      auto config = std::make_shared<MirrorSourceConfig>();
      config->mirror = "m";
      config->fetch_backoff_ms = 5;
      config->fetch_response_max_bytes = config->fetch_max_bytes = 20000;
      manager->SetMirror(config);
    });
  }
  TopicIdPartition Key(int partition) { return {id, partition}; }
  void Add(int partition) {
    OnLane([this, partition] {
      FetchAssignment assignment;
      assignment.partition = Key(partition);
      assignment.topic = "t";
      assignment.leader_id = 1;
      assignment.leader = {"127.0.0.1", broker.port()};
      assignment.source_leader_epoch = 0;
      assignment.local_leader_epoch = 10;
      assignment.log = logs[static_cast<size_t>(partition)];
      manager->Add("m", std::move(assignment));
    });
  }
  bool CaughtUp() {
    return WaitUntil([this] {
      for (int i = 0; i < kPartitions; ++i) {
        if (logs[static_cast<size_t>(i)]->end() != SourceEnd(i)) return false;
      }
      return true;
    });
  }

  conformance::ManualRuntime clock;  // the source's
  std::mutex source_mutex;
  ScriptedSource source;             // guarded by source_mutex once fetchers run
  Uuid id;
  std::atomic<bool> cut{false};
  std::vector<std::shared_ptr<CountingLog>> logs;
  CountingEvents events;
  net::EpollRuntime runtime;
  std::unique_ptr<host::Lane> lane;
  BrokerStub broker;
  net::TcpTransport transport;
  std::unique_ptr<MirrorFetcherManager> manager;
};

struct Discard : MetricSink {
  void Add(std::string_view, Kind, std::string_view, std::span<const Label>,
           double value) override {
    sum += value;
  }
  double sum = 0;
};

TEST_F(LanesOnThreadsTest, CopiesWhileEverythingAroundItChanges) {
  SetMirror();
  for (int i = 0; i < kPartitions; ++i) Add(i);
  std::atomic<bool> stop{false};
  std::thread watcher([&] {
    while (!stop) {
      Discard sink;
      manager->Collect(&sink);
      for (int i = 0; i < kPartitions; ++i) (void)manager->Position(Key(i));
      std::this_thread::yield();
    }
  });
  ASSERT_TRUE(CaughtUp());
  for (int round = 0; round < 15; ++round) {
    for (int i = 0; i < kPartitions; ++i) Append(i, 20);
    const int partition = round % kPartitions;
    auto& log = *logs[static_cast<size_t>(partition)];
    std::promise<void> removed;
    OnLane([&] {
      manager->Remove(Key(partition), [&] {
        log.Close();
        removed.set_value();
      });
    });
    removed.get_future().wait();
    if (round % 4 == 1) cut = true;
    if (round % 5 == 2) SetMirror();
    OnLane([&] { manager->UpdateLocalEpoch(Key((partition + 1) % kPartitions), 11 + round); });
    log.Open();
    Add(partition);
  }
  EXPECT_TRUE(CaughtUp());
  stop = true;
  watcher.join();
  std::lock_guard lock(events.mutex);
  EXPECT_THAT(events.stopped, ::testing::IsEmpty());
}

TEST_F(LanesOnThreadsTest, ShutsDownInTheMiddleOfEverything) {
  SetMirror();
  for (int i = 0; i < kPartitions; ++i) Add(i);
  EXPECT_TRUE(WaitUntil([this] { return logs[1]->end() > 0; }));
}

}  // namespace
}  // namespace kmirror::fetcher::testing
