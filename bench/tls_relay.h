// TLS in front of the sender of the fetch benchmarks: a process that takes TLS 1.3 and passes on
// what it carries. The sender stays what it is, and so does what it is compared with.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>

namespace bench {

struct TlsRelay {
  pid_t pid = -1;           // ends with the connection
  uint16_t port = 0;        // of 127.0.0.1
  std::string certificate;  // PEM: what the client has to trust
};

// One connection, to the listener of 127.0.0.1:`target`, on processor `cpu`. The suite is that of
// the client's first choice. Call it before other threads are started: it forks.
TlsRelay StartTlsRelay(uint16_t target, int cpu);

}  // namespace bench
