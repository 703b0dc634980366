// The one way from a mirror's configs to the options of a connection to its source. Fetchers and
// the client for control requests both come through here, to whatever address metadata names, so
// that no connection can miss that the mirror asks for TLS.
#pragma once

#include <chrono>
#include <string>
#include <utility>

#include "src/fetcher/mirror_fetching.h"
#include "src/fetcher/transport.h"

namespace kmirror::fetcher {

inline ConnectionOptions SourceConnection(const MirrorSourceConfig& config, HostPort endpoint,
                                          std::string client_id) {
  ConnectionOptions options;
  options.endpoint = std::move(endpoint);
  options.client_id = std::move(client_id);
  options.connect_timeout = std::chrono::milliseconds(config.socket_connection_setup_timeout_ms);
  options.ready_timeout = std::chrono::milliseconds(config.socket_timeout_ms);
  options.tls = config.tls;
  return options;
}

}  // namespace kmirror::fetcher
