// Mirror::Create with another way to reach the source: the whole library, nothing in it a fake.
#pragma once

#include <memory>

#include "kmirror/mirror.h"
#include "src/fetcher/transport.h"

namespace kmirror {

std::unique_ptr<Mirror> CreateMirrorOver(std::shared_ptr<fetcher::Transport> transport,
                                         const host::Host& host, const Options& options);

}  // namespace kmirror
