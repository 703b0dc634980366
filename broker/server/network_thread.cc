#include "broker/server/network_thread.h"

#include <pthread.h>

namespace kmirror::broker {
namespace {

class AsioTimer final : public Loop::Timer {
 public:
  AsioTimer(boost::asio::io_context& io, std::chrono::milliseconds delay, Loop::Task task)
      : timer_(io, delay), task_(std::make_shared<Loop::Task>(std::move(task))) {
    // The handler may already be queued when the timer is destroyed: the weak pointer decides.
    timer_.async_wait([weak = std::weak_ptr<Loop::Task>(task_)](boost::system::error_code error) {
      if (error) return;
      if (const std::shared_ptr<Loop::Task> live = weak.lock()) (*live)();
    });
  }

 private:
  boost::asio::steady_timer timer_;
  std::shared_ptr<Loop::Task> task_;
};

}  // namespace

NetworkThread::NetworkThread(std::string name)
    : name_(std::move(name)), work_(boost::asio::make_work_guard(io_)) {}

void NetworkThread::Start() {
  thread_ = std::thread([this] {
    pthread_setname_np(pthread_self(), name_.substr(0, 15).c_str());
    io_.run();
  });
}

void NetworkThread::Stop() {
  {
    const std::lock_guard lock(mutex_);
    if (stopped_) return;
    stopped_ = true;
  }
  io_.stop();
  if (thread_.joinable()) thread_.join();
}

void NetworkThread::Post(Task task) {
  const std::lock_guard lock(mutex_);
  if (stopped_) return;
  boost::asio::post(io_, std::move(task));
}

std::unique_ptr<Loop::Timer> NetworkThread::After(std::chrono::milliseconds delay, Task task) {
  return std::make_unique<AsioTimer>(io_, delay, std::move(task));
}

}  // namespace kmirror::broker
