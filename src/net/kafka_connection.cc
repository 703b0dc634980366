#include "src/net/kafka_connection.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cassert>
#include <cerrno>
#include <cstring>
#include <utility>

#include "messages/api_versions.h"
#include "src/protocol/body.h"
#include "src/protocol/headers.h"

namespace kmirror::net {
namespace {

using fetcher::ConnectionCounters;
using fetcher::OutgoingRequest;
using fetcher::ResponseSink;

constexpr int kMarkMax = 1 << 20;
// A broker that is this far away gets room for so much on the way: 1 Gbit/s over 100 ms.
constexpr uint32_t kFarMicroseconds = 5000;
constexpr int kFarWindow = 16 << 20;
constexpr std::chrono::nanoseconds kLookInterval = std::chrono::seconds(1);
constexpr size_t kHeaderMaxBytes = 1024;  // Kafka's response headers carry no tags; a few are borne
constexpr int kReadsPerWake = 64;         // then other tasks of the lane have their turn
constexpr int16_t kFirstVersionsVersion = 3;  // brings features; older brokers refuse it and say so
constexpr size_t kGatherStep = 64 << 10;
constexpr size_t kGatherMaxBytes = 64 << 20;  // of an answer that is kept whole
constexpr size_t kAheadBytes = 16 << 10;  // received with a header

std::string ErrnoText(int error) { return std::strerror(error); }

int32_t ReadInt32(const uint8_t* at) {
  return static_cast<int32_t>(static_cast<uint32_t>(at[0]) << 24 |
                              static_cast<uint32_t>(at[1]) << 16 |
                              static_cast<uint32_t>(at[2]) << 8 | at[3]);
}

}  // namespace

// Keeps a whole answer in memory, and grows with what arrives rather than with what was announced.
class KafkaConnection::GatheringSink : public ResponseSink {
 public:
  explicit GatheringSink(Answer answer) : answer_(std::move(answer)) {}

  Status Begin(size_t) override { return {}; }
  std::span<uint8_t> Room(size_t left) override {
    const size_t step = std::min(left, std::max(kGatherStep, used_));
    if (bytes_.size() < used_ + step) bytes_.resize(used_ + step);
    return {bytes_.data() + used_, step};
  }
  Status Received(size_t bytes) override {
    used_ += bytes;
    return {};
  }
  void Done(Status status) override {
    bytes_.resize(used_);
    if (status.ok()) {
      answer_(std::move(bytes_));
    } else {
      answer_(std::move(status));
    }
  }

 private:
  Answer answer_;
  std::vector<uint8_t> bytes_;
  size_t used_ = 0;
};

KafkaConnection::KafkaConnection(host::Lane* lane, Resolver* resolver, Worker* files,
                                 fetcher::ConnectionOptions options)
    : lane_(lane),
      resolver_(resolver),
      files_(files),
      options_(std::move(options)),
      self_(std::make_shared<KafkaConnection*>(this)) {}

KafkaConnection::~KafkaConnection() {
  *self_ = nullptr;
  if (gone_ != nullptr) *gone_ = true;
  resolver_->Cancel(ticket_);
  files_->Cancel(files_ticket_);
  lane_->Cancel(timer_);
  lane_->Cancel(look_timer_);
  CloseSocket();
}

template <typename F>
bool KafkaConnection::Call(F&& callback) {
  bool gone = false;
  bool* const outer = gone_;
  gone_ = &gone;
  callback();
  if (gone) {
    if (outer != nullptr) *outer = true;
    return false;
  }
  gone_ = outer;
  return true;
}

// ---- Opening.

void KafkaConnection::Open(std::function<void(Status)> opened) {
  assert(state_ == State::kNew);
  state_ = State::kResolving;
  opened_ = std::move(opened);
  ArmTimer(options_.connect_timeout);
  if (options_.tls == nullptr) return Resolve();
  // Read anew each time: a certificate that was renewed in its file is used from then on.
  files_ticket_ = files_->Run(lane_, [self = self_, tls = options_.tls]() -> Worker::Answer {
    return [self, context = TlsContext::Load(*tls)] {
      if (*self != nullptr) (*self)->OnTlsContext(context);
    };
  });
}

void KafkaConnection::Resolve() {
  ticket_ = resolver_->Resolve(options_.endpoint, lane_,
                               [self = self_](Result<std::vector<SocketAddress>> addresses) {
                                 if (*self != nullptr) (*self)->OnResolved(std::move(addresses));
                               });
}

void KafkaConnection::OnResolved(Result<std::vector<SocketAddress>> addresses) {
  if (state_ != State::kResolving) return;
  ticket_ = 0;
  if (!addresses.ok()) return Fail(addresses.status());
  addresses_ = std::move(*addresses);
  state_ = State::kConnecting;
  ConnectNext();
}

void KafkaConnection::ConnectNext() {
  while (next_address_ < addresses_.size()) {
    const SocketAddress& address = addresses_[next_address_++];
    CloseSocket();
    fd_ = socket(address.storage.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd_ < 0) {
      last_error_ = {ErrorCode::kDisconnected, "socket: " + ErrnoText(errno)};
      continue;
    }
    const int on = 1;
    setsockopt(fd_, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    setsockopt(fd_, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
    if (options_.receive_buffer_bytes >= 0) {
      const int size = options_.receive_buffer_bytes;
      setsockopt(fd_, SOL_SOCKET, SO_RCVBUF, &size, sizeof size);
    }
    const int result =
        connect(fd_, reinterpret_cast<const sockaddr*>(&address.storage), address.size);
    if (result == 0 || errno == EINPROGRESS) {
      SetInterest(host::Lane::kWritable);
      return;
    }
    last_error_ = {ErrorCode::kDisconnected, "connect: " + ErrnoText(errno)};
  }
  Fail(last_error_);
}

void KafkaConnection::OnConnected() {
  int error = 0;
  socklen_t size = sizeof error;
  getsockopt(fd_, SOL_SOCKET, SO_ERROR, &error, &size);
  if (error != 0) {
    last_error_ = {ErrorCode::kDisconnected, "connect: " + ErrnoText(error)};
    return ConnectNext();
  }
  OpenWindowToFar();
  ArmTimer(options_.ready_timeout);
  SetInterest(host::Lane::kReadable);
  if (options_.tls != nullptr) return StartTls();
  BeginHandshake();
}

// The kernel lets a sender have more on the way as data arrives, at most twice as much each round
// trip. Over a long link that takes seconds, and a sender that measures the path meanwhile (BBR)
// keeps to what it saw for long after. A mark for reading makes room for itself in the buffer, and
// unlike SO_RCVBUF leaves the kernel's own sizing on. Near brokers keep small buffers: what stays
// in the processor's cache costs less.
void KafkaConnection::OpenWindowToFar() {
  if (options_.receive_buffer_bytes >= 0) return;
  tcp_info info{};
  socklen_t size = sizeof info;
  if (getsockopt(fd_, IPPROTO_TCP, TCP_INFO, &info, &size) != 0) return;
  if (info.tcpi_rtt < kFarMicroseconds) return;
  const int before = mark_;
  SetMark(kFarWindow);
  SetMark(before);
}

void KafkaConnection::BeginHandshake() {
  state_ = State::kHandshake;
  AskVersions(kFirstVersionsVersion);
}

void KafkaConnection::AskVersions(int16_t version) {
  protocol::ApiVersionsRequest request;
  if (version >= 3) {
    request.client_software_name = "kmirror";
    request.client_software_version = "0.1.0";
  }
  protocol::Writer body;
  if (Status status = protocol::Encode(request, version, body); !status.ok()) {
    return FailSoon(std::move(status));
  }
  Pending pending;
  pending.request = {protocol::ApiVersionsRequest::kApiKey, version, body.Flatten(),
                     options_.ready_timeout};
  pending.gather =
      std::make_unique<GatheringSink>([this, version](Result<std::vector<uint8_t>> answer) {
        if (!failing_) OnVersions(version, std::move(answer));
      });
  pending.sink = pending.gather.get();
  // Before anything an impatient owner has queued.
  queue_.push_front(std::move(pending));
  SendNext();
}

void KafkaConnection::OnVersions(int16_t version, Result<std::vector<uint8_t>> body) {
  if (!body.ok()) return FailSoon(body.status());
  const ByteView bytes(*body);
  const bool refused = bytes.size() >= 2 && bytes[0] == 0 &&
                       bytes[1] == static_cast<uint8_t>(ErrorCode::kUnsupportedVersion);
  protocol::ApiVersionsResponse response;
  // A broker that does not know our version answers in the oldest form.
  const int16_t form = refused ? int16_t{0} : version;
  Status status = protocol::DecodeBody(bytes, form, &response);
  if (refused && version > 0) {
    int16_t next = 0;
    if (status.ok()) {
      for (const auto& api : response.api_keys) {
        if (api.api_key == protocol::ApiVersionsRequest::kApiKey) {
          next = std::clamp<int16_t>(api.max_version, 0, static_cast<int16_t>(version - 1));
        }
      }
    }
    return AskVersions(next);
  }
  if (!status.ok()) return FailSoon(std::move(status));
  if (response.error_code != 0) {
    return FailSoon({static_cast<ErrorCode>(response.error_code), "ApiVersions refused"});
  }
  for (const auto& api : response.api_keys) {
    versions_.apis[api.api_key] = {api.min_version, api.max_version};
  }
  for (const auto& feature : response.finalized_features) {
    versions_.finalized_features[feature.name] = feature.max_version_level;
  }
  FinishOpen({});
}

void KafkaConnection::FinishOpen(Status status) {
  state_ = State::kOpen;
  auto opened = std::exchange(opened_, nullptr);
  // The caller goes on with this connection (FinishAnswer), so the owner is told a little later.
  lane_->Post([self = self_, opened = std::move(opened), status = std::move(status)] {
    if (*self == nullptr) return;
    opened((*self)->state_ == State::kOpen ? status : (*self)->last_error_);
  });
}

// ---- Requests.

void KafkaConnection::Ask(OutgoingRequest request, Answer answer) {
  Pending pending;
  pending.request = std::move(request);
  pending.gather = std::make_unique<GatheringSink>(std::move(answer));
  pending.sink = pending.gather.get();
  Enqueue(std::move(pending));
}

void KafkaConnection::Stream(OutgoingRequest request, ResponseSink* sink) {
  Pending pending;
  pending.request = std::move(request);
  pending.sink = sink;
  Enqueue(std::move(pending));
}

void KafkaConnection::Enqueue(Pending pending) {
  if (state_ == State::kClosed) {
    queue_.push_back(std::move(pending));
    FailSoon(last_error_);
    return;
  }
  queue_.push_back(std::move(pending));
  if (state_ == State::kOpen) SendNext();
}

void KafkaConnection::SendNext() {
  if (in_flight_ || queue_.empty() || fd_ < 0) return;
  const OutgoingRequest& request = queue_.front().request;
  correlation_ = correlation_ == INT32_MAX ? 1 : correlation_ + 1;
  protocol::Writer header;
  const size_t place = header.ReserveInt32();
  const protocol::RequestHeader fields{request.api_key, request.api_version, correlation_,
                                       options_.client_id};
  Status status = protocol::EncodeRequestHeader(fields, header);
  const size_t size = header.size() - 4 + request.body.size();
  if (status.ok()) status = protocol::FinishFrame(place, size, header);
  if (!status.ok()) return FailSoon(std::move(status));
  std::vector<uint8_t> frame = header.Flatten();
  frame.insert(frame.end(), request.body.begin(), request.body.end());
  if (tls_ == nullptr) {
    assert(options_.tls == nullptr);
    out_ = std::move(frame);
    out_sent_ = 0;
  } else {
    if (status = tls_->Write(frame); !status.ok()) return FailSoon(std::move(status));
    CollectSealed();
  }
  in_flight_ = true;
  header_.clear();
  if (state_ == State::kOpen) ArmTimer(request.timeout);
  Flush();
}

void KafkaConnection::Flush() {
  while (out_sent_ < out_.size()) {
    Count(&ConnectionCounters::sends);
    const ssize_t sent = send(fd_, out_.data() + out_sent_, out_.size() - out_sent_, MSG_NOSIGNAL);
    if (sent < 0) {
      if (errno == EINTR) continue;
      if (errno == EAGAIN || errno == EWOULDBLOCK) {
        SetInterest(host::Lane::kReadable | host::Lane::kWritable);
        return;
      }
      return FailSoon(WhySendFailed(errno));
    }
    out_sent_ += static_cast<size_t>(sent);
    progress_ = true;
  }
  out_.clear();
  out_sent_ = 0;
  SetInterest(paused_ ? 0 : host::Lane::kReadable);
}

void KafkaConnection::Resume() {
  if (!paused_ || fd_ < 0) return;
  paused_ = false;
  progress_ = true;
  ReadSoon();
}

void KafkaConnection::ReadSoon() {
  if (std::exchange(read_posted_, true)) return;
  lane_->Post([self = self_] {
    KafkaConnection* const connection = *self;
    if (connection == nullptr) return;
    connection->read_posted_ = false;
    if (connection->fd_ >= 0 && !connection->paused_) connection->ReadAvailable();
  });
}

// ---- Receiving.

void KafkaConnection::OnReady(uint32_t events) noexcept {
  Count(&ConnectionCounters::wakeups);
  if (state_ == State::kConnecting) {
    OnConnected();
    return;
  }
  if ((events & host::Lane::kWritable) != 0 && out_sent_ < out_.size()) Flush();
  if (fd_ < 0) return;
  if (state_ == State::kTls) return StepTls();
  if ((events & (host::Lane::kReadable | host::Lane::kError)) != 0) ReadAvailable();
}

void KafkaConnection::ReadAvailable() {
  for (int i = 0; i < kReadsPerWake; ++i) {
    if (!in_body_) {
      if (!ReadHeader()) return;
      continue;
    }
    bool would_block = false;
    if (!ReadBody(&would_block)) return;
    if (would_block) break;
  }
  if (HoldsBytes()) return ReadSoon();
  PrepareWait();
}

bool KafkaConnection::HoldsBytes() const {
  return tls_ != nullptr ? tls_->HasInput() : ahead_begin_ < ahead_end_;
}

bool KafkaConnection::ReceivedAll() const {
  return tls_ != nullptr ? tls_->InputWasFull() : ahead_end_ == kAheadBytes;
}

ssize_t KafkaConnection::Receive(uint8_t* to, size_t size) {
  if (tls_ != nullptr) return ReceiveSealed(to, size);
  if (ahead_begin_ == ahead_end_) {
    ahead_begin_ = ahead_end_ = 0;
    Count(&ConnectionCounters::receives);
    if (in_body_) return recv(fd_, to, size, MSG_DONTWAIT);
    ahead_.resize(kAheadBytes);
    const ssize_t got = recv(fd_, ahead_.data(), ahead_.size(), MSG_DONTWAIT);
    if (got <= 0) return got;
    ahead_end_ = static_cast<size_t>(got);
  }
  const size_t taken = std::min(size, ahead_end_ - ahead_begin_);
  std::memcpy(to, ahead_.data() + ahead_begin_, taken);
  ahead_begin_ += taken;
  return static_cast<ssize_t>(taken);
}

Status KafkaConnection::WhyReceiveFailed(int error) const {
  if (tls_ != nullptr && !tls_->error().ok()) return tls_->error();
  return {ErrorCode::kDisconnected, "receive: " + ErrnoText(error)};
}

bool KafkaConnection::ReadHeader() {
  // Size and correlation id, then what a flexible header adds, byte by byte: it is one byte.
  const bool flexible =
      in_flight_ && protocol::ResponseHeaderVersion(queue_.front().request.api_key,
                                                    queue_.front().request.api_version) >= 1;
  const size_t least = flexible ? 9 : 8;
  const size_t want = header_.size() < least ? least - header_.size() : 1;
  uint8_t bytes[16];
  const ssize_t got = Receive(bytes, want);
  if (got == 0) {
    // The whole of a TLS alert, in plain text: type 21, version 3.x, two bytes.
    const bool alert = tls_ == nullptr && state_ == State::kHandshake && header_.size() == 7 &&
                       header_[0] == 21 && header_[1] == 3;
    Fail({ErrorCode::kDisconnected,
          alert ? "closed by the broker: it wants TLS at that port (security.protocol)"
                : "closed by the broker"});
    return false;
  }
  if (got < 0) {
    if (errno == EINTR) return true;
    if (errno == EAGAIN || errno == EWOULDBLOCK) {
      PrepareWait();
      return false;
    }
    Fail(WhyReceiveFailed(errno));
    return false;
  }
  if (!in_flight_) {
    Fail({ErrorCode::kMalformed, "bytes that answer no request"});
    return false;
  }
  progress_ = true;
  header_.insert(header_.end(), bytes, bytes + got);
  if (header_.size() < least) return true;
  const int32_t size = ReadInt32(header_.data());
  const size_t most = queue_.front().gather == nullptr
                          ? options_.max_response_bytes
                          : std::min(options_.max_response_bytes, kGatherMaxBytes);
  if (size < static_cast<int32_t>(least - 4) || static_cast<uint64_t>(size) > most) {
    Fail({ErrorCode::kMalformed, "an answer of " + std::to_string(size) + " bytes"});
    return false;
  }
  if (ReadInt32(header_.data() + 4) != correlation_) {
    Fail({ErrorCode::kMalformed, "the answer to another request (" +
                                     std::to_string(ReadInt32(header_.data() + 4)) +
                                     " instead of " + std::to_string(correlation_) + ")"});
    return false;
  }
  if (flexible) {
    protocol::Reader tags(ByteView(header_).subspan(8));
    if (!tags.SkipTags() || tags.remaining() != 0) {
      if (header_.size() >= std::min<size_t>(kHeaderMaxBytes, static_cast<size_t>(size) + 4)) {
        Fail({ErrorCode::kMalformed, "tags of a response header that do not decode"});
        return false;
      }
      return true;  // one more byte
    }
  }
  body_left_ = static_cast<size_t>(size) + 4 - header_.size();
  header_.clear();
  in_body_ = true;
  ResponseSink* const sink = queue_.front().sink;
  Status status;
  if (!Call([&] { status = sink->Begin(body_left_); })) return false;
  if (!status.ok()) {
    Fail(std::move(status));
    return false;
  }
  if (body_left_ == 0) return FinishAnswer();
  return true;
}

bool KafkaConnection::ReadBody(bool* would_block) {
  ResponseSink* const sink = queue_.front().sink;
  std::span<uint8_t> room;
  if (!Call([&] { room = sink->Room(body_left_); })) return false;
  if (room.empty()) {
    paused_ = true;
    SetInterest(out_sent_ < out_.size() ? host::Lane::kWritable : 0);
    return false;
  }
  const size_t want = std::min(room.size(), body_left_);
  const ssize_t got = Receive(room.data(), want);
  if (got == 0) {
    Fail({ErrorCode::kDisconnected, "closed by the broker within an answer"});
    return false;
  }
  if (got < 0) {
    if (errno == EINTR) return true;
    if (errno == EAGAIN || errno == EWOULDBLOCK) {
      *would_block = true;
      return true;
    }
    Fail(WhyReceiveFailed(errno));
    return false;
  }
  progress_ = true;
  body_left_ -= static_cast<size_t>(got);
  Status status;
  if (!Call([&] { status = sink->Received(static_cast<size_t>(got)); })) return false;
  if (!status.ok()) {
    Fail(std::move(status));
    return false;
  }
  if (body_left_ == 0 && !FinishAnswer()) return false;
  // Wait for the mark instead of taking what trickles in, and for the next answer.
  *would_block = !HoldsBytes() && !ReceivedAll();
  return true;
}

bool KafkaConnection::FinishAnswer() {
  in_body_ = false;
  in_flight_ = false;
  Pending pending = std::move(queue_.front());
  queue_.pop_front();
  lane_->Cancel(timer_);
  timer_ = 0;
  if (!Call([&] { pending.sink->Done({}); })) return false;
  if (fd_ < 0) return false;
  if (state_ == State::kOpen) SendNext();
  return fd_ >= 0;
}

void KafkaConnection::PrepareWait() {
  int mark = 1;
  if (in_body_) {
    std::span<uint8_t> room;
    ResponseSink* const sink = queue_.front().sink;
    if (!Call([&] { room = sink->Room(body_left_); })) return;
    if (room.empty()) {
      paused_ = true;
      SetInterest(out_sent_ < out_.size() ? host::Lane::kWritable : 0);
      return;
    }
    mark = static_cast<int>(std::min({room.size(), body_left_, static_cast<size_t>(kMarkMax)}));
    if (tls_ != nullptr) {
      // At least as many bytes will come as are left, less what an incomplete record holds already.
      const size_t held = TlsStream::kRecordMaxBytes;
      const size_t coming = body_left_ > held ? body_left_ - held : 1;
      mark = static_cast<int>(std::min(coming, TlsStream::kInputMaxBytes));
    }
    LookSoon();
  }
  SetMark(mark);
  Count(&ConnectionCounters::option_calls);
  const int on = 1;
  setsockopt(fd_, IPPROTO_TCP, TCP_QUICKACK, &on, sizeof on);
  SetInterest(host::Lane::kReadable | (out_sent_ < out_.size() ? host::Lane::kWritable : 0));
}

void KafkaConnection::SetInterest(uint32_t events) {
  if (interest_ == events) return;
  if (events == 0) {
    lane_->Unwatch(fd_);
  } else if (Status status = lane_->Watch(fd_, events, this); !status.ok()) {
    return FailSoon(std::move(status));
  }
  interest_ = events;
}

void KafkaConnection::SetMark(int bytes) {
  if (bytes == mark_) return;
  Count(&ConnectionCounters::option_calls);
  if (setsockopt(fd_, SOL_SOCKET, SO_RCVLOWAT, &bytes, sizeof bytes) == 0) mark_ = bytes;
}

// ---- Time and failure.

void KafkaConnection::CloseSocket() {
  if (fd_ < 0) return;
  if (tls_ != nullptr) {
    // The peer learns why, or that this is the end and nobody cut the connection: if it fits.
    tls_->Close();
    CollectSealed();
    if (out_sent_ < out_.size()) {
      (void)!send(fd_, out_.data() + out_sent_, out_.size() - out_sent_,
                  MSG_NOSIGNAL | MSG_DONTWAIT);
    }
  }
  if (interest_ != 0) lane_->Unwatch(fd_);
  interest_ = 0;
  close(fd_);
  fd_ = -1;
}

void KafkaConnection::ArmTimer(std::chrono::nanoseconds delay) {
  lane_->Cancel(timer_);
  progress_ = false;
  timer_ = lane_->RunAfter(delay, [this] {
    timer_ = 0;
    OnTimer();
  });
}

void KafkaConnection::OnTimer() {
  if (state_ == State::kResolving || state_ == State::kConnecting) {
    return Fail(
        {ErrorCode::kTimedOut,
         "no connection within " + std::to_string(options_.connect_timeout.count()) + " ms"});
  }
  if (state_ == State::kTls) {
    return Fail({ErrorCode::kTimedOut, "no TLS handshake within " +
                                           std::to_string(options_.ready_timeout.count()) + " ms"});
  }
  if (!in_flight_) return;
  if (progress_ || paused_) return ArmTimer(queue_.front().request.timeout);
  Fail({ErrorCode::kTimedOut,
        "no answer within " + std::to_string(queue_.front().request.timeout.count()) + " ms"});
}

// The low-water mark is silent about less than it. What a slow broker has sent is progress all the
// same, and records that are here must not wait in the socket until there are enough of them.
void KafkaConnection::LookSoon() {
  if (look_timer_ != 0) return;
  const std::chrono::nanoseconds timeout = queue_.front().request.timeout;
  look_timer_ = lane_->RunAfter(std::min(kLookInterval, timeout / 2), [this] {
    look_timer_ = 0;
    if (!in_body_ || paused_ || fd_ < 0) return;  // the next wait within an answer looks again
    int waiting = 0;
    if (ioctl(fd_, FIONREAD, &waiting) == 0 && waiting > 0) return ReadAvailable();
    LookSoon();
  });
}

void KafkaConnection::FailSoon(Status status) {
  lane_->Post([self = self_, status = std::move(status)] {
    if (*self != nullptr) (*self)->Fail(status);
  });
}

void KafkaConnection::Fail(Status status) {
  if (status.code() == ErrorCode::kNone) status = {ErrorCode::kDisconnected, "closed"};
  if (state_ != State::kClosed) {
    status = status.WithContext(options_.endpoint.ToString());
    last_error_ = status;
  } else {
    status = last_error_;
  }
  const bool was_open = state_ == State::kOpen;
  state_ = State::kClosed;
  failing_ = true;
  resolver_->Cancel(ticket_);
  ticket_ = 0;
  lane_->Cancel(timer_);
  timer_ = 0;
  lane_->Cancel(look_timer_);
  look_timer_ = 0;
  files_->Cancel(files_ticket_);
  files_ticket_ = 0;
  CloseSocket();
  in_flight_ = false;
  in_body_ = false;
  paused_ = false;
  out_.clear();
  out_sent_ = 0;
  std::deque<Pending> queue = std::move(queue_);
  queue_.clear();
  for (Pending& pending : queue) {
    if (!Call([&] { pending.sink->Done(status); })) return;
  }
  if (auto opened = std::exchange(opened_, nullptr)) {
    if (!Call([&] { opened(status); })) return;
  }
  if (was_open && closed_) {
    auto closed = std::exchange(closed_, nullptr);
    Call([&] { closed(status); });
  }
}

}  // namespace kmirror::net
