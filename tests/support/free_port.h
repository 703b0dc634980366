// A port for a server that has to be told one, or has to find it again after a restart.
#pragma once

#include <cstdint>

namespace kmirror::test {

// A TCP port that nobody listens on at 127.0.0.1, below the range the kernel gives to outgoing
// connections. Prefer port 0 where the server can report what it got. Each call gives another one.
uint16_t FreePort();

}  // namespace kmirror::test
