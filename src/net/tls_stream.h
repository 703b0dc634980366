// One end of a TLS connection, without a socket: bytes from the network go in, bytes for it come
// out, and what they carry is read and written. OpenSSL does the protocol.
//
// The input is a buffer of our own that one large receive fills and OpenSSL takes its records from.
// OpenSSL on the socket itself would receive a header and a record at a time, and its own
// read-ahead moves everything that is left in its buffer for each record (docs/decisions/0010-*).
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "kmirror/status.h"
#include "src/net/tls_context.h"

struct ssl_st;             // OpenSSL's SSL
struct x509_store_ctx_st;  // its X509_STORE_CTX

namespace kmirror::net {

// Belongs to one lane.
class TlsStream {
 public:
  enum class Outcome : uint8_t {
    kOk,
    kNeedsInput,  // nothing more without more bytes of the peer
    kClosed,      // the peer said that it is done
    kFailed,      // error() says why; nothing else will work any more
  };
  // At most this much of what a peer says can wait in a record that is not complete.
  static constexpr size_t kRecordMaxBytes = 16384;
  static constexpr size_t kInputMaxBytes = 512 << 10;

  // `host`: whose certificate it must be, and what the peer is told we are looking for.
  static Result<std::unique_ptr<TlsStream>> Create(std::shared_ptr<const TlsContext> context,
                                                   std::string host);
  ~TlsStream();
  TlsStream(const TlsStream&) = delete;
  TlsStream& operator=(const TlsStream&) = delete;

  // Where bytes of the peer go; `expected` of them, or more, are likely to be on the way.
  // REQUIRES: !HasInput().
  std::span<uint8_t> InputRoom(size_t expected);
  void Received(size_t bytes);  // > 0, at the start of what InputRoom gave
  // Another Handshake or Read may succeed without more bytes of the peer.
  bool HasInput() const { return !needs_input_; }
  // The last Received filled the room: there is likely more where it came from.
  bool InputWasFull() const { return input_was_full_; }
  bool received_any() const { return received_any_; }

  // kOk: agreed, the peer is who it should be.
  Outcome Handshake();
  // Puts up to `to.size()` bytes there; `*got` > 0 if and only if kOk. Less than the room: there
  // was not more.
  Outcome Read(std::span<uint8_t> to, size_t* got);
  // REQUIRES: Handshake has succeeded.
  Status Write(std::span<const uint8_t> bytes);
  // Says goodbye to the peer, if there is still anybody to say it to.
  void Close();

  bool HasOutput() const { return !output_.empty(); }
  // What is to be sent, in this order, appended to `to`.
  void TakeOutput(std::vector<uint8_t>* to);

  const Status& error() const { return error_; }
  const char* CipherSuite() const;

 private:
  friend struct TlsStreamBio;

  TlsStream(std::shared_ptr<const TlsContext> context, std::string host)
      : context_(std::move(context)), host_(std::move(host)) {}
  Status Start();
  static int OnVerify(int ok, x509_store_ctx_st* chain);
  Outcome Fail(int ssl_error);
  std::string Explain(unsigned long error) const;

  const std::shared_ptr<const TlsContext> context_;
  const std::string host_;
  ssl_st* ssl_ = nullptr;
  std::unique_ptr<uint8_t[]> input_;
  size_t input_capacity_ = 0, input_at_ = 0, input_end_ = 0;
  std::vector<uint8_t> output_;
  std::string untrusted_;  // why the peer's certificate was refused
  Status error_;
  bool needs_input_ = true;
  bool input_was_full_ = false;
  bool received_any_ = false;
  bool agreed_ = false;
};

}  // namespace kmirror::net
