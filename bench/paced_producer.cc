// Sends one small batch at each tick of a clock, waits for its acknowledgement, and notes when it
// came.
//
//   paced_producer HOST PORT TOPIC RATE COUNT BATCH_BYTES STAMPS
// acks=1, partition 0, Produce v7. STAMPS receives lines "OFFSET SENT_NANOSECONDS
// ACKED_NANOSECONDS" (CLOCK_MONOTONIC). A tick that is late is sent at once; the schedule does not
// drift.
#include <arpa/inet.h>
#include <isa-l/crc.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <string>
#include <vector>

namespace {

[[noreturn]] void Die(const char* what) {
  std::perror(what);
  std::exit(1);
}

int64_t Nanoseconds() {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec * 1'000'000'000 + now.tv_nsec;
}

class Bytes {
 public:
  Bytes& Int(uint64_t value, int bytes) {
    for (int i = bytes - 1; i >= 0; --i) out_.push_back(static_cast<uint8_t>(value >> (8 * i)));
    return *this;
  }
  Bytes& Varint(int64_t value) {
    uint64_t zigzag = static_cast<uint64_t>(value) << 1 ^ static_cast<uint64_t>(value >> 63);
    for (; zigzag >= 0x80; zigzag >>= 7) out_.push_back(static_cast<uint8_t>(zigzag | 0x80));
    out_.push_back(static_cast<uint8_t>(zigzag));
    return *this;
  }
  Bytes& Text(const std::string& text) {
    Int(text.size(), 2);
    out_.insert(out_.end(), text.begin(), text.end());
    return *this;
  }
  Bytes& Append(const Bytes& other) {
    out_.insert(out_.end(), other.out_.begin(), other.out_.end());
    return *this;
  }
  Bytes& Zeros(std::size_t count) {
    out_.resize(out_.size() + count);
    return *this;
  }
  std::size_t size() const { return out_.size(); }
  uint8_t* data() { return out_.data(); }

 private:
  std::vector<uint8_t> out_;
};

// One record that makes a batch of about `size` bytes.
Bytes Batch(std::size_t size) {
  const std::size_t value = size > 100 ? size - 80 : 20;
  Bytes record;
  record.Int(0, 1).Varint(0).Varint(0).Varint(-1).Varint(static_cast<int64_t>(value));
  record.Zeros(value).Varint(0);
  timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  const uint64_t ms =
      static_cast<uint64_t>(now.tv_sec) * 1000 + static_cast<uint64_t>(now.tv_nsec) / 1'000'000;
  Bytes covered;
  covered.Int(0, 2).Int(0, 4).Int(ms, 8).Int(ms, 8).Int(~uint64_t{0}, 8).Int(0xffff, 2);
  covered.Int(0xffffffff, 4).Int(1, 4).Varint(static_cast<int64_t>(record.size())).Append(record);
  const uint32_t crc = ~crc32_iscsi(covered.data(), static_cast<int>(covered.size()), 0xffffffff);
  Bytes batch;
  batch.Int(0, 8).Int(4 + 1 + 4 + covered.size(), 4).Int(0xffffffff, 4).Int(2, 1).Int(crc, 4);
  return batch.Append(covered);
}

void Exactly(int fd, uint8_t* at, std::size_t size) {
  while (size > 0) {
    const ssize_t got = recv(fd, at, size, 0);
    if (got <= 0) Die("recv");
    at += got;
    size -= static_cast<std::size_t>(got);
  }
}

uint64_t Get(const uint8_t* at, int bytes) {
  uint64_t value = 0;
  for (int i = 0; i < bytes; ++i) value = value << 8 | at[i];
  return value;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 8) {
    std::fprintf(stderr, "usage: paced_producer HOST PORT TOPIC RATE COUNT BATCH_BYTES STAMPS\n");
    return 2;
  }
  const std::string topic = argv[3];
  const int64_t period = 1'000'000'000 / std::strtol(argv[4], nullptr, 10);
  const int64_t count = std::strtol(argv[5], nullptr, 10);
  const Bytes batch = Batch(std::strtoul(argv[6], nullptr, 10));
  std::FILE* const stamps = std::fopen(argv[7], "w");
  if (stamps == nullptr) Die(argv[7]);

  Bytes request;
  request.Int(0, 2).Int(7, 2).Int(1, 4).Text("bench").Int(0xffff, 2).Int(1, 2).Int(30000, 4);
  request.Int(1, 4).Text(topic).Int(1, 4).Int(0, 4).Int(batch.size(), 4).Append(batch);
  Bytes frame;
  frame.Int(request.size(), 4).Append(request);

  const int fd = socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<uint16_t>(std::strtoul(argv[2], nullptr, 10)));
  if (inet_pton(AF_INET, argv[1], &address.sin_addr) != 1) Die("HOST is an IPv4 address");
  if (connect(fd, reinterpret_cast<sockaddr*>(&address), sizeof address) != 0) Die("connect");
  const int on = 1;
  setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);

  int64_t due = Nanoseconds();
  std::vector<uint8_t> answer;
  for (int64_t i = 0; i < count; ++i, due += period) {
    const timespec at{due / 1'000'000'000, due % 1'000'000'000};
    clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &at, nullptr);
    const int64_t sent = Nanoseconds();
    if (send(fd, frame.data(), frame.size(), MSG_NOSIGNAL) != static_cast<ssize_t>(frame.size())) {
      Die("send");
    }
    uint8_t size[4];
    Exactly(fd, size, sizeof size);
    answer.resize(Get(size, 4));
    Exactly(fd, answer.data(), answer.size());
    const int64_t acked = Nanoseconds();
    // correlation, topics, name, partitions, index, error, offset
    const std::size_t error_at = 4 + 4 + 2 + topic.size() + 4 + 4;
    if (answer.size() < error_at + 10) Die("a short answer");
    if (const uint64_t error = Get(answer.data() + error_at, 2); error != 0) {
      std::fprintf(stderr, "paced_producer: error %lu\n", error);
      return 1;
    }
    std::fprintf(stamps, "%ld %ld %ld\n", static_cast<long>(Get(answer.data() + error_at + 2, 8)),
                 sent, acked);
  }
  std::fclose(stamps);
  close(fd);
}
