// How fetchers and the clients of a source cluster talk to a Kafka broker: one connection, requests
// in order, answers whole or as they arrive. src/net implements it over TCP; tests script it.
//
// Lane rule: everything here belongs to the lane the connection was made with. Nothing blocks. No
// callback runs inside the call that asks for it, and none after the connection was destroyed.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "kmirror/host/runtime.h"
#include "kmirror/status.h"
#include "kmirror/types.h"

namespace kmirror::fetcher {

struct VersionRange {
  int16_t min = 0;  // inclusive
  int16_t max = -1;
  auto operator<=>(const VersionRange&) const = default;
};

// What a broker said of itself in ApiVersions.
struct BrokerVersions {
  std::map<int16_t, VersionRange> apis;               // by API key
  std::map<std::string, int16_t> finalized_features;  // name to max level (R17)

  // The highest version of `api_key` that both sides know and that lies in `ours`; nullopt: none.
  std::optional<int16_t> Pick(int16_t api_key, VersionRange ours) const {
    const auto it = apis.find(api_key);
    if (it == apis.end()) return std::nullopt;
    const int16_t version = it->second.max < ours.max ? it->second.max : ours.max;
    if (version < ours.min || version < it->second.min) return std::nullopt;
    return version;
  }
};

// How a broker is spoken to over TLS. Never printed: it may hold a private key and its password.
struct TlsOptions {
  // PEM, in a file that is read anew for each connection, or as text. Neither: the authorities that
  // the system trusts.
  std::string truststore_file, truststore_certificates;
  // Our certificate, for brokers that ask for one: private key and chain in one PEM file, or each
  // as text. None of them: we have none.
  std::string keystore_file, keystore_key, keystore_chain;
  std::string key_password;  // of an encrypted private key
  bool verify_host = true;   // is the certificate for the host we connect to?
  bool tls12 = true, tls13 = true;
  std::vector<std::string> cipher_suites;  // names of IANA or OpenSSL; empty: OpenSSL's choice
};

// What connections ask of the system. Written on their lane, read on any thread.
struct ConnectionCounters {
  using Counter = std::atomic<int64_t>;

  Counter wakeups{0};       // times a socket was reported ready
  Counter receives{0};      // calls that receive
  Counter sends{0};         // calls that send
  Counter option_calls{0};  // low-water marks and quick acknowledgements set

  // Single writer: no locked instruction on the data path.
  static void Add(Counter& counter, int64_t value) {
    counter.store(counter.load(std::memory_order_relaxed) + value, std::memory_order_relaxed);
  }
};

struct ConnectionOptions {
  HostPort endpoint;
  std::string client_id;
  std::chrono::milliseconds connect_timeout{10000};  // to a TCP connection, every address together
  std::chrono::milliseconds ready_timeout{30000};    // TLS handshake, to the answer of ApiVersions
  int32_t receive_buffer_bytes = -1;                 // -1: not set, autotuning stays on
  // A longer answer closes the connection. One that Ask keeps whole may have 64 MiB at most.
  size_t max_response_bytes = 64u << 20;
  std::shared_ptr<const TlsOptions> tls;             // null: plain text
  std::shared_ptr<ConnectionCounters> counters;      // null: nobody counts
};

// A request without its header. `timeout` runs from the moment it is written, anew with every byte
// of the answer that arrives, and stands still while the reader has no room.
struct OutgoingRequest {
  int16_t api_key = 0;
  int16_t api_version = 0;
  std::vector<uint8_t> body;
  std::chrono::milliseconds timeout{30000};
};

// Receives the body of one answer as it arrives, into memory of its own. Outlives the request.
class ResponseSink {
 public:
  virtual ~ResponseSink() = default;
  // The header was read; `bytes` of body follow (0 is possible). An error closes the connection.
  virtual Status Begin(size_t bytes) = 0;
  // Where the next bytes go; `left` (> 0) are still to come. Empty: no room now, reading stops
  // until Connection::Resume. May be asked again without a Received in between.
  virtual std::span<uint8_t> Room(size_t left) = 0;
  // `bytes` (> 0) were put at the start of what the last Room gave. An error closes the connection.
  virtual Status Received(size_t bytes) = 0;
  // The last call: OK when the whole body was received, else what failed. May destroy the
  // connection.
  virtual void Done(Status status) = 0;
};

// One connection to one broker. Requests are sent one after another, each when the answer of the
// one before is complete. After a failure (peer closed, timeout, bytes that do not decode, an
// answer with another correlation id) every request is answered with kDisconnected, kTimedOut or
// kMalformed and the connection stays closed: its owner makes a new one, with backoff.
class Connection {
 public:
  using Answer = std::function<void(Result<std::vector<uint8_t>>)>;  // the body

  virtual ~Connection() = default;

  // Once. Resolves, connects, with TLS options agrees on TLS, and asks for ApiVersions. The text of
  // an error names the endpoint.
  virtual void Open(std::function<void(Status)> opened) = 0;
  // After Open succeeded and until the connection fails.
  virtual bool IsOpen() const = 0;
  // REQUIRES: Open has succeeded.
  virtual const BrokerVersions& versions() const = 0;

  // Queues a request whose answer is gathered in memory.
  virtual void Ask(OutgoingRequest request, Answer answer) = 0;
  // Queues a request whose answer goes to `sink` as it arrives.
  virtual void Stream(OutgoingRequest request, ResponseSink* sink) = 0;
  // The sink has room again.
  virtual void Resume() = 0;

  // Told once when an open connection fails, also while no request is queued.
  virtual void OnClosed(std::function<void(Status)> closed) = 0;
};

class Transport {
 public:
  virtual ~Transport() = default;
  // `lane` outlives the connection. Any thread may make connections.
  virtual std::unique_ptr<Connection> NewConnection(host::Lane* lane,
                                                    ConnectionOptions options) = 0;
};

}  // namespace kmirror::fetcher
