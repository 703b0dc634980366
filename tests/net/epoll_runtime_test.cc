// Lanes on threads: order, timers, readiness, and ends in every place.
#include "src/net/epoll_runtime.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <future>
#include <thread>
#include <vector>

namespace kmirror::net {
namespace {

using namespace std::chrono_literals;
using ::testing::ElementsAre;

TEST(EpollRuntimeTest, TasksRunInOrderOnOneThread) {
  EpollRuntime runtime({});
  auto lane = runtime.NewLane("order");
  std::vector<int> seen;
  std::promise<void> done;
  for (int i = 0; i < 1000; ++i) {
    lane->Post([&, i] {
      EXPECT_TRUE(lane->InLane());
      seen.push_back(i);
      if (i == 999) done.set_value();
    });
  }
  done.get_future().wait();
  EXPECT_TRUE(std::ranges::is_sorted(seen));
  EXPECT_EQ(seen.size(), 1000u);
  EXPECT_FALSE(lane->InLane());
}

TEST(EpollRuntimeTest, PostsOfManyThreadsAllRun) {
  EpollRuntime runtime({});
  auto lane = runtime.NewLane("many");
  std::atomic<int> count{0};
  std::promise<void> done;
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 2000; ++i) {
        lane->Post([&] {
          if (++count == 8000) done.set_value();
        });
      }
    });
  }
  for (auto& thread : threads) thread.join();
  done.get_future().wait();
  EXPECT_EQ(count, 8000);
}

TEST(EpollRuntimeTest, TimersRunInOrderOfTimeAndNotEarly) {
  EpollRuntime runtime({});
  auto lane = runtime.NewLane("timers");
  std::vector<int> seen;
  std::promise<void> done;
  const auto start = runtime.MonotonicNow();
  lane->Post([&] {
    lane->RunAfter(30ms, [&] {
      EXPECT_GE(runtime.MonotonicNow() - start, 30ms);
      seen.push_back(3);
      done.set_value();
    });
    lane->RunAfter(10ms, [&] { seen.push_back(2); });
    lane->RunAfter(0ms, [&] { seen.push_back(1); });
  });
  done.get_future().wait();
  EXPECT_THAT(seen, ElementsAre(1, 2, 3));
}

TEST(EpollRuntimeTest, ACancelledTimerDoesNotRun) {
  EpollRuntime runtime({});
  auto lane = runtime.NewLane("cancel");
  std::promise<void> done;
  lane->Post([&] {
    const auto id = lane->RunAfter(1ms, [] { ADD_FAILURE() << "ran"; });
    lane->Cancel(id);
    lane->Cancel(0);
    lane->Cancel(12345);
    lane->RunAfter(20ms, [&] { done.set_value(); });
  });
  done.get_future().wait();
}

TEST(EpollRuntimeTest, ATimerOfAnotherThreadWakesTheLane) {
  EpollRuntime runtime({});
  auto lane = runtime.NewLane("wake");
  std::promise<void> late;
  std::promise<void> done;
  lane->RunAfter(1h, [&] { late.set_value(); });
  lane->RunAfter(1ms, [&] { done.set_value(); });
  done.get_future().wait();
}

struct Reader : host::FdHandler {
  void OnReady(uint32_t events) noexcept override {
    EXPECT_NE(events, 0u);
    char byte = 0;
    if (read(fd, &byte, 1) == 1) {
      got.push_back(byte);
    } else {
      lane->Unwatch(fd);
      done.set_value();
    }
  }
  int fd = -1;
  host::Lane* lane = nullptr;
  std::string got;
  std::promise<void> done;
};

TEST(EpollRuntimeTest, ReadinessIsReportedUntilUnwatched) {
  EpollRuntime runtime({});
  auto lane = runtime.NewLane("watch");
  int fds[2];
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, fds), 0);
  Reader reader;
  reader.fd = fds[0];
  reader.lane = lane.get();
  lane->Post([&] { EXPECT_TRUE(lane->Watch(fds[0], host::Lane::kReadable, &reader).ok()); });
  ASSERT_EQ(write(fds[1], "abc", 3), 3);
  close(fds[1]);
  reader.done.get_future().wait();
  EXPECT_EQ(reader.got, "abc");
  close(fds[0]);
}

TEST(EpollRuntimeTest, ALaneMayDestroyItselfAndDropsWhatHasNotRun) {
  std::promise<void> gone;
  {
    EpollRuntime runtime({});
    auto lane = runtime.NewLane("self");
    host::Lane* const raw = lane.get();
    raw->Post([&, owned = std::make_shared<std::unique_ptr<host::Lane>>(std::move(lane))] {
      raw->Post([] { ADD_FAILURE() << "ran after its lane's end"; });
      raw->RunAfter(0ms, [] { ADD_FAILURE() << "ran after its lane's end"; });
      owned->reset();
      gone.set_value();
    });
    gone.get_future().wait();
  }
}

TEST(EpollRuntimeTest, DestroyingABusyLaneWaitsForTheRunningTask) {
  EpollRuntime runtime({});
  auto lane = runtime.NewLane("busy");
  std::promise<void> started, release;
  std::atomic<bool> finished{false};
  lane->Post([&] {
    started.set_value();
    release.get_future().wait();
    finished = true;
  });
  started.get_future().wait();
  std::thread destroyer([&] { lane.reset(); });
  // The destructor may only return once the task has; let the task go and see.
  release.set_value();
  destroyer.join();
  EXPECT_TRUE(finished);
}

}  // namespace
}  // namespace kmirror::net
