#include "broker/mirror_host/kill_for_test.h"

#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <string>

namespace kmirror::broker {

std::function<void(std::string_view step, bool after)> KillForTest() {
  const char* text = std::getenv("KMIRROR_TEST_KILL_AT");
  if (text == nullptr || *text == 0) return nullptr;
  const std::string at(text);
  return [at](std::string_view step, bool after) {
    if (at == std::string(step) + (after ? ":after" : ":before")) kill(getpid(), SIGKILL);
  };
}

}  // namespace kmirror::broker
