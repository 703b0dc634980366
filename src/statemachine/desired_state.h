// The topic config `mirror.name` (R2): which mirror owns a topic and what an operator wants of it.
#pragma once

#include <string>
#include <string_view>

#include "kmirror/mirror_partition_state.h"

namespace kmirror::statemachine {

struct Desired {
  std::string mirror;
  DesiredState state = DesiredState::kNone;
  bool operator==(const Desired&) const = default;
};

// "" (or an absent config) is no mirror; NAME, NAME.paused, NAME.removed otherwise.
Desired ParseMirrorName(std::string_view value);
// The inverse. REQUIRES: state is not kNone and the name is valid.
std::string FormatMirrorName(std::string_view mirror, DesiredState state);

// protocol.md 4.4: 1 to 249 of [A-Za-z0-9._-], not "." or "..", no suffix that means something.
Status CheckMirrorName(std::string_view mirror);

}  // namespace kmirror::statemachine
