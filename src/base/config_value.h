// Is this text a value of that config type? Shared by the configs of a mirror and of a broker, so
// that both refuse the same things in the same words. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "kmirror/mirror_config.h"
#include "kmirror/status.h"
#include "kmirror/types.h"

namespace kmirror {

// Whole text, surrounding blanks ignored (as Kafka trims); nullopt: no number, or beyond 64 bits.
std::optional<int64_t> ParseInt64(std::string_view text);
std::optional<double> ParseDouble(std::string_view text);
// "true" or "false", any case.
std::optional<bool> ParseBool(std::string_view text);
// Comma-separated; items trimmed, empty ones dropped.
std::vector<std::string> SplitList(std::string_view text);
std::string_view TrimBlanks(std::string_view text);
// host:port, [v6]:port; port in [min_port, 65535]. nullopt: neither.
std::optional<HostPort> ParseHostPort(std::string_view text, int32_t min_port);

// kInvalidConfig: "<name>: <what is wrong>". `choices` is a comma-separated list, "" allows any
// text; for a list every item must be one of them. The value itself is shown unless it is a
// password.
Status CheckTypedValue(std::string_view name, ConfigType type, std::string_view value, int64_t min,
                       int64_t max, std::string_view choices);

}  // namespace kmirror
