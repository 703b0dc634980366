#include "src/net/tls_context.h"

#include <fcntl.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string_view>
#include <utility>
#include <vector>

namespace kmirror::net {
namespace {

// A system's bundle of authorities is about 200 KiB.
constexpr off_t kFileMaxBytes = 16 << 20;

template <auto F>
struct Free {
  template <typename T>
  void operator()(T* object) const {
    F(object);
  }
};
using Bio = std::unique_ptr<BIO, Free<BIO_free_all>>;
using Certificate = std::unique_ptr<X509, Free<X509_free>>;
using Key = std::unique_ptr<EVP_PKEY, Free<EVP_PKEY_free>>;

Status Bad(std::string_view config, const std::string& why) {
  return {ErrorCode::kInvalidConfig, std::string(config) + ": " + why};
}

Result<std::string> ReadFile(std::string_view config, const std::string& path) {
  const auto bad = [&](const std::string& why) { return Bad(config, path + ": " + why); };
  // Not blocking: what is named may be a pipe.
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) return bad(std::strerror(errno));
  std::string text;
  Status status;
  struct stat info{};
  if (fstat(fd, &info) != 0 || !S_ISREG(info.st_mode)) {
    status = bad("is not a file");
  } else if (info.st_size > kFileMaxBytes) {
    status = bad("is too large for a PEM file");
  }
  while (status.ok()) {
    char piece[8192];
    const ssize_t got = read(fd, piece, sizeof piece);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) status = bad(std::strerror(errno));
    if (got <= 0) break;
    text.append(piece, static_cast<size_t>(got));
    if (text.size() > static_cast<size_t>(kFileMaxBytes)) status = bad("grows while it is read");
  }
  close(fd);
  if (!status.ok()) return status;
  return text;
}

struct PemBlock {
  std::string label;  // "CERTIFICATE"
  std::string text;   // the whole block, in lines as OpenSSL wants them
};

// Base64 as OpenSSL wants it. Of a config in one line only blanks are left of the line ends, which
// Kafka takes, or "\n" as it is written in a properties file.
std::string InLines(std::string_view body) {
  std::string bare, lines = "\n";
  for (size_t i = 0; i < body.size(); ++i) {
    if (body[i] == '\\') {
      ++i;
    } else if (body[i] > ' ') {
      bare.push_back(body[i]);
    }
  }
  for (size_t i = 0; i < bare.size(); i += 64) lines.append(bare, i, 64).append("\n");
  return lines;
}

std::vector<PemBlock> PemBlocks(std::string_view text) {
  constexpr std::string_view kBegin = "-----BEGIN ", kEnd = "-----END ", kDashes = "-----";
  std::vector<PemBlock> blocks;
  size_t at = 0;
  while ((at = text.find(kBegin, at)) != std::string_view::npos) {
    const size_t label_at = at + kBegin.size();
    const size_t label_end = text.find(kDashes, label_at);
    if (label_end == std::string_view::npos) break;
    PemBlock block;
    block.label = text.substr(label_at, label_end - label_at);
    const std::string end = std::string(kEnd).append(block.label).append(kDashes);
    const size_t body_at = label_end + kDashes.size();
    const size_t body_end = text.find(end, body_at);
    if (body_end == std::string_view::npos) break;
    std::string body(text.substr(body_at, body_end - body_at));
    if (body.find(':') == std::string::npos) {  // else it has headers, whose lines count
      body = InLines(body);
    }
    block.text.append(kBegin).append(block.label).append(kDashes).append(body).append(end);
    block.text.append("\n");
    blocks.push_back(std::move(block));
    at = body_end + end.size();
  }
  return blocks;
}

Bio Reader(const std::string& text) {
  return Bio(BIO_new_mem_buf(text.data(), static_cast<int>(text.size())));
}

Result<std::vector<Certificate>> Certificates(std::string_view config, std::string_view text) {
  std::vector<Certificate> found;
  for (const PemBlock& block : PemBlocks(text)) {
    if (block.label != "CERTIFICATE" && block.label != "X509 CERTIFICATE") continue;
    const Bio reader = Reader(block.text);
    Certificate certificate(PEM_read_bio_X509(reader.get(), nullptr, nullptr, nullptr));
    if (certificate == nullptr) {
      return Bad(config, "certificate " + std::to_string(found.size() + 1) +
                             " does not decode: " + TakeTlsError());
    }
    found.push_back(std::move(certificate));
  }
  if (found.empty()) return Bad(config, "holds no PEM certificate");
  return found;
}

struct Password {
  const std::string* text;
  bool asked = false;
};

// Without it OpenSSL would ask whoever sits at the terminal.
int GivePassword(char* to, int size, int, void* data) {
  auto* password = static_cast<Password*>(data);
  password->asked = true;
  if (password->text->empty() || password->text->size() > static_cast<size_t>(size)) return -1;
  std::memcpy(to, password->text->data(), password->text->size());
  return static_cast<int>(password->text->size());
}

Result<Key> PrivateKey(std::string_view config, std::string_view text,
                       const std::string& key_password) {
  const PemBlock* only = nullptr;
  const std::vector<PemBlock> blocks = PemBlocks(text);
  for (const PemBlock& block : blocks) {
    if (!block.label.ends_with("PRIVATE KEY")) continue;
    if (only != nullptr) return Bad(config, "holds more than one private key");
    only = &block;
  }
  if (only == nullptr) return Bad(config, "holds no PEM private key");
  Password password{&key_password};
  const Bio reader = Reader(only->text);
  Key key(PEM_read_bio_PrivateKey(reader.get(), nullptr, &GivePassword, &password));
  if (key != nullptr) return key;
  const std::string why = TakeTlsError();
  if (!password.asked) return Bad(config, "the private key does not decode: " + why);
  if (key_password.empty()) {
    return Bad(config, "the private key is encrypted; ssl.key.password is needed");
  }
  return Bad("ssl.key.password", "does not open the private key");
}

}  // namespace

std::string TakeTlsError() {
  const unsigned long error = ERR_get_error();
  const char* reason = error != 0 ? ERR_reason_error_string(error) : nullptr;
  std::string text = reason != nullptr ? reason
                     : error != 0      ? "OpenSSL error " + std::to_string(error)
                                       : "no reason given by OpenSSL";
  ERR_clear_error();
  return text;
}

Result<std::shared_ptr<const TlsContext>> TlsContext::Load(const fetcher::TlsOptions& options) {
  std::shared_ptr<TlsContext> made(new TlsContext);
  ERR_clear_error();
  Status status = made->Build(options);
  ERR_clear_error();
  if (!status.ok()) return status;
  return std::shared_ptr<const TlsContext>(std::move(made));
}

TlsContext::~TlsContext() { SSL_CTX_free(context_); }

Status TlsContext::Build(const fetcher::TlsOptions& options) {
  context_ = SSL_CTX_new(TLS_client_method());
  if (context_ == nullptr) return {ErrorCode::kIo, "OpenSSL: " + TakeTlsError()};
  verify_host_ = options.verify_host;
  SSL_CTX_set_options(context_, SSL_OP_NO_COMPRESSION | SSL_OP_NO_RENEGOTIATION);
  SSL_CTX_set_mode(context_, SSL_MODE_NO_AUTO_CHAIN);
  SSL_CTX_set_session_cache_mode(context_, SSL_SESS_CACHE_OFF);
  SSL_CTX_set_verify(context_, SSL_VERIFY_PEER, nullptr);
  if (Status status = SetSuitesAndVersions(options); !status.ok()) return status;
  if (Status status = SetAuthorities(options); !status.ok()) return status;
  return SetCertificate(options);
}

Status TlsContext::SetSuitesAndVersions(const fetcher::TlsOptions& options) {
  constexpr std::string_view kConfig = "ssl.cipher.suites";
  bool tls12 = options.tls12, tls13 = options.tls13;
  if (!options.cipher_suites.empty()) {
    // Everything there is but what neither encrypts nor authenticates, to find the names in.
    SSL_CTX_set_cipher_list(context_, "ALL:!aNULL:!eNULL");
    SSL_CTX_set_ciphersuites(context_,
                             "TLS_AES_256_GCM_SHA384:TLS_CHACHA20_POLY1305_SHA256:"
                             "TLS_AES_128_GCM_SHA256:TLS_AES_128_CCM_SHA256");
    const STACK_OF(SSL_CIPHER)* all = SSL_CTX_get_ciphers(context_);
    std::string suites12, suites13;
    for (const std::string& name : options.cipher_suites) {
      const SSL_CIPHER* found = nullptr;
      for (int i = 0; i < sk_SSL_CIPHER_num(all) && found == nullptr; ++i) {
        const SSL_CIPHER* cipher = sk_SSL_CIPHER_value(all, i);
        const char* standard = SSL_CIPHER_standard_name(cipher);
        if (name == SSL_CIPHER_get_name(cipher) || (standard != nullptr && name == standard)) {
          found = cipher;
        }
      }
      if (found == nullptr) return Bad(kConfig, "\"" + name + "\" is not a suite that is offered");
      const bool is13 = std::string_view(SSL_CIPHER_get_version(found)) == "TLSv1.3";
      std::string& suites = is13 ? suites13 : suites12;
      suites.append(suites.empty() ? "" : ":").append(SSL_CIPHER_get_name(found));
    }
    tls12 = tls12 && !suites12.empty();
    tls13 = tls13 && !suites13.empty();
    if ((!suites12.empty() && SSL_CTX_set_cipher_list(context_, suites12.c_str()) != 1) ||
        SSL_CTX_set_ciphersuites(context_, suites13.c_str()) != 1) {
      return Bad(kConfig, TakeTlsError());
    }
    if (!tls12 && !tls13) return Bad(kConfig, "has no suite of an enabled protocol version");
  }
  SSL_CTX_set_min_proto_version(context_, tls12 ? TLS1_2_VERSION : TLS1_3_VERSION);
  SSL_CTX_set_max_proto_version(context_, tls13 ? TLS1_3_VERSION : TLS1_2_VERSION);
  return {};
}

Status TlsContext::SetAuthorities(const fetcher::TlsOptions& options) {
  const bool file = !options.truststore_file.empty();
  if (!file && options.truststore_certificates.empty()) {
    SSL_CTX_set_default_verify_paths(context_);
    return {};
  }
  const char* config = file ? "ssl.truststore.location" : "ssl.truststore.certificates";
  std::string text = options.truststore_certificates;
  if (file) {
    Result<std::string> read = ReadFile(config, options.truststore_file);
    if (!read.ok()) return read.status();
    text = std::move(*read);
  }
  auto certificates = Certificates(config, text);
  if (!certificates.ok()) return certificates.status();
  X509_STORE* const store = SSL_CTX_get_cert_store(context_);
  for (const Certificate& certificate : *certificates) {
    if (X509_STORE_add_cert(store, certificate.get()) != 1) return Bad(config, TakeTlsError());
  }
  // As Java: whatever the truststore holds is trusted, also an authority below a root.
  X509_STORE_set_flags(store, X509_V_FLAG_PARTIAL_CHAIN);
  return {};
}

Status TlsContext::SetCertificate(const fetcher::TlsOptions& options) {
  const bool file = !options.keystore_file.empty();
  if (!file && options.keystore_key.empty()) return {};
  const char* key_config = file ? "ssl.keystore.location" : "ssl.keystore.key";
  const char* chain_config = file ? "ssl.keystore.location" : "ssl.keystore.certificate.chain";
  std::string key_text = options.keystore_key, chain_text = options.keystore_chain;
  if (file) {
    Result<std::string> read = ReadFile(key_config, options.keystore_file);
    if (!read.ok()) return read.status();
    key_text = chain_text = std::move(*read);
  }
  auto key = PrivateKey(key_config, key_text, options.key_password);
  OPENSSL_cleanse(key_text.data(), key_text.size());
  if (!key.ok()) return key.status();
  auto chain = Certificates(chain_config, chain_text);
  if (!chain.ok()) return chain.status();
  if (SSL_CTX_use_certificate(context_, chain->front().get()) != 1) {
    return Bad(chain_config, "the first certificate cannot be used: " + TakeTlsError());
  }
  // Also compares it with the certificate.
  if (SSL_CTX_use_PrivateKey(context_, key->get()) != 1) {
    return Bad(key_config,
               "the private key is not that of the first certificate: " + TakeTlsError());
  }
  for (size_t i = 1; i < chain->size(); ++i) {
    if (SSL_CTX_add1_chain_cert(context_, (*chain)[i].get()) != 1) {
      return Bad(chain_config, TakeTlsError());
    }
  }
  has_certificate_ = true;
  return {};
}

}  // namespace kmirror::net
