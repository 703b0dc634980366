// The version of the library that is loaded, which need not be that of the headers compiled
// against.
#pragma once

#include <string_view>

#include "kmirror/status.h"

namespace kmirror {

// "0.1.0". Before 1.0 only libraries of the same major and minor number fit one another.
// Thread-safe.
KMIRROR_API std::string_view LibraryVersion();

}  // namespace kmirror
