#include "tests/net/broker_stub.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <openssl/ssl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <csignal>

#include "messages/api_versions.h"
#include "src/protocol/writer.h"

namespace kmirror::net::testing {
namespace {

int32_t Int32(const uint8_t* at) {
  return static_cast<int32_t>(uint32_t{at[0]} << 24 | uint32_t{at[1]} << 16 | uint32_t{at[2]} << 8 |
                              at[3]);
}

}  // namespace

BrokerStub::Peer::Peer(int fd, ssl_ctx_st* tls) : fd_(fd) {
  if (tls == nullptr) return;
  tls_ = SSL_new(tls);
  SSL_set_fd(tls_, fd_);
  agreed_ = SSL_accept(tls_) == 1;
}

BrokerStub::Peer::~Peer() { SSL_free(tls_); }

bool BrokerStub::Peer::ReadAll(uint8_t* at, size_t size) {
  while (size > 0) {
    const ssize_t got =
        tls_ != nullptr ? SSL_read(tls_, at, static_cast<int>(size)) : recv(fd_, at, size, 0);
    if (got <= 0) return false;
    at += got;
    size -= static_cast<size_t>(got);
  }
  return true;
}

bool BrokerStub::Peer::Read(Request* request) {
  uint8_t size[4];
  if (!ReadAll(size, 4)) return false;
  request->frame.resize(static_cast<size_t>(Int32(size)));
  if (!ReadAll(request->frame.data(), request->frame.size())) return false;
  request->api_key = static_cast<int16_t>(request->frame[0] << 8 | request->frame[1]);
  request->version = static_cast<int16_t>(request->frame[2] << 8 | request->frame[3]);
  request->correlation = Int32(request->frame.data() + 4);
  return true;
}

void BrokerStub::Peer::Send(const std::vector<uint8_t>& bytes) {
  if (tls_ == nullptr) return SendRaw(bytes);
  if (!bytes.empty()) SSL_write(tls_, bytes.data(), static_cast<int>(bytes.size()));
}

void BrokerStub::Peer::SendRaw(const std::vector<uint8_t>& bytes) {
  size_t at = 0;
  while (at < bytes.size()) {
    const ssize_t sent = send(fd_, bytes.data() + at, bytes.size() - at, MSG_NOSIGNAL);
    if (sent <= 0) return;
    at += static_cast<size_t>(sent);
  }
}

void BrokerStub::Peer::Answer(int32_t correlation, const std::vector<uint8_t>& body,
                              bool flexible) {
  protocol::Writer out;
  out.PutInt32(static_cast<int32_t>(4 + (flexible ? 1 : 0) + body.size()));
  out.PutInt32(correlation);
  if (flexible) out.PutInt8(0);
  std::vector<uint8_t> frame = out.Flatten();
  frame.insert(frame.end(), body.begin(), body.end());
  Send(frame);
}

void BrokerStub::Peer::Close() { shutdown(fd_, SHUT_RDWR); }

void BrokerStub::Peer::CloseNotify() {
  SSL_shutdown(tls_);
  Close();
}

void BrokerStub::Peer::Collect(std::vector<uint8_t>* bytes, size_t size) {
  bytes->resize(size);
  if (!ReadAll(bytes->data(), size)) bytes->clear();
}

void BrokerStub::Peer::AwaitClose() {
  uint8_t ignored[256];
  while (recv(fd_, ignored, sizeof ignored, 0) > 0) {
  }
}

BrokerStub::BrokerStub(Script script, ssl_ctx_st* tls) : script_(std::move(script)), tls_(tls) {
  std::signal(SIGPIPE, SIG_IGN);  // OpenSSL writes to a socket as to a file
  listen_fd_ = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  (void)bind(listen_fd_, reinterpret_cast<sockaddr*>(&address), size);
  (void)listen(listen_fd_, 16);
  getsockname(listen_fd_, reinterpret_cast<sockaddr*>(&address), &size);
  port_ = ntohs(address.sin_port);
  accepting_ = std::thread([this] { Accept(); });
}

BrokerStub::~BrokerStub() {
  shutdown(listen_fd_, SHUT_RDWR);
  accepting_.join();
  close(listen_fd_);
  for (std::thread& thread : serving_) thread.join();
}

int BrokerStub::connections() const {
  std::lock_guard lock(mutex_);
  return static_cast<int>(serving_.size());
}

void BrokerStub::Accept() {
  for (;;) {
    const int fd = accept4(listen_fd_, nullptr, nullptr, SOCK_CLOEXEC);
    if (fd < 0) return;
    std::lock_guard lock(mutex_);
    serving_.emplace_back([this, fd] {
      {
        Peer peer(fd, tls_);
        if (peer.agreed()) script_(peer);
      }
      close(fd);
    });
  }
}

std::vector<uint8_t> BrokerStub::Versions() {
  protocol::ApiVersionsResponse response;
  for (const auto& [key, min, max] :
       {std::tuple{1, 4, 16}, {2, 1, 10}, {3, 0, 12}, {18, 0, 3}, {23, 2, 4}}) {
    response.api_keys.push_back(
        {static_cast<int16_t>(key), static_cast<int16_t>(min), static_cast<int16_t>(max)});
  }
  response.finalized_features.push_back({"mirror.version", 1, 1});
  protocol::Writer out;
  (void)protocol::Encode(response, 3, out);
  return out.Flatten();
}

bool BrokerStub::Greet(Peer& peer) {
  Request request;
  if (!peer.Read(&request)) return false;
  peer.Answer(request.correlation, Versions(), false);
  return true;
}

}  // namespace kmirror::net::testing
