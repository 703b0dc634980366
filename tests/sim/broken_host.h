// The broker's seam with one thing broken on purpose. A check that never fails checks nothing:
// each of these must be found within a few seeds.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "kmirror/host/host.h"

namespace kmirror::sim {

enum class Breakage {
  kNone,
  kLyingSync,        // the disk answers OK to a sync and keeps nothing
  kForgetsTruncate,  // a truncation answers OK and does nothing
  kForgetsReset,     // so does the append of a reset
  kForgetsAbort,     // so does the append of an ABORT marker
  kOpensEarly,       // clients may write as soon as somebody asks for a closed barrier
  kChangesByte,      // a byte of a mirrored batch is another one
  kDropsBatch,       // the second batch of a set is not appended
  kClaimsEnd,        // shown offsets run ahead of the log
};

// Between the library and the logs of the host. `inner` outlives it.
class BrokenLogs final : public host::Logs {
 public:
  BrokenLogs(host::Logs* inner, Breakage breakage) : inner_(inner), breakage_(breakage) {}
  std::shared_ptr<host::PartitionLog> Find(const TopicIdPartition& partition) override;

 private:
  host::Logs* const inner_;
  const Breakage breakage_;
};

}  // namespace kmirror::sim
