// A TCP server of one thread a connection that answers Kafka frames as a test says, in plain text
// or over TLS. Blocking sockets, so that it shares nothing with the code under test.
#pragma once

#include <cstdint>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

struct ssl_st;      // OpenSSL's SSL
struct ssl_ctx_st;  // and SSL_CTX

namespace kmirror::net::testing {

class BrokerStub {
 public:
  struct Request {
    int16_t api_key = 0;
    int16_t version = 0;
    int32_t correlation = 0;
    std::vector<uint8_t> frame;  // without its size
  };
  // One accepted connection.
  class Peer {
   public:
    // With `tls` the script runs once the client has agreed on it.
    Peer(int fd, ssl_ctx_st* tls);
    ~Peer();
    bool agreed() const { return agreed_; }
    // False: the client has closed.
    bool Read(Request* request);
    void Send(const std::vector<uint8_t>& bytes);
    // Size, correlation id, with `flexible` an empty tag buffer, and the body.
    void Answer(int32_t correlation, const std::vector<uint8_t>& body, bool flexible);
    void Close();
    // Says goodbye before; TLS alone knows that.
    void CloseNotify();
    // Bytes below TLS.
    void SendRaw(const std::vector<uint8_t>& bytes);
    ssl_st* tls() { return tls_; }
    // The next `size` bytes, whatever they are.
    void Collect(std::vector<uint8_t>* bytes, size_t size);
    // Blocks until the client closes its side.
    void AwaitClose();

   private:
    bool ReadAll(uint8_t* at, size_t size);

    const int fd_;
    ssl_st* tls_ = nullptr;
    bool agreed_ = true;
  };
  using Script = std::function<void(Peer&)>;

  // Listens on a free port of 127.0.0.1 and runs `script` for each connection, on its own thread.
  // `tls` outlives it.
  explicit BrokerStub(Script script, ssl_ctx_st* tls = nullptr);
  ~BrokerStub();  // REQUIRES: the clients are gone

  int32_t port() const { return port_; }
  int connections() const;

  // An ApiVersions answer (v3) that serves Fetch 4-16, and the others of a fetcher.
  static std::vector<uint8_t> Versions();
  // Answers ApiVersions; false: the client has closed.
  static bool Greet(Peer& peer);

 private:
  void Accept();

  const Script script_;
  ssl_ctx_st* const tls_;
  int listen_fd_ = -1;
  int32_t port_ = 0;
  std::thread accepting_;
  mutable std::mutex mutex_;
  std::vector<std::thread> serving_;  // guarded by mutex_
};

}  // namespace kmirror::net::testing
