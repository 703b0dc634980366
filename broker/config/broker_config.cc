#include "broker/config/broker_config.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <fstream>
#include <iterator>
#include <set>
#include <utility>

#include "broker/config/config_table.h"
#include "src/base/config_value.h"

namespace kmirror::broker {
namespace {

// What the server can serve. A listener that promises more must not silently offer less.
constexpr std::string_view kServedProtocols = "PLAINTEXT";
constexpr std::string_view kKnownProtocols = "PLAINTEXT,SSL,SASL_PLAINTEXT,SASL_SSL";

bool Among(std::string_view value, std::string_view choices) {
  const std::vector<std::string> list = SplitList(choices);
  return std::find(list.begin(), list.end(), value) != list.end();
}

std::string HostName() {
  char name[256] = {};
  if (gethostname(name, sizeof name - 1) != 0 || name[0] == '\0') return "localhost";
  return name;
}

std::string Upper(std::string_view text) {
  std::string upper(text);
  for (char& c : upper) c = c >= 'a' && c <= 'z' ? static_cast<char>(c - 32) : c;
  return upper;
}

// One run over a file's properties: collects the values and says where a fault is.
class Reader {
 public:
  Reader(const Properties& properties, std::string_view file)
      : properties_(properties), file_(file) {}

  Status Fault(std::string_view key, const std::string& why) const {
    return Place(key, std::string(key) + ": " + why);
  }
  // `text` names the key already.
  Status Place(std::string_view key, const std::string& text) const {
    const auto found = properties_.find(std::string(key));
    const std::string line =
        found == properties_.end() ? "" : ":" + std::to_string(found->second.line);
    return {ErrorCode::kInvalidConfig, std::string(file_) + line + ": " + text};
  }

  Status Read(BrokerConfig* config) const;

 private:
  Status CheckKeys(BrokerConfig* config) const;
  Status ReadListeners(BrokerConfig* config) const;
  Result<std::vector<std::pair<std::string, HostPort>>> Endpoints(std::string_view key,
                                                                  const std::string& text,
                                                                  int32_t min_port) const;

  const Properties& properties_;
  const std::string_view file_;
};

Status Reader::CheckKeys(BrokerConfig* config) const {
  for (const auto& [key, property] : properties_) {
    const ConfigDefinition* definition = FindBrokerConfig(key);
    if (definition == nullptr) return Fault(key, "unknown key");
    const std::string value(TrimBlanks(property.value));
    if (Status s = CheckConfigValue(*definition, value); !s.ok()) return Place(key, s.message());
    config->given[key] = value;
  }
  // Older names. Kafka lets the newer one win; two different values are more likely a mistake.
  for (const auto& [older, newer] :
       {std::pair{"broker.id", "node.id"}, std::pair{"log.dir", "log.dirs"}}) {
    const auto found = config->given.find(older);
    if (found == config->given.end()) continue;
    const auto [place, added] = config->given.emplace(newer, found->second);
    if (!added && place->second != found->second) {
      return Fault(older, std::string("differs from ") + newer);
    }
  }
  return {};
}

Result<std::vector<std::pair<std::string, HostPort>>> Reader::Endpoints(std::string_view key,
                                                                        const std::string& text,
                                                                        int32_t min_port) const {
  std::vector<std::pair<std::string, HostPort>> endpoints;
  for (const std::string& item : SplitList(text)) {
    const size_t slashes = item.find("://");
    if (slashes == std::string::npos || slashes == 0) {
      return Fault(key, "\"" + item + "\" is not NAME://host:port");
    }
    const std::optional<HostPort> address =
        ParseHostPort(std::string_view(item).substr(slashes + 3), min_port);
    if (!address) return Fault(key, "\"" + item + "\" is not NAME://host:port");
    std::string name = Upper(std::string_view(item).substr(0, slashes));
    for (const auto& [other, other_address] : endpoints) {
      if (other == name) return Fault(key, "two listeners are called " + name);
      if (key == "listeners" && address->port != 0 && other_address.port == address->port &&
          other_address.host == address->host) {
        return Fault(key, "two listeners have the address " + address->ToString());
      }
    }
    endpoints.emplace_back(std::move(name), *address);
  }
  return endpoints;
}

Status Reader::ReadListeners(BrokerConfig* config) const {
  std::map<std::string, std::string> protocols;
  for (const std::string& known : SplitList(kKnownProtocols)) protocols[known] = known;
  if (const auto map = config->Get("listener.security.protocol.map")) {
    for (const std::string& item : SplitList(*map)) {
      const size_t colon = item.find(':');
      const std::string protocol = colon == std::string::npos ? "" : Upper(item.substr(colon + 1));
      if (!Among(protocol, kKnownProtocols) || colon == 0) {
        return Fault("listener.security.protocol.map", "\"" + item + "\" is not NAME:PROTOCOL");
      }
      protocols[Upper(item.substr(0, colon))] = protocol;
    }
  }

  const auto listeners = Endpoints("listeners", config->Get("listeners").value_or(""), 0);
  if (!listeners.ok()) return listeners.status();
  if (listeners->empty()) return Fault("listeners", "required, for example PLAINTEXT://:9092");
  const auto advertised =
      Endpoints("advertised.listeners", config->Get("advertised.listeners").value_or(""), 0);
  if (!advertised.ok()) return advertised.status();

  std::map<std::string, HostPort> advertised_by_name(advertised->begin(), advertised->end());
  for (const auto& [name, bind] : *listeners) {
    Listener listener;
    listener.name = name;
    const auto protocol = protocols.find(name);
    if (protocol == protocols.end()) {
      return Fault("listeners", name + " has no entry in listener.security.protocol.map");
    }
    listener.security_protocol = protocol->second;
    if (!Among(listener.security_protocol, kServedProtocols)) {
      return Fault("listeners", name + " wants " + listener.security_protocol +
                                    ", which this version does not serve");
    }
    listener.bind = bind;
    if (listener.bind.host == "0.0.0.0" || listener.bind.host == "::") listener.bind.host.clear();
    const auto told = advertised_by_name.extract(name);
    if (!told.empty()) {
      listener.advertised = told.mapped();
      if (listener.advertised.host.empty() || listener.advertised.host == "0.0.0.0" ||
          listener.advertised.host == "::") {
        return Fault("advertised.listeners", name + " needs a host that clients can reach");
      }
    } else {
      listener.advertised = {listener.bind.host.empty() ? HostName() : listener.bind.host,
                             bind.port};
    }
    config->listeners.push_back(std::move(listener));
  }
  if (!advertised_by_name.empty()) {
    return Fault("advertised.listeners",
                 advertised_by_name.begin()->first + " is not among listeners");
  }
  if (const auto name = config->Get("inter.broker.listener.name")) {
    const bool known = std::any_of(config->listeners.begin(), config->listeners.end(),
                                   [&](const Listener& l) { return l.name == Upper(*name); });
    if (!known) return Fault("inter.broker.listener.name", *name + " is not among listeners");
  }
  return {};
}

Status Reader::Read(BrokerConfig* config) const {
  if (Status s = CheckKeys(config); !s.ok()) return s;
  const auto text = [&](std::string_view key) { return config->Get(key).value_or(""); };
  const auto number = [&](std::string_view key) { return ParseInt64(text(key)).value_or(0); };
  const auto integer = [&](std::string_view key) { return static_cast<int32_t>(number(key)); };
  const auto flag = [&](std::string_view key) { return ParseBool(text(key)).value_or(false); };
  const auto ms = [&](std::string_view key) { return std::chrono::milliseconds(number(key)); };

  if (!config->given.contains("node.id")) return Fault("node.id", "required");
  config->node_id = integer("node.id");
  config->cluster_id = text("cluster.id");
  if (config->cluster_id.find_first_of(" \t") != std::string::npos) {
    return Fault("cluster.id", "contains blanks");
  }
  const std::vector<std::string> dirs = SplitList(text("log.dirs"));
  if (dirs.empty()) return Fault("log.dirs", "required");
  if (dirs.size() > 1)
    return Fault("log.dirs", "names more than one folder; this version keeps one");
  config->log_dir = dirs.front();
  while (config->log_dir.size() > 1 && config->log_dir.ends_with('/')) config->log_dir.pop_back();
  config->metadata_dir = text("kmirror.metadata.dir");
  if (config->metadata_dir.empty()) config->metadata_dir = config->log_dir + "/kmirror.metadata";
  if (Status s = ReadListeners(config); !s.ok()) return s;
  config->rack = text("broker.rack");
  if (const std::string metrics = text("kmirror.metrics.listener"); !metrics.empty()) {
    config->metrics = ParseHostPort(metrics, 0);
    if (!config->metrics)
      return Fault("kmirror.metrics.listener", "\"" + metrics + "\" is not host:port");
  }
  config->log_level = text("kmirror.log.level");

  config->num_network_threads = integer("num.network.threads");
  config->num_io_threads = integer("num.io.threads");
  config->socket_send_buffer_bytes = integer("socket.send.buffer.bytes");
  config->socket_receive_buffer_bytes = integer("socket.receive.buffer.bytes");
  config->socket_request_max_bytes = integer("socket.request.max.bytes");
  config->max_connections = integer("max.connections");
  config->max_connections_per_ip = integer("max.connections.per.ip");
  config->queued_max_request_bytes = number("queued.max.request.bytes");
  config->queued_max_requests = integer("queued.max.requests");
  config->connections_max_idle_ms = number("connections.max.idle.ms");
  config->fetch_max_bytes = integer("fetch.max.bytes");
  config->max_incremental_fetch_session_cache_slots =
      integer("max.incremental.fetch.session.cache.slots");

  config->num_partitions = integer("num.partitions");
  config->auto_create_topics_enable = flag("auto.create.topics.enable");
  config->delete_topic_enable = flag("delete.topic.enable");
  config->default_replication_factor = static_cast<int16_t>(integer("default.replication.factor"));
  if (config->default_replication_factor != 1) {
    return Fault("default.replication.factor", "one broker holds one replica; 1 is the only value");
  }
  config->offsets_topic_num_partitions = integer("offsets.topic.num.partitions");
  config->transaction_state_log_num_partitions = integer("transaction.state.log.num.partitions");

  config->log_flush_offset_checkpoint_interval_ms =
      number("log.flush.offset.checkpoint.interval.ms");
  config->replica_high_watermark_checkpoint_interval_ms =
      number("replica.high.watermark.checkpoint.interval.ms");
  config->log_retention_check_interval_ms = number("log.retention.check.interval.ms");
  config->log_segment_delete_delay_ms = number("log.segment.delete.delay.ms");
  config->producer_id_expiration_ms = number("producer.id.expiration.ms");
  config->open_files_max = integer("kmirror.open.files.max");

  config->mirror.num_replica_fetchers = integer("mirror.num.replica.fetchers");
  config->mirror.metadata_refresh_interval = ms("mirror.metadata.refresh.interval.ms");
  config->mirror.failed_retry_initial_backoff = ms("mirror.failed.retry.initial.backoff.ms");
  config->mirror.failed_retry_max_backoff = ms("mirror.failed.retry.max.backoff.ms");
  config->mirror.failed_retry_max_attempts = integer("mirror.failed.retry.max.attempts");
  config->mirror.coordinator_append_linger = ms("mirror.coordinator.append.linger.ms");
  config->mirror_state_topic_num_partitions = integer("mirror.state.topic.num.partitions");
  config->mirror_state_topic_replication_factor =
      static_cast<int16_t>(integer("mirror.state.topic.replication.factor"));
  if (config->mirror_state_topic_replication_factor != 1) {
    return Fault("mirror.state.topic.replication.factor",
                 "one broker holds one replica; 1 is the only value");
  }
  config->mirror_replication_throttled_rate = number("mirror.replication.throttled.rate");
  return {};
}

}  // namespace

std::optional<std::string> BrokerConfig::Get(std::string_view key) const {
  if (const auto found = given.find(std::string(key)); found != given.end()) return found->second;
  const ConfigDefinition* definition = FindBrokerConfig(key);
  if (definition == nullptr || !definition->fallback) return std::nullopt;
  return std::string(*definition->fallback);
}

Result<BrokerConfig> BrokerConfig::Parse(std::string_view text, std::string_view file) {
  const Result<Properties> properties = ParseProperties(text, file);
  if (!properties.ok()) return properties.status();
  BrokerConfig config;
  if (Status s = Reader(*properties, file).Read(&config); !s.ok()) return s;
  return config;
}

Result<BrokerConfig> BrokerConfig::Load(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  const std::string text{std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
  if (in.bad() || !in.is_open()) {
    return Status(ErrorCode::kInvalidConfig, path + ": cannot be read");
  }
  return Parse(text, path);
}

}  // namespace kmirror::broker
