// For tests that kill the broker at a durable step of a start, pause, resume or stop.
#pragma once

#include <functional>
#include <string_view>

namespace kmirror::broker {

// KMIRROR_TEST_KILL_AT=STEP:before or STEP:after in the environment: a hook that sends this process
// SIGKILL there. Otherwise empty. STEP is a name of src/coordinator/steps.h.
std::function<void(std::string_view step, bool after)> KillForTest();

}  // namespace kmirror::broker
