#include "src/sync/mirror_config.h"

#include <algorithm>

#include "src/base/config_value.h"
#include "src/sync/mirror_tls.h"

namespace kmirror {
namespace {

// The rules of one value beyond its type.
Status CheckMirrorValue(const MirrorConfigDefinition& definition, const std::string& value) {
  if (Status s = CheckTypedValue(definition.name, definition.type, value, definition.min,
                                 definition.max, definition.choices);
      !s.ok()) {
    return s;
  }
  const auto bad = [&](const std::string& why) {
    return Status(ErrorCode::kInvalidConfig, std::string(definition.name) + ": " + why);
  };
  if (definition.name == "bootstrap.servers") {
    const std::vector<std::string> servers = SplitList(value);
    if (servers.empty()) return bad("names no server");
    for (const std::string& server : servers) {
      const std::optional<HostPort> address = ParseHostPort(server, 1);
      if (!address || address->host.empty()) return bad("\"" + server + "\" is not host:port");
    }
  } else if (definition.name == "topics.include" || definition.name == "topics.exclude" ||
             definition.name == "groups.include" || definition.name == "groups.exclude") {
    return sync::NameFilter::Compile(SplitList(value)).status().WithContext(definition.name);
  } else if (definition.name == "acls.include") {
    for (const std::string& rule : SplitList(value)) {
      if (std::count(rule.begin(), rule.end(), ';') > 4)
        return bad("\"" + rule + "\" has more than five fields");
    }
  } else if (definition.name == "source.cluster.id" &&
             value.find_first_of(" \t\r\n") != std::string::npos) {
    return bad("\"" + value + "\" contains blanks");
  }
  return {};
}

}  // namespace

Status CheckMirrorConfigs(const std::map<std::string, std::string>& configs) {
  for (const auto& [key, value] : configs) {
    const MirrorConfigDefinition* definition = FindMirrorConfig(key);
    if (definition == nullptr) {
      return {ErrorCode::kInvalidConfig, key + ": unknown config of a mirror"};
    }
    if (Status s = CheckMirrorValue(*definition, value); !s.ok()) return s;
  }
  const sync::ConfigMap stored = sync::NormalizeKeys(configs);
  if (!stored.contains("bootstrap.servers")) {
    return {ErrorCode::kInvalidConfig, "bootstrap.servers: required"};
  }
  return sync::ParseMirrorTls(stored).status();
}

Status CheckMirrorName(std::string_view name) {
  const auto bad = [&](const char* why) {
    return Status(ErrorCode::kInvalidRequest, "mirror name \"" + std::string(name) + "\" " + why);
  };
  if (name.empty()) return {ErrorCode::kInvalidRequest, "the mirror name is empty"};
  if (name.size() > 249) {
    return {ErrorCode::kInvalidRequest, "the mirror name is longer than 249 characters"};
  }
  if (name == "." || name == "..") return bad("is not allowed");
  const bool plain = std::all_of(name.begin(), name.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' ||
           c == '_' || c == '-';
  });
  if (!plain)
    return {ErrorCode::kInvalidRequest, "the mirror name has a character outside [A-Za-z0-9._-]"};
  if (name.ends_with(".removed") || name.ends_with(".paused")) {
    return bad("ends in .removed or .paused, which mark stopped and paused topics");
  }
  return {};
}

namespace sync {
namespace {

// The caller has validated.
class Values {
 public:
  explicit Values(const ConfigMap& configs) : configs_(NormalizeKeys(configs)) {}

  std::string Text(std::string_view key) const { return TextOrDefault(configs_, key); }
  int64_t Number(std::string_view key) const { return ParseInt64(Text(key)).value_or(0); }
  int32_t Int(std::string_view key) const { return static_cast<int32_t>(Number(key)); }
  std::vector<std::string> List(std::string_view key) const { return SplitList(Text(key)); }
  const ConfigMap& stored() const { return configs_; }

 private:
  const ConfigMap configs_;
};

}  // namespace

ConfigMap NormalizeKeys(const ConfigMap& configs) {
  ConfigMap stored;
  for (const auto& [key, value] : configs) {
    std::string name = MirrorConfigKey(key);
    if (name == key) {
      stored[std::move(name)] = value;
    } else {
      stored.emplace(std::move(name), value);
    }
  }
  return stored;
}

std::string TextOrDefault(const ConfigMap& stored, std::string_view key) {
  if (const auto found = stored.find(std::string(key)); found != stored.end()) {
    return found->second;
  }
  const MirrorConfigDefinition* definition = FindMirrorConfig(key);
  return definition != nullptr && definition->fallback ? std::string(*definition->fallback) : "";
}

Status ValidateMirrorConfig(const ConfigMap& configs) { return CheckMirrorConfigs(configs); }

Result<fetcher::MirrorSourceConfig> ParseMirrorConfig(const std::string& mirror,
                                                      const ConfigMap& configs) {
  if (Status s = CheckMirrorConfigs(configs); !s.ok()) return s.WithContext("mirror " + mirror);
  const Values values(configs);
  fetcher::MirrorSourceConfig config;
  config.mirror = mirror;
  for (const std::string& server : values.List("bootstrap.servers")) {
    config.bootstrap.push_back(*ParseHostPort(server, 1));
  }
  config.source_cluster_id = values.Text("source.cluster.id");
  auto tls = ParseMirrorTls(values.stored());
  if (!tls.ok()) return tls.status().WithContext("mirror " + mirror);
  config.tls = std::move(*tls);
  config.fetch_wait_max_ms = values.Int("fetch.wait.max.ms");
  config.fetch_min_bytes = values.Int("fetch.min.bytes");
  config.fetch_response_max_bytes = values.Int("fetch.response.max.bytes");
  config.fetch_max_bytes = values.Int("fetch.max.bytes");
  config.fetch_buffer_bytes = values.Number("fetch.buffer.bytes");
  config.fetch_backoff_ms = values.Int("fetch.backoff.ms");
  config.request_timeout_ms = values.Int("request.timeout.ms");
  config.socket_timeout_ms = values.Int("socket.timeout.ms");
  config.socket_connection_setup_timeout_ms = values.Int("socket.connection.setup.timeout.ms");
  config.socket_receive_buffer_bytes = values.Int("socket.receive.buffer.bytes");
  config.isolation_level = values.Text("isolation.level") == "read_committed" ? 1 : 0;
  config.gap_fails = values.Text("source.gap") == "fail";
  return config;
}

Result<MirrorSettings> ParseMirrorSettings(const ConfigMap& configs) {
  if (Status s = CheckMirrorConfigs(configs); !s.ok()) return s;
  const Values values(configs);
  MirrorSettings settings;
  settings.stop_truncates = values.Text("stop.uncommitted") == "truncate";
  settings.acls_include = values.List("acls.include");
  settings.topic_properties_exclude = values.List("topic.properties.exclude");
  const auto compile = [&](std::string_view key, NameFilter* filter) {
    Result<NameFilter> compiled = NameFilter::Compile(values.List(key));
    if (compiled.ok()) *filter = std::move(*compiled);
    return compiled.status();
  };
  for (const auto& [key, filter] : {std::pair{"topics.include", &settings.topics_include},
                                    std::pair{"topics.exclude", &settings.topics_exclude},
                                    std::pair{"groups.include", &settings.groups_include},
                                    std::pair{"groups.exclude", &settings.groups_exclude}}) {
    if (Status s = compile(key, filter); !s.ok()) return s.WithContext(key);
  }
  return settings;
}

std::string ShownValue(std::string_view key, const std::string& value) {
  const MirrorConfigDefinition* definition = FindMirrorConfig(key);
  const bool secret = definition == nullptr || definition->type == ConfigType::kPassword;
  return secret ? "[hidden]" : value;
}

}  // namespace sync
}  // namespace kmirror
