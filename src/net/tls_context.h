// From the TLS options of a mirror to what OpenSSL starts connections from: authorities, our
// certificate and key, versions, cipher suites.
#pragma once

#include <memory>
#include <string>

#include "kmirror/status.h"
#include "src/fetcher/transport.h"

struct ssl_ctx_st;  // OpenSSL's SSL_CTX

namespace kmirror::net {

// Immutable; connections of several lanes may share one.
class TlsContext {
 public:
  // Reads the files, so it may block. kInvalidConfig names the config that is wrong; no key,
  // password or other content of a file is ever part of the text.
  static Result<std::shared_ptr<const TlsContext>> Load(const fetcher::TlsOptions& options);
  ~TlsContext();
  TlsContext(const TlsContext&) = delete;
  TlsContext& operator=(const TlsContext&) = delete;

  ssl_ctx_st* get() const { return context_; }
  bool verify_host() const { return verify_host_; }
  bool has_certificate() const { return has_certificate_; }

 private:
  TlsContext() = default;
  Status Build(const fetcher::TlsOptions& options);
  Status SetSuitesAndVersions(const fetcher::TlsOptions& options);
  Status SetAuthorities(const fetcher::TlsOptions& options);
  Status SetCertificate(const fetcher::TlsOptions& options);

  ssl_ctx_st* context_ = nullptr;
  bool verify_host_ = true;
  bool has_certificate_ = false;
};

// The text of the oldest error in OpenSSL's queue of this thread, which is emptied.
std::string TakeTlsError();

}  // namespace kmirror::net
