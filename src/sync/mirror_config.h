// From the configs of a mirror, as text, to what fetchers and coordinator work with.
//
// Pure. Keys may have either spelling (R25). Every value is checked again here: configs come from
// the host's metadata, which another version may have written.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "kmirror/mirror_config.h"
#include "kmirror/status.h"
#include "src/fetcher/mirror_fetching.h"
#include "src/sync/name_filter.h"

namespace kmirror::sync {

using ConfigMap = std::map<std::string, std::string>;

// Known keys in their stored spelling; unknown keys as they are. When both spellings of one key are
// given the unprefixed one wins.
ConfigMap NormalizeKeys(const ConfigMap& configs);

// What is set, else the default; "" for null. `stored`: NormalizeKeys.
std::string TextOrDefault(const ConfigMap& stored, std::string_view key);

// Every key known, every value good, bootstrap.servers there. kInvalidConfig names the key;
// kInvalidRegularExpression for a filter. Passwords are never shown.
Status ValidateMirrorConfig(const ConfigMap& configs);

// How the fetchers reach and read the source. Errors as ValidateMirrorConfig.
Result<fetcher::MirrorSourceConfig> ParseMirrorConfig(const std::string& mirror,
                                                      const ConfigMap& configs);

// What the mirror follows, and how it stops.
struct MirrorSettings {
  bool stop_truncates = false;  // R4 `stop.uncommitted` = truncate
  NameFilter topics_include;    // exclude wins
  NameFilter topics_exclude;
  NameFilter groups_include;
  NameFilter groups_exclude;
  std::vector<std::string> acls_include;  // rules `type;name;operation;permission;principal`
  std::vector<std::string> topic_properties_exclude;

  bool WantsTopic(std::string_view name) const {
    return topics_include.Matches(name) && !topics_exclude.Matches(name);
  }
  bool WantsGroup(std::string_view name) const {
    return groups_include.Matches(name) && !groups_exclude.Matches(name);
  }
};
Result<MirrorSettings> ParseMirrorSettings(const ConfigMap& configs);

// A config as it may be shown: "[hidden]" for passwords.
std::string ShownValue(std::string_view key, const std::string& value);

}  // namespace kmirror::sync
