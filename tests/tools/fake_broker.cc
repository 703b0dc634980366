#include "tests/tools/fake_broker.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>

namespace kmirror::test {
namespace {

bool ReadAll(int fd, uint8_t* into, size_t size) {
  while (size > 0) {
    const ssize_t got = recv(fd, into, size, 0);
    if (got <= 0) return false;
    into += got;
    size -= static_cast<size_t>(got);
  }
  return true;
}

}  // namespace

FakeBroker::FakeBroker() {
  listener_ = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  if (listener_ < 0 || bind(listener_, reinterpret_cast<sockaddr*>(&address), size) != 0 ||
      listen(listener_, 16) != 0 ||
      getsockname(listener_, reinterpret_cast<sockaddr*>(&address), &size) != 0 ||
      pipe(wake_) != 0) {
    std::abort();  // a test machine without a loopback
  }
  port_ = ntohs(address.sin_port);
  thread_ = std::thread([this] { Serve(); });
}

FakeBroker::~FakeBroker() {
  close(wake_[1]);
  thread_.join();
  close(wake_[0]);
  close(listener_);
}

void FakeBroker::SetFeature(const std::string& name, int16_t level) {
  const std::lock_guard lock(mutex_);
  features_[name] = level;
}

void FakeBroker::ClearFeatures() {
  const std::lock_guard lock(mutex_);
  features_.clear();
}

void FakeBroker::HangUpOn(int16_t key) {
  const std::lock_guard lock(mutex_);
  handlers_[key] = [](ByteView, int16_t, int32_t) { return std::vector<uint8_t>{}; };
}

int FakeBroker::count(int16_t key) const {
  const std::lock_guard lock(mutex_);
  const auto it = counts_.find(key);
  return it == counts_.end() ? 0 : it->second;
}

void FakeBroker::Serve() {
  std::vector<pollfd> polled{{wake_[0], POLLIN, 0}, {listener_, POLLIN, 0}};
  while (true) {
    if (poll(polled.data(), polled.size(), -1) < 0) break;
    if (polled[0].revents != 0) break;
    for (size_t i = 2; i < polled.size(); ++i) {
      if (polled[i].revents == 0 || ServeOne(polled[i].fd)) continue;
      close(polled[i].fd);
      polled[i].fd = -1;
    }
    std::erase_if(polled, [](const pollfd& one) { return one.fd < 0; });
    if (polled[1].revents != 0) {
      if (const int fd = accept(listener_, nullptr, nullptr); fd >= 0) {
        polled.push_back({fd, POLLIN, 0});
      }
    }
  }
  for (size_t i = 2; i < polled.size(); ++i) close(polled[i].fd);
}

bool FakeBroker::ServeOne(int fd) {
  uint8_t size[4];
  if (!ReadAll(fd, size, sizeof size)) return false;
  std::vector<uint8_t> frame((size_t{size[0]} << 24) | (size_t{size[1]} << 16) |
                             (size_t{size[2]} << 8) | size[3]);
  if (!ReadAll(fd, frame.data(), frame.size())) return false;
  protocol::Reader reader(frame);
  protocol::RequestHeader header;
  if (!protocol::DecodeRequestHeader(reader, &header).ok()) return false;
  Handler handler;
  {
    const std::lock_guard lock(mutex_);
    ++counts_[header.api_key];
    if (const auto it = handlers_.find(header.api_key); it != handlers_.end()) handler = it->second;
  }
  std::vector<uint8_t> answer;
  if (handler) {
    answer = handler(reader.rest(), header.api_version, header.correlation_id);
  } else if (header.api_key == protocol::ApiVersionsRequest::kApiKey) {
    answer = Versions(header.api_version, header.correlation_id);
  }
  return !answer.empty() && send(fd, answer.data(), answer.size(), MSG_NOSIGNAL) ==
                                static_cast<ssize_t>(answer.size());
}

std::vector<uint8_t> FakeBroker::Versions(int16_t version, int32_t correlation_id) {
  protocol::ApiVersionsResponse response;
  {
    const std::lock_guard lock(mutex_);
    for (const auto& [key, range] : ranges_)
      response.api_keys.push_back({key, range.min, range.max});
    for (const auto& [name, level] : features_) {
      response.finalized_features.push_back({name, level, level});
    }
  }
  protocol::Writer writer;
  if (!protocol::EncodeResponseFrame(response, version, correlation_id, writer).ok()) return {};
  return writer.Flatten();
}

}  // namespace kmirror::test
