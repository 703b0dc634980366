// fetcher::Connection over one TCP socket: see src/fetcher/transport.h for the contract.
//
// Reading follows what was measured against a real Kafka (docs/decisions, design.md): wait in
// epoll, then receive without blocking; while an answer is under way the low-water mark is the
// least of the room, the rest of the answer and 512 KiB, so that the wake-ups are few; TCP_QUICKACK
// before every wait, since a sender of several sections would otherwise stall on our delayed ACK.
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "kmirror/host/runtime.h"
#include "kmirror/status.h"
#include "src/fetcher/transport.h"
#include "src/net/resolver.h"

namespace kmirror::net {

class KafkaConnection : public fetcher::Connection, private host::FdHandler {
 public:
  // All outlive the connection.
  KafkaConnection(host::Lane* lane, Resolver* resolver, fetcher::ConnectionOptions options);
  ~KafkaConnection() override;

  void Open(std::function<void(Status)> opened) override;
  bool IsOpen() const override { return state_ == State::kOpen; }
  const fetcher::BrokerVersions& versions() const override { return versions_; }
  void Ask(fetcher::OutgoingRequest request, Answer answer) override;
  void Stream(fetcher::OutgoingRequest request, fetcher::ResponseSink* sink) override;
  void Resume() override;
  void OnClosed(std::function<void(Status)> closed) override { closed_ = std::move(closed); }

 private:
  enum class State : uint8_t { kNew, kResolving, kConnecting, kHandshake, kOpen, kClosed };
  class GatheringSink;
  struct Pending {
    fetcher::OutgoingRequest request;
    fetcher::ResponseSink* sink = nullptr;     // borrowed, or gather.get()
    std::unique_ptr<GatheringSink> gather;
  };

  void OnReady(uint32_t events) noexcept override;

  void OnResolved(Result<std::vector<SocketAddress>> addresses);
  void ConnectNext();
  void OnConnected();
  void OpenWindowToFar();
  void AskVersions(int16_t version);
  void OnVersions(int16_t version, Result<std::vector<uint8_t>> body);
  void FinishOpen(Status status);

  void Enqueue(Pending pending);
  // Puts the next request on the wire if none is in flight.
  void SendNext();
  void Flush();
  void ReadAvailable();
  // False: the connection is gone, failed or paused; nothing more is to be done.
  bool ReadHeader();
  bool ReadBody(bool* would_block);
  bool FinishAnswer();
  void PrepareWait();
  void SetInterest(uint32_t events);
  void SetMark(int bytes);

  void ArmTimer(std::chrono::nanoseconds delay);
  void OnTimer();
  // Closes the socket and answers everything. May destroy this: touch nothing afterwards.
  void Fail(Status status);
  void FailSoon(Status status);
  // Runs a callback; false if it destroyed this connection.
  template <typename F>
  bool Call(F&& callback);

  host::Lane* const lane_;
  Resolver* const resolver_;
  const fetcher::ConnectionOptions options_;
  std::shared_ptr<KafkaConnection*> self_;  // null inside once destroyed
  bool* gone_ = nullptr;                    // set by the destructor while a callback runs

  State state_ = State::kNew;
  int fd_ = -1;
  uint32_t interest_ = 0;
  int mark_ = 1;
  std::function<void(Status)> opened_;
  std::function<void(Status)> closed_;
  Resolver::Ticket ticket_ = 0;
  std::vector<SocketAddress> addresses_;
  size_t next_address_ = 0;
  Status last_error_;
  host::Lane::TimerId timer_ = 0;
  fetcher::BrokerVersions versions_;

  std::deque<Pending> queue_;
  bool in_flight_ = false;                  // queue_.front() is on the wire
  int32_t correlation_ = 0;
  std::vector<uint8_t> out_;
  size_t out_sent_ = 0;
  bool progress_ = false;                   // since the timer was last looked at

  // Receiving.
  std::vector<uint8_t> header_;
  bool in_body_ = false;
  size_t body_left_ = 0;
  bool paused_ = false;
  bool failing_ = false;
};

}  // namespace kmirror::net
