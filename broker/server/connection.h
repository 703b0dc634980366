// One client connection: frames in, answers out, one request at a time.
//
// Requests that have come in together are answered together, if that is soon (MayHold). Records go
// from the file to the socket by sendfile; how that goes together with logs that are cut:
// docs/decisions/0011.
//
// Confined to its network thread, except that a Reply comes from anywhere. Owned by shared_ptr,
// since the kernel, a reply and the thread's set of connections may each be the last to know it.
#pragma once

#include <array>
#include <boost/asio/ip/tcp.hpp>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "broker/server/frame_handler.h"
#include "broker/server/network_thread.h"
#include "broker/server/request_memory.h"
#include "broker/server/socket_server.h"

namespace kmirror::broker {

// Where the connections of one thread receive. A connection has one only while it runs: what it has
// not used by then it keeps itself. Confined to the thread.
class ReceiveBuffers {
 public:
  static constexpr size_t kBytes = 64 * 1024;
  struct Buffer {
    std::array<uint8_t, kBytes> bytes;
  };

  std::unique_ptr<Buffer> Take() {
    if (spare_.empty()) return std::unique_ptr<Buffer>(new Buffer);  // not zeroed
    std::unique_ptr<Buffer> buffer = std::move(spare_.back());
    spare_.pop_back();
    return buffer;
  }
  void Give(std::unique_ptr<Buffer> buffer) { spare_.push_back(std::move(buffer)); }

 private:
  std::vector<std::unique_ptr<Buffer>> spare_;  // as many as ever ran within each other: one or two
};

class Connection final : public std::enable_shared_from_this<Connection> {
 public:
  static constexpr size_t kFileBufferBytes = 128 * 1024;
  struct Shared {  // of all connections of a thread; outlives them
    std::shared_ptr<NetworkThread> thread;
    FrameHandler* handler;
    RequestMemory* memory;
    SocketMetrics* metrics;
    int32_t request_bytes_max;
    ReceiveBuffers* buffers;
    std::span<uint8_t> file_buffer;  // the thread's; kFileBufferBytes
    std::function<void(Connection*)> on_closed;
    SocketServer::LogLine log;
  };

  Connection(boost::asio::ip::tcp::socket socket, std::shared_ptr<ConnectionInfo> info,
             Shared* shared);

  void Start();
  // Idempotent. on_closed runs inside.
  void Close(std::string_view reason);
  // No further request is read; closes now if none is in progress.
  void Drain();
  // Closes if a request waits for a client that has left. Seen at once as a rule (WatchPeer); this
  // finds clients that had sent more than is read ahead of a waiting request.
  void CloseIfAbandoned();
  // Since when nothing moved; nullopt while a request is being worked on.
  std::optional<std::chrono::steady_clock::time_point> idle_since() const;
  uint64_t id() const { return info_->id; }
  const std::string& peer() const { return info_->peer; }

 private:
  enum class State { kReading, kHandling, kWriting, kClosed };
  enum class Io { kDone, kAgain, kClosed };

  void Pump();
  bool Read();  // true: a frame is complete and with its handler
  Io Receive();
  void Dispatch();
  void WatchPeer();
  void ReadAhead();
  std::span<const uint8_t> Ahead() const;     // received past the last frame
  void Use(size_t bytes);                     // of Ahead()
  void Keep(std::span<const uint8_t> bytes);  // in stash_
  void DropUsedStash();
  void OnReadable();
  void TakeOutcome();
  bool MayHold() const;
  bool NextFrameIsHere() const;
  bool Write();  // true: the answers are out
  bool SendAnswers();
  Io SendSome();
  Io SendFile();
  Io Sent(ssize_t sent, size_t wanted);
  Io CloseShort();
  Io CloseCut();
  Io ReadFile(const protocol::FileSlice& file, size_t at, std::span<uint8_t> to);
  void DropAnswers();
  void WaitReadable();
  void WaitWritable();
  void PumpLater();

  boost::asio::ip::tcp::socket socket_;
  Shared* const shared_;
  const std::shared_ptr<ConnectionInfo> info_;
  State state_ = State::kReading;
  bool pumping_ = false;
  bool draining_ = false;
  bool read_wait_ = false;  // an async_wait is armed
  bool write_wait_ = false;
  bool out_of_memory_ = false;  // waiting for RequestMemory
  size_t budget_ = 0;           // bytes this round of the loop may still move
  std::chrono::steady_clock::time_point last_moved_;

  // While it runs: the thread's buffer, and what is left in it.
  std::unique_ptr<ReceiveBuffers::Buffer> buffer_;
  std::span<const uint8_t> input_;
  std::vector<uint8_t> stash_;  // what was left before; comes before input_, at most one buffer
  size_t stash_at_ = 0;
  std::unique_ptr<RequestFrame> frame_;

  std::optional<Outcome> outcome_;
  // Not out yet, the oldest first. Empty between two rounds unless writing or handling.
  std::vector<protocol::Writer> answers_;
  std::chrono::steady_clock::time_point oldest_answer_;
  std::vector<protocol::Writer::Chunk> chunks_;  // of the answers
  size_t chunk_ = 0;                             // the first that is not out
  size_t chunk_at_ = 0;                          // bytes of it that are
  bool socket_full_ = false;                     // it took less than it was given of these answers
};

}  // namespace kmirror::broker
