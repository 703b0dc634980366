// The reference for fetching from a real Kafka: a bare copier, one connection, nothing of the
// library.
//
//   kafka_copier HOST PORT TOPIC_ID_HEX END[,END...] ANSWER_BYTES DIR|- [STAMPS]
// Copies partitions 0.. of the topic from offset 0 until each has reached its END, into new files
// in DIR ("-": into nothing, to warm the broker). Prints: BYTES CPU_SECONDS WALL_SECONDS. STAMPS
// receives lines "END_OFFSET NANOSECONDS" (CLOCK_MONOTONIC) after each write of partition 0.
//
// Same requests and socket options as the product: Fetch v16 as a consumer, the partition limit
// equal to the answer's, epoll and non-blocking receives, SO_RCVLOWAT by what is still to come,
// TCP_QUICKACK before each wait; a walk over the batch headers, CRC-32C of every batch, whole
// batches written 512 KiB at a time to files preallocated 16 MiB ahead. Frozen, as reference_loop.
#include <arpa/inet.h>
#include <fcntl.h>
#include <isa-l/crc.h>
#include <netinet/tcp.h>
#include <sched.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <string>
#include <utility>
#include <vector>

namespace {

constexpr std::size_t kBuffer = 2u << 20;  // a run of 512 KiB and a batch of 1 MiB
constexpr std::size_t kRun = 512u << 10;
constexpr std::size_t kHeader = 61;  // of a batch
constexpr off_t kAhead = 16 << 20;

[[noreturn]] void Die(const char* what) {
  std::perror(what);
  std::exit(1);
}

[[noreturn]] void Refuse(const std::string& what) {
  std::fprintf(stderr, "kafka_copier: %s\n", what.c_str());
  std::exit(1);
}

int64_t Nanoseconds() {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec * 1'000'000'000 + now.tv_nsec;
}

double Cpu() {
  rusage usage;
  getrusage(RUSAGE_THREAD, &usage);
  const auto seconds = [](timeval v) {
    return static_cast<double>(v.tv_sec) + static_cast<double>(v.tv_usec) * 1e-6;
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

void Put(std::vector<uint8_t>* out, uint64_t value, int bytes) {
  for (int i = bytes - 1; i >= 0; --i) out->push_back(static_cast<uint8_t>(value >> (8 * i)));
}

uint64_t Get(const uint8_t* at, int bytes) {
  uint64_t value = 0;
  for (int i = 0; i < bytes; ++i) value = value << 8 | at[i];
  return value;
}

struct Partition {
  int64_t next = 0;
  int64_t end = 0;
  int file = -1;
  off_t position = 1237;  // batches never lie on page borders
  off_t allocated = 0;
};

class Copier {
 public:
  Copier(int fd, std::vector<uint8_t> topic_id, std::vector<Partition> partitions, uint32_t limit,
         std::FILE* stamps)
      : fd_(fd),
        topic_id_(std::move(topic_id)),
        partitions_(std::move(partitions)),
        limit_(limit),
        stamps_(stamps) {
    epoll_ = epoll_create1(0);
    epoll_event event{};
    event.events = EPOLLIN;
    if (epoll_ < 0 || epoll_ctl(epoll_, EPOLL_CTL_ADD, fd, &event) != 0) Die("epoll");
    buffer_ = static_cast<uint8_t*>(mmap(nullptr, kBuffer, PROT_READ | PROT_WRITE,
                                         MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0));
    if (buffer_ == MAP_FAILED) Die("mmap");
  }

  bool Complete() const {
    return std::ranges::all_of(partitions_, [](const Partition& p) { return p.next >= p.end; });
  }

  void Round() {
    SendFetch();
    left_ = 4;
    const std::size_t size = Int(4);
    left_ = size;
    Skip(4 + 1 + 4);  // correlation, tags, throttle
    if (const uint64_t error = Int(2); error != 0) Refuse("error " + std::to_string(error));
    Skip(4);
    for (uint64_t topics = Varint(); topics > 1; --topics) {
      Skip(16);
      for (uint64_t count = Varint(); count > 1; --count) Section();
      Tags();
    }
    Skip(left_);
  }

  std::size_t bytes() const { return bytes_; }

 private:
  void SendFetch() {
    std::vector<uint8_t> out(4);
    Put(&out, 1, 2);
    Put(&out, 16, 2);
    Put(&out, 1, 4);
    Put(&out, 0xffff, 2);  // no client id
    out.push_back(0);
    Put(&out, 500, 4);  // max wait
    Put(&out, 1, 4);
    Put(&out, limit_, 4);
    out.push_back(0);
    Put(&out, 0, 4);  // no session
    Put(&out, 0xffffffff, 4);
    out.push_back(2);
    out.insert(out.end(), topic_id_.begin(), topic_id_.end());
    const auto open = std::ranges::count_if(partitions_, [](auto& p) { return p.next < p.end; });
    out.push_back(static_cast<uint8_t>(open + 1));
    // The one that was served last comes last, as the product asks.
    for (std::size_t i = 0; i < partitions_.size(); ++i) {
      const std::size_t index = (first_ + i) % partitions_.size();
      if (partitions_[index].next >= partitions_[index].end) continue;
      Put(&out, index, 4);
      Put(&out, 0xffffffff, 4);
      Put(&out, static_cast<uint64_t>(partitions_[index].next), 8);
      Put(&out, 0xffffffff, 4);
      Put(&out, ~uint64_t{0}, 8);
      Put(&out, limit_, 4);
      out.push_back(0);
    }
    out.insert(out.end(), {0, 1, 1, 0});
    const std::size_t size = out.size() - 4;
    for (int i = 0; i < 4; ++i) out[static_cast<std::size_t>(i)] = size >> (8 * (3 - i)) & 0xff;
    if (send(fd_, out.data(), out.size(), MSG_NOSIGNAL) != static_cast<ssize_t>(out.size())) {
      Die("send");
    }
  }

  void Section() {
    const std::size_t index = Int(4);
    if (index >= partitions_.size()) Refuse("a partition nobody asked for");
    Partition& partition = partitions_[index];
    if (const uint64_t error = Int(2); error != 0) Refuse("error " + std::to_string(error));
    Skip(24);
    for (uint64_t aborted = Varint(); aborted > 1; --aborted) {
      Skip(16);
      Tags();
    }
    Skip(4);
    const uint64_t plus_one = Varint();
    if (plus_one > 1) {
      Records(&partition, plus_one - 1);
      first_ = index + 1;
    }
    Tags();
  }

  void Records(Partition* partition, std::size_t left) {
    std::size_t run = 0;  // whole batches in front of begin_, not yet written
    while (left > 0) {
      const std::size_t here = std::min(end_ - begin_, left);
      const uint8_t* at = buffer_ + begin_;
      const std::size_t size = here >= 12 ? Get(at + 8, 4) + 12 : 0;
      if (size != 0 && size < kHeader) Refuse("a batch header that cannot be");
      if (size > left || (here == left && here < std::max(size, kHeader))) {
        Write(partition, &run);
        Skip(left);
        return;
      }
      if (size == 0 || here < size) {
        if (run >= kRun || end_ == kBuffer) Write(partition, &run);
        Receive(run);
        continue;
      }
      const uint32_t crc =
          ~crc32_iscsi(const_cast<uint8_t*>(at) + 21, static_cast<int>(size - 21), 0xffffffff);
      if (crc != Get(at + 17, 4)) Refuse("checksum mismatch");
      partition->next = static_cast<int64_t>(Get(at, 8) + Get(at + 23, 4)) + 1;
      begin_ += size;
      left_ -= size;
      left -= size;
      run += size;
      bytes_ += size;
      if (run >= kRun) Write(partition, &run);
    }
    Write(partition, &run);
  }

  void Write(Partition* partition, std::size_t* run) {
    const std::size_t size = std::exchange(*run, 0);
    if (size == 0 || partition->file < 0) return;
    if (partition->position + static_cast<off_t>(size) > partition->allocated) {
      const off_t from = partition->allocated;
      if (fallocate(partition->file, FALLOC_FL_KEEP_SIZE, from, kAhead) != 0) Die("fallocate");
      partition->allocated += kAhead;
    }
    if (pwrite(partition->file, buffer_ + begin_ - size, size, partition->position) !=
        static_cast<ssize_t>(size)) {
      Die("pwrite");
    }
    partition->position += static_cast<off_t>(size);
    if (stamps_ != nullptr && partition == partitions_.data()) {
      std::fprintf(stamps_, "%ld %ld\n", partition->next, Nanoseconds());
      if (!std::exchange(stamped_, true))
        std::fflush(stamps_);  // whoever waits for the start sees it
    }
  }

  // One receive behind end_. `keep` bytes in front of begin_ must stay.
  void Receive(std::size_t keep) {
    const std::size_t from = begin_ - keep;
    if (from == end_) {
      begin_ = end_ = 0;
    } else if (end_ == kBuffer) {
      if (from == 0) Refuse("a batch greater than the buffer");
      std::memmove(buffer_, buffer_ + from, end_ - from);
      begin_ = keep;
      end_ -= from;
    }
    // What of the frame is still on its way; one byte between frames.
    const std::size_t waiting = left_ > end_ - begin_ ? left_ - (end_ - begin_) : 1;
    const std::size_t room = kBuffer - end_;
    for (;;) {
      Wait(std::min({room, waiting, kRun}));
      const ssize_t got = recv(fd_, buffer_ + end_, std::min(room, kRun * 2), MSG_DONTWAIT);
      if (got < 0 && errno == EAGAIN) continue;
      if (got <= 0) Die("recv");
      end_ += static_cast<std::size_t>(got);
      return;
    }
  }

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

  // `size` bytes at begin_, which the caller then takes.
  const uint8_t* Need(std::size_t size) {
    if (size > left_) Refuse("the answer ends too early");
    while (end_ - begin_ < size) Receive(0);
    return buffer_ + begin_;
  }
  uint64_t Int(int bytes) {
    const uint64_t value = Get(Need(static_cast<std::size_t>(bytes)), bytes);
    Take(static_cast<std::size_t>(bytes));
    return value;
  }
  uint64_t Varint() {
    uint64_t value = 0;
    for (int shift = 0;; shift += 7) {
      const uint64_t byte = Int(1);
      value |= (byte & 0x7f) << shift;
      if ((byte & 0x80) == 0) return value;
      if (shift > 28) Refuse("a varint that is too long");
    }
  }
  void Tags() {
    for (uint64_t count = Varint(); count > 0; --count) {
      Varint();
      Skip(Varint());
    }
  }
  void Skip(std::size_t size) {
    while (size > 0) {
      if (begin_ == end_) Receive(0);
      const std::size_t step = std::min(size, end_ - begin_);
      Take(step);
      size -= step;
    }
  }
  void Take(std::size_t size) {
    begin_ += size;
    left_ -= size;
  }

  const int fd_;
  const std::vector<uint8_t> topic_id_;
  std::vector<Partition> partitions_;
  const uint32_t limit_;
  std::FILE* const stamps_;
  bool stamped_ = false;
  int epoll_ = -1;
  int mark_ = 1;
  uint8_t* buffer_ = nullptr;
  std::size_t begin_ = 0;  // first byte not yet taken
  std::size_t end_ = 0;
  std::size_t left_ = 0;  // of the frame, not yet taken
  std::size_t first_ = 0;
  std::size_t bytes_ = 0;
};

}  // namespace

int main(int argc, char** argv) {
  if (argc != 7 && argc != 8) {
    std::fprintf(stderr,
                 "usage: kafka_copier HOST PORT TOPIC_ID_HEX END[,END...] ANSWER_BYTES "
                 "DIR|- [STAMPS]\n");
    return 2;
  }
  std::vector<uint8_t> topic_id;
  for (const char* at = argv[3]; at[0] != 0 && at[1] != 0; at += 2) {
    topic_id.push_back(static_cast<uint8_t>(std::stoi(std::string(at, 2), nullptr, 16)));
  }
  if (topic_id.size() != 16) Refuse("a topic id has 32 hexadecimal digits");
  std::vector<Partition> partitions;
  const std::string directory = argv[6];
  for (char* at = argv[4]; *at != 0;) {
    Partition partition;
    partition.end = std::strtol(at, &at, 10);
    if (*at == ',') ++at;
    if (directory != "-") {
      const std::string path =
          directory + "/copy-" + std::to_string(getpid()) + "-" + std::to_string(partitions.size());
      partition.file = open(path.c_str(), O_RDWR | O_CREAT | O_EXCL, 0600);
      if (partition.file < 0) Die("open");
      unlink(path.c_str());  // gone with us
    }
    partitions.push_back(partition);
  }
  std::FILE* stamps = nullptr;
  if (argc == 8 && (stamps = std::fopen(argv[7], "w")) == nullptr) Die(argv[7]);

  cpu_set_t cpus;
  CPU_ZERO(&cpus);
  CPU_SET(1, &cpus);
  sched_setaffinity(0, sizeof cpus, &cpus);
  const int fd = socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<uint16_t>(std::strtoul(argv[2], nullptr, 10)));
  if (inet_pton(AF_INET, argv[1], &address.sin_addr) != 1) Refuse("HOST is an IPv4 address");
  if (connect(fd, reinterpret_cast<sockaddr*>(&address), sizeof address) != 0) Die("connect");
  const int on = 1;
  setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);

  Copier copier(fd, std::move(topic_id), std::move(partitions),
                static_cast<uint32_t>(std::strtoul(argv[5], nullptr, 10)), stamps);
  const int64_t start = Nanoseconds();
  const double cpu = Cpu();
  while (!copier.Complete()) copier.Round();
  std::printf("%zu %.6f %.6f\n", copier.bytes(), Cpu() - cpu,
              static_cast<double>(Nanoseconds() - start) * 1e-9);
  if (stamps != nullptr) std::fclose(stamps);
}
