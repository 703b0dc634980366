// From the `ssl.*` configs of a mirror to the TLS options of its connections. Pure: files are named
// here and read where connections are made.
#pragma once

#include <memory>

#include "kmirror/status.h"
#include "src/fetcher/transport.h"
#include "src/sync/mirror_config.h"

namespace kmirror::sync {

// `stored`: configs in their stored spelling (NormalizeKeys). Null when `security.protocol` is
// PLAINTEXT: the other keys say nothing then. kInvalidConfig names the key; no content of a key,
// certificate or password is part of the text.
Result<std::shared_ptr<const fetcher::TlsOptions>> ParseMirrorTls(const ConfigMap& stored);

}  // namespace kmirror::sync
