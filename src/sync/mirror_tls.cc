#include "src/sync/mirror_tls.h"

#include <algorithm>
#include <utility>

#include "src/base/config_value.h"

namespace kmirror::sync {
namespace {

Status Bad(std::string_view key, const std::string& why) {
  return {ErrorCode::kInvalidConfig, std::string(key) + ": " + why};
}

class Texts {
 public:
  explicit Texts(const ConfigMap& stored) : stored_(stored) {}

  std::string Of(std::string_view key) const { return TextOrDefault(stored_, key); }
  bool Has(std::string_view key) const { return !Of(key).empty(); }

 private:
  const ConfigMap& stored_;
};

// A block "-----BEGIN ...LABEL-----" that ends. What is in it is looked at when it is used.
bool HasPemBlock(std::string_view text, std::string_view label) {
  const std::string end = std::string(label) + "-----";
  const size_t begin = text.find("-----BEGIN ");
  if (begin == std::string_view::npos) return false;
  const size_t labelled = text.find(end, begin);
  return labelled != std::string_view::npos && text.find("-----END ", labelled) != text.npos &&
         text.find(end, text.find("-----END ", labelled)) != text.npos;
}

// `store` is "ssl.truststore" or "ssl.keystore"; `content`: the key whose text stands for the file.
Status CheckStore(const Texts& texts, const std::string& store, const std::string& content) {
  const std::string location = store + ".location", type = store + ".type";
  const bool file = texts.Has(location), text = texts.Has(content);
  if (texts.Has(store + ".password")) {
    return Bad(store + ".password",
               file || text ? "a PEM store has no password of its own" : "is set, but no store");
  }
  if (!file && !text) return {};
  if (texts.Of(type) != "PEM") {
    return Bad(type, "only PEM is read, and this is " + texts.Of(type) + ", for " +
                         (file ? location : content) + ": convert the store to PEM files and set " +
                         type + "=PEM");
  }
  if (file && text) return Bad(location, "is set, and so is " + content + ": one of them");
  return {};
}

Status ParseVersions(const Texts& texts, fetcher::TlsOptions* options) {
  constexpr std::string_view kEnabled = "ssl.enabled.protocols", kProtocol = "ssl.protocol";
  const std::string protocol = texts.Of(kProtocol);
  if (protocol != "TLS" && protocol != "TLSv1.2" && protocol != "TLSv1.3") {
    return Bad(kProtocol, "\"" + protocol + "\" is not one of TLSv1.3, TLSv1.2, TLS");
  }
  const std::vector<std::string> enabled = SplitList(texts.Of(kEnabled));
  if (enabled.empty()) {
    options->tls13 = protocol != "TLSv1.2";  // Kafka's default enables both for TLSv1.3
    return {};
  }
  options->tls12 = options->tls13 = false;
  for (const std::string& version : enabled) {
    if (version != "TLSv1.2" && version != "TLSv1.3") {
      return Bad(kEnabled, "\"" + version + "\" is not one of TLSv1.2, TLSv1.3");
    }
    (version == "TLSv1.2" ? options->tls12 : options->tls13) = true;
  }
  return {};
}

Status ParseKeystore(const Texts& texts, fetcher::TlsOptions* options) {
  constexpr std::string_view kKey = "ssl.keystore.key", kChain = "ssl.keystore.certificate.chain";
  if (Status s = CheckStore(texts, "ssl.keystore", std::string(texts.Has(kKey) ? kKey : kChain));
      !s.ok()) {
    return s;
  }
  if (texts.Has(kKey) != texts.Has(kChain)) {
    return Bad(texts.Has(kKey) ? kChain : kKey, "is missing: key and certificates go together");
  }
  options->keystore_file = texts.Of("ssl.keystore.location");
  options->keystore_key = texts.Of(kKey);
  options->keystore_chain = texts.Of(kChain);
  options->key_password = texts.Of("ssl.key.password");
  if (!texts.Has(kKey)) return {};
  if (!HasPemBlock(options->keystore_key, "PRIVATE KEY")) {
    return Bad(kKey, "holds no PEM private key");
  }
  if (!HasPemBlock(options->keystore_chain, "CERTIFICATE")) {
    return Bad(kChain, "holds no PEM certificate");
  }
  if (options->keystore_key.find("ENCRYPTED") != std::string::npos &&
      options->key_password.empty()) {
    return Bad("ssl.key.password", "is needed: ssl.keystore.key is encrypted");
  }
  return {};
}

}  // namespace

Result<std::shared_ptr<const fetcher::TlsOptions>> ParseMirrorTls(const ConfigMap& stored) {
  const Texts texts(stored);
  const std::string protocol = texts.Of("security.protocol");
  if (protocol == "PLAINTEXT") return std::shared_ptr<const fetcher::TlsOptions>();
  if (protocol != "SSL") {
    // Taken silently it would send data in the clear where the operator asked for more.
    return Bad("security.protocol",
               protocol + " towards a source is not supported by this version");
  }
  auto options = std::make_shared<fetcher::TlsOptions>();
  if (texts.Has("ssl.engine.factory.class")) {
    return Bad("ssl.engine.factory.class", "a Java class cannot be used here");
  }
  if (Status s = CheckStore(texts, "ssl.truststore", "ssl.truststore.certificates"); !s.ok()) {
    return s;
  }
  options->truststore_file = texts.Of("ssl.truststore.location");
  options->truststore_certificates = texts.Of("ssl.truststore.certificates");
  if (!options->truststore_certificates.empty() &&
      !HasPemBlock(options->truststore_certificates, "CERTIFICATE")) {
    return Bad("ssl.truststore.certificates", "holds no PEM certificate");
  }
  if (Status s = ParseKeystore(texts, options.get()); !s.ok()) return s;
  if (Status s = ParseVersions(texts, options.get()); !s.ok()) return s;
  std::string identification = texts.Of("ssl.endpoint.identification.algorithm");
  std::transform(identification.begin(), identification.end(), identification.begin(),
                 [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; });
  if (!identification.empty() && identification != "https") {
    return Bad("ssl.endpoint.identification.algorithm", "is neither https nor empty");
  }
  options->verify_host = !identification.empty();
  options->cipher_suites = SplitList(texts.Of("ssl.cipher.suites"));
  return std::shared_ptr<const fetcher::TlsOptions>(std::move(options));
}

}  // namespace kmirror::sync
