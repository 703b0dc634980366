// fetcher::Connection over one TCP socket: see src/fetcher/transport.h for the contract.
//
// Reading follows what was measured against a real Kafka (docs/decisions, design.md): wait in
// epoll, then receive without blocking; while an answer is under way the low-water mark is the
// least of the room, the rest of the answer and 1 MiB, so that the wake-ups are few, and what
// waits below it is taken after a second; TCP_QUICKACK
// before every wait, since a sender of several sections would otherwise stall on our delayed ACK.
// An answer's beginning is received together with its header: a small one costs one call, and for a
// large one the copy of its first pages is nothing.
//
// With TLS options a TlsStream stands between the socket and all of that: it is made before the
// first byte is sent, and from then on nothing reaches the socket but what it gives out.
#pragma once

#include <sys/types.h>

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
#include "src/net/tls_context.h"
#include "src/net/tls_stream.h"
#include "src/net/worker.h"

namespace kmirror::net {

class KafkaConnection : public fetcher::Connection, private host::FdHandler {
 public:
  // All outlive the connection. `files` reads what the TLS options name.
  KafkaConnection(host::Lane* lane, Resolver* resolver, Worker* files,
                  fetcher::ConnectionOptions options);
  ~KafkaConnection() override;

  void Open(std::function<void(Status)> opened) override;
  bool IsOpen() const override { return state_ == State::kOpen; }
  const fetcher::BrokerVersions& versions() const override { return versions_; }
  void Ask(fetcher::OutgoingRequest request, Answer answer) override;
  void Stream(fetcher::OutgoingRequest request, fetcher::ResponseSink* sink) override;
  void Resume() override;
  void OnClosed(std::function<void(Status)> closed) override { closed_ = std::move(closed); }

 private:
  // kTls: agreeing on TLS; kHandshake: ApiVersions.
  enum class State : uint8_t { kNew, kResolving, kConnecting, kTls, kHandshake, kOpen, kClosed };
  class GatheringSink;
  struct Pending {
    fetcher::OutgoingRequest request;
    fetcher::ResponseSink* sink = nullptr;  // borrowed, or gather.get()
    std::unique_ptr<GatheringSink> gather;
  };

  void OnReady(uint32_t events) noexcept override;

  void OnTlsContext(Result<std::shared_ptr<const TlsContext>> context);
  void Resolve();
  void OnResolved(Result<std::vector<SocketAddress>> addresses);
  void ConnectNext();
  void OnConnected();
  void OpenWindowToFar();
  void StartTls();
  void StepTls();
  void BeginHandshake();
  void AskVersions(int16_t version);
  void OnVersions(int16_t version, Result<std::vector<uint8_t>> body);
  void FinishOpen(Status status);

  void Enqueue(Pending pending);
  // Puts the next request on the wire if none is in flight.
  void SendNext();
  void Flush();
  // Puts what the TLS stream has to say behind what is to be sent.
  void CollectSealed();
  Status WhySendFailed(int error);
  // recv(), without blocking. -1: WhyReceiveFailed() tells what errno alone cannot.
  ssize_t Receive(uint8_t* to, size_t size);
  // Whether there are received bytes that make no socket readable.
  bool HoldsBytes() const;
  // Whether the last receive took all it could, so that more is likely there.
  bool ReceivedAll() const;
  ssize_t ReceiveSealed(uint8_t* to, size_t size);
  Status WhyReceiveFailed(int error) const;
  // ReadAvailable, but not from here: reading calls back.
  void ReadSoon();
  void ReadAvailable();
  // False: the connection is gone, failed or paused; nothing more is to be done.
  bool ReadHeader();
  bool ReadBody(bool* would_block);
  bool FinishAnswer();
  void PrepareWait();
  void SetInterest(uint32_t events);
  void SetMark(int bytes);
  void Count(fetcher::ConnectionCounters::Counter fetcher::ConnectionCounters::*counter) {
    if (options_.counters == nullptr) return;
    fetcher::ConnectionCounters::Add((*options_.counters).*counter, 1);
  }

  void CloseSocket();
  void ArmTimer(std::chrono::nanoseconds delay);
  // Within an answer: whether something waits below the mark, each second.
  void LookSoon();
  void OnTimer();
  // Closes the socket and answers everything. May destroy this: touch nothing afterwards.
  void Fail(Status status);
  void FailSoon(Status status);
  // Runs a callback; false if it destroyed this connection.
  template <typename F>
  bool Call(F&& callback);

  host::Lane* const lane_;
  Resolver* const resolver_;
  Worker* const files_;
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
  Worker::Ticket files_ticket_ = 0;
  std::shared_ptr<const TlsContext> tls_context_;
  std::unique_ptr<TlsStream> tls_;  // null: plain text
  std::vector<SocketAddress> addresses_;
  size_t next_address_ = 0;
  Status last_error_;
  host::Lane::TimerId timer_ = 0;
  host::Lane::TimerId look_timer_ = 0;
  fetcher::BrokerVersions versions_;

  std::deque<Pending> queue_;
  bool in_flight_ = false;  // queue_.front() is on the wire
  int32_t correlation_ = 0;
  std::vector<uint8_t> out_;
  size_t out_sent_ = 0;
  bool progress_ = false;  // since the timer was last looked at

  // Receiving.
  std::vector<uint8_t> header_;
  std::vector<uint8_t> ahead_;  // what came with the last header: [ahead_begin_, ahead_end_)
  size_t ahead_begin_ = 0;
  size_t ahead_end_ = 0;
  bool in_body_ = false;
  size_t body_left_ = 0;
  bool paused_ = false;
  bool read_posted_ = false;
  bool failing_ = false;
};

}  // namespace kmirror::net
