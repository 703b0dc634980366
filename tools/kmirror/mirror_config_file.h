// Mirror configs from a properties file and from --config options.
#pragma once

#include <map>
#include <string>
#include <string_view>

#include "kmirror/status.h"

namespace kmirror::tools {

using Configs = std::map<std::string, std::string>;

// `text` of a Java-like properties file: "key=value" or "key: value" a line, # and ! comments.
// kUsage says `name`:line and what is wrong there. A later line wins over an earlier one of the
// same key.
Result<Configs> ParseProperties(std::string_view text, const std::string& name);
// kUsage when it cannot be read.
Result<Configs> ReadProperties(const std::string& path);
// "K=V".
Result<std::pair<std::string, std::string>> ParseConfig(const std::string& text);

}  // namespace kmirror::tools
