// What it costs to send a piece of a file to a client, by the way it is sent (docs/decisions/0011).
//
//   send_ways FILE ANSWER_KIB CHUNK_KIB TOTAL_MIB ROUNDS [WAY...]
//     sendfile  at most a chunk a call
//     splice    through a pipe of a chunk
//     read      pread of a chunk into a buffer, send; what does not fit is read again
//     mapped    send from a mapping of the whole file, made once
//     window    send from a mapping of the answer, made and dropped with it
// One loopback connection, non-blocking, epoll when it is full; the client asks for one answer at a
// time and receives it whole, with a low-water mark. The file is in the page cache. Sender and
// client have a processor each. Prints a line a way: median and range of the sender's and the
// median of the client's CPU seconds a GiB, and of GB/s; the first round is not counted.
#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <sched.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <string>
#include <vector>

#include "bench/client/client.h"

namespace {

using bench::Die;

constexpr size_t kHeadBytes = 60;
constexpr size_t kTailBytes = 3;
constexpr off_t kFirstByte = 1237;  // batches never lie on page borders

void Pin(size_t cpu) {
  cpu_set_t cpus;
  CPU_ZERO(&cpus);
  CPU_SET(cpu, &cpus);
  sched_setaffinity(0, sizeof cpus, &cpus);
}

struct Setting {
  std::string way;
  size_t answer = 0;
  size_t chunk = 0;
  size_t total = 0;
  int file = -1;
  off_t file_bytes = 0;
};

class Sender {
 public:
  Sender(const Setting& setting, int fd) : setting_(setting), fd_(fd) {
    epoll_ = epoll_create1(0);
    epoll_event event{};
    event.events = EPOLLIN | EPOLLOUT | EPOLLET;
    if (epoll_ < 0 || epoll_ctl(epoll_, EPOLL_CTL_ADD, fd, &event) != 0) Die("epoll");
    buffer_.resize(setting.chunk);
    if (setting.way == "mapped") map_ = Map(0, static_cast<size_t>(setting.file_bytes), 0);
    if (setting.way == "splice") {
      if (pipe2(pipe_, O_NONBLOCK) != 0) Die("pipe");
      if (fcntl(pipe_[1], F_SETPIPE_SZ, setting.chunk) < 0) Die("F_SETPIPE_SZ");
    }
  }
  ~Sender() {
    if (map_ != nullptr) munmap(map_, static_cast<size_t>(setting_.file_bytes));
    for (const int end : pipe_) close(end);
    close(epoll_);
  }

  void Run() {
    size_t left = setting_.total;
    off_t at = kFirstByte;
    while (left > 0) {
      AwaitRequest();
      const auto answer = static_cast<off_t>(setting_.answer);
      if (at + answer > setting_.file_bytes) at = kFirstByte;
      Bytes(buffer_.data(), kHeadBytes, MSG_MORE);
      File(at, setting_.answer);
      Bytes(buffer_.data(), kTailBytes, 0);
      at += answer;
      left -= std::min(left, setting_.answer);
    }
  }

 private:
  unsigned char* Map(off_t at, size_t size, int flags) const {
    void* map = mmap(nullptr, size, PROT_READ, MAP_SHARED | flags, setting_.file, at);
    if (map == MAP_FAILED) Die("mmap");
    return static_cast<unsigned char*>(map);
  }
  void Wait() {
    epoll_event event;
    while (epoll_wait(epoll_, &event, 1, -1) < 1) {
    }
  }
  // Bytes that went; waits if there was room for none.
  size_t Went(ssize_t sent) {
    if (sent >= 0) return static_cast<size_t>(sent);
    if (errno != EAGAIN) Die("send");
    Wait();
    return 0;
  }
  void AwaitRequest() {
    char byte;
    while (recv(fd_, &byte, 1, MSG_DONTWAIT) != 1) {
      if (errno != EAGAIN) Die("recv");
      Wait();
    }
  }
  void Bytes(const unsigned char* bytes, size_t size, int flags) {
    while (size > 0) {
      const size_t went = Went(send(fd_, bytes, size, MSG_DONTWAIT | MSG_NOSIGNAL | flags));
      bytes += went;
      size -= went;
    }
  }
  void File(off_t at, size_t size) {
    if (setting_.way == "mapped") return FromMap(map_ + at, size);
    if (setting_.way == "window") {
      const off_t page = at & ~off_t{4095};
      const size_t whole = size + static_cast<size_t>(at - page);
      unsigned char* window = Map(page, whole, MAP_POPULATE);
      FromMap(window + (at - page), size);
      munmap(window, whole);
      return;
    }
    while (size > 0) {
      const size_t wanted = std::min(size, setting_.chunk);
      size_t went = 0;
      if (setting_.way == "sendfile") {
        off_t position = at;
        went = Went(sendfile(fd_, setting_.file, &position, wanted));
      } else if (setting_.way == "read") {
        if (pread(setting_.file, buffer_.data(), wanted, at) != static_cast<ssize_t>(wanted)) {
          Die("pread");
        }
        went = Went(send(fd_, buffer_.data(), wanted, MSG_DONTWAIT | MSG_NOSIGNAL | MSG_MORE));
      } else {
        went = Splice(at, wanted);
      }
      at += static_cast<off_t>(went);
      size -= went;
    }
  }
  void FromMap(const unsigned char* bytes, size_t size) {
    while (size > 0) {
      const size_t wanted = std::min(size, setting_.chunk);
      const size_t went = Went(send(fd_, bytes, wanted, MSG_DONTWAIT | MSG_NOSIGNAL | MSG_MORE));
      bytes += went;
      size -= went;
    }
  }
  size_t Splice(off_t at, size_t wanted) {
    const ssize_t in = splice(setting_.file, &at, pipe_[1], nullptr, wanted, SPLICE_F_NONBLOCK);
    if (in <= 0) Die("splice from the file");
    for (size_t left = static_cast<size_t>(in); left > 0;) {
      left -=
          Went(splice(pipe_[0], nullptr, fd_, nullptr, left, SPLICE_F_NONBLOCK | SPLICE_F_MORE));
    }
    return static_cast<size_t>(in);
  }

  const Setting& setting_;
  const int fd_;
  int epoll_ = -1;
  int pipe_[2] = {-1, -1};
  unsigned char* map_ = nullptr;
  std::vector<unsigned char> buffer_;
};

// Asks and receives; tells its CPU seconds at the end.
[[noreturn]] void RunClient(const Setting& setting, const std::string& port, int report) {
  Pin(1);
  bench::Connection connection("127.0.0.1", port.c_str());
  const size_t answer = kHeadBytes + setting.answer + kTailBytes;
  std::vector<uint8_t> buffer(answer);
  const double cpu = bench::CpuSeconds();
  for (size_t left = setting.total; left > 0; left -= std::min(left, setting.answer)) {
    connection.Send(buffer.data(), 1);
    for (size_t got = 0; got < answer;) {
      const size_t rest = answer - got;
      got += connection.Receive(buffer.data() + got, rest, std::min<size_t>(rest, 512u << 10));
    }
  }
  const double used = bench::CpuSeconds() - cpu;
  if (write(report, &used, sizeof used) != sizeof used) Die("write");
  _exit(0);
}

struct Result {
  double sender = 0;  // CPU seconds a GiB
  double client = 0;
  double rate = 0;  // GB/s
};

Result Run(const Setting& setting) {
  const int listening = socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  if (bind(listening, reinterpret_cast<sockaddr*>(&address), size) != 0 ||
      listen(listening, 1) != 0 ||
      getsockname(listening, reinterpret_cast<sockaddr*>(&address), &size) != 0) {
    Die("listen");
  }
  int report[2];
  if (pipe(report) != 0) Die("pipe");
  const pid_t client = fork();
  if (client == 0) RunClient(setting, std::to_string(ntohs(address.sin_port)), report[1]);
  const int fd = accept(listening, nullptr, nullptr);
  if (fd < 0) Die("accept");
  const int on = 1;
  setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  Pin(0);
  Result result;
  {
    Sender sender(setting, fd);
    const double wall = bench::WallSeconds();
    const double cpu = bench::CpuSeconds();
    sender.Run();
    if (read(report[0], &result.client, sizeof result.client) != sizeof result.client) Die("read");
    const double gib = static_cast<double>(setting.total) / (1u << 30);
    result.sender = (bench::CpuSeconds() - cpu) / gib;
    result.client /= gib;
    result.rate = static_cast<double>(setting.total) / (bench::WallSeconds() - wall) / 1e9;
  }
  waitpid(client, nullptr, 0);
  for (const int each : {fd, listening, report[0], report[1]}) close(each);
  return result;
}

double Median(std::vector<Result>* results, double Result::* field) {
  std::sort(results->begin(), results->end(),
            [field](const Result& a, const Result& b) { return a.*field < b.*field; });
  return (*results)[results->size() / 2].*field;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 6) {
    std::fprintf(stderr, "usage: send_ways FILE ANSWER_KIB CHUNK_KIB TOTAL_MIB ROUNDS [WAY...]\n");
    return 2;
  }
  Setting setting;
  setting.file = open(argv[1], O_RDONLY);
  struct stat status;
  if (setting.file < 0 || fstat(setting.file, &status) != 0) Die(argv[1]);
  setting.file_bytes = status.st_size;
  setting.answer = std::strtoul(argv[2], nullptr, 10) << 10;
  setting.chunk = std::strtoul(argv[3], nullptr, 10) << 10;
  setting.total = std::strtoul(argv[4], nullptr, 10) << 20;
  const int rounds = std::atoi(argv[5]);
  std::vector<std::string> ways(argv + 6, argv + argc);
  if (ways.empty()) ways = {"sendfile", "splice", "read", "mapped", "window"};

  std::map<std::string, std::vector<Result>> results;
  for (int round = 0; round <= rounds; ++round) {
    for (size_t i = 0; i < ways.size(); ++i) {
      setting.way = ways[(i + static_cast<size_t>(round)) % ways.size()];
      const Result result = Run(setting);
      if (round > 0) results[setting.way].push_back(result);
    }
  }
  for (const std::string& way : ways) {
    std::vector<Result>& all = results[way];
    const double client = Median(&all, &Result::client);
    const double rate = Median(&all, &Result::rate);
    const double sender = Median(&all, &Result::sender);
    std::printf("%-9s sender %.3f [%.3f .. %.3f]  client %.3f CPU s/GiB  %.2f GB/s\n", way.c_str(),
                sender, all.front().sender, all.back().sender, client, rate);
  }
}
