#include "bench/reference/sender.h"

#include <arpa/inet.h>
#include <isa-l/crc.h>
#include <netinet/tcp.h>
#include <sched.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <vector>

namespace bench {
namespace {

void Put(uint8_t* at, uint64_t value, int bytes) {
  for (int i = 0; i < bytes; ++i) at[i] = static_cast<uint8_t>(value >> (8 * (bytes - 1 - i)));
}

// A batch header with a valid checksum; nobody looks inside the payload.
void MakeBatch(uint8_t* at, std::size_t size, uint64_t seed) {
  for (std::size_t i = 61; i + 8 <= size; i += 8) {
    seed ^= seed << 13;
    seed ^= seed >> 7;
    seed ^= seed << 17;
    std::memcpy(at + i, &seed, 8);
  }
  Put(at + 8, size - 12, 4);
  Put(at + 12, 0, 4);                       // leader epoch
  at[16] = 2;                               // magic
  Put(at + 21, 0, 2);                       // attributes
  Put(at + 23, kRecordsPerBatch - 1, 4);    // last offset delta
  Put(at + 27, 1'700'000'000'000, 8);
  Put(at + 35, 1'700'000'000'000, 8);
  Put(at + 43, ~uint64_t{0}, 8);            // no producer
  Put(at + 51, 0xffff, 2);
  Put(at + 53, 0xffffffff, 4);
  Put(at + 57, kRecordsPerBatch, 4);
  const uint32_t crc =
      ~crc32_iscsi(at + 21, static_cast<int>(size - 21), 0xffffffff);
  Put(at + 17, crc, 4);
}

bool SendAll(int fd, const uint8_t* at, std::size_t size) {
  while (size > 0) {
    const ssize_t sent = send(fd, at, size, MSG_NOSIGNAL);
    if (sent <= 0) return false;
    at += sent;
    size -= static_cast<std::size_t>(sent);
  }
  return true;
}

bool ReadAll(int fd, uint8_t* at, std::size_t size) {
  while (size > 0) {
    const ssize_t got = recv(fd, at, size, 0);
    if (got <= 0) return false;
    at += got;
    size -= static_cast<std::size_t>(got);
  }
  return true;
}

// ApiVersions v3: Fetch 12-16, ListOffsets 4-7, ApiVersions 0-3, OffsetForLeaderEpoch 2-4.
std::vector<uint8_t> VersionsAnswer(const uint8_t* correlation) {
  const int apis[][3] = {{1, 12, 16}, {2, 4, 7}, {18, 0, 3}, {23, 2, 4}};
  std::vector<uint8_t> out(4);
  out.insert(out.end(), correlation, correlation + 4);
  out.insert(out.end(), {0, 0, 5});
  for (const auto& api : apis) {
    for (const int value : api) {
      out.push_back(0);
      out.push_back(static_cast<uint8_t>(value));
    }
    out.push_back(0);
  }
  out.insert(out.end(), {0, 0, 0, 0, 0});
  Put(out.data(), out.size() - 4, 4);
  return out;
}

}  // namespace

std::size_t TotalBytes(const SenderOptions& options) {
  return options.total_bytes / options.batch_bytes * options.batch_bytes;
}

int Listen(uint16_t* port) {
  const int fd = socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  if (bind(fd, reinterpret_cast<sockaddr*>(&address), size) != 0 || listen(fd, 4) != 0 ||
      getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size) != 0) {
    std::abort();
  }
  *port = ntohs(address.sin_port);
  return fd;
}

void RunSender(int listen_fd, const SenderOptions& options) {
  cpu_set_t cpus;
  CPU_ZERO(&cpus);
  CPU_SET(options.cpu, &cpus);
  sched_setaffinity(0, sizeof cpus, &cpus);

  const std::size_t per_answer = options.answer_bytes / options.batch_bytes;
  std::vector<uint8_t> records(per_answer * options.batch_bytes);
  for (std::size_t i = 0; i < per_answer; ++i) {
    MakeBatch(records.data() + i * options.batch_bytes, options.batch_bytes, i + 1);
  }
  const std::size_t batches_in_all = TotalBytes(options) / options.batch_bytes;
  const uint64_t end = batches_in_all * kRecordsPerBatch;

  const int fd = accept(listen_fd, nullptr, nullptr);
  if (fd < 0) _exit(1);
  const int on = 1;
  setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  std::size_t sent_batches = 0;
  std::vector<uint8_t> request;
  for (;;) {
    uint8_t size[4];
    if (!ReadAll(fd, size, 4)) _exit(0);
    request.resize(static_cast<std::size_t>(size[0]) << 24 |
                   static_cast<std::size_t>(size[1]) << 16 |
                   static_cast<std::size_t>(size[2]) << 8 | size[3]);
    if (request.size() < 8 || !ReadAll(fd, request.data(), request.size())) _exit(0);
    if (request[1] == 18) {
      const std::vector<uint8_t> answer = VersionsAnswer(request.data() + 4);
      if (!SendAll(fd, answer.data(), answer.size())) _exit(0);
      continue;
    }
    const std::size_t batches = std::min(per_answer, batches_in_all - sent_batches);
    for (std::size_t i = 0; i < batches; ++i) {
      Put(records.data() + i * options.batch_bytes, (sent_batches + i) * kRecordsPerBatch, 8);
    }
    sent_batches += batches;
    const std::size_t bytes = batches * options.batch_bytes;
    if (batches == 0) {
      // Nothing more: as a long poll that found nothing.
      const timespec wait{0, 100'000'000};
      nanosleep(&wait, nullptr);
    }
    uint8_t head[kAnswerHeadBytes] = {};
    Put(head, kAnswerHeadBytes - 4 + bytes + kAnswerTailBytes, 4);
    std::memcpy(head + 4, request.data() + 4, 4);
    uint8_t* at = head + 9;                 // after the header's tags
    at += 4 + 2;                            // throttle, error
    Put(at, 1, 4);                          // session
    at += 4;
    *at++ = 2;                              // one topic
    std::memset(at, kTopicIdByte, 16);
    at += 16;
    *at++ = 2;                              // one partition
    at += 4 + 2;                            // index, error
    Put(at, end, 8);                        // high watermark
    Put(at + 8, end, 8);
    Put(at + 16, 0, 8);
    at += 24;
    *at++ = 0;                              // no aborted transactions
    Put(at, 0xffffffff, 4);                 // no preferred replica
    at += 4;
    const uint32_t plus_one = static_cast<uint32_t>(bytes) + 1;
    for (int i = 0; i < 4; ++i) {
      *at++ = static_cast<uint8_t>((plus_one >> (7 * i) & 0x7f) | (i < 3 ? 0x80 : 0));
    }
    const uint8_t tail[kAnswerTailBytes] = {};
    if (!SendAll(fd, head, sizeof head) || !SendAll(fd, records.data(), bytes) ||
        !SendAll(fd, tail, sizeof tail)) {
      _exit(0);
    }
  }
}

}  // namespace bench
