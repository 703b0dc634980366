// A program of somebody who installed kmirror: uses the public headers and the shared library
// alone.
#include <cstdio>

#include "kmirror/status.h"
#include "kmirror/types.h"
#include "kmirror/version.h"

int main() {
  kmirror::Uuid id;
  id.bytes[15] = 1;
  const auto parsed = kmirror::Uuid::Parse(id.ToString());
  if (!parsed || *parsed != id) return 1;
  if (kmirror::ErrorName(kmirror::ErrorCode::kOffsetOutOfRange) != "OFFSET_OUT_OF_RANGE") return 2;
  std::printf("kmirror %s\n", std::string(kmirror::LibraryVersion()).c_str());
  return kmirror::LibraryVersion().starts_with("0.1.") ? 0 : 3;
}
