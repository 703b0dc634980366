#include "broker/server/socket_server.h"

#include <boost/asio/ip/tcp.hpp>
#include <condition_variable>
#include <mutex>
#include <unordered_map>
#include <utility>

#include "broker/server/connection.h"
#include "broker/server/network_thread.h"

namespace kmirror::broker {
namespace {

using boost::asio::ip::tcp;
using std::chrono::milliseconds;

constexpr milliseconds kAcceptRetry{100};
constexpr milliseconds kSweep{5000};  // at most, between two looks at all connections

HostPort AddressOf(const tcp::endpoint& endpoint) {
  return {endpoint.address().to_string(), endpoint.port()};
}

}  // namespace

class SocketServer::Impl {
 public:
  // A network thread and what belongs to it. `connections` is confined to the thread.
  struct Worker {
    std::shared_ptr<NetworkThread> thread;
    ReceiveBuffers buffers;
    std::vector<uint8_t> file_buffer;
    Connection::Shared shared;
    std::unordered_map<Connection*, std::shared_ptr<Connection>> connections;
    std::unique_ptr<Loop::Timer> sweep;
  };
  struct Listener {
    Listener(boost::asio::io_context& io, size_t number) : acceptor(io), index(number) {}
    tcp::acceptor acceptor;
    const size_t index;
    std::unique_ptr<Loop::Timer> retry;
  };

  Impl(const Options& options, FrameHandler* handler, LogLine log)
      : options_(options),
        handler_(handler),
        log_(std::move(log)),
        memory_(options.request_memory_bytes) {}

  Status Start(std::vector<HostPort>* addresses) {
    for (int32_t i = 0; i < std::max(1, options_.network_threads); ++i) AddWorker(i);
    for (const HostPort& wanted : options_.listeners) {
      if (Status bound = Bind(wanted, addresses); !bound.ok()) return bound;
    }
    for (const auto& worker : workers_) worker->thread->Start();
    started_ = true;
    return Status::Ok();
  }

  void Accept() {
    acceptor_worker().thread->Post([this] {
      for (const auto& listener : listeners_) AcceptNext(listener.get());
    });
    for (const auto& worker : workers_) {
      worker->thread->Post([this, w = worker.get()] { Sweep(w); });
    }
  }

  void Stop(milliseconds grace) {
    if (!started_ || std::exchange(stopped_, true)) return;
    Each([this](Worker* worker) {
      if (worker == &acceptor_worker()) {
        for (const auto& listener : listeners_) {
          boost::system::error_code ignored;
          listener->acceptor.close(ignored);
          listener->retry.reset();
        }
      }
      worker->sweep.reset();
      for (const auto& connection : Copy(*worker)) connection->Drain();
    });
    {
      std::unique_lock lock(mutex_);
      drained_.wait_for(lock, grace, [this] { return metrics_.connections == 0; });
    }
    Each([](Worker* worker) {
      for (const auto& connection : Copy(*worker)) connection->Close("the broker stops");
    });
    for (const auto& worker : workers_) worker->thread->Stop();
  }

  Loop* loop() { return workers_.front()->thread.get(); }
  const SocketMetrics& metrics() const { return metrics_; }
  int64_t memory_used() const { return memory_.used(); }

 private:
  Worker& acceptor_worker() { return *workers_.front(); }

  static std::vector<std::shared_ptr<Connection>> Copy(const Worker& worker) {
    std::vector<std::shared_ptr<Connection>> all;
    all.reserve(worker.connections.size());
    for (const auto& [key, connection] : worker.connections) all.push_back(connection);
    return all;
  }

  // Runs `task` on every worker's thread and waits for all.
  void Each(const std::function<void(Worker*)>& task) {
    std::mutex mutex;
    std::condition_variable done;
    size_t left = workers_.size();
    for (const auto& worker : workers_) {
      worker->thread->Post([&, w = worker.get()] {
        task(w);
        const std::lock_guard lock(mutex);
        if (--left == 0) done.notify_all();
      });
    }
    std::unique_lock lock(mutex);
    done.wait(lock, [&] { return left == 0; });
  }

  void AddWorker(int32_t index) {
    auto worker = std::make_unique<Worker>();
    worker->thread = std::make_shared<NetworkThread>("network-" + std::to_string(index));
    worker->file_buffer.resize(Connection::kFileBufferBytes);
    Worker* w = worker.get();
    worker->shared = {.thread = worker->thread,
                      .handler = handler_,
                      .memory = &memory_,
                      .metrics = &metrics_,
                      .request_bytes_max = options_.request_bytes_max,
                      .buffers = &worker->buffers,
                      .file_buffer = worker->file_buffer,
                      .on_closed = [this, w](Connection* connection) { Forget(w, connection); },
                      .log = log_};
    workers_.push_back(std::move(worker));
  }

  Status Bind(const HostPort& wanted, std::vector<HostPort>* addresses) {
    const auto fail = [&](const std::string& why) {
      return Status(ErrorCode::kIo, "cannot listen on " + wanted.ToString() + ": " + why);
    };
    boost::system::error_code error;
    tcp::endpoint endpoint(tcp::v4(), static_cast<uint16_t>(wanted.port));
    if (!wanted.host.empty() && wanted.host != "0.0.0.0") {
      const auto address = boost::asio::ip::make_address(wanted.host, error);
      if (error) {
        tcp::resolver resolver(acceptor_worker().thread->io());
        const auto found = resolver.resolve(wanted.host, std::to_string(wanted.port), error);
        if (error || found.empty())
          return fail("the host name does not resolve: " + error.message());
        endpoint = found.begin()->endpoint();
      } else {
        endpoint.address(address);
      }
    }
    auto listener = std::make_unique<Listener>(acceptor_worker().thread->io(), listeners_.size());
    tcp::acceptor& acceptor = listener->acceptor;
    acceptor.open(endpoint.protocol(), error);
    if (!error) acceptor.set_option(tcp::acceptor::reuse_address(true), error);
    // Before listen: accepted sockets inherit them, and the window scale depends on it.
    if (!error && options_.receive_buffer_bytes >= 0) {
      acceptor.set_option(
          boost::asio::socket_base::receive_buffer_size(options_.receive_buffer_bytes), error);
    }
    if (!error && options_.send_buffer_bytes >= 0) {
      acceptor.set_option(boost::asio::socket_base::send_buffer_size(options_.send_buffer_bytes),
                          error);
    }
    if (!error) acceptor.bind(endpoint, error);
    if (!error) acceptor.listen(options_.backlog, error);
    if (error) return fail(error.message());
    addresses->push_back(AddressOf(acceptor.local_endpoint(error)));
    listeners_.push_back(std::move(listener));
    return Status::Ok();
  }

  void AcceptNext(Listener* listener) {
    Worker* worker = workers_[next_worker_++ % workers_.size()].get();
    listener->acceptor.async_accept(
        worker->thread->io(),
        [this, listener, worker](boost::system::error_code error, tcp::socket socket) {
          if (!listener->acceptor.is_open()) return;
          if (error) {
            // Out of descriptors, usually: wait for some to be closed rather than spin.
            log_("warn", "accept failed reason=\"" + error.message() + "\" next=\"retried\"");
            listener->retry = acceptor_worker().thread->After(
                kAcceptRetry, [this, listener] { AcceptNext(listener); });
            return;
          }
          Admit(worker, listener->index, std::move(socket));
          AcceptNext(listener);
        });
  }

  void Admit(Worker* worker, size_t listener, tcp::socket socket) {
    boost::system::error_code error;
    const tcp::endpoint endpoint = socket.remote_endpoint(error);
    if (error) return;  // gone already
    const std::string ip = endpoint.address().to_string();
    {
      const std::lock_guard lock(mutex_);
      if (metrics_.connections >= options_.connections_max ||
          by_ip_[ip] >= options_.connections_max_per_ip) {
        if (by_ip_[ip] == 0) by_ip_.erase(ip);
        ++metrics_.refused;
        return;  // the socket closes here
      }
      ++by_ip_[ip];
      ++metrics_.connections;
    }
    ++metrics_.accepted;
    auto info = std::make_shared<ConnectionInfo>();
    info->id = ++connection_ids_;
    info->peer = AddressOf(endpoint).ToString();
    info->listener = listener;
    info->loop = worker->thread.get();
    auto box = std::make_shared<tcp::socket>(std::move(socket));
    worker->thread->Post([worker, box, info] {
      auto connection = std::make_shared<Connection>(std::move(*box), info, &worker->shared);
      worker->connections.emplace(connection.get(), connection);
      connection->Start();
    });
  }

  void Forget(Worker* worker, Connection* connection) {
    const std::string& peer = connection->peer();
    const std::string ip = peer.substr(0, peer.rfind(':'));
    worker->connections.erase(connection);
    const std::lock_guard lock(mutex_);
    if (auto found = by_ip_.find(ip); found != by_ip_.end() && --found->second == 0) {
      by_ip_.erase(found);
    }
    if (--metrics_.connections == 0) drained_.notify_all();
  }

  void Sweep(Worker* worker) {
    const bool idle_end = options_.idle_max.count() >= 0;
    const auto now = std::chrono::steady_clock::now();
    for (const auto& connection : Copy(*worker)) {
      connection->CloseIfAbandoned();
      const auto since = connection->idle_since();
      if (idle_end && since && now - *since >= options_.idle_max) {
        ++metrics_.closed_idle;
        connection->Close("idle");
      }
    }
    const milliseconds every =
        idle_end ? std::clamp(options_.idle_max / 4, milliseconds(10), kSweep) : kSweep;
    worker->sweep = worker->thread->After(every, [this, worker] { Sweep(worker); });
  }

  const Options options_;
  FrameHandler* const handler_;
  const LogLine log_;
  SocketMetrics metrics_;
  RequestMemory memory_;
  std::mutex mutex_;  // guards by_ip_ and admission
  std::condition_variable drained_;
  std::unordered_map<std::string, int32_t> by_ip_;
  std::vector<std::unique_ptr<Worker>> workers_;
  std::vector<std::unique_ptr<Listener>> listeners_;  // on the first worker's thread
  size_t next_worker_ = 0;
  uint64_t connection_ids_ = 0;
  bool started_ = false;
  bool stopped_ = false;
};

SocketServer::SocketServer(const Options& options, FrameHandler* handler, LogLine log)
    : impl_(std::make_unique<Impl>(options, handler, std::move(log))) {}

SocketServer::~SocketServer() { Stop(std::chrono::milliseconds(0)); }

Status SocketServer::Start() { return impl_->Start(&addresses_); }
void SocketServer::Accept() { impl_->Accept(); }
void SocketServer::Stop(std::chrono::milliseconds grace) { impl_->Stop(grace); }
Loop* SocketServer::loop() { return impl_->loop(); }
const SocketMetrics& SocketServer::metrics() const { return impl_->metrics(); }
int64_t SocketServer::request_memory_used() const { return impl_->memory_used(); }

}  // namespace kmirror::broker
