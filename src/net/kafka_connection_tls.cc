// What TLS adds to a connection: agreeing before the first request, and sealed bytes on both ways.
#include <sys/socket.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "src/net/kafka_connection.h"

namespace kmirror::net {
namespace {

using fetcher::ConnectionCounters;

constexpr size_t kSealedHeaderBytes = 4 << 10;  // to be expected while no answer is under way
constexpr int kLastReads = 64;                  // for what a broker said before it closed

}  // namespace

void KafkaConnection::OnTlsContext(Result<std::shared_ptr<const TlsContext>> context) {
  if (state_ != State::kResolving) return;
  files_ticket_ = 0;
  if (!context.ok()) return Fail(context.status());
  tls_context_ = std::move(*context);
  Resolve();
}

void KafkaConnection::StartTls() {
  state_ = State::kTls;
  auto stream = TlsStream::Create(tls_context_, options_.endpoint.host);
  if (!stream.ok()) return Fail(stream.status());
  tls_ = std::move(*stream);
  StepTls();
}

void KafkaConnection::StepTls() {
  for (;;) {
    const TlsStream::Outcome outcome = tls_->Handshake();
    CollectSealed();
    if (outcome == TlsStream::Outcome::kOk) {
      BeginHandshake();
      if (tls_->HasInput()) ReadSoon();
      return;
    }
    if (outcome != TlsStream::Outcome::kNeedsInput) {
      return Fail(tls_->error().ok() ? Status(ErrorCode::kDisconnected, "TLS: closed by the broker")
                                     : tls_->error());
    }
    Flush();
    const std::span<uint8_t> room = tls_->InputRoom(0);
    Count(&ConnectionCounters::receives);
    const ssize_t got = recv(fd_, room.data(), room.size(), MSG_DONTWAIT);
    if (got > 0) {
      tls_->Received(static_cast<size_t>(got));
      continue;
    }
    if (got < 0 && errno == EINTR) continue;
    if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return;
    // A broker that takes our first bytes for a request of its own protocol closes like this.
    const std::string why =
        got < 0 ? "receive: " + std::string(std::strerror(errno)) : "closed by the broker";
    return Fail({ErrorCode::kDisconnected,
                 "TLS: " + why + " within the handshake" +
                     (tls_->received_any()
                          ? ""
                          : ", before it said anything: does it speak TLS at that port?")});
  }
}

void KafkaConnection::CollectSealed() {
  if (!tls_->HasOutput()) return;
  out_.erase(out_.begin(), out_.begin() + static_cast<std::ptrdiff_t>(out_sent_));
  out_sent_ = 0;
  tls_->TakeOutput(&out_);
}

Status KafkaConnection::WhySendFailed(int error) {
  // What a broker said before it closed tells more than that it did: "certificate required", say.
  for (int i = 0; tls_ != nullptr && i < kLastReads; ++i) {
    uint8_t ignored[256];
    size_t got = 0;
    const TlsStream::Outcome outcome = tls_->Read(ignored, &got);
    if (outcome == TlsStream::Outcome::kFailed) return tls_->error();
    if (outcome == TlsStream::Outcome::kClosed) break;
    if (outcome == TlsStream::Outcome::kOk) continue;
    const std::span<uint8_t> room = tls_->InputRoom(0);
    const ssize_t bytes = recv(fd_, room.data(), room.size(), MSG_DONTWAIT);
    if (bytes <= 0) break;
    tls_->Received(static_cast<size_t>(bytes));
  }
  return {ErrorCode::kDisconnected, "send: " + std::string(std::strerror(error))};
}

ssize_t KafkaConnection::ReceiveSealed(uint8_t* to, size_t size) {
  // One receive at most, as with plain text: a peer that only ever sends what TLS keeps for itself
  // leaves the lane to others between two of them, and is no progress.
  for (bool received = false;; received = true) {
    size_t got = 0;
    switch (tls_->Read({to, size}, &got)) {
      case TlsStream::Outcome::kOk: return static_cast<ssize_t>(got);
      case TlsStream::Outcome::kClosed: return 0;
      case TlsStream::Outcome::kFailed: errno = EPROTO; return -1;
      case TlsStream::Outcome::kNeedsInput: break;
    }
    if (received) {
      errno = EAGAIN;
      return -1;
    }
    const std::span<uint8_t> room = tls_->InputRoom(in_body_ ? body_left_ : kSealedHeaderBytes);
    Count(&ConnectionCounters::receives);
    const ssize_t bytes = recv(fd_, room.data(), room.size(), MSG_DONTWAIT);
    if (bytes <= 0) return bytes;
    tls_->Received(static_cast<size_t>(bytes));
  }
}

}  // namespace kmirror::net
