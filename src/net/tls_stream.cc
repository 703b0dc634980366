#include "src/net/tls_stream.h"

#include <arpa/inet.h>
#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>

#include <algorithm>
#include <cassert>
#include <cstring>
#include <utility>

namespace kmirror::net {
namespace {

// Enough for a handshake's longest flight in one receive or two.
constexpr size_t kInputStep = 16 << 10;
// Names of a stranger's certificate are shown, but no stranger fills our log.
constexpr size_t kShownNames = 5;
constexpr size_t kShownBytes = 120;

std::string Shown(const char* text, size_t size) {
  std::string shown(text, std::min(size, kShownBytes));
  for (char& c : shown) {
    if (c < ' ' || c > '~' || c == '"') c = '?';
  }
  return shown;
}

std::string Subject(const X509_NAME* name) {
  BIO* bio = BIO_new(BIO_s_mem());
  X509_NAME_print_ex(bio, name, 0, XN_FLAG_RFC2253);
  char* text = nullptr;
  const long size = BIO_get_mem_data(bio, &text);
  std::string shown = Shown(text, size > 0 ? static_cast<size_t>(size) : 0);
  BIO_free(bio);
  return shown.empty() ? "no name" : shown;
}

std::string Date(const ASN1_TIME* time) {
  BIO* bio = BIO_new(BIO_s_mem());
  ASN1_TIME_print(bio, time);
  char* text = nullptr;
  const long size = BIO_get_mem_data(bio, &text);
  std::string shown = Shown(text, size > 0 ? static_cast<size_t>(size) : 0);
  BIO_free(bio);
  return shown;
}

// Host names and addresses that a certificate is for.
std::string Names(X509* certificate) {
  std::string names;
  size_t count = 0;
  auto* all = static_cast<GENERAL_NAMES*>(
      X509_get_ext_d2i(certificate, NID_subject_alt_name, nullptr, nullptr));
  for (int i = 0; i < sk_GENERAL_NAME_num(all); ++i) {
    const GENERAL_NAME* name = sk_GENERAL_NAME_value(all, i);
    std::string shown;
    if (name->type == GEN_DNS) {
      shown = Shown(reinterpret_cast<const char*>(ASN1_STRING_get0_data(name->d.dNSName)),
                    static_cast<size_t>(ASN1_STRING_length(name->d.dNSName)));
    } else if (name->type == GEN_IPADD) {
      const int size = ASN1_STRING_length(name->d.iPAddress);
      char text[INET6_ADDRSTRLEN] = "";
      if (size == 4 || size == 16) {
        inet_ntop(size == 4 ? AF_INET : AF_INET6, ASN1_STRING_get0_data(name->d.iPAddress), text,
                  sizeof text);
      }
      shown = text;
    }
    if (shown.empty()) continue;
    if (++count > kShownNames) {
      names += ", ...";
      break;
    }
    names += (names.empty() ? "" : ", ") + shown;
  }
  GENERAL_NAMES_free(all);
  return names.empty() ? Subject(X509_get_subject_name(certificate)) : names;
}

// The name or address without what is not part of it in a certificate.
std::string BareHost(std::string host) {
  if (host.size() > 2 && host.front() == '[' && host.back() == ']') {
    host = host.substr(1, host.size() - 2);
  }
  if (host.find(':') != std::string::npos) host = host.substr(0, host.find('%'));
  if (host.size() > 1 && host.back() == '.') host.pop_back();
  return host;
}

bool IsAddress(const std::string& host) {
  uint8_t bytes[16];
  return inet_pton(AF_INET, host.c_str(), bytes) == 1 ||
         inet_pton(AF_INET6, host.c_str(), bytes) == 1;
}

}  // namespace

// What OpenSSL takes for its socket.
struct TlsStreamBio {
  static int Read(BIO* bio, char* to, size_t size, size_t* got) {
    auto* stream = static_cast<TlsStream*>(BIO_get_data(bio));
    BIO_clear_retry_flags(bio);
    const size_t there = stream->input_end_ - stream->input_at_;
    if (there == 0) {
      BIO_set_retry_read(bio);
      return 0;
    }
    *got = std::min(size, there);
    std::memcpy(to, stream->input_.get() + stream->input_at_, *got);
    stream->input_at_ += *got;
    return 1;
  }
  static int Write(BIO* bio, const char* from, size_t size, size_t* written) {
    auto* stream = static_cast<TlsStream*>(BIO_get_data(bio));
    const auto* bytes = reinterpret_cast<const uint8_t*>(from);
    stream->output_.insert(stream->output_.end(), bytes, bytes + size);
    *written = size;
    return 1;
  }
  static long Control(BIO*, int command, long, void*) { return command == BIO_CTRL_FLUSH ? 1 : 0; }

  static const BIO_METHOD* Method() {
    static BIO_METHOD* const method = [] {
      BIO_METHOD* made = BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "kmirror");
      BIO_meth_set_read_ex(made, &Read);
      BIO_meth_set_write_ex(made, &Write);
      BIO_meth_set_ctrl(made, &Control);
      return made;
    }();
    return method;
  }
};

Result<std::unique_ptr<TlsStream>> TlsStream::Create(std::shared_ptr<const TlsContext> context,
                                                     std::string host) {
  std::unique_ptr<TlsStream> stream(new TlsStream(std::move(context), BareHost(std::move(host))));
  ERR_clear_error();
  if (Status status = stream->Start(); !status.ok()) return status;
  return stream;
}

TlsStream::~TlsStream() { SSL_free(ssl_); }

Status TlsStream::Start() {
  const auto failed = [] { return Status(ErrorCode::kIo, "TLS: " + TakeTlsError()); };
  ssl_ = SSL_new(context_->get());
  if (ssl_ == nullptr) return failed();
  BIO* const bio = BIO_new(TlsStreamBio::Method());
  if (bio == nullptr) return failed();
  BIO_set_data(bio, this);
  BIO_set_init(bio, 1);
  SSL_set_bio(ssl_, bio, bio);  // which owns it now
  SSL_set_connect_state(ssl_);
  SSL_set_app_data(ssl_, this);
  SSL_set_verify(ssl_, SSL_VERIFY_PEER, &OnVerify);
  const bool address = IsAddress(host_);
  if (!address && SSL_set_tlsext_host_name(ssl_, host_.c_str()) != 1) return failed();
  if (context_->verify_host()) {
    X509_VERIFY_PARAM* const check = SSL_get0_param(ssl_);
    X509_VERIFY_PARAM_set_hostflags(check, X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS);
    const int set = address ? X509_VERIFY_PARAM_set1_ip_asc(check, host_.c_str())
                            : X509_VERIFY_PARAM_set1_host(check, host_.c_str(), host_.size());
    if (set != 1) return failed();
  }
  return {};
}

std::span<uint8_t> TlsStream::InputRoom(size_t expected) {
  assert(needs_input_ && input_at_ == input_end_);
  const size_t wanted = std::clamp(expected, kInputStep, kInputMaxBytes);
  if (input_capacity_ < wanted) {
    // Few connections ever carry much: those that do not stay small.
    input_ = std::make_unique_for_overwrite<uint8_t[]>(wanted);
    input_capacity_ = wanted;
  }
  input_at_ = input_end_ = 0;
  return {input_.get(), input_capacity_};
}

void TlsStream::Received(size_t bytes) {
  assert(bytes > 0 && bytes <= input_capacity_);
  input_end_ = bytes;
  needs_input_ = false;
  input_was_full_ = bytes == input_capacity_;
  received_any_ = true;
}

TlsStream::Outcome TlsStream::Handshake() {
  if (!error_.ok()) return Outcome::kFailed;
  ERR_clear_error();
  const int done = SSL_do_handshake(ssl_);
  if (done != 1) return Fail(SSL_get_error(ssl_, done));
  agreed_ = true;
  return Outcome::kOk;
}

TlsStream::Outcome TlsStream::Read(std::span<uint8_t> to, size_t* got) {
  *got = 0;
  if (!error_.ok()) return Outcome::kFailed;
  ERR_clear_error();
  while (*got < to.size()) {
    size_t bytes = 0;
    const int done = SSL_read_ex(ssl_, to.data() + *got, to.size() - *got, &bytes);
    if (done == 1) {
      *got += bytes;
      continue;
    }
    const Outcome outcome = Fail(SSL_get_error(ssl_, done));
    // What came before counts; the next call says the same again.
    return *got > 0 ? Outcome::kOk : outcome;
  }
  return Outcome::kOk;
}

Status TlsStream::Write(std::span<const uint8_t> bytes) {
  assert(agreed_);
  if (!error_.ok()) return error_;
  if (bytes.empty()) return {};
  ERR_clear_error();
  size_t written = 0;
  const int done = SSL_write_ex(ssl_, bytes.data(), bytes.size(), &written);
  if (done != 1 || written != bytes.size()) {
    Fail(done != 1 ? SSL_get_error(ssl_, done) : SSL_ERROR_SSL);
    if (error_.ok()) error_ = {ErrorCode::kDisconnected, "TLS: nothing more can be sent"};
    return error_;
  }
  return {};
}

void TlsStream::Close() {
  if (!agreed_ || !error_.ok()) return;
  ERR_clear_error();
  SSL_shutdown(ssl_);
  ERR_clear_error();
}

void TlsStream::TakeOutput(std::vector<uint8_t>* to) {
  to->insert(to->end(), output_.begin(), output_.end());
  output_.clear();
}

const char* TlsStream::CipherSuite() const {
  const SSL_CIPHER* cipher = SSL_get_current_cipher(ssl_);
  return cipher != nullptr ? SSL_CIPHER_standard_name(cipher) : "";
}

TlsStream::Outcome TlsStream::Fail(int ssl_error) {
  switch (ssl_error) {
    case SSL_ERROR_WANT_READ: needs_input_ = true; return Outcome::kNeedsInput;
    case SSL_ERROR_ZERO_RETURN: return Outcome::kClosed;
    default:
      error_ = {ErrorCode::kDisconnected, "TLS: " + Explain(ERR_peek_error())};
      ERR_clear_error();
      return Outcome::kFailed;
  }
}

// ---- What is wrong, in words an operator can act on.

int TlsStream::OnVerify(int ok, X509_STORE_CTX* chain) {
  if (ok == 1) return 1;
  const auto* ssl =
      static_cast<SSL*>(X509_STORE_CTX_get_ex_data(chain, SSL_get_ex_data_X509_STORE_CTX_idx()));
  auto* stream = static_cast<TlsStream*>(SSL_get_app_data(ssl));
  X509* certificate = X509_STORE_CTX_get_current_cert(chain);
  const int error = X509_STORE_CTX_get_error(chain);
  const std::string text = X509_verify_cert_error_string(error);
  const std::string subject =
      certificate != nullptr ? Subject(X509_get_subject_name(certificate)) : "no certificate";
  std::string& why = stream->untrusted_;
  switch (error) {
    case X509_V_ERR_HOSTNAME_MISMATCH:
    case X509_V_ERR_IP_ADDRESS_MISMATCH:
      why = "the broker's certificate is not for " + stream->host_ + " but for " +
            (certificate != nullptr ? Names(certificate) : "nobody") +
            " (ssl.endpoint.identification.algorithm)";
      break;
    case X509_V_ERR_CERT_HAS_EXPIRED:
      why = "the broker's certificate has expired";
      if (certificate != nullptr) {
        why += " on " + Date(X509_get0_notAfter(certificate)) + ": " + subject;
      }
      break;
    case X509_V_ERR_CERT_NOT_YET_VALID:
      why = "the broker's certificate is not valid yet";
      if (certificate != nullptr) {
        why += ", from " + Date(X509_get0_notBefore(certificate)) + " on: " + subject;
      }
      break;
    case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT:
    case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT_LOCALLY:
    case X509_V_ERR_UNABLE_TO_VERIFY_LEAF_SIGNATURE:
    case X509_V_ERR_SELF_SIGNED_CERT_IN_CHAIN:
    case X509_V_ERR_DEPTH_ZERO_SELF_SIGNED_CERT:
    case X509_V_ERR_CERT_UNTRUSTED:
    case X509_V_ERR_CERT_SIGNATURE_FAILURE:
      why = "the broker's certificate comes from no authority that the truststore knows: " + text +
            ": " + subject +
            (certificate != nullptr ? ", issued by " + Subject(X509_get_issuer_name(certificate))
                                    : std::string()) +
            " (ssl.truststore)";
      break;
    default: why = "the broker's certificate is refused: " + text + ": " + subject;
  }
  return 0;
}

std::string TlsStream::Explain(unsigned long error) const {
  const int reason = ERR_GET_REASON(error);
  const char* known = error != 0 ? ERR_reason_error_string(error) : nullptr;
  const std::string text = known != nullptr ? known : "OpenSSL error " + std::to_string(error);
  if (reason > SSL_AD_REASON_OFFSET && reason < SSL_AD_REASON_OFFSET + 256) {  // said by the broker
    switch (reason - SSL_AD_REASON_OFFSET) {
      case SSL_AD_BAD_CERTIFICATE:
      case SSL_AD_UNSUPPORTED_CERTIFICATE:
      case SSL_AD_CERTIFICATE_REVOKED:
      case SSL_AD_CERTIFICATE_EXPIRED:
      case SSL_AD_CERTIFICATE_UNKNOWN:
      case SSL_AD_UNKNOWN_CA:
      case SSL_AD_ACCESS_DENIED:
      case SSL_AD_CERTIFICATE_REQUIRED:
        return context_->has_certificate()
                   ? "the broker refuses our certificate: " + text + " (ssl.keystore)"
                   : "the broker asks for a certificate and we have none: " + text +
                         " (ssl.keystore)";
      case SSL_AD_HANDSHAKE_FAILURE:
      case SSL_AD_INSUFFICIENT_SECURITY:
        return "the broker finds no cipher suite or certificate in common: " + text +
               " (ssl.cipher.suites, ssl.keystore)";
      case SSL_AD_PROTOCOL_VERSION:
        return "the broker speaks no TLS version in common: " + text + " (ssl.enabled.protocols)";
      default: return "the broker refuses: " + text;
    }
  }
  if (reason == SSL_R_CERTIFICATE_VERIFY_FAILED && !untrusted_.empty()) return untrusted_;
  if (agreed_) return text;
  switch (reason) {
    case SSL_R_UNSUPPORTED_PROTOCOL:
    case SSL_R_VERSION_TOO_LOW:
    case SSL_R_VERSION_TOO_HIGH:
    case SSL_R_WRONG_SSL_VERSION:
      return "the broker speaks no TLS version in common: " + text + " (ssl.enabled.protocols)";
    case SSL_R_WRONG_VERSION_NUMBER:
    case SSL_R_HTTP_REQUEST:
    case SSL_R_UNEXPECTED_MESSAGE:
    case SSL_R_PACKET_LENGTH_TOO_LONG:
    case SSL_R_DATA_LENGTH_TOO_LONG:
    case SSL_R_BAD_LENGTH:
      return "what answers there speaks no TLS: " + text + " (security.protocol)";
    default: return "no agreement: " + text;
  }
}

}  // namespace kmirror::net
