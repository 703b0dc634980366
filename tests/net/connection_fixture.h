// A connection over real sockets to a scripted broker, on a lane of its own.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <functional>
#include <future>
#include <memory>
#include <string>
#include <vector>

#include "src/net/epoll_runtime.h"
#include "src/net/tcp_transport.h"
#include "tests/net/broker_stub.h"

namespace kmirror::net::testing {

using namespace std::chrono_literals;
using fetcher::ConnectionOptions;
using fetcher::OutgoingRequest;
using fetcher::ResponseSink;
using Bytes = std::vector<uint8_t>;
constexpr auto kPatience = 20s;

// A streamed answer gathered into one buffer; may say "no room" now and then.
struct GatherAll : ResponseSink {
  Status Begin(size_t bytes) override {
    announced = bytes;
    return refuse ? Status(ErrorCode::kInvalidRequest, "not wanted") : Status();
  }
  std::span<uint8_t> Room(size_t left) override {
    if (rooms > 0 && --rooms == 0) {
      if (on_full) on_full();
      return {};
    }
    const size_t step = std::min(left, room_bytes);
    body.resize(used + step);
    return {body.data() + used, step};
  }
  Status Received(size_t bytes) override {
    used += bytes;
    return {};
  }
  void Done(Status status) override {
    body.resize(used);
    done.set_value(std::move(status));
  }
  size_t announced = 0, used = 0;
  size_t room_bytes = 1 << 20;
  int rooms = 0;  // asked so often, then there is none once
  bool refuse = false;
  Bytes body;
  std::function<void()> on_full;
  std::promise<Status> done;
};

class KafkaConnectionTest : public ::testing::Test {
 protected:
  KafkaConnectionTest() : runtime({}), lane(runtime.NewLane("test")) {}
  ~KafkaConnectionTest() override {
    OnLane([this] { connection.reset(); });
    lane.reset();
  }

  void OnLane(std::function<void()> what) {
    std::promise<void> done;
    lane->Post([&] {
      what();
      done.set_value();
    });
    done.get_future().wait();
  }
  ConnectionOptions To(int32_t port, const std::string& host = "127.0.0.1") {
    ConnectionOptions options;
    options.endpoint = {host, port};
    options.client_id = "test-client";
    return options;
  }
  Status Open(ConnectionOptions options) {
    std::promise<Status> opened;
    OnLane([&] {
      connection = transport.NewConnection(lane.get(), options);
      connection->OnClosed([this](Status status) { closed.set_value(std::move(status)); });
      connection->Open([&](Status status) { opened.set_value(std::move(status)); });
    });
    auto future = opened.get_future();
    if (future.wait_for(kPatience) != std::future_status::ready)
      return {ErrorCode::kTimedOut, "test"};
    return future.get();
  }
  static OutgoingRequest Fetch(Bytes body, std::chrono::milliseconds timeout = 30s) {
    return {1, 12, std::move(body), timeout};
  }
  Result<Bytes> Ask(OutgoingRequest request) {
    std::promise<Result<Bytes>> answer;
    OnLane([&] {
      connection->Ask(std::move(request),
                      [&](Result<Bytes> got) { answer.set_value(std::move(got)); });
    });
    return answer.get_future().get();
  }

  EpollRuntime runtime;
  TcpTransport transport;
  std::unique_ptr<host::Lane> lane;
  std::unique_ptr<fetcher::Connection> connection;
  std::promise<Status> closed;
};

// Echoes the body of each request, after the greeting.
inline void Echo(BrokerStub::Peer& peer) {
  if (!BrokerStub::Greet(peer)) return;
  BrokerStub::Request request;
  while (peer.Read(&request)) {
    // Key, version, correlation, client id, tags: what is left is the body.
    const size_t header = 8 + 2 + std::strlen("test-client") + 1;
    peer.Answer(
        request.correlation,
        Bytes(request.frame.begin() + static_cast<std::ptrdiff_t>(header), request.frame.end()),
        true);
  }
}

}  // namespace kmirror::net::testing
