#include "tests/net/tls_peer.h"

#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>

#include <stdexcept>

namespace kmirror::net::testing {
namespace {

void Check(bool done, const char* what) {
  if (!done) throw std::runtime_error(what);
}

template <typename Write>
std::string Pem(Write write) {
  BIO* bio = BIO_new(BIO_s_mem());
  Check(write(bio) == 1, "PEM");
  char* text = nullptr;
  const long size = BIO_get_mem_data(bio, &text);
  std::string pem(text, static_cast<size_t>(size));
  BIO_free(bio);
  return pem;
}

std::string CertificatePem(X509* certificate) {
  return Pem([&](BIO* bio) { return PEM_write_bio_X509(bio, certificate); });
}

EVP_PKEY* ReadKey(const std::string& pem) {
  BIO* bio = BIO_new_mem_buf(pem.data(), static_cast<int>(pem.size()));
  EVP_PKEY* key = PEM_read_bio_PrivateKey(bio, nullptr, nullptr, nullptr);
  BIO_free(bio);
  Check(key != nullptr, "key");
  return key;
}

X509* ReadCertificate(const std::string& pem) {
  BIO* bio = BIO_new_mem_buf(pem.data(), static_cast<int>(pem.size()));
  X509* certificate = PEM_read_bio_X509(bio, nullptr, nullptr, nullptr);
  BIO_free(bio);
  Check(certificate != nullptr, "certificate");
  return certificate;
}

void AddExtension(X509* certificate, int nid, const std::string& value) {
  X509_EXTENSION* extension = X509V3_EXT_conf_nid(nullptr, nullptr, nid, value.c_str());
  Check(extension != nullptr, value.c_str());
  X509_add_ext(certificate, extension, -1);
  X509_EXTENSION_free(extension);
}

X509* Draft(const std::string& name, EVP_PKEY* key, int from_seconds, int to_seconds) {
  static long serial = 0;
  X509* certificate = X509_new();
  X509_set_version(certificate, X509_VERSION_3);
  ASN1_INTEGER_set(X509_get_serialNumber(certificate), ++serial);
  X509_gmtime_adj(X509_getm_notBefore(certificate), from_seconds);
  X509_gmtime_adj(X509_getm_notAfter(certificate), to_seconds);
  X509_NAME_add_entry_by_txt(X509_get_subject_name(certificate), "CN", MBSTRING_ASC,
                             reinterpret_cast<const unsigned char*>(name.c_str()), -1, -1, 0);
  X509_set_pubkey(certificate, key);
  return certificate;
}

}  // namespace

Authority::Authority(const std::string& name) : key_(EVP_EC_gen("P-256")) {
  certificate_ = Draft(name, key_, -7200, 7200);
  X509_set_issuer_name(certificate_, X509_get_subject_name(certificate_));
  AddExtension(certificate_, NID_basic_constraints, "critical,CA:TRUE");
  Check(X509_sign(certificate_, key_, EVP_sha256()) > 0, "sign");
}

Authority::~Authority() {
  X509_free(certificate_);
  EVP_PKEY_free(key_);
}

std::string Authority::certificate() const { return CertificatePem(certificate_); }

Identity Authority::Issue(const Wishes& wishes) const {
  EVP_PKEY* key = EVP_EC_gen("P-256");
  X509* certificate = Draft("broker", key, wishes.from_seconds, wishes.to_seconds);
  X509_set_issuer_name(certificate, X509_get_subject_name(certificate_));
  if (!wishes.names.empty()) AddExtension(certificate, NID_subject_alt_name, wishes.names);
  Check(X509_sign(certificate, key_, EVP_sha256()) > 0, "sign");
  Identity identity;
  identity.certificate = CertificatePem(certificate);
  identity.key = Pem([&](BIO* bio) {
    return PEM_write_bio_PKCS8PrivateKey(bio, key, nullptr, nullptr, 0, nullptr, nullptr);
  });
  X509_free(certificate);
  EVP_PKEY_free(key);
  return identity;
}

std::string Encrypted(const std::string& key_pem, const std::string& password) {
  EVP_PKEY* key = ReadKey(key_pem);
  std::string pem = Pem([&](BIO* bio) {
    return PEM_write_bio_PKCS8PrivateKey(bio, key, EVP_aes_256_cbc(), password.data(),
                                         static_cast<int>(password.size()), nullptr, nullptr);
  });
  EVP_PKEY_free(key);
  return pem;
}

TlsServer MakeTlsServer(const Identity& identity, const TlsServerOptions& options) {
  TlsServer server(SSL_CTX_new(TLS_server_method()), &SSL_CTX_free);
  EVP_PKEY* key = ReadKey(identity.key);
  X509* certificate = ReadCertificate(identity.certificate);
  Check(SSL_CTX_use_certificate(server.get(), certificate) == 1 &&
            SSL_CTX_use_PrivateKey(server.get(), key) == 1,
        "identity");
  X509_free(certificate);
  EVP_PKEY_free(key);
  if (options.version != 0) {
    SSL_CTX_set_min_proto_version(server.get(), options.version);
    SSL_CTX_set_max_proto_version(server.get(), options.version);
  }
  if (!options.suites12.empty()) {
    Check(SSL_CTX_set_cipher_list(server.get(), options.suites12.c_str()) == 1, "suites");
  }
  if (!options.client_authority.empty()) {
    X509* authority = ReadCertificate(options.client_authority);
    X509_STORE_add_cert(SSL_CTX_get_cert_store(server.get()), authority);
    X509_free(authority);
    SSL_CTX_set_verify(server.get(), SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, nullptr);
  }
  return server;
}

}  // namespace kmirror::net::testing
