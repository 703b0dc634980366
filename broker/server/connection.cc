#include "broker/server/connection.h"

#include <poll.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace kmirror::broker {
namespace {

// What a connection may move before others of its thread have their turn.
constexpr size_t kBudgetBytes = 2 * 1024 * 1024;
constexpr size_t kPrefixBytes = 4;
constexpr int kIovecMax = 16;
// At least this much missing: received straight into the frame instead of through the scratch
// buffer.
constexpr size_t kDirectBytes = 16 * 1024;
// Read ahead of a request that waits, to see whether its client is still there.
constexpr size_t kAheadBytes = 16 * 1024;

bool WouldBlock(int error) { return error == EAGAIN || error == EWOULDBLOCK; }

}  // namespace

Connection::Connection(boost::asio::ip::tcp::socket socket, std::shared_ptr<ConnectionInfo> info,
                       Shared* shared)
    : socket_(std::move(socket)),
      shared_(shared),
      info_(std::move(info)),
      last_moved_(std::chrono::steady_clock::now()) {}

void Connection::Start() {
  boost::system::error_code error;
  socket_.native_non_blocking(true, error);
  socket_.set_option(boost::asio::ip::tcp::no_delay(true), error);
  Pump();
}

void Connection::Close(std::string_view reason) {
  if (state_ == State::kClosed) return;
  const bool handling = state_ == State::kHandling;
  state_ = State::kClosed;
  if (shared_->log) {
    shared_->log("debug", "connection closed peer=" + info_->peer + " reason=\"" +
                              std::string(reason) + "\"");
  }
  boost::system::error_code ignored;
  socket_.close(ignored);
  frame_.reset();
  chunks_.clear();
  answer_ = protocol::Writer();
  if (handling && info_->on_close) {
    const std::function<void()> on_close = std::exchange(info_->on_close, nullptr);
    on_close();
  }
  shared_->on_closed(this);
}

void Connection::Drain() {
  draining_ = true;
  if (state_ == State::kReading) Close("the broker stops");
}

std::optional<std::chrono::steady_clock::time_point> Connection::idle_since() const {
  if (state_ == State::kHandling || state_ == State::kClosed || out_of_memory_) return std::nullopt;
  return last_moved_;
}

void Connection::Pump() {
  if (pumping_) return;
  const std::shared_ptr<Connection> self = shared_from_this();
  pumping_ = true;
  budget_ = kBudgetBytes;
  bool more = true;
  while (more && state_ != State::kClosed) {
    switch (state_) {
      case State::kReading: more = Read(); break;
      case State::kHandling:
        more = outcome_.has_value();
        if (more)
          TakeOutcome();
        else
          WatchPeer();
        break;
      case State::kWriting: more = Write(); break;
      case State::kClosed: break;
    }
  }
  pumping_ = false;
}

bool Connection::Read() {
  while (state_ == State::kReading) {
    const size_t stashed = stash_.size() - stash_at_;
    if (!frame_) {
      if (stashed >= kPrefixBytes) {
        uint32_t size = 0;
        for (size_t i = 0; i < kPrefixBytes; ++i) size = size << 8 | stash_[stash_at_ + i];
        if (size == 0 || size > static_cast<uint32_t>(shared_->request_bytes_max)) {
          ++shared_->metrics->closed_bad_frame;
          shared_->log(
              "warn",
              "request of an impossible size bytes=" + std::to_string(static_cast<int32_t>(size)) +
                  " peer=" + info_->peer + " limit=" + std::to_string(shared_->request_bytes_max) +
                  " next=\"connection closed\"");
          Close("impossible request size");
          return false;
        }
        stash_at_ += kPrefixBytes;
        frame_ = std::make_unique<RequestFrame>(size, shared_->memory);
        continue;
      }
    } else {
      const std::span<uint8_t> space =
          frame_->Space([weak = weak_from_this(), thread = std::weak_ptr(shared_->thread)] {
            const std::shared_ptr<NetworkThread> live = thread.lock();
            if (!live) return;
            live->Post([weak] {
              const std::shared_ptr<Connection> self = weak.lock();
              if (!self) return;
              self->out_of_memory_ = false;
              self->last_moved_ = std::chrono::steady_clock::now();
              self->Pump();
            });
          });
      out_of_memory_ = space.empty();
      if (out_of_memory_) return false;
      if (stashed > 0) {
        const size_t taken = std::min(stashed, space.size());
        std::memcpy(space.data(), stash_.data() + stash_at_, taken);
        stash_at_ += taken;
        frame_->Advance(taken);
        // A great frame may take long to come, and the rest of it comes straight into its memory.
        DropUsedStash();
        if (frame_->missing() == 0) {
          Dispatch();
          return true;
        }
        continue;
      }
    }
    if (Receive() != Io::kDone) return false;
    if (frame_ && frame_->missing() == 0) {
      Dispatch();
      return true;
    }
  }
  return state_ != State::kClosed;
}

Connection::Io Connection::Receive() {
  if (budget_ == 0) {
    PumpLater();
    return Io::kAgain;
  }
  std::span<uint8_t> into = shared_->scratch;
  const bool direct = frame_ && frame_->missing() >= kDirectBytes;
  if (direct) into = frame_->Space([] {});  // there is space: Read has just asked for it
  if (into.size() > budget_) into = into.first(budget_);
  const ssize_t got = ::recv(socket_.native_handle(), into.data(), into.size(), 0);
  if (got < 0) {
    if (errno == EINTR) return Io::kDone;
    if (WouldBlock(errno)) {
      WaitReadable();
      return Io::kAgain;
    }
    Close(std::strerror(errno));
    return Io::kClosed;
  }
  if (got == 0) {
    Close("closed by the client");
    return Io::kClosed;
  }
  const auto size = static_cast<size_t>(got);
  shared_->metrics->received_bytes += got;
  last_moved_ = std::chrono::steady_clock::now();
  budget_ -= std::min(budget_, size);
  if (direct) {
    frame_->Advance(size);
  } else {
    Keep(into.first(size));
  }
  return Io::kDone;
}

void Connection::Keep(std::span<const uint8_t> bytes) {
  stash_.erase(stash_.begin(), stash_.begin() + static_cast<ptrdiff_t>(stash_at_));
  stash_at_ = 0;
  stash_.insert(stash_.end(), bytes.begin(), bytes.end());
}

void Connection::DropUsedStash() {
  if (stash_at_ < stash_.size()) return;
  stash_.clear();
  stash_at_ = 0;
  if (stash_.capacity() > kDirectBytes) stash_.shrink_to_fit();
}

void Connection::Dispatch() {
  state_ = State::kHandling;
  DropUsedStash();
  shared_->handler->OnFrame(std::move(frame_), info_,
                            [weak = weak_from_this(), thread = shared_->thread](Outcome outcome) {
                              if (thread->InThread()) {
                                const std::shared_ptr<Connection> self = weak.lock();
                                if (!self || self->state_ != State::kHandling) return;
                                self->outcome_.emplace(std::move(outcome));
                                self->Pump();
                                return;
                              }
                              auto box = std::make_shared<Outcome>(std::move(outcome));
                              thread->Post([weak, box] {
                                const std::shared_ptr<Connection> self = weak.lock();
                                if (!self || self->state_ != State::kHandling) return;
                                self->outcome_.emplace(std::move(*box));
                                self->Pump();
                              });
                            });
}

// A client that goes away while its request waits should not leave the wait behind. The end of a
// client's sending cannot be told from its leaving, so a request that is merely being worked on is
// finished and answered, as by Kafka: `printf ... | nc` gets its answer.
void Connection::WatchPeer() {
  if (info_->on_close && stash_.size() - stash_at_ < kAheadBytes) WaitReadable();
}

void Connection::OnReadable() {
  if (state_ != State::kHandling) {
    Pump();
  } else if (info_->on_close) {
    ReadAhead();
  }
}

void Connection::ReadAhead() {
  while (stash_.size() - stash_at_ < kAheadBytes) {
    const size_t room = kAheadBytes - (stash_.size() - stash_at_);
    const std::span<uint8_t> into = shared_->scratch.first(std::min(room, shared_->scratch.size()));
    const ssize_t got = ::recv(socket_.native_handle(), into.data(), into.size(), 0);
    if (got > 0) {
      // The next request is there already; it is read on after this one.
      shared_->metrics->received_bytes += got;
      Keep(into.first(static_cast<size_t>(got)));
    } else if (got < 0 && errno == EINTR) {
      continue;
    } else if (got < 0 && WouldBlock(errno)) {
      return WaitReadable();
    } else {
      return Close("closed by the client while its request was waiting");
    }
  }
}

void Connection::CloseIfAbandoned() {
  if (state_ != State::kHandling || !info_->on_close) return;
  pollfd peer{socket_.native_handle(), POLLRDHUP, 0};
  if (::poll(&peer, 1, 0) > 0) Close("closed by the client while its request was waiting");
}

void Connection::TakeOutcome() {
  info_->on_close = nullptr;
  Outcome outcome = std::move(*outcome_);
  outcome_.reset();
  switch (outcome.kind) {
    case Outcome::kClose: Close(outcome.reason); return;
    case Outcome::kNothing: state_ = State::kReading; break;
    case Outcome::kSend:
      answer_ = std::move(outcome.answer);
      chunks_ = answer_.chunks();
      chunk_ = chunk_at_ = 0;
      state_ = State::kWriting;
      return;
  }
  if (draining_) Close("the broker stops");
}

bool Connection::Write() {
  while (chunk_ < chunks_.size()) {
    if (budget_ == 0) {
      PumpLater();
      return false;
    }
    if ((chunks_[chunk_].is_file() ? SendFile() : SendBytes()) != Io::kDone) return false;
  }
  chunks_.clear();
  answer_ = protocol::Writer();
  state_ = State::kReading;
  if (draining_) Close("the broker stops");
  return state_ != State::kClosed;
}

Connection::Io Connection::SendBytes() {
  iovec pieces[kIovecMax];
  int count = 0;
  size_t index = chunk_;
  for (; index < chunks_.size() && count < kIovecMax && !chunks_[index].is_file(); ++index) {
    const size_t skip = index == chunk_ ? chunk_at_ : 0;
    const ByteView rest = chunks_[index].bytes.subspan(skip);
    pieces[count++] = {const_cast<uint8_t*>(rest.data()), rest.size()};
  }
  msghdr message{};
  message.msg_iov = pieces;
  message.msg_iovlen = static_cast<size_t>(count);
  // The head of a section shares a packet with its records.
  const int more = index < chunks_.size() ? MSG_MORE : 0;
  const ssize_t sent = ::sendmsg(socket_.native_handle(), &message, MSG_NOSIGNAL | more);
  if (sent < 0) {
    if (errno == EINTR) return Io::kDone;
    if (WouldBlock(errno)) {
      WaitWritable();
      return Io::kAgain;
    }
    Close(std::strerror(errno));
    return Io::kClosed;
  }
  shared_->metrics->sent_bytes += sent;
  last_moved_ = std::chrono::steady_clock::now();
  auto left = static_cast<size_t>(sent);
  budget_ -= std::min(budget_, left);
  while (left > 0) {
    const size_t rest = chunks_[chunk_].bytes.size() - chunk_at_;
    if (left < rest) {
      chunk_at_ += left;
      break;
    }
    left -= rest;
    ++chunk_;
    chunk_at_ = 0;
  }
  return Io::kDone;
}

Connection::Io Connection::SendFile() {
  protocol::Writer::Chunk& chunk = chunks_[chunk_];
  off_t position = chunk.file.offset + static_cast<off_t>(chunk_at_);
  const size_t rest = chunk.file.size - chunk_at_;
  const ssize_t sent =
      ::sendfile(socket_.native_handle(), chunk.file.fd, &position, std::min(rest, budget_));
  if (sent < 0) {
    if (errno == EINTR) return Io::kDone;
    if (WouldBlock(errno)) {
      WaitWritable();
      return Io::kAgain;
    }
    Close(std::strerror(errno));
    return Io::kClosed;
  }
  if (sent == 0) {
    // The log was truncated below what this answer promised; the client will ask again.
    Close("the segment became shorter while it was sent");
    return Io::kClosed;
  }
  shared_->metrics->sent_bytes += sent;
  last_moved_ = std::chrono::steady_clock::now();
  const auto size = static_cast<size_t>(sent);
  budget_ -= std::min(budget_, size);
  chunk_at_ += size;
  if (chunk_at_ == chunk.file.size) {
    chunk.file.owner.reset();
    ++chunk_;
    chunk_at_ = 0;
  }
  return Io::kDone;
}

void Connection::WaitReadable() {
  if (read_wait_) return;
  read_wait_ = true;
  socket_.async_wait(boost::asio::ip::tcp::socket::wait_read,
                     [self = shared_from_this()](boost::system::error_code) {
                       self->read_wait_ = false;
                       if (self->state_ != State::kClosed) self->OnReadable();
                     });
}

void Connection::WaitWritable() {
  if (write_wait_) return;
  write_wait_ = true;
  socket_.async_wait(boost::asio::ip::tcp::socket::wait_write,
                     [self = shared_from_this()](boost::system::error_code) {
                       self->write_wait_ = false;
                       if (self->state_ != State::kClosed) self->Pump();
                     });
}

void Connection::PumpLater() {
  shared_->thread->Post([weak = weak_from_this()] {
    if (const std::shared_ptr<Connection> self = weak.lock()) self->Pump();
  });
}

}  // namespace kmirror::broker
