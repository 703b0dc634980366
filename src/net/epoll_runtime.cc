#include "src/net/epoll_runtime.h"

#include <pthread.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cassert>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <map>
#include <random>
#include <thread>
#include <unordered_map>
#include <utility>
#include <vector>

namespace kmirror::net {

using host::FdHandler;
using host::Lane;
using std::chrono::nanoseconds;

struct EpollRuntime::Shared {
  std::mutex mutex;
  std::condition_variable ended;
  int threads = 0;  // guarded by mutex
};

namespace {

nanoseconds Now() {
  return std::chrono::duration_cast<nanoseconds>(
      std::chrono::steady_clock::now().time_since_epoch());
}

// What the lane's thread works on; shared, so that the thread may end after the lane.
class LaneCore {
 public:
  explicit LaneCore(std::string name) : name_(std::move(name)) {
    epoll_fd_ = epoll_create1(EPOLL_CLOEXEC);
    wake_fd_ = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (epoll_fd_ < 0 || wake_fd_ < 0) std::abort();  // no descriptors left to start with
    epoll_event event{};
    event.events = EPOLLIN;
    event.data.u64 = kWakeToken;
    epoll_ctl(epoll_fd_, EPOLL_CTL_ADD, wake_fd_, &event);
  }
  ~LaneCore() {
    close(epoll_fd_);
    close(wake_fd_);
  }

  void Run() {
    pthread_setname_np(pthread_self(), name_.substr(0, 15).c_str());
    thread_id_.store(std::this_thread::get_id(), std::memory_order_release);
    while (!stopped_.load(std::memory_order_acquire)) {
      RunDue();
      if (stopped_.load(std::memory_order_acquire)) break;
      Wait();
    }
    // What has not run is dropped here, on the thread it belongs to.
    std::vector<Lane::Task> tasks;
    std::map<std::pair<nanoseconds, Lane::TimerId>, Lane::Task> timers;
    {
      std::lock_guard lock(mutex_);
      tasks.swap(tasks_);
      timers.swap(timers_);
    }
  }

  void Stop() {
    stopped_.store(true, std::memory_order_release);
    Wake();
  }
  bool OnThread() const {
    return thread_id_.load(std::memory_order_acquire) == std::this_thread::get_id();
  }

  void Post(Lane::Task task) {
    bool wake = false;
    {
      std::lock_guard lock(mutex_);
      wake = tasks_.empty();
      tasks_.push_back(std::move(task));
    }
    if (wake && !OnThread()) Wake();
  }

  Lane::TimerId RunAfter(nanoseconds delay, Lane::Task task) {
    const nanoseconds due = Now() + std::max(delay, nanoseconds(0));
    Lane::TimerId id = 0;
    bool wake = false;
    {
      std::lock_guard lock(mutex_);
      id = ++last_timer_;
      due_.emplace(id, due);
      wake = timers_.emplace(std::pair(due, id), std::move(task)).first == timers_.begin();
    }
    if (wake && !OnThread()) Wake();
    return id;
  }

  void Cancel(Lane::TimerId id) {
    Lane::Task dropped;
    std::lock_guard lock(mutex_);
    const auto it = due_.find(id);
    if (it == due_.end()) return;
    const auto timer = timers_.find(std::pair(it->second, id));
    dropped = std::move(timer->second);
    timers_.erase(timer);
    due_.erase(it);
  }

  Status Watch(int fd, uint32_t events, FdHandler* handler) {
    assert(OnThread());
    epoll_event event{};
    if ((events & Lane::kReadable) != 0) event.events |= EPOLLIN | EPOLLRDHUP;
    if ((events & Lane::kWritable) != 0) event.events |= EPOLLOUT;
    const auto it = watches_.find(fd);
    const uint32_t generation = it == watches_.end() ? ++last_generation_ : it->second.generation;
    event.data.u64 = static_cast<uint64_t>(generation) << 32 | static_cast<uint32_t>(fd);
    const int operation = it == watches_.end() ? EPOLL_CTL_ADD : EPOLL_CTL_MOD;
    if (epoll_ctl(epoll_fd_, operation, fd, &event) != 0) {
      return {ErrorCode::kIo, std::string("epoll: ") + std::strerror(errno)};
    }
    watches_[fd] = {generation, handler};
    return {};
  }

  void Unwatch(int fd) {
    assert(OnThread());
    if (watches_.erase(fd) > 0) epoll_ctl(epoll_fd_, EPOLL_CTL_DEL, fd, nullptr);
  }

 private:
  static constexpr uint64_t kWakeToken = ~uint64_t{0};
  struct Watched {
    uint32_t generation = 0;
    FdHandler* handler = nullptr;
  };

  void Wake() {
    const uint64_t one = 1;
    while (write(wake_fd_, &one, sizeof one) < 0 && errno == EINTR) {
    }
  }

  // Tasks that were there at the start, then timers that are due.
  void RunDue() {
    std::vector<Lane::Task> tasks;
    {
      std::lock_guard lock(mutex_);
      tasks.swap(tasks_);
    }
    for (Lane::Task& task : tasks) {
      if (stopped_.load(std::memory_order_acquire)) return;
      task();
      task = nullptr;
    }
    const nanoseconds now = Now();
    for (;;) {
      Lane::Task task;
      {
        std::lock_guard lock(mutex_);
        if (timers_.empty() || timers_.begin()->first.first > now) return;
        due_.erase(timers_.begin()->first.second);
        task = std::move(timers_.begin()->second);
        timers_.erase(timers_.begin());
      }
      if (stopped_.load(std::memory_order_acquire)) return;
      task();
    }
  }

  int TimeoutMs() {
    std::lock_guard lock(mutex_);
    if (!tasks_.empty()) return 0;
    if (timers_.empty()) return -1;
    const nanoseconds left = timers_.begin()->first.first - Now();
    if (left <= nanoseconds(0)) return 0;
    // Rounded up: a timer must not run early, and a wait of 0 would spin.
    return static_cast<int>(std::min<int64_t>((left.count() + 999'999) / 1'000'000, 3'600'000));
  }

  void Wait() {
    std::array<epoll_event, 64> events;
    const int count = epoll_wait(epoll_fd_, events.data(), events.size(), TimeoutMs());
    for (int i = 0; i < count; ++i) {
      if (stopped_.load(std::memory_order_acquire)) return;
      if (events[i].data.u64 == kWakeToken) {
        uint64_t ignored = 0;
        (void)!read(wake_fd_, &ignored, sizeof ignored);
        continue;
      }
      // An earlier callback may have dropped this watch, and the number may be another file by now.
      const auto it = watches_.find(static_cast<int>(events[i].data.u64 & 0xffffffff));
      if (it == watches_.end() || it->second.generation != events[i].data.u64 >> 32) continue;
      uint32_t ready = 0;
      if ((events[i].events & (EPOLLIN | EPOLLRDHUP)) != 0) ready |= Lane::kReadable;
      if ((events[i].events & EPOLLOUT) != 0) ready |= Lane::kWritable;
      if ((events[i].events & (EPOLLERR | EPOLLHUP)) != 0) ready |= Lane::kError;
      it->second.handler->OnReady(ready);
    }
  }

  const std::string name_;
  int epoll_fd_ = -1;
  int wake_fd_ = -1;
  std::atomic<bool> stopped_{false};
  std::atomic<std::thread::id> thread_id_{};
  std::unordered_map<int, Watched> watches_;  // the lane's own
  uint32_t last_generation_ = 0;

  std::mutex mutex_;
  std::vector<Lane::Task> tasks_;  // guarded by mutex_, as the rest
  std::map<std::pair<nanoseconds, Lane::TimerId>, Lane::Task> timers_;
  std::unordered_map<Lane::TimerId, nanoseconds> due_;
  Lane::TimerId last_timer_ = 0;
};

class EpollLane : public Lane {
 public:
  EpollLane(std::string_view name, std::shared_ptr<EpollRuntime::Shared> shared)
      : core_(std::make_shared<LaneCore>(std::string(name))) {
    {
      std::lock_guard lock(shared->mutex);
      ++shared->threads;
    }
    thread_ = std::thread([core = core_, shared]() mutable {
      core->Run();
      core.reset();
      std::lock_guard lock(shared->mutex);
      --shared->threads;
      shared->ended.notify_all();
    });
  }
  ~EpollLane() override {
    core_->Stop();
    if (core_->OnThread()) {
      thread_.detach();
    } else {
      thread_.join();
    }
  }

  // What is posted may end the lane before the call that posted it has returned, so each call keeps
  // the core.
  void Post(Task task) override {
    const std::shared_ptr<LaneCore> core = core_;
    core->Post(std::move(task));
  }
  TimerId RunAfter(nanoseconds delay, Task task) override {
    const std::shared_ptr<LaneCore> core = core_;
    return core->RunAfter(delay, std::move(task));
  }
  void Cancel(TimerId timer) override { core_->Cancel(timer); }
  bool InLane() const override { return core_->OnThread(); }
  Status Watch(int fd, uint32_t events, FdHandler* handler) override {
    return core_->Watch(fd, events, handler);
  }
  void Unwatch(int fd) override { core_->Unwatch(fd); }

 private:
  std::shared_ptr<LaneCore> core_;
  std::thread thread_;
};

}  // namespace

EpollRuntime::EpollRuntime(LogSink log)
    : log_(std::move(log)), shared_(std::make_shared<Shared>()) {}

EpollRuntime::~EpollRuntime() {
  std::unique_lock lock(shared_->mutex);
  shared_->ended.wait(lock, [this] { return shared_->threads == 0; });
}

std::unique_ptr<Lane> EpollRuntime::NewLane(std::string_view name) {
  return std::make_unique<EpollLane>(name, shared_);
}

nanoseconds EpollRuntime::MonotonicNow() const { return Now(); }

int64_t EpollRuntime::WallMs() const {
  return std::chrono::duration_cast<std::chrono::milliseconds>(
             std::chrono::system_clock::now().time_since_epoch())
      .count();
}

uint64_t EpollRuntime::Random() {
  thread_local std::mt19937_64 generator{std::random_device{}()};
  return generator();
}

void EpollRuntime::Log(host::LogLevel level, std::string_view area,
                       std::string_view line) noexcept {
  if (log_) log_(level, area, line);
}

}  // namespace kmirror::net
