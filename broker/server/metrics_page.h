// The text of `/metrics`: the broker's own counters, the logs' positions, the process, the library.
#pragma once

#include <string>

#include "broker/server/services.h"
#include "broker/server/socket_server.h"

namespace kmirror::broker {

// Prometheus text format 0.0.4. Any thread. Names and meanings are in docs/operations.md.
std::string RenderMetrics(const Services& services, const SocketServer& sockets);

}  // namespace kmirror::broker
