// Certificates made on the spot, and the server's side of TLS.
#pragma once

#include <memory>
#include <string>
#include <vector>

struct evp_pkey_st;  // OpenSSL's EVP_PKEY
struct x509_st;      // X509
struct ssl_ctx_st;   // SSL_CTX

namespace kmirror::net::testing {

struct Identity {
  std::string certificate;  // PEM, as the key
  std::string key;
};

class Authority {
 public:
  explicit Authority(const std::string& name);
  ~Authority();
  Authority(const Authority&) = delete;
  Authority& operator=(const Authority&) = delete;

  std::string certificate() const;
  struct Wishes {
    std::string names = "DNS:localhost,IP:127.0.0.1";  // "": the certificate names nobody
    int from_seconds = -3600, to_seconds = 3600;       // from now
  };
  Identity Issue(const Wishes& wishes) const;
  Identity Issue() const { return Issue(Wishes()); }

 private:
  evp_pkey_st* key_ = nullptr;
  x509_st* certificate_ = nullptr;
};

// The key in PKCS#8, encrypted.
std::string Encrypted(const std::string& key, const std::string& password);

struct TlsServerOptions {
  std::string client_authority;  // PEM; not empty: clients must show a certificate
  int version = 0;               // TLS1_2_VERSION, ...; 0: what OpenSSL has
  std::string suites12;          // of TLS 1.2, OpenSSL's names; "": its default
};
using TlsServer = std::unique_ptr<ssl_ctx_st, void (*)(ssl_ctx_st*)>;
TlsServer MakeTlsServer(const Identity& identity, const TlsServerOptions& options = {});

}  // namespace kmirror::net::testing
