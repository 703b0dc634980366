#include "broker/server/connection.h"

#include <poll.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

namespace kmirror::broker {
namespace {

// What a connection may move before others of its thread have their turn.
constexpr size_t kBudgetBytes = 2 * 1024 * 1024;
constexpr size_t kPrefixBytes = 4;
constexpr int kIovecMax = 64;
// A piece of a file up to this goes through memory, in one call with what stands around it: cheaper
// than sendfile up to here, and half the work for the client, who is woken once. Less when the
// socket is full: what it has no room for is read again. The end of a greater piece goes that way,
// too.
constexpr size_t kReadBytes = 64 * 1024;
constexpr size_t kReadBytesWhenFull = 16 * 1024;
constexpr size_t kEndBytes = 1024;
// How many answers, and for how long the oldest, are held back for those of requests that have
// arrived: a send, and the client's waking up, cost as much as a small request itself.
constexpr size_t kAnswersHeld = 32;
constexpr std::chrono::microseconds kAnswerHeldFor{50};
// At least this much missing: received straight into the frame instead of through the scratch
// buffer.
constexpr size_t kDirectBytes = 16 * 1024;
// Read ahead of a request that waits, to see whether its client is still there.
constexpr size_t kAheadBytes = 16 * 1024;

uint32_t FrameSize(const uint8_t* prefix) {
  uint32_t size = 0;
  for (size_t i = 0; i < kPrefixBytes; ++i) size = size << 8 | prefix[i];
  return size;
}

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
  DropAnswers();
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
        if (more) {
          TakeOutcome();
        } else if (SendAnswers()) {
          WatchPeer();
        }
        break;
      case State::kWriting: more = Write(); break;
      case State::kClosed: break;
    }
  }
  pumping_ = false;
  if (state_ != State::kClosed) Keep(input_);
  input_ = {};
  if (buffer_) shared_->buffers->Give(std::move(buffer_));
}

bool Connection::Read() {
  while (state_ == State::kReading) {
    const std::span<const uint8_t> ahead = Ahead();
    if (!frame_) {
      if (ahead.size() >= kPrefixBytes) {
        const uint32_t size = FrameSize(ahead.data());
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
        Use(kPrefixBytes);
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
      if (out_of_memory_) {
        if (answers_.empty()) return false;
        state_ = State::kWriting;
        return true;
      }
      if (!ahead.empty()) {
        const size_t taken = std::min(ahead.size(), space.size());
        std::memcpy(space.data(), ahead.data(), taken);
        Use(taken);
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
  std::span<uint8_t> into;
  const bool direct = frame_ && frame_->missing() >= kDirectBytes;
  if (direct) {
    into = frame_->Space([] {});  // there is space: Read has just asked for it
  } else {
    Keep(std::exchange(input_, {}));  // a part of a size, at most
    if (!buffer_) buffer_ = shared_->buffers->Take();
    into = buffer_->bytes;
  }
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
  } else if (Ahead().empty()) {
    input_ = into.first(size);
  } else {
    Keep(into.first(size));
  }
  return Io::kDone;
}

std::span<const uint8_t> Connection::Ahead() const {
  return stash_at_ < stash_.size() ? std::span<const uint8_t>(stash_).subspan(stash_at_) : input_;
}

void Connection::Use(size_t bytes) {
  if (stash_at_ < stash_.size()) {
    stash_at_ += bytes;
  } else {
    input_ = input_.subspan(bytes);
  }
}

void Connection::Keep(std::span<const uint8_t> bytes) {
  if (bytes.empty()) return;
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
  if (info_->on_close && Ahead().size() < kAheadBytes) WaitReadable();
}

void Connection::OnReadable() {
  if (state_ != State::kHandling) {
    Pump();
  } else if (info_->on_close) {
    ReadAhead();
  }
}

void Connection::ReadAhead() {
  uint8_t bytes[kAheadBytes];
  while (Ahead().size() < kAheadBytes) {
    const std::span<uint8_t> into = std::span(bytes).first(kAheadBytes - Ahead().size());
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
      if (answers_.empty()) oldest_answer_ = std::chrono::steady_clock::now();
      answers_.push_back(std::move(outcome.answer));
      answers_.back().AppendChunks(&chunks_);
      break;
  }
  state_ = answers_.empty() || MayHold() ? State::kReading : State::kWriting;
  if (draining_ && answers_.empty()) Close("the broker stops");
}

// Whether the answers so far may wait for the next one: its request is here, and handled next.
bool Connection::MayHold() const {
  return !draining_ && !chunks_.back().is_file() && answers_.size() < kAnswersHeld &&
         NextFrameIsHere() && std::chrono::steady_clock::now() - oldest_answer_ < kAnswerHeldFor;
}

bool Connection::NextFrameIsHere() const {
  const std::span<const uint8_t> ahead = Ahead();
  if (ahead.size() < kPrefixBytes) return false;
  const uint32_t size = FrameSize(ahead.data());
  return size > 0 && size <= static_cast<uint32_t>(shared_->request_bytes_max) &&
         size <= ahead.size() - kPrefixBytes;
}

bool Connection::Write() {
  if (!SendAnswers()) return false;
  state_ = State::kReading;
  if (draining_) Close("the broker stops");
  return state_ != State::kClosed;
}

bool Connection::SendAnswers() {
  while (chunk_ < chunks_.size()) {
    if (budget_ == 0) {
      PumpLater();
      return false;
    }
    if (SendSome() != Io::kDone) return false;
  }
  DropAnswers();
  return true;
}

void Connection::DropAnswers() {
  chunks_.clear();
  answers_.clear();
  chunk_ = chunk_at_ = 0;
  socket_full_ = false;
}

// Bytes, and ends of files, in one call; else as much of a file as the round may move.
Connection::Io Connection::SendSome() {
  iovec pieces[kIovecMax];
  int count = 0;
  size_t total = 0;
  const size_t piece_max = socket_full_ ? kReadBytesWhenFull : kReadBytes;
  std::span<uint8_t> room = shared_->file_buffer;
  size_t index = chunk_;
  for (; index < chunks_.size() && count < kIovecMax; ++index) {
    const protocol::Writer::Chunk& chunk = chunks_[index];
    const size_t skip = index == chunk_ ? chunk_at_ : 0;
    const size_t size = chunk.size() - skip;
    if (!chunk.is_file()) {
      pieces[count++] = {const_cast<uint8_t*>(chunk.bytes.data()) + skip, size};
      total += size;
      continue;
    }
    if (size > std::min(room.size(), piece_max)) break;
    if (ReadFile(chunk.file, skip, room.first(size)) != Io::kDone) return Io::kClosed;
    pieces[count++] = {room.data(), size};
    room = room.subspan(size);
    total += size;
  }
  if (count == 0) return SendFile();
  msghdr message{};
  message.msg_iov = pieces;
  message.msg_iovlen = static_cast<size_t>(count);
  // The head of a section shares a packet with its records.
  const int more = index < chunks_.size() ? MSG_MORE : 0;
  return Sent(::sendmsg(socket_.native_handle(), &message, MSG_NOSIGNAL | more), total);
}

Connection::Io Connection::SendFile() {
  const protocol::FileSlice& file = chunks_[chunk_].file;
  if (!file.Intact()) return CloseCut();
  // The end goes with what follows it, and after the last question whether the log was cut.
  const size_t size = std::min(file.size - chunk_at_ - kEndBytes, budget_);
  off_t position = file.offset + static_cast<off_t>(chunk_at_);
  return Sent(::sendfile(socket_.native_handle(), file.fd, &position, size), size);
}

Connection::Io Connection::Sent(ssize_t sent, size_t wanted) {
  if (sent < 0) {
    if (errno == EINTR) return Io::kDone;
    if (WouldBlock(errno)) {
      socket_full_ = true;
      WaitWritable();
      return Io::kAgain;
    }
    Close(std::strerror(errno));
    return Io::kClosed;
  }
  if (sent == 0) return CloseShort();
  shared_->metrics->sent_bytes += sent;
  last_moved_ = std::chrono::steady_clock::now();
  auto left = static_cast<size_t>(sent);
  budget_ -= std::min(budget_, left);
  while (left > 0) {
    const size_t rest = chunks_[chunk_].size() - chunk_at_;
    if (left < rest) {
      chunk_at_ += left;
      break;
    }
    left -= rest;
    ++chunk_;
    chunk_at_ = 0;
  }
  if (static_cast<size_t>(sent) == wanted) return Io::kDone;
  // A full socket, or a file that became shorter: the next round tells.
  socket_full_ = true;
  WaitWritable();
  return Io::kAgain;
}

Connection::Io Connection::ReadFile(const protocol::FileSlice& file, size_t at,
                                    std::span<uint8_t> to) {
  off_t position = file.offset + static_cast<off_t>(at);
  while (!to.empty()) {
    const ssize_t got = ::pread(file.fd, to.data(), to.size(), position);
    if (got < 0 && errno == EINTR) continue;
    if (got == 0) return CloseShort();
    if (got < 0) {
      Close(std::strerror(errno));
      return Io::kClosed;
    }
    position += got;
    to = to.subspan(static_cast<size_t>(got));
  }
  return file.Intact() ? Io::kDone : CloseCut();
}

// The client gets an answer that is not whole, drops it, and asks again.
Connection::Io Connection::CloseShort() {
  Close("the segment became shorter while it was sent");
  return Io::kClosed;
}

Connection::Io Connection::CloseCut() {
  Close("the log was cut while an answer was sent");
  return Io::kClosed;
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
