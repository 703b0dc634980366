// One epoll loop on a thread of its own. The only place, with its users in .cc files, that sees
// Asio.
#pragma once

#include <atomic>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>

#include "broker/server/loop.h"

namespace kmirror::broker {

// Post and Stop are thread-safe, the rest belongs to the loop's thread.
class NetworkThread final : public Loop {
 public:
  explicit NetworkThread(std::string name);
  ~NetworkThread() override { Stop(); }

  void Start();
  // Runs what is ready no further, joins. Idempotent; not from the loop itself. Undone tasks are
  // dropped with the object.
  void Stop();

  boost::asio::io_context& io() { return io_; }
  bool InThread() const { return std::this_thread::get_id() == thread_.get_id(); }

  void Post(Task task) override;
  std::unique_ptr<Timer> After(std::chrono::milliseconds delay, Task task) override;

 private:
  const std::string name_;
  boost::asio::io_context io_{1};
  boost::asio::executor_work_guard<boost::asio::io_context::executor_type> work_;
  std::thread thread_;
  std::mutex mutex_;
  bool stopped_ = false;
};

}  // namespace kmirror::broker
