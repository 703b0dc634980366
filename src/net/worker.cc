#include "src/net/worker.h"

#include <utility>

namespace kmirror::net {

Worker::~Worker() {
  {
    std::lock_guard lock(mutex_);
    stop_ = true;
    wake_.notify_all();
  }
  if (thread_.joinable()) thread_.join();
}

Worker::Ticket Worker::Run(host::Lane* lane, std::function<Answer()> call) {
  std::lock_guard lock(mutex_);
  const Ticket ticket = ++last_ticket_;
  queue_.push_back({ticket, lane, std::move(call)});
  if (!thread_.joinable()) thread_ = std::thread([this] { Loop(); });
  wake_.notify_all();
  return ticket;
}

void Worker::Cancel(Ticket ticket) {
  if (ticket == 0) return;
  std::lock_guard lock(mutex_);
  std::erase_if(queue_, [ticket](const Task& task) { return task.ticket == ticket; });
  if (running_ == ticket) running_ = 0;
}

void Worker::Loop() {
  std::unique_lock lock(mutex_);
  for (;;) {
    wake_.wait(lock, [this] { return stop_ || !queue_.empty(); });
    if (stop_) return;
    const Task task = std::move(queue_.front());
    queue_.pop_front();
    running_ = task.ticket;
    lock.unlock();
    Answer answer = task.call();
    lock.lock();
    if (running_ != task.ticket) continue;  // cancelled: its lane may be gone
    running_ = 0;
    task.lane->Post(std::move(answer));
  }
}

}  // namespace kmirror::net
