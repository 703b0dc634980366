#include "kmirror/version.h"

namespace kmirror {

std::string_view LibraryVersion() { return KMIRROR_VERSION; }

}  // namespace kmirror
