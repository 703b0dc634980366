// The reference: what a receive loop costs that does nothing but receive, check and write.
//
//   reference_loop receive|fill CHUNK_KIB TOTAL_MIB DIR
//     receive   write after every receive
//     fill      fill the buffer, then write
// Prints: BYTES CPU_SECONDS WALL_SECONDS (of the receiving thread).
//
// Same sender, same socket options as the product: epoll and a non-blocking receive, SO_RCVLOWAT by
// what is still to come, TCP_QUICKACK before each wait, CRC-32C of every byte, a new file
// preallocated 16 MiB ahead with KEEP_SIZE, file offsets that are not page-aligned. Frozen.
#include <arpa/inet.h>
#include <fcntl.h>
#include <isa-l/crc.h>
#include <netinet/tcp.h>
#include <sched.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <string>

#include "bench/reference/sender.h"

namespace {

[[noreturn]] void Die(const char* what) {
  std::perror(what);
  std::exit(1);
}

double Wall() {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

double Cpu() {
  rusage usage;
  getrusage(RUSAGE_THREAD, &usage);
  const auto seconds = [](timeval v) {
    return static_cast<double>(v.tv_sec) + static_cast<double>(v.tv_usec) * 1e-6;
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

class Receiver {
 public:
  Receiver(int fd, int file, std::size_t chunk, bool fill)
      : fd_(fd), file_(file), chunk_(chunk), fill_(fill) {
    epoll_ = epoll_create1(0);
    epoll_event event{};
    event.events = EPOLLIN;
    if (epoll_ < 0 || epoll_ctl(epoll_, EPOLL_CTL_ADD, fd, &event) != 0) Die("epoll");
    buffer_ = static_cast<unsigned char*>(mmap(nullptr, chunk, PROT_READ | PROT_WRITE,
                                               MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0));
    if (buffer_ == MAP_FAILED) Die("mmap");
  }

  // One answer; the bytes of its records.
  std::size_t Round() {
    unsigned char request[8 + 4] = {0, 0, 0, 8, 0, 1, 0, 16, 0, 0, 0, 1};
    if (send(fd_, request, sizeof request, 0) != sizeof request) Die("send");
    unsigned char head[bench::kAnswerHeadBytes];
    Exactly(head, sizeof head);
    const std::size_t frame = static_cast<std::size_t>(head[0]) << 24 |
                              static_cast<std::size_t>(head[1]) << 16 |
                              static_cast<std::size_t>(head[2]) << 8 | head[3];
    const std::size_t bytes = frame + 4 - sizeof head - bench::kAnswerTailBytes;
    std::size_t left = bytes;
    std::size_t used = 0;
    while (left > 0) {
      const std::size_t room = std::min(chunk_ - used, left);
      Wait(std::min<std::size_t>(room, 512u << 10));
      const ssize_t got = recv(fd_, buffer_ + used, room, MSG_DONTWAIT);
      if (got < 0 && errno == EAGAIN) continue;
      if (got <= 0) Die("recv");
      crc_ = crc32_iscsi(buffer_ + used, static_cast<int>(got), crc_);
      used += static_cast<std::size_t>(got);
      left -= static_cast<std::size_t>(got);
      if (!fill_ || used == chunk_ || left == 0) {
        Write(used);
        used = 0;
      }
    }
    unsigned char tail[bench::kAnswerTailBytes];
    Exactly(tail, sizeof tail);
    return bytes;
  }
  unsigned crc() const { return crc_; }

 private:
  void Wait(std::size_t mark) {
    const int value = static_cast<int>(mark);
    if (value != mark_) {
      setsockopt(fd_, SOL_SOCKET, SO_RCVLOWAT, &value, sizeof value);
      mark_ = value;
    }
    const int on = 1;
    setsockopt(fd_, IPPROTO_TCP, TCP_QUICKACK, &on, sizeof on);
    epoll_event event;
    while (epoll_wait(epoll_, &event, 1, -1) < 1) {
    }
  }
  void Exactly(unsigned char* at, std::size_t size) {
    while (size > 0) {
      const ssize_t got = recv(fd_, at, size, MSG_DONTWAIT);
      if (got < 0 && errno == EAGAIN) {
        Wait(1);
        continue;
      }
      if (got <= 0) Die("recv");
      at += got;
      size -= static_cast<std::size_t>(got);
    }
  }
  void Write(std::size_t size) {
    if (offset_ + static_cast<off_t>(size) > allocated_) {
      if (fallocate(file_, FALLOC_FL_KEEP_SIZE, allocated_, 16 << 20) != 0) Die("fallocate");
      allocated_ += 16 << 20;
    }
    if (pwrite(file_, buffer_, size, offset_) != static_cast<ssize_t>(size)) Die("pwrite");
    offset_ += static_cast<off_t>(size);
  }

  const int fd_;
  const int file_;
  const std::size_t chunk_;
  const bool fill_;
  int epoll_ = -1;
  int mark_ = 1;
  unsigned char* buffer_ = nullptr;
  unsigned crc_ = 0;
  off_t offset_ = 1237;  // batches never lie on page borders
  off_t allocated_ = 0;
};

}  // namespace

int main(int argc, char** argv) {
  if (argc != 5) {
    std::fprintf(stderr, "usage: reference_loop receive|fill CHUNK_KIB TOTAL_MIB DIR\n");
    return 2;
  }
  const bool fill = std::strcmp(argv[1], "fill") == 0;
  const std::size_t chunk = std::strtoul(argv[2], nullptr, 10) << 10;
  bench::SenderOptions options;
  options.total_bytes = std::strtoul(argv[3], nullptr, 10) << 20;
  const std::string path = std::string(argv[4]) + "/reference-" + std::to_string(getpid());

  uint16_t port = 0;
  const int listening = bench::Listen(&port);
  const pid_t sender = fork();
  if (sender == 0) bench::RunSender(listening, options);
  cpu_set_t cpus;
  CPU_ZERO(&cpus);
  CPU_SET(1, &cpus);
  sched_setaffinity(0, sizeof cpus, &cpus);
  const int fd = socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(port);
  if (connect(fd, reinterpret_cast<sockaddr*>(&address), sizeof address) != 0) Die("connect");
  const int on = 1;
  setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  const int file = open(path.c_str(), O_RDWR | O_CREAT | O_EXCL, 0600);
  if (file < 0) Die("open");

  Receiver receiver(fd, file, chunk, fill);
  const std::size_t total = bench::TotalBytes(options);
  const double wall = Wall();
  const double cpu = Cpu();
  std::size_t bytes = 0;
  while (bytes < total) bytes += receiver.Round();
  std::printf("%zu %.6f %.6f\n", bytes, Cpu() - cpu, Wall() - wall);
  std::fprintf(stderr, "crc %08x\n", receiver.crc());
  unlink(path.c_str());
  close(fd);
  waitpid(sender, nullptr, 0);
}
