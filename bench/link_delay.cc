// A long link on one machine: two network namespaces, joined by packets that are held for a while.
//
//   link_delay [--rate-mbit N] [--delay-us N] [--queue-bytes N] [--tcp-max-bytes N]
//
// Each namespace gets a TUN device; what the kernel of one sends is read here, waits for its turn
// at the rate and then for the delay (one way), and is written to the other. Beyond --queue-bytes
// waiting for the rate, packets are dropped, as a router does. TCP sees real windows, real
// acknowledgements and real losses, which a proxy would hide. Packets stay as big as the kernel
// makes them (up to 64 KiB, with their virtio header), so that 1 Gbit/s costs little CPU; the rate
// counts them as the Ethernet frames they would be.
//
// Prints "link ready NETNS ADDRESS NETNS ADDRESS" (for nsenter --net=NETNS, or setns) and the TCP
// maxima that were there before --tcp-max-bytes. Reads commands: "delay_us N" answers "delay_us N".
// Ends with its input. Exit code 3: this machine does not allow it (needs root and /dev/net/tun).
#include <arpa/inet.h>
#include <fcntl.h>
#include <linux/if.h>
#include <linux/if_tun.h>
#include <netinet/in.h>
#include <poll.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <fstream>
#include <string>
#include <string_view>
#include <vector>

namespace {

using std::chrono::nanoseconds;

// What stands before each packet (virtio_net_hdr, whose header is not C++).
struct PacketHead {
  uint8_t flags;
  uint8_t segmentation;  // 0: none
  uint16_t head_bytes;
  uint16_t segment_bytes;
  uint16_t checksum_start;
  uint16_t checksum_offset;
};
static_assert(sizeof(PacketHead) == 10);

constexpr int kNotAllowed = 3;
constexpr int kMtu = 1500;
constexpr size_t kLargestPacket = sizeof(PacketHead) + 65536;
constexpr int64_t kFrameOverhead = 38;  // preamble, Ethernet header, checksum, gap
constexpr int kBurst = 64;              // packets read before others have their turn
constexpr std::array<const char*, 2> kAddresses{"10.77.0.1", "10.77.0.2"};

[[noreturn]] void GiveUp(const std::string& what) {
  std::fprintf(stderr, "link_delay: %s: %s\n", what.c_str(), std::strerror(errno));
  std::exit(kNotAllowed);
}

int64_t NowNs() {
  return std::chrono::duration_cast<nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

struct Settings {
  int64_t rate_bits = 1'000'000'000;
  int64_t delay_ns = 0;
  int64_t queue_bytes = 12'500'000;  // what 1 Gbit/s carries in 100 ms
  int64_t tcp_max_bytes = 64 << 20;
};

// The third number of a line like "4096 131072 6291456" becomes `max`. Answers the line as it was.
std::string RaiseMaximum(const char* path, int64_t max) {
  std::string before;
  {
    std::ifstream file(path);
    std::getline(file, before);
  }
  int64_t low = 0, start = 0, old_max = 0;
  if (std::sscanf(before.c_str(), "%ld %ld %ld", &low, &start, &old_max) != 3) GiveUp(path);
  std::ofstream file(path);
  file << low << ' ' << start << ' ' << std::max(max, old_max) << std::endl;
  if (!file) GiveUp(path);
  return before;
}

void Up(int control, const char* device, const char* address) {
  ifreq request{};
  std::strncpy(request.ifr_name, device, IFNAMSIZ - 1);
  if (address != nullptr) {
    auto* in = reinterpret_cast<sockaddr_in*>(&request.ifr_addr);
    in->sin_family = AF_INET;
    inet_pton(AF_INET, address, &in->sin_addr);
    if (ioctl(control, SIOCSIFADDR, &request) != 0) GiveUp("set an address");
    inet_pton(AF_INET, "255.255.255.0", &in->sin_addr);
    if (ioctl(control, SIOCSIFNETMASK, &request) != 0) GiveUp("set a netmask");
    request.ifr_mtu = kMtu;
    if (ioctl(control, SIOCSIFMTU, &request) != 0) GiveUp("set the mtu");
    request.ifr_qlen = 10000;
    if (ioctl(control, SIOCSIFTXQLEN, &request) != 0) GiveUp("set the queue length");
  }
  if (ioctl(control, SIOCGIFFLAGS, &request) != 0) GiveUp("read flags");
  request.ifr_flags = static_cast<short>(request.ifr_flags | IFF_UP);
  if (ioctl(control, SIOCSIFFLAGS, &request) != 0) GiveUp(std::string("start ") + device);
}

// One end of the link; this process is in its namespace when Open returns.
struct End {
  int tun = -1;
  int netns = -1;
  std::string tcp_rmem;
  std::string tcp_wmem;

  void Open(const char* address, int64_t tcp_max_bytes) {
    if (unshare(CLONE_NEWNET) != 0) GiveUp("a new network namespace");
    netns = open("/proc/self/ns/net", O_RDONLY);
    if (netns < 0) GiveUp("open the namespace");
    tun = open("/dev/net/tun", O_RDWR | O_NONBLOCK);
    if (tun < 0) GiveUp("/dev/net/tun");
    ifreq request{};
    request.ifr_flags = IFF_TUN | IFF_NO_PI | IFF_VNET_HDR;
    std::strncpy(request.ifr_name, "link", IFNAMSIZ - 1);
    if (ioctl(tun, TUNSETIFF, &request) != 0) GiveUp("a tun device");
    if (ioctl(tun, TUNSETOFFLOAD, TUN_F_CSUM | TUN_F_TSO4) != 0) GiveUp("offloads");
    const int control = socket(AF_INET, SOCK_DGRAM, 0);
    if (control < 0) GiveUp("a socket");
    Up(control, "lo", nullptr);
    Up(control, "link", address);
    close(control);
    tcp_rmem = RaiseMaximum("/proc/sys/net/ipv4/tcp_rmem", tcp_max_bytes);
    tcp_wmem = RaiseMaximum("/proc/sys/net/ipv4/tcp_wmem", tcp_max_bytes);
  }
};

// Bytes that the packet takes on a wire, cut into frames.
int64_t WireBytes(const std::vector<uint8_t>& packet) {
  PacketHead head{};
  std::memcpy(&head, packet.data(), sizeof head);
  const auto size = static_cast<int64_t>(packet.size() - sizeof head);
  if (head.segmentation == 0 || head.segment_bytes == 0) return size + kFrameOverhead;
  const int64_t payload = size - head.head_bytes;
  const int64_t frames =
      std::max<int64_t>((payload + head.segment_bytes - 1) / head.segment_bytes, 1);
  return payload + frames * (head.head_bytes + kFrameOverhead);
}

// One direction.
class Line {
 public:
  Line(const Settings* settings, int from, int to) : settings_(settings), from_(from), to_(to) {}

  // Takes what is there. False: nothing more for now.
  bool Read() {
    for (int i = 0; i < kBurst; ++i) {
      std::vector<uint8_t> packet(kLargestPacket);
      const ssize_t size = read(from_, packet.data(), packet.size());
      if (size < static_cast<ssize_t>(sizeof(PacketHead))) return false;
      packet.resize(static_cast<size_t>(size));
      const int64_t now = NowNs();
      const int64_t wire = WireBytes(packet);
      const int64_t sending = wire * 8 * 1'000'000'000 / settings_->rate_bits;
      const int64_t waiting = std::max<int64_t>(free_at_ - now, 0);
      if (waiting * settings_->rate_bits / 8 / 1'000'000'000 > settings_->queue_bytes) {
        ++dropped_;
        continue;
      }
      free_at_ = std::max(free_at_, now) + sending;
      packet.shrink_to_fit();
      // A delay that was lowered must not let packets overtake each other.
      last_due_ = std::max(last_due_, free_at_ + settings_->delay_ns);
      held_.push_back({last_due_, std::move(packet)});
    }
    return true;
  }

  void WriteDue() {
    const int64_t now = NowNs();
    while (!held_.empty() && held_.front().due <= now) {
      const std::vector<uint8_t>& packet = held_.front().bytes;
      if (write(to_, packet.data(), packet.size()) < 0) ++dropped_;
      held_.pop_front();
    }
  }

  int64_t next_due() const { return held_.empty() ? INT64_MAX : held_.front().due; }
  int64_t dropped() const { return dropped_; }

 private:
  struct Held {
    int64_t due;
    std::vector<uint8_t> bytes;
  };

  const Settings* const settings_;
  const int from_;
  const int to_;
  std::deque<Held> held_;
  int64_t free_at_ = 0;  // when the wire has sent what came before
  int64_t last_due_ = 0;
  int64_t dropped_ = 0;
};

// Commands that have come in whole. False: the input has ended.
bool Obey(Settings* settings, std::string* pending) {
  char piece[256];
  const ssize_t size = read(STDIN_FILENO, piece, sizeof piece);
  if (size <= 0) return false;
  pending->append(piece, static_cast<size_t>(size));
  for (size_t end; (end = pending->find('\n')) != std::string::npos;) {
    long value = 0;
    if (std::sscanf(pending->c_str(), "delay_us %ld", &value) == 1 && value >= 0) {
      settings->delay_ns = int64_t{value} * 1000;
      std::printf("delay_us %ld\n", value);
      std::fflush(stdout);
    }
    pending->erase(0, end + 1);
  }
  return true;
}

void Run(Settings settings, int left, int right) {
  std::array<Line, 2> lines{Line(&settings, left, right), Line(&settings, right, left)};
  std::string pending;
  for (;;) {
    const int64_t due = std::min(lines[0].next_due(), lines[1].next_due());
    std::array<pollfd, 3> watched{
        {{left, POLLIN, 0}, {right, POLLIN, 0}, {STDIN_FILENO, POLLIN, 0}}};
    timespec wait{};
    const int64_t left_ns = due == INT64_MAX ? 0 : std::max<int64_t>(due - NowNs(), 0);
    wait.tv_sec = left_ns / 1'000'000'000;
    wait.tv_nsec = left_ns % 1'000'000'000;
    if (ppoll(watched.data(), watched.size(), due == INT64_MAX ? nullptr : &wait, nullptr) < 0 &&
        errno != EINTR) {
      GiveUp("poll");
    }
    for (size_t i = 0; i < lines.size(); ++i) {
      lines[i].WriteDue();
      if (watched[i].revents != 0) lines[i].Read();
    }
    if (watched[2].revents != 0 && !Obey(&settings, &pending)) break;
  }
  std::printf("dropped %ld %ld\n", static_cast<long>(lines[0].dropped()),
              static_cast<long>(lines[1].dropped()));
}

}  // namespace

int main(int argc, char** argv) {
  Settings settings;
  for (int i = 1; i + 1 < argc; i += 2) {
    const std::string_view name = argv[i];
    const int64_t value = std::atoll(argv[i + 1]);
    if (name == "--rate-mbit" && value > 0) {
      settings.rate_bits = value * 1'000'000;
    } else if (name == "--delay-us" && value >= 0) {
      settings.delay_ns = value * 1000;
    } else if (name == "--queue-bytes" && value > 0) {
      settings.queue_bytes = value;
    } else if (name == "--tcp-max-bytes" && value > 0) {
      settings.tcp_max_bytes = value;
    } else {
      std::fprintf(stderr, "link_delay: what is %s %s?\n", argv[i], argv[i + 1]);
      return 2;
    }
  }
  prctl(PR_SET_TIMERSLACK, 1);
  // A wire does not wait for the programs at its ends.
  const sched_param first{.sched_priority = 1};
  if (sched_setscheduler(0, SCHED_RR, &first) != 0) std::perror("link_delay: no priority");
  std::array<End, 2> ends;
  for (size_t i = 0; i < ends.size(); ++i) ends[i].Open(kAddresses[i], settings.tcp_max_bytes);
  std::printf("link ready");
  for (size_t i = 0; i < ends.size(); ++i) {
    std::printf(" /proc/%d/fd/%d %s", getpid(), ends[i].netns, kAddresses[i]);
  }
  std::printf("\ntcp_rmem %s\ntcp_wmem %s\n", ends[0].tcp_rmem.c_str(), ends[0].tcp_wmem.c_str());
  std::fflush(stdout);
  Run(settings, ends[0].tun, ends[1].tun);
  return 0;
}
