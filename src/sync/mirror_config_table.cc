// The one list of mirror-level configs (protocol.md 4.3, defaults of design.md).
#include <algorithm>
#include <array>

#include "kmirror/mirror_config.h"

namespace kmirror {
namespace {

constexpr int64_t kMaxInt = INT32_MAX;
constexpr auto S = ConfigType::kString;
constexpr auto I = ConfigType::kInt;
constexpr auto J = ConfigType::kLong;
constexpr auto L = ConfigType::kList;
constexpr auto P = ConfigType::kPassword;
constexpr std::nullopt_t kNull = std::nullopt;

// Fetch limits below a kilobyte would only make an answer a batch long, and the slab bound must
// hold one: they have a floor.
constexpr MirrorConfigDefinition kTable[] = {
    {"acls.include", L, "*", INT64_MIN, INT64_MAX, "", false,
     "ACLs to follow: rules `resourceType;resourceName;operation;permissionType;principal`."},
    {"bootstrap.servers", L, kNull, INT64_MIN, INT64_MAX, "", false,
     "Brokers of the source cluster, host:port, comma-separated. Required."},
    {"connections.max.idle.ms", J, "600000", -1, INT64_MAX, "", false,
     "Idle connections to the source are closed after this time."},
    {"fetch.backoff.ms", J, "1000", 0, kMaxInt, "", false,
     "Delay of a partition's next fetch after a failure."},
    {"fetch.buffer.bytes", J, "8388608", 65536, INT64_MAX, "", false,
     "Memory one fetcher may hold in fetched bytes; a single larger batch is still taken whole."},
    {"fetch.max.bytes", I, "10485760", 1024, kMaxInt, "", false,
     "Greatest number of bytes of one partition in one fetch answer."},
    {"fetch.min.bytes", I, "1", 0, kMaxInt, "", false,
     "The source answers a fetch at this many bytes."},
    {"fetch.response.max.bytes", I, "10485760", 1024, kMaxInt, "", false,
     "Greatest number of bytes of one fetch answer."},
    {"fetch.wait.max.ms", I, "500", 0, kMaxInt, "", false,
     "The source answers a fetch after this time at the latest."},
    {"groups.exclude", L, "", INT64_MIN, INT64_MAX, "", false,
     "Consumer groups not followed, regular expressions; wins over groups.include."},
    {"groups.include", L, ".*", INT64_MIN, INT64_MAX, "", false,
     "Consumer groups whose offsets are followed, regular expressions."},
    {"isolation.level", S, "read_uncommitted", INT64_MIN, INT64_MAX,
     "read_uncommitted,read_committed", false, "What the mirror reads of open transactions."},
    {"request.timeout.ms", I, "30000", 0, kMaxInt, "", false,
     "Patience with a request to the source."},
    {"sasl.client.callback.handler.class", S, kNull, INT64_MIN, INT64_MAX, "", false, "Not used."},
    {"sasl.jaas.config", P, kNull, INT64_MIN, INT64_MAX, "", false,
     "Credentials, as `...LoginModule required username=\"u\" password=\"p\";`."},
    {"sasl.kerberos.service.name", S, kNull, INT64_MIN, INT64_MAX, "", false, "Not used."},
    {"sasl.login.callback.handler.class", S, kNull, INT64_MIN, INT64_MAX, "", false, "Not used."},
    {"sasl.login.class", S, kNull, INT64_MIN, INT64_MAX, "", false, "Not used."},
    {"sasl.mechanism", S, "PLAIN", INT64_MIN, INT64_MAX, "", false,
     "SASL mechanism of the source."},
    {"security.protocol", S, "PLAINTEXT", INT64_MIN, INT64_MAX,
     "PLAINTEXT,SSL,SASL_PLAINTEXT,SASL_SSL", false,
     "How the source is spoken to: PLAINTEXT or SSL (which is TLS)."},
    {"security.providers", S, kNull, INT64_MIN, INT64_MAX, "", false, "Not used."},
    {"socket.connection.setup.timeout.max.ms", J, "30000", 0, INT64_MAX, "", false,
     "Greatest patience with a connection attempt."},
    {"socket.connection.setup.timeout.ms", J, "10000", 0, kMaxInt, "", false,
     "Patience with a connection attempt."},
    {"socket.receive.buffer.bytes", I, "-1", -1, kMaxInt, "", false,
     "Receive buffer of a fetch connection; -1 leaves it to the system, which grows it."},
    {"socket.timeout.ms", I, "30000", 0, kMaxInt, "", false, "Patience with a silent connection."},
    {"source.cluster.id", S, kNull, INT64_MIN, INT64_MAX, "", true,
     "Cluster id of the source; once known it does not change."},
    {"source.gap", S, "continue", INT64_MIN, INT64_MAX, "continue,fail", false,
     "When the source's retention overtook the mirror: go on at its log start, or fail."},
    {"ssl.cipher.suites", L, kNull, INT64_MIN, INT64_MAX, "", false,
     "Cipher suites that are offered, by their IANA or OpenSSL names; none: all."},
    {"ssl.enabled.protocols", L, kNull, INT64_MIN, INT64_MAX, "", false,
     "TLS versions that are spoken, of TLSv1.2 and TLSv1.3; none: see ssl.protocol."},
    {"ssl.endpoint.identification.algorithm", S, "https", INT64_MIN, INT64_MAX, "", false,
     "https: the source's certificate must name its host; empty: it need not."},
    {"ssl.engine.factory.class", S, kNull, INT64_MIN, INT64_MAX, "", false, "Not used."},
    {"ssl.key.password", P, kNull, INT64_MIN, INT64_MAX, "", false,
     "Password of the private key, if it is encrypted."},
    {"ssl.keymanager.algorithm", S, kNull, INT64_MIN, INT64_MAX, "", false, "Not used."},
    {"ssl.keystore.certificate.chain", P, kNull, INT64_MIN, INT64_MAX, "", false,
     "Our certificate for sources that ask for one, and what signed it: PEM text."},
    {"ssl.keystore.key", P, kNull, INT64_MIN, INT64_MAX, "", false,
     "Private key of that certificate: PEM text, PKCS#8, may be encrypted."},
    {"ssl.keystore.location", S, kNull, INT64_MIN, INT64_MAX, "", false,
     "File of both in their place, PEM: private key and certificates."},
    {"ssl.keystore.password", P, kNull, INT64_MIN, INT64_MAX, "", false,
     "Refused: a PEM file has no password of its own."},
    {"ssl.keystore.type", S, "JKS", INT64_MIN, INT64_MAX, "", false,
     "Must be PEM where a key is given; JKS and PKCS12 are not read."},
    {"ssl.protocol", S, "TLSv1.3", INT64_MIN, INT64_MAX, "", false,
     "TLSv1.3 and TLS: TLSv1.2 and TLSv1.3 are spoken; TLSv1.2: that alone."},
    {"ssl.provider", S, kNull, INT64_MIN, INT64_MAX, "", false, "Not used."},
    {"ssl.secure.random.implementation", S, kNull, INT64_MIN, INT64_MAX, "", false, "Not used."},
    {"ssl.trustmanager.algorithm", S, kNull, INT64_MIN, INT64_MAX, "", false, "Not used."},
    {"ssl.truststore.certificates", P, kNull, INT64_MIN, INT64_MAX, "", false,
     "Authorities that may sign the source's certificate: PEM text."},
    {"ssl.truststore.location", S, kNull, INT64_MIN, INT64_MAX, "", false,
     "File of authorities, PEM. Neither it nor the text: those of the system."},
    {"ssl.truststore.password", P, kNull, INT64_MIN, INT64_MAX, "", false,
     "Refused: a PEM file has no password of its own."},
    {"ssl.truststore.type", S, "JKS", INT64_MIN, INT64_MAX, "", false,
     "Must be PEM where authorities are given; JKS and PKCS12 are not read."},
    {"stop.uncommitted", S, "abort", INT64_MIN, INT64_MAX, "abort,truncate", false,
     "What a stop does with open transactions: abort markers, or a cut to the last stable offset."},
    {"topic.properties.exclude", L,
     "follower.replication.throttled.replicas,leader.replication.throttled.replicas,"
     "message.timestamp.difference.max.ms,log.message.timestamp.before.max.ms,"
     "log.message.timestamp.after.max.ms,message.timestamp.type,unclean.leader.election.enable,"
     "min.insync.replicas,mirror.replication.throttled.replicas,"
     "mirror.support.unclean.leader.election",
     INT64_MIN, INT64_MAX, "", false, "Topic configs that are not followed."},
    {"topics.exclude", L, "__.*", INT64_MIN, INT64_MAX, "", false,
     "Topics never discovered, regular expressions; wins over topics.include."},
    {"topics.include", L, "", INT64_MIN, INT64_MAX, "", false,
     "Topics mirrored as they appear, regular expressions; empty: none."},
};

constexpr bool ByName(const MirrorConfigDefinition& a, const MirrorConfigDefinition& b) {
  return a.name < b.name;
}
static_assert(std::is_sorted(std::begin(kTable), std::end(kTable), ByName), "look-ups are binary");

}  // namespace

std::span<const MirrorConfigDefinition> MirrorConfigTable() { return kTable; }

const MirrorConfigDefinition* FindMirrorConfig(std::string_view name) {
  constexpr std::string_view kPrefix = "mirror.";
  if (name.starts_with(kPrefix)) name.remove_prefix(kPrefix.size());
  if (name == "acl.include") name = "acls.include";  // the first drafts' spelling
  const auto* found =
      std::lower_bound(std::begin(kTable), std::end(kTable), name,
                       [](const auto& row, std::string_view key) { return row.name < key; });
  return found != std::end(kTable) && found->name == name ? found : nullptr;
}

std::string MirrorConfigKey(std::string_view name) {
  const MirrorConfigDefinition* definition = FindMirrorConfig(name);
  return std::string(definition != nullptr ? definition->name : name);
}

}  // namespace kmirror
