#include "bench/tls_relay.h"

#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <poll.h>
#include <sched.h>
#include <sys/socket.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <vector>

#include "bench/reference/sender.h"

namespace bench {
namespace {

X509* SelfSigned(EVP_PKEY* key) {
  X509* certificate = X509_new();
  X509_set_version(certificate, X509_VERSION_3);
  ASN1_INTEGER_set(X509_get_serialNumber(certificate), 1);
  X509_gmtime_adj(X509_getm_notBefore(certificate), -60);
  X509_gmtime_adj(X509_getm_notAfter(certificate), 86400);
  X509_set_pubkey(certificate, key);
  X509_EXTENSION* names =
      X509V3_EXT_conf_nid(nullptr, nullptr, NID_subject_alt_name, "IP:127.0.0.1");
  X509_add_ext(certificate, names, -1);
  X509_EXTENSION_free(names);
  if (X509_sign(certificate, key, EVP_sha256()) == 0) std::abort();
  return certificate;
}

[[noreturn]] void Relay(int listen_fd, uint16_t target, SSL_CTX* context) {
  std::signal(SIGPIPE, SIG_IGN);
  const int on = 1;
  const int client = accept(listen_fd, nullptr, nullptr);
  setsockopt(client, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  SSL* ssl = SSL_new(context);
  SSL_set_fd(ssl, client);
  if (SSL_accept(ssl) != 1) _exit(1);

  const int server = socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(target);
  if (connect(server, reinterpret_cast<sockaddr*>(&address), sizeof address) != 0) _exit(1);
  setsockopt(server, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);

  std::vector<uint8_t> bytes(256 << 10);
  for (;;) {
    pollfd ready[] = {{client, POLLIN, 0}, {server, POLLIN, 0}};
    if (poll(ready, 2, -1) < 0) _exit(1);
    if (ready[0].revents != 0) {
      do {
        const int got = SSL_read(ssl, bytes.data(), static_cast<int>(bytes.size()));
        if (got <= 0) _exit(0);
        if (send(server, bytes.data(), static_cast<size_t>(got), MSG_NOSIGNAL) != got) _exit(0);
      } while (SSL_pending(ssl) > 0);
    }
    if (ready[1].revents != 0) {
      const ssize_t got = recv(server, bytes.data(), bytes.size(), 0);
      if (got <= 0) _exit(0);
      if (SSL_write(ssl, bytes.data(), static_cast<int>(got)) <= 0) _exit(0);
    }
  }
}

}  // namespace

TlsRelay StartTlsRelay(uint16_t target, int cpu) {
  EVP_PKEY* key = EVP_EC_gen("P-256");
  X509* certificate = SelfSigned(key);
  TlsRelay relay;
  BIO* text = BIO_new(BIO_s_mem());
  PEM_write_bio_X509(text, certificate);
  char* at = nullptr;
  const long size = BIO_get_mem_data(text, &at);
  relay.certificate.assign(at, static_cast<size_t>(size));
  BIO_free(text);

  const int listening = Listen(&relay.port);
  relay.pid = fork();
  if (relay.pid != 0) {
    close(listening);
    X509_free(certificate);
    EVP_PKEY_free(key);
    return relay;
  }
  cpu_set_t cpus;
  CPU_ZERO(&cpus);
  CPU_SET(cpu, &cpus);
  sched_setaffinity(0, sizeof cpus, &cpus);
  SSL_CTX* context = SSL_CTX_new(TLS_server_method());
  SSL_CTX_set_min_proto_version(context, TLS1_3_VERSION);
  if (SSL_CTX_use_certificate(context, certificate) != 1 ||
      SSL_CTX_use_PrivateKey(context, key) != 1) {
    _exit(1);
  }
  Relay(listening, target, context);
}

}  // namespace bench
