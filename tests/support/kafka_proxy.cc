#include "tests/support/kafka_proxy.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <deque>

#include "tests/support/wait_until.h"

namespace kmirror::test {
namespace {

constexpr uint32_t kFrameMax = 256u << 20;
constexpr int kLookMs = 20;  // how soon a blocked thread sees that all is over

uint32_t Big32(const uint8_t* at) {
  return uint32_t{at[0]} << 24 | uint32_t{at[1]} << 16 | uint32_t{at[2]} << 8 | uint32_t{at[3]};
}
int16_t Big16(const uint8_t* at) { return static_cast<int16_t>(at[0] << 8 | at[1]); }

bool SendAll(int fd, const uint8_t* data, size_t size) {
  while (size > 0) {
    const ssize_t sent = ::send(fd, data, size, MSG_NOSIGNAL);
    if (sent <= 0) return false;
    data += sent;
    size -= static_cast<size_t>(sent);
  }
  return true;
}

sockaddr_in Loopback(int32_t port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  return address;
}

void NoDelay(int fd) {
  const int on = 1;
  ::setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
}

}  // namespace

// A client's connection and the one to the broker that belongs to it.
struct KafkaProxy::Pair {
  struct Asked {
    int16_t api_key;
    int16_t version;
    std::string client_id;
  };

  explicit Pair(int fd) : client(fd) {}
  ~Pair() {
    ::close(client);
    if (broker >= 0) ::close(broker);
  }
  void Break() {
    over = true;
    ::shutdown(client, SHUT_RDWR);
    if (broker >= 0) ::shutdown(broker, SHUT_RDWR);
  }
  // Exactly so many bytes; false: it is over.
  bool Receive(int fd, uint8_t* into, size_t size, const std::atomic<bool>& stopping) const {
    while (size > 0) {
      if (over || stopping) return false;
      pollfd wait{fd, POLLIN, 0};
      if (::poll(&wait, 1, kLookMs) <= 0) continue;
      const ssize_t got = ::recv(fd, into, size, 0);
      if (got <= 0) return false;
      into += got;
      size -= static_cast<size_t>(got);
    }
    return true;
  }
  // A whole frame with its size.
  bool ReceiveFrame(int fd, std::vector<uint8_t>* frame, const std::atomic<bool>& stopping) const {
    frame->resize(4);
    if (!Receive(fd, frame->data(), 4, stopping)) return false;
    const uint32_t size = Big32(frame->data());
    if (size > kFrameMax) return false;
    frame->resize(4 + size);
    return Receive(fd, frame->data() + 4, size, stopping);
  }

  const int client;
  std::atomic<int> broker{-1};
  std::atomic<bool> over{false};
  std::mutex mutex;
  std::deque<Asked> asked;  // guarded by mutex
};

KafkaProxy::KafkaProxy() {
  listen_fd_ = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address = Loopback(0);
  socklen_t size = sizeof address;
  if (::bind(listen_fd_, reinterpret_cast<sockaddr*>(&address), size) != 0 ||
      ::listen(listen_fd_, 128) != 0 ||
      ::getsockname(listen_fd_, reinterpret_cast<sockaddr*>(&address), &size) != 0) {
    std::perror("proxy");
    std::abort();
  }
  port_ = ntohs(address.sin_port);
  accepting_ = std::thread([this] { Accept(); });
}

KafkaProxy::~KafkaProxy() {
  stopping_ = true;
  accepting_.join();
  Cut();
  for (std::thread& thread : threads_) thread.join();
  ::close(listen_fd_);
}

void KafkaProxy::ForwardTo(HostPort upstream) {
  const std::lock_guard lock(mutex_);
  upstream_ = std::move(upstream);
}

void KafkaProxy::SetScript(Script script) {
  const std::lock_guard lock(script_mutex_);
  script_ = std::move(script);
}

void KafkaProxy::SetRequestScript(RequestScript script) {
  const std::lock_guard lock(script_mutex_);
  request_script_ = std::move(script);
}

void KafkaProxy::Hang(bool hung) { hung_ = hung; }

void KafkaProxy::Cut() {
  const std::lock_guard lock(mutex_);
  for (const auto& pair : pairs_) pair->Break();
  std::erase_if(pairs_, [](const auto& pair) { return pair.use_count() == 1; });
}

bool KafkaProxy::Pass(const Pair& pair) const {
  while (hung_ && !pair.over && !stopping_) ::poll(nullptr, 0, kLookMs);
  return !pair.over && !stopping_;
}

void KafkaProxy::Accept() {
  while (!stopping_) {
    pollfd wait{listen_fd_, POLLIN, 0};
    if (::poll(&wait, 1, kLookMs) <= 0) continue;
    const int fd = ::accept4(listen_fd_, nullptr, nullptr, SOCK_CLOEXEC);
    if (fd < 0) continue;
    ++accepted_;
    NoDelay(fd);
    auto pair = std::make_shared<Pair>(fd);
    const std::lock_guard lock(mutex_);
    std::erase_if(pairs_, [](const auto& each) { return each->over && each.use_count() == 1; });
    pairs_.push_back(pair);
    threads_.emplace_back([this, pair] { Serve(pair); });
  }
}

void KafkaProxy::Serve(const std::shared_ptr<Pair>& pair) {
  if (!Pass(*pair)) return;
  HostPort upstream;
  {
    const std::lock_guard lock(mutex_);
    upstream = upstream_;
  }
  const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const sockaddr_in address = Loopback(upstream.port);
  if (fd < 0 || ::connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
    if (fd >= 0) ::close(fd);
    pair->Break();
    return;
  }
  NoDelay(fd);
  pair->broker = fd;
  std::thread answers([this, pair] { Answers(pair); });
  Requests(pair);
  pair->Break();
  answers.join();
}

void KafkaProxy::Requests(const std::shared_ptr<Pair>& pair) {
  std::vector<uint8_t> frame;
  while (Pass(*pair) && pair->ReceiveFrame(pair->client, &frame, stopping_)) {
    if (frame.size() < 14) return;
    Pair::Asked asked{Big16(frame.data() + 4), Big16(frame.data() + 6), ""};
    const int16_t length = Big16(frame.data() + 12);
    if (length > 0 && frame.size() >= 14 + static_cast<size_t>(length)) {
      asked.client_id.assign(reinterpret_cast<const char*>(frame.data()) + 14,
                             static_cast<size_t>(length));
    }
    {
      const std::lock_guard lock(pair->mutex);
      pair->asked.push_back(std::move(asked));
    }
    {
      const std::lock_guard lock(script_mutex_);
      if (request_script_) request_script_(&frame);
    }
    if (!Pass(*pair) || !SendAll(pair->broker, frame.data(), frame.size())) return;
  }
}

void KafkaProxy::Answers(const std::shared_ptr<Pair>& pair) {
  Answer answer;
  while (pair->ReceiveFrame(pair->broker, &answer.bytes, stopping_)) {
    {
      const std::lock_guard lock(pair->mutex);
      if (pair->asked.empty()) break;
      answer.api_key = pair->asked.front().api_key;
      answer.version = pair->asked.front().version;
      answer.client_id = std::move(pair->asked.front().client_id);
      pair->asked.pop_front();
    }
    if (!Pass(*pair)) break;
    answer.piece = std::numeric_limits<size_t>::max();
    answer.pause = {};
    answer.cut_after.reset();
    answer.silent_afterwards = false;
    {
      const std::lock_guard lock(script_mutex_);
      if (script_) script_(&answer);
    }
    const size_t size = std::min(answer.bytes.size(), answer.cut_after.value_or(SIZE_MAX));
    bool sent = true;
    for (size_t at = 0; at < size && sent;) {
      const size_t now = std::min(answer.piece, size - at);
      sent = SendAll(pair->client, answer.bytes.data() + at, now);
      at += now;
      if (at == size || answer.pause.count() == 0) continue;
      if (pair->over || stopping_) break;
      ::poll(nullptr, 0, static_cast<int>(answer.pause.count()));
    }
    if (!sent) break;
    if (answer.silent_afterwards) {
      while (!pair->over && !stopping_) ::poll(nullptr, 0, kLookMs);
    }
    if (answer.cut_after) break;
  }
  pair->Break();
}

}  // namespace kmirror::test
