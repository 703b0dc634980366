#include "bench/client/client.h"

#include <arpa/inet.h>
#include <isa-l/crc.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <ctime>

namespace bench {
namespace {

// Records: attributes, time, offset, null key, value, no headers.
void PutVarint(std::vector<uint8_t>* to, int64_t value) {
  auto bits = static_cast<uint64_t>(value) << 1 ^ static_cast<uint64_t>(value >> 63);
  for (; bits >= 0x80; bits >>= 7) to->push_back(static_cast<uint8_t>(bits | 0x80));
  to->push_back(static_cast<uint8_t>(bits));
}

void PutRecord(std::vector<uint8_t>* to, int offset_delta, size_t value_bytes) {
  std::vector<uint8_t> body = {0, 0};  // attributes, time delta
  PutVarint(&body, offset_delta);
  PutVarint(&body, -1);
  PutVarint(&body, static_cast<int64_t>(value_bytes));
  for (size_t i = 0; i < value_bytes; ++i) body.push_back(static_cast<uint8_t>(i * 31));
  body.push_back(0);
  PutVarint(to, static_cast<int64_t>(body.size()));
  to->insert(to->end(), body.begin(), body.end());
}

void Wait(int fd, short events) {
  pollfd one{fd, events, 0};
  while (poll(&one, 1, -1) < 1) {
    if (errno != EINTR) Die("poll");
  }
}

}  // namespace

void Die(const char* what) {
  std::perror(what);
  std::exit(1);
}

void Fail(const std::string& what) {
  std::fprintf(stderr, "%s\n", what.c_str());
  std::exit(1);
}

double WallSeconds() {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

double CpuSeconds() {
  rusage usage;
  getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](timeval v) {
    return static_cast<double>(v.tv_sec) + static_cast<double>(v.tv_usec) * 1e-6;
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

void Put(std::vector<uint8_t>* to, int64_t value, int bytes) {
  to->resize(to->size() + static_cast<size_t>(bytes));
  StoreBig(to->data() + to->size() - static_cast<size_t>(bytes), value, bytes);
}

void PutString(std::vector<uint8_t>* to, std::string_view text) {
  Put(to, static_cast<int64_t>(text.size()), 2);
  to->insert(to->end(), text.begin(), text.end());
}

void StoreBig(uint8_t* at, int64_t value, int bytes) {
  for (int i = 0; i < bytes; ++i) {
    at[i] = static_cast<uint8_t>(static_cast<uint64_t>(value) >> (8 * (bytes - 1 - i)));
  }
}

int64_t LoadBig(const uint8_t* at, int bytes) {
  uint64_t value = (at[0] & 0x80) != 0 && bytes < 8 ? ~uint64_t{0} : 0;
  for (int i = 0; i < bytes; ++i) value = value << 8 | at[i];
  return static_cast<int64_t>(value);
}

std::vector<uint8_t> BeginRequest(int16_t key, int16_t version) {
  std::vector<uint8_t> frame;
  Put(&frame, 0, 4);
  Put(&frame, key, 2);
  Put(&frame, version, 2);
  Put(&frame, 1, 4);
  PutString(&frame, "bench");
  return frame;
}

void FinishRequest(std::vector<uint8_t>* frame) {
  StoreBig(frame->data(), static_cast<int64_t>(frame->size()) - 4, 4);
}

std::vector<uint8_t> MakeBatch(size_t bytes, int records, int64_t now_ms) {
  constexpr size_t kHeader = 61;
  constexpr size_t kCrcStart = 21;
  constexpr size_t kRecordBytes = 9;  // around a value of 64 to 8191 bytes
  const size_t value = (bytes - kHeader) / static_cast<size_t>(records) - kRecordBytes;
  std::vector<uint8_t> batch;
  Put(&batch, 0, 8);   // base offset
  Put(&batch, 0, 4);   // length
  Put(&batch, -1, 4);  // leader epoch
  Put(&batch, 2, 1);
  Put(&batch, 0, 4);            // checksum
  Put(&batch, 0, 2);            // attributes
  Put(&batch, records - 1, 4);  // last offset delta
  Put(&batch, now_ms, 8);
  Put(&batch, now_ms, 8);
  Put(&batch, -1, 8);  // producer
  Put(&batch, -1, 2);
  Put(&batch, -1, 4);
  Put(&batch, records, 4);
  for (int i = 0; i < records; ++i) PutRecord(&batch, i, value);
  StoreBig(batch.data() + 8, static_cast<int64_t>(batch.size()) - 12, 4);
  const uint32_t crc =
      ~crc32_iscsi(batch.data() + kCrcStart, static_cast<int>(batch.size() - kCrcStart), ~0u);
  StoreBig(batch.data() + 17, crc, 4);
  return batch;
}

Connection::Connection(const char* host, const char* port) {
  fd_ = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in to{};
  to.sin_family = AF_INET;
  to.sin_port = htons(static_cast<uint16_t>(std::atoi(port)));
  if (inet_pton(AF_INET, host, &to.sin_addr) != 1) Fail(std::string("not an address: ") + host);
  if (connect(fd_, reinterpret_cast<sockaddr*>(&to), sizeof to) != 0) Die("connect");
  const int on = 1;
  setsockopt(fd_, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
}

Connection::~Connection() { close(fd_); }

void Connection::Send(const uint8_t* bytes, size_t size) {
  while (size > 0) {
    const ssize_t sent = send(fd_, bytes, size, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent < 0 && errno == EAGAIN) {
      Wait(fd_, POLLOUT);
      continue;
    }
    if (sent <= 0) Die("send");
    bytes += sent;
    size -= static_cast<size_t>(sent);
  }
}

size_t Connection::Receive(uint8_t* to, size_t room, size_t mark) {
  if (const int wanted = static_cast<int>(mark); wanted != mark_) {
    setsockopt(fd_, SOL_SOCKET, SO_RCVLOWAT, &wanted, sizeof wanted);
    mark_ = wanted;
  }
  for (;;) {
    // Kafka sends a section in two writes and waits for the acknowledgement of the first.
    const int on = 1;
    setsockopt(fd_, IPPROTO_TCP, TCP_QUICKACK, &on, sizeof on);
    Wait(fd_, POLLIN);
    const ssize_t got = recv(fd_, to, room, MSG_DONTWAIT);
    if (got > 0) return static_cast<size_t>(got);
    if (got == 0) Fail("the broker closed the connection");
    if (errno != EAGAIN && errno != EINTR) Die("recv");
  }
}

}  // namespace bench
